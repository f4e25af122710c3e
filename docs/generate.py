"""Writes the pages that are made from catalogues (`PAGES`): `python docs/generate.py`.

With ``--check`` nothing is written, and the exit status is 1 when a page is not current.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from harness.claims.catalogue import Claim, load
from harness.diagnose import runbook
from harness.diagnose.causes.catalogue import CAUSES
from harness.diagnose.symptoms import SYMPTOMS
from harness.qemulab.faults.catalogue import FAULTS as IN_GUESTS
from harness.qemulab.faults.catalogue import LEFT_OUT
from harness.qemulab.faults.model import Fault as GuestFault
from harness.twin.faults.catalogue import FAULTS
from harness.twin.faults.listing import HARMLESS
from harness.twin.faults.model import Fault

DOCS = Path(__file__).resolve().parent
SCENARIOS = DOCS.parent / "scenarios"
SOURCES = {
    "S-KM": "Cozystack pull request 3571 (kernelModules)",
    "S-DOC": "Cozystack website issue 643 (GPU node groups)",
    "S-GPO": "Cozystack pull request 3585 (OS-provided driver)",
    "S-OSI": "Cozystack pull request 4171 (osImage)",
    "CZ": "Cozystack's code",
    "KV": "KubeVirt's code",
    "CDI": "the code of KubeVirt's data importer",
    "CAPK": "the code of Cluster API's KubeVirt provider",
    "CAPI": "Cluster API's code",
    "TAL": "Talos' code",
    "EXT": "the code of Talos' extensions",
    "GPO": "the code of NVIDIA's GPU operator",
    "NDP": "the code of NVIDIA's device plugin",
    "NKM": "the code of NVIDIA's open kernel modules",
    "gpu_path section 2": "how Talos and the kernel load modules",
    "gpu_path section 6": "how containerd and the device plugin use CDI",
    "gpu_path section 7": "what proves a link of a card's way and what does not",
}
"""A fault's source tags in words; a tag that is not here is printed as it is."""
MADE = "<!-- Made by docs/generate.py from the catalogue. Edit that, then run it again. -->"


def claims_page(
    claims: Mapping[str, Claim],
    faults: Mapping[str, Fault],
    in_guests: Mapping[str, GuestFault],
) -> str:
    """The page of claims, with the faults that break each and the scenario that judges it."""
    judged = scenarios_by_claim(SCENARIOS)
    rows = [f"| [{c.id}](#{c.id}) | {_cell(c.sentence)} | {c.severity} |" for c in claims.values()]
    parts = [
        f"{MADE}\n\n# Claims\n\nWhat a run can establish. Each claim is a sentence that a release "
        "manager can sign; [scenarios](scenarios.md) judge it on every pool that has what it "
        "needs. `hil claims NAME` prints the same.",
        "\n".join(["| Claim | Sentence | Severity |", "| --- | --- | --- |", *rows]),
    ]
    for claim in claims.values():
        breaking = [fault.id for fault in faults.values() if claim.id in fault.breaks]
        really = [fault.id for fault in in_guests.values() if claim.id in fault.breaks]
        fields = {
            "Severity": claim.severity,
            "Asked of": _needs(claim.needs),
            "Proof": claim.proof,
            "Not proof": claim.not_proof,
            "Not shown": claim.not_shown,
            "Judged by": ", ".join(f"`{name}`" for name in judged.get(claim.id, ())) or "nothing",
            "Broken by": _links(breaking, "faults.md") or "no fault of the catalogue",
            "Broken in real guests by": _links(really, "faults.md"),
        }
        parts.append(f"## {claim.id}\n\n{claim.sentence}\n\n{_list(fields)}")
    return "\n\n".join(parts) + "\n"


def faults_page(faults: Mapping[str, Fault], in_guests: Mapping[str, GuestFault]) -> str:
    """The page of faults: the twin's, then those of the mini-lab's guests."""
    rows = [f"| [{f.id}](#{f.id}) | {_cell(f.sentence)} |" for f in faults.values()]
    parts = [
        f"{MADE}\n\n# Faults\n\nWhat can be made to go wrong in the [twin](twin.md). A fault is "
        "one edit to the simulated world; it never touches a scenario or a judge. "
        "`hil run --fault NAME` plants one in the embedded lab, `hil twin fault NAME` in a twin "
        "that is up, and `hil prove` runs the scenarios under each and compares what came out "
        "with what is declared here: on one pool that the fault concerns and on one that it does "
        "not, which has to stay as it was; with `--thorough` on every pool, past the 70 minutes of "
        "its boot.",
        "A fault *breaks* the claims that must come out broken, and *blinds* those that must come "
        "out unknown because nobody can look any more, or because what is seen would prove "
        "nothing. One that is *harmless* only looks like a fault and must change no claim. "
        "*Inferred* marks what was deduced from the sources and is not known from a report.",
        "\n".join(["| Fault | What is wrong |", "| --- | --- |", *rows]),
    ]
    for fault in faults.values():
        fields = {
            "Seen": fault.seen,
            "Tempting": fault.wrong_diagnosis,
            "Breaks": _links(sorted(fault.breaks), "claims.md") or "nothing",
            "Blinds": _links(sorted(fault.blinds), "claims.md") or "nothing",
            "Harmless": HARMLESS if fault.harmless else "",
            "Pools": ", ".join(f"`{pool}`" for pool in fault.where),
            "Known from": _source(fault.source),
        }
        parts.append(f"## {fault.id}\n\n{fault.sentence}\n\n{_list(fields)}")
    return "\n\n".join([*parts, *_in_real_guests(in_guests)]) + "\n"


