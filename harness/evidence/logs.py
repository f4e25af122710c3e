"""Containers' logs: of runs that have ended first, since a restart takes them away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.diagnose.case import Case, Kind
from harness.diagnose.live import log_of, log_source
from harness.evidence.taking import Got, Part
from harness.facts.objects import Obj, at_path, listed, mapped, name_of, text_at
from harness.reach.kube import Kube

MOST = 24
"""Logs of one sort and cluster that are planned, at most."""


def previous(kube: Kube, cluster: str, pods: Sequence[Obj]) -> list[Part]:
    """A part for each container that ran before, what ended last first."""
    ended = sorted(_restarted(pods), key=lambda one: one[0], reverse=True)
    return [_part(kube, cluster, pod, name, previous=True) for _, pod, name in ended[:MOST]]


def current(
    kube: Kube, cluster: str, pods: Sequence[Obj], telling: Sequence[tuple[Obj, str]]
) -> list[Part]:
    """A part for each container whose log tells, and each that is not as it should be."""
    wanted = {(_place(pod), name): pod for pod, name in (*telling, *_unwell(pods))}
    return [
        _part(kube, cluster, pod, name, previous=False)
        for (_, name), pod in list(wanted.items())[:MOST]
    ]


def _part(kube: Kube, cluster: str, pod: Obj, container: str, *, previous: bool) -> Part:
    def take() -> Got:
        text = log_of(kube, cluster, pod, container, kube.clock.now, previous=previous)
        # a rule reads what runs now; of the run before, only a person
        used = () if previous and text.kind is not Kind.CONSOLE else (text,)
        return Got(text.text, Case(texts=used))

    ending = "-previous.log" if previous else ".log"
    file = f"logs/{cluster}/{_place(pod).replace('/', '_')}_{container}{ending}"
    name = log_source(cluster, pod, container, previous=previous)
    return Part(name, file, cluster, take)


def _place(pod: Obj) -> str:
    return f"{text_at(pod, 'metadata', 'namespace')}/{name_of(pod)}"


def _restarted(pods: Sequence[Obj]) -> Iterator[tuple[str, Obj, str]]:
    for pod, status in _statuses(pods):
        last = mapped(status, "lastState", "terminated")
        if last and at_path(status, "restartCount"):
            yield text_at(last, "finishedAt"), pod, text_at(status, "name")


def _unwell(pods: Sequence[Obj]) -> Iterator[tuple[Obj, str]]:
    """Containers that ended badly, or run and are not ready."""
    for pod, status in _statuses(pods):
        ended = mapped(status, "state", "terminated")
        bad = bool(ended) and at_path(ended, "exitCode") not in (0, None)
        runs = bool(mapped(status, "state", "running")) and at_path(status, "ready") is False
        if bad or (runs and not text_at(pod, "metadata", "deletionTimestamp")):
            yield pod, text_at(status, "name")


def _statuses(pods: Sequence[Obj]) -> Iterator[tuple[Obj, Obj]]:
    for pod in pods:
        for key in ("containerStatuses", "initContainerStatuses"):
            for status in listed(pod, "status", key):
                yield pod, status
