"""LINSTOR's satellites: a pod on each hypervisor, and what one can run in it.

Names and labels: Piraeus datastore v2 (a DaemonSet for each node, ``linstor-satellite.<node>``);
what is in the image: DRBD's tools, GNU's small programs.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.apiserver.execresult import Ended, ExecResult, Heard, Running
from harness.twin.world import pods, programs
from harness.twin.world.drbd_programs import Tools
from harness.twin.world.drbd_resource import Resource
from harness.twin.world.drbd_state import Replica
from harness.twin.world.filesystem import Device, Entry, File, Filesystem, Link, text
from harness.twin.world.hostkernel import PROC_DRBD
from harness.twin.world.objects import PIRAEUS, Obj, labels_of, meta, owner
from harness.twin.world.satellite_shell import Shell

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.storage import Storage
    from harness.twin.world.world import World

NAMESPACE = "cozy-linstor"
COMPONENT, SATELLITE = "app.kubernetes.io/component", "linstor-satellite"
_IMAGE = "ghcr.io/cozystack/cozystack/piraeus-server:v1.31.3"
_MANAGER = "piraeus-operator"
_PATHS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
_DRBD = ("drbdadm", "drbdsetup")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIMED_OUT = 124
_ELF = "\x7fELF\x02\x01\x01"


class Satellites:
    """The satellites' pods, and a container's own state for each while it runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._containers: dict[str, Container] = {}  # by UID of the pod and its container's id
        world.cluster.on("v1", "Pod", self._hear)

    def build(self) -> None:
        """One on each hypervisor, as they have been for long."""
        for host in self._world.storage.hosts():
            self._make(host, settled=True)

    def run(self, pod: Obj, argv: list[str]) -> ExecResult | Running:
        """Run a program in a satellite's main container."""
        status = pod["status"]["containerStatuses"][0]
        key = f"{pod['metadata']['uid']} {status['containerID']}"
        if key not in self._containers:
            host = pod["spec"]["nodeName"]
            self._containers[key] = Container(self._world.storage, host, pod["metadata"]["name"])
        return self._containers[key].run(argv)

    def host_stops(self, host: str) -> None:
        """Programs on a host that stands still tell nobody how they end."""
        for key, container in tuple(self._containers.items()):
            if container.host == host:
                container.drop()
                del self._containers[key]

    def _hear(self, change: Change) -> None:
        """A satellite that somebody deleted is made anew."""
        if change.type == "DELETED" and is_satellite(change.obj):
            host = change.obj["spec"]["nodeName"]
            self._world.engine.after(
                1.0, lambda: self._make(host, settled=False), f"satellite on {host}"
            )

    def _make(self, host: str, *, settled: bool) -> None:
        world, now = self._world, self._world.engine.now
        holder = world.cluster.find(PIRAEUS, "LinstorSatellite", "", host)
        made = _pod(host, world.identities.suffix(), holder)
        if settled:
            address = world.hosts.address_of(host)
            pods.bind(made, host, now)
            pods.creating(made, address, now)
            pods.running(made, address, now)
        world.cluster.create(made, manager=_MANAGER)


def is_satellite(pod: Obj) -> bool:
    """Whether a pod is a LINSTOR satellite."""
    return labels_of(pod).get(COMPONENT) == SATELLITE


def _pod(host: str, suffix: str, holder: Obj | None) -> Obj:
    labels = {
        COMPONENT: SATELLITE,
        "app.kubernetes.io/instance": "linstorcluster",
        "app.kubernetes.io/managed-by": "piraeus-operator",
        "app.kubernetes.io/name": "piraeus-datastore",
        "piraeus.io/satellite": host,
    }
    container = {
        "name": SATELLITE,
        "image": _IMAGE,
        "args": ["startSatellite"],
        "securityContext": {"privileged": True},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            f"linstor-satellite.{host}-{suffix}",
            NAMESPACE,
            labels=labels,
            ownerReferences=[owner(holder)] if holder else [],
        ),
        "spec": {
            "nodeName": host,
            "hostNetwork": True,
            "restartPolicy": "Always",
            "containers": [container],
        },
    }


@dataclass(frozen=True, slots=True)
class _Devices:
    """What programs on one host find of DRBD."""

    storage: Storage
    host: str

    def resources(self) -> Mapping[str, Resource]:
        return self.storage.resources

    def resource_of(self, path: str) -> Resource | None:
        for resource in self.storage.resources.values():
            if path in (f"/dev/drbd{resource.minor}", f"/dev/drbd/by-res/{resource.name}/0"):
                return resource
        return None

    def below(self, path: str) -> Replica | None:
        for resource in self.storage.resources.values():
            for replica in resource.replicas:
                if (replica.host, replica.backing) == (self.host, path):
                    return replica
        return None

    def random(self, count: int) -> bytes:
        return self.storage.random(count)

    def now(self) -> float:
        return self.storage.engine.now


