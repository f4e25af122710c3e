"""Runs that are kept: found by folder or by id, and listed."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from harness.report.ledger import LEDGER, SHARDS


class Mistake(Exception):
    """What was asked cannot be done; the message says why and what can."""


def folder(run: str, out: Path) -> Path:
    """The folder of a run that is named by its folder, or by its id among those kept in ``out``.

    Mistake, with the nearest id, where there is none.
    """
    for found in (Path(run), out / run):
        try:
            if holds_a_run(found):
                return found
        except OSError as refused:
            raise Mistake(f"{found}: {refused.strerror}") from refused
    if (out / run / "run.json").is_file():
        raise Mistake(f"{run}: the run in {out / run} has not planned yet, or never did")
    near = get_close_matches(run, [one.name for one in runs(out)], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise Mistake(f"{run}: no folder of a run, and no run of that name in {out}{hint}")


def holds_a_run(found: Path) -> bool:
    """Whether a folder has a ledger, or a shard; a run that ended before it wrote any has none."""
    return (found / LEDGER).is_file() or any((found / SHARDS).glob("*.jsonl"))


def runs(out: Path) -> list[Path]:
    """The folders of all runs kept in ``out``, by name, each once; `latest` is a link and none.

    Mistake where ``out`` is no place that can be looked at.
    """
    try:
        found = [path.parent for path in out.glob("*/run.json")]
    except OSError as refused:
        raise Mistake(f"{out}: {refused.strerror}") from refused
    return sorted(one for one in found if not one.is_symlink())
