"""Logs that are followed: what a container has written, then what it writes, until it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from aiohttp import web

from harness.twin.apiserver.consoles import Pieces
from harness.twin.apiserver.queries import Query, number
from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Change, Store

_FINISHED = ("Succeeded", "Failed")


class Backend(Protocol):
    """Where the logs are; given by the world."""

    def logs(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> bytes:
        """A container's log, cut as ``query`` says (tailLines, ...). May raise ApiError."""

    def follow_logs(
        self, namespace: str, pod: str, container: str, heard: Callable[[bytes], None]
    ) -> Callable[[], None]:
        """Hand what a container writes from now on to ``heard``; returns how to stop."""


class FollowedLogs:
    """The followed logs of one server.

    ``deliveries`` counts pieces of output given to clients, and ends.
    """

    def __init__(self, store: Store, backend: Backend) -> None:
        self._store = store
        self._backend = backend
        self._open: set[Pieces] = set()
        self.deliveries = 0

    def close(self) -> None:
        """End every stream."""
        for pieces in self._open:
            pieces.end()

    async def serve(
        self,
        request: web.BaseRequest,
        pod: Obj,
        container: str,
        query: Query,
        prepare: Callable[[], web.StreamResponse],
    ) -> web.StreamResponse:
        """Stream a container's log until the container ends.

        ``prepare`` gives the response to write to, once the request is accepted; ApiError before.
        """
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        pieces = Pieces()
        pieces.add(self._backend.logs(namespace, name, container, query))
        stop = self._backend.follow_logs(
            namespace, name, container, lambda data: self._hear(pieces, data)
        )
        leave = self._store.subscribe(_until_it_ends(pod, container, lambda: self._end(pieces)))
        self._open.add(pieces)
        try:
            response = prepare()
            await response.prepare(request)
            await _write(response, pieces, number(query, "limitBytes"))
            await response.write_eof()
        finally:
            self._open.discard(pieces)
            leave()
            stop()
        return response

    def _end(self, pieces: Pieces) -> None:
        self.deliveries += 1
        pieces.end()

    def _hear(self, pieces: Pieces, data: bytes) -> None:
        self.deliveries += 1
        pieces.add(data)


async def _write(response: web.StreamResponse, pieces: Pieces, limit: int | None) -> None:
    while (limit is None or limit > 0) and (piece := await pieces.next()) is not None:
        data = piece[1] if limit is None else piece[1][:limit]
        limit = None if limit is None else limit - len(data)
        if data:
            await response.write(data)


def _until_it_ends(pod: Obj, container: str, end: Callable[[], None]) -> Callable[[Change], None]:
    """A listener that ends the stream when the container that runs now runs no more."""
    uid, run = pod["metadata"]["uid"], _run(pod, container)
    if run is None:
        end()

    def hear(change: Change) -> None:
        if change.obj["metadata"]["uid"] == uid and (
            change.type == "DELETED" or _run(change.obj, container) != run
        ):
            end()

    return hear


def _run(pod: Obj, container: str) -> str | None:
    """Which run of the container is going on: its ID ("" where none is told), None for none."""
    status = pod.get("status") or {}
    if status.get("phase") in _FINISHED:
        return None
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for found in status.get(kind) or ():
            if found["name"] == container:
                runs = "running" in (found.get("state") or {})
                return str(found.get("containerID", "")) if runs else None
    return ""
