from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import claims
from harness.facts.extensions import Extensions
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.machineconfig import DeclaredModule, InstallImage, RenderedModules
from harness.facts.pool import ABSENT, BootSource, PoolRequest, RequestedModules
from harness.judge.expectation import NVIDIA_MODULES, expected_modules
from harness.judge.rendering import (
    render_module_order,
    render_module_params,
    render_modules,
    render_no_kernel_block,
    schematic_consistent,
    spec_read_back,
)
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
UNREAD = Unread(AT, "the config", "not YAML: '{'")
L40S = ("nvidia.com/AD102GL_L40S",)
AMD = ("amd.com/gpu",)
EMPTY = RequestedModules(())
AUTO = expected_modules(ABSENT, L40S)
HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"


def one(name: str, *parameters: str) -> DeclaredModule:
    return DeclaredModule(name, parameters)


def rendered(*modules: DeclaredModule, block: bool = True, misplaced: str = "") -> RenderedModules:
    return RenderedModules(AT, block, modules, (misplaced,) if misplaced else ())


def listed(*modules: DeclaredModule) -> RequestedModules:
    return RequestedModules(modules)


def check(verdict: Verdict, claim: str, outcome: str, *said: str) -> None:
    assert (verdict.claim, verdict.outcome, verdict.subject) == (claim, outcome, "pool gpu")
    assert claim in claims.load()
    assert verdict.facts
    for words in said:
        assert words in verdict.because, verdict.because


@pytest.mark.parametrize(
    ("requested", "gpus", "names"),
    [
        (ABSENT, L40S, NVIDIA_MODULES),
        (ABSENT, AMD + L40S, NVIDIA_MODULES),
        (ABSENT, AMD, ()),
        (ABSENT, ("notnvidia.com/x", "my-nvidia.com/x", "nvidia.computer/x"), ()),
        (ABSENT, (), ()),
        (EMPTY, L40S, ()),
        (listed(one("nf_tables")), L40S, ("nf_tables",)),
        (listed(one("nf_tables")), (), ("nf_tables",)),
    ],
)
def test_the_three_states(
    requested: RequestedModules, gpus: tuple[str, ...], names: tuple[str, ...]
) -> None:
    assert tuple(module.name for module in expected_modules(requested, gpus)) == names


def test_the_charts_choice_gives_nvidia_alone_its_parameter() -> None:
    assert [m.parameters for m in AUTO] == [("NVreg_NvLinkDisable=1",), (), (), ()]


@pytest.mark.parametrize(
    ("stored", "written", "outcome", "said"),
    [
        (ABSENT, ABSENT, HOLDS, "stored as absent, and was written as absent"),
        (EMPTY, EMPTY, HOLDS, "stored as [], and was written as []"),
        (EMPTY, ABSENT, BROKEN, "stored as [], and was written as absent"),
        (ABSENT, EMPTY, BROKEN, "stored as absent"),
        (listed(one("a", "b=1")), listed(one("a", "b=1")), HOLDS, "[a b=1]"),
        (listed(one("a", "b=1")), listed(one("a")), BROKEN, "[a b=1], and was written as [a]"),
        (listed(one("a"), one("b")), listed(one("b"), one("a")), BROKEN, "[a, b]"),
    ],
)
def test_spec_read_back(
    stored: RequestedModules, written: RequestedModules, outcome: str, said: str
) -> None:
    verdict = spec_read_back(PoolRequest(AT, stored, L40S), written, "pool gpu")
    check(verdict, "spec-read-back", outcome, said)


SHUFFLED = (AUTO[1], AUTO[0], AUTO[3], AUTO[2])
BARE = tuple(one(name) for name in NVIDIA_MODULES)


