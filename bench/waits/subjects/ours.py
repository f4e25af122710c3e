"""This project's own: one shared watch for each server and kind, waits as queries over it."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from protocol import ERROR, GONE, MET, NOT_MET, REPLACED, UNKNOWN, Told, Wait, serve

from harness.clock import WallClock
from harness.reach.access import client_from_file
from harness.reach.conditions import condition, phase
from harness.reach.history import Revision
from harness.reach.kube import Kube
from harness.reach.watch import Feed, Observatory

_KIND = {
    "met": MET,
    "timed-out": NOT_MET,
    "gap": UNKNOWN,
    "deleted": GONE,
    "replaced": REPLACED,
    "refused": ERROR,
}
_one_at_a_time = threading.Lock()
_clock = WallClock()
_observatory = Observatory(_clock)


@cache
def _kube(kubeconfig: str) -> Kube:
    return Kube(kubeconfig, client_from_file(Path(kubeconfig)), _clock)


def _feed(wait: Wait) -> Feed:
    with _one_at_a_time:
        kube = _kube(wait.kubeconfig)
    return _observatory.feed(kube, "v1", "Pod", wait.namespace)


def _misspelt(revision: Revision) -> bool:
    return bool(revision.obj["status"]["phse"])


def answer(wait: Wait) -> None:
    """Ask the shared watch for the pod that has the name now."""
    deadline = _clock.deadline(wait.limit)
    feed = _feed(wait)
    known = feed.object(wait.name)
    wanted = {"phase": phase(wait.value), "ready": condition("Ready"), "misspelt": _misspelt}
    uid = known["metadata"]["uid"] if known else ""
    name = "" if known else wait.name
    what = f"{wait.name} to be {wait.value}"
    ended = feed.outcome(wanted[wait.want], deadline, what, uid=uid, name=name)
    if ended.kind != "met":
        raise Told(_KIND[ended.kind], str(ended))


if __name__ == "__main__":
    serve(answer, "kubernetes", "urllib3")
