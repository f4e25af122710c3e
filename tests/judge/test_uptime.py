from __future__ import annotations

from typing import Any

import pytest

from harness.facts.bootledger import BootLedger, Entry, PodRestarts, PodStay, Restart
from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Origin, Unread
from harness.facts.kernellog import KernelEvent, KernelLog, What
from harness.judge.uptime import LIMIT, missing_uptime, uptime

SOAK = 5580.0  # 93 minutes


def sample(up: float, boot: str = "b1", at: float | None = None, **more: Any) -> BootSample:
    given: dict[str, Any] = {"vmi_uid": "v", "node_uid": "n", "node_ready": True, **more}
    moment = 1000.0 + up if at is None else at
    return BootSample(Origin(moment, "guest w1", ""), "w1", boot, up, **given)


LOST = Unread(Origin(1.0, "guest w1", ""), "/proc/uptime", "the reason")


@pytest.mark.parametrize(
    ("samples", "soak", "outcome", "said"),
    [
        ((sample(130), sample(5580)), SOAK, "holds", "boot b1 is 5580 s old, watched since 130 s"),
        ((sample(5600),), SOAK, "holds", "watched since 5600 s"),
        ((sample(130), LOST, sample(5581)), SOAK, "holds", "5581 s old"),
        ((sample(130), sample(4267)), 4267.0, "holds", "4267 s old"),
        ((sample(130), sample(4267)), 0.0, "holds", "expected more than 4200 s"),
        ((sample(130), sample(4266)), 0.0, "unknown", "given up at 4200 s goes on to 4266 s until"),
        ((sample(130), sample(4205)), 4200.0, "unknown", "too short"),
        ((sample(130), sample(4201)), 4201.0, "unknown", "too short"),
        ((sample(5580), sample(5580)), SOAK, "holds", "5580 s old"),
        ((sample(130), sample(5580, node_ready=False)), SOAK, "holds", "5580 s old"),
        ((sample(130), sample(5579)), SOAK, "unknown", "too short: expected more than 4200 s"),
        ((sample(130), sample(LIMIT)), 600.0, "unknown", "too short"),
        ((sample(130), sample(LIMIT)), LIMIT, "unknown", "too short"),
        ((sample(130),), SOAK, "unknown", "too short"),
        ((sample(130), sample(60, "b2", 5400.0)), SOAK, "broken", "boot b1 became b2"),
        (
            (sample(130), sample(6000, "b2"), sample(7000, "b2")),
            SOAK,
            "broken",
            "VMI and Node are the same: the guest rebooted",
        ),
        (
            (sample(130), sample(6000, "b2"), LOST),
            SOAK,
            "broken",
            "became b2",
        ),
        ((sample(5600), sample(5590)), SOAK, "broken", "the uptime fell from 5600 s to 5590 s"),
        (
            (sample(130), sample(60, "b2", vmi_uid="other", node_uid="more")),
            SOAK,
            "broken",
            "the worker was replaced (VMI, Node of another UID)",
        ),
        (
            (sample(130), sample(60, "b2", vmi_uid="other")),
            SOAK,
            "broken",
            "the worker was replaced (VMI of another UID)",
        ),
        ((sample(130), sample(60, "b2", vmi_uid="")), SOAK, "broken", "the guest rebooted"),
        ((sample(130, vmi_uid=""), sample(60, "b2")), SOAK, "broken", "the guest rebooted"),
        ((sample(130), LOST), SOAK, "unknown", "the reason"),
        ((sample(5600), LOST), SOAK, "unknown", "the reason"),
        ((LOST, sample(5600)), SOAK, "unknown", "the reason"),
        ((LOST,), SOAK, "unknown", "the reason"),
        ((), SOAK, "unknown", "nobody looked at the node's boot"),
    ],
)
def test_uptime(samples: Any, soak: float, outcome: str, said: str) -> None:
    verdict = uptime(samples, soak, "node w1")
    assert (verdict.claim, verdict.subject) == ("uptime", "node w1")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because
    assert verdict.facts == samples


@pytest.mark.parametrize(
    ("before", "after", "end", "timer"),
    [
        (sample(4190, at=10_000.0), sample(30, "b2", at=10_050.0), 4210, True),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_236.0), 4206, True),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_199.0), 4169, False),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_327.0), 4297, False),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_326.0), 4296, True),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_200.0), 4170, True),
        (sample(4280, at=10_000.0), sample(30, "b2", at=9_900.0), 4280, True),
        (sample(4300, at=10_000.0), sample(30, "b2", at=10_000.0), 4300, False),
        (sample(900, at=10_000.0), sample(30, "b2", at=10_050.0), 920, False),
    ],
)
def test_when_the_boot_ended(
    before: BootSample, after: BootSample, end: int, *, timer: bool
) -> None:
    verdict = uptime((before, after), SOAK, "node w1")
    assert f"at an uptime of at most {end} s" in verdict.because
    assert ("where a boot that does not end is given up" in verdict.because) is timer


