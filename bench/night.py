"""`python -m bench.night`: 30 hours of 200 workers that reboot for mixed reasons, each named.

The workers' machines are the twin's, with their boots, services, consoles and memory, scraped by
its Prometheus each 30 s; no API objects stand around them, whose leases alone would be most of the
time. What is judged is the harness's own: looks at /proc each ten minutes, consoles, memory through
`harness.reach.prometheus`, then the verdict on uptime, and those that predict the 70-minute cycle
after the first ten minutes. A cause counts as named where the verdict's words say it, and no other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from bench.figures import figure
from harness import judge
from harness.clock import WallClock
from harness.facts import apid, boots, extensions, kernellog
from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.machineconfig import RenderedModules
from harness.facts.pool import BootSource
from harness.facts.reply import Output
from harness.judge.verdict import Outcome, Verdict
from harness.observe.memory import memory_window
from harness.reach.prometheus import Prometheus
from harness.twin.engine import Engine
from harness.twin.world.guest import Guest
from harness.twin.world.images import NVIDIA_OPEN, VANILLA
from harness.twin.world.prometheus_api import PrometheusApi
from harness.twin.world.world import World

CLOCK = WallClock()
LOOK, SOAK, LIMIT = 600.0, 93 * 60.0, 4200.0
"""Seconds between two looks, of the soak, and of Talos' own limit."""
SHARES = {
    "quiet": 40,
    "timer A": 16,
    "timer B": 12,
    "memory": 14,
    "replaced": 8,
    "host": 6,
    "hand": 4,
}
"""Of a hundred workers."""
WORDS = {
    "timer A": r"a timer,.*cause A",
    "timer B": r"a timer,.*cause B",
    "memory": r"memory pressure",
    "replaced": r"of \S+ there is no Node",
    "host": r"the worker was replaced \(VMI of another UID\)",
    "hand": r"by hand or by a service of its own",
}
"""What the words of a night's verdicts have to say, each for its cause alone."""
_CONFIG = """version: v1alpha1
machine:
  type: worker
  install: {{disk: /dev/vda, image: "factory.talos.dev/installer/{schematic}:v1.13.6"}}
cluster: {{}}
"""


@dataclass(frozen=True, slots=True)
class InProcess:
    """The twin's Prometheus without a socket in between: a `harness.reach.prometheus.Way`."""

    api: PrometheusApi
    where: str = "the twin"

    def get(self, path: str, query: Mapping[str, str], tried: str) -> tuple[int, bytes]:
        """Status and body."""
        del tried
        reply = self.api.answer(path, {key: [value] for key, value in query.items()})
        if reply is None:
            return 404, b"404 page not found"
        return reply.status, json.dumps(reply.document).encode()

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class LabTime:
    """The twin's time; the runner's is not asked for."""

    engine: Engine

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.engine.now

    def monotonic(self) -> float:
        """The same: nothing here waits."""
        return self.engine.now


@dataclass(slots=True)
class Node:
    """One worker: its machine now, what was planted, and what was seen of it."""

    name: str
    planted: str
    guest: Guest
    vmi: str = "vmi-1"
    gone: bool = False
    text: bytearray = field(default_factory=bytearray)
    shown: list[tuple[int, float]] = field(default_factory=list)
    samples: list[BootSample | WorkerGone] = field(default_factory=list)
    memory: tuple[Fact, ...] = ()
    predicted: str = ""

    @property
    def over(self) -> bool:
        """Whether enough was seen: another boot, or no worker any more."""
        ids = {one.boot_id for one in self.samples if isinstance(one, BootSample)}
        return len(ids) > 1 or (bool(self.samples) and isinstance(self.samples[-1], WorkerGone))

    def hear(self, at: float, data: bytes) -> None:
        """Keep what the console prints."""
        self.shown.append((len(self.text), at))
        self.text += data

    def log(self, at: float) -> kernellog.KernelLog:
        """What the console printed so far, as the harness reads it."""
        offsets = [offset for offset, _ in self.shown]
        return kernellog.read_console(
            bytes(self.text),
            lambda offset: self.shown[bisect_right(offsets, offset) - 1][1],
            at=at,
            source=f"console {self.name}",
            heard_from=self.shown[0][1] if self.shown else None,
        )


