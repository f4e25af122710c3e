"""Getting bytes from a machine: API, watch, exec, shell, lease. Knows nothing of GPUs."""
