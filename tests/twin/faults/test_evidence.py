"""What spoils the evidence of a probe, and what only looks like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[[str], Any]
NOTE = "cdi.k8s.io/nvidia-device-plugin_x"


def test_a_webhook_gives_a_runtime_class_to_who_asks_for_a_card(faulty: Make) -> None:
    lab = faulty("runtimeclass-masks-cdi")
    lab.card()
    assert lab.pod("fresh", cards=1)["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in lab.pod("control")["spec"]
    assert b"NVIDIA L40S" in lab.smi("fresh").stdout


def test_an_image_brings_a_driver_into_every_pod(faulty: Make) -> None:
    lab = faulty("image-bundles-driver")
    lab.card()
    lab.pod("control")
    ran = lab.smi("control")
    assert ran.exit_code and ran.stdout.startswith(b"Failed to initialize NVML")


def test_annotations_say_nothing_of_injection(faulty: Make) -> None:
    lab = faulty("absent-annotation-misread")
    lab.card()
    made = lab.pod("fresh", cards=1, annotations={NOTE: "x", "kept": "y"})
    assert made["metadata"]["annotations"] == {"kept": "y"}
    assert b"NVIDIA L40S" in lab.smi("fresh").stdout


def test_a_pod_from_before_is_stale_and_a_new_one_is_not(faulty: Make) -> None:
    lab = faulty("stale-pod-no-injection")
    lab.pool()
    lab.until(lambda: lab.tenant.all("v1", "Node"))
    lab.pod("early", cards=1)
    lab.run(240.0)
    assert not lab.offered()
    lab.until(lambda: lab.offered() == "1")
    assert "executable file not found" in lab.smi("early").error
    kind = lab.tenant.registry.by_kind("v1", "Pod")
    lab.tenant.delete(kind, "default", "early")
    lab.run(60.0)
    lab.pod("fresh", cards=1)
    assert b"NVIDIA L40S" in lab.smi("fresh").stdout


def test_a_default_runtime_gives_every_card_to_everybody(faulty: Make) -> None:
    lab = faulty("nvidia-runtime-by-default")
    lab.pool()
    lab.until(lambda: lab.tenant.all("v1", "Node"))
    lab.pod("early")
    assert b"NVIDIA L40S" in lab.smi("early").stdout
    assert not lab.offered()
