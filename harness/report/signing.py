"""What `hil signoff` does: find policy and runs, decide, write the sign-off, say the verdict."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.claims.catalogue import load as load_claims
from harness.clock import WallClock
from harness.commandline import OUT
from harness.report import kept, pdf, policy_file
from harness.report.atomic import is_the_disks, write_bytes, write_json
from harness.report.kept import Mistake
from harness.report.merged import read_evidence
from harness.report.policy import NO_CARD, Policy
from harness.report.records import LedgerError
from harness.report.release import Decision, Result, decide
from harness.report.release_document import document
from harness.report.signoff import page, templates_of

ROOT = Path(__file__).resolve().parents[2]
POLICIES = ROOT / "reports" / "policies"
TEMPLATE = "release.html.j2"
NOT_SIGNABLE = 1
USER_MISTAKE = 2
UNREADABLE = 3
DISK = 3
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked: runs (folders or ids of kept ones), a policy (name or file), waivers as
    ``CLAIM[@HARDWARE]=REASON``, where runs are kept, where the sign-off goes (None: beside them).
    """

    runs: tuple[str, ...]
    policy: str
    waive: tuple[str, ...] = ()
    subject: str = ""
    kept: Path = OUT
    out: Path | None = None
    pdf: bool = False
    json: bool = False


def sign(asked: Asked, *, now: float | None = None) -> int:
    """Decide and write; ``now`` is epoch seconds, by default the wall clock's.

    0: the release can be signed, or a policy for practice is met; 1: not; 2: a mistake in what
    was asked; 3: a ledger cannot be read, or the sign-off cannot be written.
    """
    try:
        if asked.pdf:
            pdf.need()
        policy = policy_file.load(policy_file.find(asked.policy, POLICIES), load_claims())
        waived = waivers(asked.waive, policy)
        folders = [kept.folder(run, asked.kept) for run in asked.runs]
        out = asked.out or asked.kept / f"release-{policy.name}"
        with _mistaken(out):
            _refuse_a_run(out)
        runs = read_evidence(folders)
        at = WallClock().now() if now is None else now
        decision = decide(policy, runs, now=at, subject=asked.subject, waived=waived)
        shown = document(decision, load_claims())
        with _mistaken(out):
            written = _write(shown, asked, out)
    except (Mistake, policy_file.PolicyError, pdf.NoPdf) as mistake:
        return _fail(str(mistake), USER_MISTAKE)
    except LedgerError as unreadable:
        return _fail(str(unreadable), UNREADABLE)
    except OSError as refused:
        return _fail(f"{refused.filename or 'writing'}: {refused.strerror or refused}", DISK)
    sys.stdout.write(json.dumps(shown, indent=2) + "\n" if asked.json else words(shown, written))
    return _status(decision)


def waivers(given: Sequence[str], policy: Policy) -> dict[tuple[str, str], str]:
    """Claim and hardware to the reason. Mistake where one has no reason, or is not the policy's."""
    found: dict[tuple[str, str], str] = {}
    for text in given:
        what, _, reason = text.partition("=")
        claim, _, hardware = what.partition("@")
        if not reason.strip():
            raise Mistake(f"--waive {text}: no reason is given; say CLAIM[@HARDWARE]=REASON")
        keys = [
            one.key
            for one in policy.requirements
            if one.claim == claim.strip() and (not hardware or _is(one.hardware, hardware))
        ]
        if not keys:
            raise Mistake(f"--waive {text}: policy {policy.name} does not need {what}")
        if claim.strip() not in policy.waivable:
            allowed = ", ".join(sorted(policy.waivable)) or "nothing"
            raise Mistake(f"--waive {text}: policy {policy.name} lets be waived: {allowed}")
        found |= dict.fromkeys(keys, reason.strip())
    return found


def _is(hardware: str, asked: str) -> bool:
    return (hardware or NO_CARD).casefold() == asked.strip().casefold()


def _status(decision: Decision) -> int:
    return NOT_SIGNABLE if decision.result is Result.NOT_SIGNABLE else 0


def _fail(says: str, status: int) -> int:
    sys.stderr.write(f"hil: {says}\n")
    return status


def _refuse_a_run(folder: Path) -> None:
    if kept.holds_a_run(folder):
        raise Mistake(f"--out {folder}: that is a run's own folder; a sign-off goes elsewhere")


@contextmanager
def _mistaken(folder: Path) -> Iterator[None]:
    """Writing to a folder; one that is none is a mistake in what was asked, a full disk is not."""
    try:
        yield
    except OSError as refused:
        if is_the_disks(refused):
            raise
        said = refused.strerror or refused
        raise Mistake(f"--out {folder}: cannot write there ({said})") from refused


def _write(shown: Mapping[str, Any], asked: Asked, folder: Path) -> dict[str, Path]:
    html = page(shown, [templates_of(ROOT)], TEMPLATE)
    written = {
        "page": write_bytes(folder / "release.html", html.encode("utf-8")),
        "data": write_json(folder / "release.json", dict(shown)),
    }
    if asked.pdf:
        written["PDF"] = pdf.write_pdf(html, folder / "release.pdf")
    return written


def words(shown: Mapping[str, Any], written: Mapping[str, Path]) -> str:
    """The verdict and its reasons, for a terminal or a CI log."""
    counts = shown["counts"]
    lines = [
        f"{shown['headline']}",
        f"{shown['subject'] or 'no release named'}, by policy {shown['policy']['name']}",
        f"{shown['policy']['needed']} needed: {counts['established']} established, "
        f"{counts['broken']} broken, {counts['not-established']} not established, "
        f"{counts['waived']} waived",
        "",
    ]
    for run in shown["runs"]:
        lines.append(
            f"{run['run_id']}  lab {run['lab']}, {run['substrate']['name']}: supports "
            f"{run['supports']}"
        )
    for title, key in (("BROKEN", "broken"), ("not established", "open"), ("waived", "waived")):
        alike: dict[str, list[str]] = {}
        for item in shown[key]:
            where = item["hardware"] or "no card"
            alike.setdefault(item["because"], []).append(f"{item['claim']} on {where}")
        for because, which in alike.items():
            lines += ["", _wrapped(", ".join(which), f"{title}  "), _wrapped(because)]
    if shown["obstacles"]:
        lines += ["", "In the way:", *(_wrapped(one, "  - ") for one in shown["obstacles"])]
    lines += [""] + [
        _wrapped(f"{run['run_id']}: unreadable: {line}")
        for run in shown["runs"]
        for line in run["ledger"]["unreadable"]
    ]
    return "\n".join([*lines, *(f"{name:<5} {path}" for name, path in written.items())]) + "\n"


def _wrapped(text: str, mark: str = "    ") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=mark,
        subsequent_indent="    ",
        break_on_hyphens=False,
    )