# -- what the ledger knows beside the looks


def ledger(*boots: tuple[float, str], **more: Any) -> BootLedger:
    entries = (
        *(Entry(at, "boot", boot) for at, boot in boots),
        Entry(9999.0, "event", "b9", text="of no boot"),
    )
    given: dict[str, Any] = {"entries": entries, **more}
    origin = Origin(9000.0, "boots of w1", "")
    return BootLedger(origin, "w1", "m1", 0.0, 9000.0, LIMIT, SOAK, **given)


@pytest.mark.parametrize(
    ("boots", "said"),
    [
        ([(1000.0, "b1"), (5210.0, "b2")], "b2, as its Node shows, at an uptime of at most 4210 s"),
        ([(1000.0, "b1"), (1131.0, "b2"), (1200.0, "b3")], "boot b1 became b2"),
    ],
)
@pytest.mark.parametrize("last", [LOST, None])
def test_another_boot_that_only_its_node_shows_breaks_it(
    boots: Any, said: str, last: Unread | None
) -> None:
    """Whoever waited for the machine after that could not ask it."""
    book = ledger(*boots)
    samples = (sample(130),) if last is None else (sample(130), last)
    verdict = uptime(samples, SOAK, "node w1", ledger=book)
    assert verdict.outcome == "broken"
    assert said in verdict.because
    assert verdict.because.endswith("the machine has not answered since")
    assert verdict.facts == (*samples, book)


@pytest.mark.parametrize(("at", "replaced"), [(1131.0, True), (1130.0, False)])
def test_another_vmi_under_the_nodes_name_is_no_reboot(at: float, *, replaced: bool) -> None:
    """A VM that was started anew keeps its Node's name; the Node shows another boot id."""
    vmi = Entry(at, "vmi", text="VMI w1 has UID v2, it was v1")
    boots = (Entry(1000.0, "boot", "b1"), Entry(5210.0, "boot", "b2"))
    verdict = uptime((sample(130), LOST), SOAK, "w1", ledger=ledger(entries=(*boots, vmi)))
    assert verdict.outcome == "broken"
    said = "the worker was replaced: its VMI is another; boot b1 became b2, as its Node shows"
    assert (verdict.because == said) is replaced
    assert ("at an uptime of at most 4210 s" in verdict.because) is not replaced


@pytest.mark.parametrize(
    "boots",
    [
        [(900.0, "b0"), (1000.0, "b1")],
        [(1000.0, "b1")],
        [(1130.0, "b0")],
        [(1000.0, "b1"), (7000.0, "b1")],
        [],
    ],
)
def test_a_boot_from_before_the_baseline_is_an_installations(boots: Any) -> None:
    verdict = uptime((sample(130), LOST), SOAK, "node w1", ledger=ledger(*boots))
    assert verdict.outcome == "unknown"
    assert verdict.because.endswith("the reason")
    good = uptime((sample(130), sample(5580)), SOAK, "node w1", ledger=ledger((900.0, "b0")))
    assert good.outcome == "holds"


@pytest.mark.parametrize(
    ("looks", "kinds"),
    [
        ((sample(130), sample(5600, node_uid="n2")), "Node"),
        ((sample(130), sample(5600, vmi_uid="v2")), "VMI"),
        ((sample(130), sample(5600, vmi_uid="v2", node_uid="n2")), "VMI, Node"),
        ((sample(130), sample(900, node_uid=""), sample(5600, node_uid="n2")), "Node"),
        ((sample(130), sample(900, node_uid="n2"), sample(5600)), "Node"),
    ],
)
def test_another_vmi_or_node_is_another_worker_whatever_the_boot_id(looks: Any, kinds: str) -> None:
    """A Node that was deleted and registered anew: nobody knows what was in between."""
    verdict = uptime(looks, SOAK, "node w1")
    assert verdict.outcome == "broken"
    said = f"the worker was replaced ({kinds} of another UID), though its boot is one"
    assert verdict.because == said


@pytest.mark.parametrize(("what", "more"), [("VMI", {"vmi_uid": ""}), ("Node", {"node_uid": ""})])
def test_a_last_look_without_a_node_is_at_odds(what: str, more: Any) -> None:
    verdict = uptime((sample(130), sample(5600, **more)), SOAK, "node w1")
    assert verdict.outcome == "unknown"
    assert f"at the last look it had no {what}" in verdict.because
    none = (sample(130, vmi_uid="", node_uid=""), sample(5600, vmi_uid="", node_uid=""))
    assert uptime(none, SOAK, "guest n1").outcome == "holds"


