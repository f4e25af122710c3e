"""Room for several pools of one run: who came first goes on, who does not fit beside it waits.

Each pool says on its own Lease that it has been promised room. Others read that after they have
written their own: of two that ask at once at least one sees the other. Order is that of the Leases,
so that no two wait for each other; who waits has taken nothing yet, and a Lease ends with its pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.bringup.headroom import NoHeadroom, gate
from harness.bringup.leasing import AGAIN, ROOM, lease_name
from harness.bringup.pool import HeldPool
from harness.facts.headroom import Headroom
from harness.facts.objects import mapped
from harness.reach.lease import API, KIND, lease_state

Log = Callable[[str, str], None]


def find_room(held: HeldPool, log: Log, *, stands: bool) -> Headroom | None:
    """What there is room for, once there is some beside the pools of this run that came first.

    Raises NoHeadroom where there is none though all of them are gone, else as `gate`.
    """
    told: set[str] = set()
    while True:
        ahead = _ahead(held)
        try:
            found = gate(held.lab, held.name, log, stands=stands, beside=sorted(ahead))
        except NoHeadroom as lacking:
            if not ahead:
                raise
            if ahead != told:
                log("headroom", _waiting(held, ahead, lacking))
                told = ahead
            _await_another(held, ahead)
            continue
        if not held.terms.beside or _promise(held, ahead):
            return found


def _waiting(held: HeldPool, ahead: Iterable[str], lacking: NoHeadroom) -> str:
    names = ", ".join(sorted(ahead))
    return f"pool {held.name} waits for {names} of this run to be gone, no room for all: {lacking}"


def _promise(held: HeldPool, counted: set[str]) -> bool:
    """Say that the room is taken; False where somebody had it meanwhile: then it is not said."""
    _say(held, "yes")
    if _ahead(held) <= counted:
        return True
    _say(held, "")
    return False


def _say(held: HeldPool, what: str) -> None:
    held.lease.notes[ROOM] = what
    held.lease.renew(held.lab.clock)


def _await_another(held: HeldPool, ahead: set[str]) -> None:
    """Wait until one that is in the way is not any more, and not for long at a time."""
    lab, place = held.lab, held.lab.inventory.tenant
    feed = lab.observatory.feed(lab.management, API, KIND, place.namespace)
    names = {lease_name(place.cluster, one) for one in ahead}

    def let_go() -> bool:
        found = [feed.object(name) or {} for name in names]
        return any(lease_state(one).holder != lab.run_id for one in found)

    held.wait(let_go, AGAIN, f"room beside {', '.join(sorted(ahead))}")


def _ahead(held: HeldPool) -> set[str]:
    """Pools of this run whose Leases are older than this one's, or that have been promised room."""
    lab, place = held.lab, held.lab.inventory.tenant
    found = {}
    for name in {*held.terms.beside, held.name} if held.terms.beside else ():
        lease = lab.management.get(API, KIND, place.namespace, lease_name(place.cluster, name))
        state = lease_state(lease or {})
        if state.holder == lab.run_id and state.live(lab.clock.now()):
            room = mapped(lease, "metadata", "annotations").get(ROOM) == "yes"
            found[name] = ((state.since or 0.0, state.name), room)
    own = found.pop(held.name, ((0.0, ""), False))[0]
    return {name for name, (since, room) in found.items() if room or since < own}