class Container:
    """A satellite's main container, from its start to its end. ``files`` are below its /tmp."""

    def __init__(self, storage: Storage, host: str, hostname: str) -> None:
        self._storage, self.host, self._hostname = storage, host, hostname
        self._tools = Tools(host, _Devices(storage, host))
        self._shell = Shell(self._program, {})
        self._open: list[Ended] = []

    def run(self, argv: list[str]) -> ExecResult | Running:
        """Run a program; one that takes time is dropped when the host stops."""
        result = self._program(argv)
        return result if isinstance(result, ExecResult) else self._kept(result)

    def drop(self) -> None:
        """The host is gone: whoever waits for a program is told nothing."""
        for ended in self._open:
            ended(ExecResult(b"", b"", 0, dropped=True))
        self._open = []

    def _kept(self, program: Running) -> Running:
        def follow(heard: Heard, ended: Ended) -> Callable[[], None]:
            def told(result: ExecResult) -> None:
                if ended in self._open:
                    self._open.remove(ended)
                    ended(result)

            self._open.append(ended)
            stop = program.follow(heard, told)

            def leave() -> None:
                if ended in self._open:
                    self._open.remove(ended)
                stop()

            return leave

        return Running(follow, program.uninterruptible)

    def _program(self, argv: list[str]) -> ExecResult | Running:
        name = posixpath.basename(argv[0]) if argv else ""
        own = {
            "drbdadm": self._tools.drbdadm,
            "drbdsetup": self._tools.drbdsetup,
            "dd": self._tools.dd,
            "timeout": self._timeout,
        }
        if name in own and argv[0] in (name, *(f"{path}/{name}" for path in _PATHS)):
            return own[name](argv[1:])
        if name in ("sh", "bash") and len(argv) > 2 and argv[1] == "-c":
            return self._shell.run(argv[2], argv[3:])
        files = Filesystem(self._files())
        return programs.run(argv, self._machine(files), files)

    def _timeout(self, arguments: Sequence[str]) -> ExecResult | Running:
        """``timeout SECONDS COMMAND...``; what stands still in I/O hears no signal."""
        span = _SPAN.fullmatch(arguments[0]) if arguments else None
        if span is None or len(arguments) < 2:
            asked = shlex.join(["timeout", *arguments])
            return ExecResult(b"", b"", 1, f"not modelled on this machine: {asked}")
        seconds = float(span[1]) * _UNITS[span[2]]
        result = self._program(list(arguments[1:]))
        if isinstance(result, ExecResult) or result.uninterruptible:
            return result
        return self._limited(result, seconds)

    def _limited(self, program: Running, seconds: float) -> Running:
        def follow(heard: Heard, ended: Ended) -> Callable[[], None]:
            def over() -> None:
                stop()
                ended(ExecResult(b"", b"", _TIMED_OUT))

            timer = self._storage.engine.after(seconds, over, f"timeout on {self.host}")

            def told(result: ExecResult) -> None:
                timer.cancel()
                ended(result)

            stop = program.follow(heard, told)

            def leave() -> None:
                timer.cancel()
                stop()

            return leave

        return Running(follow)

    def _machine(self, files: Filesystem) -> programs.Machine:
        kernel = self._storage.kernel(self.host)
        return programs.Machine(
            host=files,
            hostname=self.host,
            release=kernel.release,
            dmesg=kernel.dmesg,
            date="Jan  1 00:00",
            host_program=lambda path, _: ExecResult(b"", b"", 1, f"not modelled: {path}"),
            coreutils=True,
        )

    def _files(self) -> dict[str, Entry]:
        kernel = self._storage.kernel(self.host)
        found: dict[str, Entry] = {
            f"/usr/bin/{name}": text(_ELF, 0o755) for name in (*programs.NAMES, "dd", "timeout")
        }
        found |= {f"/usr/sbin/{name}": text(_ELF, 0o755) for name in _DRBD}
        for number, name in ((3, "null"), (5, "zero"), (9, "urandom")):
            found[f"/dev/{name}"] = Device(1, number)
        found["/proc/drbd"] = text(PROC_DRBD)
        found["/proc/uptime"] = text(f"{kernel.uptime:.2f} {kernel.uptime * 50:.2f}\n")
        found["/proc/sys/kernel/random/boot_id"] = text(f"{kernel.boot_id}\n")
        found["/proc/sys/kernel/hostname"] = text(f"{self.host}\n")
        found["/proc/sys/kernel/osrelease"] = text(f"{kernel.release}\n")
        for resource in self._storage.resources.values():
            found |= self._device(resource)
        found |= {path: File(_bytes(data), 0o644) for path, data in self._shell.files.items()}
        return found

    def _device(self, resource: Resource) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for replica in resource.replicas:
            if replica.host == self.host and not replica.lost_disk:
                found[replica.backing] = Device(230, 16 * resource.minor, 0o660, block=True)
        if resource.on(self.host) is not None:
            found[f"/dev/drbd{resource.minor}"] = Device(147, resource.minor, 0o660, block=True)
            found[f"/dev/drbd/by-res/{resource.name}/0"] = Link(f"../../../drbd{resource.minor}")
        return found


def _bytes(data: bytes) -> Callable[[], bytes]:
    return lambda: data
