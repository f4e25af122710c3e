"""DRBD's tools and dd, as they run in a satellite: arguments in, output and exit status out.

Words and statuses: the captures, lab/qemu_drbd.md (trap 7), LINBIT drbd-utils (user/v9), GNU's dd.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.twin.apiserver.execresult import Ended, ExecResult, Heard, Running
from harness.twin.world import drbd_events, drbd_report, drbd_verbs
from harness.twin.world.drbd_events import Event
from harness.twin.world.drbd_resource import Resource
from harness.twin.world.drbd_state import Replica

_SETUP, _ADM = "drbdsetup", "drbdadm"
_USAGE = 20
_UNITS = {"": 1, "c": 1, "w": 2, "b": 512, "K": 1024, "M": 2**20, "G": 2**30, "kB": 1000}
_OPERANDS = ("if", "of", "bs", "count", "skip", "seek", "iflag", "oflag", "conv", "status")
_NUMBER = re.compile(r"(\d+)(kB|[cwbKMG]?)")
_BOTH_KNOW = (
    "disk-options invalidate-remote net-options new-current-uuid new-peer pause-sync "
    "peer-device-options resize resource-options resume-io resume-sync suspend-io"
)
_NOT_MODELLED = {
    _SETUP: f"{_BOTH_KNOW} attach connect del-minor detach disconnect down invalidate new-minor "
    "new-resource outdate primary secondary show show-gi verify wait-connect-resource "
    "wait-sync-resource",
    _ADM: f"{_BOTH_KNOW} adjust apply-al create-md dump dump-md get-gi show-gi wait-connect "
    "wipe-md",
}
"""What else each program knows (drbd-utils 9)."""
_SPEED = 118_000_000  # bytes/s that dd tells of (order)


class Devices(Protocol):
    """What a host's programs find: its resources, and bytes by the name of a device."""

    def resources(self) -> Mapping[str, Resource]:
        """Every resource that LINSTOR has placed on the host, by name, up or not."""

    def resource_of(self, path: str) -> Resource | None:
        """The resource whose device a path names, or None."""

    def below(self, path: str) -> Replica | None:
        """The replica whose backing device a path names, or None."""

    def random(self, count: int) -> bytes:
        """Random bytes."""

    def now(self) -> float:
        """The host's time, epoch seconds."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools on one host."""

    host: str
    devices: Devices

    # -- drbdsetup

    def drbdsetup(self, arguments: Sequence[str]) -> ExecResult | Running:
        """``status`` and ``events2``; what else the program knows is not modelled."""
        command, *rest = arguments or [""]
        if command in _NOT_MODELLED[_SETUP].split():
            return _not_modelled(_SETUP, arguments)
        known = {"status": self._status, "events2": self._events}
        if command not in known:
            return _fail("invalid command\n", _USAGE)
        return known[command](rest)

    def _status(self, arguments: Sequence[str]) -> ExecResult:
        flags, names, wrong = _parsed(_SETUP, arguments, ("--json", "--verbose", "--statistics"))
        if wrong is not None:
            return wrong
        found = self._here(names)
        if isinstance(found, ExecResult):
            return found
        if "--json" in flags:
            return _ok(drbd_report.json_text(found))
        if not found:
            return ExecResult(b"", b"# No currently configured DRBD found.\n", 0)
        verbose, counts = "--verbose" in flags, "--statistics" in flags
        return _ok(
            "".join(
                drbd_report.text(resource, replica, verbose=verbose, statistics=counts)
                for resource, replica in found
            )
        )

    def _here(self, names: Sequence[str]) -> list[tuple[Resource, Replica]] | ExecResult:
        """The resources that are up here, or the one that is asked for."""
        found = []
        for name, resource in sorted(self.devices.resources().items()):
            replica = resource.on(self.host)
            if replica is not None and (not names or name == names[0]):
                found.append((resource, replica))
        if names and not found:
            return _fail(f"{names[0]}: No such resource\n", 10)
        return found

    def _events(self, arguments: Sequence[str]) -> ExecResult | Running:
        allowed = ("--now", "--statistics", "--timestamps")
        flags, names, wrong = _parsed(_SETUP, arguments, allowed)
        if wrong is not None:
            return wrong
        here = self._here(names)
        found = [] if isinstance(here, ExecResult) else here
        show = _Shown("--timestamps" in flags, "--statistics" in flags, self.devices.now)
        for resource, _ in found:
            resource.catch_up()
        first = [one for pair in found for one in drbd_events.listed(*pair)]
        listed = show.lines([*first, drbd_events.LIST_ENDS])
        if "--now" in flags:
            return ExecResult(listed, b"", 0)
        return Running(lambda heard, _: _follow(found, show, listed, heard))

    # -- drbdadm

    def drbdadm(self, arguments: Sequence[str]) -> ExecResult:
        """``status``, ``role``, ``cstate``, ``dstate``, and what changes something."""
        command, *rest = arguments or [""]
        if command == "status":
            return self._adm_status(rest)
        told = {"role": _role, "cstate": drbd_verbs.cstate, "dstate": drbd_verbs.dstate}
        if command in told:
            return self._tell(command, rest, told[command])
        if command in drbd_verbs.VERBS:
            return self._do(command, rest)
        if command in _NOT_MODELLED[_ADM].split():
            return _not_modelled(_ADM, arguments)
        return _fail(f"{_ADM}: Unknown command '{command}'\n", _USAGE)

    def _adm_status(self, arguments: Sequence[str]) -> ExecResult:
        flags, names, wrong = _parsed(_ADM, arguments, ("--verbose", "--statistics"))
        if wrong is not None:
            return wrong
        unknown = self._undefined(names)
        if unknown is not None:
            return unknown
        result = self._status([*flags, *names])
        return result if not result.exit_code else _child(result, "status", names)

    def _tell(
        self, command: str, arguments: Sequence[str], told: Callable[[Replica], str]
    ) -> ExecResult:
        _, names, wrong = _parsed(_ADM, arguments, ())
        if wrong is not None or not names:
            return wrong or _misses(command)
        unknown = self._undefined(names)
        if unknown is not None:
            return unknown
        found = self._here(names)
        if isinstance(found, ExecResult):
            return _child(found, command, names)
        return _ok("".join(told(replica) for _, replica in found))

    def _do(self, command: str, arguments: Sequence[str]) -> ExecResult:
        verb, allowed = drbd_verbs.VERBS[command]
        flags, names, wrong = _parsed(_ADM, arguments, allowed)
        if wrong is not None or not names:
            return wrong or _misses(command)
        name, _, peer = names[0].partition(":")
        unknown = self._undefined([name])
        if unknown is not None:
            return unknown
        resource = self.devices.resources()[name]
        replica = next(one for one in resource.replicas if one.host == self.host)
        try:
            if not replica.up and command not in ("up", "down"):
                raise drbd_verbs.misconfigured(name, 158, "Unknown resource", "unknown resource")
            if peer and not drbd_verbs.chosen(replica, peer):
                return _fail(f"'{names[0]}' not defined in your config (for this host).\n", 10)
            verb(resource, replica, flags, peer)
        except drbd_verbs.Refused as refused:
            told = ExecResult(b"", str(refused).encode(), refused.status)
            return _child(told, command, [_target(command, resource), *flags])
        return _ok("")

    def _undefined(self, names: Sequence[str]) -> ExecResult | None:
        known = self.devices.resources()
        for name in names:
            here = known[name].replicas if name in known else ()
            if all(one.host != self.host for one in here):
                return _fail(f"'{name}' not defined in your config (for this host).\n", 10)
        return None

    # -- dd

    def dd(self, arguments: Sequence[str]) -> ExecResult | Running:
        """Copy blocks between a device, random bytes and stdout."""
        asked = dict(one.partition("=")[::2] for one in arguments)
        odd = [one for one in arguments if one.partition("=")[0] not in _OPERANDS]
        if odd:
            return _fail(f"dd: unrecognized operand '{odd[0]}'\n{_HELP}", 1)
        numbers = {
            name: _bytes(asked.get(name, fallback))
            for name, fallback in (("bs", "512"), ("count", "0"), ("skip", "0"), ("seek", "0"))
        }
        for name, number in numbers.items():
            if number is None:
                return _fail(f"dd: invalid number: '{asked[name]}'\n", 1)
        size, count, skip, seek = (number or 0 for number in numbers.values())
        if "count" not in asked or not size:
            return _not_modelled("dd", arguments)
        copy = _Copy(asked.get("status", ""), size, count)
        if "of" in asked and asked["of"] not in ("/dev/null", "/dev/stdout"):
            return self._write(asked, copy, seek * size)
        return self._read(asked, copy, skip * size)

    def _write(self, asked: Mapping[str, str], copy: _Copy, offset: int) -> ExecResult | Running:
        sources: Mapping[str, Callable[[int], bytes]] = {
            "/dev/urandom": self.devices.random,
            "/dev/zero": bytes,
        }
        source = sources.get(asked.get("if", ""))
        if source is None:
            return _not_modelled("dd", [f"{name}={value}" for name, value in asked.items()])
        path = asked["of"]
        below, resource = self.devices.below(path), self.devices.resource_of(path)
        if below is not None:
            below.data.write(offset, source(copy.total))
            return copy.done(b"")
        replica = resource.on(self.host) if resource is not None else None
        if resource is None or replica is None:
            return _cannot_open(path, "No such file or directory")
        room = resource.size * 1024 - offset
        if copy.total > room:
            return _fail(f"dd: error writing '{path}': No space left on device\n", 1)
        refused = resource.io.open(replica, writes=True)
        if refused:
            return _cannot_open(path, refused)
        data, pending = source(copy.total), _Pending()

        def ended(error: str) -> None:
            resource.io.close(replica)
            failed = _fail(f"dd: error writing '{path}': {error}\n1+0 records in\n", 1)
            pending.end(failed if error else copy.done(b""))

        resource.io.write(replica, offset, data, ended)
        return pending.outcome()

    def _read(self, asked: Mapping[str, str], copy: _Copy, offset: int) -> ExecResult | Running:
        path, shown = asked.get("if", ""), asked.get("of") != "/dev/null"
        below, resource = self.devices.below(path), self.devices.resource_of(path)
        if below is not None:
            data = below.data.read(offset, copy.total)
            return copy.done(data if shown else b"")
        replica = resource.on(self.host) if resource is not None else None
        if resource is None or replica is None:
            return _cannot_open(path, "No such file or directory")
        refused = resource.io.open(replica, writes=False)
        if refused:
            return _cannot_open(path, refused)
        length = max(0, min(copy.total, resource.size * 1024 - offset))
        pending = _Pending()

        def ended(data: bytes, error: str) -> None:
            text = f"dd: error reading '{path}': {error}\n0+0 records in\n0+0 records out\n"
            done = copy.done(data if shown else b"", length)
            pending.end(_fail(text, 1) if error else done)

        resource.io.read(replica, offset, length, ended)
        return pending.outcome()


