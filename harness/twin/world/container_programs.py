"""Programs in a container: what it sees of the machine, what runs there, and its main process.

A container sees the machine's /proc and /sys, and so /proc/driver/nvidia, whatever it was given;
of /dev it has what it was made with. nvidia-smi's complaints are the program's own; that a device
node out of reach reads "Unknown Error" is known from containers that lost their cgroup's devices.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.world import container_images, container_runtime, cuda, nvidia, nvidia_smi
from harness.twin.world import programs as small
from harness.twin.world.container_runtime import Container
from harness.twin.world.disk_programs import NAMES as DISK_PROGRAMS
from harness.twin.world.disk_programs import DiskPrograms
from harness.twin.world.filesystem import (
    Device,
    Directory,
    Entry,
    File,
    Filesystem,
    Link,
    PathError,
    text,
)
from harness.twin.world.images import DRIVER_VERSION
from harness.twin.world.objects import Obj

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.nvidia import Card

_MACHINE_WIDE = ("/proc/", "/sys/")
_ALWAYS: Mapping[str, Entry] = {
    "/dev/null": Device(1, 3),
    "/dev/zero": Device(1, 5),
    "/dev/full": Device(1, 7),
    "/dev/random": Device(1, 8),
    "/dev/urandom": Device(1, 9),
    "/dev/tty": Device(5, 0),
}
_OWN_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_ELF = "\x7fELF\x02\x01\x01"
_LIBRARY = re.compile(r"/usr/lib64/|/usr/lib/x86_64-linux-gnu/|/usr/local/cuda/compat/")
_NAMES = (*DISK_PROGRAMS, "env", "find", "ldconfig", "printenv", "sleep")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the "
    "NVIDIA Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n"
)


def run(argv: Sequence[str], container: Container, guest: Guest) -> ExecResult | Running:
    """Run a program in a container that exists; the machine's devices and files are as now."""
    plain = partial(_run_plain, container=container, guest=guest)
    return DiskPrograms(container, guest, plain).run(argv)


def _run_plain(argv: Sequence[str], *, container: Container, guest: Guest) -> ExecResult:
    seen = files(container, guest.root.tree())
    return small.run(argv, _machine(container, guest, seen), seen)


def files(container: Container, host: Filesystem) -> Filesystem:
    """What a container sees."""
    entries: dict[str, Entry] = dict(_image(container))
    for path, entry in host.entries().items():
        if path.startswith(_MACHINE_WIDE) or (container.privileged and path.startswith("/dev/")):
            entries[path] = entry
    entries |= {path: entry for path, entry in _ALWAYS.items() if path not in entries}
    for inside, outside in container.nodes.items():
        entries |= _mounted(host, outside, inside)
    for inside, outside in container.mounts.items():
        entries |= _mounted(host, outside, inside)
    entries["/proc/mounts"] = entries["/proc/self/mounts"] = text(_mounts(container))
    entries |= {path: File(partial(bytes, data), 0o644) for path, data in container.files.items()}
    return Filesystem(entries)


def _mounts(container: Container) -> str:
    rows = ["overlay / overlay rw,relatime 0 0", "tmpfs /dev tmpfs rw,nosuid,size=65536k 0 0"]
    rows += [
        f"/dev/sd{'abcdef'[index % 6]} {path} ext4 rw,relatime 0 0"
        for index, path in enumerate(container.claims)
    ]
    return "".join(f"{row}\n" for row in rows)


def _image(container: Container) -> Iterable[tuple[str, Entry]]:
    image = container.image
    gnu = image.userland == container_images.COREUTILS
    yield "/etc/hostname", text(f"{container.hostname}\n")
    yield "/etc/os-release", text("ID=ubuntu\n" if gnu else 'NAME="BusyBox"\nID=busybox\n')
    yield "/tmp", Directory()
    if gnu:
        yield "/bin", Link("usr/bin")
        yield "/sbin", Link("usr/sbin")
    names = (*small.NAMES, *_NAMES, *(("bash",) if gnu else ()))
    for name in names:
        yield f"/usr/bin/{name}" if gnu else f"/bin/{name}", text(_ELF, 0o755)
    for path in image.programs:
        yield path, text(_ELF, 0o755)
    if image.driver:
        yield "/usr/bin/nvidia-smi", text(_ELF, 0o755)
        for name in ("cuda", "nvidia-ml"):
            yield f"{_OWN_LIBRARIES}/lib{name}.so.{image.driver}", text(_ELF, 0o755)


def _mounted(host: Filesystem, outside: str, inside: str) -> dict[str, Entry]:
    """A path of the host with everything below it, at another place; nothing where it is not."""
    try:
        real, entry = host.find(outside)
    except PathError:
        return {}
    found: dict[str, Entry] = {inside: entry}
    if isinstance(entry, Directory):
        root = real.rstrip("/")
        for path, each in host.entries().items():
            if path.startswith(f"{root}/"):
                found[inside + path[len(root) :]] = each
    return found


