"""Following a boot, against a worker whose story is told in advance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.bringup.boots import (
    AGAIN,
    CONFIRM,
    EVERY,
    PROMPT_LIMIT,
    REBOOT_BUDGET,
    SETTLED,
    UNREADY,
    BootLog,
    Watching,
)
from harness.clock import WallClock
from harness.facts.bootledger import BootLedger, NodeBoot, Seen, boot_ledger
from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Origin, Unread
from harness.facts.kernellog import KernelLog, What
from harness.judge import uptime
from harness.reach.capture import Capture, Ending, How
from harness.reach.errors import ApiRefused, LabError, Unreachable

SOAK = 5580.0


@dataclass
class Story:
    """A worker: it boots at these moments, and for a while after one its shell is away.

    It stands in for the held pool, whose waiting moves the time.
    """

    now: float = 60.0
    boots: tuple[float, ...] = (0.0,)
    away: float = 0.0
    ready: bool = True
    asked: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def begun(self) -> float:
        return max(one for one in self.boots if one <= self.now)

    def ask(self) -> BootSample | Unread:
        self.asked.append(self.now)
        age = self.now - self.begun
        if self.begun and age < self.away:
            raise Unreachable("exec", "nothing", "wait")
        origin = Origin(self.now, "guest a", "")
        return BootSample(origin, "a", self.boot_id, age, "vmi", "node", self.ready)

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots.index(self.begun)}"

    # -- what BootLog needs of a pool

    def wait(self, look: Callable[[], bool], seconds: float, what: str) -> bool:
        self.waits.append(seconds)
        until = self.now + seconds
        for moment in sorted({*(b for b in self.boots if self.now < b < until), until}):
            self.now = moment
            if look():
                return True
        return False

    def pause(self, seconds: float, what: str) -> None:
        self.wait(lambda: False, seconds, what)

    def console(self, text: bytes = b"") -> Any:
        """A console that shows this now, and the banner of each boot to come."""
        return Console(self, text)

    def log(self, **more: Any) -> BootLog:
        given = {"ask": self.ask, "told": lambda: self.boot_id, "wait": self.wait, **more}
        return BootLog(Watching(node="a", now=lambda: self.now, pause=self.pause, **given))


class Console:
    """What a capture is to BootLog; ``settled`` counts how often it was asked to be up to date."""

    def __init__(self, story: Story, text: bytes) -> None:
        self.ending: Any = None
        self.capture = Capture(WallClock(), "console a")
        self.settled = self.closed = 0
        self.capture.settle = self.settle  # type: ignore[method-assign]
        self.capture.add(text)

    def settle(self) -> None:
        self.settled += 1

    def close(self) -> None:
        self.closed += 1


def outcome(samples: tuple[Any, ...]) -> str:
    return str(uptime(samples, SOAK, "node a").outcome)


def test_it_waits_for_what_is_missing_and_no_longer() -> None:
    story = Story(now=1000.0)
    samples = story.log().stay_up(SOAK)
    assert outcome(samples) == "holds"
    assert SOAK <= story.now <= SOAK + 2
    assert sum(story.waits) == pytest.approx(SOAK - 1000.0, abs=2)
    assert max(story.waits) <= EVERY


def test_a_boot_that_is_old_enough_costs_one_look() -> None:
    story = Story(now=SOAK + 1)
    assert outcome(story.log().stay_up(SOAK)) == "holds"
    assert story.waits == [] and len(story.asked) == 1


def test_a_boot_that_has_not_settled_is_no_baseline() -> None:
    """The machine boots again right after it was installed, which is normal."""
    story = Story(now=40.0, boots=(0.0, 60.0))
    log = story.log()
    log.look()
    assert log.samples == []
    samples = log.stay_up(SOAK)
    assert outcome(samples) == "holds"
    assert {one.boot_id for one in samples if isinstance(one, BootSample)} == {"boot-1"}


def test_a_node_that_is_not_ready_is_no_baseline() -> None:
    story = Story(now=1000.0, ready=False)
    log = story.log()
    log.look()
    assert log.samples == []


@pytest.mark.parametrize("period", [100.0, 900.0, 4206.0])
def test_a_machine_that_boots_again_and_again_and_is_never_ready_is_seen_to(period: float) -> None:
    """Without a baseline no boot would be another one, and the wait would have no end."""
    boots = tuple(period * count for count in range(40))
    story = Story(now=10.0, boots=boots, ready=False)
    samples = story.log(every=30.0).stay_up(SOAK)
    assert outcome(samples) == "broken"
    assert story.now < 7 * period


def test_a_boot_that_is_long_past_an_installation_is_a_baseline_on_any_node() -> None:
    story = Story(now=UNREADY, ready=False)
    log = story.log()
    log.look()
    assert log.samples == []
    story.now += 1.0
    log.look()
    assert len(log.samples) == 1


def test_two_boots_are_an_installations_and_a_third_is_none() -> None:
    story = Story(now=10.0, boots=(0.0, 60.0, 100.0, 140.0))
    log = story.log()
    log.look()
    story.now = 70.0
    log.look()
    log.look()
    assert log.samples == []
    story.now = 110.0
    log.look()
    assert [one.boot_id for one in log.samples if isinstance(one, BootSample)] == ["boot-2"]
    log.begin_anew()
    story.now = 150.0
    log.look()
    assert log.samples == [], "what the harness itself brought about counts anew"


@pytest.mark.parametrize("away", [0.0, 100.0])
def test_a_reboot_ends_the_wait_and_is_in_the_samples(away: float) -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=away)
    samples = story.log().stay_up(SOAK)
    assert outcome(samples) == "broken"
    assert 3000.0 < story.now <= 3000.0 + away + 2 * AGAIN


def test_a_shell_that_never_comes_back_is_told() -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=10 * REBOOT_BUDGET)
    with pytest.raises(Unreachable):
        story.log(told=str, every=60.0).stay_up(SOAK)
    assert story.now == pytest.approx(3000.0 + REBOOT_BUDGET, abs=61)


def test_a_boot_that_the_node_alone_shows_is_a_reboot_all_the_same() -> None:
    """The machine never answers again: the cluster's word for the new boot cannot be missed."""
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=10 * REBOOT_BUDGET)
    log = story.log()
    samples = log.stay_up(SOAK)
    assert isinstance(samples[-1], Unread)
    assert story.now == pytest.approx(3000.0 + REBOOT_BUDGET, abs=1)
    shown = Seen((NodeBoot(0.0, "boot-0", "node"), NodeBoot(3020.0, "boot-1", "node")))
    book = ledger(story, log, shown)
    verdict = uptime(samples, SOAK, "node a", ledger=book)
    assert verdict.outcome == "broken"
    assert verdict.facts[-1] is book
    said = "boot boot-0 became boot-1, as its Node shows, at an uptime of at most 3020 s"
    assert said in verdict.because


