"""`python -m bench.clones`: who sees the phases of a clone, and with how many requests.

1,000 clones, each through the five phases of a CSI clone, which last from 1 ms to 60 s (as many
between 1 and 10 ms as between 1 and 10 s). They are played once, on virtual time, for the harness'
watch and for two pollers alike, whose intervals are virtual seconds and whose answers take no time:
nobody could poll better. `kubectl wait` cannot live on virtual time, so that the first few of the
same clones are played again in real time, for all of them: one script for each clone that waits for
one phase after the other. It is the `kubectl` that HIL_KUBECTL names, else the one on PATH.

Example: python -m bench.clones --clones 200 --kubectl 0
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.cloned_server import (
    API_VERSION,
    LONGEST,
    NAMESPACE,
    PHASES,
    begins,
    lasts,
    name_of,
)
from harness.clock import Clock, VirtualClock, WallClock
from harness.facts.clones import DiskHistory, disk_history
from harness.facts.sights import Seen
from harness.httptime import HttpTimeSource
from harness.observe.clones import seen as seen_by
from harness.reach.access import client_from_files
from harness.reach.counts import Everyone
from harness.reach.history import Revision
from harness.reach.kube import Kube
from harness.reach.listing import PAGE
from harness.reach.watch import Feed, Observatory

SEED = 1
INTERVALS = (1.0, 5.0)
VIRTUAL_SPREAD, REAL_SPREAD = 60.0, 20.0
"""Seconds over which the clones begin."""
BOUNDS = (0.01, 0.1, 1.0, 10.0, LONGEST)
"""Upper bounds of the lengths that phases are counted by, in seconds."""
PARTS = 10
PATIENCE = LONGEST + 10
"""Seconds that a `kubectl wait` is given: longer than any phase lasts."""

Pair = tuple[str, str]
Looker = Callable[[Callable[[], bool]], None]
"""Looks until what it is given says that all is over."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clones", type=int, default=1000)
    parser.add_argument("--kubectl", type=int, default=20, help="clones in real time; 0 for none")
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load {os.getloadavg()[0]}"
    )
    _virtual(options.clones)
    if options.kubectl:
        _real(options.kubectl)


# -- what is true, and what was seen of it -----------------------------------------------------


@dataclass(slots=True)
class Watcher:
    """Who looks: which (clone, phase) it has seen, with how many requests."""

    name: str
    seen: set[Pair] = field(default_factory=set)
    requests: int = 0


def _bound(seconds: float) -> float:
    return next(bound for bound in BOUNDS if seconds <= bound)


def _lengths(count: int) -> dict[Pair, float]:
    """How long each phase that ends lasts. The last one of a clone is seen by everybody."""
    return {
        (name_of(number), phase): seconds
        for number in range(count)
        for phase, seconds in zip(PHASES, lasts(number, SEED), strict=False)
    }


def _print_shares(watchers: list[Watcher], count: int) -> None:
    """Each share of the phases that somebody saw; the spread is over ten parts of the clones."""
    lengths = _lengths(count)
    whole = Counter(_bound(seconds) for seconds in lengths.values())
    heads = "".join(f"{f'≤ {bound:g} s':>9}" for bound in BOUNDS)
    print(f"  {'seen, of phases that last':<34}{heads}{'all':>9}  {'spread':<20}requests")
    for one in watchers:
        seen = Counter(_bound(lengths[pair]) for pair in one.seen if pair in lengths)
        cells = "".join(f"{_percent(seen[bound], whole[bound]):>9}" for bound in BOUNDS)
        total = _percent(sum(seen.values()), len(lengths))
        spread = f"({_spread(one, lengths, count)})"
        print(f"  {one.name:<34}{cells}{total:>9}  {spread:<20}{one.requests}", flush=True)


