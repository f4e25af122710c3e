"""LINSTOR's REST API: a method, a path and a query in, a status and a JSON value out.

Paths, filters and the form of errors: LIN docs/rest_v1_openapi.yaml and the controller's REST
handlers. It is read only here; what the real one could do beyond that is refused in its own form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from harness.twin.world import linstor_groups as groups
from harness.twin.world.linstor_groups import Group, Space
from harness.twin.world.linstor_pools import DATA, DISKLESS_POOL
from harness.twin.world.linstor_view import MASK_ERROR, VERSION, Json, View, lean, report

if TYPE_CHECKING:
    from harness.twin.world.linstor import Linstor, Volume
    from harness.twin.world.world import World

_NOT_FOUND = {
    "Node": 300,
    "Resource definition": 301,
    "Resource": 302,
    "Storage pool": 310,
    "Resource group": 317,
}
"""Codes of what is not there (LIN's API constants)."""
_TOO_FEW_NODES, _UNKNOWN, _INVALID = 996, 998, 219
_RATIO = 20.0
_MOST_REPORTS = 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: the HTTP status, and what is sent as JSON."""

    status: int
    value: Any


@dataclass(frozen=True, slots=True)
class _Asked:
    """The parts of a path below /v1, the query's values by name, and the body."""

    parts: tuple[str, ...]
    query: Mapping[str, Sequence[str]]
    body: bytes

    def names(self, key: str) -> set[str]:
        """Values of a filter; LINSTOR's names do not know upper and lower case."""
        return {value.lower() for value in self.query.get(key, ()) if value}

    def number(self, key: str, default: int) -> int:
        """A number of the query. Refused where it is none."""
        told = self.query.get(key, [str(default)])[-1]
        if not told.isascii() or not told.isdigit():
            raise _Refused(404, _UNKNOWN, f"{key} is no number: {told!r}")
        return int(told)


class _Refused(Exception):
    """No answer but a refusal, in LINSTOR's form."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.reply = Reply(status, [report(code | MASK_ERROR, message)])


class Rest:
    """Answers requests from what the controller knows now."""

    def __init__(self, world: World, linstor: Linstor) -> None:
        self._linstor = linstor
        self._view = View(world, linstor)

    def answer(self, method: str, path: str, query: str, body: bytes = b"") -> Reply:
        """The answer to one request; a refusal is one too."""
        parts = tuple(unquote(part) for part in path.split("/") if part)
        asked = _Asked(parts[1:], parse_qs(query, keep_blank_values=True), body)
        try:
            if parts[:1] != ("v1",):
                raise _no_path(path)
            return self._route(method, path, asked)
        except _Refused as refused:
            return refused.reply

    def _route(self, method: str, path: str, asked: _Asked) -> Reply:
        head, rest = asked.parts[:1], asked.parts[1:]
        if asked.parts[-1:] == ("query-size-info",) and method == "POST":
            return self._size_info(asked)
        tree: dict[str, Callable[[_Asked, tuple[str, ...]], Reply | None]] = {
            "nodes": self._nodes,
            "view": self._views,
            "resource-definitions": self._definitions,
            "resource-groups": self._groups,
            "storage-pool-definitions": self._pool_definitions,
            "error-reports": self._errors,
            "controller": self._controller,
        }
        found = tree[head[0]](asked, rest) if head and head[0] in tree else None
        if found is None:
            raise _no_path(path)
        if method not in ("GET", "HEAD"):
            raise _Refused(405, _UNKNOWN, f"HTTP 405 {method} {path}: this controller only tells")
        return found

    # -- nodes, pools, resources

    def _nodes(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        if not rest:
            return _listed(asked, _kept(self._view.nodes(), asked, nodes="name"))
        node = _one(self._view.nodes(), "Node", rest[0])
        if len(rest) == 1:
            return Reply(200, node)
        if rest[1] != "storage-pools" or len(rest) > 3:
            return None
        pools = [one for one in self._view.pools() if _same(one["node_name"], rest[0])]
        if len(rest) == 2:
            return _listed(asked, pools)
        return Reply(200, _one(pools, "Storage pool", rest[2], "storage_pool_name"))

    def _views(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        if rest == ("storage-pools",):
            pools = _kept(
                self._view.pools(), asked, nodes="node_name", storage_pools="storage_pool_name"
            )
            return _listed(asked, pools)
        if rest == ("resources",):
            found = _kept(self._view.resources(), asked, nodes="node_name", resources="name")
            wanted = asked.names("storage_pools")
            if wanted:
                found = [
                    one for one in found if one["volumes"][0]["storage_pool_name"].lower() in wanted
                ]
            return _listed(asked, found)
        return None

    # -- definitions and groups

    def _definitions(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        wordy = asked.query.get("with_volume_definitions", ["false"])[-1].lower() == "true"
        found = self._view.definitions(volumes=wordy)
        if not rest:
            return _listed(asked, _kept(found, asked, resource_definitions="name"))
        definition = _one(found, "Resource definition", rest[0])
        if len(rest) == 1:
            return Reply(200, definition)
        volume = self._linstor.volumes[definition["name"]]
        return self._below(asked, volume, rest[1:])

    def _below(self, asked: _Asked, volume: Volume, rest: tuple[str, ...]) -> Reply | None:
        if rest == ("volume-definitions",):
            return _listed(asked, [self._view.volume_definition(volume)])
        if rest[0] != "resources" or len(rest) > 2:
            return None
        mine = [one for one in self._view.resources() if one["name"] == volume.name]
        bare = [{k: v for k, v in one.items() if k != "volumes"} for one in mine]
        if len(rest) == 1:
            return _listed(asked, bare)
        return Reply(200, _one(bare, "Resource", rest[1], "node_name"))

    def _groups(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        found = self._view.groups()
        if not rest:
            return _listed(asked, _kept(found, asked, resource_groups="name"))
        if rest[1:] == ("query-max-volume-size",):
            return self._largest(rest[0])
        group = _one(found, "Resource group", rest[0])
        return Reply(200, group) if len(rest) == 1 else None

    def _group(self, name: str) -> Group | None:
        return next((one for one in self._linstor.groups() if _same(one.name, name)), None)

    def _largest(self, name: str) -> Reply:
        group = self._group(name)
        if group is None:
            raise _missing("Resource group", name, status=500)
        spaces = self._linstor.spaces(group.pool)
        size = groups.largest(spaces, group.place_count)
        if size is None:
            raise _Refused(500, _TOO_FEW_NODES, "Not enough nodes")
        taken = groups.chosen(spaces, group.place_count)
        candidate = {
            "storage_pool": group.pool or DATA,
            "max_volume_size_kib": size,
            "node_names": sorted(one.host for one in taken),
            "all_thin": False,
        }
        answer = {"candidates": [candidate], "default_max_oversubscription_ratio": _RATIO}
        return Reply(200, answer)

    def _size_info(self, asked: _Asked) -> Reply:
        parts = asked.parts
        if len(parts) != 3 or parts[0] != "resource-groups":
            raise _no_path("/v1/" + "/".join(parts))
        group = self._group(parts[1])
        if group is None:
            text = f"Resource group '{parts[1]}' not found."
            code = _NOT_FOUND["Resource group"] | MASK_ERROR
            return Reply(200, {"reports": [report(code, text)]})
        count, pool = _selection(asked.body, group)
        return Reply(200, {"space_info": _space_info(self._linstor.spaces(pool), count)})

    def _pool_definitions(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        found: list[Json] = [{"storage_pool_name": name} for name in (DATA, DISKLESS_POOL)]
        if not rest:
            return _listed(asked, found)
        one = _one(found, "Storage pool", rest[0], "storage_pool_name")
        return Reply(200, one) if len(rest) == 1 else None

    # -- the controller's own

    def _errors(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        if rest:
            return None
        found = _kept(self._view.error_reports(), asked, node="node_name")
        since, until = asked.number("since", 0), asked.number("to", 2**63)
        found = [one for one in found if since <= one["error_time"] <= until]
        first = asked.number("offset", 0)
        return Reply(200, found[first : first + asked.number("limit", _MOST_REPORTS)])

    def _controller(self, asked: _Asked, rest: tuple[str, ...]) -> Reply | None:
        del asked
        if rest == ("version",):
            return Reply(200, dict(VERSION))
        if rest == ("properties",):
            return Reply(
                200,
                {
                    "Cluster/LocalID": self._view.identity("cluster"),
                    "DrbdOptions/auto-quorum": "suspend-io",
                    "DrbdOptions/auto-add-quorum-tiebreaker": "true",
                    "netcom/SslConnector/Port": "3377",
                },
            )
        return None


def _space_info(spaces: list[Space], count: int) -> Json:
    """What of a selection's nodes can be had: for one more volume, in one copy, and in all."""
    size = groups.largest(spaces, count)
    taken = groups.chosen(spaces, count) if size is not None else []
    return lean(
        max_vlm_size_in_kib=size or 0,
        available_size_in_kib=size or 0,
        capacity_in_kib=min((one.total for one in taken), default=0),
        default_max_oversubscription_ratio=_RATIO,
        next_spawn_result=[
            {"node_name": one.host, "stor_pool_name": DATA, "stor_pool_oversubscription_ratio": 1.0}
            for one in taken
        ],
    )


def _selection(body: bytes, group: Group) -> tuple[int, str]:
    """How many copies in which pool: what the request says, else what the group does."""
    try:
        asked = json.loads(body or b"{}")
        chosen = asked.get("select_filter") or {}
        count = int(chosen.get("place_count") or group.place_count)
        return count, str(chosen.get("storage_pool") or group.pool)
    except (ValueError, AttributeError, TypeError) as wrong:
        raise _Refused(400, _INVALID, "the body is no QuerySizeInfoRequest") from wrong


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _kept(found: list[Json], asked: _Asked, **filters: str) -> list[Json]:
    """What the query's filters leave: by their names, the field that each looks at."""
    for name, field in filters.items():
        wanted = asked.names(name)
        if wanted:
            found = [one for one in found if one[field].lower() in wanted]
    return found


def _listed(asked: _Asked, found: list[Json]) -> Reply:
    """A list, or a part of it; an offset without a limit says nothing to LINSTOR."""
    limit, offset = asked.number("limit", 0), asked.number("offset", 0)
    return Reply(200, found[offset : offset + limit] if limit else found)


def _one(found: list[Json], what: str, name: str, field: str = "name") -> Json:
    for one in found:
        if _same(one[field], name):
            return one
    raise _missing(what, name)


def _missing(what: str, name: str, *, status: int = 404) -> _Refused:
    return _Refused(status, _NOT_FOUND[what], f"{what} '{name}' not found.")


def _no_path(path: str) -> _Refused:
    return _Refused(404, _UNKNOWN, f"Path '{path}' not found on server.")
