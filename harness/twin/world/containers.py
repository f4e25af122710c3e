"""What runs in containers: exec and logs of pods on hypervisors and on workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world.launcher import CONSOLE_LOG
from harness.twin.world.objects import Obj, deep, labels_of

if TYPE_CHECKING:
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


def run_on_host(world: World, pod: Obj, container: str, argv: list[str]) -> ExecResult:
    """A program in a pod of the management cluster: ``env`` and ``printenv`` are there."""
    chosen = check_running(pod, container)
    environment = {**_COMMON, "HOSTNAME": pod["metadata"]["name"], **world.hosts.environment(pod)}
    if labels_of(pod).get("kubevirt.io") != "virt-launcher" or chosen != "compute":
        environment = {**_COMMON, "HOSTNAME": pod["metadata"]["name"]}
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


def run_on_worker(workers: Workers, pod: Obj, container: str, argv: list[str]) -> ExecResult:
    """A program in a pod on a tenant worker."""
    guest = workers.guest_of(pod["spec"]["nodeName"])
    if guest is None:
        raise ApiError(500, "error dialing backend: No agent available")
    chosen = check_running(pod, container)
    if not _mounts_host(pod, chosen) and any(part.startswith("/host") for part in argv[1:]):
        program = argv[0].rpartition("/")[2]
        path = next(part for part in argv[1:] if part.startswith("/host"))
        text = f"{program}: can't open '{path}': No such file or directory\n"
        return ExecResult(b"", text.encode(), 1)
    return guest.run(argv)


def _mounts_host(pod: Obj, container: str) -> bool:
    roots = [
        volume["name"]
        for volume in pod["spec"].get("volumes") or ()
        if deep(volume, "hostPath", "path") == "/"
    ]
    return any(
        mount["name"] in roots and mount["mountPath"] == "/host"
        for one in pod["spec"]["containers"]
        if one["name"] == container
        for mount in one.get("volumeMounts") or ()
    )


def log_of(world: World, pod: Obj, container: str) -> bytes:
    """A container's log: what its program said, or the guest's console."""
    if container == CONSOLE_LOG:
        name = labels_of(pod).get("vm.kubevirt.io/name", "")
        guest = world.guests.named(name)
        return guest.console() if guest is not None else b""
    lines = world.hosts.logs.get(pod["metadata"]["uid"], [])
    return "".join(f"{line}\n" for line in lines).encode()
