"""A run while it goes on: what its processes write of themselves, and who reads it."""
