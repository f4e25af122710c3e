"""The fault table: what goes wrong while somebody waits, and what the right answer is.

Times are seconds from the tool's first watch of the pod, or its first read where it polls. The
wait is for the pod to be Ready and lasts eight seconds. The kinds of misbehaviour are those of the
twin's API server; each was met on real clusters or is documented by Kubernetes (lab/waiting.md
sections 2 and 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.waits.server import Site
from bench.waits.timelines import Step, Timeline
from harness.twin.apiserver.chaos import Rule

LIMIT = 8
LASTS, OTHER, LOST = "lasts", "other", "lost"
PODS = "*/pods*"


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the table.

    ``steps`` are taken in order; ``rules`` are there from the start, ``then`` are those that a
    step "+NUMBER" adds, and "-rules" takes all back. ``truth``: LASTS, the pod becomes ready
    with the last "Running" and stays so; OTHER, another pod of that name does; LOST, it was ready
    for a moment that nobody could see. ``begins`` is the state at the start ("" is none at all).
    """

    name: str
    sentence: str
    steps: tuple[Step, ...]
    rules: tuple[Rule, ...] = ()
    then: tuple[Rule, ...] = ()
    truth: str = LASTS
    begins: str = "Pending"
    stale: bool = False

    def arm(self, site: Site, name: str) -> None:
        """Lay out its pod at a site of its own, and its rules."""
        for rule in self.rules:
            site.server.chaos.add(rule)
        for number, rule in enumerate(self.then):
            site.also[f"+{number}"] = lambda at, _, rule=rule: at.server.chaos.add(rule)
        site.also["-rules"] = lambda at, _: at.server.chaos.clear()
        site.put(self.timeline(name), begins=self.begins)
        if self.stale:
            site.write(name, "new-image")

    def timeline(self, name: str) -> Timeline:
        """The pod of one try."""
        return Timeline(name, self.name, self.steps, LIMIT)


def _steps(*told: tuple[float, str]) -> tuple[Step, ...]:
    """From moments to the pauses between them."""
    before, found = 0.0, []
    for at, do in told:
        found.append(Step(at - before, do))
        before = at
    return tuple(found)


_READY_LATER = _steps((2.5, "Running"))
_TOUCHED = _steps((1.0, "touch"), (2.5, "Running"))

FAULTS: tuple[Fault, ...] = (
    Fault("none", "nothing goes wrong", _READY_LATER),
    Fault(
        "closed",
        "the server ends every watch in good order after a second, as it does every half hour",
        _steps((1.0, "end-watches"), (2.5, "Running")),
    ),
    Fault(
        "gone",
        "the first watch is told that its version is too old",
        _READY_LATER,
        rules=(Rule("gone", verb="watch", path=PODS, times=1),),
    ),
    Fault(
        "silent",
        "the first watch stays open and says nothing",
        _READY_LATER,
        rules=(Rule("silent", verb="watch", path=PODS, times=1),),
    ),
    Fault(
        "half-open",
        "the first watch, or the second plain read, is never answered",
        _READY_LATER,
        rules=(
            Rule("half-open", verb="watch", path=PODS, times=1),
            Rule("half-open", verb="get", path=PODS, times=1, skip=1),
        ),
    ),
    Fault(
        "leader-changed",
        "watches end, and for two seconds every request is answered 500",
        _steps((1.0, "+0"), (1.0, "end-watches"), (2.0, "Running"), (3.0, "-rules")),
        then=(Rule("leader-changed", path=PODS),),
    ),
    Fault(
        "throttled",
        "watches end, and three requests are answered 429 with Retry-After: 1",
        _steps((1.0, "+0"), (1.0, "end-watches"), (2.0, "Running")),
        then=(Rule("throttle", path=PODS, times=3, seconds=1),),
    ),
    Fault(
        "dropped",
        "the connection is reset after an event, or in the middle of the second plain read",
        _TOUCHED,
        rules=(
            Rule("drop", verb="watch", path=PODS, times=1, after=1),
            Rule("drop", verb="get", path=PODS, times=1, skip=1),
        ),
    ),
    Fault(
        "garbled",
        "an event, or the second plain read, arrives cut in half",
        _TOUCHED,
        rules=(
            Rule("garbled", verb="watch", path=PODS, times=1),
            Rule("garbled", verb="get", path=PODS, times=1, skip=1),
        ),
    ),
    Fault(
        "no-status",
        "the pod has no status for a second and a half",
        _steps((1.5, "Pending"), (2.5, "Running")),
        begins="",
    ),
    Fault(
        "stale",
        "Ready is True, but of an older generation; of this one only later",
        _READY_LATER,
        begins="Running",
        stale=True,
    ),
    Fault(
        "replaced",
        "the pod is deleted, and another of its name becomes ready",
        _steps((1.0, "delete"), (1.2, "create"), (1.2, "Pending"), (2.5, "Running")),
        truth=OTHER,
    ),
    Fault(
        "forgotten",
        "the phase passes as the server restarts, and its history is forgotten",
        _steps((1.0, "Running"), (1.0, "Succeeded"), (1.0, "+0")),
        then=(Rule("restart"),),
        truth=LOST,
    ),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
