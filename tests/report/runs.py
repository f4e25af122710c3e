"""Small runs on several substrates, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.ledger import Ledger, merge
from harness.report.rundir import RunInfo

TWIN, MINI, CLUSTER = "twin", "qemu", "cluster"
PROC = "guest n1:/proc/modules"
TABLE = "nvidia 16384 0 - Live 0xffffffffc0314000 (OE)\n"


def seen(kind: str = "Table", source: str = PROC, raw: str = TABLE, **values: Any) -> Fact:
    """A fact of any kind; two of one kind may have other values."""
    names = [(name, type(value)) for name, value in values.items()]
    made: type[Fact] = make_dataclass(kind, names, bases=(Fact,), frozen=True)
    fact: Fact = made(Origin(1.0, source, raw), **values)
    return fact


class Run:
    """A run that is written claim by claim and then closed."""

    def __init__(self, out: Path, kind: str, **more: Any) -> None:
        self.folder = out / more.pop("run_id", f"run-{kind}")
        fields = {"lab": f"lab-{kind}", "lane": "", "started": 1.0, "ended": 2.0, "kind": kind}
        info = RunInfo(run_id=self.folder.name, **(fields | more))
        self.folder.mkdir(parents=True)
        info.write(self.folder / "run.json")
        self.plan, self.pool = (Ledger(self.folder, name) for name in ("plan", "pool-p"))

    def says(
        self, claim: str, outcome: str = "holds", facts: Sequence[Fact] | None = None, **more: str
    ) -> Run:
        because = more.get("because", f"{claim} was seen to be {outcome}")
        given = tuple((seen(),) if facts is None else facts)
        verdict = Verdict(claim, "guest n1", Outcome(outcome), because, given)
        self.pool.verdict(verdict, scenario="s", pool=more.get("pool", "p"), at=1.0)
        return self

    def lacks(self, claim: str, why: str) -> Run:
        self.plan.not_established(claim, "", why)
        return self

    def plans(self, claim: str) -> Run:
        self.plan.planned("s", "p", [claim])
        return self

    def end(self) -> Path:
        self.plan.close()
        self.pool.close()
        merge(self.folder, ["plan", "pool-p"])
        return self.folder
