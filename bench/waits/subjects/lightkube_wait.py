"""lightkube: ``wait`` of its client, on asyncio.

It knows conditions only, and no limit; Ready of these pods is True exactly while they are Running,
and the limit is asyncio's.
"""

from __future__ import annotations

import asyncio

from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ObjectDeleted
from lightkube.resources.core_v1 import Pod
from protocol import GONE, Told, Wait, serve_async

_clients: dict[str, AsyncClient] = {}


async def answer(wait: Wait) -> None:
    """Wait with it."""
    if wait.kubeconfig not in _clients:
        _clients[wait.kubeconfig] = AsyncClient(KubeConfig.from_file(wait.kubeconfig))
    one = _clients[wait.kubeconfig]
    try:
        await asyncio.wait_for(
            one.wait(Pod, wait.name, for_conditions=["Ready"], namespace=wait.namespace),
            wait.limit,
        )
    except ObjectDeleted as gone:
        raise Told(GONE, str(gone)) from gone


if __name__ == "__main__":
    serve_async(answer, "lightkube", "lightkube-models")
