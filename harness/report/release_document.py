"""The sign-off of a release as data (schema `hil.release/1`): what the page shows and what a
pipeline gates on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.claims.catalogue import Claim
from harness.report.identity import table
from harness.report.limits import limits
from harness.report.merged import Run, age_of, joined
from harness.report.outcome import summarise
from harness.report.policy import Requirement
from harness.report.records import rfc3339, visible
from harness.report.redact import redact_data
from harness.report.release import KNOWN_ISSUE, Answer, Answered, Beyond, Decision, Result, Said
from harness.report.substrate import IN_WORDS

SCHEMA = "hil.release/1"


def document(decision: Decision, claims: Mapping[str, Claim]) -> dict[str, Any]:
    """The sign-off as plain data, redacted. ``claims`` is the catalogue."""
    shown = {
        "schema": SCHEMA,
        "verdict": decision.result.value,
        "signable": decision.result is Result.SIGNABLE,
        "headline": _headline(decision),
        "subject": decision.subject,
        "judged": rfc3339(round(decision.now)),
        "policy": _policy(decision),
        "counts": {one.value: len(decision.of(one)) for one in Answer},
        "obstacles": list(decision.obstacles),
        "identity": _identity(decision),
        "runs": [_run(run, decision) for run in decision.runs],
        "established": _requirements(decision, Answer.ESTABLISHED, claims),
        "broken": _requirements(decision, Answer.BROKEN, claims),
        "open": _requirements(decision, Answer.OPEN, claims),
        "waived": _requirements(decision, Answer.WAIVED, claims),
        "beyond": [_beyond(one, claims) for one in decision.beyond],
        "contradictions": [
            {
                "claim": one.claim,
                "hardware": one.hardware,
                "holds": list(one.holds),
                "broken": list(one.broken),
            }
            for one in decision.contradictions
        ],
        "known_issues": [one for run in decision.runs for one in _known(run)],
        "not_shown": {
            "runs": _limits(decision.runs),
            "claims": _left_open(decision, claims),
        },
    }
    result: dict[str, Any] = visible(redact_data(shown))
    return result


def _headline(decision: Decision) -> str:
    if decision.result is Result.NOT_SIGNABLE:
        return "Not to be signed"
    waived = len(decision.of(Answer.WAIVED))
    met = f"all but {waived} waived" if waived else "all"
    if decision.result is Result.PRACTICE:
        return f"For practice the policy is met, {met} of it: nothing can be signed by it"
    return f"Ready to sign: {met} that the policy needs is established"


def _policy(decision: Decision) -> dict[str, Any]:
    policy = decision.policy
    lines = dict.fromkeys((one.policy, one.title, one.hardware) for one in policy.requirements)
    return {
        "name": policy.name,
        "description": policy.description,
        "purpose": "release" if policy.release else "learning",
        "sha256": policy.sha256,
        "needed": len(policy.requirements),
        "lines": [
            _line([a for a in decision.answered if _line_of(a.need) == key]) for key in lines
        ],
    }


def _line_of(need: Requirement) -> tuple[str, str, str]:
    return need.policy, need.title, need.hardware


def _line(answered: Sequence[Answered]) -> dict[str, Any]:
    """One line of the policy, and how many of its claims have which answer."""
    need = answered[0].need
    return {
        "policy": need.policy,
        "title": need.title,
        "hardware": need.hardware,
        "substrates": [one.value for one in need.substrates],
        "max_age_seconds": need.max_age,
        "counts": {one.value: sum(given.answer is one for given in answered) for one in Answer},
    }


def _identity(decision: Decision) -> list[dict[str, Any]]:
    wanted = {item for _, item in decision.policy.identity}
    found = table({run.id: run.identity for run in decision.runs})
    return [row | {"wanted": row["item"] in wanted} for row in found]


def _run(run: Run, decision: Decision) -> dict[str, Any]:
    info = run.info
    rests = sum(run.id in one.runs for one in decision.of(Answer.ESTABLISHED))
    return {
        "run_id": info.run_id,
        "lab": info.lab,
        "lane": info.lane,
        "substrate": {"name": run.substrate.value, "says": IN_WORDS[run.substrate]},
        "subject": info.subject,
        "started": rfc3339(round(info.started)),
        "ended": "" if info.ended is None else rfc3339(round(info.ended)),
        "age_seconds": round(age_of(run, decision.now)),
        "exit": info.exit,
        "fault": info.fault,
        "versions": dict(info.versions),
        "inventory_sha256": info.inventory_sha256,
        "hardware": sorted({card for _, card in run.summary.pools if card}),
        "counts": {one.value: number for one, number in run.summary.counts.items()},
        "supports": rests,
        "flaws": list(run.flaws),
        "ledger": {
            "sha256": run.view.sha256,
            "merged": run.view.merged,
            "unreadable": [str(line) for line in run.view.unreadable],
        },
    }


def _requirements(
    decision: Decision, answer: Answer, claims: Mapping[str, Claim]
) -> list[dict[str, Any]]:
    return [_answered(one, claims) for one in decision.of(answer)]


def _answered(one: Answered, claims: Mapping[str, Claim]) -> dict[str, Any]:
    known = claims[one.need.claim]
    return {
        "claim": one.need.claim,
        "sentence": known.sentence,
        "severity": known.severity,
        "hardware": one.need.hardware,
        "policy": one.need.policy,
        "line": one.need.title,
        "because": one.because,
        "runs": list(one.runs),
        "said": [_said(said) for said in one.said],
    }


def _said(said: Said) -> dict[str, Any]:
    """What one run said; its facts are named as its ledger names them."""
    return {
        "run": said.run.id,
        "substrate": said.run.substrate.value,
        "pool": said.row.pool,
        "outcome": said.row.outcome.value,
        "because": said.row.because,
        "facts": list(dict.fromkeys(fact for one in said.row.findings for fact in one.facts)),
        "counts": said.counts,
        "discounts": list(said.discounts),
    }


def _beyond(one: Beyond, claims: Mapping[str, Claim]) -> dict[str, Any]:
    known = claims.get(one.claim)
    return {
        "claim": one.claim,
        "sentence": known.sentence if known else f"{one.claim} (not in the catalogue)",
        "hardware": one.hardware,
        "outcome": one.outcome.value,
        "because": one.because,
        "runs": list(one.runs),
    }


def _known(run: Run) -> Iterable[dict[str, str]]:
    names = ("claim", "pool", "state", "owner", "link", "expires", "signature")
    for record in run.view.of(KNOWN_ISSUE):
        yield {"run": run.id} | {name: record.text(name) for name in names}


def _limits(runs: Sequence[Run]) -> list[str]:
    """What such runs cannot show, put together: two generations in two runs are two."""
    kinds = dict.fromkeys(run.info.kind for run in runs)
    found: dict[str, None] = {}
    for kind in kinds:
        view = joined([run for run in runs if run.info.kind == kind])
        found.update(dict.fromkeys(limits(view, summarise(view), kind)))
    return list(found)


def _left_open(decision: Decision, claims: Mapping[str, Claim]) -> list[dict[str, str]]:
    """Claim by claim what stays open though the claim is established."""
    held = dict.fromkeys(one.need.claim for one in decision.of(Answer.ESTABLISHED))
    known = (claims[name] for name in held if name in claims)
    return [{"claim": one.id, "text": one.not_shown} for one in known if one.not_shown]
