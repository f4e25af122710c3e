"""The twin: a simulated lab behind a real Kubernetes API, on virtual time."""
