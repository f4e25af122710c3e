from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import claims
from harness.facts.fact import Origin, Unread
from harness.facts.modules import Module, ModuleTable, read_modules
from harness.facts.nvidia import NvidiaParams, ParamsAbsent
from harness.facts.reply import Output
from harness.judge.kernel import kernel_module_order, modules_live, nvlink_param
from harness.judge.verdict import Verdict

CAPTURES = Path(__file__).resolve().parents[2] / "../shared/lab/captures"
AT = Origin(1.0, "guest w1:/proc/modules", "")
UNREAD = Unread(AT, "/proc/modules", "no exit status (cut off)")
NVIDIA = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"


def module(name: str, *used_by: str, state: str = "Live") -> Module:
    return Module(name, 16384, len(used_by), used_by, state, "0x0")


def table(*modules: Module, whole: bool = True) -> ModuleTable:
    return ModuleTable(AT, modules, whole)


DRM = module("nvidia_drm")
MODESET = module("nvidia_modeset", "nvidia_drm")
UVM = module("nvidia_uvm")
CORE = module("nvidia", "nvidia_modeset", "nvidia_uvm")
CORE_UVM = module("nvidia", "nvidia_uvm")
VIRTIO = module("virtio_net")
LOADED = table(DRM, MODESET, UVM, CORE, VIRTIO)


def check(verdict: Verdict, claim: str, outcome: str, said: str) -> None:
    assert (verdict.claim, verdict.outcome, verdict.subject) == (claim, outcome, "node w1")
    assert claim in claims.load()
    assert len(verdict.facts) == 1
    assert said in verdict.because, verdict.because


@pytest.mark.parametrize(
    ("found", "expected", "outcome", "said"),
    [
        (LOADED, NVIDIA, HOLDS, "Live as expected: nvidia, nvidia_uvm"),
        (LOADED, ("nvidia-uvm",), HOLDS, "nvidia-uvm"),
        (table(*LOADED.modules, whole=False), NVIDIA, HOLDS, "Live as expected"),
        (table(DRM, MODESET, CORE), NVIDIA, BROKEN, "not loaded: nvidia_uvm; expected Live"),
        (table(VIRTIO), NVIDIA, BROKEN, "not loaded: nvidia, nvidia_uvm, nvidia_drm"),
        (table(), ("nvidia",), BROKEN, "not loaded: nvidia"),
        (table(module("nvidia", state="Loading")), ("nvidia",), BROKEN, "nvidia is Loading"),
        (
            table(module("a", state="Unloading"), whole=False),
            ("a", "b"),
            BROKEN,
            "not loaded: b; a is Unloading",
        ),
        (table(DRM, MODESET, whole=False), NVIDIA, UNKNOWN, "nvidia, nvidia_uvm may have stood"),
        (LOADED, (), UNKNOWN, "no module is expected"),
        (UNREAD, NVIDIA, UNKNOWN, "no exit status (cut off)"),
        (UNREAD, (), UNKNOWN, "/proc/modules could not be read"),
    ],
)
def test_modules_live(
    found: ModuleTable | Unread, expected: tuple[str, ...], outcome: str, said: str
) -> None:
    check(modules_live(found, expected, "node w1"), "modules-live", outcome, said)


@pytest.mark.parametrize(
    ("found", "outcome", "said"),
    [
        (LOADED, HOLDS, "newest first: nvidia_drm, nvidia_modeset, nvidia_uvm, nvidia"),
        (table(UVM, DRM, MODESET, CORE), HOLDS, "nvidia is older than its dependents"),
        (table(UVM, CORE_UVM), HOLDS, "nvidia is older"),
        (table(UVM, module("nvidia")), HOLDS, "nvidia is older"),
        (table(UVM, module("nvidia"), whole=False), HOLDS, "nvidia is older"),
        (table(UVM, CORE_UVM, module("a", "a")), HOLDS, "nvidia is older"),
        (table(CORE, DRM, MODESET, UVM), BROKEN, "nvidia is newer than nvidia_modeset"),
        (table(module("nvidia"), UVM), BROKEN, "nvidia is newer than nvidia_uvm"),
        (table(MODESET, DRM, UVM, CORE), BROKEN, "nvidia_modeset is newer than nvidia_drm"),
        (
            table(DRM, MODESET, UVM, CORE, module("b", "a"), module("a")),
            BROKEN,
            "b is newer than a; newest first",
        ),
        (table(DRM, MODESET, CORE), UNKNOWN, "nvidia_uvm depends on a listed module"),
        (table(VIRTIO), UNKNOWN, "nvidia is not loaded"),
        (table(), UNKNOWN, "nvidia is not loaded"),
        (table(DRM, MODESET, whole=False), UNKNOWN, "nvidia is not loaded"),
        (table(module("nvidia"), VIRTIO), UNKNOWN, "nothing that depends on it"),
        (UNREAD, UNKNOWN, "no exit status"),
    ],
)
def test_kernel_module_order(found: ModuleTable | Unread, outcome: str, said: str) -> None:
    check(kernel_module_order(found, "node w1"), "kernel-module-order", outcome, said)


@pytest.mark.parametrize(
    ("found", "outcome", "said"),
    [
        (NvidiaParams(AT, {"NvLinkDisable": "1"}), HOLDS, "harmless, whether the card needs it"),
        (NvidiaParams(AT, {"NvLinkDisable": "1"}, whole=False), HOLDS, "NvLinkDisable: 1"),
        (NvidiaParams(AT, {"NvLinkDisable": "0"}), BROKEN, "NvLinkDisable: 0, expected 1"),
        (NvidiaParams(AT, {"NvLinkDisable": "10"}), BROKEN, "NvLinkDisable: 10"),
        (NvidiaParams(AT, {"Hidden": "7"}), UNKNOWN, "names no NvLinkDisable among Hidden"),
        (NvidiaParams(AT, {"Hidden": "7"}, whole=False), UNKNOWN, "in a text cut short"),
        (ParamsAbsent(AT, "No such file or directory"), UNKNOWN, "it is not loaded: No such file"),
        (Unread(AT, "params", "denied"), UNKNOWN, "params could not be read: denied"),
    ],
)
def test_nvlink_param(found: NvidiaParams | ParamsAbsent | Unread, outcome: str, said: str) -> None:
    check(nvlink_param(found, "node w1"), "nvlink-param", outcome, said)


def test_only_a_broken_parameter_is_not_called_harmless() -> None:
    assert "harmless" not in nvlink_param(NvidiaParams(AT, {"NvLinkDisable": "0"}), "w").because


@given(st.permutations([DRM, MODESET, UVM, CORE, VIRTIO]))
def test_any_order_holds_just_where_each_stands_above_what_it_uses(order: list[Module]) -> None:
    at = {one.name: order.index(one) for one in order}
    right = (
        at["nvidia_drm"] < at["nvidia_modeset"] < at["nvidia"] and at["nvidia_uvm"] < at["nvidia"]
    )
    verdict = kernel_module_order(table(*order), "node w1")
    assert verdict.outcome == (HOLDS if right else BROKEN)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the lab's captures are not beside this checkout")
def test_no_captured_kernel_breaks_the_order() -> None:
    text = (CAPTURES / "modules_load_order.txt").read_text()
    blocks = re.findall(r"# (?:grep nvidia|cat) /proc/modules\n((?:\w+ \d+ .*\n)+)", text)
    outcomes = set()
    for block in blocks:
        found = read_modules(Output(("cat",), 0, block), at=1.0, source="guest")
        outcomes.add(str(kernel_module_order(found, "guest").outcome))
    assert outcomes == {HOLDS}