class _Pending:
    """A program that waits for I/O, which no signal ends."""

    def __init__(self) -> None:
        self._result: ExecResult | None = None
        self._ended: list[Ended] = []

    def end(self, result: ExecResult) -> None:
        self._result = result
        for tell in self._ended:
            tell(result)
        self._ended = []

    def outcome(self) -> ExecResult | Running:
        return self._result or Running(self._follow, uninterruptible=True)

    def _follow(self, _: Heard, ended: Ended) -> Callable[[], None]:
        if self._result is not None:
            ended(self._result)
            return lambda: None
        self._ended.append(ended)
        return lambda: self._ended.remove(ended) if ended in self._ended else None


@dataclass(frozen=True, slots=True)
class _Copy:
    """What dd is to copy, and what it says when it has."""

    status: str
    size: int
    count: int

    @property
    def total(self) -> int:
        return self.size * self.count

    def done(self, data: bytes, length: int | None = None) -> ExecResult:
        copied = self.total if length is None else length
        whole, part = divmod(copied, self.size)
        if self.status == "none":
            return ExecResult(data, b"", 0)
        records = f"{whole}+{int(part > 0)} records"
        told = f"{records} in\n{records} out\n"
        seconds = copied / _SPEED
        text = f"{told}{copied} bytes{_human(copied)} copied, {seconds:.6g} s, 118 MB/s\n"
        return ExecResult(data, text.encode(), 0)


