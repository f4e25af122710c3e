"""Allure: facts and verdicts inside a running test, and the result files that no test writes.

How Allure maps, escapes and reads these files was measured with allure-pytest 2.16 and both
renderers (lab/reporting.md sections 1.4 to 1.7 and 2.4).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.facts.fact import Fact
from harness.judge.verdict import Outcome, Verdict
from harness.report.atomic import write_bytes, write_json
from harness.report.outcome import Missing
from harness.report.records import cap, fact_fields, visible
from harness.report.redact import redact, redact_data

_NAMESPACE = uuid.UUID("6d2f0f0a-52bb-5a0c-9a3b-0c1f5f7a9e11")

CATEGORIES: Sequence[Mapping[str, Any]] = (
    {
        "name": "Planned and not run",
        "matchedStatuses": ["broken"],
        "messageRegex": r"[\s\S]*not run: [\s\S]*",
    },
    {
        "name": "Product: claim broken",
        "matchedStatuses": ["failed"],
        "messageRegex": r"[\s\S]*\bbroken: [\s\S]*",
    },
    {
        "name": "Not known: the answer could not be read",
        "matchedStatuses": ["failed", "broken"],
        "messageRegex": r"[\s\S]*\bunknown: [\s\S]*",
    },
    {
        "name": "Lab unfit",
        "matchedStatuses": ["broken", "failed"],
        "traceRegex": r"[\s\S]*\bharness\.reach\.errors\b[\s\S]*",
    },
    {"name": "Harness or scenario at fault", "matchedStatuses": ["broken"]},
)
"""Allure 2 wants each pattern to match the whole text; ``(?s)`` is not valid in Allure 3."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What Allure calls a test: ``package.module#function``, and the hash its history goes by."""

    full_name: str
    history_id: str


class _NotKnown(Exception):
    """Turns a step yellow: neither held nor broken."""


def message(verdict: Verdict) -> str:
    """The line a failing test shows, in the shape that the categories know."""
    text = f"{verdict.claim} {verdict.outcome.value}: {verdict.because} [{verdict.subject}]"
    return str(visible(redact(text)))


def step_for_fact(fact: Fact) -> None:
    """A step of the running test: what was read, and the text it was read from."""
    import allure

    fields = redact_data(fact_fields(fact))
    with allure.step(visible(f"{fields['kind']} from {fields['source']}")):
        values = json.dumps(fields["values"], indent=2)
        allure.attach(values, f"values at {fields['at']}", allure.attachment_type.JSON)
        if fields["raw"]:
            allure.attach(visible(fields["raw"]), "raw", allure.attachment_type.TEXT)


def attach_verdict(verdict: Verdict) -> None:
    """A step of the running test, red when broken and yellow when unknown; it never raises.

    The test's own outcome stays with whoever calls this.
    """
    import allure

    title = visible(redact(f"{verdict.claim} {verdict.outcome.value}: {verdict.subject}"))
    with contextlib.suppress(AssertionError, _NotKnown), allure.step(title):
        because = cap(visible(redact(verdict.because)))[0]
        allure.attach(because, "because", allure.attachment_type.TEXT)
        if verdict.outcome is Outcome.BROKEN:
            raise AssertionError(because)
        if verdict.outcome is Outcome.UNKNOWN:
            raise _NotKnown(because)


def write_missing(
    results: Path,
    missing: Sequence[Missing],
    *,
    run_id: str,
    at: float,
    identities: Mapping[tuple[str, str], Identity] | None = None,
    substrate: str = "",
) -> list[Path]:
    """A result file for each scenario that was planned and gave no verdict; gives the paths.

    Status ``broken``, since Allure's gate lets ``unknown`` pass. ``at`` is epoch seconds;
    ``identities`` is (scenario, pool) to what Allure calls that test, so that its history joins
    that of runs where it ran; without one the scenario's id and the pool stand for it.
    ``substrate`` becomes a label, as those that ran have it.
    """
    known = identities or {}
    paths = []
    for lost in missing:
        key = (lost.scenario, lost.pool)
        own = Identity(lost.scenario, _digest(json.dumps(key)))
        result = _missing_result(lost, run_id, at, known.get(key, own), substrate)
        paths.append(write_json(results / f"{result['uuid']}-result.json", visible(result)))
    return paths


def write_environment(results: Path, properties: Mapping[str, str]) -> Path:
    """``environment.properties``, escaped as Java reads it; secrets are taken out."""
    clean: Mapping[str, str] = redact_data(dict(properties))
    lines = [f"{_escaped(key, in_key=True)}={_escaped(text)}\n" for key, text in clean.items()]
    return write_bytes(results / "environment.properties", "".join(lines).encode("ascii"))


def write_categories(results: Path) -> Path:
    """``categories.json`` for Allure 2; Allure 3 wants the same list in its configuration."""
    return write_json(results / "categories.json", [dict(item) for item in CATEGORIES])


def write_executor(
    results: Path,
    *,
    name: str,
    kind: str = "",
    build_order: int | None = None,
    build_name: str = "",
    build_url: str = "",
    report_url: str = "",
    report_name: str = "",
) -> Path:
    """``executor.json``: who ran it. ``build_order`` orders the trend; empty fields stay away."""
    fields = {
        "name": name,
        "type": kind,
        "buildOrder": build_order,
        "buildName": build_name,
        "buildUrl": build_url,
        "reportUrl": report_url,
        "reportName": report_name,
    }
    given = {key: value for key, value in fields.items() if value not in ("", None)}
    return write_json(results / "executor.json", given)


def _missing_result(
    lost: Missing, run_id: str, at: float, identity: Identity, substrate: str
) -> dict[str, Any]:
    name = f"{lost.scenario} on {lost.pool}"
    key = json.dumps([run_id, lost.scenario, lost.pool, lost.why])
    unique = str(uuid.uuid5(_NAMESPACE, key))
    claims = ", ".join(lost.claims) or "none named"
    stamp = round(at * 1000)
    labels = {
        "tag": "not-run",
        "suite": identity.full_name.partition("#")[0],
        "host": lost.pool,
        "framework": "pytest",
        "substrate": substrate,
    }
    return {
        "uuid": unique,
        "name": name,
        "fullName": identity.full_name,
        "testCaseId": _digest(identity.full_name),
        "historyId": identity.history_id,
        "status": "broken",
        "statusDetails": {"message": f"not run: {lost.why} (claims: {claims})"},
        "stage": "finished",
        "start": stamp,
        "stop": stamp,
        "labels": [{"name": name, "value": text} for name, text in labels.items() if text],
        "parameters": [{"name": "pool", "value": repr(lost.pool), "excluded": True}],
    }


def _digest(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def _escaped(text: str, *, in_key: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    text = re.sub(r"[ :=#!]", r"\\\g<0>", text) if in_key else re.sub(r"^ ", r"\\ ", text)
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