def ledger(story: Story, log: BootLog, seen: Seen) -> BootLedger:
    return boot_ledger(
        "a", "m", since=0.0, until=story.now, limit=4200.0, soak=SOAK,
        samples=log.all_looks, logs=log.heard, seen=seen,
    )  # fmt: skip


def test_a_reboot_before_the_wait_is_in_the_samples_too() -> None:
    story = Story(now=1000.0, boots=(0.0, 2000.0))
    log = story.log()
    log.follow()
    story.now = 2500.0
    assert outcome(log.stay_up(SOAK)) == "broken"


def test_following_looks_till_there_is_a_baseline_and_then_now_and_then() -> None:
    story = Story(now=SETTLED - 20)
    log = story.log()
    for moment in (100.0, 110.0, 130.0, 140.0, 130.0 + EVERY, 131.0 + EVERY):
        story.now = moment
        log.follow()
    assert story.asked == [100.0, 110.0, 130.0, 130.0 + EVERY]
    assert len(log.samples) == 2


def test_an_answer_that_cannot_be_read_is_kept() -> None:
    story = Story(now=1000.0)
    unread = Unread(Origin(1000.0, "guest a", ""), "/proc/uptime", "cut short")
    samples = story.log(ask=lambda: unread).stay_up(SOAK)
    assert samples == (unread,)
    assert outcome(samples) == "unknown"


# -- a lab that shows no boot id of its own: only looks tell


def test_without_a_boot_id_of_the_clusters_a_look_finds_the_reboot() -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0))
    samples = story.log(told=str, every=60.0).stay_up(SOAK)
    assert outcome(samples) == "broken"
    assert 3000.0 < story.now <= 3061.0