@dataclass(frozen=True, slots=True)
class _Shown:
    """How events2 shows events."""

    timestamps: bool
    statistics: bool
    now: Callable[[], float]

    def lines(self, events: Sequence[Event]) -> bytes:
        return drbd_events.render(
            events, self.now(), timestamps=self.timestamps, statistics=self.statistics
        )


def _follow(
    found: Sequence[tuple[Resource, Replica]], show: _Shown, listed: bytes, heard: Heard
) -> Callable[[], None]:
    heard(listed)
    stops = [
        resource.follow(replica, lambda events: heard(show.lines(events)))
        for resource, replica in found
    ]

    def stop() -> None:
        for each in stops:
            each()

    return stop


def _role(replica: Replica) -> str:
    return f"{replica.role}\n"


def _target(command: str, resource: Resource) -> str:
    by_minor = ("attach", "detach", "outdate", "invalidate")
    return str(resource.minor) if command in by_minor else resource.name


def _parsed(
    program: str, arguments: Sequence[str], allowed: Sequence[str]
) -> tuple[list[str], list[str], ExecResult | None]:
    """Options, operands, and the program's complaint about an option that it does not know."""
    flags = [one for one in arguments if one.startswith("-") and one != "--"]
    names = [one for one in arguments if not one.startswith("-")]
    odd = [one for one in flags if one not in allowed]
    if odd:
        hint = f"try '{program} help'\n" if program == _ADM else ""
        return flags, names, _fail(f"{program}: unrecognized option '{odd[0]}'\n{hint}", _USAGE)
    return flags, names, None


