"""What podman says: a container as it was made and how it stands, and why one does not start.

A container is read as it was *created*, before it first starts: the inspection of one that runs
mixes what it was given by CDI with what it asked for (its Env then has the specification's
variables, its Devices the injected nodes), and what it asked for stands in its CreateCommand alone.
All texts are podman's 4.3.1, with runc 1.1.5 and crun 1.8.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import at_path, epoch, listed, mapped, text_at
from harness.facts.probes import CDI_REFUSALS, PodAsStored
from harness.facts.reply import Output, plain, quote, unfinished

UNRESOLVED, NODE_MISSING, SOURCE_MISSING = CDI_REFUSALS
NOT_STARTED = "NotStarted"
"""The reason of every other refusal."""

_RUNTIMES = ("crun", "runc")
_REFUSED = {
    UNRESOLVED: re.compile(r"unresolvable CDI devices \S"),
    NODE_MISSING: re.compile(r"failed to stat CDI host device "),
    SOURCE_MISSING: re.compile(
        r"error mounting \"(?P<runc>[^\"]+)\" to rootfs .*no such file or directory"
        r"|crun: error stat'ing file `(?P<crun>[^`]+)`: No such file or directory"
    ),
}
_UNFIT = (
    (r"cannot open sd-bus", "pass podman --cgroup-manager=cgroupfs, for no systemd runs there"),
    (r"failed to create \d+ locks", "mount /dev/shm before podman runs"),
    (r": image not known", "import the probe's image into the machine's podman"),
    (r"setrlimit .*operation not permitted", "lower the limits with --ulimit"),
    (r"no space left on device", "give the machine more room for containers"),
    (r"\bpodman: (?:command )?not found", "install podman on the machine"),
)
"""What podman says where it can run no container at all, and what helps (lab/qemu_drbd.md, CDI)."""
_CDI_NAME = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w-]*=\S+")
_BY_ENV = ("NVIDIA_", "LD_")
_BY_ANNOTATION = ("cdi.k8s.io/", "nvidia.cdi.k8s.io/")
_BY_OPTION = ("--hooks-dir", "--gpus", "--rootfs")
_CONTAINER_ID = re.compile(r"unable to start container \"?[0-9a-f]{64}\"?: ")
_VERSION = re.compile(r"podman version (?P<version>\d+(?:\.\d+)+\S*)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a container did not start. ``reason`` is one of `CDI_REFUSALS` or `NOT_STARTED`;
    ``message`` podman's own last words, without the container's number."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Container(Fact):
    """A container as podman holds it; ``running`` says whether a command can be run in it."""

    stored: PodAsStored
    running: bool


def read_version(output: Output, *, at: float, source: str) -> str | Unread:
    """``podman --version`` as "podman 4.3.1"."""
    origin = output.origin(at, source)
    refused = unfinished(output, "podman --version", origin)
    found = _VERSION.search(plain(output.stdout))
    if refused is not None or found is None:
        why = f"no version of podman: {quote(output.text)}"
        return refused or Unread(origin, "podman --version", why)
    return f"podman {found['version']}"


def read_containers(
    output: Output,
    names: Sequence[str],
    node: str,
    *,
    hooks: Sequence[str] = (),
    at: float,
    source: str,
) -> tuple[Container, ...] | Unread:
    """Read the reply of ``podman inspect NAME...``, in this order; all of them or Unread.

    ``node`` is the machine that they are on; ``hooks`` are the paths of the OCI hooks that its
    podman runs in every container, which could bring a driver unseen.
    """
    origin = output.origin(at, source)
    asked = f"container {', '.join(names)}"
    refused = unfinished(output, asked, origin)
    if refused is not None:
        return refused
    try:
        found = json.loads(plain(output.stdout))
    except (ValueError, RecursionError) as error:
        return Unread(origin, asked, f"no JSON: {error}: {quote(output.stdout)}")
    rows = found if isinstance(found, list) else []
    if [text_at(one, "Name") for one in rows] != list(names):
        return Unread(origin, asked, f"not just the containers asked for: {quote(output.stdout)}")
    read = [_container(one, node, hooks, origin) for one in rows]
    lost = next((one for one in read if isinstance(one, Unread)), None)
    return lost or tuple(one for one in read if isinstance(one, Container))


def _container(one: Any, node: str, hooks: Sequence[str], origin: Origin) -> Container | Unread:
    name, status = text_at(one, "Name"), text_at(one, "State", "Status")
    if not status or not isinstance(at_path(one, "HostConfig"), dict):
        return Unread(origin, f"container {name}", f"no state in {quote(json.dumps(one))}")
    return Container(origin, _stored(one, name, node, status, hooks), status == "running")


def refusal(output: Output) -> Refusal | None:
    """Why ``podman start`` or ``podman run`` refused, None for one that did not."""
    if output.exit_code == 0:
        return None
    said = _CONTAINER_ID.sub("", _last_words(output))
    for reason, pattern in _REFUSED.items():
        if pattern.search(said):
            return Refusal(reason, said)
    return Refusal(NOT_STARTED, said)


def missing_source(message: str) -> str:
    """The machine's file that could not be mounted, as a refusal's message names it, "" if none."""
    found = _REFUSED[SOURCE_MISSING].search(message)
    return (found["runc"] or found["crun"]) if found else ""


def unfit(output: Output) -> str:
    """What to do where podman's words say that it can run no container at all, "" where not."""
    if output.exit_code == 0:
        return ""
    told = f"{output.stderr} {output.problem}"
    return next((do for text, do in _UNFIT if re.search(text, told, re.IGNORECASE)), "")


