"""kr8s: ``wait`` of an object, on asyncio."""

from __future__ import annotations

from kr8s.asyncio import api
from kr8s.asyncio.objects import Pod
from protocol import Wait, serve_async

_FOR = {
    "phase": "jsonpath='{{.status.phase}}'={}",
    "misspelt": "jsonpath='{{.status.phse}}'={}",
    "ready": "condition=Ready",
}


async def answer(wait: Wait) -> None:
    """Wait with it."""
    cluster = await api(kubeconfig=wait.kubeconfig)
    pod = await Pod.get(wait.name, namespace=wait.namespace, api=cluster)
    await pod.wait(_FOR[wait.want].format(wait.value), timeout=wait.limit)


if __name__ == "__main__":
    serve_async(answer, "kr8s", "httpx")
