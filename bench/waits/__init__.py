"""The comparison of how tools wait for Kubernetes state: `python -m bench.waits --help`."""
