"""What is asserted of a lab, one scenario for each thing worth knowing."""
