"""What marks an object as made by a run."""

from __future__ import annotations

MANAGED = {"app.kubernetes.io/managed-by": "hil"}
OURS = ",".join(f"{key}={value}" for key, value in MANAGED.items())
"""Selects by label what runs made."""
OWNER_LABELS = {**MANAGED, "hil.dev/pool": "held-by-lease"}
"""What marks a pool as made by a run. They name no run: the Lease says whose it is now."""
