"""What the kernel log tells of DRBD that no state shows: why a connection was given up, and more.

8.4 names either the resource (``drbd r0:``) or the device (``block drbd0:``); 9 names resource,
volume, device and peer (``drbd r0/0 drbd0 n2:``), and most changes of state with their reason in
brackets (the captures dmesg_drbd84_* and dmesg_drbd9_n1; drbd_receiver.c of both for the words of
a refused connection).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from harness.facts.drbd import CONNECTED, DrbdLog, DrbdLogEntry
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output, plain, quote, unfinished

ASKED = "dmesg"

SPLIT, SOLVED, UNRELATED = "split brain", "split brain solved", "unrelated data"
REFUSED, DISCONNECTED, STATE = "connection refused", "disconnected", "state"
STARTED, DONE, VERIFIED = "resync started", "resync done", "verify done"
OUT_OF_SYNC, DISK_LOST = "out of sync", "disk lost"

_STAMP = re.compile(r"(?:<\d+>)?\[ *(?P<at>\d{1,12}\.\d{1,9})\](?:\[ *[TC]\d+\])? ", re.ASCII)
_WHO = re.compile(
    r"(?:block drbd(?P<block>\d{1,7})"
    r"|drbd (?P<resource>[^\s/:]+)(?:/\d+ drbd(?P<minor>\d{1,7}))?(?: (?P<peer>[^\s:]+))?)"
    r": (?P<said>.*)",
    re.ASCII,
)
_LOADED = re.compile(r"drbd: initialized\. Version: ")
_CHANGE = re.compile(r"(?P<what>[a-z-]+)\( (?P<old>\S+) -> (?P<new>\S+) \)", re.ASCII)
_TAG = re.compile(r" \[(?P<tag>[a-z-]+)\] *$")
_BEGAN = re.compile(r"Began resync as Sync(?:Source|Target) \(will sync (?P<kib>\d{1,20}) KB ")
_ENDED = re.compile(r"(?P<what>Resync|Online verify) done \(total (?P<seconds>\d{1,20}) sec; ")
_FOUND = re.compile(r"Online verify found (?P<blocks>\d{1,20}) \d+k block")

_PHRASES = (
    ("Split-Brain detected but unresolved", SPLIT),
    ("Split-Brain detected, ", SOLVED),
    ("Unrelated data, aborting", UNRELATED),
    ("I shall become Sync", REFUSED),
    ("The peer's disk size is too small", REFUSED),
    ("Declined by peer", REFUSED),
    ("incompatible ", REFUSED),
    ("Discarding network configuration", REFUSED),
    ("To resolve this both sides have to support", REFUSED),
    ("Local IO failed in ", DISK_LOST),
)
_COMMANDS = ("disconnect", "down", "del-peer", "forget-peer")
_WAITING = ("WFConnection", "Unconnected")
"""Where 8.4 stands when only a command can send it on to Disconnecting."""


def read_log(output: Output, *, at: float, source: str, node: str = "") -> DrbdLog | Unread:
    """Read the reply of ``dmesg``. A last line that was cut is left out."""
    origin = output.origin(at, source)
    problem = unfinished(output, ASKED, origin)
    if problem is not None:
        return problem
    lines = plain(output.stdout).split("\n")
    lines.pop()
    if not any(line.strip() for line in lines):
        return Unread(origin, ASKED, f"an empty log: {quote(output.stdout)}")
    return _log(lines, origin, node)


def _log(lines: list[str], origin: Origin, node: str) -> DrbdLog:
    entries: list[DrbdLogEntry] = []
    whole = False
    for line in lines:
        stamp = _STAMP.match(line)
        said = line[stamp.end() :] if stamp else line
        if _LOADED.match(said):
            whole = True  # a module loaded anew starts over
        entries.extend(_entries(said, line, None if stamp is None else float(stamp["at"])))
    return DrbdLog(origin, node, tuple(entries), whole)


def _entries(text: str, line: str, at: float | None) -> Iterator[DrbdLogEntry]:
    found = _WHO.fullmatch(text)
    if found is None:
        return
    said = found["said"]
    minor = found["block"] or found["minor"]

    def entry(
        what: str,
        *,
        states: tuple[tuple[str, str, str], ...] = (),
        kib: str | None = None,
        seconds: str | None = None,
        blocks: str | None = None,
    ) -> DrbdLogEntry:
        return DrbdLogEntry(
            what,
            line,
            at,
            found["resource"] or "",
            None if minor is None else int(minor),
            found["peer"] or "",
            states,
            None if kib is None else int(kib),
            None if seconds is None else int(seconds),
            None if blocks is None else int(blocks),
        )

    yield from _read(said, entry, nine=found["block"] is None and bool(found["peer"]))


def _read(said: str, entry: Callable[..., DrbdLogEntry], *, nine: bool) -> Iterator[DrbdLogEntry]:
    states = tuple((one["what"], one["old"], one["new"]) for one in _CHANGE.finditer(said))
    if states and _CHANGE.match(said):
        yield entry(DISCONNECTED if _on_command(said, states, nine=nine) else STATE, states=states)
        return
    for phrase, what in _PHRASES:
        if said.startswith(phrase):
            yield entry(what)
    if began := _BEGAN.match(said):
        yield entry(STARTED, kib=began["kib"])
    if ended := _ENDED.match(said):
        what = DONE if ended["what"] == "Resync" else VERIFIED
        yield entry(what, seconds=ended["seconds"])
    if found := _FOUND.match(said):
        yield entry(OUT_OF_SYNC, blocks=found["blocks"])


def _on_command(said: str, states: tuple[tuple[str, str, str], ...], *, nine: bool) -> bool:
    """Whether this change is a connection let go on command: ``drbdadm disconnect`` or ``down``.

    A refused one ends in Disconnecting too, but out of the handshake. 9 says in brackets why.
    """
    old = next((old for what, old, new in states if (what, new) == ("conn", "Disconnecting")), "")
    tag = _TAG.search(said)
    if tag is not None:
        return bool(old) and tag["tag"] in _COMMANDS
    return old == CONNECTED or (not nine and old in _WAITING)
