"""Bug reports as people attach them, in mixed forms, one for each side of each pair of faults that
are easily taken for each other. The folder's name says what is to be found: a cause, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.findings import Standing
from harness.diagnose.ranking import diagnose
from harness.diagnose.reading import read_folder

FOLDERS = sorted(path for path in Path(__file__).with_name("folders").iterdir() if path.is_dir())
PAIRS = (
    ("nvidia-image-without-card", "port-50001-missing"),
    ("nvidia-image-without-card", "out-of-memory"),
    ("replaced-by-health-check", "nvidia-image-without-card"),
    ("host-or-launcher-restarted", "nvidia-image-without-card"),
    ("chart-renders-no-modules", "image-without-nvidia"),
    ("chart-renders-no-modules", "modules-list-empty"),
    ("image-without-nvidia", "modules-list-empty"),
    ("chart-renders-no-modules", "proprietary-modules-on-blackwell"),
    ("cards-by-envvar", "pod-older-than-plugin"),
    ("plugin-env-replaced", "operator-brings-driver"),
    ("golden-import-retrying", "golden-absent"),
    ("accepted-not-applied", "template-immutable"),
    ("cards-exhausted", "card-name-mismatch"),
)
ALONE = (
    "clone-fell-back-to-copy",
    "console-log-wedged",
    "disk-of-one-node",
    "nested-host-without-vgif",
    "quorum-lost",
    "startup-timeout-too-short",
    "wrong-image-platform",
)
NONE = {
    "none-slow-csi-clone": "clone-fell-back-to-copy",
    "none-card-is-not-migratable": "disk-of-one-node",
    "none-guest-hangs": "quorum-lost",
    "none-vgif-on-bare-metal": "nested-host-without-vgif",
}
# the separator is what a new pod does, and no capture holds that
UNDECIDED = ("pod-older-than-plugin",)


def test_there_is_a_folder_for_each_side_of_each_pair() -> None:
    named = {name for pair in PAIRS for name in pair} | {*ALONE, *NONE}
    assert {path.name for path in FOLDERS} == named


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_bug_report_is_told_from_what_it_is_taken_for(folder: Path) -> None:
    found = diagnose(read_folder(folder))
    named = {one.cause.id for one in found.named}
    possible = {one.cause.id for one in found.of(Standing.POSSIBLE)}
    name = folder.name
    if name in NONE:
        assert NONE[name] not in named | possible
    elif name in UNDECIDED:
        assert name in possible
    else:
        assert name in named
    others = {other for pair in PAIRS for other in pair if name in pair} - {name}
    assert not others & named
