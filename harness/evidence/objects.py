"""Objects of a cluster: as the feeds that are followed already have them, else listed once.

Each kind is a file such as `kubectl get -o json` writes, so that `hil diagnose --from` reads an
evidence folder; beside it a table of what became of each object, from the feed's history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from harness.diagnose.case import OWN, Case, Listing, Thing, Unused
from harness.diagnose.live import HERE, Query
from harness.evidence.taking import Got, Part
from harness.facts.objects import Obj, listed, name_of, text_at
from harness.reach.errors import UnknownKind
from harness.reach.history import Gap, History, Revision
from harness.reach.kube import Kube
from harness.reach.watch import Feed
from harness.report.records import rfc3339
from harness.report.redact import redact, redact_data

MOST = 400
"""Objects of one kind in one place that are kept."""
ROWS = 400
"""Last revisions of one feed that its table shows."""


@dataclass(slots=True)
class Written:
    """Objects as JSON without secrets, each version made once: most are the same next time."""

    _known: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def json(self, cluster: str, obj: Obj) -> str:
        """An object's lines."""
        version = text_at(obj, "metadata", "resourceVersion")
        key = (cluster, text_at(obj, "metadata", "uid") or name_of(obj), version)
        if key not in self._known or not version:
            clean = {k: v for k, v in obj.items() if k != "metadata"}
            metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
            whole = redact_data({**clean, "metadata": metadata})
            self._known[key] = json.dumps(whole, indent=1, sort_keys=True)
        return self._known[key]

    def document(self, cluster: str, objects: Sequence[Obj]) -> tuple[str, str]:
        """A list of objects as one document, and what is not in it."""
        if not objects:
            return "", ""
        kept = [self.json(cluster, one) for one in objects[:MOST]]
        head = '{"apiVersion": "v1", "kind": "List", "items": [\n'
        why = f"{MOST} of {len(objects)} objects" if len(objects) > MOST else ""
        return head + ",\n".join(kept) + "\n]}\n", why


def held(feeds: Iterable[Feed], kube: Kube, cluster: str, written: Written) -> Iterator[Part]:
    """A part for each feed of a cluster: its objects as they stand. No request is made."""
    for feed in feeds:
        if feed.cluster is not kube:
            continue
        target = feed.target
        file = _file(cluster, target.api_version, target.kind, target.namespace)
        if target.labels or target.fields:
            file = file.replace(".json", "-chosen.json")
        name = f"{cluster} {target}"
        yield Part(
            name,
            file,
            f"feeds of {cluster}",
            partial(_of_feed, feed, cluster, written),
            version=partial(_place, feed),
        )
        yield Part(
            f"history of {name}",
            file.replace("objects/", "history/").replace(".json", ".txt"),
            f"feeds of {cluster}",
            partial(_history, feed.history),
            version=partial(_place, feed),
        )


def asked(
    kube: Kube,
    cluster: str,
    queries: Iterable[Query],
    namespace: str,
    feeds: Iterable[Feed],
    written: Written,
) -> Iterator[Part]:
    """A part for each kind that no feed follows: listed once."""
    followed = {
        (feed.target.api_version, feed.target.kind, feed.target.namespace)
        for feed in feeds
        if feed.cluster is kube and not (feed.target.labels or feed.target.fields)
    }
    for query in queries:
        place = namespace if query.namespace == HERE else query.namespace
        if (query.api_version, query.kind, place) in followed:
            continue
        chosen = query.labels or query.fields
        file = _file(cluster, query.api_version, query.kind, place)
        yield Part(
            f"{cluster} {query.kind} in {place or 'all namespaces'}",
            file.replace(".json", "-chosen.json") if chosen else file,
            cluster,
            partial(_listed, kube, cluster, query, place, written),
        )


def case_of(
    objects: Iterable[Obj], cluster: str, at: float, query: Query | None, place: str
) -> Case:
    """Objects as a diagnosis takes them; with a whole list's query, what is not there is absent."""
    things = tuple(Thing(one, cluster, f"{cluster} API", at) for one in objects)
    if query is None or query.labels or query.fields:
        return Case(things)
    group = query.api_version.partition("/")[0] if "/" in query.api_version else ""
    return Case(things, listings=(Listing(cluster, query.kind, place, f"{cluster} API", group),))


def _place(feed: Feed) -> int:
    return feed.history.place


def _of_feed(feed: Feed, cluster: str, written: Written) -> Got:
    target = feed.target
    objects = [_kinded(one, target.api_version, target.kind) for one in feed.objects()]
    query = Query(target.api_version, target.kind, target.namespace, target.labels, target.fields)
    text, why = written.document(cluster, objects)
    case = case_of(objects, cluster, feed.clock.now(), query, target.namespace)
    return Got(text, case, why, redacted=True)


def _listed(kube: Kube, cluster: str, query: Query, place: str, written: Written) -> Got:
    try:
        objects = kube.list(
            query.api_version, query.kind, place, labels=query.labels, fields=query.fields
        )
    except UnknownKind:
        why = f"{cluster} serves no {query.api_version} {query.kind}"
        return Got("", Case(unused=(Unused(f"{cluster} {query.kind}", why),)), why)
    text, why = written.document(cluster, objects)
    return Got(text, case_of(objects, cluster, kube.clock.now(), query, place), why, redacted=True)


def _kinded(obj: Obj, api_version: str, kind: str) -> Obj:
    """An object of a list or a stream with the kind that a list leaves out of its items."""
    return obj if "kind" in obj else {"apiVersion": api_version, "kind": kind, **obj}


def _file(cluster: str, api_version: str, kind: str, place: str) -> str:
    group = api_version.partition("/")[0].partition(".")[0] if "/" in api_version else ""
    parts = (kind, place, group)
    return f"objects/{cluster}/{'-'.join(one for one in parts if one)}.json"


# -- what became of them


def _history(history: History) -> Got:
    """A line for each revision: when it arrived, what changed, and how the object stood."""
    entries = tuple(history.entries)
    rows = [_row(one) for one in entries[-ROWS:]]
    why = f"the last {ROWS} of {len(entries)} entries" if len(entries) > ROWS else ""
    head = f"{OWN}what became of each object, oldest first\n" if rows else ""
    return Got(head + "".join(f"{row}\n" for row in rows), why=why)


def _row(entry: object) -> str:
    if isinstance(entry, Revision):
        name = "/".join(part for part in entry.key if part)
        return f"{rfc3339(entry.arrived)}  {entry.change:<8}  {name}  {standing(entry.obj)}"
    if isinstance(entry, Gap):
        since, until = rfc3339(entry.since), rfc3339(entry.until)
        return f"{until}  GAP       since {since}: {entry.reason}"
    return f"{'':<20}  FORGOTTEN  older revisions"


def standing(obj: Obj) -> str:
    """How an object stands, in a line: phase, conditions, or what an Event says."""
    if obj.get("kind") == "Event" or "involvedObject" in obj:
        about = text_at(obj, "involvedObject", "name")
        return f"{text_at(obj, 'reason')} {about}: {redact(text_at(obj, 'message'))}"[:240]
    told = [text_at(obj, "status", "phase"), text_at(obj, "status", "printableStatus")]
    for one in listed(obj, "status", "conditions"):
        reason = text_at(one, "reason")
        said = f"{text_at(one, 'type')}={text_at(one, 'status')}"
        told.append(said + (f"({reason})" if reason and text_at(one, "status") != "True" else ""))
    if text_at(obj, "metadata", "deletionTimestamp"):
        told.append("deleting")
    return " ".join(one for one in told if one)[:240]
