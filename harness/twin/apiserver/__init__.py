"""A small Kubernetes API server: store, watch, patch, selectors, exec."""
