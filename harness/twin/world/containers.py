"""What runs in containers: exec and logs of pods on hypervisors and on workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.world import (
    cluster_dns,
    container_images,
    container_programs,
    launcher_programs,
    satellites,
)
from harness.twin.world.launcher import CONSOLE_LOG
from harness.twin.world.objects import Obj, deep, labels_of, parse_rfc3339

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

_COMMON = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "KUBERNETES_SERVICE_PORT": "443",
}


def check_running(pod: Obj, container: str) -> str:
    """The container meant (the first where none is named). Raises ApiError unless it runs."""
    names = [c["name"] for c in pod["spec"]["containers"]]
    chosen = container or names[0]
    name = pod["metadata"]["name"]
    if chosen not in names:
        raise ApiError(400, f"container {chosen} is not valid for pod {name}")
    for status in deep(pod, "status", "containerStatuses") or ():
        if status["name"] == chosen and "running" in status.get("state", {}):
            return chosen
    raise ApiError(500, f'unable to upgrade connection: container not found ("{chosen}")')


def run_on_host(world: World, pod: Obj, container: str, argv: list[str]) -> ExecResult | Running:
    """A program in a pod of the management cluster: ``env`` and ``printenv`` are there, and in a
    satellite what `satellites` has."""
    world.power.check_answers(pod["spec"]["nodeName"])
    chosen = check_running(pod, container)
    if satellites.is_satellite(pod):
        return world.satellites.run(pod, argv)
    environment = {**_COMMON, "HOSTNAME": pod["metadata"]["name"], **world.hosts.environment(pod)}
    if labels_of(pod).get("kubevirt.io") != "virt-launcher" or chosen != "compute":
        environment = {**_COMMON, "HOSTNAME": pod["metadata"]["name"]}
    else:
        host = world.hosts.system_of(pod["spec"]["nodeName"])
        ran = world.engine.now - parse_rfc3339(pod["status"]["startTime"])
        seen = launcher_programs.run(argv, _guest_in(world, pod), host, ran)
        if seen is not None:
            return seen
    return _environment_program(argv, environment)


def _environment_program(argv: list[str], environment: dict[str, str]) -> ExecResult:
    lines = [f"{name}={value}" for name, value in environment.items()]
    program = argv[0].rpartition("/")[2] if argv else ""
    if program == "cat" and argv[1:] in (["/proc/1/environ"], ["/proc/self/environ"]):
        return ExecResult("".join(f"{line}\0" for line in lines).encode(), b"", 0)
    if program == "printenv" and argv[1:]:
        wanted = [environment[name] for name in argv[1:] if name in environment]
        text = "".join(f"{value}\n" for value in wanted)
        return ExecResult(text.encode(), b"", 0 if len(wanted) == len(argv) - 1 else 1)
    if program in ("env", "printenv") and not argv[1:]:
        return ExecResult("".join(f"{line}\n" for line in lines).encode(), b"", 0)
    missing = (
        "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
        f'unable to start container process: exec: "{argv[0] if argv else ""}": '
        "executable file not found in $PATH: unknown"
    )
    return ExecResult(b"", b"", 126, missing)


def run_on_worker(
    workers: Workers, pod: Obj, container: str, argv: list[str]
) -> ExecResult | Running:
    """A program in a pod on a tenant worker."""
    guest = workers.guest_of(pod["spec"]["nodeName"])
    if guest is None:
        raise ApiError(500, "error dialing backend: No agent available")
    chosen = check_running(pod, container)
    made = workers.container(pod, chosen)
    if argv[:1] == ["nslookup"] and made.image.userland == container_images.BUSYBOX:
        return cluster_dns.nslookup(workers.cluster, pod, argv[1:])
    return container_programs.run(argv, made, guest)


def log_of(world: World, pod: Obj, container: str, *, previous: bool = False) -> bytes:
    """A container's log: what its program said, or the guest's console.

    ``previous``: of the container that this one replaced. ApiError 400 where there was none.
    """
    if previous:
        _check_replaced(pod, container)
    if container == CONSOLE_LOG:
        guest = _guest_in(world, pod)
        return guest.console() if guest is not None else b""
    for workers in world.workers.values():
        if workers.guest_of(deep(pod, "spec", "nodeName") or "") is not None:
            return workers.logs.read(pod, container, previous=previous)
    world.power.check_answers(deep(pod, "spec", "nodeName") or "")
    lines = world.hosts.logs.get(pod["metadata"]["uid"], [])
    return "".join(f"{line}\n" for line in lines).encode()


def _check_replaced(pod: Obj, container: str) -> None:
    chosen = container or pod["spec"]["containers"][0]["name"]
    for kind in ("containerStatuses", "initContainerStatuses"):
        for status in deep(pod, "status", kind) or ():
            if status["name"] == chosen and "terminated" in (status.get("lastState") or {}):
                return
    name = pod["metadata"]["name"]
    raise ApiError(400, f'previous terminated container "{chosen}" in pod "{name}" not found')


def follow_log(
    world: World, pod: Obj, container: str, heard: Callable[[bytes], None]
) -> Callable[[], None]:
    """Hand what is added to a container's log from now on to ``heard``; returns how to stop."""
    if container == CONSOLE_LOG:
        guest = _guest_in(world, pod)
        return guest.follow_console(heard) if guest is not None else lambda: None
    for workers in world.workers.values():
        if workers.guest_of(deep(pod, "spec", "nodeName") or "") is not None:
            return workers.logs.follow(pod, container, heard)
    return world.hosts.follow_log(pod, heard)


def _guest_in(world: World, pod: Obj) -> Guest | None:
    return world.guests.named(labels_of(pod).get("vm.kubevirt.io/name", ""))
