"""The measurements: sites and drivers brought together, rows and costs taken."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from asyncio import FIRST_COMPLETED
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.waits import timelines as laid
from bench.waits.drive import Answers, Broken, Driver, NotThere
from bench.waits.faults import LIMIT, Fault
from bench.waits.plan import BARE, GROUPS, OURS, Extent, Subject
from bench.waits.score import Row
from bench.waits.server import NAMESPACE, Site
from bench.waits.timelines import PASSING, SOONEST, Timeline
from harness.clock import WallClock
from harness.twin.apiserver.tls import Authority

RECALL, LAG, LIMITS, SLIP, FAULT = "recall", "lag", "limits", "slip", "fault"
SHORT_LIMIT, SLIP_LIMIT = 2, 3
APART = 0.005  # seconds between the beginnings of waits that go on together
COMMITS = 250  # a second at most, when many waits are to be told of their own each
BEGUN = 8.0  # seconds until the next tool starts, whether or not all waits of one have begun
CONNECTING = 30  # seconds that many waits may take to begin, all together
_CLOCK = WallClock()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a batch of ``waits`` cost: requests about the objects, others, bytes, CPU seconds, MB.

    ``peak_mb`` is the most memory one process of the tool had resident so far.
    """

    subject: str
    batch: str
    waits: int
    requests: int
    discovery: int
    carried: int
    cpu: float
    peak_mb: float


