"""Chaos on the twin's admin port: rules added, listed and taken back, for one cluster or all."""

from __future__ import annotations

import difflib
import json
from dataclasses import asdict, fields
from typing import Any

from aiohttp import web

from harness.twin.apiserver.chaos import Rule
from harness.twin.apiserver.server import ApiServer

_FIELDS = {field.name: str(field.type) for field in fields(Rule)}
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
}


class ChaosPort:
    """``POST``, ``GET`` and ``DELETE /chaos`` for the servers of one twin."""

    def __init__(self, servers: list[ApiServer]) -> None:
        self._servers = {server.store.name: server for server in servers}

    def add_to(self, app: web.Application) -> None:
        """Serve it."""
        app.router.add_post("/chaos", self._add)
        app.router.add_get("/chaos", self._list)
        app.router.add_delete("/chaos", self._clear)

    async def _add(self, request: web.Request) -> web.Response:
        try:
            asked = _read(await request.text())
            clusters = self._chosen(str(asked.pop("cluster", "")))
            rule = Rule(**asked)
        except ValueError as mistake:
            raise web.HTTPBadRequest(text=str(mistake)) from mistake
        for cluster in clusters:
            self._servers[cluster].chaos.add(rule)
        return web.json_response({"clusters": clusters, "rule": asdict(rule)})

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"rules": in_force(self._servers)})

    async def _clear(self, _: web.Request) -> web.Response:
        cleared = sum(len(server.chaos.rules) for server in self._servers.values())
        for server in self._servers.values():
            server.chaos.clear()
        return web.json_response({"cleared": cleared})

    def _chosen(self, cluster: str) -> list[str]:
        """The clusters meant by a name; all for none. ValueError for one that is not there."""
        if cluster and cluster not in self._servers:
            near = difflib.get_close_matches(cluster, self._servers, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self._servers)}"
            raise ValueError(f"no cluster {cluster!r}; {hint}")
        return [cluster] if cluster else list(self._servers)


def in_force(servers: dict[str, ApiServer]) -> list[dict[str, Any]]:
    """The rules of every cluster, with how many requests each was about and struck."""
    return [
        {
            "cluster": cluster,
            **asdict(kept.rule),
            "met": kept.met,
            "struck": kept.struck,
            "spent": kept.spent,
        }
        for cluster, server in servers.items()
        for kept in server.chaos.in_force
    ]


def _read(text: str) -> dict[str, Any]:
    """A rule's fields, and its cluster, from JSON. ValueError, one sentence, for anything else."""
    try:
        asked = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"the body is no JSON ({wrong})") from wrong
    if not isinstance(asked, dict):
        raise ValueError("the body is no JSON object")
    for name, value in asked.items():
        _check(name, value)
    if "what" not in asked:
        raise ValueError("the body says no kind: give what")
    return asked


def _check(name: str, value: object) -> None:
    known = {**_FIELDS, "cluster": "str"}
    if name not in known:
        raise ValueError(f"no field {name!r}: a rule has {', '.join(known)}")
    wanted, text = _TYPES[known[name]]
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: give {text}")
