"""What a cause is, what speaks for it or against it, and what a diagnosis comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from harness.diagnose.case import Unused
from harness.diagnose.view import View


class Weight(StrEnum):
    """How a sign discriminates."""

    PROVES = "proves"
    """Nothing else of the catalogue shows so."""
    FITS = "fits"
    """Expected with this cause, and with others too: it never names one."""
    AGAINST = "speaks against"
    RULES_OUT = "rules out"


class Grade(StrEnum):
    """What a cause does."""

    FAULT = "fault"
    """Something does not work, or will not."""
    HAZARD = "hazard"
    """All works, and by luck, or not for long, or not as somebody thinks."""


class Standing(StrEnum):
    """Where the evidence leaves a cause."""

    NAMED = "named"
    CONTRADICTED = "evidence both ways"
    POSSIBLE = "possible"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a sign found: a sentence, where, and of what (a pool, a node, "" for the cluster)."""

    text: str
    source: str = ""
    subject: str = ""


Find = Callable[[View], Iterable[Seen]]


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing to look at. ``look`` says at what, ``shows`` what is seen there with this cause
    (or, for a weight that is against it, without). ``find`` gives what a case shows of it, nothing
    where the case does not tell: nothing is no evidence."""

    weight: Weight
    look: str
    shows: str
    find: Find


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause.

    ``story`` is the cause in one sentence, ``wrong`` the diagnosis that tempts and ``why_wrong``
    why it is wrong; ``check`` is what still decides, ``command`` how to make it. ``symptoms`` are
    ids of the symptoms that it shows as; ``leads_to`` are causes that follow from this one, which
    is then the root of them.
    """

    id: str
    family: str
    title: str
    story: str
    signs: tuple[Sign, ...]
    wrong: str
    why_wrong: str
    check: str
    command: str
    symptoms: tuple[str, ...] = ()
    leads_to: tuple[str, ...] = ()
    grade: Grade = Grade.FAULT


@dataclass(frozen=True, slots=True)
class Symptom:
    """What somebody notices. ``find`` gives where a case shows it. ``note``: what it does not
    mean."""

    id: str
    title: str
    look: str
    find: Find
    note: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One sighting for a cause or against it."""

    text: str
    source: str
    subject: str
    weight: Weight

    @property
    def for_(self) -> bool:
        """Whether it speaks for the cause."""
        return self.weight in (Weight.PROVES, Weight.FITS)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cause where the evidence leaves it. ``open`` are the signs that would still decide, of
    which the case tells nothing; ``root``: the id of a named cause that it follows from, or ""."""

    cause: Cause
    standing: Standing
    for_: tuple[Evidence, ...]
    against: tuple[Evidence, ...]
    open: tuple[Sign, ...]
    root: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """What it is about: what the proofs are of, or all evidence where there is none."""
        proofs = [one for one in self.for_ if one.weight is Weight.PROVES and one.subject]
        return tuple(dict.fromkeys(one.subject for one in proofs or self.for_ if one.subject))


@dataclass(frozen=True, slots=True)
class Noticed:
    """A symptom that the case shows, and where."""

    symptom: Symptom
    seen: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All causes that the case tells anything of, most certain first."""

    noticed: tuple[Noticed, ...]
    ranked: tuple[Ranked, ...]
    unused: tuple[Unused, ...]
    looked_at: int = 0
    """Objects and texts that were reasoned over."""

    def of(self, *standings: Standing) -> tuple[Ranked, ...]:
        """The causes of these standings."""
        return tuple(one for one in self.ranked if one.standing in standings)

    @property
    def named(self) -> tuple[Ranked, ...]:
        """The causes that discriminating evidence names."""
        return self.of(Standing.NAMED)

    @property
    def beside(self) -> tuple[Ranked, ...]:
        """Causes that only fit, and of which nothing is left to explain: all that they would show
        as has a cause that is named."""
        explained = {name for one in self.named for name in one.cause.symptoms}
        return tuple(
            one
            for one in self.of(Standing.POSSIBLE)
            if one.cause.symptoms and explained.issuperset(one.cause.symptoms)
        )

    @property
    def unexplained(self) -> tuple[Noticed, ...]:
        """Symptoms of which no named cause is one of the reasons."""
        explained = {name for one in self.named for name in one.cause.symptoms}
        return tuple(one for one in self.noticed if one.symptom.id not in explained)
