"""Claims about change: that an intended one reaches a pool, and that nothing else moves one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.facts.fact import Unread
from harness.facts.machineconfig import RenderedModules
from harness.facts.pool import RequestedModules
from harness.facts.poolstate import PoolState, TemplateState
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, unread


def rollout(
    before: PoolState | Unread,
    after: PoolState | Unread,
    rendered: RenderedModules | Unread,
    wanted: RequestedModules,
    subject: str,
) -> Verdict:
    """rollout: a changed list of modules reaches the template that the MachineDeployment refers to,
    under a new name, so that Cluster API rolls the pool onto it.

    ``rendered`` is what that template declares after the change, ``wanted`` the list that was
    written. With fixed names the apply is refused and the release stays Ready; what carries the
    list under the old name is rolled onto by nobody. Unknown where nothing was changed, while the
    release has not come to an end, and where the list arrived with a release that failed.
    """
    claim = "rollout"
    facts = (before, after, rendered)
    if isinstance(before, Unread) or isinstance(after, Unread) or isinstance(rendered, Unread):
        return unread(claim, subject, *facts)
    release = after.release
    if wanted.listed is None or before.release.values == release.values:
        because = "no list was written that is another than before, so none is to arrive"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    if release.ready not in ("True", "False"):
        because = f"release {release.name} has not come to an end ({release.reason})"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    arrived = rendered.modules == wanted.listed
    renamed = after.bootstrap.name != before.bootstrap.name
    seen = f"the MachineDeployment refers to {after.bootstrap.name}, before {before.bootstrap.name}"
    if arrived and renamed:
        because = f"{seen}, and it declares {wanted}; release {_standing(after)}"
        settled = Outcome.HOLDS if release.ready == "True" else Outcome.UNKNOWN
        return Verdict(claim, subject, settled, because, facts)
    because = f"{_missed(after, arrived=arrived)}: {seen}, which declares {named(rendered.names)}"
    return Verdict(claim, subject, Outcome.BROKEN, f"{because}; written was {wanted}", facts)


def no_roll(before: PoolState | Unread, after: PoolState | Unread, subject: str) -> Verdict:
    """no-roll: after a forced reconcile, templates, Job, machines, disks and boots are those that
    were before.

    Unknown where no reconcile was handled in between, where it did not end well, and where the
    pool's values changed besides. A Job that has gone is not compared: it goes by itself.
    """
    claim = "no-roll"
    if isinstance(before, Unread) or isinstance(after, Unread):
        return unread(claim, subject, before, after)
    if after.release.handled in ("", before.release.handled):
        because = f"no reconcile of {after.release.name} was handled between the two looks"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (before, after))
    return _compared(claim, before, after, subject)


def unchanged_since(
    recorded: PoolState | Unread, today: PoolState | Unread, subject: str
) -> Verdict:
    """unchanged-since: the pool is what it was when its state was recorded, by an earlier run.

    Unknown where the file is of another pool or cluster, and as for `no_roll`.
    """
    claim = "unchanged-since"
    if isinstance(recorded, Unread) or isinstance(today, Unread):
        return unread(claim, subject, recorded, today)
    if (recorded.cluster, recorded.pool) != (today.cluster, today.pool):
        because = (
            f"the state recorded is of pool {recorded.pool} of {recorded.cluster}, this is "
            f"{today.pool} of {today.cluster}"
        )
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (recorded, today))
    return _compared(claim, recorded, today, subject)


def _compared(claim: str, before: PoolState, after: PoolState, subject: str) -> Verdict:
    facts = (before, after)
    doubts = list(_doubts(before, after))
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    changes = list(_changes(before, after))
    if changes:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(changes), facts)
    job = f"Job {after.job}" if before.job and after.job else "no Job to compare"
    because = (
        f"as before: {after.bootstrap.name}, {after.machine.name}, {job}, "
        f"{counted(len(after.machines), 'machine')}, {counted(len(after.vmis), 'VMI')}, "
        f"{counted(len(after.data_volumes), 'disk')}, {counted(len(after.boots), 'boot')}"
    )
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _doubts(before: PoolState, after: PoolState) -> Iterator[str]:
    if after.release.ready != "True":
        yield f"release {_standing(after)}"
    if before.release.values != after.release.values:
        yield "the pool's values are others than before, so a change would have a cause"
    if not (before.machines and before.boots):
        yield "the pool had no worker before, so none could have been kept"
    if not all((*before.boots.values(), *after.boots.values())):
        yield "the boot of a node is not known"


def _changes(before: PoolState, after: PoolState) -> Iterator[str]:
    yield from _template(before.bootstrap, after.bootstrap)
    yield from _template(before.machine, after.machine)
    if before.regime != after.regime:
        yield f"templates are named by {after.regime}, before by {before.regime}"
    if before.job and after.job and before.job != after.job:
        yield f"the reconcile Job is {after.job}, was {before.job}"
    yield from _uids("Machine", before.machines, after.machines)
    yield from _uids("VMI", before.vmis, after.vmis)
    yield from _uids("DataVolume", before.data_volumes, after.data_volumes)
    yield from _uids("boot of", before.boots, after.boots)


def _template(before: TemplateState, after: TemplateState) -> Iterator[str]:
    if before.name != after.name:
        yield f"{after.kind} in use is {after.name}, was {before.name}"
    elif before.digest != after.digest:
        yield f"{after.kind} {after.name} has another content than before"


def _uids(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield f"{what} {name} is {now or 'gone'}, was {was or 'not there'}"


def _standing(state: PoolState) -> str:
    """The release and what it says of itself."""
    release = state.release
    why = ": ".join(part for part in (release.reason, release.message) if part)
    return f"{release.name} has Ready={release.ready}" + (f" ({why})" if why else "")


def _missed(after: PoolState, *, arrived: bool) -> str:
    """How a change failed to reach the workers."""
    if after.release.ready == "False":
        return f"release {_standing(after)}"
    if arrived:
        return "changed in place under its old name, which rolls no worker"
    if after.regime == "fixed":
        return "refused, release green, new workers also old"
    return "the list did not arrive, release green"
