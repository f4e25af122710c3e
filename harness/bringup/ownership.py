"""What marks an object as made by a run."""

from __future__ import annotations

from collections.abc import Mapping


def selector(labels: Mapping[str, str]) -> str:
    """Selects objects that have all these labels."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


MANAGED = {"app.kubernetes.io/managed-by": "hil"}
OURS = selector(MANAGED)
"""Selects by label what runs made."""
OWNER_LABELS = {**MANAGED, "hil.dev/pool": "held-by-lease"}
"""What marks a pool as made by a run. They name no run: the Lease says whose it is now."""
