"""A raw client of an API server: requests, refusals, watches. It shares nothing with reach."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3

Obj = dict[str, Any]
Contexts = Callable[[str, tuple[str, ...]], ssl.SSLContext]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIALS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_PATIENCE = 15.0  # real seconds


@dataclass(frozen=True)
class Refusal:
    """A failure as clients tell it apart."""

    code: int
    reason: str
    message: str
    details: Obj

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(reason, field) of each cause."""
        return [(c.get("reason", ""), c.get("field", "")) for c in self.details.get("causes", [])]


@dataclass(frozen=True)
class Reply:
    """An answer: status, headers, body."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def made(self) -> Obj:
        """The object of a request that must have succeeded."""
        assert 200 <= self.status < 300, (self.status, self.body)
        return self.json

    @property
    def refused(self) -> Refusal:
        """The Status of a request that must have failed."""
        assert self.status >= 400, (self.status, self.body)
        status = self.json
        assert (status["kind"], status["apiVersion"]) == ("Status", "v1"), status
        assert status["status"] == "Failure"
        assert status["code"] == self.status
        return Refusal(
            self.status, status.get("reason", ""), status["message"], status.get("details") or {}
        )


class Stream:
    """An open watch, one event at a time."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status
        self._chunks = response.stream(65536)
        self._rest = b""

    def next(self) -> tuple[str, Obj]:
        """(type, object) of the next event; StopIteration at the end of the stream."""
        while b"\n" not in self._rest:
            self._rest += next(self._chunks)
        line, self._rest = self._rest.split(b"\n", 1)
        event = json.loads(line)
        return event["type"], event["object"]

    def names(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events, bookmarks aside."""
        found: list[tuple[str, str]] = []
        while len(found) < count:
            kind, obj = self.next()
            if kind != "BOOKMARK":
                found.append((kind, obj["metadata"]["name"]))
        return found

    def rest(self) -> Iterator[tuple[str, Obj]]:
        """Everything until the stream ends."""
        while True:
            try:
                yield self.next()
            except StopIteration:
                return

    def close(self) -> None:
        self._response.close()


class Api:
    """One API server. ``who`` of a request names the user of its client certificate."""

    def __init__(self, url: str, contexts: Contexts) -> None:
        self.url = url
        self._contexts = contexts
        self._pools: dict[tuple[str, tuple[str, ...]], urllib3.PoolManager] = {}

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()

    def _pool(self, who: str) -> urllib3.PoolManager:
        key = (who, ("system:masters",) if who == "admin" else ())
        if key not in self._pools:
            self._pools[key] = urllib3.PoolManager(
                ssl_context=self._contexts(*key), retries=False, timeout=_PATIENCE
            )
        return self._pools[key]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "",
        accept: str = "application/json",
        who: str = "admin",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """One request. ``body`` is sent as JSON unless it is bytes."""
        response = self._send(method, path, body, media, accept, who, headers, query, stream=False)
        return Reply(response.status, response.data, response.headers)

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        media: str,
        accept: str,
        who: str,
        headers: Mapping[str, str] | None,
        query: Mapping[str, Any],
        *,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Accept": accept, "User-Agent": "conformance/1", **(headers or {})}
        if data is not None:
            sent["Content-Type"] = media or "application/json"
        url = self.url + path + (f"?{urlencode(query)}" if query else "")
        return self._pool(who).request(
            method, url, body=data, headers=sent, preload_content=not stream
        )

    def get(self, path: str, **more: Any) -> Reply:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any, **more: Any) -> Reply:
        return self.ask("POST", path, body, **more)

    def put(self, path: str, body: Any, **more: Any) -> Reply:
        return self.ask("PUT", path, body, **more)

    def delete(self, path: str, body: Any = None, **more: Any) -> Reply:
        return self.ask("DELETE", path, body, **more)

    def merge(self, path: str, body: Any, **more: Any) -> Reply:
        return self.ask("PATCH", path, body, media=MERGE, **more)

    def json_patch(self, path: str, body: Any, **more: Any) -> Reply:
        return self.ask("PATCH", path, body, media=JSON_PATCH, **more)

    def strategic(self, path: str, body: Any, **more: Any) -> Reply:
        return self.ask("PATCH", path, body, media=STRATEGIC, **more)

    def apply(self, path: str, body: Any, manager: str = "alpha", **more: Any) -> Reply:
        """Server-side apply by a manager."""
        query = {"fieldManager": manager} if manager else {}
        return self.ask("PATCH", path, body, media=APPLY, **query, **more)

    def watch(self, path: str, *, accept: str = "application/json", **query: Any) -> Stream:
        """Opens a watch that ends by itself after a while, unless the query says when."""
        asked = {"watch": "true", "timeoutSeconds": "10", **query}
        return Stream(self._send("GET", path, None, "", accept, "admin", None, asked, stream=True))


def named(api_version: str, kind: str, name: str, **rest: Any) -> Obj:
    """An object; ``meta`` adds to its metadata."""
    metadata = {"name": name, **rest.pop("meta", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def config(name: str, /, data: Obj | None = None, **meta: Any) -> Obj:
    """A ConfigMap."""
    return named("v1", "ConfigMap", name, meta=meta, **({} if data is None else {"data": data}))


def version(obj: Obj) -> str:
    """An object's, or a list's, resourceVersion."""
    return obj["metadata"]["resourceVersion"]


def names(listed: Obj) -> list[str]:
    """The names in a list."""
    return [item["metadata"]["name"] for item in listed["items"]]


def bare(obj: Obj) -> Obj:
    """An object without managedFields, which the twin shows only after an apply."""
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def owned(obj: Any, manager: str, subresource: str = "", operation: str = "Apply") -> Any:
    """The fieldsV1 of one manager, None where it has no entry."""
    for entry in obj["metadata"].get("managedFields", []):
        found = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        if found == (manager, operation, subresource):
            return entry["fieldsV1"]
    return None