def _misses(command: str) -> ExecResult:
    return _fail(f"{_ADM}: '{command}' requires a resource argument\n", _USAGE)


def _child(result: ExecResult, command: str, rest: Sequence[str]) -> ExecResult:
    """drbdadm tells which command failed, and ends as that did."""
    line = " ".join([_SETUP, command, *rest])
    text = f"Command '{line}' terminated with exit code {result.exit_code}\n"
    return ExecResult(b"", result.stderr + text.encode(), result.exit_code)


def _bytes(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def _human(count: int) -> str:
    if count < 1000:
        return ""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            binary = f"{count / 1024**power:.1f} {unit[0].upper()}iB"
            return f" ({count / 1000**power:.1f} {unit}, {binary})"
    return ""


_HELP = "Try 'dd --help' for more information.\n"


def _cannot_open(path: str, why: str) -> ExecResult:
    return _fail(f"dd: failed to open '{path}': {why}\n", 1)


def _not_modelled(program: str, arguments: Sequence[str]) -> ExecResult:
    asked = shlex.join([program, *arguments])
    return ExecResult(b"", b"", 1, f"not modelled on this machine: {asked}")


def _ok(text: str) -> ExecResult:
    return ExecResult(text.encode(), b"", 0)


def _fail(text: str, status: int) -> ExecResult:
    return ExecResult(b"", text.encode(), status)
