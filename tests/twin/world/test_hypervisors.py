"""A hypervisor's own shell: who drives the cards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.twin.engine import Engine
from harness.twin.world import hypervisors
from harness.twin.world.world import World


def test_a_driver_of_the_hosts_own_takes_the_cards(lab: Any) -> None:
    shells = hypervisors.every(lab.world)
    lab.world.hosts.drivers["hv-2"] = "nvidia"
    mine = shells["hv-2"].run("lspci -nnk -d 10de:").stdout.decode()
    assert mine.count("Kernel driver in use: nvidia\n") == 4 and "vfio" not in mine
    assert shells["hv-2"].run("cat /proc/modules").stdout.startswith(b"nvidia_uvm ")
    other = shells["hv-1"].run("lspci -nnk -d 10de:").stdout.decode()
    assert other.count("Kernel driver in use: vfio-pci\n") == 4


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("lspci -D -nnk -d 10de:26b9", "0000:17:00.0 3D controller [0302]"),
        ("lspci -nn -d 10de:", "17:00.0 3D controller [0302]"),
        ("/usr/bin/lspci -nn -d 10de:26b9", "17:00.0"),
    ],
)
def test_lspci_forms(lab: Any, line: str, start: str) -> None:
    assert hypervisors.every(lab.world)["hv-1"].run(line).stdout.decode().startswith(start)


@pytest.mark.parametrize("line", ["lspci", "lspci -vvv -d 10de: -x", "lspci -d", "sh -c 'a; b'"])
def test_what_is_not_modelled_is_refused(lab: Any, line: str) -> None:
    ran = hypervisors.every(lab.world)["hv-1"].run(line)
    assert "not modelled" in ran.error and not ran.stdout and ran.exit_code


_WORLD = World(Engine())


@settings(deadline=None)
@given(st.text(max_size=30))
def test_no_line_breaks_the_shell(line: str) -> None:
    hypervisors.every(_WORLD)["hv-1"].run(line)
