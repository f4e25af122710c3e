"""The sign-off: what a run established of a release and what it did not, to read and to sign."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from harness.claims.catalogue import Claim
from harness.report import evidence
from harness.report.atomic import write_bytes, write_json
from harness.report.chain import Chain, chains
from harness.report.identity import Seen, identity, table
from harness.report.ledger import LedgerView
from harness.report.limits import limits
from harness.report.outcome import Finding, Row, Standing, Summary, exit_status
from harness.report.platform import contradicted
from harness.report.records import DESELECTED, Record, rfc3339, visible
from harness.report.redact import redact_data
from harness.report.rundir import RunInfo
from harness.report.substrate import IN_WORDS, Substrate, substrate_of

SCHEMA = "hil.signoff/1"
TEMPLATE = "signoff.html.j2"
WORDS: Mapping[Standing, str] = {
    Standing.HOLDS: "established",
    Standing.BROKEN: "broken",
    Standing.UNKNOWN: "unknown",
    Standing.NOT_RUN: "not run",
    Standing.NOT_ESTABLISHED: "not established",
}
EXCERPT_LINES = 48
"""The driver's parameters and a table of modules fit; a whole machine config does not."""
EXCERPT_COLUMNS = 160
VALUE_LIMIT = 240
"""Characters of one value of a fact that are shown; the ledger has the rest."""


def templates_of(root: Path) -> Path:
    """The folder of the project's own templates in a checkout at ``root``."""
    return root / "reports" / "templates"


def document(
    view: LedgerView, summary: Summary, run: RunInfo, claims: Mapping[str, Claim]
) -> dict[str, Any]:
    """The sign-off as data (schema ``hil.signoff/1``): what ``signoff.json`` holds and what the
    template is given. ``claims`` is the catalogue; a claim it lacks is shown by its id.
    """
    failures = _failures(view, summary, run)
    seen = identity(view, run)
    reservations = _reservations(run, seen)
    shown = {
        "schema": SCHEMA,
        "signable": not failures and not reservations,
        "headline": _headline(summary, failures, reservations),
        "obstacles": failures + reservations,
        "run": _run(run),
        "substrate": _substrate(run),
        "identity": table({run.run_id: seen}),
        "ledger": {
            "sha256": view.sha256,
            "merged": view.merged,
            "unreadable": [str(line) for line in view.unreadable],
        },
        "plan": {
            "planned": summary.planned,
            "reported": summary.reported,
            "missing": summary.planned - summary.reported,
            "lost": [dataclasses.asdict(lost) for lost in summary.missing],
        },
        "counts": {one.value: number for one, number in summary.counts.items()},
        "words": {one.value: word for one, word in WORDS.items()},
        "pools": [{"pool": pool, "hardware": card} for pool, card in summary.pools if pool],
        "claims": [_claim(name, summary, claims, run) for name in summary.claims],
        "open": _open(summary, claims),
        "evidence": evidence.block(view, summary),
        "chains": [_chain(one) for one in chains(summary)],
        "not_shown": _not_shown(view, summary, claims, run.kind),
        "facts": _facts(view, summary),
    }
    result: dict[str, Any] = visible(redact_data(shown))
    return result


def render(
    shown: Mapping[str, Any], templates: Sequence[Path], pictures: Sequence[Any] = ()
) -> str:
    """The sign-off as one HTML page that loads nothing. The first folder of ``templates`` that
    has ``signoff.html.j2`` gives it; jinja2.TemplateNotFound when none has, UndefinedError when
    the template asks for what the document lacks. ``pictures`` (`harness.report.pictures`) have
    whole inline SVG of the project's own, which is shown as it is.
    """
    return page({**shown, "pictures": pictures}, templates, TEMPLATE)


def page(shown: Mapping[str, Any], templates: Sequence[Path], name: str) -> str:
    """The template ``name`` filled with ``shown``; errors as for `render`."""
    environment = _environment(tuple(str(folder) for folder in templates))
    return environment.get_template(name).render(shown)


