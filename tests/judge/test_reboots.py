from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.boots import BootLook
from harness.facts.fact import Origin, Unread
from harness.facts.reboots import (
    BannerDecoy,
    ConsoleHeard,
    RebootKind,
    RebootNotRun,
    Reboots,
    RebootTrial,
)
from harness.judge.reboots import SLACK, reboots_told

AT = Origin(1.0, "guest n1", "")
HEARD = ConsoleHeard(attached=True, ended="", size=900, banners=1, banner_after=3.5)
GONE = dataclasses.replace(HEARD, attached=False, ended="the emulator has ended")
STOLEN = dataclasses.replace(GONE, ended="another client attached", lost=True)
SILENT = dataclasses.replace(HEARD, size=0, banners=0, banner_after=None)
DECOY = BannerDecoy(
    AT, (BootLook(90.0, "a", 40.0), BootLook(92.0, "a", 42.0)), HEARD, printed=True, said="exit 0"
)
LOST = Unread(AT, "the boot of n1", "the reason")
NOT_RUN = RebootNotRun(AT, RebootKind.RESET, "no hold of its power")


def looks(*told: tuple[float, str, float]) -> tuple[BootLook, ...]:
    return tuple(BootLook(*one) for one in told)


SEEN = looks((100.0, "a", 50.0), (110.0, "b", 4.0), (115.0, "b", 9.0))
TRIAL = RebootTrial(AT, RebootKind.SYSRQ, 100.0, SEEN, HEARD, 10.0, 15.0, "exit 0")


def trial(**more: Any) -> RebootTrial:
    return dataclasses.replace(TRIAL, **more)


@pytest.mark.parametrize(
    ("found", "outcome", "said"),
    [
        (Reboots(DECOY, (TRIAL,)), "holds", "sysrq after 10.0 s: each one change of boot id"),
        (Reboots(DECOY, (TRIAL,)), "holds", "showed 1 first line of a kernel and changed no"),
        (Reboots(DECOY, (NOT_RUN, TRIAL)), "holds", "reset not run: no hold of its power"),
        (
            Reboots(DECOY, (TRIAL, trial(how=RebootKind.PANIC, seconds=19.0))),
            "holds",
            "sysrq after 10.0 s, panic after 19.0 s",
        ),
        (Reboots(DECOY, (trial(console=STOLEN),)), "unknown", "so what it carried is not known"),
        (
            Reboots(dataclasses.replace(DECOY, console=STOLEN), (TRIAL,)),
            "unknown",
            "another client attached",
        ),
        (Reboots(DECOY, (trial(console=GONE),)), "broken", "the emulator has ended"),
        # the old boot answers for a while, as it goes down in good order
        (
            Reboots(DECOY, (trial(looks=looks((99.0, "a", 50.0), (103.0, "a", 54.0), *[
                (110.0, "b", 4.0), (115.0, "b", 9.0)])),)),
            "holds",
            "one change",
        ),
        (
            Reboots(DECOY, (trial(looks=looks((99.0, "a", 50.0), (110.0, "b", 10.0 + SLACK),
                (111.0, "b", 11.0 + SLACK))),)),
            "holds",
            "one change",
        ),
        (
            Reboots(DECOY, (trial(looks=looks((99.0, "a", 50.0), (110.0, "b", 16.0),
                (115.0, "b", 21.0))),)),
            "broken",
            "the new boot's uptime began 6 s before the order",
        ),
        # a silent console that shows no banner proves nothing either way
        (
            Reboots(DECOY, (trial(console=dataclasses.replace(HEARD, banners=0)),)),
            "holds",
            "one change",
        ),
        (
            Reboots(DECOY, (trial(console=dataclasses.replace(HEARD, banners=3)),)),
            "holds",
            "one change",
        ),
        (
            Reboots(DECOY, (trial(looks=(*SEEN, BootLook(130.0, "c", 3.0))),)),
            "broken",
            "sysrq: the boot id changed 2 times (a, b, c)",
        ),
        (
            Reboots(DECOY, (trial(looks=(*SEEN, BootLook(130.0, "a", 80.0))),)),
            "broken",
            "changed 2 times (a, b, a)",
        ),
        (
            Reboots(DECOY, (trial(looks=looks((99.0, "a", 50.0), (110.0, "a", 4.0))),)),
            "broken",
            "the uptime fell from 50 s to 4 s under one boot id",
        ),
        (
            Reboots(DECOY, (trial(looks=looks((99.0, "a", 50.0), (110.0, "b", 60.0),
                (115.0, "b", 65.0))),)),
            "broken",
            "the new boot's uptime began 50 s before the order",
        ),
        (
            Reboots(DECOY, (TRIAL, trial(console=GONE))),
            "broken",
            "sysrq: the console did not stay attached: the emulator has ended",
        ),
        (
            Reboots(dataclasses.replace(DECOY, console=GONE), (TRIAL,)),
            "broken",
            "the console ended while the log was printed: the emulator has ended",
        ),
        (
            Reboots(
                dataclasses.replace(
                    DECOY, looks=looks((90.0, "a", 40.0), (92.0, "b", 1.0))
                ),
                (TRIAL,),
            ),
            "broken",
            "the boot id changed while the log was only printed (a, b)",
        ),
        (Reboots(LOST, (trial(console=GONE),)), "broken", "did not stay attached"),
        (Reboots(DECOY, (LOST, trial(console=GONE))), "broken", "did not stay attached"),
        (Reboots(DECOY, (LOST, TRIAL)), "unknown", "could not be read: the reason"),
        (Reboots(LOST, (TRIAL,)), "unknown", "could not be read: the reason"),
        (Reboots(DECOY, (NOT_RUN,)), "unknown", "no reboot was brought about; reset not run"),
        (Reboots(DECOY, ()), "unknown", "no reboot was brought about"),
        (
            Reboots(dataclasses.replace(DECOY, printed=False, said="exit 127"), (TRIAL,)),
            "unknown",
            "no first line of a kernel on the console (exit 127)",
        ),
        (Reboots(dataclasses.replace(DECOY, console=SILENT), (TRIAL,)), "unknown", "exit 0"),
        (
            Reboots(DECOY, (trial(looks=SEEN[:1], seconds=None, waited=180.0),)),
            "unknown",
            "sysrq: no other boot in 180 s after the order (exit 0)",
        ),
        (
            Reboots(DECOY, (trial(looks=SEEN[:2]),)),
            "unknown",
            "sysrq: the new boot was seen once and did not answer again",
        ),
        (
            Reboots(DECOY, (trial(console=SILENT),)),
            "unknown",
            "nothing was heard on the console, so whether it was attached still",
        ),
    ],
)  # fmt: skip
def test_reboots_told(found: Reboots, outcome: str, said: str) -> None:
    verdict = reboots_told(found, "guest n1")
    assert (verdict.claim, verdict.subject) == ("reboots-told", "guest n1")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because
    assert verdict.facts == (found.decoy, *found.trials)
