"""What was scraped of each worker's memory over the last hours, as a text that a case holds.

The text is of the harness's own making; it is recognised again where it lies in a folder.
"""

from __future__ import annotations

from harness.bringup.connect import ConnectedLab
from harness.bringup.prometheus import NOT_ASKED, memory_since
from harness.diagnose.case import TENANT, Kind, Text
from harness.diagnose.live import Live
from harness.facts.fact import Unread
from harness.facts.memory import MemoryWindow

HOURS = 30
"""How far back: a night of the field's own report (S-DOC)."""


def memory(asked: Live, lab: ConnectedLab) -> None:
    """Ask Prometheus, where the inventory names one, for each tenant Node that was listed."""
    now = asked.now()
    if lab.inventory.prometheus is None or now is None:
        asked.skip("Prometheus", NOT_ASKED)
        return
    nodes = [one.name for one in asked.objects if one.kind == "Node" and one.cluster == TENANT]
    for node in nodes:
        source = f"MemAvailable of {node} by Prometheus"
        if asked.over:
            asked.skip(source, "not asked: the time was up")
            continue
        seen = memory_since(lab, node, now - HOURS * 3600)
        if isinstance(seen, Unread):
            asked.skip(source, seen.reason)
        else:
            asked.texts.append(Text(Kind.MEMORY, told(seen), source, node, now, cluster=TENANT))


def told(seen: MemoryWindow) -> str:
    """A window in lines: the least that was available in any sample, and each gap in between."""
    begin, end = seen.stretches[0].began, seen.stretches[-1].ended
    total = f" of {seen.total}" if seen.total else ""
    kills = max((one.kills or 0 for one in seen.stretches), default=0)
    head = (
        f"MemAvailable of {seen.node} over {end - begin:.0f} s: at least {seen.minimum}{total} "
        f"bytes in {seen.samples} samples, one each {seen.every:.0f} s; kills counted: {kills}\n"
    )
    gaps = (f"no sample for {b - a:.0f} s\n" for a, b in seen.gaps(begin, end))
    return head + "".join(gaps)
