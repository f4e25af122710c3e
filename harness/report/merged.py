"""Runs put together as evidence: what each says of a claim on a kind of hardware, and what of it
counts for what a policy needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.report.identity import Seen, identity, pci_ids, pool_of
from harness.report.ledger import LedgerView, read
from harness.report.outcome import FAILING, Row, Standing, Summary, summarise
from harness.report.policy import Requirement
from harness.report.records import DESELECTED, KILLED, Record, rfc3339
from harness.report.rundir import RunInfo, read_run
from harness.report.substrate import Substrate, substrate_of

INTERRUPTED = 130
HARNESS_ERROR = 70
ANOTHER_LEDGER = "its ledger is not the one that its own sign-off was made of"
_SKEW = 3600.0
"""Seconds by which a run may end after now: clocks of two machines differ."""


_NOWHERE = "*"
"""The hardware of what is said of no pool in particular."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run as evidence.

    ``rows_by_key`` are its rows by claim and hardware; ``flaws`` say why nothing in it can count,
    whatever is asked; ``own_values`` are the pools with values of somebody's own, and which (""
    for all pools); of the pools in ``told`` it is recorded whether there were any.
    """

    folder: Path
    info: RunInfo
    view: LedgerView
    summary: Summary
    identity: tuple[Seen, ...]
    flaws: tuple[str, ...]
    own_values: Mapping[str, str]
    told: frozenset[str]
    rows_by_key: Mapping[tuple[str, str], tuple[Row, ...]]

    @property
    def id(self) -> str:
        """The run's name."""
        return self.info.run_id

    @property
    def substrate(self) -> Substrate:
        """What it was made on."""
        return substrate_of(self.info.kind)

    @property
    def ended(self) -> float:
        """When it ended, in epoch seconds; its beginning where no end is recorded."""
        return self.info.started if self.info.ended is None else self.info.ended

    @property
    def installed(self) -> tuple[str, ...]:
        """The platforms that its ledger read, each once ("Cozystack v1.7.0")."""
        return tuple(one.value for one in self.identity if one.item == "platform" and one.known)

    @property
    def unread(self) -> tuple[Seen, ...]:
        """What it asked of itself and could not read, with why."""
        return tuple(one for one in self.identity if not one.known)

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Claim and hardware of all that it says of pools."""
        return tuple(key for key in self.rows_by_key if key[1] != _NOWHERE)

    def rows(self, claim: str, hardware: str) -> tuple[Row, ...]:
        """What it says of a claim on pools with that hardware, and on no pool in particular."""
        found = (self.rows_by_key.get((claim, where), ()) for where in (hardware, _NOWHERE))
        return tuple(row for rows in found for row in rows)


def read_evidence(folders: Iterable[Path]) -> tuple[Run, ...]:
    """The runs in these folders, each once, in the order of their ends and names: so that no
    order in which they are named matters. LedgerError where one cannot be read.
    """
    unique = {folder.resolve(): folder for folder in folders}
    runs = {_twin_key(run): run for run in map(read_one, unique.values())}
    return tuple(sorted(runs.values(), key=lambda run: (run.ended, run.id)))


def _twin_key(run: Run) -> tuple[str, str, str]:
    """A copy of a run is the same run; one that says something else of itself is none."""
    told = replace(run.info, evidence={})  # counted from the ledger, by `hil report` too
    return run.id, run.view.sha256, repr(told)


def read_one(folder: Path) -> Run:
    """The run in a folder. LedgerError where it cannot be read."""
    view, info = read(folder), read_run(folder / "run.json")
    signed = folder / "signoff.json"
    another = changed_since(info, signed)
    return evidence(folder, info, view, signed_sha256=signed_sha256(signed), changed=another)


def evidence(
    folder: Path,
    info: RunInfo,
    view: LedgerView,
    *,
    signed_sha256: str = "",
    changed: Sequence[str] = (),
) -> Run:
    """A run as evidence; ``signed_sha256`` is the digest in its own sign-off, "" without one, and
    ``changed`` what its `run.json` tells otherwise than that sign-off.
    """
    summary = summarise(view)
    flaws = list(_flaws(info, view, summary))
    if signed_sha256 not in ("", view.sha256):
        flaws.append(ANOTHER_LEDGER)
    if changed:
        told = ", ".join(changed)
        flaws.append(f"its run.json is not the one that its own sign-off was made of: {told}")
    return Run(
        folder,
        info,
        view,
        summary,
        identity(view, info),
        tuple(flaws),
        dict(_own_values(view)),
        frozenset(pool_of(one) for one in view.of("fact") if _tells_overrides(one)),
        _by_key(summary),
    )


def _by_key(summary: Summary) -> dict[tuple[str, str], tuple[Row, ...]]:
    found: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in summary.rows:
        key = row.claim, row.hardware if row.pool else _NOWHERE
        found[key] = (*found.get(key, ()), row)
    return found


def signed_sha256(path: Path) -> str:
    """The ledger's digest in a run's own sign-off; "" where there is none that can be read."""
    told = _block(path, "ledger").get("sha256")
    return told if isinstance(told, str) else ""


def changed_since(info: RunInfo, path: Path) -> tuple[str, ...]:
    """The fields in which `run.json` says another thing than the run's own sign-off at ``path``
    does. What that does not say, an end that it did not see included, is none.
    """
    now = {key: getattr(info, key) for key in _OF_RUN}
    now["started"] = rfc3339(round(info.started))
    now["ended"] = "" if info.ended is None else rfc3339(round(info.ended))
    then = _block(path, "run")
    told = [key for key in now if key in then and (then[key] or key != "ended")]
    return tuple(key for key in told if then[key] != now[key])


_OF_RUN = ("lab", "lane", "kind", "subject", "fault", "inventory_sha256")
"""What `run.json` says of a run from its beginning on."""


def _block(path: Path, name: str) -> Mapping[str, Any]:
    """A part of a sign-off; empty where there is none that can be read."""
    try:
        data: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def age_of(run: Run, now: float) -> float:
    """Seconds since it ended; below zero where it ends after ``now`` by more than clocks differ."""
    age = now - run.ended
    return age if age < -_SKEW else max(0.0, age)


def discounts(run: Run, need: Requirement, now: float) -> Iterator[str]:
    """Why what this run says does not count for what is needed; none: it counts."""
    yield from run.flaws
    if run.substrate not in need.substrates:
        yield f"its substrate is {run.substrate}, and {_either(need.substrates)} is needed"
    if need.lanes and run.info.lane not in need.lanes:
        yield f"its lane is {run.info.lane or 'none'}, and {' or '.join(need.lanes)} is needed"
    age = age_of(run, now)
    if age < 0:
        yield "it ends in the future"
    elif age > need.max_age:
        yield f"it is stale: {days(age)} old, and {days(need.max_age)} are allowed"


def row_discounts(run: Run, row: Row, need: Requirement) -> Iterator[str]:
    """Why one pool's evidence does not count, though its run does."""
    if need.pci and row.pool:
        seen = pci_ids(run.view, row.pool)
        if not seen:
            yield f"no PCI id is recorded of the cards of {row.pool}"
        elif not set(seen) <= set(need.pci):
            yield f"the cards of {row.pool} are {', '.join(seen)}, not {' or '.join(need.pci)}"
    if need.defaults:
        yield from _not_the_default(run, row, need)