@pytest.mark.parametrize(
    ("late", "outcome"), [(0.0, "holds"), (-60.0, "holds"), (-61.0, "unknown"), (900.0, "holds")]
)
def test_an_uptime_that_gains_on_the_clock_is_at_odds(late: float, outcome: str) -> None:
    """A guest's clock that leapt says an age that no boot has had; one that stood still does not.

    The gain counts from the first look to the last, however many are between.
    """
    looks = (sample(130), sample(2000, at=3000.0 + late / 2), sample(5600, at=6600.0 + late))
    verdict = uptime(looks, SOAK, "node w1")
    assert verdict.outcome == outcome
    said = "its uptime gained 61 s on the lab's clock, so one of them leapt"
    assert (said in verdict.because) is (outcome == "unknown")


@pytest.mark.parametrize("at", [1131.0, 6600.0])
def test_a_boot_of_its_nodes_that_the_machine_does_not_tell_is_at_odds(at: float) -> None:
    book = ledger((1000.0, "b1"), (at, "b2"))
    verdict = uptime((sample(130), sample(5600)), SOAK, "node w1", ledger=book)
    assert verdict.outcome == "unknown"
    assert "its Node showed boot b2 meanwhile" in verdict.because


def test_a_machine_that_was_moved_is_on_its_boot_and_that_is_told() -> None:
    said = "its virt-launcher pod became another meanwhile, which is no reboot"
    for at, moved in ((1130.0, False), (1131.0, True), (6600.0, True), (6601.0, False)):
        book = ledger(entries=(Entry(at, "launcher", text="virt-launcher pod x has UID y"),))
        verdict = uptime((sample(130), sample(5600)), SOAK, "node w1", ledger=book)
        assert verdict.outcome == "holds"
        assert (said in verdict.because) is moved


def console(what: What, shown: float | None, boot_id: str = "") -> KernelLog:
    event = KernelEvent(what, "boot sequence: failed", shown=shown, pid=7, comm="cuda")
    return KernelLog(Origin(6600.0, "console", ""), boot_id, False, (event,))


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        (console(What.GIVEN_UP, 5201.0), "unknown"),
        (console(What.GIVEN_UP, None, "b1"), "unknown"),
        (console(What.GIVEN_UP, 1003.0), "holds"),
        (console(What.GIVEN_UP, 1003.1), "unknown"),
        (console(What.GIVEN_UP, None), "holds"),
        (console(What.GIVEN_UP, None, "b0"), "holds"),
        (console(What.HUNG_TASK, 5201.0), "holds"),
    ],
)
def test_a_boot_that_talos_gave_up_and_did_not_end_is_at_odds(log: Any, outcome: str) -> None:
    """With panic=0 it sleeps there. What the last boot said before this one is not this one's."""
    verdict = uptime((sample(130), sample(5600)), SOAK, "node w1", logs=[log])
    assert verdict.outcome == outcome
    assert ("'boot sequence: failed'" in verdict.because) is (outcome == "unknown")


@pytest.mark.parametrize(("shown", "told"), [(5201.0, True), (900.0, False)])
def test_a_kill_of_the_last_boot_is_not_this_ones(shown: float, *, told: bool) -> None:
    kill = console(What.OOM_KILL, shown)
    verdict = uptime((sample(130), sample(5600)), SOAK, "node w1", logs=[kill])
    assert verdict.outcome == "holds"
    assert ("in it the kernel killed" in verdict.because) is told


def test_without_a_look_the_ledger_alone_says_nothing_of_a_baseline() -> None:
    book = ledger((1000.0, "b1"), (5210.0, "b2"))
    assert uptime((LOST,), SOAK, "node w1", ledger=book).outcome == "unknown"
    assert uptime((), SOAK, "node w1", ledger=book).outcome == "unknown"


def gone(taken: str = "") -> WorkerGone:
    return WorkerGone(Origin(3000.0, "cluster", ""), "w1", ("Machine",), taken)


def test_a_pool_that_was_taken_away_is_unknown_and_says_how_far_it_got() -> None:
    taken = gone("the pool was deleted: there is no KubernetesNodes lab-plain any more")
    verdict = uptime((sample(130), sample(1930), taken), SOAK, "node w1")
    assert verdict.outcome == "unknown"
    assert verdict.because == (
        "the soak was cut short, the pool was deleted: there is no KubernetesNodes lab-plain any "
        "more; boot b1 was 1930 s old"
    )
    early = uptime((taken,), SOAK, "node w1")
    assert early.outcome == "unknown"
    assert early.because.endswith("lab-plain any more")


