"""Runs as evidence, made in memory: what each says of claims on one pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.claims.catalogue import load
from harness.report.ledger import LedgerView
from harness.report.merged import Run, evidence
from harness.report.policy import Policy, Requirement
from harness.report.records import Record
from harness.report.release import Decision, decide
from harness.report.rundir import RunInfo
from harness.report.substrate import Substrate

DAY = 86400.0
NOW = 100 * DAY
SUBJECT = "Cozystack v1.7.0"
A, B, C = "passthrough", "cuda-runs", "uptime"
ADDONS: Mapping[str, Any] = {"kind": "Addons", "override": [], "hami": None}
CARDS: Mapping[str, Any] = {"kind": "PciCards", "cards": [{"vendor": "10de", "device": "26b9"}]}


def platform(version: str, reason: str = "") -> Mapping[str, Any]:
    """What a cluster told of the platform that is installed on it."""
    return {"kind": "PlatformVersion", "version": version, "sources": [], "reason": reason}


def records(
    says: Mapping[str, str],
    hardware: str,
    pool: str,
    facts: Sequence[Mapping[str, Any]],
    more: Sequence[Mapping[str, Any]] = (),
) -> tuple[Record, ...]:
    lines: list[tuple[str, dict[str, Any]]] = []
    planned = [claim for claim, outcome in says.items() if outcome != "not-established"]
    plan = {"record": "planned", "scenario": "s", "pool": pool, "claims": planned}
    lines.append(("plan", plan | ({"hardware": hardware} if hardware else {})))
    for number, given in enumerate([{"kind": "Seen"}, *facts], start=1):
        values = {
            key: value for key, value in given.items() if key not in ("kind", "raw", "source")
        }
        lines.append(
            (
                f"pool-{pool}",
                {
                    "record": "fact",
                    "id": f"f{number}",
                    "kind": given["kind"],
                    "at": "2026-01-01T00:00:00Z",
                    "source": given.get("source", "somewhere"),
                    "values": values,
                    "raw": given.get("raw", ""),
                },
            )
        )
    for claim, outcome in says.items():
        said = {"claim": claim, "pool": pool}
        if outcome == "not-established":
            line = said | {"record": "not-established", "pool": "", "why": "the lab lacks it"}
            lines.append(("plan", line))
        else:
            line = said | {"record": "verdict", "subject": pool, "outcome": outcome}
            line |= {"because": f"{claim} was seen to be {outcome}", "scenario": "s"}
            lines.append((f"pool-{pool}", line | {"facts": ["f1"], "at": "2026-01-01T00:00:00Z"}))
    lines += [(f"pool-{pool}", dict(one)) for one in more]
    return tuple(
        Record(line["record"], shard, number, line)
        for number, (shard, line) in enumerate(lines, start=1)
    )


def run(
    run_id: str,
    says: Mapping[str, str],
    *,
    hardware: str = "L40S",
    pool: str = "gpu",
    facts: Sequence[Mapping[str, Any]] = (ADDONS, CARDS),
    more: Sequence[Mapping[str, Any]] = (),
    merged: bool = True,
    days_ago: float = 1.0,
    signed_sha256: str = "",
    **info: Any,
) -> Run:
    ended = NOW - days_ago * DAY
    fields: dict[str, Any] = {
        "lab": "lab",
        "lane": "hardware",
        "started": ended - 100,
        "ended": ended,
        "kind": "cluster",
        "subject": SUBJECT,
        "exit": 0,
    }
    digest = sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
    view = LedgerView(records(says, hardware, pool, facts, more), (), digest, merged)
    about = RunInfo(run_id=run_id, **(fields | info))
    return evidence(Path(run_id), about, view, signed_sha256=signed_sha256)


def need(claim: str, hardware: str = "L40S", **more: Any) -> Requirement:
    fields: dict[str, Any] = {
        "policy": "p",
        "title": "a line",
        "substrates": (Substrate.CLUSTER,),
        "max_age": 14 * DAY,
        "defaults": False,
    }
    return Requirement(claim, hardware, **(fields | more))


def policy(*needs: Requirement, **more: Any) -> Policy:
    fields: dict[str, Any] = {
        "name": "p",
        "description": "What is needed.",
        "release": True,
        "requirements": needs,
        "identity": (),
        "waivable": frozenset(),
    }
    return Policy(**(fields | more))


def judged(wanted: Policy, *runs: Run, **more: Any) -> Decision:
    return decide(wanted, runs, now=NOW, **more)


CLAIMS = load()
