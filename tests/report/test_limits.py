from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.facts.drbd import DrbdStatus
from harness.facts.fact import Fact, Origin
from harness.facts.gpunode import GpuNode
from harness.facts.machineconfig import DeclaredModule
from harness.facts.modules import Module, ModuleTable
from harness.facts.operator import Addons
from harness.facts.pci import PciCard, PciCards
from harness.facts.pool import ABSENT, PoolRequest, RequestedModules
from harness.judge.cards import CardKind
from harness.judge.verdict import Outcome, Verdict
from harness.report import limits as limits_module
from harness.report.ledger import Ledger, read
from harness.report.limits import limits
from harness.report.outcome import summarise

ORIGIN = Origin(1.0, "somewhere", "")
L40S, GB202 = "10de:26b9", "10de:2bb5"
DEVICE = "nvidia.com/AD102GL_L40S"


@dataclass(frozen=True, slots=True)
class Trial(Fact):
    """As those of a replicated volume: the version is in their course."""

    course: dict[str, str]


@dataclass
class Run:
    """A ledger that is made of facts, each under a claim that holds."""

    path: Path
    shards: dict[str, Ledger] = field(default_factory=dict)

    def keep(
        self, *facts: Fact, claim: str = "a", pool: str = "gpu", outcome: str = "holds"
    ) -> Run:
        verdict = Verdict(claim, f"pool {pool}", Outcome(outcome), "as seen", facts)
        self.shard(f"pool-{pool}").verdict(verdict, scenario="s", pool=pool, at=1.0)
        return self

    def plan(self, pool: str, hardware: str) -> Run:
        self.shard("plan").planned("s", pool, ["a"], hardware=hardware)
        return self

    def shard(self, name: str) -> Ledger:
        if name not in self.shards:
            self.shards[name] = Ledger(self.path, name)
        return self.shards[name]

    def says(self, kind: str = "cluster") -> str:
        view = read(self.path)
        return "\n".join(limits(view, summarise(view), kind))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    for shard in made.shards.values():
        shard.close()


def addons(*override: str, hami: bool | None = None, release: bool = False) -> Addons:
    return Addons(ORIGIN, "kubernetes-lab", True, hami, override, release)


def cards(*ids: str) -> PciCards:
    found = tuple(PciCard("0000:09:00.0", *one.split(":")) for one in ids)
    return PciCards(ORIGIN, found, 9)


def node(name: str = "a", offers: str = "1") -> GpuNode:
    return GpuNode(ORIGIN, name, "uid", True, "boot", offers, offers, "on", "true", True)


def request(listed: RequestedModules, *gpus: str) -> PoolRequest:
    return PoolRequest(ORIGIN, listed, gpus)


@pytest.mark.parametrize(
    ("kind", "said", "unsaid"),
    [
        ("twin", "every machine of this lab was simulated", "does not record"),
        ("", "does not record what kind of lab", "machine of this lab was"),
        ("cluster", "What no claim here asks", "simulated"),
    ],
    ids=["twin", "unknown", "cluster"],
)
def test_the_kind_of_lab_decides(run: Run, kind: str, said: str, unsaid: str) -> None:
    text = run.plan("gpu", "L40S").says(kind)
    assert said in text
    assert unsaid not in text


GUESTS = "QEMU guests on one machine"


def drbd(version: str) -> DrbdStatus:
    return DrbdStatus(ORIGIN, "n1", version, ())


def table(*names: str) -> ModuleTable:
    return ModuleTable(ORIGIN, tuple(Module(n, 1, 0, (), "Live", "0x0", "O") for n in names), True)


def test_guests_on_one_machine_have_limits_of_their_own(run: Run) -> None:
    text = run.plan("mini", "QEMU guests").says("qemu")
    assert "Anything of a GPU" in text and "does not carry" not in text
    for said in (GUESTS, "cache=unsafe", "A real network", "(not recorded) under busybox's init"):
        assert said in text
    for unsaid in ("was simulated", "DRBD 9", "stubs", "emulated"):
        assert unsaid not in text
    for other in ("twin", "cluster", ""):
        assert GUESTS not in run.says(other) and "busybox" not in run.says(other)


def test_what_a_mini_lab_had_is_read_off_its_run(run: Run) -> None:
    run.plan("mini", "").keep(drbd("8.4.11"), table("nvidia_uvm", "nvidia", "drbd"), pool="mini")
    run.shard("pool-mini").note("bring-up", "image ready, kernel 6.1.0-57-cloud-amd64", at=1.0)
    run.shard("pool-mini").note("bring-up", "accelerator tcg: there is no /dev/kvm", at=1.0)
    text = run.says("qemu")
    assert "the module here was 8.4.11" in text
    assert "nvidia_uvm, nvidia were stubs" in text
    assert "emulated (TCG)" in text
    assert "another kernel (6.1.0-57-cloud-amd64)" in text
    assert "{" not in text
    assert "stubs" not in run.says("cluster") and "8.4.11" not in run.says("cluster")


