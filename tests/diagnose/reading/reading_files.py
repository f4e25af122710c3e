"""Folders for tests of the reading: files with a text each, and what the reading made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.diagnose.case import Case, Thing
from harness.diagnose.reading import read_folder

CAPTURES = Path(__file__).with_name("captures")
"""What kubectl 1.32 printed of a twin: management-*, tenant-*, and a transcript of a terminal."""

REAL = Path(__file__).resolve().parents[3] / "../shared/lab/captures"
"""Captures of real guests: kernels, consoles, DRBD, modules; beside the repository, if at all."""


def folder(tmp_path: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return tmp_path


def read(tmp_path: Path, files: Mapping[str, str | bytes]) -> Case:
    return read_folder(folder(tmp_path, files))


def one(case: Case) -> Thing:
    assert len(case.objects) == 1, case
    return case.objects[0]


def whys(case: Case) -> str:
    return "\n".join(f"{one.source}: {one.why}" for one in case.unused)


def within(part: Any, whole: Any) -> bool:
    """Whether all that a part says, the whole says too, in lists from their beginning."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and within(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(part) <= len(whole)
            and all(within(*pair) for pair in zip(part, whole, strict=False))
        )
    return bool(part == whole)
