"""What a run cannot show by its nature: sentences from a table, chosen by what its ledger holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.judge.cards import CardKind, card_kind
from harness.report.ledger import LedgerView
from harness.report.outcome import Standing, Summary
from harness.report.records import strings_of
from harness.report.substrate import Substrate, substrate_of

INJECTION = "cdi-injection"
_BANNER = re.compile(r"\bLinux version (\d\S*)")
_NOTED_KERNEL = re.compile(r"\bkernel (\d\S*)")
_NOTED_TCG = re.compile(r"\baccelerator tcg\b")

Words = dict[str, str]


def limits(view: LedgerView, summary: Summary, kind: str) -> list[str]:
    """The sentences that fit a run: ``kind`` is its lab's ("twin", "qemu", "cluster", "" when it is
    not known). Everything else is read off its facts, notes and claims.
    """
    holds = dict(_conditions(view, summary, kind))
    return [_filled(says, holds[when]) for when, says in _table() if when in holds]


def _conditions(view: LedgerView, summary: Summary, kind: str) -> Iterator[tuple[str, Words]]:
    """Each condition of the table that is met, with the words for its blanks."""
    substrate = substrate_of(kind)
    pools = () if substrate is Substrate.MINI_LAB else summary.pools  # what it runs on is no card
    cards = list(dict.fromkeys(card for _, card in pools if card))
    yield "always", {}
    if substrate is Substrate.SIMULATED:
        yield "simulated", {}
    if substrate is Substrate.UNRECORDED:
        yield "unrecorded", {}
    if substrate is Substrate.CONTAINERS:
        yield "containers", {}
    if substrate is Substrate.MINI_LAB:
        yield from _of_guests(view)
    yield ("cards" if cards else "no-cards"), {"cards": ", ".join(cards)}
    yield from _of_requests(view)
    yield from _of_cards(view)
    yield from _of_workers(view)
    held = {row.claim for row in summary.rows if row.outcome is Standing.HOLDS}
    if INJECTION in held:
        yield "by-effect", {}


def _of_guests(view: LedgerView) -> Iterator[tuple[str, Words]]:
    """What guests on one machine leave open (lanes.md section 2, lab/qemu_drbd.md)."""
    yield "mini-lab", {}
    kernels = list(dict.fromkeys(_kernels(view)))
    if not any("talos" in one for one in kernels):
        yield "no-talos", {"kernels": ", ".join(kernels) or "not recorded"}
    if any(_NOTED_TCG.search(note.text("text")) for note in view.of("note")):
        yield "emulated", {}
    versions = dict.fromkeys(_drbd_versions(view))
    eight = [one for one in versions if one.startswith("8.")]
    if eight and len(eight) == len(versions):
        yield "drbd-8", {"version": ", ".join(eight)}
    stubs = list(dict.fromkeys(_nvidia_modules(view)))
    if stubs:
        yield "stub-modules", {"modules": ", ".join(stubs)}


def _kernels(view: LedgerView) -> Iterator[str]:
    for note in view.of("note"):
        yield from _NOTED_KERNEL.findall(note.text("text"))
    for fact in view.of("fact"):
        yield from _BANNER.findall(fact.text("raw"))


def _drbd_versions(view: LedgerView) -> Iterator[str]:
    """Of the kernel module, as status and trials tell it; "" where they do not know it is none."""
    for fact in view.of("fact"):
        values = fact.values
        course = values.get("course")
        told = course if isinstance(course, dict) else values
        if told is course or fact.text("kind").startswith("Drbd"):
            version = told.get("version")
            if isinstance(version, str) and version:
                yield version


def _nvidia_modules(view: LedgerView) -> Iterator[str]:
    """Those that were live. No guest of the mini-lab has a card, and without one NVIDIA's own
    module does not load (lanes.md section 4): they were stubs.
    """
    for fact in view.of("fact"):
        if fact.text("kind") == "ModuleTable":
            names = (str(module.get("name")) for module in fact.rows("modules"))
            yield from (name for name in names if name.startswith("nvidia"))


def _of_requests(view: LedgerView) -> Iterator[tuple[str, Words]]:
    """What of the product's own defaults was not tried, for something was written."""
    addons = [one.values for one in view.of("fact") if one.text("kind") == "Addons"]
    override = dict.fromkeys(key for one in addons for key in strings_of(one.get("override")))
    if override:
        yield "override", {"override": ", ".join(override)}
    if any(one.get("hami") or one.get("hami_release") for one in addons):
        yield "hami-on", {}
    elif addons:
        yield "hami-off", {}
    listed = dict.fromkeys(
        one.shard.removeprefix("pool-")
        for one in view.of("fact")
        if one.text("kind") == "PoolRequest" and _has_own_list(one.values)
    )
    if listed:
        yield "own-modules", {"pools": ", ".join(listed)}


def _has_own_list(values: Mapping[str, Any]) -> bool:
    modules = values.get("kernel_modules")
    listed = isinstance(modules, dict) and modules.get("listed") is not None
    return listed and bool(values.get("gpus"))


def _of_cards(view: LedgerView) -> Iterator[tuple[str, Words]]:
    """What the cards that were there leave open; of a card that is not known, nothing is said."""
    kinds = list(dict.fromkeys(_kinds(view)))
    if kinds and not any(one.nvlink for one in kinds):
        yield "no-nvlink", {"names": ", ".join(one.name for one in kinds)}
    generations = dict.fromkeys(one.generation for one in kinds)
    if len(generations) == 1:
        yield "one-generation", {"generation": next(iter(generations))}


def _kinds(view: LedgerView) -> Iterator[CardKind]:
    for fact in view.of("fact"):
        if fact.text("kind") == "PciCards":
            for card in fact.rows("cards"):
                known = card_kind(f"{card.get('vendor')}:{card.get('device')}")
                if known is not None:
                    yield known


def _of_workers(view: LedgerView) -> Iterator[tuple[str, Words]]:
    """How many workers with cards there were beside each other, and how many cards in one."""
    nodes = [one for one in view.of("fact") if one.text("kind") == "GpuNode"]
    by_pool: dict[str, set[str]] = {}
    for one in nodes:
        by_pool.setdefault(one.shard, set()).add(str(one.values.get("name")))
    if by_pool and all(len(names) == 1 for names in by_pool.values()):
        yield "one-worker", {}
    if nodes and all(one.values.get("allocatable") == "1" for one in nodes):
        yield "one-card", {}


def _filled(says: str, words: Words) -> str:
    for blank, word in words.items():
        says = says.replace(f"{{{blank}}}", word)
    return says


@cache
def _table() -> tuple[tuple[str, str], ...]:
    import tomllib

    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple((entry["when"], entry["says"]) for entry in tomllib.loads(text)["limit"])
