"""What the restart counts of a node's pods tell: a machine that went down, or a pod of its own.

All pods of a node die together with its machine, and their counts go up by one each; a pod whose
count goes up alone is in a loop of its own (uptime_and_diagnosis section 3). Neither is a reboot:
that is another boot id.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.facts.bootledger import PodRestarts, PodStay, Restart
from harness.judge.bootcauses import Reboot
from harness.judge.wording import counted, named

SETTLE = 600.0
"""Seconds from a boot's beginning within which a pod is started again, or was not in it."""
TOGETHER = 120.0
"""Seconds within which pods are started again at once, where no machine went down."""
_NAMED = 3


def with_reboot(found: Reboot, restarts: PodRestarts | None) -> str:
    """A clause on whether a node's pods died together with this boot, "" where none was watched."""
    if restarts is None:
        return ""
    since, until = found.before.origin.at, found.after.began + SETTLE
    there = _through(restarts.pods, since, until)
    hits = [one for one in restarts.restarts if one.pod in there and since <= one.at <= until]
    hit = {one.pod for one in hits}
    if not hit:
        return ""
    once = all(one.more == 1 for one in hits)
    if hit == there and len(there) > 1:
        how = "by one each" if once else "not alike"
        return f"the counts of all its {len(there)} pods went up with it, {how}"
    return f"{len(hit)} of its {counted(len(there), 'pod')} had been started again with it so far"


def on_one_boot(restarts: PodRestarts | None, since: float, until: float) -> tuple[str, bool]:
    """What pods did between two looks at the one boot, a clause, and whether that is at odds with
    it: all of them were started again at once, which no crash loop does.
    """
    if restarts is None:
        return "", False
    hits = [one for one in restarts.restarts if since <= one.at <= until]
    burst = _all_at_once(hits, restarts.pods)
    if burst:
        return f"all its {len(burst)} pods were started again at once, under one boot id", True
    pods = _counted(hits)
    if not pods:
        return "", False
    told = [f"{pod} {counted(times, 'time')}" for pod, times in list(pods.items())[:_NAMED]]
    more = [counted(len(pods) - _NAMED, "more pod")] if len(pods) > _NAMED else []
    loop = f"started again on this boot: {named([*told, *more])}"
    return f"{loop}; that is a pod's own loop and no reboot", False


def _through(pods: Sequence[PodStay], since: float, until: float) -> set[str]:
    """The pods that were there before a moment, and still are or were at another."""
    return {
        one.pod for one in pods if one.since < since and (one.until is None or one.until > until)
    }


def _counted(hits: Sequence[Restart]) -> dict[str, int]:
    """By pod, how often one of its containers was started again, the most of them."""
    found: dict[tuple[str, str], int] = {}
    for one in hits:
        key = one.pod, one.container
        found[key] = found.get(key, 0) + one.more
    pods: dict[str, int] = {}
    for (pod, _), times in found.items():
        pods[pod] = max(times, pods.get(pod, 0))
    return pods


def _all_at_once(hits: Sequence[Restart], pods: Sequence[PodStay]) -> set[str]:
    """The pods of a node, where each of them was started again within seconds of the others."""
    for first in hits:
        end = first.at + TOGETHER
        there = _through(pods, first.at, end)
        if len(there) > 1 and there <= {one.pod for one in hits if first.at <= one.at <= end}:
            return there
    return set()