def _spread(watcher: Watcher, lengths: dict[Pair, float], count: int) -> str:
    """The least and the most that was seen of a tenth of the clones."""
    parts = [{name_of(number) for number in range(part, count, PARTS)} for part in range(PARTS)]
    shares = []
    for names in parts:
        pairs = [pair for pair in lengths if pair[0] in names]
        if pairs:
            shares.append(sum(pair in watcher.seen for pair in pairs) / len(pairs))
    return f"{min(shares):.1%} to {max(shares):.1%}"


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _print_errors(histories: list[DiskHistory], count: int, of: str) -> None:
    """How far the watch's lengths are from those that were written."""
    lengths, wrong = _lengths(count), []
    for history in histories:
        for span in history.phases[:-1]:
            wrong.append(abs(span.seconds - lengths[history.disk, span.phase]) * 1000)
    if wrong:
        middle = statistics.median(wrong)
        print(
            f"  {of}: a phase's length is off by {middle:.3f} ms (median; at most "
            f"{max(wrong):.3f}, n={len(wrong)})"
        )


# -- watching and polling ----------------------------------------------------------------------


def _histories(feed: Feed, clock: Clock) -> tuple[list[DiskHistory], str]:
    """Every clone as the harness' own facts have it, and why something may be missing."""
    shown, nothing = seen_by(feed, clock.now(), "DataVolume"), Seen("Event", None)
    by_uid: dict[str, Seen] = {
        uid: Seen(shown.what, shown.since, found) for uid, found in _grouped(shown).items()
    }
    told = [
        disk_history(uid, one, nothing, at=clock.now(), cluster="bench")
        for uid, one in by_uid.items()
    ]
    return told, "; ".join(one.reason for one in shown.missed) or shown.blind


def _grouped(shown: Seen) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for sight in shown.sights:
        found.setdefault(str(sight.obj["metadata"]["uid"]), []).append(sight)
    return {uid: tuple(sights) for uid, sights in found.items()}


