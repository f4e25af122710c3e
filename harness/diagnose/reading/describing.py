"""``kubectl describe``: an object's names, labels, conditions, what it holds, and its Events.

What is described of a built-in kind is not the object; only what is listed below is taken. A
custom kind is shown field by field, with spaces put into their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.diagnose.reading import cells
from harness.diagnose.reading.kinds import Known, by_kind

Obj = dict[str, Any]
Shown = frozenset[tuple[str, ...]]

_KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Z][\w ()./-]*?):(?:\s+(?P<value>\S.*))?\s*")
_BEGIN = re.compile(r"^Name:[ \t]+\S", re.MULTILINE)
_NEXT = re.compile(r"\n\n+(?=Name:[ \t]+\S)")
_SIGNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Pod", ("Containers:", "Conditions:", "Volumes:")),
    ("Node", ("Roles:", "Capacity:", "Allocatable:", "System Info:")),
    ("Service", ("Selector:", "Type:", "Session Affinity:")),
    ("PersistentVolumeClaim", ("StorageClass:", "Volume:", "Access Modes:", "Used By:")),
    ("DaemonSet", ("Desired Number of Nodes Scheduled:",)),
    ("Deployment", ("StrategyType:", "Replicas:")),
    ("Job", ("Pods Statuses:", "Parallelism:")),
)
_EVENT_COLUMNS = ("Type", "Reason", "Age", "From", "Message")


@dataclass(frozen=True, slots=True)
class Described:
    """What one description tells: the object, what of it is whole, its Events, and how many lines
    it begins after the text's first. ``trouble`` says why there is no object."""

    line: int
    obj: Obj
    shown: Shown = frozenset()
    events: tuple[tuple[int, Obj], ...] = ()
    trouble: str = ""


def is_description(text: str) -> bool:
    """Whether a text begins as a description does."""
    begin = _BEGIN.search(text[:2000])
    keys = ("Namespace:", "Labels:", "Annotations:", "API Version:")
    return begin is not None and any(f"\n{key}" in text[:20000] for key in keys)


def descriptions(text: str, asked: tuple[Known, ...]) -> Iterator[Described]:
    """The descriptions of a text, in their order."""
    line, at = 0, 0
    for end in [*(found.end() for found in _NEXT.finditer(text)), len(text)]:
        piece = text[at:end]
        begin = _BEGIN.search(piece)
        if begin is not None:
            before = piece.count("\n", 0, begin.start())
            yield _described(piece[begin.start() :], line + before, asked)
        line += piece.count("\n")
        at = end


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    key: str
    value: str
    text: str


def _described(text: str, line: int, asked: tuple[Known, ...]) -> Described:
    whole = text if text.endswith("\n") else text.rpartition("\n")[0]
    lines = list(_lines(whole))
    top = {one.key: one.value for one in lines if one.indent == 0 and one.key}
    known = _known(top, whole, asked)
    name = top.get("Name", "")
    if known is None or not name:
        kind = top.get("Kind", "what it describes")
        return Described(line, {}, trouble=f"a description of a kind that is not known: {kind}")
    obj: Obj = {
        "apiVersion": top.get("API Version") or known.api_version,
        "kind": known.kind,
        "metadata": {"name": name},
    }
    if known.namespaced and top.get("Namespace"):
        obj["metadata"]["namespace"] = top["Namespace"]
    shown = {("metadata", "name"), ("kind",), *_labels(obj, lines)}
    shown |= set(_custom(obj, lines) if "API Version" in top else _builtin(obj, lines))
    events = tuple(_events(obj, lines))
    return Described(line, obj, frozenset(shown), events)


def _known(top: dict[str, str], text: str, asked: tuple[Known, ...]) -> Known | None:
    if top.get("Kind"):
        return by_kind(top["Kind"])
    if len(asked) == 1:
        return asked[0]
    for kind, signs in _SIGNS:
        if all(f"\n{sign}" in text for sign in signs):
            return by_kind(kind)
    return None


