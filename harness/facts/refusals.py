"""What became of a request that a pool's chart must refuse, or must not: release, Events, objects.

A chart's refusal shows as Released and Ready False with the reason InstallFailed or UpgradeFailed,
and with the same text in a Warning Event about the HelmRelease; the Event carries a tail of the log
as well (objects 3; FLX internal/reconcile/install.go). That nothing was made or changed is read off
the objects themselves, before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.facts.fact import Fact, Origin
from harness.facts.objects import (
    Obj,
    at_path,
    condition,
    mapped,
    name_of,
    origin_of,
    text_at,
    uid_of,
)
from harness.facts.poolstate import digest

REFUSED = ("InstallFailed", "UpgradeFailed")
"""Reasons of a release whose chart could not be rendered or applied (objects 3)."""

_EXECUTION = re.compile(r"execution\s+error\s+at\s+\((?P<place>[^()]*)\)\s*:\s*")
"""How Helm begins a template's own refusal: file, line and column, then the text."""
_LOG_TAIL = re.compile(r"\bLast\s+Helm\s+logs\s*:")
"""Where an Event's text ends and the tail of the log begins (FLX internal/reconcile/install.go)."""
_CUT = ("...", "…", "[truncated]", "(truncated)")


@dataclass(frozen=True, slots=True)
class RefusalTrial(Fact):
    """One request on one pool, and what became of it.

    ``row`` names the rule that it breaks ("R3", clone_path 3); ``asked`` is the change as JSON, and
    ``wrong`` are the texts of it that break the rule, each to be named by a refusal. ``altered``
    are the keys of it that the release was told otherwise, so that its chart never saw them;
    ``api`` is what the API itself said against it, "" where it took the request. ``ready`` and
    ``released`` are the conditions' states in the release's version that judged this request,
    ``reason`` and ``message`` Ready's; ``warnings`` are the release's own Warning Events, oldest
    first. ``before`` and ``after`` map every object of the pool ("Kind name") to UID and content;
    an object that is in both and the same in both was left alone.
    """

    row: str
    name: str
    asked: str
    wrong: tuple[str, ...]
    altered: tuple[str, ...]
    api: str
    ready: str
    released: str
    reason: str
    message: str
    warnings: tuple[str, ...]
    before: dict[str, str] = field(hash=False)
    after: dict[str, str] = field(hash=False)

    @property
    def settled(self) -> bool:
        """Whether the request came to an end, one way or the other."""
        return self.ready in ("True", "False")

    @property
    def changes(self) -> tuple[str, ...]:
        """What was made, changed or taken away, by kind and name, each with a word for it."""
        return changes(self.before, self.after)


@dataclass(frozen=True, slots=True)
class ChartText:
    """What a chart itself said in one of Helm's messages.

    ``text`` has its white space as single blanks and no tail of a log; ``of_chart`` is False where
    Helm says nothing of an execution error, and then the text is the whole message. ``cut``: the
    message ends in the middle.
    """

    text: str
    of_chart: bool
    cut: bool


def refusal_trial(
    release: Any,
    *,
    row: str,
    name: str,
    asked: str,
    wrong: Sequence[str],
    written: Mapping[str, Any],
    events: Iterable[Obj],
    before: Mapping[str, str],
    after: Mapping[str, str],
    at: float,
    cluster: str,
) -> RefusalTrial:
    """Read a trial off its HelmRelease, as that was when it judged the request, and its Events.

    ``written`` is what was written into spec, to be found in the release's values. Events about
    another release of the same name (an earlier one's) are left out by their UID.
    """
    ready, released = condition(release, "Ready"), condition(release, "Released")
    own = [one for one in events if text_at(one, "involvedObject", "uid") == uid_of(release)]
    values = mapped(release, "spec", "values")
    return RefusalTrial(
        origin=origin_of(release, at, cluster),
        row=row,
        name=name,
        asked=asked,
        wrong=tuple(wrong),
        altered=tuple(
            key for key in written if key not in values or not shows(values[key], written[key])
        ),
        api="",
        ready=text_at(ready, "status"),
        released=text_at(released, "status"),
        reason=text_at(ready, "reason"),
        message=text_at(ready, "message"),
        warnings=tuple(warnings(own)),
        before=dict(before),
        after=dict(after),
    )


def refused_by_api(
    said: str, *, row: str, name: str, asked: str, wrong: Sequence[str], at: float, cluster: str
) -> RefusalTrial:
    """A trial that the API would not even take; ``said`` is its answer."""
    origin = Origin(at, f"{cluster} KubernetesNodes {name}", said)
    nothing: dict[str, str] = {}
    given = (row, name, asked, tuple(wrong), (), said, "", "", "", "", ())
    return RefusalTrial(origin, *given, before=nothing, after=nothing)


def shows(found: Any, written: Any) -> bool:
    """Whether a value is the one that was written, more keys of mappings aside: somebody may have
    filled in defaults."""
    if isinstance(written, dict) and isinstance(found, dict):
        return all(key in found and shows(found[key], written[key]) for key in written)
    return bool(found == written)


def standing(objects: Iterable[Obj]) -> dict[str, str]:
    """Objects by kind and name, each with its UID and a digest of its spec."""
    return {
        f"{text_at(one, 'kind')} {name_of(one)}": f"{uid_of(one)} {digest(at_path(one, 'spec'))}"
        for one in objects
    }


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What two looks at the same objects (`standing`) differ in.

    A Job that is not there any more is no change: it goes by itself after a while (objects 5).
    """
    found = []
    for key in sorted({*before, *after}):
        was, now = before.get(key, ""), after.get(key, "")
        if was != now and (now or not key.startswith("Job ")):
            found.append(f"{key} {_word(was, now)}")
    return tuple(found)


def warnings(events: Iterable[Obj]) -> list[str]:
    """The texts of Warning Events, oldest first."""
    kept = [one for one in events if text_at(one, "type") == "Warning"]
    return [text_at(one, "message") for one in sorted(kept, key=_moment)]


def chart_text(message: str) -> ChartText:
    """What the chart itself said in a message of Helm's, wrapped or cut as that may be."""
    found = _EXECUTION.search(message)
    said = message[found.end() :] if found else message
    tail = _LOG_TAIL.search(said)
    whole = said[: tail.start()] if tail else said
    text = " ".join(whole.split())
    cut = tail is None and text.endswith(_CUT)
    return ChartText(text, found is not None, cut)


def _moment(event: Obj) -> str:
    return text_at(event, "lastTimestamp") or text_at(event, "eventTime")


def _word(was: str, now: str) -> str:
    if not was:
        return "was made"
    if not now:
        return "is gone"
    return "has another content" if was.split()[0] == now.split()[0] else "was made anew"
