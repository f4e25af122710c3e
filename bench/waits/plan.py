"""Who is compared, and how many waits of each: what a machine of two processors can carry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """One tool.

    ``script`` is its driver with its ``arguments``, run in the environment ``env`` ("" is this
    one). ``anchor`` is the verb by which it follows an object; ``interval`` its seconds between
    two looks, 0 where it is told.
    ``at_once`` and ``each`` are how many waits go on together when recall is measured, and how
    many are made of each length. ``few`` says why 500 waits at once are not tried, "" where they
    are. ``predicate``: the user writes what is waited for as code or as an expression.
    ``heavy``: beginning one takes a tenth of a second and more of a processor.
    """

    name: str
    title: str
    script: str
    arguments: tuple[str, ...] = ()
    env: str = ""
    anchor: str = "watch"
    interval: float = 0.0
    at_once: int = 50
    each: int = 100
    few: str = ""
    predicate: bool = True
    heavy: bool = False

    @property
    def spread(self) -> float:
        """Seconds over which the moments of change are drawn: at least one interval."""
        return max(0.5, self.interval)


OURS, BARE = "ours", "bare"
SUBJECTS: tuple[Subject, ...] = (
    Subject(OURS, "hil, one shared watch", "ours.py", at_once=1000),
    Subject(BARE, "bare list+watch (floor)", "bare.py"),
    Subject(
        "kubectl",
        "kubectl wait",
        "kubectl.py",
        at_once=16,
        each=30,
        few="500 processes of 50 MB",
        heavy=True,
    ),
    Subject("official", "kubernetes.watch loop", "official.py", env="kubernetes-37"),
    Subject(
        "kr8s",
        "kr8s wait",
        "kr8s_wait.py",
        env="kr8s",
        at_once=32,
        few="20 s of a processor to begin 500",
        heavy=True,
    ),
    Subject(
        "lightkube",
        "lightkube wait",
        "lightkube_wait.py",
        env="lightkube",
        predicate=False,
        few="its pool has 100 connections",
    ),
    Subject(
        "poll-50ms",
        "poll every 50 ms (as chainsaw)",
        "poll.py",
        ("0.05",),
        anchor="get",
        interval=0.05,
        at_once=40,
    ),
    Subject(
        "wrapper-1s",
        "openshift-python-wrapper, 1 s",
        "wrapper.py",
        env="openshift-python-wrapper",
        anchor="get",
        interval=1.0,
        at_once=100,
        predicate=False,
    ),
    Subject(
        "sampler-1s",
        "timeout-sampler, 1 s",
        "sampler.py",
        ("1",),
        env="openshift-python-wrapper",
        anchor="get",
        interval=1.0,
        at_once=100,
    ),
    Subject(
        "sampler-5s",
        "timeout-sampler, 5 s",
        "sampler.py",
        ("5",),
        env="openshift-python-wrapper",
        anchor="get",
        interval=5.0,
        at_once=300,
    ),
)
BY_NAME = {subject.name: subject for subject in SUBJECTS}

GROUPS: tuple[tuple[str, ...], ...] = (
    ("wrapper-1s", "sampler-1s", "sampler-5s"),
    ("kr8s",),
    ("official",),
    ("lightkube",),
    ("kubectl",),
    ("poll-50ms",),
)
"""Measured one group after the other; those of one group together, as they hardly load a machine.

Ours and the floor come in turns besides, since they are compared with each other."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: a full run, or a quick one.

    ``share`` of the waits, ``alone`` seconds of one wait after the other, ``rounds`` of the lags,
    ``many`` waits at once at most, ``tries`` of each fault. ``crowds``: the tools are given so
    many waits too, not only ours and the floor.
    """

    share: float = 1.0
    alone: float = 8.0
    rounds: int = 2
    many: int = 500
    tries: int = 3
    crowds: bool = True

    def each(self, subject: Subject) -> int:
        """Waits for each length of phase."""
        return max(10, round(subject.each * self.share))


FULL = Extent()
QUICK = Extent(share=0.3, alone=3.0, rounds=1, tries=1, crowds=False)
