"""Parts of the system, for policies."""

from __future__ import annotations

import pytest

from harness.claims.catalogue import load
from harness.report.parts import PARTS, part_of


@pytest.mark.parametrize(
    ("claim", "part"),
    [
        ("cuda-runs", "gpu"),
        ("vfio-bound", "gpu"),
        ("modules-live", "modules"),
        ("render-no-kernel-block", "modules"),
        ("csi-clone", "images"),
        ("disk-shape", "images"),
        ("drbd-quorum", "storage"),
        ("disk-failover", "storage"),
        ("headroom", "workers"),
        ("module-flavour", "modules"),
        ("node-joins", "workers"),
        ("uptime", "workers"),
    ],
)
def test_a_claim_is_of_one_part(claim: str, part: str) -> None:
    assert part_of(load()[claim]) == part


def test_every_claim_has_a_part_and_every_part_claims() -> None:
    assert {part_of(claim) for claim in load().values()} == set(PARTS)
