"""timeout-sampler around the official client's read, as suites use it: ``sampler.py SECONDS``."""

from __future__ import annotations

import sys
import threading
from functools import cache
from typing import Any

from kubernetes import client, config
from protocol import TimedOut, Wait, serve
from timeout_sampler import TimeoutExpiredError, TimeoutSampler

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
    """Sample until the predicate holds."""
    with _one_at_a_time:
        core = _core(wait.kubeconfig)
    samples = TimeoutSampler(
        wait_timeout=wait.limit,
        sleep=int(sys.argv[1]),
        func=lambda: _met(core.read_namespaced_pod(wait.name, wait.namespace), wait),
    )
    try:
        for sample in samples:
            if sample:
                return
    except TimeoutExpiredError as expired:
        raise TimedOut(f"{expired} {expired.last_exp or ''}") from expired


if __name__ == "__main__":
    serve(answer, "timeout-sampler", "kubernetes")
