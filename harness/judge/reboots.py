"""The claim that every reboot is told, and told apart from what only looks like one."""

from __future__ import annotations

from collections.abc import Iterator

from harness.facts.fact import Fact, Unread
from harness.facts.reboots import (
    BannerDecoy,
    ConsoleHeard,
    RebootNotRun,
    Reboots,
    RebootTrial,
)
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named

CLAIM = "reboots-told"
SLACK = 5.0
"""Seconds by which an uptime may be older than the time since the order: two clocks, two rates."""


def reboots_told(found: Reboots, subject: str) -> Verdict:
    """reboots-told: each kind of reboot is one change of boot id with an uptime that began anew,
    under one console connection; a log that is printed again changes the console alone.

    Broken where one trial or the decoy says otherwise; unknown where something could not be read,
    where the console was lost to another client, and where no reboot could be brought about. A kind
    that the lab cannot do is told, and does not stand in the way.
    """
    facts: tuple[Fact, ...] = (found.decoy, *found.trials)
    wrong = list(_wrong(found))
    if wrong:
        return Verdict(CLAIM, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    unclear = list(_unclear(found))
    done = [one for one in found.trials if isinstance(one, RebootTrial)]
    if not done:
        unclear.append("no reboot was brought about")
    left = _left_out(found)
    if unclear:
        because = "; ".join((*unclear, *left))
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, because, facts)
    told = named(f"{one.how} after {one.seconds or 0.0:.1f} s" for one in done)
    because = (
        f"{told}: each one change of boot id with a fresh uptime, the console attached throughout; "
        f"printing the log showed {_banners(found)} and changed no boot id"
    )
    return Verdict(CLAIM, subject, Outcome.HOLDS, "; ".join((because, *left)), facts)


def _wrong(found: Reboots) -> Iterator[str]:
    if isinstance(found.decoy, BannerDecoy):
        yield from _wrong_decoy(found.decoy)
    for one in found.trials:
        if isinstance(one, RebootTrial):
            yield from (f"{one.how}: {why}" for why in _wrong_trial(one))


def _wrong_decoy(decoy: BannerDecoy) -> Iterator[str]:
    ids = {look.boot_id for look in decoy.looks}
    if len(ids) > 1:
        yield f"the boot id changed while the log was only printed ({named(sorted(ids))})"
    if not decoy.console.attached and not decoy.console.lost:
        yield f"the console ended while the log was printed: {decoy.console.ended}"


def _wrong_trial(trial: RebootTrial) -> Iterator[str]:
    ids, last = trial.boot_ids, trial.looks[-1]
    if len(ids) == 1 and last.uptime < trial.looks[0].uptime:
        fell = f"from {trial.looks[0].uptime:.0f} s to {last.uptime:.0f} s"
        yield f"the uptime fell {fell} under one boot id"
    if len(ids) > 2:
        yield f"the boot id changed {len(ids) - 1} times ({', '.join(ids)})"
    old = trial.ordered - last.began
    if len(ids) > 1 and old > SLACK:
        yield f"the new boot's uptime began {old:.0f} s before the order"
    if not trial.console.attached and not trial.console.lost:
        yield f"the console did not stay attached: {trial.console.ended}"


def _unclear(found: Reboots) -> Iterator[str]:
    if isinstance(found.decoy, Unread):
        yield _reason(found.decoy)
    elif found.decoy.console.lost:
        yield _lost(found.decoy.console)
    elif not found.decoy.printed or not found.decoy.console.banners:
        printed = found.decoy
        yield f"printing the log showed no first line of a kernel on the console ({printed.said})"
    for one in found.trials:
        if isinstance(one, Unread):
            yield _reason(one)
        elif isinstance(one, RebootTrial):
            yield from (f"{one.how}: {why}" for why in _unclear_trial(one))


def _unclear_trial(trial: RebootTrial) -> Iterator[str]:
    if trial.seconds is None:
        yield f"no other boot in {trial.waited:.0f} s after the order ({trial.order_said})"
    elif len([look for look in trial.looks if look.boot_id == trial.boot_ids[-1]]) < 2:
        yield "the new boot was seen once and did not answer again"
    if trial.console.lost:
        yield _lost(trial.console)
    elif not trial.console.size:
        yield "nothing was heard on the console, so whether it was attached still is not known"


def _lost(console: ConsoleHeard) -> str:
    return f"the console was lost, so what it carried is not known: {console.ended}"


def _left_out(found: Reboots) -> list[str]:
    return [
        f"{one.how} not run: {one.why}" for one in found.trials if isinstance(one, RebootNotRun)
    ]


def _banners(found: Reboots) -> str:
    count = found.decoy.console.banners if isinstance(found.decoy, BannerDecoy) else 0
    return counted(count, "first line") + " of a kernel"


def _reason(unread: Unread) -> str:
    return f"{unread.asked} could not be read: {unread.reason}"
