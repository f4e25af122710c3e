"""The catalogue of faults: each one edit to the world."""