def _lines(text: str) -> Iterator[_Line]:
    for number, line in enumerate(text.split("\n")):
        found = _KEY.fullmatch(line)
        if found:
            value = (found["value"] or "").strip()
            yield _Line(number, len(found["indent"]), found["key"], value, line)
        elif line.strip():
            yield _Line(number, len(line) - len(line.lstrip(" ")), "", line.strip(), line)


def _section(lines: list[_Line], key: str) -> list[_Line]:
    """What stands indented below a key at the left."""
    at = next((i for i, one in enumerate(lines) if one.indent == 0 and one.key == key), None)
    if at is None:
        return []
    end = next(
        (i for i in range(at + 1, len(lines)) if lines[i].indent == 0 and lines[i].key), len(lines)
    )
    return lines[at + 1 : end]


def _ends(lines: list[_Line], key: str) -> bool:
    """Whether something at the left follows a section, so that all of it is there."""
    tops = [one.key for one in lines if one.indent == 0 and one.key]
    return key in tops and tops.index(key) < len(tops) - 1


def _labels(obj: Obj, lines: list[_Line]) -> Iterator[tuple[str, ...]]:
    """Labels, of which the first stands beside the word. Long annotations are cut by kubectl."""
    tops = [i for i, one in enumerate(lines) if one.indent == 0 and one.key == "Labels"]
    if not tops or not _ends(lines, "Labels"):
        return
    said = [lines[tops[0]].value, *(one.text.strip() for one in _section(lines, "Labels"))]
    pairs = [one.partition("=") for one in said if "=" in one]
    if pairs:
        obj["metadata"]["labels"] = {key: value for key, _, value in pairs}
    yield ("metadata", "labels")


def _builtin(obj: Obj, lines: list[_Line]) -> Iterator[tuple[str, ...]]:
    """What is taken of a kind of Kubernetes' own."""
    for one in _section(lines, "Conditions"):
        words = one.text.split()
        if len(words) >= 2 and words[1] in ("True", "False", "Unknown"):
            cells.condition(obj, words[0])["status"] = words[1]
    top = {one.key: one.value for one in lines if one.indent == 0 and one.key}
    if obj["kind"] == "Node":
        yield from _node(obj, lines)
    elif obj["kind"] == "Service":
        yield from _service(obj, lines)
    elif obj["kind"] == "PersistentVolumeClaim":
        yield from _claim(obj, top)
    elif obj["kind"] == "Pod":
        yield from _pod(obj, top)


def _node(obj: Obj, lines: list[_Line]) -> Iterator[tuple[str, ...]]:
    for key, field in (("Allocatable", "allocatable"), ("Capacity", "capacity")):
        said = {one.key: one.value for one in _section(lines, key) if one.key}
        said |= dict(_pairs(_section(lines, key)))
        if said and _ends(lines, key):
            cells.put(obj, ("status", field), said)
            yield ("status", field)
    names = {
        "Boot ID": "bootID",
        "Machine ID": "machineID",
        "Kernel Version": "kernelVersion",
        "OS Image": "osImage",
        "Kubelet Version": "kubeletVersion",
    }
    for one in _section(lines, "System Info"):
        if one.key in names and one.value:
            cells.put(obj, ("status", "nodeInfo", names[one.key]), one.value)
    provider = next((one.value for one in lines if one.key == "ProviderID"), "")
    if provider:
        cells.put(obj, ("spec", "providerID"), provider)


_RESOURCE = re.compile(r"\s+(?P<key>[a-z][\w./-]*):\s+(?P<value>\S+)\s*")


def _pairs(lines: list[_Line]) -> Iterator[tuple[str, str]]:
    for one in lines:
        found = _RESOURCE.fullmatch(one.text)
        if found:
            yield found["key"], found["value"]


_PORT = re.compile(r"(?P<name>\S+)\s+(?P<port>\d{1,5})/(?P<protocol>TCP|UDP|SCTP)")


def _service(obj: Obj, lines: list[_Line]) -> Iterator[tuple[str, ...]]:
    ports = [_PORT.fullmatch(one.value) for one in lines if one.key == "Port" and not one.indent]
    found = [one for one in ports if one is not None]
    if found:
        said = [
            {"port": int(one["port"]), "protocol": one["protocol"]}
            | ({} if one["name"] == "<unset>" else {"name": one["name"]})
            for one in found
        ]
        cells.put(obj, ("spec", "ports"), said)
    if _ends(lines, "Session Affinity") or any(one.key == "Session Affinity" for one in lines):
        yield ("spec", "ports")


