"""The official client's watch loop as its README has it, with the time-out its examples advise."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from kubernetes import client, config
from kubernetes import watch as library  # noqa: TID251 - it is what is measured here
from protocol import TimedOut, Wait, serve

_one_at_a_time = threading.Lock()


@cache
def _core(kubeconfig: str) -> Any:
    return client.CoreV1Api(config.new_client_from_config(kubeconfig))


def _met(pod: Any, wait: Wait) -> bool:
    if wait.want == "misspelt":
        return bool(pod.status.phse == wait.value)
    if wait.want == "phase":
        return bool(pod.status.phase == wait.value)
    return any(
        c.type == "Ready"
        and c.status == "True"
        and (c.observed_generation or pod.metadata.generation) >= pod.metadata.generation
        for c in pod.status.conditions or ()
    )


def answer(wait: Wait) -> None:
    """Watch until the predicate holds, or the server ends the watch at its time-out."""
    with _one_at_a_time:
        core = _core(wait.kubeconfig)
    following = library.Watch()
    for event in following.stream(
        core.list_namespaced_pod,
        wait.namespace,
        field_selector=f"metadata.name={wait.name}",
        timeout_seconds=wait.limit,
    ):
        if event["type"] != "DELETED" and _met(event["object"], wait):
            following.stop()
            return
    raise TimedOut("the stream ended")


if __name__ == "__main__":
    serve(answer, "kubernetes")
