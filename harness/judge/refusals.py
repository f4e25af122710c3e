"""Claims about bad requests: refused at render, by the right guard's words, and nothing made of it.

Rows are those of clone_path 3 (S-OSI). Nothing but the live API can show them: offline a chart
sees no golden, so that `helm template` refuses every pool that clones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.facts.applied import Allowed, AppliedPool
from harness.facts.fact import Fact, Unread
from harness.facts.refusals import REFUSED, RefusalTrial, chart_text
from harness.judge.application import differences
from harness.judge.guards import GUARDS, OF_CATALOGUE, Said, said, speaker
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named

OS_IMAGE_ROWS = ("R1", "R2", "R3", "R4", "R10", "R11", "R12")
GOLDEN_ROWS = ("R5", "R8", "R9")
_SOME = 3
"""Changes that a sentence names; all of them are in the facts."""
_ASIDE = ("R6", "R7")
"""Rows that only a broken import shows."""
_PASSING = re.compile(
    r"deadline exceeded|timed out|timeout|connection (refused|reset)|no such host|etcdserver"
    r"|too many requests|TLS handshake",
    re.IGNORECASE,
)
"""How a release fails that nobody refused: the same request may do better the next time."""


def os_image_refused(trials: Sequence[RefusalTrial | Unread], subject: str) -> Verdict:
    """os-image-refused: R1 to R4 and R10 to R12 are refused, each by its own words in the release's
    condition and in a Warning Event, and not an object was made or changed.

    Broken where one is accepted, refused by other words or without naming field and value, and
    where anything was made or changed. Unknown where a row was not tried, was refused by the API
    before any chart saw it, has not come to an end, or is told by a text that is cut.
    """
    return refused("os-image-refused", trials, OS_IMAGE_ROWS, subject)


def golden_refused(trials: Sequence[RefusalTrial | Unread], subject: str) -> Verdict:
    """golden-refused: R5, R8 and R9 against the golden that is there; as `os_image_refused`.

    R6 and R7 take an import that is broken: the sentence says that they were not tried.
    """
    return refused("golden-refused", trials, GOLDEN_ROWS, subject, aside=_ASIDE)


def os_image_allowed(trials: Sequence[Allowed], untried: Sequence[Unread], subject: str) -> Verdict:
    """os-image-allowed: what only looks wrong is rendered, with the disk that it asks for.

    Broken where one is refused, or its disk has another source, class or size than is due. Unknown
    where one has not come to an end or shows no template, and unless both an empty builtin and an
    empty factory were among them. What could not be tried here is named with why.
    """
    claim = "os-image-allowed"
    facts: tuple[Fact, ...] = (*(one.seen for one in trials), *untried)
    wrong = [line for one in trials for line in not_allowed(one)]
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    doubts = [line for one in trials for line in unseen(one)]
    tried = {one.form for one in trials}
    doubts += [f"no trial had {form}" for form in ("pvc", "http") if form not in tried]
    if doubts:
        told = "; ".join([*doubts, *_told(untried)])
        return Verdict(claim, subject, Outcome.UNKNOWN, told, facts)
    because = f"rendered as due: {named(one.what for one in trials)}"
    return Verdict(claim, subject, Outcome.HOLDS, "; ".join([because, *_told(untried)]), facts)


def refused(
    claim: str,
    trials: Sequence[RefusalTrial | Unread],
    rows: Sequence[str],
    subject: str,
    *,
    aside: Sequence[str] = (),
) -> Verdict:
    """Judge trials that must all be refused; every row of ``rows`` has to be among them.

    An Unread says by ``asked`` which row was not tried; those of ``aside`` are only told.
    """
    facts = tuple(trials)
    read = [one for one in facts if isinstance(one, RefusalTrial)]
    lost = [one for one in facts if isinstance(one, Unread)]
    wrong = [line for one in read for line in _not_refused(one)]
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    doubts = _told([one for one in lost if one.asked not in aside])
    doubts += [line for one in read for line in _undecided(one)]
    asked = {one.row for one in read} | {one.asked for one in lost}
    doubts += [f"no trial of {row} ({GUARDS[row].about})" for row in rows if row not in asked]
    notes = _told([one for one in lost if one.asked in aside])
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join([*doubts, *notes]), facts)
    told = named(dict.fromkeys(f"{one.row} ({GUARDS[one.row].about})" for one in read))
    because = (
        f"{counted(len(read), 'request')} refused in condition and Warning Event, each by its own "
        f"words with field and value, and nothing was made or changed: {told}"
    )
    return Verdict(claim, subject, Outcome.HOLDS, "; ".join([because, *notes]), facts)


def _not_refused(trial: RefusalTrial) -> Iterator[str]:
    """What is wrong with how a request was met that breaks a rule."""
    if trial.altered:
        return
    what, made = _named(trial), briefly(trial.changes)
    if trial.ready == "True" and not trial.api:
        if not _is_idle(trial):
            yield f"{what} is accepted{f' ({made})' if made else ''}"
        return
    if made:
        yield f"{what}: {made}"
    if trial.api or not trial.settled:
        return
    if trial.reason not in REFUSED or _passes(trial.message):
        return
    if trial.released != "False":
        yield f"{what} is refused, and Released is {trial.released or 'not told'}"
    heard = said(trial.message, trial.row, trial.wrong)
    if heard not in (Said.EXPECTED, Said.CUT):
        yield f"{what} is refused {_whose(trial.message, heard)}"
    elif heard is Said.EXPECTED:
        yield from _not_warned(trial, what)


def _is_idle(trial: RefusalTrial) -> bool:
    """Whether a pool's release is Ready with nothing of a pool rendered, before or after."""
    return trial.row not in OF_CATALOGUE and not (trial.before or trial.after)


