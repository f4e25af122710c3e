"""What is asked of a pool's chart to be refused, row by row, and what only looks as if it should.

Rows and their rules are those of clone_path 3 (S-OSI). No request needs more than to be rendered: a
Talos release that no matrix lists, a factory that is none and a golden that is not there are never
gone for, since no worker is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.bringup.scratch_pools import Variant
from harness.facts.applied import Allowed
from harness.facts.fact import Origin, Unread
from harness.facts.goldenname import name_of_golden
from harness.facts.quantity import bytes_of
from harness.inventory.naming import is_trial_name

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

ANOTHER = "hil-another"
"""The release that a scratch pool is said to belong to."""
UNLISTED = "v1.99.0"
"""A Talos release that no support matrix lists; such a one passes (clone_path 3, R10)."""
LISTED, TOO_OLD = "v1.13.6", "v1.30"
"""A Talos release whose minor is in the matrix, and Kubernetes older than it supports."""
NO_SCHEMATIC = "hil-no-such-golden"
SMALL = "4Gi"
"""Smaller than any golden: the raw image alone is 4.15 GiB (clone_path 2)."""
_ASIDE = {
    "R6": "a broken import does not come to the phase Failed (CDI v1.64)",
    "R7": "golden-lost has a golden of its own fail",
}
"""Rows that take a golden which fails, and why they are not tried on the pool's own."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A request that breaks the rule of a row: how, and which of its texts do."""

    row: str
    variant: Variant
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Golden:
    """A golden as it is: its class ("" where neither it nor its claim names one), its requested
    size as written, and its phase."""

    name: str
    storage_class: str
    size: str
    phase: str

    @property
    def is_done(self) -> bool:
        """Whether it was imported: R7 comes before R8 and R9 of one that keeps failing."""
        return self.phase == "Succeeded"


def os_image_breaches(pool: HeldPool, parent: str) -> list[Breach | Unread]:
    """R1 to R4, R10 and R11, each by every way that leads there without a golden.

    ``parent`` is the Kubernetes release of the tenant's control plane, "" where it is not known.
    """
    return [
        _wrong("R1", {"osImage": {"builtin": {}, "factory": {}}}),
        _wrong("R2", {"talos": {"schematicID": "Vanilla_1"}}, "Vanilla_1"),
        _wrong("R2", _factory(schematicID="vanilla/extra"), "vanilla/extra"),
        _wrong("R3", {"talos": {"version": "v1.13"}}, "v1.13"),
        _wrong("R3", _factory(version="1.13.6"), "1.13.6"),
        _wrong("R4", {"talos": {"imageFactoryURL": ""}}, ""),
        _wrong("R4", _factory(imageFactoryURL="ftp://factory.invalid"), "ftp://factory.invalid"),
        _wrong("R10", {"version": TOO_OLD, "talos": {"version": LISTED}}, TOO_OLD, LISTED),
        _wrong(
            "R10",
            {"version": TOO_OLD, "talos": {"version": UNLISTED}, **_factory(version=LISTED)},
            TOO_OLD,
            LISTED,
        ),
        _ahead(pool, parent),
    ]


def golden_breaches(
    pool: HeldPool, golden: Golden | Unread, default: str, classes: Sequence[str]
) -> list[Breach | Unread]:
    """R5 by a schematic without a golden; R8 and R9 against the golden that is there.

    ``default`` is what an empty class stands for ("" if unknown), ``classes`` are the cluster's.
    """
    version = pool.request.talos_version
    absent = name_of_golden(NO_SCHEMATIC, version)
    missing = _wrong("R5", _builtin(schematicID=NO_SCHEMATIC, version=version), absent)
    never = [_untried(pool, row, why) for row, why in _ASIDE.items()]
    if not isinstance(golden, Golden) or not golden.is_done:
        why = _why_not(golden)
        return [missing, *never, *(_untried(pool, row, why) for row in ("R8", "R9"))]
    return [missing, *never, *_classes(pool, golden, default, classes), _small(pool, golden)]