class Night:
    """A night of some workers with planted causes."""

    def __init__(self, count: int, hours: float, seed: int) -> None:
        self.engine = Engine()
        self.world = World(self.engine, seed=seed)
        self.rng = random.Random(seed)
        self.until = self.engine.now + hours * 3600
        time = LabTime(self.engine)
        api = PrometheusApi(self.world.metrics, time.now)
        self.prometheus = Prometheus(InProcess(api), time)
        self.nodes = [self._node(index, cause) for index, cause in enumerate(_causes(count))]

    def pass_by(self) -> None:
        """Let it pass, with a look at every worker each ten minutes."""
        while self.engine.now < self.until:
            self.engine.run_until(self.engine.now + LOOK)
            for node in self.nodes:
                self._look(node)

    def verdicts(self) -> Iterator[tuple[Node, Verdict]]:
        """The harness's verdict on each worker's uptime."""
        now = self.engine.now
        for node in self.nodes:
            if not node.memory and isinstance(node.samples[0], BootSample):
                node.memory = self._memory(node, node.samples[0].began)
            yield (
                node,
                judge.uptime(
                    node.samples,
                    SOAK,
                    f"node {node.name}",
                    limit=LIMIT,
                    logs=(node.log(now),),
                    memory=node.memory,
                ),
            )

    # -- what is planted

    def _node(self, index: int, cause: str) -> Node:
        name = f"kubernetes-lab-night-{index:03}"
        guest = self._guest(name, NVIDIA_OPEN if cause == "timer A" else VANILLA)
        node = Node(name, cause, guest)
        guest.follow_console(lambda data: node.hear(self.engine.now, data))
        if cause == "timer B":
            guest.services.hold("apid", "api certificates to be generated")
        if cause == "memory":
            guest.run_out_of_memory([self.rng.uniform(700, 3900) for _ in range(200)])
        when = self.rng.uniform(3600, self.until - self.engine.now - 7200)
        once: dict[str, Callable[[], None]] = {
            "replaced": partial(self._replace, node),
            "host": partial(self._host_down, node),
            "hand": guest.reboot,
        }
        if cause in once:
            self.engine.after(when, once[cause], f"{cause} {name}")
        self.engine.after(self.rng.uniform(0, 300), partial(_power_on, guest), f"power on {name}")
        return node

    def _guest(self, name: str, schematic: str) -> Guest:
        guest = Guest(
            hostname=name,
            machine_config=_CONFIG.format(schematic=schematic),
            image=self.world.factory.image(schematic, "v1.13.6"),
            cards=(),
            engine=self.engine,
            rng=self.world.rng(f"{name} {self.engine.now}"),
        )
        self.world.metrics.meet(guest)
        return guest

    def _replace(self, node: Node) -> None:
        node.guest.power_off()
        node.gone = True

    def _host_down(self, node: Node) -> None:
        node.guest.power_off()
        self.engine.after(self.rng.uniform(180, 400), partial(self._again, node), "host is back")

    def _again(self, node: Node) -> None:
        node.guest = self._guest(node.name, VANILLA)
        node.guest.installed, node.vmi = True, "vmi-2"
        node.guest.follow_console(lambda data: node.hear(self.engine.now, data))
        _power_on(node.guest)

    # -- what is seen

    def _look(self, node: Node) -> None:
        now = self.engine.now
        if node.over:
            return
        if node.gone:
            node.samples.append(WorkerGone(Origin(now, node.name, ""), node.name, ("Node", "VMI")))
        if not node.guest.kubelet_up or node.gone:
            return
        output = _cat(node.guest, *boots.LOOK[1:])
        seen = boots.read_sample(node.name, output, at=now, vmi_uid=node.vmi, node_uid="node")
        if isinstance(seen, Unread) or (not node.samples and seen.uptime < 120):
            return
        node.samples.append(seen)
        if len(node.samples) == 1:
            node.predicted = self._predict(node)
        first = node.samples[0]
        if isinstance(first, BootSample) and first.boot_id != seen.boot_id:
            node.memory = self._memory(node, first.began)

    def _memory(self, node: Node, since: float) -> tuple[Fact, ...]:
        now = LabTime(self.engine).now
        return (memory_window(self.prometheus, node.name, since, now=now),)

    def _predict(self, node: Node) -> str:
        """What the verdicts say that need no window, where they are broken."""
        now, guest = self.engine.now, node.guest
        boot = BootSource(Origin(now, "", ""), guest.image.schematic, "v1.13.6", "http", "")
        output = _cat(guest, f"/host{extensions.ASKED}")
        ran = extensions.read_extensions(node.name, output, at=now, source=node.name)
        none = RenderedModules(Origin(now, "", ""), False, ())
        sockets = _cat(guest, *apid.SOCKETS)
        heard = apid.read_listening(node.name, sockets, at=now, source=node.name)
        verdicts = (
            judge.image_fits(boot, {}, (ran,), none, (), node.name),
            judge.apid_serves(heard, node.name),
        )
        return "; ".join(one.because for one in verdicts if one.outcome is not Outcome.HOLDS)


def _causes(count: int) -> list[str]:
    """The cause of each worker, in the shares that are told; the rest are quiet."""
    found = [cause for cause, share in SHARES.items() for _ in range(share * count // 100)]
    return found + ["quiet"] * (count - len(found))


def _power_on(guest: Guest) -> None:
    guest.power_on(lambda: None, lambda: None)


def _cat(guest: Guest, *paths: str) -> Output:
    result = guest.run(["cat", *paths])
    stdout, stderr = result.stdout.decode(), result.stderr.decode()
    return Output(("cat", *paths), result.exit_code, stdout, stderr)


def named(verdict: Verdict, predicted: str) -> str:
    """The cause that the words name: one of `WORDS`, "quiet" where the claim holds, else ""."""
    if verdict.outcome is Outcome.HOLDS and not predicted:
        return "quiet"
    said = f"{verdict.because}; {predicted}"
    found = [cause for cause, words in WORDS.items() if re.search(words, said)]
    return found[0] if len(found) == 1 else " and ".join(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--hours", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load {os.getloadavg()[0]}"
    )
    began = CLOCK.monotonic()
    night = Night(options.nodes, options.hours, options.seed)
    night.pass_by()
    passed = CLOCK.monotonic() - began
    right: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for node, verdict in night.verdicts():
        found = named(verdict, node.predicted)
        planted[node.planted] += 1
        right[node.planted] += found == node.planted
        if found != node.planted:
            print(f"  {node.name}: {node.planted}, named {found or 'nothing'}: {verdict.because}")
    took = CLOCK.monotonic() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    reboots = sum(len(node.guest.boots) - 1 for node in night.nodes)
    told = f"{options.hours:g} hours, {options.nodes} workers, {reboots} reboots"
    print(figure(f"{told}: the night", [passed], "s"))
    print(figure("  and judged", [took], "s"))
    print(figure("  processor time of both", [usage.ru_utime + usage.ru_stime], "s"))
    print(figure("  memory at most", [usage.ru_maxrss / 1024], "MB"))
    for cause, count in planted.items():
        print(f"  {cause:<10} named rightly {right[cause]:>4} of {count}")
    print(f"  all        named rightly {right.total():>4} of {planted.total()}")


if __name__ == "__main__":
    main()
