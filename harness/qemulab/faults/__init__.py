"""What can be made to go wrong in the mini-lab: each fault one edit to the real guests."""