def test_a_mini_lab_with_drbd_9_kvm_and_talos(run: Run) -> None:
    run.plan("mini", "").keep(drbd("9.2.14"), pool="mini")
    run.shard("pool-mini").note("bring-up", "accelerator kvm: a kernel spoke, no tcg", at=1.0)
    banner = Origin(1.0, "guest n1: console", "[    0.000000] Linux version 6.18.9-talos (b@c)")
    run.keep(PciCards(banner, (), 0), pool="mini")
    text = run.says("qemu")
    assert GUESTS in text
    for unsaid in ("DRBD 9, which", "emulated", "busybox"):
        assert unsaid not in text


def test_one_trial_on_drbd_9_is_not_told_as_8(run: Run) -> None:
    run.keep(drbd("8.4.11"), drbd("9.2.14"), pool="mini")
    assert "DRBD 9, which" not in run.says("qemu")


def test_a_trial_tells_the_version_as_well(run: Run) -> None:
    run.keep(Trial(ORIGIN, {"version": "8.4.11"}), pool="mini")
    assert "the module here was 8.4.11" in run.says("qemu")


def test_a_card_stands_for_itself_alone(run: Run) -> None:
    text = run.plan("one", "L40S").plan("two", "H100").says()
    assert "(L40S, H100)" in text and "does not carry" in text
    assert "Anything of a GPU" not in text


def test_no_card_shows_nothing_of_gpus(run: Run) -> None:
    text = run.plan("plain", "").says()
    assert "Anything of a GPU" in text and "does not carry" not in text
    for word in ("HAMi", "NvLink", "generation", "worker", "runtime", "default"):
        assert word not in text


def test_values_that_arrived_by_override(run: Run) -> None:
    assert "own default" not in run.keep(addons()).says()
    text = run.keep(addons("gpu-operator.devicePlugin.env", "x")).says()
    assert "own default for the GPU operator" in text
    assert "valuesOverride (gpu-operator.devicePlugin.env, x)" in text


def test_modules_that_were_listed_by_hand(run: Run) -> None:
    listed = RequestedModules((DeclaredModule("nvidia"),))
    assert "list of kernel modules" not in run.keep(request(ABSENT, DEVICE)).says()
    assert "list of kernel modules" not in run.keep(request(listed), pool="plain").says()
    assert "modules: gpu wrote one of its own" in run.keep(request(listed, DEVICE)).says()


def test_an_empty_list_is_one_of_its_own(run: Run) -> None:
    assert "gpu wrote one of its own" in run.keep(request(RequestedModules(()), DEVICE)).says()


@pytest.mark.parametrize(
    ("found", "said", "unsaid"),
    [
        (addons(), "HAMi, which was off", "HAMi is on"),
        (addons(hami=False), "HAMi, which was off", "HAMi is on"),
        (addons(hami=True), "while HAMi is on", "which was off"),
        (addons(release=True), "while HAMi is on", "which was off"),
    ],
)
def test_hami_is_never_passed_over(run: Run, found: Addons, said: str, unsaid: str) -> None:
    text = run.keep(found).says()
    assert said in text and unsaid not in text


def test_a_parameter_on_cards_without_nvlink_is_harmless_and_no_more(run: Run) -> None:
    assert "NVreg_NvLinkDisable=1 is needed: without NVLink (L40S)" in run.keep(cards(L40S)).says()
    assert "generation of cards than Ada" in run.says()


def test_with_nvlink_the_need_may_be_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    board = CardKind("10de:2330", "H100 SXM", "Hopper", ("open",), nvlink=True)
    monkeypatch.setattr(limits_module, "card_kind", lambda _: board)
    text = run.keep(cards("10de:2330")).says()
    assert "NvLink" not in text and "generation of cards than Hopper" in text


def test_two_generations_are_not_one(run: Run) -> None:
    text = run.keep(cards(L40S)).keep(cards(GB202), pool="other").says()
    assert "generation" not in text
    assert "without NVLink (L40S, RTX PRO 6000" in text


def test_nothing_is_said_of_a_card_that_is_not_known(run: Run) -> None:
    text = run.keep(cards("10de:1234", "8086:0001")).says()
    assert "NvLink" not in text and "generation" not in text


def test_injection_is_seen_by_its_effect(run: Run) -> None:
    said = "seen by its effect"
    assert said not in run.keep(node(), claim="cdi-injection", outcome="broken").says()
    assert said in run.keep(node(), claim="cdi-injection", pool="other").says()


def test_one_worker_with_one_card(run: Run) -> None:
    text = run.keep(node()).keep(node(), claim="b").says()
    assert "each pool had one" in text and "each had one" in text


def test_two_workers_are_several(run: Run) -> None:
    text = run.keep(node("a"), node("b")).says()
    assert "each pool had one" not in text and "each had one" in text


def test_two_cards_are_several(run: Run) -> None:
    text = run.keep(node("a", "2")).says()
    assert "each pool had one" in text and "each had one" not in text


def test_no_blank_is_left_unfilled(run: Run) -> None:
    listed = RequestedModules(())
    run.plan("gpu", "L40S").keep(addons("x"), cards(L40S), node(), request(listed, DEVICE))
    text = run.keep(node(), claim="cdi-injection").says("twin")
    assert len(text.splitlines()) == 11
    assert "{" not in text
