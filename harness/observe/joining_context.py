"""Where to ask about a worker that does not join, what a collector is, and how it shows things."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from harness.facts.fact import Origin, Unread
from harness.facts.objects import Obj, name_of, text_at
from harness.observe.pool import Worker, workers
from harness.reach.errors import LabError
from harness.reach.kube import Kube
from harness.reach.linstor import Linstor
from harness.reach.nodeshell import NodeShell

LOG_BYTES = 64 * 1024
"""The most of one container's log that is asked for, and LOG_LINES the last of it."""
LOG_LINES = 300
CONSOLE_LOG = "guest-console-log"
KIB = 1024


@dataclass(frozen=True, slots=True)
class JoinContext:
    """Where to ask. ``tenant``, ``linstor`` (None where there is no controller to ask) and
    ``hosts``, hypervisors by the name of their Node, are called only by those who need them, and
    may raise LabError; a host's is a login that the caller closes. ``machine`` is one Machine's
    name, "" for the whole pool; ``now`` the lab's time. ``console(vmi)`` gives what is captured
    already of a VMI's console, "" for nothing, so that no second reader has to attach.
    """

    management: Kube
    tenant: Callable[[], Kube]
    namespace: str
    cluster: str
    pool: str
    now: Callable[[], float]
    machine: str = ""
    linstor: Callable[[], Linstor | None] = lambda: None
    hosts: Mapping[str, Callable[[], AbstractContextManager[NodeShell]]] = field(
        default_factory=dict
    )
    console: Callable[[str], str] = lambda _vmi: ""

    def workers(self) -> tuple[Worker, ...]:
        """The workers that are asked about. Raises LabError."""
        found = workers(self.management, self.namespace, self.cluster, self.pool)
        return tuple(one for one in found if self.machine in ("", one.name))


@dataclass(frozen=True, slots=True)
class Collector:
    """One thing to collect. ``file`` is what to call it; ``separates`` what it tells apart, for the
    person who opens it; ``seconds`` is about how long it may take, ``most`` the bytes kept.
    """

    name: str
    file: str
    separates: str
    seconds: float
    most: int
    look: Callable[[JoinContext], str]

    def collect(self, context: JoinContext) -> str | Unread:
        """What was found, its middle left out where it is too long; or why it is not known."""
        try:
            found = self.look(context)
        except LabError as error:
            origin = Origin(context.now(), f"pool {context.pool}", "")
            return Unread(origin, self.name, str(error))
        return shortened(found, self.most)


def shortened(text: str, most: int) -> str:
    """A text of at most about that many bytes: its beginning and its end, and how much lacks."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= most:
        return text
    half = most // 2
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    return f"{head}\n[... {len(data) - 2 * half} bytes left out ...]\n{tail}"


def log_tail(kube: Kube, pod: Obj, container: str) -> str:
    """The end of a container's log, or why there is none, below a line that names it."""
    namespace, name = text_at(pod, "metadata", "namespace"), name_of(pod)
    head = f"== {namespace}/{name} container {container} ==\n"
    try:
        said = kube.logs(namespace, name, container, limit_bytes=LOG_BYTES, tail=LOG_LINES)
    except LabError as error:
        return f"{head}no log: {error.saw}\n"
    return f"{head}{said.decode('utf-8', 'backslashreplace') or 'it is empty'}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of a fixed width, as kubectl prints them; what is empty is "-"."""
    cells = [tuple(head), *(tuple(one or "-" for one in row) for row in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in cells
    )


def as_list(objects: Iterable[Obj]) -> str:
    """Objects as `kubectl get -o json` prints several, without managed fields."""
    kept: list[Any] = []
    for one in objects:
        metadata = {key: own for key, own in one["metadata"].items() if key != "managedFields"}
        kept.append({**one, "metadata": metadata})
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": kept}, indent=1) + "\n"