@pytest.mark.parametrize(
    ("found", "requested", "gpus", "outcome", "said"),
    [
        (rendered(*AUTO), ABSENT, L40S, HOLDS, "declares nvidia NVreg_NvLinkDisable=1, nvidia_uvm"),
        (rendered(*SHUFFLED), ABSENT, L40S, HOLDS, "calls for nvidia"),
        (rendered(*BARE), ABSENT, L40S, HOLDS, "gpus nvidia.com/AD102GL_L40S"),
        (rendered(*AUTO[:3]), ABSENT, L40S, BROKEN, "nvidia_modeset"),
        (rendered(*AUTO, one("nf_tables")), ABSENT, L40S, BROKEN, "nf_tables"),
        (rendered(*AUTO, AUTO[0]), ABSENT, L40S, BROKEN, "nvidia"),
        (rendered(block=False), ABSENT, L40S, BROKEN, "declares none"),
        (rendered(misplaced="machine.modules"), ABSENT, L40S, BROKEN, "stands at machine.modules"),
        (rendered(*AUTO, misplaced="modules"), ABSENT, L40S, BROKEN, "stands at modules"),
        (rendered(block=False), ABSENT, AMD, HOLDS, "calls for none"),
        (rendered(block=False), ABSENT, (), HOLDS, "gpus none"),
        (rendered(*AUTO), ABSENT, AMD, BROKEN, "calls for none"),
        (rendered(), EMPTY, L40S, HOLDS, "kernelModules []"),
        (rendered(*AUTO), EMPTY, L40S, BROKEN, "kernelModules []"),
        (rendered(one("a", "b=1")), listed(one("a", "b=1")), L40S, HOLDS, "calls for a b=1"),
        (rendered(one("a")), listed(one("a", "b=1")), L40S, BROKEN, "declares a, the request"),
        (rendered(one("a"), one("b")), listed(one("b"), one("a")), (), BROKEN, "a, b"),
        (rendered(*AUTO, one("a")), listed(one("a")), L40S, BROKEN, "calls for a"),
    ],
)
def test_render_modules(
    found: RenderedModules,
    requested: RequestedModules,
    gpus: tuple[str, ...],
    outcome: str,
    said: str,
) -> None:
    verdict = render_modules(found, requested, gpus, "pool gpu")
    check(verdict, "render-modules", outcome, said)


@pytest.mark.parametrize(
    ("found", "outcome", "said"),
    [
        (rendered(*AUTO), HOLDS, "nvidia, nvidia_uvm, nvidia_drm, nvidia_modeset"),
        (rendered(*AUTO[:2], one("nf_tables"), *AUTO[2:]), HOLDS, "nf_tables"),
        (rendered(*SHUFFLED), BROKEN, "declares nvidia_uvm, nvidia,"),
        (rendered(*AUTO, AUTO[0]), BROKEN, "declares nvidia"),
        (rendered(AUTO[2], AUTO[1]), BROKEN, "declares nvidia_drm, nvidia_uvm"),
        (rendered(*AUTO[:2]), UNKNOWN, "without nvidia_drm, nvidia_modeset"),
        (rendered(one("nf_tables")), UNKNOWN, "without nvidia, nvidia_uvm"),
        (rendered(), UNKNOWN, "declares nothing"),
        (rendered(misplaced="machine.modules"), UNKNOWN, "declares nothing"),
    ],
)
def test_render_module_order(found: RenderedModules, outcome: str, said: str) -> None:
    check(render_module_order(found, "pool gpu"), "render-module-order", outcome, said)


def test_another_order_can_be_expected() -> None:
    found = rendered(one("spl"), one("zfs"))
    assert render_module_order(found, "p", order=("spl", "zfs")).outcome == HOLDS
    assert render_module_order(found, "p", order=("zfs", "spl")).outcome == BROKEN


PARAMETER = "NVreg_NvLinkDisable=1"


@pytest.mark.parametrize(
    ("found", "outcome", "said"),
    [
        (rendered(*AUTO), HOLDS, f"parameters {PARAMETER}, expected {PARAMETER}"),
        (rendered(one("nvidia", "NVreg_Other=2", PARAMETER)), HOLDS, PARAMETER),
        (rendered(*BARE), BROKEN, "parameters none"),
        (rendered(one("nvidia", "NVreg_NvLinkDisable=0")), BROKEN, "NVreg_NvLinkDisable=0,"),
        (rendered(one("nvidia", "NVreg_NvLinkDisable=10")), BROKEN, "=10"),
        (rendered(one("nvidia", PARAMETER, "NVreg_NvLinkDisable=0")), BROKEN, "=0"),
        (rendered(one("nvidia", PARAMETER, "NVreg-NvLinkDisable=0")), BROKEN, "=0"),
        (rendered(one("nvidia"), one("nvidia_uvm", PARAMETER)), BROKEN, "parameters none"),
        (rendered(one("nvidia", PARAMETER + ";x")), BROKEN, ";x"),
        (rendered(one("nvidia_uvm", PARAMETER)), UNKNOWN, "no nvidia to carry"),
        (rendered(), UNKNOWN, "declares none"),
    ],
)
def test_render_module_params(found: RenderedModules, outcome: str, said: str) -> None:
    check(render_module_params(found, "pool gpu"), "render-module-params", outcome, said)