def _machine(container: Container, guest: Guest, seen: Filesystem) -> small.Machine:
    reach = _Reach(container, guest, seen)
    own: dict[str, small.Program] = {
        "env": lambda arguments: _env(container.env, arguments),
        "printenv": lambda arguments: _printenv(container.env, arguments),
        "find": lambda arguments: _find(seen, arguments),
        "ldconfig": lambda arguments: _ldconfig(seen, arguments),
        "sleep": _sleep,
        "bash": lambda arguments: small.run(["sh", *arguments], machine, seen),
        "nvidia-smi": reach.smi,
        posixpath.basename(container_images.VECTOR_ADD): reach.vector_add,
    }
    if not container.privileged:
        own["dmesg"] = lambda _: ExecResult(b"", b"dmesg: klogctl: Operation not permitted\n", 1)
    host = guest.machine()
    stuck = frozenset[str]() if container.image.dynamic else frozenset({"/usr/bin/nvidia-smi"})
    machine = replace(
        host,
        hostname=container.hostname,
        programs=own,
        unloadable=stuck,
        writes=host.writes if container.privileged else {},
        coreutils=container.image.userland == container_images.COREUTILS,
    )
    return machine


# -- the driver's programs


@dataclass(frozen=True, slots=True)
class _Reach:
    """What the driver's programs get hold of from inside a container."""

    container: Container
    guest: Guest
    seen: Filesystem

    def smi(self, arguments: Sequence[str]) -> ExecResult:
        """nvidia-smi."""
        driver = self.guest.driver()
        complaint = self._no_nvml(loaded=driver.loaded)
        if complaint is not None:
            return complaint
        found = self._cards()
        inside = replace(driver, cards=tuple(found.values()), minors=tuple(found))
        return nvidia_smi.run(arguments, inside)

    def _no_nvml(self, *, loaded: bool) -> ExecResult | None:
        versions = [p.rpartition(".so.")[2] for p in self._libraries("libnvidia-ml.so.")]
        if not versions:
            return ExecResult(_NO_LIBRARY.encode(), b"", 12)
        if not loaded:
            return None
        if DRIVER_VERSION not in versions:
            words = "Driver/library version mismatch\nNVML library version: "
            short = ".".join(versions[0].split(".")[:2])
            return _said(f"Failed to initialize NVML: {words}{short}\n", 18)
        if not self._has("nvidiactl"):
            return _said("Failed to initialize NVML: Unknown Error\n", 255)
        return None

    def vector_add(self, _: Sequence[str]) -> ExecResult:
        """NVIDIA's sample."""
        parameters = self.guest.driver().parameters
        cards = self._cards() if self._has("nvidiactl") else {}
        return cuda.vector_add(
            cuda.Reach(
                bool(self._libraries("libcuda.so.")),
                len(cards),
                self._has("nvidia-uvm"),
                any(nvidia.waits_for_fabric(card, parameters) for card in cards.values()),
            )
        )

    def _cards(self) -> dict[int, Card]:
        driven = self.guest.kernel.driven()
        return {minor: card for minor, card in enumerate(driven) if self._has(f"nvidia{minor}")}

    def _has(self, node: str) -> bool:
        """Whether a device node is there and may be opened: a mount alone gives no right to."""
        path = f"/dev/{node}"
        allowed = self.container.privileged or path in self.container.nodes
        return allowed and self.seen.exists(path)

    def _libraries(self, start: str) -> list[str]:
        return [path for path in libraries(self.seen) if posixpath.basename(path).startswith(start)]


def libraries(seen: Filesystem) -> list[str]:
    """The driver's libraries that the container's loader finds, by path."""
    return [
        path
        for path in sorted(seen.entries())
        if _LIBRARY.match(path) and ".so." in path and seen.exists(path)
    ]


def _said(words: str, exit_code: int) -> ExecResult:
    return ExecResult(words.encode(), b"", exit_code)


# -- small programs that the guest's own shell has no use for


def _env(environment: Mapping[str, str], arguments: Sequence[str]) -> ExecResult:
    if arguments:
        return ExecResult(b"", b"", 1, f"not modelled on this machine: env {shlex.join(arguments)}")
    return _said("".join(f"{name}={value}\n" for name, value in environment.items()), 0)


def _printenv(environment: Mapping[str, str], arguments: Sequence[str]) -> ExecResult:
    if not arguments:
        return _env(environment, ())
    found = [environment[name] for name in arguments if name in environment]
    return _said("".join(f"{value}\n" for value in found), int(len(found) < len(arguments)))


