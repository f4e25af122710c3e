"""How a diagnosis is told: the answer first, what decides, and what tempts."""

from __future__ import annotations

import json

from harness.diagnose import words
from harness.diagnose.case import Case, Kind, Unused
from harness.diagnose.ranking import diagnose
from tests.diagnose.made import L40S, NVIDIA, VANILLA, case, pool, service, text

TIMER = (4206.0, 4207.0)


def flat(said: str) -> str:
    return " ".join(said.split())


def test_the_answer_comes_first_with_the_diagnosis_that_tempts() -> None:
    found = diagnose(case(service(6443, 8132), pool("p", VANILLA, reboots=TIMER)))
    said = flat(words.told(found, "lab x"))
    assert said.startswith("Found in")
    assert "apid never gets its certificate: port 50001 is missing" in said.partition("Seen:")[0]
    assert "for Service tenant-t/kubernetes-lab has ports 6443, 8132, and no 50001" in said
    assert "not the schematic: an NVIDIA image on workers without a card: that hits only" in said
    assert "kubectl -n <tenant> get service" in said


def test_what_is_not_decided_is_said_with_what_would() -> None:
    found = diagnose(case(pool("p", VANILLA, reboots=TIMER)))
    said = flat(words.told(found, "lab x"))
    assert said.startswith("Not decided")
    assert "What would decide: " in said
    assert "Service kubernetes-<cluster>, spec.ports: 6443 and 8132, and no 50001" in said


def test_what_was_not_looked_at_is_listed() -> None:
    found = diagnose(Case(unused=tuple(Unused(f"s{n}", "not allowed") for n in range(28))))
    assert "s27" not in words.told(found, "lab x")
    assert "and 8 more" in words.told(found, "lab x")
    assert "s27: not allowed" in words.told(found, "lab x", whole=True)
    assert words.told(found, "lab x").startswith("Nothing is found wrong in 0 objects")


def test_a_symptom_that_no_cause_explains_stays_open() -> None:
    gpu = pool("gpu", NVIDIA, L40S)
    smi = [text(Kind.HELM_MESSAGE, "execution error at (a:1:1): v1.13 is not a vMAJOR.MINOR.PATCH "
                "release", "")]  # fmt: skip
    found = diagnose(case(gpu, smi, pool("p", VANILLA, reboots=TIMER)))
    said = flat(words.told(found, "lab x"))
    assert "Not explained by it: Workers reboot about every 70 minutes" in said


def test_json_has_what_the_text_has() -> None:
    found = diagnose(case(service(6443, 8132), pool("p", VANILLA, reboots=TIMER)))
    said = json.loads(json.dumps(words.plain(found, "lab x")))
    first = said["causes"][0]
    assert (first["id"], first["standing"]) == ("port-50001-missing", "named")
    assert first["for"][0]["weight"] == "proves"
    assert first["wrongDiagnosis"] and first["whyWrong"] and first["command"]
    assert said["symptoms"][0]["id"] == "reboots-at-timer"
    assert said["conclusion"] == words.conclusion(found, "lab x")