@pytest.mark.parametrize("period", [60.0, 300.0, 500.0])
def test_a_short_boot_is_seen_to_end_twice(period: float) -> None:
    """A timer is told by two boots that end at one uptime; so the second is waited for."""
    boots = tuple(period * count for count in range(9))
    story = Story(now=10.0, boots=boots, away=5.0)
    log = story.log(told=str, settled=0.0, every=5.0, again=1.0)
    samples = log.stay_up(SOAK)
    assert story.now <= 2 * period + 10.0
    verdict = uptime(samples, SOAK, "node a")
    assert "a timer, it rebooted at the same uptime each time" in verdict.because


def test_a_short_boot_that_does_not_end_again_is_waited_for_and_no_longer() -> None:
    story = Story(now=10.0, boots=(0.0, 200.0))
    samples = story.log(told=str, settled=0.0, every=5.0, again=1.0).stay_up(SOAK)
    assert outcome(samples) == "broken"
    assert 200.0 + 220.0 <= story.now <= 200.0 + 240.0


@pytest.mark.parametrize(("end", "waited"), [(CONFIRM - 1, True), (CONFIRM + 1, False)])
def test_a_long_boot_is_not_waited_for_twice(end: float, *, waited: bool) -> None:
    story = Story(now=10.0, boots=(0.0, end))
    story.log(told=str, settled=0.0, every=5.0, again=1.0).stay_up(SOAK)
    assert (story.now > end + 60.0) is waited


def test_an_answer_that_breaks_off_in_between_is_asked_again() -> None:
    """The machine goes down in the midst of a look: no boot is to be told from that."""
    story = Story(now=1000.0)
    unread = Unread(Origin(1600.0, "guest a", ""), "/proc/uptime", "the connection has ended")
    answers = iter([None, unread, unread, None])

    def ask() -> BootSample | Unread:
        return next(answers, None) or story.ask()

    samples = story.log(ask=ask).stay_up(SOAK)
    assert outcome(samples) == "holds"
    assert [one for one in samples if isinstance(one, Unread)] == [unread], "one says it all"


def test_a_machine_that_cannot_be_reached_in_between_is_tried_again() -> None:
    story = Story(now=1000.0)
    refusals = iter([None, Unreachable("exec", "nothing", "wait"), ApiRefused(500, "x", "y")])

    def ask() -> BootSample | Unread:
        refused = next(refusals, None)
        if refused is not None:
            raise refused
        return story.ask()

    assert outcome(story.log(ask=ask).stay_up(SOAK)) == "holds"


# -- a worker that is no more


def gone_after(moment: float, story: Story) -> dict[str, Any]:
    def ask() -> BootSample | Unread:
        if story.now >= moment:
            raise ApiRefused(404, "NotFound", "pods hil-shell-x not found")
        return story.ask()

    def gone(last: BootSample | None) -> tuple[str, ...]:
        return ("Machine", "Node") if story.now >= moment else ()

    return {"ask": ask, "gone": gone}


def test_a_worker_that_is_no_more_is_a_fact_and_ends_the_wait() -> None:
    story = Story(now=1000.0)
    samples = story.log(**gone_after(3000.0, story)).stay_up(SOAK)
    assert isinstance(samples[-1], WorkerGone)
    assert (samples[-1].node, samples[-1].gone) == ("a", ("Machine", "Node"))
    verdict = uptime(samples, SOAK, "node a")
    assert verdict.outcome == "broken"
    assert "the worker was replaced" in verdict.because
    assert story.now < 3000.0 + EVERY + 1


def test_following_looks_no_more_at_a_worker_that_is_gone() -> None:
    story = Story(now=1000.0)
    log = story.log(**gone_after(0.0, story))
    log.follow()
    story.now += 2 * EVERY
    log.follow()
    assert [type(one) for one in log.samples] == [WorkerGone]
    assert log.stay_up(SOAK)[-1] is log.samples[-1]
    assert outcome(tuple(log.samples)) == "broken"


def test_what_cannot_be_asked_and_is_there_is_raised_to_who_waits_for_it_alone() -> None:
    def ask() -> BootSample | Unread:
        raise ApiRefused(404, "NotFound", "pods hil-shell-x not found")

    log = Story(now=1000.0).log(ask=ask)
    log.follow()
    log.follow()
    (kept,) = log.all_looks
    assert isinstance(kept, Unread)
    assert "hil-shell-x" in kept.reason
    assert log.samples == [], "no baseline comes of it"
    with pytest.raises(ApiRefused):
        log.stay_up(SOAK)


