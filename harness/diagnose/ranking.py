"""From a case to ranked causes.

A cause is named only where a sign that proves it was found and none that rules it out on the same
subject. What only fits leaves it possible; evidence both ways is told as that. Any number of causes
can be named: they are not weighed against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.diagnose.case import Case, spelt
from harness.diagnose.causes.catalogue import CAUSES
from harness.diagnose.findings import (
    Cause,
    Diagnosis,
    Evidence,
    Grade,
    Noticed,
    Ranked,
    Sign,
    Standing,
    Symptom,
    Weight,
)
from harness.diagnose.symptoms import SYMPTOMS
from harness.diagnose.view import View

_ORDER = tuple(Standing)


def diagnose(
    case: Case,
    causes: Sequence[Cause] = tuple(CAUSES.values()),
    symptoms: Sequence[Symptom] = SYMPTOMS,
) -> Diagnosis:
    """Reason over a case. Pure; the same case gives the same diagnosis."""
    view = View(spelt(case))
    noticed = tuple(Noticed(one, seen) for one in symptoms if (seen := tuple(one.find(view))))
    shown = {one.symptom.id for one in noticed}
    ranked = [found for cause in causes if (found := _ranked(cause, view, shown)) is not None]
    named = {one.cause.id: one for one in ranked if one.standing is Standing.NAMED}
    rooted = [_with_root(one, named.values()) for one in ranked]
    order = [cause.id for cause in causes]
    rooted.sort(key=lambda one: _key(one, order, shown))
    return Diagnosis(noticed, tuple(rooted), case.unused, len(case.objects) + len(case.known))


def _ranked(cause: Cause, view: View, shown: set[str]) -> Ranked | None:
    """A cause where the evidence leaves it, None where the case tells nothing of it: nothing for
    it, and nothing that excludes it as a reason of a symptom that is there."""
    evidence: list[Evidence] = []
    silent: list[Sign] = []
    for sign in cause.signs:
        found = [Evidence(s.text, s.source, s.subject, sign.weight) for s in sign.find(view)]
        evidence += found
        if not found:
            silent.append(sign)
    for_ = tuple(one for one in evidence if one.for_)
    against = tuple(one for one in evidence if not one.for_)
    excluded = any(one.weight is Weight.RULES_OUT for one in against)
    if not for_ and not (excluded and shown.intersection(cause.symptoms)):
        return None
    standing = _standing(for_, against)
    open_ = tuple(one for one in silent if one.weight in (Weight.PROVES, Weight.RULES_OUT))
    return Ranked(cause, standing, for_, against, open_)


def _standing(for_: Iterable[Evidence], against: Iterable[Evidence]) -> Standing:
    ruled = {one.subject for one in against if one.weight is Weight.RULES_OUT}
    proved = [one for one in for_ if one.weight is Weight.PROVES]
    if any(not _ruled_out(one, ruled) for one in proved):
        return Standing.NAMED
    if proved:
        return Standing.CONTRADICTED
    left = [one for one in for_ if not _ruled_out(one, ruled)]
    return Standing.POSSIBLE if left else Standing.EXCLUDED


def _ruled_out(one: Evidence, ruled: set[str]) -> bool:
    """Whether something rules the cause out where this was seen; without a subject: everywhere."""
    return "" in ruled or (one.subject in ruled)


def _with_root(one: Ranked, named: Iterable[Ranked]) -> Ranked:
    for root in named:
        if one.cause.id in root.cause.leads_to:
            return Ranked(one.cause, one.standing, one.for_, one.against, one.open, root.cause.id)
    return one


def _key(one: Ranked, order: Sequence[str], shown: set[str]) -> tuple[object, ...]:
    """Named before possible; roots before what follows from them; faults before hazards; what
    explains a symptom that is there before what explains none; then as the catalogue has them."""
    return (
        _ORDER.index(one.standing),
        bool(one.root),
        one.cause.grade is Grade.HAZARD,
        not shown.intersection(one.cause.symptoms),
        order.index(one.cause.id),
    )
