"""Ask what was scraped of a worker's memory, and what its kernel tells of it now."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from harness.facts import memory
from harness.facts.fact import Origin, Unread
from harness.facts.memory import MemInfo, MemoryWindow
from harness.observe.guest import output_of
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell
from harness.reach.prometheus import Prometheus


def memory_window(
    prometheus: Prometheus,
    node: str,
    since: float,
    *,
    now: Callable[[], float],
    label: str = "node",
    labels: Mapping[str, str] | None = None,
) -> MemoryWindow | Unread:
    """A node's memory from ``since`` until now: raw samples, and their minimum by PromQL.

    ``label`` is the label that holds the Node's name, with a port behind it or without; ``labels``
    are more that the series must have. What stops the asking is an Unread with the reason.
    """
    until = now()
    window = f"[{max(1, round(until - since))}s]"
    source = f"Prometheus {memory.AVAILABLE} of {node}"
    matchers = ",".join(_matchers(node, label, labels or {}))
    try:
        answers = {
            name: prometheus.instant(f"{name}{{{matchers}}}{window}", until).text
            for name in memory.SAMPLED
        }
        least = prometheus.instant(
            f"min_over_time({memory.AVAILABLE}{{{matchers}}}{window})", until
        )
    except LabError as error:
        return Unread(Origin(now(), source, ""), f"{memory.AVAILABLE} of {node}", str(error))
    return memory.read_window(
        node, answers, least.text, since=since, until=until, at=now(), source=source
    )


def meminfo(shell: NodeShell, node: str) -> MemInfo | Unread:
    """What the machine's kernel says of its memory. Raises LabError where it cannot be asked."""
    reply = shell.run(["cat", memory.MEMINFO])
    source = f"{shell.where}:{memory.MEMINFO}"
    return memory.read_meminfo(node, output_of(reply), at=reply.ended, source=source)


def _matchers(node: str, label: str, labels: Mapping[str, str]) -> list[str]:
    named = re.sub(r"\.", "[.]", node)
    more = [f"{key}={_quoted(value)}" for key, value in sorted(labels.items())]
    return [f'{label}=~"{named}(:[0-9]+)?"', *more]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
