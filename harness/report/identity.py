"""On what a run was made: versions, images, cards and storage, read off its ledger.

The chart's version, the operator's, schematic, extensions, driver and PCI ids have to stand on a
sign-off (lanes.md section 6, rule 3). What a ledger does not record is said to be so. The subject
is what somebody typed, and stands apart from the platform, which was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.ledger import LedgerView
from harness.report.platform import PRODUCT
from harness.report.records import Record, rows_of
from harness.report.rundir import RunInfo

TITLES: Mapping[str, str] = {
    "subject": "Said to be",
    "platform": "Platform installed",
    "charts": "Charts",
    "operator": "GPU operator",
    "talos": "Talos",
    "schematic": "Schematic",
    "extensions": "Extensions",
    "kubernetes": "Kubernetes on workers",
    "kernel": "Kernel on workers",
    "driver": "NVIDIA driver",
    "pci": "PCI ids of cards",
    "storage": "Storage",
    "harness": "Harness",
}
"""Each item of a run's identity, as a sign-off names it, in its order."""
SAME_EVERYWHERE = ("subject", "platform", "charts", "operator")
"""What has to be one and the same in all runs of a release; the rest may differ by pool."""

_CHART = re.compile(r'"chartName": ?"(?P<name>[^"]+)",\s*"chartVersion": ?"(?P<version>[^"]+)"')
_OPERATOR_IMAGE = re.compile(r"(?:^|/)gpu-operator:(v?\d[\w.-]*)")
_KUBELET = re.compile(r'"?kubeletVersion"?: ?"?(v\d[^",\s]*)')
_OS_IMAGE = re.compile(r'"?osImage"?: ?"?Talos \((v[^)]+)\)')
_KERNEL = re.compile(r'"?kernelVersion"?: ?"?(\d[^",\s]*)')
_UNKNOWN = "unknown: "
_TOOLS = ("hil",)
"""Components in run.json that are of the harness and not of what it tests."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One value of one item, and the pools at which it was read ("" where it is of the run).

    ``known``: it is a value; else it is why none could be read.
    """

    item: str
    value: str
    pools: tuple[str, ...]
    known: bool = True


def identity(view: LedgerView, run: RunInfo) -> tuple[Seen, ...]:
    """Everything that the run says of what it was made on, in the order of TITLES, values sorted;
    an item without a value is not recorded.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for item, value, pool in _all(view, run):
        if value:
            found.setdefault((item, value), {})[pool] = None
    order = list(TITLES)
    return tuple(
        Seen(item, value, tuple(one for one in pools if one), known=not _unread(item, value))
        for (item, value), pools in sorted(
            found.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1])
        )
    )


def _unread(item: str, value: str) -> bool:
    return item == "platform" and value.startswith(_UNKNOWN)


def table(found: Mapping[str, Sequence[Seen]]) -> list[dict[str, Any]]:
    """Items, each with its values and where they were read, as a sign-off shows them; ``found`` is
    each run's identity by the run's name. An item without values is not recorded.
    """
    return [
        {
            "item": item,
            "title": title,
            "same_everywhere": item in SAME_EVERYWHERE,
            "values": _read_at(item, found),
        }
        for item, title in TITLES.items()
    ]


def _read_at(item: str, found: Mapping[str, Sequence[Seen]]) -> list[dict[str, Any]]:
    where: dict[str, dict[str, tuple[str, ...]]] = {}
    for run, seen in found.items():
        for one in seen:
            if one.item == item:
                where.setdefault(one.value, {})[run] = one.pools
    same = len({tuple(at.items()) for at in where.values()}) <= 1
    return [
        {
            "value": value,
            "where": [{"run": run, "pools": list(pools)} for run, pools in at.items()],
            "told": "" if same else _told(at, several=len(found) > 1),
        }
        for value, at in sorted(where.items())
    ]


def _told(at: Mapping[str, Sequence[str]], *, several: bool) -> str:
    """Where a value was read, in words; the run's name only where there are several."""
    parts = []
    for run, pools in at.items():
        of_run = f" of {run}" if pools else run
        parts.append(", ".join(pools) + (of_run if several else ""))
    return "; ".join(part for part in parts if part)


def pci_ids(view: LedgerView, pool: str) -> tuple[str, ...]:
    """The vendor:device of NVIDIA's cards that guests of a pool showed, each once, sorted."""
    found = (value for fact in view.of("fact") if pool_of(fact) == pool for value in _pci(fact))
    return tuple(sorted(set(found)))


