"""Power of the hypervisors and the wires between them, on the twin's admin port."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from harness.twin.apiserver.errors import ApiError
from harness.twin.pace import Pace
from harness.twin.world.world import World

ORDERS = ("off", "on", "reset", "pause", "resume")
_EFFECTS = ("cut", "heal", "lose", "delay")
_LARGEST = {"lose": ("share", 1.0), "delay": ("seconds", 3600.0)}


class PowerPort:
    """``POST /power/HOST`` with ``{"do": ORDER}``, and ``POST /links``; both are told by GET."""

    def __init__(self, world: World, pace: Pace) -> None:
        self._world, self._pace = world, pace

    def add_to(self, app: web.Application) -> None:
        """Serve it."""
        app.router.add_get("/power", self._states)
        app.router.add_post("/power/{host}", self._order)
        app.router.add_get("/links", self._wires)
        app.router.add_post("/links", self._link)

    async def _states(self, _: web.Request) -> web.Response:
        return web.json_response(self._told())

    def _told(self) -> dict[str, str]:
        return {host: self._world.power.state(host) for host in self._world.storage.hosts()}

    async def _order(self, request: web.Request) -> web.Response:
        asked = _read(await request.text(), ("do",))
        order, host = asked.get("do"), request.match_info["host"]
        if order not in ORDERS:
            raise _wrong(f"no order {order!r}: there are {', '.join(ORDERS)}")
        power, known = self._world.power, self._world.storage.hosts()
        if host not in known:
            raise web.HTTPNotFound(text=f"no hypervisor {host!r}: there are {', '.join(known)}")
        orders: dict[object, Callable[[str], None]] = {
            "off": power.off,
            "on": power.on,
            "reset": power.reset,
            "pause": power.pause,
            "resume": power.resume,
        }
        self._pace.do(lambda: orders[order](host), refusals=(ApiError,))
        return web.json_response({"host": host, "power": power.state(host)})

    async def _wires(self, _: web.Request) -> web.Response:
        return web.json_response({"links": self._links()})

    def _links(self) -> list[dict[str, Any]]:
        """What is wrong with which wire; nothing where all are sound."""
        wires = self._world.storage.wires
        cut = [
            {"a": min(pair), "b": max(pair), "do": "cut", "carrier": carrier}
            for pair, carrier in wires.cut.items()
        ]
        lost = [
            {"a": a, "b": b, "do": "lose", "share": share}
            for (a, b), share in wires.lost.items()
            if share
        ]
        late = [
            {"a": a, "b": b, "do": "delay", "seconds": seconds}
            for (a, b), seconds in wires.late.items()
            if seconds
        ]
        return [*cut, *lost, *late]

    async def _link(self, request: web.Request) -> web.Response:
        asked = _read(await request.text(), ("do", "a", "b", "carrier", "share", "seconds"))
        effect = asked.get("do")
        if effect not in _EFFECTS:
            raise _wrong(f"no effect {effect!r}: there are {', '.join(_EFFECTS)}")
        storage = self._world.storage
        if effect == "heal":
            self._pace.do(storage.heal)
            return web.json_response({"links": self._links()})
        a, b = self._ends(asked)
        if effect == "cut":
            carrier = asked.get("carrier", False)
            if not isinstance(carrier, bool):
                raise _wrong(f"carrier is {carrier!r}: give true or false")
            self._pace.do(lambda: storage.cut(a, b, carrier=carrier))
        else:
            amount = _amount(asked, str(effect))
            act = storage.lose if effect == "lose" else storage.delay
            self._pace.do(lambda: act(a, b, amount))
        return web.json_response({"links": self._links()})

    def _ends(self, asked: dict[str, Any]) -> tuple[str, str]:
        a, b, known = asked.get("a"), asked.get("b"), self._world.storage.hosts()
        if a not in known or b not in known or a == b:
            raise _wrong(f"no link between {a!r} and {b!r}: name two of {', '.join(known)}")
        return str(a), str(b)


def _amount(asked: dict[str, Any], effect: str) -> float:
    name, most = _LARGEST[effect]
    amount = asked.get(name)
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    if not number or not 0 <= float(amount or 0) <= most:
        raise _wrong(f"{name} is {amount!r}: give a number from 0 to {most:g}")
    return float(amount or 0)


def _read(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        asked = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise _wrong(f"the body is no JSON ({wrong})") from wrong
    if not isinstance(asked, dict):
        raise _wrong("the body is no JSON object")
    odd = [name for name in asked if name not in names]
    if odd:
        raise _wrong(f"no field {odd[0]!r}: there are {', '.join(names)}")
    return asked


def _wrong(sentence: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=sentence)
