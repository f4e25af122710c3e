"""Figures of docs/performance.md: each module is a command that prints what it measures."""
