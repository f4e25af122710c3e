"""Trials of a replicated volume: things that are provoked on it and undone, each giving a fact."""
