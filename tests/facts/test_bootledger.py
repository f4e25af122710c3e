from __future__ import annotations

from typing import Any

import pytest

from harness.facts.bootledger import (
    BootLedger,
    Entry,
    NodeBoot,
    Restart,
    Seen,
    boot_ledger,
)
from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Origin, Unread
from harness.facts.kernellog import KernelEvent, KernelLog, What

T = 10_000.0


def look(at: float, boot: str, up: float, *, ready: bool = True) -> BootSample:
    return BootSample(Origin(at, "guest w1", ""), "w1", boot, up, "v", "n", ready)


def ledger(*samples: Any, **more: Any) -> BootLedger:
    given: dict[str, Any] = {"since": T, "until": T + 900, "limit": 4200.0, "soak": 5580.0, **more}
    return boot_ledger("w1", "m1", samples=samples, **given)


def told(found: BootLedger, what: str) -> list[tuple[float, str, float | None]]:
    return [(one.at, one.boot_id, one.uptime) for one in found.entries if one.what == what]


def test_its_plain_form_is_what_reports_read() -> None:
    found = ledger(look(T + 100, "b1", 40.0))
    values = found.values()
    entries = values.pop("entries")
    assert values == {
        "node": "w1", "machine": "m1", "since": T, "until": T + 900, "limit": 4200.0,
        "soak": 5580.0,
    }  # fmt: skip
    assert entries == [
        {"at": T + 60, "what": "boot", "boot_id": "b1", "uptime": 0.0,
         "text": "boot b1: a look found it"},
        {"at": T + 100, "what": "look", "boot_id": "b1", "uptime": 40.0, "text": "Ready"},
    ]  # fmt: skip
    assert found.origin.at == T + 900


def test_a_boot_that_its_node_and_looks_show_is_one_and_began_when_looks_say() -> None:
    seen = Seen((NodeBoot(T + 30, "b1", "n"), NodeBoot(T + 500, "b2", "n")))
    found = ledger(look(T + 100, "b1", 90.0), look(T + 200, "b1", 190.0), seen=seen)
    assert told(found, "boot") == [(T + 10, "b1", 0.0), (T + 500, "b2", None)]
    first, second = found.boots
    assert first.text == "boot b1: its Node shows it"
    assert second.text == "boot b1 became b2: its Node shows it"


def test_looks_alone_show_boots_too_the_latest_look_dates_none() -> None:
    found = ledger(look(T + 100, "b1", 90.0), look(T + 300, "b2", 20.0), look(T + 400, "b2", 119.0))
    assert told(found, "boot") == [(T + 10, "b1", 0.0), (T + 280, "b2", 0.0)]


def test_a_boot_that_comes_back_under_its_id_is_none() -> None:
    seen = Seen((NodeBoot(T, "b1", "n"), NodeBoot(T + 9, "b1", "n")))
    assert len(ledger(seen=seen).boots) == 1


def test_another_node_of_the_name_is_told() -> None:
    seen = Seen((NodeBoot(T, "b1", "n1"), NodeBoot(T + 9, "b2", "n2")))
    assert ledger(seen=seen).boots[-1].text == (
        "boot b1 became b2, of another Node (UID n2): its Node shows it"
    )


def test_looks_in_words() -> None:
    origin = Origin(T + 1, "guest w1", "")
    found = ledger(
        look(T, "b1", 40.0, ready=False),
        Unread(origin, "its boot", "nothing answers"),
        WorkerGone(origin, "w1", ("Machine", "Node")),
        WorkerGone(origin, "w1", ("Machine",), "the pool was deleted"),
    )
    assert [one.text for one in found.entries if one.what == "look"] == [
        "not Ready",
        "its boot could not be read: nothing answers",
        "no Machine, Node any more",
        "the pool was deleted",
    ]


@pytest.mark.parametrize(
    ("restarts", "texts"),
    [
        ([("a", 0, 1), ("b", 59, 1), ("a", 60, 1)], ["2 pods +1: a, b"]),
        ([("a", 0, 1), ("b", 61, 1)], ["1 pod +1: a", "1 pod +1: b"]),
        ([("a", 0, 1), ("b", 1, 2)], ["2 pods restarted: a, b"]),
        ([("a", 0, 2), ("b", 1, 2)], ["2 pods +2: a, b"]),
        (
            [(name, 0, 1) for name in "abcdefgh"],
            ["8 pods +1: a, b, c, d, e, f and 2 more"],
        ),
        ([(name, 0, 1) for name in "abcdef"], ["6 pods +1: a, b, c, d, e, f"]),
        ([], []),
    ],
)
def test_restarts_that_come_together_are_one_entry(
    restarts: list[tuple[str, int, int]], texts: list[str]
) -> None:
    found = ledger(
        seen=Seen(restarts=tuple(Restart(T + at, p, "c", 9, m) for p, at, m in restarts))
    )
    assert [one.text for one in found.entries] == texts


def test_what_a_console_showed_is_dated_by_when_it_did() -> None:
    events = (
        KernelEvent(What.RESTART, "reboot: Restarting system", 99.0, T + 9),
        KernelEvent(What.PANIC, "of a dmesg, which dates nothing", 99.0),
    )
    log = KernelLog(Origin(T, "console", ""), "", False, events)
    found = ledger(logs=[log, Unread(Origin(T, "c", ""), "its console", "x")])
    assert found.entries == (Entry(T + 9, "console", text="reboot: Restarting system"),)


def test_of_a_console_that_says_too_much_the_last_is_kept() -> None:
    events = tuple(KernelEvent(What.RESTART, f"{n}", None, T + n) for n in range(300))
    found = ledger(logs=[KernelLog(Origin(T, "console", ""), "", False, events)])
    assert [one.text for one in found.entries] == [str(n) for n in range(100, 300)]


def test_everything_stands_in_the_order_of_its_times() -> None:
    others = (Entry(T + 300, "event", text="e"), Entry(T - 5, "vmi", text="v"))
    found = ledger(look(T + 100, "b1", 40.0), seen=Seen(others=others))
    assert [one.what for one in found.entries] == ["vmi", "boot", "look", "event"]
