"""With a fault planted, what a failure's evidence says is what `hil diagnose` says of that lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.ranking import diagnose
from harness.diagnose.reading import read_folder
from tests.evidence.held import both


@pytest.mark.parametrize(
    ("faults", "pool", "named"),
    [
        ("no-modules-block", "gpu-l40s", ("chart-renders-no-modules",)),
        ("hr-ready-no-workers", "plain", ("cluster-paused",)),
        (
            "apid-port-50001-missing drbd-replica-missing",
            "plain",
            ("port-50001-missing", "replica-missing"),
        ),
    ],
)
def test_evidence_and_look_name_the_same(
    tmp_path: Path, faults: str, pool: str, named: tuple[str, ...]
) -> None:
    found = both(tmp_path, tuple(faults.split()), pool)
    assert sorted(found.by_evidence) == sorted(named)
    assert sorted(found.by_look) == sorted(named)
    # the folder is one of captures, and a second failure refers to it
    by_folder = diagnose(read_folder(found.folder))
    assert set(named) <= {one.cause.id for one in by_folder.named}
    assert found.manifest["score"]["share"] > 0.9
    assert not (found.folder.parent / f"again--{pool}" / "machines").exists()


def test_a_pool_that_is_refused_leaves_evidence_of_its_lab(tmp_path: Path) -> None:
    found = both(tmp_path, ("golden-absent",), "cloned")
    assert found.by_evidence == found.by_look
    assert any("DataVolume" in one["name"] for one in found.manifest["items"])
