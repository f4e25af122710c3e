"""The kernel's tables of TCP sockets, /proc/net/tcp and tcp6 (Linux, proc_net_tcp.rst).

Services of Talos and kubelet listen on all addresses of both families, hence in the second one.
"""

from __future__ import annotations

from collections.abc import Sequence

_HEAD = (
    "  sl  local_address                         remote_address                        st "
    "tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
)
_HEAD_4 = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode" + " " * 53 + "\n"
)
_INODE = 17_000  # of the first socket; any number would do
_LOCAL_DNS = 53


def tcp(ports: Sequence[int]) -> str:
    """/proc/net/tcp: Talos' resolver on loopback, and these ports on every address."""
    local = _row(0, "0100007F", _LOCAL_DNS, 8)
    return _HEAD_4 + local + "".join(_row(n, "0" * 8, p, 8) for n, p in enumerate(ports, 1))


def tcp6(ports: Sequence[int]) -> str:
    """/proc/net/tcp6: these ports on every address."""
    return _HEAD + "".join(_row(n, "0" * 32, port, 32) for n, port in enumerate(ports))


def _row(index: int, address: str, port: int, digits: int) -> str:
    return (
        f"{index:>4}: {address}:{port:04X} {'0' * digits}:0000 0A 00000000:00000000 00:00000000 "
        f"00000000     0        0 {_INODE + index} 1 0000000000000000 100 0 0 10 0\n"
    )
