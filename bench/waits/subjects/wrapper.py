"""openshift-python-wrapper: ``wait_for_status`` and ``wait_for_condition``, with their defaults."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from ocp_resources.pod import Pod
from ocp_resources.resource import get_client
from protocol import TimedOut, Wait, serve
from timeout_sampler import TimeoutExpiredError

_one_at_a_time = threading.Lock()


@cache
def _client(kubeconfig: str) -> Any:
    return get_client(config_file=kubeconfig)


def answer(wait: Wait) -> None:
    """Wait with it."""
    with _one_at_a_time:
        client = _client(wait.kubeconfig)
    pod = Pod(client=client, name=wait.name, namespace=wait.namespace)
    try:
        if wait.want == "ready":
            pod.wait_for_condition(condition="Ready", status="True", timeout=wait.limit)
        else:
            pod.wait_for_status(wait.value, timeout=wait.limit)
    except TimeoutExpiredError as expired:
        raise TimedOut(f"{expired} {expired.last_exp or ''}") from expired


if __name__ == "__main__":
    serve(answer, "openshift-python-wrapper", "timeout-sampler", "kubernetes")
