"""The short names by which a policy asks for the claims of a part of the system."""

from __future__ import annotations

from collections.abc import Mapping

from harness.claims import parts
from harness.claims.catalogue import Claim

PARTS: Mapping[str, tuple[str, ...]] = {
    "gpu": ("A card in a tenant",),
    "modules": ("Kernel modules",),
    "images": ("Disks and images",),
    "storage": ("Replicated storage",),
    "workers": ("A worker joins", "A worker stays up", "Change without surprise"),
}
"""Every part, with the epics of ``claims/parts.toml`` that it covers."""


def part_of(claim: Claim) -> str:
    """One of PARTS; "" for a claim whose epic no part covers, which a test holds to none."""
    epic = parts.part_of(claim.id).epic
    return next((name for name, epics in PARTS.items() if epic in epics), "")
