from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.ledger import Ledger

START = 1767225600.0


@dataclass(frozen=True, slots=True)
class Modules(Fact):
    names: tuple[str, ...]
    detail: Any = None


@pytest.fixture
def fact() -> Callable[..., Fact]:
    def make(
        *names: str,
        at: float = START,
        source: str = "guest hil-gpu-x7k2p:/proc/modules",
        raw: str | None = None,
        detail: Any = None,
    ) -> Fact:
        text = "".join(f"{name} 1 0 - Live 0x0\n" for name in names) if raw is None else raw
        return Modules(Origin(at, source, text), names, detail)

    return make


@pytest.fixture
def verdict(fact: Callable[..., Fact]) -> Callable[..., Verdict]:
    def make(claim: str, outcome: str = "holds", because: str = "as seen", **more: Any) -> Verdict:
        subject = more.pop("subject", "node hil-gpu-x7k2p")
        facts = more.pop("facts", (fact(claim),))
        return Verdict(claim, subject, Outcome(outcome), because, facts)

    return make


@pytest.fixture
def written(tmp_path: Path, verdict: Callable[..., Verdict]) -> Path:
    """A run of two pools in which each outcome occurs."""
    with Ledger(tmp_path, "plan") as plan:
        plan.planned("modules", "gpu-l40s", ["modules-live", "nvlink-param"], hardware="L40S")
        plan.planned("modules", "gpu-gb202", ["modules-live", "nvlink-param"], hardware="GB202")
        plan.planned("join", "gpu-l40s", ["node-joins"], hardware="L40S")
        plan.not_established("passthrough", "gpu-h100", "the lab has no H100", hardware="H100")
        plan.not_run("join", "gpu-l40s", ["node-joins"], "no card free")
    with Ledger(tmp_path, "gpu-l40s") as pool:
        for claim, outcome in {"modules-live": "holds", "nvlink-param": "broken"}.items():
            given = verdict(claim, outcome, f"{claim} was seen to be {outcome}")
            pool.verdict(given, scenario="modules", pool="gpu-l40s", at=START + 60)
        pool.end("modules", "failed", pool="gpu-l40s")
    with Ledger(tmp_path, "gpu-gb202") as pool:
        given = verdict("modules-live", "unknown", "/proc/modules was cut", facts=())
        pool.verdict(given, scenario="modules", pool="gpu-gb202", at=START + 61)
    return tmp_path