def _poll(
    kube: Kube, clock: Clock, watcher: Watcher, seconds: float, over: Callable[[], bool]
) -> None:
    """One list every so many seconds, until all clones have ended."""
    while not over():
        found = kube.list(API_VERSION, "DataVolume", NAMESPACE)
        watcher.requests += -(-len(found) // PAGE)
        for obj in found:
            if phase := (obj.get("status") or {}).get("phase"):
                watcher.seen.add((str(obj["metadata"]["name"]), str(phase)))
        clock.sleep(seconds, watcher.name)


@dataclass(frozen=True, slots=True)
class Watched:
    """What the harness' watch has: as one who looks, as facts, and why it may have missed some."""

    watcher: Watcher
    histories: list[DiskHistory]
    missed: str

    @property
    def whole(self) -> str:
        """What it says of itself."""
        return self.missed or "the watch says that nothing was missed"


@dataclass(slots=True)
class Site:
    """The clones' server, told to begin, and whoever looks at it."""

    directory: Path
    process: subprocess.Popen[str]
    clock: Clock
    count: int
    spread: float

    @staticmethod
    @contextmanager
    def up(count: int, spread: float, *, real: bool) -> Iterator[Site]:
        """Start the server; it ends with the block."""
        with tempfile.TemporaryDirectory() as scratch:
            arguments = [scratch, str(count), str(SEED), str(spread), *(["--real"] if real else [])]
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.cloned_server", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            with process:
                assert process.stdout is not None
                url = json.loads(process.stdout.readline())["clock"]
                clock: Clock = WallClock() if real else VirtualClock(HttpTimeSource(url))
                yield Site(Path(scratch), process, clock, count, spread)
                assert process.stdin is not None
                process.stdin.close()

    @property
    def config(self) -> Path:
        """The kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def seconds(self) -> float:
        """From the start until the last clone is done."""
        return max(
            begins(number, self.count, self.spread) + sum(lasts(number, SEED))
            for number in range(self.count)
        )

    def tell(self, command: str) -> dict[str, int]:
        """Say something to the server; its counts come back."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        told: dict[str, int] = json.loads(self.process.stdout.readline())
        return told

    def kube(self) -> Kube:
        """A client of its own, so that nobody waits for another's request."""
        return Kube("bench", client_from_files((self.config,)), self.clock)

    def play(self, beside: Sequence[Looker]) -> Watched:
        """Begin, with these looking beside the watch, until all clones have ended."""
        observatory, done = Observatory(self.clock), threading.Event()
        feed = observatory.feed(self.kube(), API_VERSION, "DataVolume", NAMESPACE)
        there = threading.Barrier(len(beside) + 1)

        def look(one: Looker) -> None:
            with self.clock.actor("poller"):
                there.wait()
                one(done.is_set)

        threads = [threading.Thread(target=look, args=(one,)) for one in beside]
        with self.clock.actor("bench"):
            for thread in threads:
                thread.start()
            there.wait()
            self.tell("go")
            ended = Everyone(_has_succeeded, self.count)
            feed.standing(ended, self.clock.deadline(self.seconds + 60), "every clone to end")
            done.set()
        for thread in threads:
            thread.join()
        histories, missed = _histories(feed, self.clock)
        observatory.close()
        pairs = {(one.disk, span.phase) for one in histories for span in one.phases}
        return Watched(Watcher("hil: one watch", pairs, feed.requests), histories, missed)


def _has_succeeded(revision: Revision) -> bool:
    return (revision.obj.get("status") or {}).get("phase") == PHASES[-1]


def _pollers(site: Site) -> tuple[list[Watcher], list[Looker]]:
    watchers = [Watcher(f"a list every {seconds:g} s") for seconds in INTERVALS]
    beside: list[Looker] = [
        partial(_poll, site.kube(), site.clock, watcher, seconds)
        for watcher, seconds in zip(watchers, INTERVALS, strict=True)
    ]
    return watchers, beside


def _virtual(count: int) -> None:
    wall = WallClock()
    began = wall.monotonic()
    with Site.up(count, VIRTUAL_SPREAD, real=False) as site:
        watchers, beside = _pollers(site)
        watched = site.play(beside)
    took = wall.monotonic() - began
    print(f"{count:,} clones on virtual time, {site.seconds:.0f} s of it in {took:.0f} s")
    _print_shares([watched.watcher, *watchers], count)
    _print_errors(watched.histories, count, watched.whole)


# -- kubectl, in real time ---------------------------------------------------------------------


def _real(count: int) -> None:
    kubectl = os.environ.get("HIL_KUBECTL", "").split(":")[0] or shutil.which("kubectl")
    if not kubectl:
        print("kubectl wait: not run, for there is no kubectl on PATH and none in HIL_KUBECTL")
        return
    with Site.up(count, REAL_SPREAD, real=True) as site:
        watchers, beside = _pollers(site)
        waits = Watcher("kubectl wait, phase after phase")
        scripts = [
            partial(_wait_for_each, kubectl, site.config, waits, name_of(number))
            for number in range(count)
        ]
        watched = site.play([*beside, *scripts])
        waits.requests = site.tell("count")["kubectl"]
    version = subprocess.run(
        [kubectl, "version", "--client"], capture_output=True, text=True, check=False
    ).stdout.split("\n")[0]
    print(f"{count} of them again, in {site.seconds:.0f} s of real time ({version})")
    _print_shares([watched.watcher, waits, *watchers], count)
    _print_errors(watched.histories, count, watched.whole)


def _wait_for_each(
    kubectl: str, config: Path, watcher: Watcher, name: str, over: Callable[[], bool]
) -> None:
    """A script that waits for one phase after the other. It is ended with the last clone."""
    for phase in PHASES:
        command = [
            *(kubectl, "--kubeconfig", str(config), "--namespace", NAMESPACE, "wait"),
            *(f"--for=jsonpath={{.status.phase}}={phase}", f"datavolume/{name}"),
            f"--timeout={PATIENCE:.0f}s",
        ]
        waits = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while waits.poll() is None and not over():
            with suppress(subprocess.TimeoutExpired):
                waits.wait(0.2)
        if waits.poll() is None:
            waits.terminate()
            waits.wait()
            return
        if waits.returncode == 0:
            watcher.seen.add((name, phase))


if __name__ == "__main__":
    main()