def pool_of(record: Record) -> str:
    """The pool whose shard a record stands in; "" for the plan's and the end's."""
    if not record.shard.startswith("pool-"):
        return ""
    return record.shard.removeprefix("pool-").partition(".gw")[0]


def _all(view: LedgerView, run: RunInfo) -> Iterator[tuple[str, str, str]]:
    for component, version in run.versions.items():
        item = "harness" if component in _TOOLS else "subject"
        yield item, f"{component} {version}", ""
    if run.subject:
        yield "subject", run.subject, ""
    for fact in view.of("fact"):
        pool = pool_of(fact)
        for item, read in _READERS:
            for value in read(fact):
                yield item, value, pool


def _platform(fact: Record) -> Iterator[str]:
    """What the cluster tells of itself; that it could not be read is a reason, no version."""
    if fact.text("kind") == "PlatformVersion":
        version, reason = (fact.values.get(key) for key in ("version", "reason"))
        yield f"{PRODUCT} {version}" if version else f"{_UNKNOWN}{reason or 'no reason is told'}"


def _charts(fact: Record) -> Iterator[str]:
    """Of a HelmRelease the newest entry of its history, which comes first."""
    if "HelmRelease " in fact.text("source"):
        newest = _CHART.search(fact.text("raw"))
        if newest:
            yield f"{newest['name']} {newest['version']}"


def _operator(fact: Record) -> Iterator[str]:
    if fact.text("kind") != "DaemonSets":
        return
    for one in fact.rows("sets"):
        for container in rows_of(one.get("containers")):
            image = _OPERATOR_IMAGE.search(str(container.get("image")))
            if image:
                yield image[1]


def _talos(fact: Record) -> Iterator[str]:
    if fact.text("kind") in ("BootSource", "InstallImage"):
        yield str(fact.values.get("version") or "")
    yield from _of_node(fact, _OS_IMAGE)


def _schematic(fact: Record) -> Iterator[str]:
    """Declared ones and those that run: they should be one."""
    if fact.text("kind") in ("BootSource", "InstallImage", "Extensions"):
        yield str(fact.values.get("schematic") or "")


def _extensions(fact: Record) -> Iterator[str]:
    """What a running system says of itself, which no template does."""
    names = fact.values.get("names")
    if fact.text("kind") == "Extensions" and isinstance(names, list):
        yield ", ".join(sorted(str(name) for name in names)) or "none"


def _kubernetes(fact: Record) -> Iterator[str]:
    yield from _of_node(fact, _KUBELET)


def _kernel(fact: Record) -> Iterator[str]:
    yield from _of_node(fact, _KERNEL)


def _of_node(fact: Record, pattern: re.Pattern[str]) -> Iterator[str]:
    if " Node " in f" {fact.text('source')}":
        yield from pattern.findall(fact.text("raw"))


def _driver(fact: Record) -> Iterator[str]:
    if fact.text("kind") == "DriverVersion":
        values = fact.values
        yield f"{values.get('release')} ({values.get('flavour')} modules)"


def _pci(fact: Record) -> Iterator[str]:
    if fact.text("kind") == "PciCards":
        for card in fact.rows("cards"):
            if card.get("vendor") == "10de":
                yield f"10de:{card.get('device')}"


def _storage(fact: Record) -> Iterator[str]:
    values = fact.values
    if fact.text("kind") == "DrbdStatus" and values.get("version"):
        yield f"DRBD {values['version']}"
    if fact.text("kind") == "DiskClass" and values.get("name"):
        yield f"StorageClass {values['name']} of {values.get('provisioner')}"
    if fact.text("kind") == "LinstorPools":
        providers = {
            str(one.get("provider"))
            for one in fact.rows("pools")
            if one.get("provider") not in (None, "DISKLESS")
        }
        yield from (f"LINSTOR pools of {one}" for one in sorted(providers))


_READERS: tuple[tuple[str, Callable[[Record], Iterable[str]]], ...] = (
    ("platform", _platform),
    ("charts", _charts),
    ("operator", _operator),
    ("talos", _talos),
    ("schematic", _schematic),
    ("extensions", _extensions),
    ("kubernetes", _kubernetes),
    ("kernel", _kernel),
    ("driver", _driver),
    ("pci", _pci),
    ("storage", _storage),
)