@cache
def _environment(folders: tuple[str, ...]) -> jinja2.Environment:
    """One for each set of folders: a template is compiled once for all runs of a process."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write(
    shown: Mapping[str, Any],
    directory: Path,
    templates: Sequence[Path],
    pictures: Sequence[Any] = (),
) -> tuple[Path, Path]:
    """Write ``signoff.html`` and ``signoff.json`` into ``directory``; gives both paths."""
    html = render(shown, templates, pictures).encode("utf-8")
    return (
        write_bytes(directory / "signoff.html", html),
        write_json(directory / "signoff.json", dict(shown)),
    )


def _failures(view: LedgerView, summary: Summary, run: RunInfo) -> list[str]:
    """What went wrong or was not seen to the end; none: everything asked was answered well."""
    counts = summary.counts
    found = [
        f"{counts[one]} {_claims(counts[one])} {WORDS[one]}"
        for one in (Standing.BROKEN, Standing.UNKNOWN, Standing.NOT_RUN)
        if counts[one]
    ]
    absent = summary.planned - summary.reported
    if absent:
        found.append(f"{absent} of {summary.planned} planned scenarios missing")
    if summary.unreadable:
        lines = len(summary.unreadable)
        found.append(f"{lines} line{'s' * (lines != 1)} of the ledger unreadable")
    if not view.merged:
        found.append("the run ended before its ledger was joined")
    for note in view.of("note"):
        if note.text("kind") == DESELECTED:
            found.append(note.text("text"))
    if run.fault:
        found.append(f"a fault was injected on purpose: {run.fault}")
    if not counts[Standing.HOLDS]:
        found.append("no claim established")
    if not found and (exit_status(summary) or run.exit):
        found.append(f"the run ended with exit status {run.exit or exit_status(summary)}")
    return found


_RESERVED: Mapping[Substrate, str] = {
    Substrate.SIMULATED: "the lab was simulated",
    Substrate.CONTAINERS: "the lab's nodes were containers on one kernel, no machines",
    Substrate.MINI_LAB: "the lab was a mini-lab: real guests and real DRBD, but nothing of the "
    "release was in it",
    Substrate.UNRECORDED: "the run does not record whether its lab was real",
}


def _reservations(run: RunInfo, seen: Sequence[Seen]) -> list[str]:
    """Why even a run in which everything holds is no evidence for a release.

    A release is signed on QEMU with the product in it and on hardware (lanes.md sections 1 and 6).
    The mini-lab holds nothing of the product: what it shows is of kernels, DRBD and the harness.
    """
    found = [_RESERVED[on] for on in [substrate_of(run.kind)] if on in _RESERVED]
    if not run.subject:
        found.append("the run does not record which release it tested")
    return found + list(_of_platform(run, [one for one in seen if one.item == "platform"]))


def _of_platform(run: RunInfo, seen: Sequence[Seen]) -> Iterator[str]:
    """What is installed is what is signed: read off the cluster, and one from start to end."""
    yield from (f"the platform installed is {one.value}" for one in seen if not one.known)
    if not seen and substrate_of(run.kind) is Substrate.CLUSTER:
        yield "the run does not record which platform is installed"
    installed = [one.value for one in seen if one.known]
    if run.subject:
        yield from contradicted(run.subject, installed)
    if len(installed) > 1:
        yield f"the platform changed during the run: {', '.join(installed)}"


def _claims(number: int) -> str:
    return "claim" if number == 1 else "claims"


def _headline(summary: Summary, failures: Sequence[str], reservations: Sequence[str]) -> str:
    if failures:
        return "Not ready to sign"
    lacking = summary.counts[Standing.NOT_ESTABLISHED]
    said = "Every claim planned is established"
    if lacking:
        said = f"Everything this lab can show is established; {lacking} {_claims(lacking)} not"
    return f"{said}. No evidence for a release" if reservations else said


def _run(run: RunInfo) -> dict[str, Any]:
    fields = dataclasses.asdict(run) | {"versions": dict(run.versions)}
    fields["started"] = rfc3339(round(run.started))
    fields["ended"] = "" if run.ended is None else rfc3339(round(run.ended))
    return fields


def _substrate(run: RunInfo) -> dict[str, str]:
    """On what every claim of the run was established, as far as it was."""
    name = substrate_of(run.kind)
    return {"name": name.value, "says": IN_WORDS[name]}


def _claim(
    name: str, summary: Summary, claims: Mapping[str, Claim], run: RunInfo
) -> dict[str, Any]:
    known = claims.get(name)
    rows = [row for row in summary.rows if row.claim == name]
    return {
        "id": name,
        "sentence": _sentence(name, claims),
        "severity": known.severity if known else "",
        "proof": known.proof if known else "",
        "cells": _cells(rows, [pool for pool, _ in summary.pools if pool]),
        "rows": [_row(row) | {"substrate": substrate_of(run.kind).value} for row in rows],
    }


def _sentence(name: str, claims: Mapping[str, Claim]) -> str:
    known = claims.get(name)
    return known.sentence if known else f"{name} (not in the catalogue)"


def _cells(rows: Sequence[Row], pools: Sequence[str]) -> list[str]:
    """The standing on each pool; empty where the claim is not asked. What no pool can establish
    has a row without a pool, which stands for all of them.
    """
    by_pool = {row.pool: row.outcome.value for row in rows}
    return [by_pool.get(pool, by_pool.get("", "")) for pool in pools]


def _open(summary: Summary, claims: Mapping[str, Claim]) -> list[dict[str, Any]]:
    """What is not established, worst first; pools of one claim with one reason stand together."""
    grouped: dict[tuple[Standing, str, str], list[Row]] = {}
    for row in summary.rows:
        if row.outcome is not Standing.HOLDS:
            grouped.setdefault((row.outcome, row.claim, row.because), []).append(row)
    order = list(Standing)
    return [
        {
            "outcome": outcome.value,
            "claim": claim,
            "sentence": _sentence(claim, claims),
            "because": because,
            "where": [{"pool": row.pool, "hardware": row.hardware} for row in rows],
        }
        for (outcome, claim, because), rows in sorted(
            grouped.items(), key=lambda item: order.index(item[0][0])
        )
    ]


def _chain(found: Chain) -> dict[str, Any]:
    return {
        "pool": found.pool,
        "hardware": found.hardware,
        "links": [
            {"claim": row.claim, "outcome": row.outcome.value, "because": row.because}
            for row in found.links
        ],
    }


def _not_shown(
    view: LedgerView, summary: Summary, claims: Mapping[str, Claim], kind: str
) -> dict[str, list[dict[str, str]] | list[str]]:
    """What stays open by the nature of the run, and claim by claim where one holds."""
    holding = dict.fromkeys(row.claim for row in summary.rows if row.outcome is Standing.HOLDS)
    known = [claims[name] for name in holding if name in claims]
    return {
        "run": limits(view, summary, kind),
        "claims": [{"claim": one.id, "text": one.not_shown} for one in known if one.not_shown],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "pool": row.pool,
        "hardware": row.hardware,
        "outcome": row.outcome.value,
        "because": row.because,
        "subjects": list(row.subjects),
        "findings": [_finding(item) for item in row.findings],
    }


def _finding(item: Finding) -> dict[str, Any]:
    return dataclasses.asdict(item) | {"outcome": item.outcome.value, "facts": list(item.facts)}


def _facts(view: LedgerView, summary: Summary) -> dict[str, Any]:
    """The facts that findings rest on, by key, in the order of the findings."""
    wanted = [key for row in summary.rows for item in row.findings for key in item.facts]
    kept = view.facts()
    return {key: _fact(kept[key]) for key in dict.fromkeys(wanted) if key in kept}


def _fact(record: Record) -> dict[str, Any]:
    excerpt, note = _excerpt(record.text("raw"))
    return {
        "kind": record.text("kind"),
        "at": record.text("at"),
        "source": record.text("source"),
        "values": {name: _shortened(value) for name, value in record.data["values"].items()},
        "raw": excerpt,
        # an object's first lines say little; what it was read for stands among the values
        "raw_whole": not note and not excerpt.startswith("{"),
        "raw_note": note or record.text("raw_note"),
        "raw_sha256": record.text("raw_sha256"),
    }


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_LIMIT else f"{text[:VALUE_LIMIT]} ..."


def _excerpt(raw: str) -> tuple[str, str]:
    lines = raw.rstrip("\n").split("\n")
    kept = [
        line if len(line) <= EXCERPT_COLUMNS else f"{line[:EXCERPT_COLUMNS]} ..."
        for line in lines[:EXCERPT_LINES]
    ]
    left_out = len(lines) - len(kept)
    note = f"{left_out} more lines in the ledger" if left_out else ""
    return "\n".join(kept), note
