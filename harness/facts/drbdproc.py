"""/proc/drbd: the module's version, and with 8.4 each device on two lines of its own.

DRBD 9 shows its version there and no state (the captures drbd9_*). 8.4 has one word, ``cs``, for
connection and replication together; facts split it as ``drbdsetup`` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from harness.facts.drbd import CONNECTED, CONNECTIONS, ESTABLISHED, KIB, NO_MODULE, DrbdAbsent
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, no_such_file, plain, quote, unfinished

PROC = "/proc/drbd"

_VERSION = re.compile(r"version: (?P<version>\d{1,3}(?:\.\d{1,5})+\S*)(?: .*)?", re.ASCII)
_DEVICE = re.compile(r" *(?P<minor>\d{1,7}): cs:(?P<cs>\w+)(?P<rest>(?: .*)?)", re.ASCII)
_REST = re.compile(
    r" ro:(?P<role>\w+)/(?P<peer_role>\w+) ds:(?P<disk>\w+)/(?P<peer_disk>\w+)"
    r" (?P<protocol>[ABC ])? ?(?P<flags>[rs][a-z-]{5}) *",
    re.ASCII,
)
_OUT_OF_SYNC = re.compile(r"    ns:\d+ .*\boos:(?P<kib>\d{1,20}) *", re.ASCII)
_DETAIL = re.compile(r"\t.*|    (?:ns:|\[|finish:| ).*")
_BANNER = re.compile(r"(?:srcversion|GIT-hash|Transports\b[^:]*): ?.*")
_SPLIT = {
    "Connected": (CONNECTED, ESTABLISHED),
    "WFConnection": ("Connecting", "Off"),
    "WFReportParams": (CONNECTED, "Off"),
    **{state: (state, "Off") for state in CONNECTIONS - {CONNECTED}},
}


@dataclass(frozen=True, slots=True)
class ProcDevice:
    """One device of 8.4. ``state`` is ``cs`` word for word, "" fields where there was none.

    ``suspended`` is the first of the flags; ``out_of_sync`` in bytes, None where its line was cut
    or is not understood.
    """

    minor: int
    state: str
    role: str = ""
    peer_role: str = ""
    disk_state: str = ""
    peer_disk_state: str = ""
    suspended: bool | None = None
    out_of_sync: int | None = None

    @property
    def connection(self) -> str:
        """The connection as ``drbdsetup`` says it ("Connecting" for WFConnection)."""
        return _SPLIT.get(self.state, (CONNECTED, self.state))[0]

    @property
    def replication(self) -> str:
        """The replication as ``drbdsetup`` says it ("Established" for Connected)."""
        return _SPLIT.get(self.state, (CONNECTED, self.state))[1]


@dataclass(frozen=True, slots=True)
class DrbdProc(Fact):
    """The whole file. ``strange`` quotes lines that are none of DRBD's; ``whole`` is False where
    the text ended inside a line."""

    version: str
    devices: tuple[ProcDevice, ...]
    strange: tuple[str, ...] = ()
    whole: bool = True

    @property
    def generation(self) -> int:
        """8 or 9: the first number of the version."""
        return int(self.version.partition(".")[0])

    def find(self, minor: int | None) -> ProcDevice | None:
        """The device of this minor number, None where it has no line."""
        return next((one for one in self.devices if one.minor == minor), None)


def read_proc(
    output: Output, *, at: float, source: str, node: str = ""
) -> DrbdProc | DrbdAbsent | Unread:
    """Read the reply of ``cat /proc/drbd``.

    A file that is not there: DRBD is not loaded. A text without a version is Unread.
    """
    origin = output.origin(at, source)
    if output.exit_code not in (0, None) and no_such_file(PROC, output.stderr):
        return DrbdAbsent(origin, node, NO_MODULE, "", "", output.stderr.strip())
    return unfinished(output, PROC, origin) or _proc(output.stdout, origin)


def _proc(text: str, origin: Origin) -> DrbdProc | Unread:
    lines = plain(text).split("\n")
    tail = lines.pop()
    first = _VERSION.fullmatch(lines[0]) if lines else None
    if first is None:
        return Unread(origin, PROC, f"it begins with no version: {quote(text)}")
    devices: list[ProcDevice] = []
    strange: list[str] = []
    for line in lines[1:]:
        if not _take(line, devices):
            strange.append(quote(line))
    return DrbdProc(origin, first["version"], tuple(devices), tuple(strange), not tail)


def _take(line: str, devices: list[ProcDevice]) -> bool:
    """Take one line in; False where it is none of DRBD's."""
    found = _DEVICE.fullmatch(line)
    if found is not None:
        device = _device(int(found["minor"]), found["cs"], found["rest"])
        known = device is None or any(one.minor == device.minor for one in devices)
        if device is not None and not known:
            devices.append(device)
        return not known
    oos = _OUT_OF_SYNC.fullmatch(line)
    if oos is not None and devices and devices[-1].out_of_sync is None:
        devices[-1] = replace(devices[-1], out_of_sync=int(oos["kib"]) * KIB)
        return True
    if not devices:
        return not line.strip() or _BANNER.fullmatch(line) is not None
    return not line.strip() or _DETAIL.fullmatch(line) is not None


def _device(minor: int, state: str, rest: str) -> ProcDevice | None:
    if not rest.strip():
        return ProcDevice(minor, state) if state == "Unconfigured" else None
    found = _REST.fullmatch(rest)
    if found is None:
        return None
    return ProcDevice(
        minor,
        state,
        found["role"],
        found["peer_role"],
        found["disk"],
        found["peer_disk"],
        suspended=found["flags"][0] == "s",
    )