def _not_the_default(run: Run, row: Row, need: Requirement) -> Iterator[str]:
    for pool in ("", row.pool):
        if pool in run.own_values:
            yield f"not the default: {run.own_values[pool]}"
    if need.hardware and row.pool and not run.told & {row.pool, ""}:
        yield f"whether values were overridden is not recorded of {row.pool}"


def standing(rows: Sequence[Row]) -> Row | None:
    """The worst of what one run says on several pools; that a lab lacks something hides behind
    whatever was asked.
    """
    order = list(Standing)
    asked = [row for row in rows if row.outcome is not Standing.NOT_ESTABLISHED] or list(rows)
    return min(asked, key=lambda row: order.index(row.outcome), default=None)


def days(seconds: float) -> str:
    """A time as people say it: "3 days", "5 hours"."""
    number, unit = (seconds / 86400, "day") if seconds >= 2 * 86400 else (seconds / 3600, "hour")
    whole = round(number)
    return f"{whole} {unit}{'s' * (whole != 1)}"


def joined(runs: Sequence[Run]) -> LedgerView:
    """One view over several ledgers; shards and pools are told apart by their runs."""
    records = tuple(_of_run(record, run) for run in runs for record in run.view.records)
    unreadable = tuple(line for run in runs for line in run.view.unreadable)
    return LedgerView(records, unreadable, "", merged=all(run.view.merged for run in runs))


