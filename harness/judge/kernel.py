"""Claims about the kernel of a worker: what is loaded, in which order, with which parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.facts.fact import Unread
from harness.facts.modules import ModuleTable, canonical
from harness.facts.nvidia import NvidiaParams, ParamsAbsent
from harness.judge.expectation import NVIDIA_MODULES
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, outcome, unread

_LIVE = "Live"


def modules_live(table: ModuleTable | Unread, expected: Sequence[str], subject: str) -> Verdict:
    """modules-live: every expected module is Live.

    Unknown where none is expected, and where the missing ones may have stood in the part of the
    table that was lost.
    """
    claim = "modules-live"
    if isinstance(table, Unread):
        return unread(claim, subject, table)
    if not expected:
        because = f"no module is expected here; {len(table.modules)} are loaded"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (table,))
    missing = [name for name in expected if table.find(name) is None]
    idle = [
        f"{one.name} is {one.state}"
        for one in map(table.find, expected)
        if one is not None and one.state != _LIVE
    ]
    if idle or (missing and table.whole):
        parts = ([f"not loaded: {named(missing)}"] if missing else []) + idle
        because = f"{'; '.join(parts)}; expected Live: {named(expected)}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (table,))
    if missing:
        because = f"/proc/modules was cut short, and {named(missing)} may have stood further down"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (table,))
    because = f"Live as expected: {named(expected)}"
    return Verdict(claim, subject, Outcome.HOLDS, because, (table,))


def kernel_module_order(
    table: ModuleTable | Unread,
    subject: str,
    *,
    driver: str = NVIDIA_MODULES[0],
    dependents: Sequence[str] = NVIDIA_MODULES[1:],
) -> Verdict:
    """kernel-module-order: the driver is older than its dependents, and every dependency too.

    The table lists the newest first. Unknown where the driver is not loaded or nothing that
    depends on it is, and where a dependent that the table names has no line.
    """
    claim = "kernel-module-order"
    if isinstance(table, Unread):
        return unread(claim, subject, table)
    loaded = table.find(driver)
    pairs = list(dict.fromkeys(_pairs(table, driver, dependents)))
    if loaded is None or not any(canonical(one) == canonical(driver) for one, _ in pairs):
        state = "is loaded, but nothing that depends on it" if loaded else "is not loaded"
        because = f"{driver} {state}, so there is no order to judge"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (table,))
    wrong = [f"{one} is newer than {user}" for one, user in pairs if _newer(table, one, user)]
    lost = [user for _, user in pairs if table.find(user) is None]
    newest = named(one.name for one in table.modules if one.name in (driver, *dependents))
    seen = f"newest first: {newest}"
    if wrong:
        because = f"{'; '.join(wrong)}; {seen}; expected every module older than its dependents"
        return Verdict(claim, subject, Outcome.BROKEN, because, (table,))
    if lost:
        because = f"{named(lost)} depends on a listed module and has no line of its own"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (table,))
    because = f"{driver} is older than its dependents, as is every dependency; {seen}"
    return Verdict(claim, subject, Outcome.HOLDS, because, (table,))


def nvlink_param(params: NvidiaParams | ParamsAbsent | Unread, subject: str) -> Verdict:
    """nvlink-param: NvLinkDisable is 1 in the driver. Says nothing of whether a card needs it.

    Unknown where the driver is not loaded or does not name the parameter; any other value is
    broken.
    """
    claim, key = "nvlink-param", "NvLinkDisable"
    if isinstance(params, Unread):
        return unread(claim, subject, params)
    if isinstance(params, ParamsAbsent):
        because = f"the driver shows no parameters, it is not loaded: {params.said}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (params,))
    value = params.parameters.get(key)
    if value is None:
        cut = ", in a text cut short" if not params.whole else ""
        because = f"the driver names no {key} among {named(params.parameters)}{cut}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (params,))
    because = f"the driver runs with {key}: {value}, expected 1"
    if value == "1":
        because += "; in effect and harmless, whether the card needs it is not shown"
    return Verdict(claim, subject, outcome(value == "1"), because, (params,))


def _pairs(table: ModuleTable, driver: str, dependents: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(dependency, dependent) as the used-by columns tell, and the driver's known dependents."""
    for module in table.modules:
        for user in module.used_by:
            yield module.name, user
    for name in dependents:
        if table.find(driver) is not None and table.find(name) is not None:
            yield driver, name


def _newer(table: ModuleTable, one: str, other: str) -> bool:
    first, second = table.position(one), table.position(other)
    return first is not None and second is not None and first < second
