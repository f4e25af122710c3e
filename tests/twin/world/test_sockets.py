"""Who listens on a worker of the twin, as its kernel tells it."""

from __future__ import annotations

import re
from typing import Any


def listening(guest: Any) -> set[int]:
    said = guest.run(["cat", "/proc/1/net/tcp", "/proc/1/net/tcp6"]).stdout.decode()
    assert said.count("local_address") == 2
    return {int(port, 16) for port in re.findall(r":([0-9A-F]{4}) 0+:0000 0A ", said)}


def test_apid_listens_once_it_has_its_certificate(lab: Any) -> None:
    lab.pool()
    lab.run_until(lab.joined, 900)
    (guest,) = lab.world.guests.all()
    assert listening(guest) == {53, 10250, 50000}
    guest.services.hold("apid", "api certificates to be generated")
    assert listening(guest) == {53, 10250}