def _of_run(record: Record, run: Run) -> Record:
    pool = record.text("pool")
    data = {**record.data, "pool": f"{pool} of {run.id}"} if pool else record.data
    return replace(record, shard=f"{record.shard} of {run.id}", data=data)


def _flaws(info: RunInfo, view: LedgerView, summary: Summary) -> Iterator[str]:
    """A fault on purpose, a ledger that is not whole, a run that did not come to its end."""
    if info.fault:
        yield f"a fault was planted in it: {info.fault}"
    if not view.merged:
        yield "it ended before its ledger was joined"
    elif any(note.text("kind") == KILLED for note in view.of("note")):
        yield "it was killed, and its ledger made whole afterwards"
    if view.unreadable:
        lines = len(view.unreadable)
        yield f"{lines} line{'s' * (lines != 1)} of its ledger cannot be read"
    absent = summary.planned - summary.reported
    if absent:
        yield f"{absent} of its {summary.planned} planned scenarios are missing"
    if view.merged and info.ended is None:
        yield "no end of it is recorded"
    if info.exit in (INTERRUPTED, HARNESS_ERROR) or _exit_unexplained(info, summary):
        yield f"it ended with exit status {info.exit}"
    for end in view.of("end"):
        if end.text("outcome").startswith("error in "):
            yield f"{end.text('scenario')} on {end.text('pool')} ended as {end.text('outcome')}"
    if any(note.text("kind") == DESELECTED for note in view.of("note")):
        yield "options of pytest's took scenarios out of it"


def _exit_unexplained(info: RunInfo, summary: Summary) -> bool:
    """Whether a run failed though nothing that it says of claims does: a pool that would not go, a
    report that could not be written.
    """
    return bool(info.exit) and not any(row.outcome in FAILING for row in summary.rows)


def _own_values(view: LedgerView) -> Iterator[tuple[str, str]]:
    """Of the operator an override or values from elsewhere, of modules a list of one's own."""
    for fact in view.of("fact"):
        values = fact.values
        if _is_addons(fact) and values.get("override"):
            yield pool_of(fact), f"valuesOverride set {_named(values['override'])}"
        if fact.text("kind") == "OperatorValues" and values.get("values_from"):
            yield pool_of(fact), f"values came from {_named(values['values_from'])} as well"
        modules = values.get("kernel_modules") if fact.text("kind") == "PoolRequest" else None
        if isinstance(modules, dict) and modules.get("listed") is not None:
            yield pool_of(fact), "kernelModules were listed by hand"


def _named(told: object) -> str:
    """What was set, in words, whatever the ledger holds in the list's place."""
    return ", ".join(map(str, told)) if isinstance(told, list) else str(told)


def _is_addons(fact: Record) -> bool:
    return fact.text("kind") == "Addons"


def _tells_overrides(fact: Record) -> bool:
    """Whether it says which values were overridden: an empty list is an answer, nothing is none."""
    return _is_addons(fact) and isinstance(fact.values.get("override"), list)


def _either(substrates: Sequence[Substrate]) -> str:
    return " or ".join(one.value for one in substrates)