def _claim(obj: Obj, top: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for key, path in (
        ("Status", ("status", "phase")),
        ("StorageClass", ("spec", "storageClassName")),
        ("Volume", ("spec", "volumeName")),
        ("VolumeMode", ("spec", "volumeMode")),
        ("Capacity", ("status", "capacity", "storage")),
    ):
        if top.get(key):
            cells.put(obj, path, top[key])
            yield path
    if top.get("Access Modes"):
        yield from cells.access_modes("status")(top["Access Modes"], obj)


def _pod(obj: Obj, top: dict[str, str]) -> Iterator[tuple[str, ...]]:
    if top.get("Status") in cells.PHASES:
        cells.put(obj, ("status", "phase"), top["Status"])
        yield ("status", "phase")
    node = top.get("Node", "").partition("/")[0]
    if node and node != "<none>":
        cells.put(obj, ("spec", "nodeName"), node)


_LOWER = {"API": "api", "UID": "uid", "URL": "url"}


def _field(key: str) -> str:
    """``Last Transition Time`` as the object spells it."""
    first, *rest = key.split(" ")
    return _LOWER.get(first, first[:1].lower() + first[1:]) + "".join(rest)


_IDENTITY = {
    "UID": "uid",
    "Creation Timestamp": "creationTimestamp",
    "Resource Version": "resourceVersion",
}


def _custom(obj: Obj, lines: list[_Line]) -> Iterator[tuple[str, ...]]:
    """Of a custom kind the identity, the conditions and the plain fields of spec and status: where
    one object of a list ends and the next begins, a description does not say."""
    for one in _outermost(_section(lines, "Metadata")):
        if one.key in _IDENTITY and one.value:
            obj["metadata"][_IDENTITY[one.key]] = one.value
    for key in ("Spec", "Status"):
        section = _section(lines, key)
        fields = {_field(one.key): _scalar(one.value) for one in _outermost(section) if one.value}
        if fields:
            obj[key.lower()] = fields
    _conditions(obj, _section(lines, "Status"))
    if _ends(lines, "Status"):
        for name in ("conditions", "phase", "restartCount"):
            yield ("status", name)


def _outermost(section: list[_Line]) -> Iterator[_Line]:
    """The keys at a section's left that hold a text."""
    left = min((one.indent for one in section), default=0)
    return (one for one in section if one.indent == left and one.key)


def _conditions(obj: Obj, section: list[_Line]) -> None:
    """The conditions, of which each ends with its type: keys are in the order of the alphabet."""
    at = next((i for i, one in enumerate(section) if one.key == "Conditions"), None)
    if at is None:
        return
    condition: Obj = {}
    for one in section[at + 1 :]:
        if one.indent <= section[at].indent:
            break
        if one.key:
            condition[_field(one.key)] = one.value
        if one.key == "Type":
            cells.condition(obj, one.value).update(condition)
            condition = {}


def _scalar(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    found = cells.number(value)
    padded = value.startswith("0") and value != "0"
    return value if found is None or padded else found


def _events(obj: Obj, lines: list[_Line]) -> Iterator[tuple[int, Obj]]:
    """The rows below ``Events:``, each an Event about the object."""
    section = _section(lines, "Events")
    about = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        **{key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]},
    }
    for one in section:
        words = re.split(r"\s{2,}", one.text.strip(), maxsplit=4)
        if len(words) != 5 or words[0] not in ("Normal", "Warning"):
            continue
        counted = re.search(r"\(x(\d{1,9}) over ", words[2])
        event: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {key: about[key] for key in ("namespace",) if key in about},
            "involvedObject": dict(about),
            "type": words[0],
            "reason": words[1],
            "message": words[4],
            "hil.row": dict(zip(_EVENT_COLUMNS, words, strict=True)),
        }
        if counted:
            event["count"] = int(counted[1])
        yield one.number, event
