"""hil: hardware-in-the-loop end-to-end tests for Cozystack tenant Kubernetes clusters."""