def test_a_reboot_before_the_pool_was_taken_away_is_a_reboot() -> None:
    verdict = uptime((sample(130), sample(6000, "b2"), gone("it went")), SOAK, "node w1")
    assert verdict.outcome == "broken"
    assert "boot b1 became b2" in verdict.because


def test_a_worker_without_its_machine_in_a_pool_that_stands_was_replaced() -> None:
    verdict = uptime((sample(130), gone()), SOAK, "node w1")
    assert verdict.outcome == "broken"
    assert verdict.because == "the worker was replaced: of w1 there is no Machine any more"


def test_the_first_of_several_says_what_became_of_it() -> None:
    verdict = uptime((sample(130), gone("it went"), gone()), SOAK, "node w1")
    assert verdict.outcome == "unknown"


def test_every_fact_stands_beneath_it_in_order() -> None:
    restarts = PodRestarts(Origin(1.0, "", ""), "w1", (), ())
    book, log, memory = ledger(), LOST, Unread(Origin(2.0, "", ""), "memory", "x")
    looks = (sample(130), sample(5580))
    verdict = uptime(looks, SOAK, "w1", logs=[log], ledger=book, restarts=restarts, memory=[memory])
    assert verdict.outcome == "holds"
    assert verdict.facts == (*looks, log, memory, restarts, book)


@pytest.mark.parametrize(("up", "missing"), [(130, 5450.0), (5580, 0.0), (6000, 0.0)])
def test_how_long_is_still_to_wait(up: float, missing: float) -> None:
    assert missing_uptime(sample(up), SOAK) == missing


@pytest.mark.parametrize(
    ("samples", "because"),
    [
        (
            (sample(130), sample(5580)),
            "boot b1 is 5580 s old, watched since 130 s, expected more than 4200 s and 5580 s of "
            "soak",
        ),
        (
            (sample(130), sample(1000)),
            "boot b1 is 1000 s old, watched since 130 s; too short: expected more than 4200 s and "
            "5580 s of soak",
        ),
        (
            (sample(130), sample(LIMIT)),
            "boot b1 is 4200 s old, watched since 130 s; too short: expected more than 4200 s and "
            "5580 s of soak",
        ),
        ((), "nobody looked at the node's boot"),
        ((sample(5600), sample(5590)), "the uptime fell from 5600 s to 5590 s on one boot"),
    ],
)
def test_it_is_said_word_for_word(samples: Any, because: str) -> None:
    assert uptime(samples, SOAK, "node w1").because == because


@pytest.mark.parametrize(
    ("up", "because"),
    [
        (4200, "too short: expected more than 4200 s and 600 s of soak"),
        (
            4201,
            "too short: expected more than 4200 s and 600 s of soak, and a boot that is given up "
            "at 4200 s goes on to 4266 s until it has gone down",
        ),
    ],
)
def test_a_boot_at_its_limit_may_be_counting_down(up: float, because: str) -> None:
    said = uptime((sample(130), sample(up)), 600.0, "node w1").because
    assert said == f"boot b1 is {up} s old, watched since 130 s; {because}"


def test_pods_that_were_started_at_once_are_told_once() -> None:
    stays = tuple(PodStay(pod, 1000.0) for pod in ("a", "b"))
    hits = tuple(Restart(3000.0, pod, "main", 1, 1) for pod in ("a", "b"))
    restarts = PodRestarts(Origin(6000.0, "", ""), "w1", stays, hits)
    verdict = uptime((sample(130), sample(5600)), SOAK, "node w1", restarts=restarts)
    assert verdict.outcome == "unknown"
    assert verdict.because.endswith("soak; all its 2 pods were started again at once, under one "
                                    "boot id")  # fmt: skip


def test_one_pod_in_a_loop_is_told_and_is_no_reboot() -> None:
    stays = tuple(PodStay(pod, 1000.0) for pod in ("a", "b"))
    hits = (Restart(3000.0, "a", "main", 1, 1),)
    restarts = PodRestarts(Origin(6000.0, "", ""), "w1", stays, hits)
    verdict = uptime((sample(130), sample(5600)), SOAK, "node w1", restarts=restarts)
    assert verdict.outcome == "holds"
    assert "; started again on this boot: a 1 time; that is a pod's own loop" in verdict.because


def test_what_goes_with_the_one_boot_is_not_held_against_it() -> None:
    boots = (Entry(1130.0, "boot", "b0"), Entry(2000.0, "boot", "b1"))
    book = ledger(entries=(*boots, Entry(3000.0, "event", text="Pulled")))
    looks = (sample(130), sample(900, vmi_uid="", node_uid=""), sample(5600))
    verdict = uptime(looks, SOAK, "node w1", ledger=book)
    assert verdict.outcome == "holds"
    assert verdict.because.endswith(" s of soak")