def _find(seen: Filesystem, arguments: Sequence[str]) -> ExecResult:
    """``find DIRECTORY... [-name PATTERN]``."""
    roots = [one for one in arguments if not one.startswith("-")]
    pattern = "*"
    if "-name" in arguments:
        at = list(arguments).index("-name")
        if at + 1 < len(arguments):
            pattern = arguments[at + 1]
            roots = [one for one in arguments[:at] if not one.startswith("-")]
    known = {"-name"}
    if any(one.startswith("-") and one not in known for one in arguments) or not roots:
        asked = shlex.join(arguments)
        return ExecResult(b"", b"", 1, f"not modelled on this machine: find {asked}")
    out, errors = "", ""
    for root in roots:
        if not seen.exists(root):
            errors += f"find: '{root}': No such file or directory\n"
            continue
        below = f"{root.rstrip('/')}/"
        for path in sorted(p for p in seen.entries() if p == root or p.startswith(below)):
            out += f"{path}\n" if fnmatchcase(posixpath.basename(path), pattern) else ""
    return ExecResult(out.encode(), errors.encode(), int(bool(errors)))


def _ldconfig(seen: Filesystem, arguments: Sequence[str]) -> ExecResult:
    if list(arguments) != ["-p"]:
        return _said("", 0)
    found = libraries(seen)
    rows = "".join(
        f"\t{posixpath.basename(path).partition('.so.')[0]}.so.1 (libc6,x86-64) => {path}\n"
        for path in found
    )
    return _said(f"{len(found)} libs found in cache `/etc/ld.so.cache'\n{rows}", 0)


def _sleep(arguments: Sequence[str]) -> ExecResult:
    if len(arguments) != 1 or span(arguments[0]) is None:
        shown = arguments[0] if arguments else ""
        return ExecResult(b"", f"sleep: invalid time interval '{shown}'\n".encode(), 1)
    return _said("", 0)


def span(word: str) -> float | None:
    """Seconds that ``sleep`` is asked for; infinity for ``infinity``, None for what it refuses."""
    if word in ("inf", "infinity"):
        return float("inf")
    match = _SPAN.fullmatch(word)
    return float(match[1]) * _UNITS[match[2]] if match else None


# -- the main process


@dataclass(frozen=True, slots=True)
class Process:
    """A container's main process.

    ``takes`` is an entry of the table of durations, seconds, or infinity for one that goes on for
    ever; ``run`` says at its end what it wrote and how it ended.
    """

    takes: str | float
    run: Callable[[], ExecResult]


_FOR_EVER = Process(float("inf"), lambda: ExecResult(b"", b"", 0))


def main(spec: Obj, container: Container, guest: Guest) -> Process:
    """The process that a container starts with. Raises CannotStart where it is not there."""
    image = container.image
    argv = _argv(spec, image.command)
    if not argv or (spec.get("tty") and spec.get("stdin")):
        return _FOR_EVER
    seen = files(container, guest.root.tree())
    real = small.find(argv[0], seen)
    stuck = real == "/usr/bin/nvidia-smi" and not image.dynamic
    if not real or stuck:
        if not image.known:
            return _FOR_EVER  # somebody's own program
        missing = f"exec {real}: no such file or directory" if stuck else small.not_found(argv[0])
        raise container_runtime.program_missing(missing)
    seconds = _asleep(argv)
    if seconds is not None:
        return Process(seconds, lambda: ExecResult(b"", b"", 0))
    if posixpath.basename(real) in ("sh", "bash") and len(argv) == 1:
        return Process("container.program", lambda: ExecResult(b"", b"", 0))  # no input to read
    if not image.known and posixpath.basename(real) in ("sh", "bash"):
        return _FOR_EVER  # somebody's own script
    sample = real == container_images.VECTOR_ADD
    takes = "cuda.program" if sample else "container.program"
    return Process(takes, lambda: _run_plain(argv, container=container, guest=guest))


def _argv(spec: Obj, command: Sequence[str]) -> list[str]:
    given, arguments = spec.get("command") or (), spec.get("args") or ()
    if given:
        return [str(one) for one in (*given, *arguments)]
    # the catalogue's images have a default command and no entry point, which arguments replace
    return [str(one) for one in arguments or command]


def _asleep(argv: Sequence[str]) -> float | None:
    """Seconds for which a process only waits; None for one that does something else."""
    words = list(argv)
    if len(words) == 3 and posixpath.basename(words[0]) in ("sh", "bash") and words[1] == "-c":
        try:
            words = shlex.split(words[2])
        except ValueError:
            return None
        words = words[1:] if words[:1] == ["exec"] else words
    if words == ["tail", "-f", "/dev/null"]:
        return float("inf")
    if len(words) == 2 and posixpath.basename(words[0]) == "sleep":
        return span(words[1])
    return None
