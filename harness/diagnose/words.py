"""A diagnosis as a person reads it at three in the morning, and as JSON.

The answer first, in one line. Then each cause: what it is, what speaks for it and against it, what
is still to check, and the diagnosis that tempts. At the end what was not looked at: the rest of the
lab may have it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harness.diagnose.causes.catalogue import CAUSES
from harness.diagnose.findings import (
    Cause,
    Diagnosis,
    Evidence,
    Grade,
    Noticed,
    Ranked,
    Seen,
    Sign,
    Standing,
    Weight,
)

WIDTH = 98
SHOWN = 4
"""Sightings of one kind that are told before the rest is counted."""
UNUSED_SHOWN = 20
_INDENT = "  "


def told(found: Diagnosis, subject: str, *, whole: bool = False) -> str:
    """The diagnosis as text; ``whole``: of excluded causes too, and all that was not used."""
    lines = [*_paragraph(conclusion(found, subject)), ""]
    for noticed in found.noticed:
        lines += [*_noticed(noticed), ""]
    left_out = () if whole else (*found.of(Standing.EXCLUDED), *found.beside)
    full = [one for one in found.ranked if one not in left_out]
    for number, one in enumerate(full, start=1):
        lines += [*_ranked(number, one), ""]
    if not whole:
        lines += _beside(found.beside)
        lines += _excluded(found.of(Standing.EXCLUDED))
    lines += _to_decide(found)
    lines += _unused(found, whole=whole)
    return "\n".join(lines).rstrip() + "\n"


def conclusion(found: Diagnosis, subject: str) -> str:
    """One sentence: what came out."""
    seen = f"{found.looked_at} objects and texts of {subject}"
    roots = [one for one in found.named if not one.root]
    if roots:
        named = "; ".join(f"{one.cause.title}{_of(one.subjects)}" for one in roots)
        rest = "" if not found.unexplained else f". Not explained by it: {_titles(found)}"
        return f"Found in {seen}: {named}{rest}."
    possible = found.of(Standing.POSSIBLE, Standing.CONTRADICTED)
    if possible:
        fitting = "; ".join(one.cause.title for one in possible)
        return (
            f"Not decided by {seen}. What is there fits: {fitting}. See what would decide, below."
        )
    if found.noticed:
        return (
            f"Not decided: {seen} show that something is wrong ({_titles(found)}), and none of the "
            "known causes fits what is there. See what would decide, below."
        )
    rest = " What was not looked at stands below." if found.unused else ""
    return f"Nothing is found wrong in {seen}.{rest}"


def _titles(found: Diagnosis) -> str:
    return "; ".join(one.symptom.title for one in found.unexplained)


def _of(subjects: Sequence[str]) -> str:
    return f" ({_few(subjects, 3)})" if subjects else ""


def _few(words: Sequence[str], many: int) -> str:
    more = f" and {len(words) - many} more" if len(words) > many else ""
    return ", ".join(words[:many]) + more


def _noticed(one: Noticed) -> Iterator[str]:
    yield from _paragraph(f"Seen: {one.symptom.title}")
    yield from _bullets(seen.text for seen in one.seen)
    if one.symptom.note:
        yield from _paragraph(f"({one.symptom.note})", _INDENT)


def _ranked(number: int, one: Ranked) -> Iterator[str]:
    standing = {
        Standing.NAMED: "works today, and should not stand" if _hazard(one.cause) else "the cause",
        Standing.POSSIBLE: "possible, not decided",
        Standing.CONTRADICTED: "the evidence contradicts itself",
        Standing.EXCLUDED: "excluded",
    }[one.standing]
    yield from _paragraph(f"{number}. {one.cause.title}: {standing}  [{one.cause.id}]")
    if one.root:
        yield from _paragraph(f"It follows from {CAUSES[one.root].title}.", _INDENT)
    yield from _paragraph(one.cause.story, _INDENT)
    yield from _evidence("for", one.for_)
    yield from _evidence("against", one.against)
    yield from _labelled("check", f"{one.cause.check}: {one.cause.command}")
    yield from _labelled("not", f"{one.cause.wrong}: {one.cause.why_wrong}")


def _hazard(cause: Cause) -> bool:
    return cause.grade is Grade.HAZARD


def _evidence(label: str, evidence: Sequence[Evidence]) -> Iterator[str]:
    order = sorted(evidence, key=lambda one: list(Weight).index(one.weight))
    for one in order[:SHOWN]:
        strong = f" ({one.weight})" if one.weight in (Weight.PROVES, Weight.RULES_OUT) else ""
        source = f" [{one.source}]" if one.source else ""
        yield from _labelled(label, f"{one.text}{source}{strong}")
    if len(order) > SHOWN:
        yield from _labelled(label, f"and {len(order) - SHOWN} more like these")


def _beside(ranked: Sequence[Ranked]) -> Iterator[str]:
    """What fits too: two causes can hold at once, so each is told with what would decide it."""
    if not ranked:
        return
    yield "Fits too, without proof; what is named explains what is seen:"
    for one in ranked:
        yield from _paragraph(f"- {one.cause.title}: {one.cause.check}", _INDENT)
    yield ""


def _excluded(ranked: Sequence[Ranked]) -> Iterator[str]:
    if not ranked:
        return
    yield "Excluded:"
    for one in ranked:
        why = next(e.text for e in one.against if e.weight is Weight.RULES_OUT)
        yield from _paragraph(f"- {one.cause.title}: {why}", _INDENT)
    yield ""


def _to_decide(found: Diagnosis) -> Iterator[str]:
    """What would decide symptoms that no named cause explains, and causes that only fit."""
    checks = list(deciding(found))
    if not checks:
        return
    yield "What would decide:"
    for cause, signs in checks:
        yield from _paragraph(f"- {cause.title}? Look {_how(cause)}", _INDENT)
        for sign in signs[:2]:
            yield from _paragraph(f"{sign.weight}: {sign.look}: {sign.shows}", _INDENT * 2)
    yield ""


def _how(cause: Cause) -> str:
    return f"at {cause.check}: {cause.command}"


def deciding(found: Diagnosis) -> Iterator[tuple[Cause, Sequence[Sign]]]:
    """Causes that are not decided and the signs that would, of which nothing is known yet.

    First what fits already; then, for a symptom that nothing explains, whatever shows as it and is
    not excluded.
    """
    told_of = {one.cause.id for one in found.ranked}
    for one in found.of(Standing.CONTRADICTED, Standing.POSSIBLE):
        if one not in found.beside:
            yield one.cause, one.open
    unexplained = {one.symptom.id for one in found.unexplained}
    for cause in CAUSES.values():
        if unexplained.intersection(cause.symptoms) and cause.id not in told_of:
            yield cause, [one for one in cause.signs if one.weight is Weight.PROVES]


def _unused(found: Diagnosis, *, whole: bool) -> Iterator[str]:
    if not found.unused:
        return
    yield "Not looked at, so that nothing follows from it:"
    shown = found.unused if whole else found.unused[:UNUSED_SHOWN]
    for one in shown:
        yield from _paragraph(f"- {one.source}: {one.why}", _INDENT)
    if len(shown) < len(found.unused):
        yield f"{_INDENT}- and {len(found.unused) - len(shown)} more (--all lists them)"


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    found = list(texts)
    for text in found[:SHOWN]:
        yield from _paragraph(f"- {text}", _INDENT)
    if len(found) > SHOWN:
        yield f"{_INDENT}- and {len(found) - SHOWN} more"


def _labelled(label: str, text: str) -> list[str]:
    return _wrapped(f"{_INDENT}{label:<8}", text)


def _paragraph(text: str, indent: str = "") -> list[str]:
    return _wrapped(indent, text)


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * (len(head) + 2 * text.startswith("- ")),
        break_long_words=False,
        break_on_hyphens=False,
    )


# -- JSON


def plain(found: Diagnosis, subject: str) -> dict[str, Any]:
    """The diagnosis as plain data; keys and words are part of the interface."""
    return {
        "schema": 1,
        "subject": subject,
        "lookedAt": found.looked_at,
        "conclusion": conclusion(found, subject),
        "symptoms": [
            {"id": one.symptom.id, "title": one.symptom.title, "seen": list(map(_seen, one.seen))}
            for one in found.noticed
        ],
        "causes": list(map(_cause, found.ranked)),
        "wouldDecide": [
            {
                "cause": cause.id,
                "check": cause.check,
                "command": cause.command,
                "signs": [_sign(one) for one in signs],
            }
            for cause, signs in deciding(found)
        ],
        "notLookedAt": [{"source": one.source, "why": one.why} for one in found.unused],
    }


def _seen(one: Seen) -> dict[str, str]:
    return {"text": one.text, "source": one.source, "subject": one.subject}


def _sign(one: Sign) -> dict[str, str]:
    return {"weight": str(one.weight), "look": one.look, "shows": one.shows}


def _cause(one: Ranked) -> dict[str, Any]:
    return {
        "id": one.cause.id,
        "family": one.cause.family,
        "title": one.cause.title,
        "story": one.cause.story,
        "standing": str(one.standing),
        "grade": str(one.cause.grade),
        "subjects": list(one.subjects),
        "followsFrom": one.root,
        "for": list(map(_told_evidence, one.for_)),
        "against": list(map(_told_evidence, one.against)),
        "open": list(map(_sign, one.open)),
        "check": one.cause.check,
        "command": one.cause.command,
        "wrongDiagnosis": one.cause.wrong,
        "whyWrong": one.cause.why_wrong,
    }


def _told_evidence(one: Evidence) -> dict[str, str]:
    return {
        "text": one.text,
        "source": one.source,
        "subject": one.subject,
        "weight": str(one.weight),
    }
