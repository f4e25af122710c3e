"""The catalogue as a whole: complete, consistent, and telling apart what is confused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.claims.catalogue import load as load_claims
from harness.inventory.loading import load
from harness.prove import LEFT_OUT
from harness.twin.faults.catalogue import FAULTS
from harness.twin.faults.model import ALL_POOLS, Fault

ROOT = Path(__file__).resolve().parents[3]
DOMAIN = ROOT.parent / "shared" / "domain" / "faults.md"
ROW = re.compile(r"^\| (\d+) \| ([a-z0-9-]+)(?: †)? \|", re.MULTILINE)
MODELLED = {*range(1, 33), 35, *range(37, 54), *range(55, 61)}
"""Sections A to C of the domain's list, of D what is of the uptime, E, and of F what is rendered.
Row 54, a replica that is read from afar, is drbd-resync-stalls here."""

CONFUSED = [
    ("no-modules-block", "module-missing-from-image"),
    ("no-modules-block", "modules-empty-list-materialised"),
    ("module-missing-from-image", "modules-empty-list-materialised"),
    ("no-modules-block", "blackwell-proprietary-module"),
    ("strategy-envvar", "stale-pod-no-injection"),
    ("env-list-replaced", "legacy-operator-default"),
    ("strategy-envvar", "plugin-env-edited-live"),
    ("env-list-replaced", "override-masks-default"),
    ("gpu-label-without-driver", "module-missing-from-image"),
    ("cdi-gen-not-finished", "no-modules-block"),
    ("runtimeclass-masks-cdi", "image-bundles-driver"),
    ("immutable-tct-refused", "unexpected-pool-roll"),
    ("modules-empty-list-materialised", "gpu-pool-optout-with-nvidia-image"),
    ("golden-import-retrying", "golden-absent"),
    ("silent-host-assisted-fallback", "usepopulator-false-on-builtin"),
    ("accepted-not-applied", "talos-version-unchecked"),
    ("drbd-quorum-suspended", "linstor-view-stale"),
    ("tenant-quota-scratch", "disk-smaller-than-image"),
    ("stale-default-class-empty", "default-class-moved"),
]
"""Pairs that are taken for one another: sources and the domain's list of separators."""


@pytest.mark.parametrize(("one", "other"), CONFUSED)
def test_what_is_confused_differs_in_what_it_does_to_the_claims(one: str, other: str) -> None:
    first, second = FAULTS[one], FAULTS[other]
    assert set(first.where) & set(second.where)
    assert (first.breaks, first.blinds) != (second.breaks, second.blinds)


def test_a_schematic_reboots_the_pools_that_have_it_and_a_missing_port_reboots_all() -> None:
    schematic, port = FAULTS["nvidia-schematic-no-gpu"], FAULTS["apid-port-50001-missing"]
    # each is told in seconds by a claim of its own, and by the same one after 70 minutes
    assert port.breaks == {"apid-serves", "uptime"}
    assert schematic.breaks == {"disk-source", "image-fits", "uptime"}
    assert set(schematic.where) < set(port.where) == set(ALL_POOLS)


def test_every_fault_of_the_domain_is_in_the_catalogue() -> None:
    if not DOMAIN.is_file():
        pytest.skip("the domain documents are not beside this checkout")
    listed = {int(n): name for n, name in ROW.findall(DOMAIN.read_text(encoding="utf-8"))}
    assert {listed[n] for n in MODELLED} <= set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.id)
def test_a_fault_speaks_of_claims_and_pools_that_exist(fault: Fault) -> None:
    assert fault.breaks | fault.blinds <= set(load_claims())
    assert set(fault.where) <= set(ALL_POOLS) and fault.where
    assert fault.harmless or fault.breaks | fault.blinds
    assert fault.sentence.endswith(".") and fault.seen and fault.wrong_diagnosis and fault.source


def test_the_pools_are_those_of_the_twins_inventory() -> None:
    lab = load(ROOT / "inventory" / "twin.yaml", claims=load_claims())
    assert tuple(lab.pools) == ALL_POOLS


def test_every_claim_that_can_be_asked_has_a_fault_that_breaks_it() -> None:
    broken = {claim for fault in FAULTS.values() for claim in fault.breaks}
    assert set(load_claims()) - broken == set(LEFT_OUT)


def fault(**declared: Any) -> Fault:
    whole: dict[str, Any] = {
        "id": "f",
        "sentence": "s",
        "seen": "s",
        "wrong_diagnosis": "w",
        "breaks": frozenset(),
        "where": ("plain",),
        "edit": lambda _: None,
    }
    return Fault(**{**whole, **declared})


def test_what_is_harmless_changes_nothing() -> None:
    with pytest.raises(ValueError, match="f is declared harmless and changes uptime"):
        fault(harmless=True, breaks=frozenset({"uptime"}))
    with pytest.raises(ValueError, match="f is declared harmless and changes cdi-spec"):
        fault(harmless=True, blinds=frozenset({"cdi-spec"}))


def test_a_claim_is_broken_or_unknown() -> None:
    with pytest.raises(ValueError, match="f cannot both break and blind uptime"):
        fault(breaks=frozenset({"uptime", "no-roll"}), blinds=frozenset({"uptime"}))