def test_an_unreadable_answer_of_a_worker_that_is_gone_is_told_as_that() -> None:
    unread = Unread(Origin(1000.0, "guest a", ""), "/proc/uptime", "cut short")
    log = Story(now=1000.0).log(ask=lambda: unread, gone=lambda last: ("Node",))
    assert isinstance(log.look(), WorkerGone)


def test_gone_is_asked_with_what_was_last_seen() -> None:
    story = Story(now=1000.0)
    seen: list[BootSample | None] = []
    parts = gone_after(2000.0, story)
    log = story.log(ask=parts["ask"], gone=lambda last: (seen.append(last), ("Node",))[1])
    log.look()
    story.now = 2000.0
    log.look()
    assert seen == [log.samples[0]]


def test_a_pool_that_is_taken_away_is_neither_a_reboot_nor_a_replaced_worker() -> None:
    story = Story(now=1000.0)
    told = "the pool was deleted: there is no KubernetesNodes lab-plain any more"
    parts = gone_after(3000.0, story)
    samples = story.log(**parts, taken=lambda: told).stay_up(SOAK)
    verdict = uptime(samples, SOAK, "node a")
    assert verdict.outcome == "unknown"
    assert verdict.because.startswith(f"the soak was cut short, {told}; boot boot-0 was ")


def test_a_machine_that_the_cluster_no_longer_shows_ends_the_wait_at_once() -> None:
    story = Story(now=1000.0)
    parts = gone_after(3000.0, story)
    waits = story.wait

    def wait(look: Callable[[], bool], seconds: float, what: str) -> bool:
        if story.now < 3000.0 < story.now + seconds:
            story.now = 3000.0
            return look()
        return waits(look, seconds, what)

    log = story.log(gone=parts["gone"], lost=lambda: story.now >= 3000.0, wait=wait)
    assert isinstance(log.stay_up(SOAK)[-1], WorkerGone), "though its shell still answers"
    assert story.now == 3000.0


def test_others_are_followed_between_two_looks() -> None:
    story = Story(now=1000.0)
    moments: list[float] = []
    story.log(beside=lambda: moments.append(story.now)).stay_up(SOAK)
    assert len(moments) == len(story.waits)
    assert moments[0] == 1000.0 + EVERY


def test_a_boot_that_the_lab_shows_is_looked_at_before_its_time() -> None:
    story = Story(now=1000.0, boots=(0.0, 1100.0))
    log = story.log()
    log.follow()
    story.now = 1090.0
    log.follow()
    story.now = 1130.0
    log.follow()
    assert story.asked == [1000.0, 1130.0]


def test_every_look_is_kept_from_before_the_baseline_and_after_a_reboot_that_was_ordered() -> None:
    story = Story(now=40.0, boots=(0.0, 60.0, 900.0))
    log = story.log()
    log.follow()
    story.now = 300.0
    log.follow()
    log.begin_anew()
    story.now = 1100.0
    log.follow()
    assert [one.boot_id for one in log.all_looks if isinstance(one, BootSample)] == [
        "boot-0",
        "boot-1",
        "boot-2",
    ]
    assert [one.boot_id for one in ledger(story, log, Seen()).boots] == [
        "boot-0",
        "boot-1",
        "boot-2",
    ]


# -- what kernels say meanwhile


def test_the_console_is_listened_to_while_it_is_waited() -> None:
    story = Story(now=1000.0)
    console = story.console(b"[    7.000000] sysrq: Resetting\r\n")
    log = story.log(listen=lambda: console, every=600.0)
    log.stay_up(SOAK)
    (heard,) = log.logs
    assert isinstance(heard, KernelLog)
    assert [one.what for one in heard.events] == [What.SYSRQ_RESET]
    assert heard.heard_from == 1000.0
    assert console.closed == 1
    assert console.settled >= 4, "before each look at the lab, so that what is heard has its time"


