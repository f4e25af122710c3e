"""Policies: which claims, on which hardware, a release needs, and what counts as evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from harness.claims.catalogue import SEVERITIES, Claim
from harness.report.parts import PARTS, part_of
from harness.report.substrate import Substrate

SCHEMA = "hil.policy/1"
NO_CARD = "none"
"""The hardware of a pool without a card, as a policy says it; a ledger leaves it empty."""
OF_DEFAULTS = frozenset({"operator-default"})
"""Claims that are of the chart's own default by their sentence: whatever a policy says, values
from an override are no evidence for them (lanes.md section 6, rule 3).
"""
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0}
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")

Item = Literal[
    "platform",
    "charts",
    "operator",
    "talos",
    "schematic",
    "extensions",
    "kubernetes",
    "driver",
    "pci",
    "storage",
]


def seconds_of(text: str) -> float:
    """ "36h" or "14d" in seconds; ValueError says what is allowed."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text)
    if found is None:
        raise ValueError("a whole number with m, h or d, such as 36h or 14d")
    return int(found[1]) * _UNITS[found[2]]


def _age(text: str) -> str:
    seconds_of(text)
    return text


def _pci_ids(ids: tuple[str, ...]) -> tuple[str, ...]:
    if not ids or any(_PCI.fullmatch(one) is None for one in ids):
        raise ValueError('PCI ids as vendor:device in small letters, such as "10de:26b9"')
    return ids


def _part(name: str) -> str:
    if name not in PARTS:
        raise ValueError(f"one of {', '.join(PARTS)}")
    return name


Age = Annotated[str, AfterValidator(_age)]
PciIds = Annotated[tuple[str, ...], AfterValidator(_pci_ids)]
Part = Annotated[str, AfterValidator(_part)]
Real = Literal["simulated", "mini-lab", "cluster"]
Word = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Choice(_Part):
    """Some claims of the catalogue: those named, and those of a severity, a part, or both."""

    claims: tuple[Word, ...] = Field((), description="ids of claims")
    severity: Literal["blocker", "critical", "normal"] | None = Field(
        None, description="claims at least this severe: blocker, critical or normal"
    )
    parts: tuple[Part, ...] = Field((), description=f"claims of these parts: {', '.join(PARTS)}")
    without: tuple[Word, ...] = Field(
        (), description="of those chosen by severity or part, none that needs this of a pool"
    )
    exclude: tuple[Word, ...] = Field((), description="ids of claims to leave out")

    def of(self, catalogue: Mapping[str, Claim]) -> tuple[str, ...]:
        """The ids chosen, in the catalogue's order; an id that is unknown is left to `check`."""
        picked = {one.id for one in catalogue.values() if self._takes(one)} | set(self.claims)
        return tuple(one for one in catalogue if one in picked - set(self.exclude))

    def _takes(self, claim: Claim) -> bool:
        if self.severity is None and not self.parts:
            return False
        least = SEVERITIES.index(self.severity or SEVERITIES[-1])
        return (
            SEVERITIES.index(claim.severity) <= least
            and (not self.parts or part_of(claim) in self.parts)
            and not set(self.without) & {need.partition("=")[0] for need in claim.needs}
        )


class Need(Choice):
    """One line of a policy: claims that must be established on one kind of hardware."""

    title: Word = Field(description="what the line is for, in a few words")
    hardware: Word = Field(
        description='a card as runs name it, such as L40S, or "none": pools without one'
    )
    values: Literal["default", "any"] = Field(
        "default",
        description='"default": no evidence from pools with values of somebody\'s own',
    )
    lanes: tuple[Word, ...] = Field((), description="only runs of these lanes; empty: of any")


class PolicyFile(_Part):
    """What a policy's file may say."""

    schema_: Literal["hil.policy/1"] = Field(alias="schema", description=f'"{SCHEMA}"')
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")] = Field(
        description="small letters, digits and hyphens"
    )
    description: Word = Field(description="one sentence for the sign-off")
    purpose: Literal["release", "learning"] = Field(
        description='"release", or "learning": then nothing is signed by it'
    )
    substrates: tuple[Real, ...] = Field(
        ("cluster",), min_length=1, description="what a run must have been made on"
    )
    max_age: Age = Field(alias="maxAge", description="how old a run may be: 36h, 14d")
    identity: tuple[Item, ...] = Field(
        (), description="what the runs must record; platform: what was installed, not the subject"
    )
    cards: dict[str, PciIds] = Field(
        {}, description="hardware to the PCI ids that a guest with it must show"
    )
    includes: tuple[Word, ...] = Field((), description="names of policies that are needed as well")
    waivable: tuple[Word, ...] = Field(
        (), description="ids of needed claims that may be waived with a reason, unless broken"
    )
    needs: tuple[Need, ...] = Field((), description="claims that must be established")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One claim that must be established on one kind of hardware ("" for none), and by what.

    ``max_age`` is in seconds; ``pci`` are the ids that the guests must show, none: any;
    ``lanes`` likewise.
    """

    claim: str
    hardware: str
    policy: str
    title: str
    substrates: tuple[Substrate, ...]
    max_age: float
    defaults: bool
    lanes: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Claim and hardware."""
        return self.claim, self.hardware


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with those that it includes, resolved against the catalogue of claims."""

    name: str
    description: str
    release: bool
    requirements: tuple[Requirement, ...]
    identity: tuple[tuple[str, str], ...]
    """Policy and item: what the runs on which that policy's claims rest must record."""
    waivable: frozenset[str]
    sha256: str = ""

    @property
    def hardware(self) -> tuple[str, ...]:
        """Each kind of hardware that is needed, in order."""
        return tuple(dict.fromkeys(one.hardware for one in self.requirements))


def requirements(file: PolicyFile, catalogue: Mapping[str, Claim]) -> Iterator[Requirement]:
    """What the file's own lines need, claim by claim, without what it includes."""
    for need in file.needs:
        for claim in chosen(need, catalogue):
            yield Requirement(
                claim,
                "" if need.hardware == NO_CARD else need.hardware,
                file.name,
                need.title,
                tuple(Substrate(one) for one in file.substrates),
                seconds_of(file.max_age),
                need.values == "default" or claim in OF_DEFAULTS,
                need.lanes,
                file.cards.get(need.hardware, ()),
            )


def chosen(need: Need, catalogue: Mapping[str, Claim]) -> tuple[str, ...]:
    """The claims of a line. Of those it does not name, none that its hardware cannot answer."""
    alien = {"gpu", "nvidia"} if need.hardware == NO_CARD else {"no-gpu"}
    return tuple(
        one
        for one in need.of(catalogue)
        if one in need.claims
        or not alien & {term.partition("=")[0] for term in catalogue[one].needs}
    )


def resolved(
    files: Sequence[PolicyFile], catalogue: Mapping[str, Claim], *, sha256: str = ""
) -> Policy:
    """The policy of the first file with what the others, which it includes, need as well.

    Where two lines want one claim on one kind of hardware, both stand.
    """
    top = files[0]
    wanted = dict.fromkeys(one for file in files for one in requirements(file, catalogue))
    items = dict.fromkeys((file.name, item) for file in files for item in file.identity)
    waivable = frozenset(claim for file in files for claim in file.waivable)
    return Policy(
        top.name,
        top.description,
        all(file.purpose == "release" for file in files),
        tuple(wanted),
        tuple(items),
        waivable,
        sha256,
    )


def published() -> dict[str, Any]:
    """The JSON Schema of a policy's file."""
    body = PolicyFile.model_json_schema(by_alias=True, mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "title": "Sign-off policy",
    }
