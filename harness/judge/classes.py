"""The claim about classes that are left empty: what stands for them is what is there already.

The rule is "Empty-class resolution" of clone_path 3 (S-OSI): a pool that has cloned has the class
of its own claim, a golden without one that of its claim, all else the cluster's default.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.facts.applied import Allowed, AppliedPool
from harness.facts.catalogue import Outlived, Resolved
from harness.facts.fact import Fact, Unread
from harness.judge.refusals import not_allowed, refused, unseen
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named


def class_resolved(resolved: Resolved, outlived: Outlived, subject: str) -> Verdict:
    """class-resolved: an empty class stands for that of the golden's claim, of the cloned pool's
    own disk, or else for the cluster's default.

    Broken where a pool is refused whose two sides come to one class, where one is rendered whose
    sides come to two, where a disk gets another class than is due, and where a pool that has cloned
    gets other templates once its class is left out. Unknown where any of it was not tried or came
    to no end.
    """
    claim = "class-resolved"
    # R8 is the row of two sides that come to two classes
    told = refused(claim, [resolved.refused], ("R8",), subject)
    tried = (*resolved.rendered, outlived.classless)
    read = [one for one in tried if isinstance(one, Allowed)]
    lost = [one for one in tried if isinstance(one, Unread)]
    seen: list[Fact] = [one.seen if isinstance(one, Allowed) else one for one in tried]
    facts = (*seen, outlived.before, resolved.refused)
    wrong = [line for one in read for line in not_allowed(one)]
    wrong += _rolled(outlived.before, outlived.classless)
    wrong += [told.because] if told.outcome is Outcome.BROKEN else []
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    doubts = [line for one in read for line in unseen(one)]
    doubts += [f"not tried: {one.asked}, because {one.reason}" for one in lost]
    doubts += _untold(outlived)
    doubts += [told.because] if told.outcome is Outcome.UNKNOWN else []
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    classes = named(f"{one.what} ({one.storage_class})" for one in read)
    because = f"rendered as due: {classes}; {told.because}"
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _rolled(before: AppliedPool | Unread, classless: Allowed | Unread) -> Iterator[str]:
    """Templates of a pool that are other ones once its class was taken out."""
    after = classless.seen if isinstance(classless, Allowed) else classless
    if not isinstance(before, AppliedPool) or not isinstance(after, AppliedPool):
        return
    pairs = (
        (before.machine_template, after.machine_template),
        (before.bootstrap_template, after.bootstrap_template),
    )
    for was, now in pairs:
        if was and now and was != now:
            yield f"{after.name} has template {now} without its class, had {was}: it would roll"


def _untold(outlived: Outlived) -> Iterator[str]:
    """Why it cannot be said whether a pool would roll."""
    if isinstance(outlived.classless, Unread):
        return
    when = ("before its class was taken out", "without its class")
    for seen, moment in zip((outlived.before, outlived.classless.seen), when, strict=True):
        if isinstance(seen, Unread):
            yield f"the pool {moment}: {seen.asked}: {seen.reason}"
        elif not (seen.machine_template and seen.bootstrap_template):
            yield f"{seen.name} {moment}: not both of its templates are known"