@dataclass(slots=True)
class Found:
    """Everything measured so far. ``absent`` says of each tool not run why not."""

    rows: list[Row] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    imports: dict[str, tuple[float, float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


class Bench:
    """One run. ``folder`` is for kubeconfigs, ``out`` for what the drivers say on stderr."""

    def __init__(
        self,
        subjects: Sequence[Subject],
        extent: Extent,
        folder: Path,
        out: Path,
        *,
        seed: int,
    ) -> None:
        self.subjects = list(subjects)
        self.extent = extent
        self.found = Found()
        self._folder = folder
        self._out = out
        self._seed = seed
        self._authority = Authority()
        self._credentials = self._authority.client("bench", ("system:masters",))
        self._drivers: dict[str, Driver] = {}
        self._sites = 0
        self._over: list[Site] = []
        self._starting = asyncio.Lock()
        self._closing: list[asyncio.Task[None]] = []
        self._began = _CLOCK.monotonic()

    # -- the run

    async def healthy(self) -> None:
        """Recall, lag, cost, and what limits are worth, on servers that do as they should."""
        await self._start()
        try:
            await self._in_turns()
            others = [s for s in self._there() if s.name not in (OURS, BARE)]
            if others:
                self._say("one wait after the other")
                await asyncio.gather(*(self._one_by_one(subject) for subject in others))
            for group in GROUPS:
                here = [s for s in others if s.name in group and s.name in self._drivers]
                if here:
                    self._say(", ".join(s.name for s in here))
                    await asyncio.gather(*(self._alone(subject) for subject in here))
                    for subject in here:
                        if self.extent.crowds and not subject.few:
                            await self._lag(subject, self.extent.many, 0)
            self._say("limits and slips of the pen")
            await asyncio.gather(*(self._limits(s, n) for n, s in enumerate(self._there())))
        finally:
            await self._stop()

    async def faulty(self, faults: Sequence[Fault]) -> None:
        """The fault table: every fault at the same time, one tool beginning after the other."""
        self._say(f"{len(faults)} faults, {self.extent.tries} tries each")
        try:
            await asyncio.gather(*(self._faults(subject, faults) for subject in self.subjects))
        finally:
            await self._stop()

    # -- parts

    async def _in_turns(self) -> None:
        """Ours and the floor at the same time or in turns: the gates compare them."""
        pair = [s for s in self._there() if s.name in (OURS, BARE)]
        if pair:
            self._say("ours and the floor, in turns")
            await asyncio.gather(*(self._one_by_one(subject) for subject in pair))
        for turn in range(2 * self.extent.rounds):
            for subject in pair:
                await self._lag(subject, 50, turn)
        for turn in range(self.extent.rounds):
            for subject in pair:
                await self._lag(subject, self.extent.many, turn)
        for subject in pair:
            await self._recall(subject)

    async def _alone(self, subject: Subject) -> None:
        for turn in range(self.extent.rounds):
            await self._lag(subject, 50, turn)
        await self._recall(subject)

    async def _one_by_one(self, subject: Subject) -> None:
        await self._lag(subject, 1, 0, cap=self.extent.alone)

    async def _lag(self, subject: Subject, at_once: int, turn: int, *, cap: float = 0.0) -> None:
        """A change that lasts, told to so many waits, each of its own."""
        spread = max(subject.spread, at_once / COMMITS)
        limit = math.ceil(CONNECTING + spread + subject.interval)
        seed = self._seed + turn
        laid_out = laid.lasting(max(at_once, 20), spread=spread, seed=seed, limit=limit)
        await self._batch(subject, f"{LAG} {at_once}", list(laid_out), at_once, cap=cap)

    async def _recall(self, subject: Subject) -> None:
        """Phases that pass."""
        each = self.extent.each(subject)
        together = min(subject.at_once, each * len(PASSING))
        spread = max(subject.spread, 2 * together / COMMITS)
        laid_out: list[Timeline] = []
        for seconds in PASSING:
            limit = math.ceil(SOONEST + spread + seconds) + (4 if subject.heavy else 1)
            laid_out += laid.passing(seconds, each, spread=spread, seed=self._seed, limit=limit)
        mixed = laid.shuffled(laid_out, self._seed)
        await self._batch(subject, RECALL, mixed, subject.at_once)

    async def _limits(self, subject: Subject, place: int) -> None:
        """Waits in vain, and waits with a slip in what they wait for.

        One tool begins a moment after the other: that it starts is not to be its overshoot.
        """
        await self._pause(place * 0.4)
        waits = list(laid.never(10, limit=SHORT_LIMIT))
        await self._batch(subject, LIMITS, waits, len(waits))
        if subject.predicate:
            slips = list(laid.never(3, limit=SLIP_LIMIT, cell=SLIP))
            await self._batch(subject, SLIP, slips, len(slips), want="misspelt")

    async def _faults(self, subject: Subject, faults: Sequence[Fault]) -> None:
        if subject.name in self.found.absent:
            return
        async with self._starting:  # that one tool is starting must not be another's failure
            await self._start_one(subject)
            driver = self._drivers.get(subject.name)
            if driver is None:
                return
            self._say(f"faults: {subject.name}")
            sites: dict[str, tuple[Site, Fault]] = {}
            waits = []
            for turn in range(self.extent.tries):
                for fault in faults:
                    name = f"{fault.name}-{turn}"
                    site, kubeconfig = await self._site(subject, anchor=subject.anchor)
                    fault.arm(site, name)
                    sites[name] = site, fault
                    waits.append(_wait(name, kubeconfig, LIMIT, "ready"))
            # some begin too slowly for all at once
            at_once = len(waits) if not subject.heavy else len(faults)
            asking = asyncio.create_task(driver.ask(waits, at_once=at_once))
            await _begun(asking, [site for site, _ in sites.values()])
        answers = await asking
        for name, (site, fault) in sites.items():
            self._take(subject, FAULT, fault.timeline(name), site, answers)
            self._closing.append(asyncio.create_task(site.close()))

    async def _warm(self, driver: Driver, site: Site | None = None, kubeconfig: str = "") -> None:
        """One wait for what is already so: discovery and first imports are no part of a wait."""
        if site is None:
            site, kubeconfig = await self._site(driver.subject, anchor="")
            self._over.append(site)
        site.write("warm", "create")
        site.write("warm", "Running")
        await driver.ask([_wait("warm", kubeconfig, SHORT_LIMIT, "phase")], at_once=1)

    async def _batch(
        self,
        subject: Subject,
        batch: str,
        laid_out: Sequence[Timeline],
        at_once: int,
        *,
        cap: float = 0.0,
        want: str = "phase",
    ) -> None:
        site, kubeconfig = await self._site(subject, anchor=subject.anchor)
        driver = self._drivers[subject.name]
        if subject.name != OURS:  # others keep discovery, ours would begin to watch
            await self._warm(driver, site, kubeconfig)
        for one in laid_out:
            site.put(one)
        turns = iter([one.name for one in laid_out[1:]] if at_once == 1 else [])
        if at_once == 1:  # the next one's time begins with the answer to the one before
            site.in_turn()
        elif batch.startswith(LAG):
            site.together()
        before, carried = site.asked(), site.carried
        waits = [_wait(one.name, kubeconfig, one.limit, want) for one in laid_out]
        answers = await driver.ask(
            waits,
            at_once=at_once,
            cap=cap,
            apart=APART,
            answered=lambda: site.begin(next(turns, "")),
        )
        after = site.asked()
        made = [one for one in laid_out if one.name in answers.rows or not cap]
        for one in made:
            self._take(subject, batch, one, site, answers)
        self.found.costs.append(
            Cost(
                subject.name,
                batch,
                len(made),
                after[0] - before[0],
                after[1] - before[1],
                site.carried - carried,
                answers.cpu,
                answers.peak_kb / 1024,
            )
        )
        self._closing.append(asyncio.create_task(site.close()))
        if not answers.whole:  # threads of it hang: the next batch gets a fresh one
            await self._again(subject)

    def _take(
        self, subject: Subject, batch: str, one: Timeline, site: Site, answers: Answers
    ) -> None:
        told = answers.rows.get(one.name)
        commits = tuple(site.commits[one.name])
        named = (subject.name, batch, one.cell, one.name, float(one.limit))
        if told is None:
            self.found.rows.append(Row(*named, kind="hung", commits=commits))
            return
        self.found.rows.append(
            Row(*named, told["kind"], told["began"], told["at"], told["said"], commits)
        )

    # -- sites and drivers

    async def _site(self, subject: Subject, *, anchor: str) -> tuple[Site, str]:
        self._sites += 1
        site = Site(f"{subject.name}-{self._sites}", self._authority, anchor=anchor)
        return site, str(await site.start(self._folder, self._credentials))

    def _there(self) -> list[Subject]:
        return [s for s in self.subjects if s.name in self._drivers]

    async def _start(self) -> None:
        self._say("starting the tools")
        await asyncio.gather(*(self._start_one(s) for s in self.subjects))

    async def _start_one(self, subject: Subject) -> None:
        try:
            driver = await Driver.start(subject, self._folder, self._out)
        except (NotThere, Broken) as why:
            self.found.absent[subject.name] = str(why)
            self._say(f"{subject.name} is not run: {why}")
            return
        self._drivers[subject.name] = driver
        await self._warm(driver)
        told = ", ".join(f"{name} {version}" for name, version in driver.versions.items())
        self.found.versions[subject.name] = told
        self.found.imports[subject.name] = driver.import_cpu, driver.import_kb / 1024

    async def _again(self, subject: Subject) -> None:
        await self._drivers.pop(subject.name).close()
        await self._start_one(subject)

    async def _stop(self) -> None:
        await asyncio.gather(*(driver.close() for driver in self._drivers.values()))
        await asyncio.gather(*self._closing, *(site.close() for site in self._over))
        self._closing.clear()
        self._over.clear()
        self._drivers.clear()

    @staticmethod
    async def _pause(seconds: float) -> None:
        passed = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
        await passed

    def _say(self, what: str) -> None:
        passed = _CLOCK.monotonic() - self._began
        print(f"{passed:5.0f} s  {what}", file=sys.stderr, flush=True)


def write_rows(rows: Iterable[Row], file: Path) -> None:
    """The raw rows, one JSON document a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row.document()) + "\n" for row in rows)
    file.write_text("".join(lines), encoding="utf-8")


async def _begun(asking: asyncio.Task[Answers], sites: Sequence[Site]) -> None:
    """Until all waits have begun, or it takes too long, or all are over already."""

    async def heard() -> None:
        for site in sites:
            await site.heard.wait()

    all_heard = asyncio.create_task(heard())
    await asyncio.wait((asking, all_heard), timeout=BEGUN, return_when=FIRST_COMPLETED)
    all_heard.cancel()


def _wait(name: str, kubeconfig: str, limit: int, want: str) -> dict[str, str | int]:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "kubeconfig": kubeconfig,
        "limit": limit,
        "want": want,
    }
