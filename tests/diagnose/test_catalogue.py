"""The catalogue of causes holds together, and the measure of it knows every fault."""

from __future__ import annotations

from bench.diagnosis import HIDDEN, TRUTH
from harness.diagnose.causes.catalogue import CAUSES
from harness.diagnose.findings import Grade, Weight
from harness.diagnose.runbook import page
from harness.diagnose.symptoms import SYMPTOMS
from harness.twin.faults.catalogue import FAULTS


def test_every_cause_can_be_named_and_says_what_is_wrongly_concluded() -> None:
    for one in CAUSES.values():
        assert any(sign.weight is Weight.PROVES for sign in one.signs) or one.id in UNPROVABLE
        assert one.wrong and one.why_wrong and one.check and one.command, one.id
        assert one.story.endswith("."), one.id


UNPROVABLE = {"autoscaler-adds-machines", "pod-older-than-plugin"}
"""What only fits, ever: a person decides."""


def test_causes_and_symptoms_refer_to_what_is_there() -> None:
    known = {one.id for one in SYMPTOMS}
    for one in CAUSES.values():
        assert set(one.symptoms) <= known, one.id
        assert set(one.leads_to) <= set(CAUSES), one.id
        assert one.symptoms or one.grade is Grade.HAZARD, one.id
    for symptom in SYMPTOMS:
        assert any(symptom.id in one.symptoms for one in CAUSES.values()), symptom.id


def test_the_runbook_tells_of_every_cause_and_symptom() -> None:
    text = page(SYMPTOMS, CAUSES)
    for one in CAUSES.values():
        assert f"\n### {one.id}\n" in text
        assert f"(#{one.id})" in text
    for symptom in SYMPTOMS:
        assert f"\n### {symptom.title}\n" in text


def test_the_measure_knows_what_every_fault_of_the_twin_is() -> None:
    assert set(TRUTH) | set(HIDDEN) >= set(FAULTS)
    assert not set(TRUTH) & set(HIDDEN)
    assert {one for causes in TRUTH.values() for one in causes} <= set(CAUSES)