def _last_words(output: Output) -> str:
    lines = [line.strip() for line in plain(output.text).split("\n") if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")]
    if errors:
        return errors[-1]
    return lines[-1] if lines else output.problem or f"exit status {output.exit_code}"


def _stored(one: Any, name: str, node: str, status: str, hooks: Sequence[str]) -> PodAsStored:
    image = text_at(one, "ImageName")
    command = _options(one, image)
    asked = tuple(_devices(command))
    runtime = text_at(one, "OCIRuntime").rpartition("/")[2]
    return PodAsStored(
        pod=name,
        node=node,
        phase=status,
        reason="",
        message=text_at(one, "State", "Error"),
        created=epoch(text_at(one, "Created")),
        runtime_class="" if runtime in _RUNTIMES else runtime,
        requested=len(asked),
        image=f"{image}@{text_at(one, 'Image')[:12]}",
        aids=(*_aids(one, command, runtime), *(f"hook {path}" for path in hooks)),
        asked=asked,
    )


def _options(one: Any, image: str) -> list[str]:
    """The words of the command that made it, up to the image: what follows is the container's."""
    words = [str(word) for word in listed(one, "Config", "CreateCommand")]
    for at, word in enumerate(words):
        if word and word in (image, image.removesuffix(":latest")):
            return words[:at]
    return words


def _devices(words: Sequence[str]) -> Iterator[str]:
    for option, value in _pairs(words):
        if option == "--device" and _CDI_NAME.fullmatch(value):
            yield value


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word that may be an option, with what would be its value, in the same word or next."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        option, joined, value = word.partition("=")
        yield option, value if joined else following


def _aids(one: Any, command: Sequence[str], runtime: str) -> Iterator[str]:
    config, host = mapped(one, "Config"), mapped(one, "HostConfig")
    if runtime not in _RUNTIMES:
        yield f"runtime {runtime or 'unknown'}"
    if host.get("Privileged") is not False:
        yield "privileged container"
    for mount in listed(one, "Mounts"):
        kind = "volume" if text_at(mount, "Type") == "volume" else "host path"
        yield f"{kind} {text_at(mount, 'Name') or text_at(mount, 'Source')}"
    for device in listed(host, "Devices"):
        yield f"device {text_at(device, 'PathOnHost')}"
    for entry in listed(config, "Env"):
        if str(entry).startswith(_BY_ENV):
            yield f"variable {str(entry).partition('=')[0]}"
    for key in mapped(config, "Annotations"):
        if key.startswith(_BY_ANNOTATION):
            yield f"annotation {key}"
    for option, value in _pairs(command):
        if option in _BY_OPTION:
            yield f"{option} {value}"
    if listed(host, "VolumesFrom"):
        yield "volumes from another container"


def standing(made: PodAsStored, now: Container, why: Refusal | None) -> Container:
    """A container as it was made, standing as it does now, with why it did not start."""
    stored = replace(made, phase=now.stored.phase, message=now.stored.message)
    if why is not None and not now.running:
        stored = replace(stored, reason=why.reason, message=why.message)
    return Container(now.origin, stored, now.running)


def running(made: Container) -> Container:
    """A container as it was made, which runs: a command in it gave an answer."""
    return Container(made.origin, replace(made.stored, phase="running"), running=True)


def lost(origin: Origin, name: str, said: str) -> Unread:
    """A container that could not be made or asked; podman's words quoted."""
    return Unread(origin, f"container {name}", quote(said))
