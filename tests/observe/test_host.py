from __future__ import annotations

from collections.abc import Sequence

from harness.facts.fact import Unread
from harness.facts.lspci import PciDrivers
from harness.observe.host import pci_drivers
from harness.reach.nodeshell import Reply

LISTED = b"3b:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)\n"


class Shell:
    where = "host a"

    def __init__(self, code: int | None) -> None:
        self._code = code

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        assert list(argv) == ["lspci", "-nnk", "-d", "10de:"]
        return Reply(tuple(argv), self._code, LISTED, b"", 1.0, 2.0, "closed")

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise AssertionError("a host is asked as it is")


def test_who_holds_the_functions() -> None:
    found = pci_drivers(Shell(0))
    assert isinstance(found, PciDrivers)
    assert [one.pci_id for one in found.functions] == ["10de:26b9"]
    assert (found.origin.source, found.origin.at) == ("host a:lspci -nnk -d 10de:", 2.0)


def test_a_host_that_did_not_answer() -> None:
    assert isinstance(pci_drivers(Shell(None)), Unread)
    assert isinstance(pci_drivers(Shell(127)), Unread)
