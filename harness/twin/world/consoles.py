"""The serial console of a VMI: who may attach, and what is then heard of the guest.

Refusals are worded as KubeVirt's virt-api words them (pkg/virt-api/rest/console.go,
uptime_and_diagnosis.md section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError, not_found
from harness.twin.world.objects import KUBEVIRT, Obj, deep

if TYPE_CHECKING:
    from harness.twin.world.guests import Guests
    from harness.twin.world.world import World

_VMI = "virtualmachineinstance"
_GROUP = "kubevirt.io"


class Attachment:
    """One client on one VMI's serial line.

    A VMI whose machine never came to life (its disk holds no readable image) has a line too, and
    nothing is heard on it. ``taken`` arranges for ``ended`` to be called when somebody else takes
    the line, and returns how to call that off.
    """

    def __init__(
        self,
        guests: Guests,
        instance: Obj,
        heard: Callable[[bytes], None],
        ended: Callable[[], None],
        taken: Callable[[Callable[[], None]], Callable[[], None]] | None = None,
    ) -> None:
        self.machine = str(instance["metadata"]["uid"])
        self._guest = guests.of(instance)
        self._leave: list[Callable[[], None]] = [guests.when_stopped(instance, ended)]
        if taken is not None:
            self._leave.append(taken(ended))
        if self._guest is not None:
            self._leave.append(self._guest.follow_console(heard))

    def type(self, data: bytes) -> None:
        """What the client types; a guest that reads nothing from its console ignores it."""
        if self._guest is not None:
            self._guest.type(data)

    def leave(self) -> None:
        """Hear no more of it; leaving twice is fine."""
        while self._leave:
            self._leave.pop()()


def attach(
    world: World,
    namespace: str,
    name: str,
    heard: Callable[[bytes], None],
    ended: Callable[[], None],
) -> Attachment:
    """Attach to a VMI's console. ApiError 404, 400 or 409 for one that has none to attach to."""
    instance = world.cluster.find(KUBEVIRT, "VirtualMachineInstance", namespace, name)
    if instance is None:
        raise not_found(_GROUP, _VMI, name)
    if deep(instance, "spec", "domain", "devices", "autoattachSerialConsole") is False:
        raise ApiError(400, "No serial consoles are present.")
    phase = deep(instance, "status", "phase")
    if phase == "Failed":
        what = f'Operation cannot be fulfilled on {_VMI}.{_GROUP} "{name}"'
        details = {"name": name, "group": _GROUP, "kind": _VMI}
        raise ApiError(409, f"{what}: VMI is in failed status", details=details)
    if phase != "Running":
        raise ApiError(400, "VMI is not running")
    taken = partial(_taken, world, name) if world.console_taken_after else None
    return Attachment(world.guests, instance, heard, ended, taken)


def _taken(world: World, name: str, ended: Callable[[], None]) -> Callable[[], None]:
    """Somebody's `virtctl console`, after a while: whoever is attached then is cut off."""
    what = f"console of {name} taken"
    return world.engine.after(world.console_taken_after, ended, what).cancel