def test_a_console_that_ended_is_told() -> None:
    story = Story(now=1000.0)
    console = story.console(b"x")
    console.ending = Ending(How.TAKEN, "another client attached", 1200.0, 1)
    log = story.log(listen=lambda: console)
    assert outcome(log.stay_up(SOAK)) == "holds"
    heard, ended = log.logs
    assert isinstance(heard, KernelLog)
    assert isinstance(ended, Unread)
    assert ended.reason == "another client attached"


def test_without_a_console_it_is_waited_all_the_same() -> None:
    def listen() -> Any:
        raise LabError("attach", "it is forbidden", "allow it")

    log = Story(now=1000.0).log(listen=listen)
    assert outcome(log.stay_up(SOAK)) == "holds"
    (why,) = log.logs
    assert isinstance(why, Unread)
    assert "it is forbidden" in why.reason


def test_a_console_is_let_go_of_when_the_wait_fails() -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=10 * REBOOT_BUDGET)
    console = story.console()
    log = story.log(listen=lambda: console, told=str)
    with pytest.raises(Unreachable):
        log.stay_up(SOAK)
    assert console.closed == 1
    assert len(log.logs) == 1


def test_the_running_kernels_log_is_read_at_the_end() -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0))
    asked: list[tuple[float, str]] = []
    kept = Unread(Origin(1.0, "guest a", ""), "dmesg", "x")

    def read(boot_id: str) -> Any:
        asked.append((story.now, boot_id))
        return kept

    log = story.log(log=read)
    log.stay_up(SOAK)
    assert asked == [(story.now, "boot-1")]
    assert log.logs == [kept]
    log.stay_up(SOAK)
    assert log.logs == [kept], "each wait has its own"


def test_a_log_that_cannot_be_had_is_told() -> None:
    def read(boot_id: str) -> Any:
        raise Unreachable("exec", "nothing", "wait")

    log = Story(now=SOAK + 1).log(log=read)
    assert outcome(log.stay_up(SOAK)) == "holds"
    assert [type(one) for one in log.logs] == [Unread]


def test_after_a_reboot_that_was_ordered_the_looks_begin_anew() -> None:
    story = Story(now=1000.0, boots=(0.0, 1500.0))
    log = story.log()
    log.follow()
    story.now = 1700.0
    log.begin_anew()
    assert outcome(log.stay_up(SOAK)) == "holds"


@pytest.mark.parametrize(("prompt", "hinted"), [(b"login: ", True), (b"", False)])
def test_after_a_reboot_the_prompt_is_waited_for_but_not_for_long(
    prompt: bytes, *, hinted: bool
) -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=100.0)
    console = story.console(b"n1 login: \r\n")
    log = story.log(listen=lambda: console, prompt=prompt, again=7.0)
    assert outcome(log.stay_up(SOAK)) == "broken"
    assert (PROMPT_LIMIT in story.waits) is hinted, "the prompt from before the reboot is none"


def test_a_prompt_that_is_shown_ends_the_wait_for_it() -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=20.0)
    console = story.console(b"n1 login: \r\n")
    sooner = story.wait

    def wait(look: Callable[[], bool], seconds: float, what: str) -> bool:
        if seconds == PROMPT_LIMIT:
            story.now += 20.0
            console.capture.add(b"n1 login: ")
            assert look()
            return True
        return sooner(look, seconds, what)

    log = story.log(listen=lambda: console, prompt=b"login: ", again=7.0, wait=wait)
    assert outcome(log.stay_up(SOAK)) == "broken"
    assert story.now == 3027.0


def test_a_prompt_from_before_a_look_that_failed_counts() -> None:
    """The machine may be up again by the time that the look at it is given up."""
    story = Story(now=1000.0)
    console = story.console()
    unread = Unread(Origin(1600.0, "guest a", ""), "/proc/uptime", "the connection has ended")
    answers = iter([None, unread])
    passing, prompted = story.wait, []

    def ask() -> BootSample | Unread:
        answer = next(answers, None)
        if answer is not None:
            console.capture.add(b"n1 login: ")
        return answer or story.ask()

    def wait(look: Callable[[], bool], seconds: float, what: str) -> bool:
        if seconds == PROMPT_LIMIT:
            prompted.append(look())
        return passing(look, seconds, what)

    story.log(ask=ask, listen=lambda: console, prompt=b"login: ", again=7.0, wait=wait).stay_up(
        SOAK
    )
    assert prompted == [True]
