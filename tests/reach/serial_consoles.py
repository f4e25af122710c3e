"""A VMI's console as a test wants it served: what is printed on it, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

VMI = "/apis/kubevirt.io/v1/namespaces/ns/virtualmachineinstances/vm"
CONSOLE = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/vm/console"
PLAIN = "plain.kubevirt.io"
KINDS = {
    "kind": "APIResourceList",
    "groupVersion": "kubevirt.io/v1",
    "resources": [
        {"name": "virtualmachineinstances", "kind": "VirtualMachineInstance", "namespaced": True}
    ],
}


def scripted(*steps: bytes | str) -> Callable[..., Any]:
    """Bytes are printed; "close" closes in order, "end" without a word, "reset" with a reset;
    "wait" waits for the client to go."""

    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,))
        await socket.prepare(request)
        assert request.transport is not None
        for step in steps:
            if isinstance(step, bytes):
                await socket.send_bytes(step)
            elif step == "close":
                await socket.close(code=1001, message=b"going away")
            elif step == "wait":
                async for _ in socket:
                    pass
            elif step == "reset":
                request.transport.abort()
            else:
                request.transport.close()
        return socket

    return talk
