"""What happens in the simulated lab: controllers and guests on virtual time."""
