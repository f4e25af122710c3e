"""Claim os-image-rolls: adopting osImage gives a pool other templates, and no other pool moves."""

from __future__ import annotations

from collections.abc import Iterator

from harness.facts.applied import AppliedPool
from harness.facts.fact import Unread
from harness.facts.surroundings import PoolSight, Surroundings
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, unread


def os_image_rolls(
    before: AppliedPool | Unread,
    after: AppliedPool | Unread,
    around_before: Surroundings,
    around_after: Surroundings,
    held: str,
    subject: str,
) -> Verdict:
    """os-image-rolls: adopting osImage.builtin gives exactly that pool another machine template.

    ``before`` and ``after`` are the pool that adopts it, ``held`` the MachineDeployment of the pool
    that this run holds. Broken where the template keeps its name or its source, and where a
    template, Machine, VMI, disk or boot of another pool is not what it was. Of pools that are not
    held, new objects beside the old ones are no change, and one whose own request changed
    meanwhile, or that was coming up or going, is told and left out. Unknown where the pool was not
    rendered both times, and where the held pool had no worker that could have been moved.
    """
    claim = "os-image-rolls"
    facts = (before, after, around_before, around_after)
    if isinstance(before, Unread) or isinstance(after, Unread):
        return unread(claim, subject, *facts)
    wrong = [*_not_rolled(before, after), *_moved(around_before, around_after, held)]
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    own = around_before.of(held)
    doubts = [*_unrendered(before, "before"), *_unrendered(after, "after")]
    if before.rendered is not None and before.rendered.form == "pvc":
        doubts.append(f"{before.name} was cloned before it adopted osImage.builtin")
    if own is None or not any(part.startswith("Machine ") for part in own.parts):
        doubts.append(f"{held} had no Machine, so none could have been moved")
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    left_out = [f"{name} was changed by somebody meanwhile" for name in _edited(*facts[2:], held)]
    left_out += [f"{name} was coming up or going meanwhile" for name in _moving(*facts[2:], held)]
    whole = len(around_before.pools) - len(left_out)
    because = (
        f"{after.name} went from {before.machine_template} ({before.address}) to "
        f"{after.machine_template} ({after.address}), and {counted(whole, 'other pool')} kept "
        f"{counted(sum(len(one.parts) for one in around_before.pools), 'object')} and boots"
    )
    return Verdict(claim, subject, Outcome.HOLDS, "; ".join([because, *left_out]), facts)


def _not_rolled(before: AppliedPool, after: AppliedPool) -> Iterator[str]:
    both = before.ready == after.ready == "True"
    if not (both and before.machine_template and after.machine_template):
        return
    if before.machine_template == after.machine_template:
        yield f"{after.name} adopted osImage.builtin and still uses {after.machine_template}"
    elif after.rendered is not None and after.rendered.form == "http":
        yield f"{after.name} adopted osImage.builtin and still downloads from {after.address}"


def _unrendered(seen: AppliedPool, when: str) -> Iterator[str]:
    if seen.ready != "True" or not seen.machine_template or seen.rendered is None:
        why = f"{seen.reason}: {seen.message}" if seen.reason else "no verdict"
        yield f"{seen.name} was not rendered {when} it adopted osImage.builtin ({why})"
    elif not seen.rendered.form:
        yield f"the template of {seen.name} does not say where its disk comes from {when} that"


def _moved(before: Surroundings, after: Surroundings, held: str) -> Iterator[str]:
    """What of the other pools is not as it was."""
    edited = [*_edited(before, after, held), *_moving(before, after, held)]
    for was in before.pools:
        now = after.of(was.name)
        if was.name in edited:
            continue
        if now is None:
            yield f"{was.name} is gone"
            continue
        for part in sorted({*was.parts, *(now.parts if was.name == held else ())}):
            yield from _part(was, now, part)


def _part(was: PoolSight, now: PoolSight, part: str) -> Iterator[str]:
    if was.parts.get(part) != now.parts.get(part):
        found = now.parts.get(part) or "gone"
        yield f"{part} of {was.name} is {found}, was {was.parts.get(part) or 'not there'}"


def _edited(before: Surroundings, after: Surroundings, held: str) -> list[str]:
    """Pools whose own request changed, or that went with their request, by somebody else's hand."""
    found = []
    for was in before.pools:
        now = after.of(was.name)
        if was.name != held and (now is None or now.values != was.values):
            found.append(was.name)
    return found


def _moving(before: Surroundings, after: Surroundings, held: str) -> list[str]:
    """Pools that had not come up yet, or that somebody takes down: a run of its own may do so."""
    edited, found = _edited(before, after, held), []
    for was in before.pools:
        now = after.of(was.name)
        going = was.going or (now is not None and now.going)
        if was.name not in (held, *edited) and (going or not was.ready):
            found.append(was.name)
    return found