def briefly(changes: Sequence[str]) -> str:
    """Some of what was changed, and how much more there is; "" for nothing."""
    more = len(changes) - _SOME
    return ", ".join([*changes[:_SOME], *([f"and {more} more"] if more > 0 else [])])


def _not_warned(trial: RefusalTrial, what: str) -> Iterator[str]:
    """What the Warning Events lack of a refusal that the condition tells."""
    heard = [said(text, trial.row, trial.wrong) for text in trial.warnings]
    if not heard:
        yield f"{what} is refused in the condition, and no Warning Event of the release tells it"
    elif Said.EXPECTED not in heard and Said.CUT not in heard:
        text = trial.warnings[-1]
        yield f"{what}: its Warning Event tells it {_whose(text, heard[-1])}"


def _undecided(trial: RefusalTrial) -> Iterator[str]:
    """Why a trial shows nothing."""
    what = _named(trial)
    if trial.api:
        yield f"{what} was not for the chart to refuse: {trial.api}"
    elif trial.altered:
        keys = named(trial.altered)
        yield f"{what} never came to the chart: the release was told another {keys} than written"
    elif not trial.settled:
        yield f"{what} has not come to an end ({trial.reason or 'no condition Ready'})"
    elif trial.ready == "True":
        yield f"{what} is Ready with no pool rendered: its chart never came to that guard"
    elif trial.reason not in REFUSED or _passes(trial.message):
        yield f"{what} failed before its chart could refuse it: {trial.reason} ({trial.message})"
    elif said(trial.message, trial.row, trial.wrong) is Said.CUT:
        yield f"{what} is refused {_whose(trial.message, Said.CUT)}"
    elif not any(said(t, trial.row, trial.wrong) is Said.EXPECTED for t in trial.warnings):
        yield f"{what}: its Warning Event tells it {_whose(trial.warnings[-1], Said.CUT)}"


def _passes(message: str) -> bool:
    return not chart_text(message).of_chart and _PASSING.search(message) is not None


def _whose(message: str, heard: Said) -> str:
    who = speaker(message)
    other = f" ({who}, {GUARDS[who].about})" if who else ""
    return f"{heard.value}{other}: {chart_text(message).text}"


def not_allowed(trial: Allowed) -> Iterator[str]:
    """What is wrong with how a request was met that only looks wrong."""
    seen = trial.seen
    if not isinstance(seen, AppliedPool):
        return
    what = f"{seen.name} ({trial.what})"
    if seen.ready == "False" and seen.reason in REFUSED and not _passes(seen.message):
        yield f"{what} is refused: {chart_text(seen.message).text}"
        return
    if seen.ready != "True" or seen.rendered is None:
        return
    shape = seen.rendered
    if shape.form and shape.form != trial.form:
        yield f"{what} takes its disk by {shape.form}, due is {trial.form}"
    if trial.address and seen.address != trial.address:
        yield f"{what} takes its disk from {seen.address or 'nowhere'}, due is {trial.address}"
    if trial.storage_class and shape.storage_class != trial.storage_class:
        found = shape.storage_class or "no class"
        yield f"{what} has its disk on {found}, due is {trial.storage_class}"
    yield from (f"{what}: {line}" for line in differences(seen))


def unseen(trial: Allowed) -> Iterator[str]:
    """Why it cannot be said how a request was met that only looks wrong."""
    seen = trial.seen
    if isinstance(seen, Unread):
        yield f"{trial.what}: {seen.asked}: {seen.reason}"
    elif seen.ready != "True":
        yield f"{trial.what} has not been rendered ({seen.reason or 'no verdict'}: {seen.message})"
    elif seen.rendered is None or not seen.rendered.form:
        yield f"{trial.what} is Ready, and no template says where its disk comes from"


def _named(trial: RefusalTrial) -> str:
    return f"{trial.row} ({GUARDS[trial.row].about}) on {trial.name}"


def _told(untried: Sequence[Unread]) -> list[str]:
    return [f"not tried: {one.asked}, because {one.reason}" for one in untried]
