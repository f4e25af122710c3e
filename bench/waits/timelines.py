"""What happens to a pod, and when: seeded, pure, the same for every tool.

A pod begins Pending. It may be Running for a while and then Succeeded (a phase that passes), or
Running for good (a change that lasts). Its time begins when the tool is first heard of it, so that
nothing passes before the tool has begun to look.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

PASSING = (0.01, 0.05, 0.1, 0.3, 1.0, 5.0)
"""How long the phases last that recall is measured on, in seconds."""

LASTING = "lasting"
NEVER = "never"
SOONEST = 0.3
"""Seconds after a tool was first heard of before anything happens: all of them follow by then."""


@dataclass(frozen=True, slots=True)
class Step:
    """One write: ``after`` so many seconds from the step before, ``do`` what `Site.write` knows."""

    after: float
    do: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """One pod's: ``cell`` is the figure it counts for, ``limit`` whole seconds of the wait."""

    name: str
    cell: str
    steps: tuple[Step, ...]
    limit: int


def cell_of(seconds: float) -> str:
    """The name of a recall cell: "10 ms", "5 s"."""
    return f"{seconds * 1000:g} ms" if seconds < 1 else f"{seconds:g} s"


LENGTHS = {cell_of(seconds): seconds for seconds in PASSING}
"""The recall cells by name."""


def passing(
    seconds: float, count: int, *, spread: float, seed: int, limit: int
) -> Iterator[Timeline]:
    """Pods that are Running for so long, from a random moment within ``spread`` seconds on."""
    drawn = random.Random(f"{seed} passing {seconds}")
    for number in range(count):
        steps = (Step(SOONEST + drawn.random() * spread, "Running"), Step(seconds, "Succeeded"))
        name = f"p{seconds * 1000:.0f}-{number:04}"
        yield Timeline(name, cell_of(seconds), steps, limit)


def lasting(count: int, *, spread: float, seed: int, limit: int) -> Iterator[Timeline]:
    """Pods that are Running for good from a random moment within ``spread`` seconds on."""
    drawn = random.Random(f"{seed} lasting")
    for number in range(count):
        steps = (Step(SOONEST + drawn.random() * spread, "Running"),)
        yield Timeline(f"l-{number:04}", LASTING, steps, limit)


def never(count: int, *, limit: int, cell: str = NEVER) -> Iterator[Timeline]:
    """Pods to which nothing happens."""
    for number in range(count):
        yield Timeline(f"{cell}-{number:04}", cell, (), limit)


def shuffled(timelines: Iterator[Timeline] | list[Timeline], seed: int) -> list[Timeline]:
    """In an order that mixes the cells: what disturbs the machine for a second disturbs all."""
    mixed = list(timelines)
    random.Random(seed).shuffle(mixed)
    return mixed