@pytest.mark.parametrize(
    ("found", "requested", "gpus", "outcome", "said"),
    [
        (rendered(block=False), ABSENT, (), HOLDS, "has no kernel block, and none is due"),
        (rendered(block=False), ABSENT, AMD, HOLDS, "gpus amd.com/gpu"),
        (rendered(block=False), EMPTY, (), HOLDS, "kernelModules []"),
        (rendered(block=True), ABSENT, (), BROKEN, "has a kernel block"),
        (rendered(*AUTO), ABSENT, AMD, BROKEN, "has a kernel block"),
        (rendered(block=False, misplaced="modules"), ABSENT, (), BROKEN, "stands at modules"),
        (rendered(block=False), ABSENT, L40S, UNKNOWN, "a block is due"),
        (rendered(one("a")), listed(one("a")), (), UNKNOWN, "calls for a"),
    ],
)
def test_render_no_kernel_block(
    found: RenderedModules,
    requested: RequestedModules,
    gpus: tuple[str, ...],
    outcome: str,
    said: str,
) -> None:
    verdict = render_no_kernel_block(found, requested, gpus, "pool gpu")
    check(verdict, "render-no-kernel-block", outcome, said)


def boot(schematic: str, version: str) -> BootSource:
    return BootSource(AT, schematic, version, "http", "https://f/image")


def install(schematic: str, version: str) -> InstallImage:
    return InstallImage(AT, schematic, version, "factory.talos.dev/installer")


@pytest.mark.parametrize(
    ("schematic", "version", "outcome"),
    [("abc", "v1.13.6", HOLDS), ("abd", "v1.13.6", BROKEN), ("abc", "v1.13.7", BROKEN)],
)
def test_schematic_consistent(schematic: str, version: str, outcome: str) -> None:
    verdict = schematic_consistent(boot("abc", "v1.13.6"), install(schematic, version), "pool gpu")
    check(
        verdict, "schematic-consistent", outcome, "schematic abc v1.13.6", f"{schematic} {version}"
    )
    assert len(verdict.facts) == 2


def ran(node: str, schematic: str) -> Extensions:
    return Extensions(AT, node, schematic, ("qemu-guest-agent",))


@pytest.mark.parametrize(
    ("installed", "running", "outcome", "said"),
    [
        ("abc", (ran("w1", "abc"), ran("w2", "abc")), HOLDS, "w1, w2 run that of the disk"),
        ("abc", (ran("w1", "abc"), ran("w2", "abd")), BROKEN, "w2 runs abd"),
        ("abc", (ran("w1", ""),), BROKEN, "w1 runs no schematic"),
        ("abd", (ran("w1", "abc"),), BROKEN, "the next upgrade or reinstall brings another"),
        ("abc", (ran("w1", "abc"), UNREAD), UNKNOWN, "could not be read"),
        ("abd", (UNREAD,), BROKEN, "expected the same"),
    ],
)
def test_what_runs_is_what_is_declared(
    installed: str, running: tuple[Extensions | Unread, ...], outcome: str, said: str
) -> None:
    made = boot("abc", "v1.13.6"), install(installed, "v1.13.6")
    verdict = schematic_consistent(*made, "pool gpu", running)
    check(verdict, "schematic-consistent", outcome, said)


@pytest.mark.parametrize(
    ("verdict", "claim"),
    [
        (spec_read_back(UNREAD, ABSENT, "pool gpu"), "spec-read-back"),
        (render_modules(UNREAD, ABSENT, L40S, "pool gpu"), "render-modules"),
        (render_modules(UNREAD, ABSENT, (), "pool gpu"), "render-modules"),
        (render_module_order(UNREAD, "pool gpu"), "render-module-order"),
        (render_module_params(UNREAD, "pool gpu"), "render-module-params"),
        (render_no_kernel_block(UNREAD, ABSENT, (), "pool gpu"), "render-no-kernel-block"),
        (schematic_consistent(UNREAD, install("a", "v1"), "pool gpu"), "schematic-consistent"),
        (schematic_consistent(boot("a", "v1"), UNREAD, "pool gpu"), "schematic-consistent"),
    ],
)
def test_what_could_not_be_read_is_unknown_with_its_reason(verdict: Verdict, claim: str) -> None:
    check(verdict, claim, UNKNOWN, "the config could not be read: not YAML: '{'")


modules = st.builds(DeclaredModule, st.sampled_from([*NVIDIA_MODULES, "a", "b"]))
requests = st.none() | st.lists(modules, max_size=4).map(tuple)


@given(requests, st.lists(st.sampled_from([*L40S, *AMD])))
def test_what_is_called_for_always_satisfies(
    written: tuple[DeclaredModule, ...] | None, gpus: list[str]
) -> None:
    requested = RequestedModules(written)
    expected = expected_modules(requested, gpus)
    found = RenderedModules(AT, bool(expected), expected)
    assert render_modules(found, requested, gpus, "p").outcome == HOLDS
    more = RenderedModules(AT, True, (*expected, DeclaredModule("z")))
    assert render_modules(more, requested, gpus, "p").outcome == BROKEN


def test_a_verdict_rests_on_the_facts_it_was_given() -> None:
    found = rendered(*AUTO)
    facts: tuple[Fact, ...] = render_modules(found, ABSENT, L40S, "p").facts
    assert facts == (found,)
