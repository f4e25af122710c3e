"""The states of standing pools in a file, from one run to a later one.

A platform upgrade lies between the two runs, so that nothing else can carry them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.facts.fact import Unread
from harness.facts.poolstate import PoolState, read_state, to_json
from harness.report.atomic import write_bytes
from harness.session.mistake import UserMistake

KIND = "hil states"
SCHEMA = 1
FOLDER = "states"
"""Below the run's folder: a state for each pool that stood already."""


def check_writable(path: Path) -> None:
    """Raise UserMistake unless a file can be made there; one that is there is not replaced: it may
    be what an upgrade is to be compared with.
    """
    if path.exists():
        raise UserMistake(f"--save-state {path}: it is there already; name another file")
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UserMistake(f"--save-state {path}: {folder} is no folder that can be written to")


def keep(run: Path, pool: str, state: PoolState) -> None:
    """Put a pool's state into the run's own folder, as soon as it is there. Raises OSError."""
    write_bytes(run / FOLDER / f"{pool}.json", to_json(state).encode())


def publish(run: Path, path: Path, lab: str, run_id: str) -> tuple[str, ...]:
    """Join what a run kept into the file that was asked for; the pools in it, none: no file is
    written. Raises OSError.
    """
    kept = sorted((run / FOLDER).glob("*.json"))
    pools = {one.stem: json.loads(one.read_text(encoding="utf-8")) for one in kept}
    if pools:
        written = {"kind": KIND, "schema": SCHEMA, "lab": lab, "run": run_id, "pools": pools}
        write_bytes(path, (json.dumps(written, indent=1, sort_keys=True) + "\n").encode())
    return tuple(pools)


def read(path: Path, lab: str) -> dict[str, PoolState]:
    """The states that a run of this lab recorded. Raises UserMistake, which says what is wrong."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as refused:
        raise UserMistake(f"--against {path}: {refused.strerror}") from refused
    except ValueError as error:
        raise UserMistake(f"--against {path}: no JSON ({error})") from error
    pools = _pools(path, found, lab)
    return {name: _state(path, name, state) for name, state in pools.items()}


def _pools(path: Path, found: Any, lab: str) -> Mapping[str, Any]:
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UserMistake(f"--against {path}: no file that --save-state wrote")
    if found.get("schema") != SCHEMA:
        raise UserMistake(
            f"--against {path}: schema {found.get('schema')!r}, this hil reads {SCHEMA}; record "
            "the state anew with it"
        )
    if found.get("lab") != lab:
        raise UserMistake(f"--against {path}: recorded in lab {found.get('lab')}, this is {lab}")
    pools = found.get("pools")
    if not isinstance(pools, dict) or not pools:
        raise UserMistake(f"--against {path}: no pool in it")
    return pools


def _state(path: Path, pool: str, state: Any) -> PoolState:
    text = json.dumps(state, indent=1, sort_keys=True) + "\n"
    read_back = read_state(text, at=0.0, source=f"{path.name} pool {pool}")
    if isinstance(read_back, Unread):
        raise UserMistake(f"--against {path}: pool {pool}: {read_back.reason}")
    return read_back