def _in_real_guests(faults: Mapping[str, GuestFault]) -> Iterable[str]:
    yield (
        "## In real guests\n\nWhat can be made to go wrong in the [mini-lab](qemu.md): each is an "
        "edit to its running guests, as somebody makes it who has a login, the power button and "
        "the wire. `hil run --lab inventory/qemu-mini.yaml --fault NAME` plants one before each "
        "scenario, and `hil prove --lab inventory/qemu-mini.yaml` tries each on guests that are "
        "booted once and rolled back between. A trial asks what the fault *breaks* and *blinds*, "
        "and claims beside these that it *leaves*: they have to hold under it. "
        "`hil faults --lab inventory/qemu-mini.yaml NAME` prints the same."
    )
    rows = [f"| [{f.id}](#{f.id}) | {_cell(f.sentence)} |" for f in faults.values()]
    yield "\n".join(["| Fault | What is wrong |", "| --- | --- |", *rows])
    left = [f"- [{claim}](claims.md#{claim}): {_plain(why)}" for claim, why in LEFT_OUT.items()]
    yield "\n".join(["Claims that no edit to real guests can break, and why:", "", *left])
    for fault in faults.values():
        fields = {
            "Seen": fault.seen,
            "Tempting": fault.wrong_diagnosis,
            "Breaks": _links(sorted(fault.breaks), "claims.md") or "nothing",
            "Blinds": _links(sorted(fault.blinds), "claims.md") or "nothing",
            "Leaves": _links(sorted(fault.controls), "claims.md"),
            "Harmless": HARMLESS if fault.harmless else "",
            "Known from": _source(fault.source),
        }
        yield f"### {fault.id}\n\n{fault.sentence}\n\n{_list(fields)}"


def scenarios_by_claim(folder: Path) -> dict[str, list[str]]:
    """Claim to the scenarios whose mark names it, as ``file::function``."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for claim in _marked(node):
                found.setdefault(claim, []).append(f"scenarios/{path.name}::{node.name}")
    return found


def diagnosis_page() -> str:
    """The runbook, from the rules that `hil diagnose` goes by."""
    return f"{MADE}\n\n{runbook.page(SYMPTOMS, CAUSES)}"


PAGES: Mapping[str, Callable[[], str]] = {
    "claims.md": lambda: claims_page(load(), FAULTS, IN_GUESTS),
    "faults.md": lambda: faults_page(FAULTS, IN_GUESTS),
    "diagnosis.md": diagnosis_page,
}


def main(argv: list[str]) -> int:
    """Write the pages, or check that they are current."""
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if argv != ["--check"]:
                path.write_text(text, encoding="utf-8")
    if stale and argv == ["--check"]:
        sys.stderr.write(f"not current: {', '.join(stale)}; run python docs/generate.py\n")
        return 1
    return 0


def _marked(node: ast.AST) -> Iterable[str]:
    for mark in getattr(node, "decorator_list", ()):
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.claims":
            yield from (ast.literal_eval(argument) for argument in mark.args)


def _needs(needs: Iterable[str]) -> str:
    listed = ", ".join(f"`{need}`" for need in needs)
    return f"pools with {listed}" if listed else "every pool"


def _links(names: Iterable[str], page: str) -> str:
    return ", ".join(f"[{name}]({page}#{name})" for name in names)


def _source(tags: str) -> str:
    longest_first = sorted(SOURCES, key=len, reverse=True)
    pattern = "|".join(rf"(?<![\w-]){re.escape(tag)}(?![\w-])" for tag in longest_first)
    return re.sub(pattern, lambda found: SOURCES[found[0]], tags).replace("; ", ", ")


def _list(fields: Mapping[str, str]) -> str:
    return "\n".join(f"- **{label}:** {_plain(text)}" for label, text in fields.items() if text)


def _plain(text: str) -> str:
    """Text as Markdown shows it: outside code a star is a star, and so is a word's edge `_`."""
    pieces = re.split(r"(`[^`]*`|\]\([^)]*\))", text)
    return "".join(
        piece if place % 2 else re.sub(r"\*|(?<!\w)_|_(?!\w)", r"\\\g<0>", piece)
        for place, piece in enumerate(pieces)
    )


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
