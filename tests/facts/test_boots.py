from __future__ import annotations

from harness.facts.boots import BootSample, boot_sample
from harness.facts.fact import Origin, Unread
from harness.facts.guest import BootId, Uptime

BOOT = BootId(Origin(10.0, "guest w1:boot_id", "b1\n"), "b1")
UP = Uptime(Origin(11.0, "guest w1:uptime", "83.25 300.10\n"), 83.25)


def sample(boot: BootId | Unread = BOOT, uptime: Uptime | Unread = UP) -> BootSample | Unread:
    return boot_sample("w1", boot, uptime, vmi_uid="v", node_uid="n", node_ready=True)


def test_a_sample_is_dated_by_its_uptime() -> None:
    found = sample()
    assert isinstance(found, BootSample)
    assert (found.node, found.boot_id, found.uptime) == ("w1", "b1", 83.25)
    assert (found.vmi_uid, found.node_uid, found.node_ready) == ("v", "n", True)
    assert found.origin == Origin(11.0, "guest w1: boot id and uptime", "b1\n83.25 300.10\n")


def test_what_could_not_be_read_stands_for_the_sample() -> None:
    no_boot, no_uptime = Unread(BOOT.origin, "boot", "x"), Unread(UP.origin, "uptime", "y")
    assert sample(boot=no_boot) is no_boot
    assert sample(uptime=no_uptime) is no_uptime
    assert sample(no_boot, no_uptime) is no_boot
