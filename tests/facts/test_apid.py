from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.apid import (
    SOCKETS,
    ControlPlanePorts,
    Listening,
    control_plane_ports,
    read_listening,
)
from harness.facts.fact import Unread
from harness.facts.reply import Output

# a Linux 6.8 kernel's own tables, cut to what listens and one connection
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0035 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17043 1
   1: 0F02000A:A1B2 0202000A:18EB 01 00000000:00000000 02:000003E8 00000000     0        0 18011 2
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000000000000:C350 00000000000000000000000000000000:0000 0A 00000000:0000
   1: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A 00000000:0000
"""


def read(text: str, code: int = 0, stderr: str = "") -> Listening | Unread:
    output = Output(("cat", *SOCKETS), code, text, stderr)
    return read_listening("w1", output, at=1.0, source="guest w1")


def test_who_listens_is_told_by_the_state_of_the_socket() -> None:
    seen = read(TCP + TCP6)
    assert isinstance(seen, Listening)
    assert seen.ports == (53, 10250, 50000)
    alone = read(TCP)
    assert isinstance(alone, Listening)
    assert alone.ports == (53,)


@pytest.mark.parametrize(
    "text", ["", "Killed\n", TCP + "   2: 0100007F:00", TCP.replace("0A", "0G"), "sl local\n"]
)
def test_half_a_table_says_nothing(text: str) -> None:
    assert isinstance(read(text), Unread)
    assert isinstance(read(TCP, 1, "cat: can't open"), Unread)


@given(st.text(max_size=80))
def test_whatever_comes_is_never_an_exception(text: str) -> None:
    assert isinstance(read(text), Listening | Unread)


def ports(*found: Any) -> ControlPlanePorts | Unread:
    service = {
        "metadata": {"namespace": "tenant-a", "name": "kubernetes-lab"},
        "spec": {"ports": [{"name": f"p{one}", "port": one} for one in found]},
    }
    return control_plane_ports(service, "tenant-a", "kubernetes-lab", at=1.0, cluster="management")


def test_ports_of_a_service_in_its_order() -> None:
    seen = ports(6443, 50001, 8132)
    assert isinstance(seen, ControlPlanePorts)
    assert (seen.namespace, seen.name, seen.ports) == (
        "tenant-a",
        "kubernetes-lab",
        (6443, 50001, 8132),
    )


def test_no_service_and_no_ports_are_not_known() -> None:
    none = control_plane_ports(None, "tenant-a", "kubernetes-lab", at=1.0, cluster="management")
    for seen in (none, ports(), ports("http")):
        assert isinstance(seen, Unread)