def allowed_requests(
    pool: HeldPool, golden: Golden | Unread, default: str
) -> list[tuple[Variant, Allowed] | Unread]:
    """What must be rendered, with what is expected of its disk; what cannot be tried, with why."""
    wanted: list[tuple[Variant, Allowed] | Unread] = [
        _expected(pool, "osImage.factory {}", {"osImage": {"factory": {}}}),
        _expected(pool, "a Talos minor that no matrix lists", _factory(version=UNLISTED)),
        _untried(pool, "a pool that has cloned before its golden went", "golden-lost looks at one"),
        _untried(pool, "a golden in the middle of its import", "catalogue-import looks at one"),
    ]
    if not isinstance(golden, Golden) or not golden.is_done:
        return [*wanted, _untried(pool, "osImage.builtin {}", _why_not(golden))]
    builtin: dict[str, Any] = {"osImage": {"builtin": {}}}
    wanted += [
        _cloned(pool, golden, "osImage.builtin {}", builtin),
        _cloned(
            pool,
            golden,
            "an empty talos.imageFactoryURL beside builtin",
            {**builtin, "talos": {"imageFactoryURL": ""}},
        ),
    ]
    empty = "an empty class that stands for the golden's"
    if default and default == golden.storage_class:
        return [*wanted, _cloned(pool, golden, empty, {**builtin, "storageClass": ""})]
    why = f"the default class is {default or 'not known'}, the golden's {golden.storage_class}"
    return [*wanted, _untried(pool, empty, why)]


def _wrong(row: str, merge: dict[str, Any], *wrong: str) -> Breach:
    return Breach(row, Variant(merge, drop=("osImage",)), wrong)


def _factory(**fields: str) -> dict[str, Any]:
    return {"osImage": {"factory": fields}}


def _builtin(**fields: str) -> dict[str, Any]:
    return {"osImage": {"builtin": fields}}


def _ahead(pool: HeldPool, parent: str) -> Breach | Unread:
    """R11: the minor after the parent's, with a Talos release that no matrix speaks of."""
    found = re.match(r"v(\d+)\.(\d+)", parent)
    if found is None:
        return _untried(pool, "R11", f"no control plane says its Kubernetes release: {parent!r}")
    version = f"v{found[1]}.{int(found[2]) + 1}"
    return _wrong("R11", {"version": version, "talos": {"version": UNLISTED}}, version)


def _why_not(golden: Golden | Unread) -> str:
    if isinstance(golden, Unread):
        return f"{golden.asked}: {golden.reason}"
    return f"golden {golden.name} is not imported yet ({golden.phase or 'no phase'})"


def _classes(
    pool: HeldPool, golden: Golden, default: str, classes: Sequence[str]
) -> Iterator[Breach | Unread]:
    """R8: another class by name, and by leaving it to a default that is another.

    The latter under a name with which the pool's own begins: a chart that knows a pool's disks by
    how their annotation begins takes the pool's class for it (clone_path 1).
    """
    others = [one for one in classes if one != golden.storage_class]
    if not golden.storage_class or not others:
        why = f"there is no class beside the golden's ({golden.storage_class or 'not known'})"
        yield _untried(pool, "R8", why)
        return
    named = (others[0], others[0], ""), ("", default, _beginning(pool))
    for written, meant, name in named:
        if meant and meant != golden.storage_class:
            found = _wrong(
                "R8", {**_own(pool), "storageClass": written}, meant, golden.storage_class
            )
            yield replace(found, variant=replace(found.variant, name=name))


def _beginning(pool: HeldPool) -> str:
    """A name that the pool's own begins with, "" where there is none that nobody else may have."""
    name = pool.name[:-1].rstrip("-")
    return "" if not name or name in pool.lab.inventory.pools or is_trial_name(name) else name


def _small(pool: HeldPool, golden: Golden) -> Breach | Unread:
    """R9: a disk smaller than the golden."""
    size = bytes_of(golden.size)
    if size is None or size <= (bytes_of(SMALL) or 0):
        return _untried(pool, "R9", f"the golden's size is {golden.size!r}, not above {SMALL}")
    return _wrong("R9", {**_own(pool), "diskSize": SMALL}, SMALL, golden.size)


def _own(pool: HeldPool) -> dict[str, Any]:
    """osImage.builtin with the pool's own schematic and version."""
    schematic = pool.lab.inventory.schematic_of(pool.name).id
    return _builtin(schematicID=schematic, version=pool.request.talos_version)


def _expected(pool: HeldPool, what: str, merge: dict[str, Any]) -> tuple[Variant, Allowed]:
    expected = Allowed(what, "http", "", pool.request.storage_class, _untried(pool, what, ""))
    return Variant(merge, drop=("osImage",)), expected


def _cloned(
    pool: HeldPool, golden: Golden, what: str, merge: dict[str, Any]
) -> tuple[Variant, Allowed]:
    address = f"cozy-public/{golden.name}"
    nothing = _untried(pool, what, "")
    return (
        Variant(merge, drop=("osImage",)),
        Allowed(what, "pvc", address, golden.storage_class, nothing),
    )


def _untried(pool: HeldPool, what: str, why: str) -> Unread:
    origin = Origin(pool.lab.clock.now(), f"{pool.lab.management.name} pool {pool.name}", "")
    return Unread(origin, what, why)
