"""``drbdsetup events2``: the list of what is there, then every change, in order.

One line each: with --timestamps a time, then kind, object and pairs; ``exists -`` closes the list
(the capture drbd84_events2_stream_cut_and_resync). It shows states that last milliseconds.
"""

from __future__ import annotations

import re
from datetime import datetime

from harness.facts.drbd import DrbdEvent, DrbdHistory
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output, plain, quote, unfinished

ASKED = "drbdsetup events2"

_TIMED_OUT = (124, 143)
"""How a command ends that ``timeout`` ended: GNU's, and by the signal itself."""

_KINDS = "exists|create|change|destroy|rename|call|response"
_OBJECTS = "resource|connection|device|peer-device|path|helper"
_LINE = re.compile(
    r"(?:(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) )?"
    rf"(?P<kind>{_KINDS}) (?P<object>{_OBJECTS})(?P<pairs>(?: [A-Za-z0-9_/-]+:[!-~]*)+) *",
    re.ASCII,
)
_CLOSED = re.compile(r"(?:\d{4}-\d\d-\d\dT\S+ )?exists - *", re.ASCII)
_KEYS = ("name", "peer-node-id", "conn-name", "volume", "minor", "local", "peer", "helper")


def read_events(
    output: Output,
    *,
    at: float,
    source: str,
    node: str = "",
    ended_by_timer: bool = False,
) -> DrbdHistory | Unread:
    """Read the reply of ``drbdsetup events2``.

    ``ended_by_timer`` says that the command ran for the time it was given: then 124, 143 and no
    status at all (a signal) are its natural ends. Without it they leave a history that is not
    whole. Any other status than 0, or no line that is an event, is Unread.
    """
    origin = output.origin(at, source)
    natural = output.exit_code == 0 or ended_by_timer
    if output.exit_code not in (0, None, *_TIMED_OUT):
        return unfinished(output, ASKED, origin) or Unread(origin, ASKED, "no reason given")
    found = _history(output.stdout, origin, node, natural=natural)
    if not found.events and not found.listed:
        reason = f"no event in {quote(output.text)}"
        return unfinished(output, ASKED, origin) or Unread(origin, ASKED, reason)
    return found


def _history(text: str, origin: Origin, node: str, *, natural: bool) -> DrbdHistory:
    lines = plain(text).split("\n")
    tail = lines.pop()
    events: list[DrbdEvent] = []
    strange: list[str] = []
    listed = False
    for line in lines:
        event = _event(line)
        if _CLOSED.fullmatch(line) and not listed:
            listed = True
        elif event is None or (listed and event.kind == "exists"):
            strange.append(quote(line))
        else:
            events.append(event)
    return DrbdHistory(origin, node, tuple(events), listed, natural and not tail, tuple(strange))


def _event(line: str) -> DrbdEvent | None:
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    pairs = [word.split(":", 1) for word in found["pairs"].split(" ") if word]
    keys = {key: value for key, value in pairs if key in _KEYS}
    at = _epoch(found["time"])
    twice = len({key for key, _ in pairs}) != len(pairs)
    if twice or "name" not in keys or (found["time"] and at is None):
        return None
    states = {key: value for key, value in pairs if key not in _KEYS}
    return DrbdEvent(found["kind"], found["object"], keys["name"], keys, states, at)


def _epoch(said: str | None) -> float | None:
    """A time with its zone in epoch seconds; None where it is none, or of no zone."""
    try:
        moment = datetime.fromisoformat(said or "")
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
