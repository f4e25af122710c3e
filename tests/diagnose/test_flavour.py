"""Proprietary modules on a Blackwell card: what shows them, and what only looks so."""

from __future__ import annotations

from typing import Any

import pytest

from harness.diagnose.case import Kind, Text
from harness.diagnose.findings import Standing
from harness.diagnose.ranking import diagnose
from tests.diagnose.made import GB202, L40S, case, pool, standings, text

CAUSE = "proprietary-modules-on-blackwell"
NODE = "kubernetes-lab-b-w"
UNKNOWN = "ab" * 32
NO_GPU = {"cpu": "4"}
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@b)"
NONE = "No devices found\n"
LIVE = "nvidia 9000 0 - Live 0x0000000000000000"
SAID = (
    "[   14.1] NVRM: The NVIDIA GPU 0000:06:00.0 (PCI ID: 10de:2bb5)\n"
    "[   14.1] NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n"
)
FAILED = "[   14.2] NVRM: GPU 0000:06:00.0: RmInitAdapter failed! (0x62:0x40:2168)\n"


def standing(*texts: Text, card: str = GB202) -> Standing | None:
    made = pool("b", UNKNOWN, card, allocatable=NO_GPU)
    return standings(diagnose(case(made, texts))).get(CAUSE)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Kind.DRIVER, f"{PROPRIETARY}\nGCC version:  gcc version 12.2.0\n"),
        (Kind.MODULES, f"{LIVE} (POE)\n"),
        (Kind.DMESG, f"[   13.9] NVRM: loading {PROPRIETARY.removeprefix('NVRM version: ')}\n"),
        (Kind.DMESG, SAID),
        (Kind.CONSOLE, SAID),
    ],
)
def test_each_of_these_alone_proves_it(kind: Kind, said: str) -> None:
    assert standing(text(kind, said, NODE)) is Standing.NAMED


@pytest.mark.parametrize(
    "told", [text(Kind.DRIVER, f"{OPEN}\n", NODE), text(Kind.MODULES, f"{LIVE} (OE)\n", NODE)]
)
def test_open_modules_rule_it_out_whatever_nvidia_smi_says(told: Text) -> None:
    seen = [text(Kind.MODULES, f"{LIVE}\n", NODE), text(Kind.SMI_LIST, NONE, NODE), told]
    assert standing(*seen) is Standing.EXCLUDED
    assert standing(*seen, text(Kind.DMESG, "[ 1.0] Linux\n", NODE)) is Standing.EXCLUDED


def test_a_card_of_another_generation_takes_either() -> None:
    assert standing(text(Kind.DRIVER, f"{PROPRIETARY}\n", NODE), card=L40S) is None


def test_a_card_that_did_not_start_is_no_proof_without_its_modules() -> None:
    seen = [text(Kind.MODULES, f"{LIVE}\n", NODE), text(Kind.SMI_LIST, NONE, NODE)]
    assert standing(*seen) is Standing.POSSIBLE, "no log says that no card failed"
    assert standing(*seen, text(Kind.DMESG, "[ 1.0] Linux\n", "other")) is Standing.POSSIBLE
    assert standing(*seen, text(Kind.DMESG, "[ 1.0] Linux\n", NODE)) is Standing.NAMED
    assert standing(*seen, text(Kind.DMESG, FAILED, NODE)) is Standing.POSSIBLE
    assert standing(*seen, text(Kind.DMESG, SAID + FAILED, NODE)) is Standing.NAMED


def test_a_module_that_is_loaded_came_with_the_image() -> None:
    made = pool("b", UNKNOWN, GB202, allocatable=NO_GPU)
    found = diagnose(case(made, [text(Kind.MODULES, f"{LIVE} (OE)\n", NODE)]))
    assert standings(found)["image-without-nvidia"] is Standing.EXCLUDED


@pytest.mark.parametrize(
    ("labels", "cause"),
    [
        ({"extensions.talos.dev/nonfree-kmod-nvidia-production": "580.95.05"}, CAUSE),
        ({"extensions.talos.dev/qemu-guest-agent": "10.0.2"}, "image-without-nvidia"),
        ({"extensions.talos.dev/nvidia-open-gpu-kernel-modules-production": "580.95.05"}, ""),
    ],
)
def test_a_node_tells_what_its_schematic_holds(labels: dict[str, Any], cause: str) -> None:
    made = pool("b", UNKNOWN, GB202, allocatable=NO_GPU)
    (node,) = [one for one in made if one.kind == "Node"]
    node.obj["metadata"] |= {
        "labels": labels,
        "annotations": {"extensions.talos.dev/schematic": UNKNOWN},
    }
    found = diagnose(case(made))
    assert [one.cause.id for one in found.named] == ([cause] if cause else [])
    del node.obj["metadata"]["annotations"]
    assert not diagnose(case(made)).named, "labels alone do not say of which schematic"
