"""The guest's kernel and how Talos has it load modules."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.engine import EPOCH, Engine
from harness.twin.world.images import (
    NVIDIA_NONFREE,
    NVIDIA_OPEN,
    NVIDIA_OPEN_GDR,
    VANILLA,
    ImageFactory,
    ModuleFile,
)
from harness.twin.world.kernel import RING_BYTES, Kernel, ModuleError
from harness.twin.world.machineconfig import ModuleSpec
from harness.twin.world.modulespecs import ModuleSpecs
from harness.twin.world.nvidia import l40s

CARD = l40s("0000:06:00.0", "GPU-6b1f0c52-0000-4000-8000-000000000001")
FOUR = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
NVLINK = "NVreg_NvLinkDisable=1"
SPECS = (ModuleSpec("nvidia", (NVLINK,)), *(ModuleSpec(name) for name in FOUR[1:]))
CAPTURE = Path(__file__).resolve().parents[3] / "../shared/lab/captures/modules_load_order.txt"
LINE = re.compile(
    r"(?P<name>\S+) (?P<size>\d+) (?P<refs>\d+) (?P<users>-|(?:\w+,)+) (?P<state>Live|Loading|"
    r"Unloading) 0x[0-9a-f]{16}(?: \((?P<taint>[A-Z]+)\))?"
)


def booted(
    schematic: str = NVIDIA_OPEN, *, card: bool = True, factory: ImageFactory | None = None
) -> tuple[Kernel, Engine]:
    engine = Engine()
    image = (factory or ImageFactory()).image(schematic, "v1.13.6")
    kernel = Kernel(image, "w1", lambda: engine.now)
    kernel.boot("b", [CARD] if card else [])
    return kernel, engine


def declare(
    kernel: Kernel, engine: Engine, specs: Iterable[ModuleSpec], *, seconds: float = 0
) -> ModuleSpecs:
    controller = ModuleSpecs(kernel, specs, engine, random.Random(1))
    controller.reconcile()
    engine.run_until(engine.now + seconds)
    return controller


def nvidia_lines(kernel: Kernel) -> list[str]:
    return [line for line in kernel.proc_modules().splitlines() if line.startswith("nvidia")]


def names(kernel: Kernel) -> list[str]:
    return [module.file.name for module in kernel.modules()]


def test_newest_first_with_users_as_a_talos_node_shows_them() -> None:
    kernel, engine = booted(NVIDIA_NONFREE)
    declare(kernel, engine, SPECS)
    # sizes, order, users and taint as read on a Talos 1.12.5 node with the proprietary modules
    assert kernel.proc_modules().splitlines()[:5] == [
        "nvidia_uvm 2232320 0 - Live 0x0000000000000000 (PO)",
        "nvidia_drm 151552 0 - Live 0x0000000000000000 (PO)",
        "nvidia_modeset 1908736 1 nvidia_drm, Live 0x0000000000000000 (PO)",
        "drm_ttm_helper 12288 1 nvidia_drm, Live 0x0000000000000000",
        "nvidia 111489024 3 nvidia_uvm,nvidia_drm,nvidia_modeset, Live 0x0000000000000000 (PO)",
    ]


def test_every_line_has_the_shape_of_the_captured_ones() -> None:
    if not CAPTURE.exists():
        pytest.skip("the captures are not beside this checkout")
    real = [x for x in CAPTURE.read_text().splitlines() if " Live 0x" in x]
    assert len(real) > 20
    assert all(LINE.fullmatch(x) for x in real)
    kernel, engine = booted()
    declare(kernel, engine, SPECS)
    assert all(LINE.fullmatch(x) for x in kernel.proc_modules().splitlines())


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_declared_order_does_not_reach_the_kernel(order: tuple[int, ...]) -> None:
    kernel, engine = booted()
    declare(kernel, engine, [SPECS[i] for i in order])
    loaded = [name for name in names(kernel) if name.startswith("nvidia")]
    assert loaded == ["nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"]
    core = kernel.module("nvidia")
    assert core is not None and core.parameters["NVreg_NvLinkDisable"] == "1"


LOADABLE = sorted(ImageFactory().image(NVIDIA_OPEN_GDR, "v1.13.6").modules)


@given(st.lists(st.sampled_from([*LOADABLE, "no_such_module", "nvidia-uvm"]), max_size=12))
def test_dependencies_come_first_and_references_are_the_users(wanted: list[str]) -> None:
    kernel, engine = booted(NVIDIA_OPEN_GDR)
    declare(kernel, engine, [ModuleSpec(name) for name in wanted])
    age = {name: index for index, name in enumerate(reversed(names(kernel)))}
    assert {name.replace("-", "_") for name in wanted} - set(age) <= {"no_such_module"}
    for module in kernel.modules():
        expected = {
            other.file.name for other in kernel.modules() if module.file.name in other.file.depends
        }
        assert set(module.users) == expected
        assert module.references == len(expected)
        assert all(age[need] < age[module.file.name] for need in module.file.depends)
        assert module.users == sorted(module.users, key=age.__getitem__, reverse=True)


@given(st.permutations(SPECS), st.permutations(SPECS))
def test_any_two_declared_orders_leave_identical_traces(
    first: list[ModuleSpec], second: list[ModuleSpec]
) -> None:
    traces = []
    for specs in (first, second):
        kernel, engine = booted()
        declare(kernel, engine, specs)
        traces.append((kernel.proc_modules(), kernel.dmesg()))
    assert traces[0] == traces[1]


def test_a_module_already_present_drops_the_parameters_without_a_word() -> None:
    kernel, _ = booted()
    kernel.load("nvidia_drm")
    before = kernel.dmesg()
    assert kernel.load("nvidia", [NVLINK]) is False
    core = kernel.module("nvidia")
    assert core is not None and core.parameters["NVreg_NvLinkDisable"] == "0"
    assert kernel.dmesg() == before


def test_gdrdrv_sorts_before_nvidia_and_costs_it_its_parameter() -> None:
    kernel, engine = booted(NVIDIA_OPEN_GDR)
    declare(kernel, engine, [*SPECS, ModuleSpec("gdrdrv")])
    core = kernel.module("nvidia")
    assert core is not None and core.parameters["NVreg_NvLinkDisable"] == "0"
    assert core.users[-1] == "gdrdrv"


def test_one_module_that_is_missing_stops_no_other_and_is_tried_for_ever() -> None:
    kernel, engine = booted()
    declare(kernel, engine, [ModuleSpec("aaa"), *SPECS], seconds=3600)
    assert len(nvidia_lines(kernel)) == 4
    assert 'error loading module \\"aaa\\": module not found' in kernel.dmesg()
    tries = kernel.dmesg().count("KernelModuleSpecController")
    assert 60 < tries < 130
    engine.run_until(engine.now + 600)
    assert kernel.dmesg().count("KernelModuleSpecController") > tries


def test_a_stopped_controller_tries_no_more() -> None:
    kernel, engine = booted()
    declare(kernel, engine, [ModuleSpec("aaa")], seconds=5).stop()
    before = kernel.dmesg()
    engine.run_until(engine.now + 600)
    assert kernel.dmesg() == before


def test_without_a_card_nvidia_gives_no_such_device_and_its_dependents_fail_with_it() -> None:
    kernel, engine = booted(card=False)
    declare(kernel, engine, SPECS)
    assert nvidia_lines(kernel) == []
    assert "NVRM: No NVIDIA GPU found." in kernel.dmesg()
    for name in FOUR:
        words = f'error loading module \\"{name}\\": load nvidia failed: no such device'
        assert words in kernel.dmesg()
    assert "drm_ttm_helper" in names(kernel)  # came before the one that failed, and stays


def test_a_late_card_keeps_the_order_where_the_edges_are_there() -> None:
    kernel, engine = booted(card=False)
    engine.after(20, lambda: kernel.plug(CARD), "card")
    declare(kernel, engine, SPECS, seconds=120)
    assert [line.split()[0] for line in nvidia_lines(kernel)][-1] == "nvidia"
    core = kernel.module("nvidia")
    assert core is not None and core.loaded > 20
    assert core.parameters["NVreg_NvLinkDisable"] == "1"


def test_a_late_card_and_a_missing_edge_make_nvidia_newer_than_nvidia_uvm() -> None:
    factory = ImageFactory()
    assert factory.without_edge(NVIDIA_OPEN, "nvidia_uvm", "nvidia") == NVIDIA_OPEN
    kernel, engine = booted(card=False, factory=factory)
    engine.after(20, lambda: kernel.plug(CARD), "card")
    declare(kernel, engine, SPECS, seconds=120)
    order = [line.split()[0] for line in nvidia_lines(kernel)]
    assert order.index("nvidia") < order.index("nvidia_uvm")
    assert set(order) == set(FOUR)


def test_an_unknown_parameter_is_ignored_and_a_bad_value_is_not() -> None:
    kernel, _ = booted()
    kernel.load("nvidia", ["NVreg_NvLinkDisabel=1"])
    assert "nvidia: unknown parameter 'NVreg_NvLinkDisabel' ignored" in kernel.dmesg()
    other, _ = booted()
    with pytest.raises(ModuleError, match="load nvidia failed: invalid argument"):
        other.load("nvidia", ["NVreg_NvLinkDisable=yes"])
    assert "nvidia: `yes' invalid for parameter `NVreg_NvLinkDisable'" in other.dmesg()
    assert other.module("nvidia") is None


def test_a_boot_starts_afresh_and_taints_follow_what_is_loaded() -> None:
    kernel, _ = booted(NVIDIA_NONFREE)
    assert (kernel.tainted(), "nvidia" in names(kernel)) == (0, False)
    kernel.load("nvidia")
    assert kernel.tainted() == 4097
    kernel.boot("c", [CARD])
    assert (kernel.tainted(), "nvidia" in names(kernel), kernel.boot_id) == (0, False, "c")
    assert kernel.dmesg().startswith("[    0.000000] Linux version 6.18.34-talos ")


def test_the_ring_buffer_loses_its_oldest_lines() -> None:
    kernel, engine = booted()
    for number in range(6000):
        kernel.log(f"line {number} {'x' * 60}")
    assert RING_BYTES - 200 < len(kernel.dmesg()) <= RING_BYTES
    assert "Linux version" not in kernel.dmesg()
    assert f"line 5999 {'x' * 60}\n" in kernel.dmesg()
    assert kernel.uptime == engine.now - EPOCH == 0


def test_stock_modules_are_there_and_drbd_is_not() -> None:
    kernel, engine = booted(VANILLA)
    assert "virtio_pci_modern_dev" in names(kernel)
    declare(kernel, engine, [ModuleSpec("drbd"), ModuleSpec("nf_tables")])
    assert kernel.module("drbd") is None
    assert kernel.module("nf_tables") is not None


def test_a_module_of_another_build_can_be_put_into_an_image() -> None:
    factory = ImageFactory()
    factory.register(
        factory.extensions(NVIDIA_OPEN),
        modules={"nvidia_uvm": None, "extra": ModuleFile("extra", 4096)},
    )
    modules = factory.image(NVIDIA_OPEN, "v1.13.6").modules
    assert "nvidia_uvm" not in modules and "extra" in modules
    assert "nvidia_uvm" in ImageFactory().image(NVIDIA_OPEN, "v1.13.6").modules


def test_a_dependency_never_gets_its_dependents_parameters() -> None:
    kernel, _ = booted()
    kernel.load("nvidia_drm", [NVLINK])
    core = kernel.module("nvidia")
    assert core is not None and core.parameters["NVreg_NvLinkDisable"] == "0"
    assert "nvidia_drm: unknown parameter 'NVreg_NvLinkDisable' ignored" in kernel.dmesg()
