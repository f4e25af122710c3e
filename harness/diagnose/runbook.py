"""The runbook: from a symptom to its causes, made from the rules that `hil diagnose` goes by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.diagnose.findings import Cause, Grade, Sign, Symptom, Weight

INTRODUCTION = (
    "What `hil diagnose` goes by, for a person who goes by hand. Begin with what is noticed: each "
    "symptom names where to look and the causes that show so. A cause is named only on what "
    "*proves* it, seen of the same pool, node or disk, with nothing there that *rules it out*; "
    "what "
    "only *fits* is expected with other causes too. Two causes can hold at once. What could not be "
    "looked at proves nothing: that something is absent is known only from a list that is whole.",
    "`hil diagnose --attach` looks at a running twin, `hil diagnose --lab FILE` at a lab, and "
    "`hil diagnose --from FOLDER` reads captures, as people attach them to a bug report: kubectl "
    "YAML, JSON or tables, consoles, dmesg, /proc/modules, /proc/driver/nvidia/version, "
    "nvidia-smi, talosctl, drbdadm, LINSTOR. It changes nothing. A look at a lab makes no pod and "
    "takes no console: it reads a guest's inside through containers that run there already, and a "
    "host's where the inventory has a key for it. What it did not see is listed at the end, of "
    "captures too, each with how to get it. Give each cluster's captures a folder of their own: "
    "where two lie side by side, nothing is taken for absent. It ends with 0 where nothing is "
    "found "
    "wrong in what it saw, 1 where a cause is named, 4 where the evidence does not decide (and "
    "says what would), 2 for a mistake, or where a folder holds nothing that can be used, 3 where "
    "the lab cannot be asked.",
    "Evidence goes: Events are kept for an hour, a talos-reconcile Job for ten minutes, and a "
    "worker that was replaced looks like any other after that. Look while it is fresh, or save "
    "what is there.",
)
_HEADINGS = {
    Weight.PROVES: "Proves it",
    Weight.FITS: "Fits",
    Weight.AGAINST: "Speaks against it",
    Weight.RULES_OUT: "Rules it out",
}


def page(symptoms: Sequence[Symptom], causes: Mapping[str, Cause]) -> str:
    """The page as Markdown."""
    parts = ["# Diagnosis", *INTRODUCTION, "## From what is noticed"]
    for symptom in symptoms:
        showing = [one for one in causes.values() if symptom.id in one.symptoms]
        parts += list(_symptom(symptom, showing))
    quiet = [one for one in causes.values() if not one.symptoms]
    parts += ["### Nothing, yet", "All works, and should not stand so.", _table(quiet)]
    parts.append("## Causes")
    for cause in causes.values():
        parts += list(_cause(cause, causes))
    return "\n\n".join(parts) + "\n"


def _symptom(symptom: Symptom, causes: Sequence[Cause]) -> Iterator[str]:
    yield f"### {symptom.title}"
    yield f"Look at {symptom.look}." + (f" Mind: {symptom.note}" if symptom.note else "")
    yield _table(causes)


def _table(causes: Iterable[Cause]) -> str:
    rows = [f"| [{_cell(one.title)}](#{one.id}) | {_cell(_decisive(one))} |" for one in causes]
    return "\n".join(["| Cause | What decides |", "| --- | --- |", *rows])


def _decisive(cause: Cause) -> str:
    """The sign that decides first: what proves it, in the order in which it is declared."""
    for weight in (Weight.PROVES, Weight.RULES_OUT):
        for one in cause.signs:
            if one.weight is weight:
                return f"{one.look}: {one.shows}"
    return cause.check


def _cause(cause: Cause, causes: Mapping[str, Cause]) -> Iterator[str]:
    yield f"### {cause.id}"
    works = " *Works today, and should not stand.*" if cause.grade is Grade.HAZARD else ""
    yield f"**{_plain(cause.title)}.** {_plain(cause.story)}{works}"
    yield "\n".join(_fields(cause, causes))


def _fields(cause: Cause, causes: Mapping[str, Cause]) -> Iterator[str]:
    for weight, heading in _HEADINGS.items():
        for sign in (one for one in cause.signs if one.weight is weight):
            yield f"- *{heading}:* {_plain(_said(sign))}"
    yield f"- **Check:** {_plain(cause.check)}: `{cause.command}`"
    yield f"- **Tempting:** {_plain(cause.wrong)}. **Why that is wrong:** {_plain(cause.why_wrong)}"
    followed = [f"[{causes[one].title}](#{one})" for one in cause.leads_to if one in causes]
    if followed:
        yield f"- **Leads to:** {', '.join(followed)}"


def _said(sign: Sign) -> str:
    return f"{sign.look}: {sign.shows}"


def _plain(text: str) -> str:
    """Text in which a star, an angle bracket and a word's edge `_` are just that."""
    for mark in ("\\", "*", "<", "_"):
        text = text.replace(mark, f"\\{mark}")
    return text


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")
