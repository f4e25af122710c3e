"""What the launcher's own container sees of its machine: network counters, block I/O, processor.

Names of interfaces: uptime_and_diagnosis.md section 6; files as the kernel writes them: proc(5)'s
net/dev, io.stat and cpu.stat of cgroup v2. How much a boot moves is an order of magnitude.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.twin.apiserver.execresult import ExecResult

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.hostsystem import HostSystem

_HEAD = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|"
    "bytes    packets errs drop fifo colls carrier compressed\n"
)
_ASKING = 1_200  # bytes a second of a system that looks for its configuration or its cluster
_JOINED = 48_000  # of one that is a node
_PULLED = 640_000_000  # bytes of images that a kubelet pulls once
_READ = 350_000_000  # bytes of the disk that a boot reads
_MTU = 1_400


def run(
    argv: Sequence[str], guest: Guest | None, system: HostSystem, seconds: float
) -> ExecResult | None:
    """``cat`` over one of the files; None for anything else. ``seconds``: how long it has run."""
    if list(argv[:1]) != ["cat"] or len(argv) != 2:
        return None
    if argv[1] == "/proc/net/dev":
        return ExecResult(_network(guest).encode(), b"", 0)
    if argv[1] == "/sys/fs/cgroup/io.stat":
        return ExecResult(_blocks(guest).encode(), b"", 0)
    if argv[1] == "/sys/fs/cgroup/cpu.stat":
        return ExecResult(system.cpu_stat(seconds).encode(), b"", 0)
    return None


def _network(guest: Guest | None) -> str:
    heard = _moved(guest)
    lines = [
        _interface("lo", 9_100, 9_100),
        _interface("eth0", 0, 0),  # a dummy: the address is the machine's
        _interface("eth0-nic", heard, heard // 9),
        _interface("k6t-eth0", heard // 40, 0),
        _interface("tap0", heard // 9, heard),
    ]
    return _HEAD + "".join(lines)


def _moved(guest: Guest | None) -> int:
    """Bytes that have come for the machine in this boot."""
    if guest is None or not guest.running:
        return 0
    rate = _JOINED if guest.kubelet_up else _ASKING
    return int(guest.uptime * rate / guest.pace) + (_PULLED if guest.kubelet_up else 0)


def _interface(name: str, received: int, sent: int) -> str:
    first = f"{received} {received // _MTU} 0 0 0 0 0 0"
    return f"{name:>8}: {first} {sent} {sent // _MTU} 0 0 0 0 0 0\n"


def _blocks(guest: Guest | None) -> str:
    if guest is None:
        return ""
    boots = min(1.0, guest.uptime / (60.0 * guest.pace)) if guest.running else 0.0
    read, written = int(_READ * boots), int(_READ * boots / 20)
    return (
        f"147:1000 rbytes={read} wbytes={written} rios={read // 65536} wios={written // 16384} "
        "dbytes=0 dios=0\n"
    )
