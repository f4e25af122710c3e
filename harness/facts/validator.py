"""How far the GPU operator's validator got on one node, stage by stage, and what it left behind.

Its init containers run one after the other: driver, toolkit, cuda, plugin (GPO
cmd/nvidia-validator/main.go). A later stage says nothing while an earlier one loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import Obj, at_path, listed, mapped, name_of, origin_of, text_at
from harness.facts.reply import Output, no_such_file, plain, quote, unfinished

VALIDATOR = "nvidia-operator-validator"
"""The DaemonSet, and the label ``app`` of its pods."""
CUDA = "nvidia-cuda-validator"
STAGES = ("driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation")
READY = "/run/nvidia/validations/driver-ready"


class StageState(StrEnum):
    """Where a container stands. ``waiting``: not started yet, or backing off."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ValidatorStage:
    """One container of a pod: its state with reason and message, and its last line where asked.

    ``exit_code`` is that of its last end, None where it never ended.
    """

    name: str
    state: StageState
    reason: str = ""
    message: str = ""
    restarts: int = 0
    exit_code: int | None = None
    last_line: str = ""

    def __str__(self) -> str:
        parts = [self.state.value, self.reason, self.message]
        ended = [f"ended with {self.exit_code}"] if self.exit_code else []
        again = [f"{self.restarts} restarts"] if self.restarts else []
        told = ", ".join(part for part in (*parts, *ended, *again) if part)
        return f"{told}: {self.last_line}" if self.last_line else told


@dataclass(frozen=True, slots=True)
class ValidatorPod(Fact):
    """The validator's pod of one node. ``restarts`` over all its containers.

    ``stages`` are its init containers in order; ``main`` the container that stays.
    """

    pod: str
    node: str
    phase: str
    restarts: int
    stages: tuple[ValidatorStage, ...]
    main: ValidatorStage | None = None

    @property
    def stuck(self) -> ValidatorStage | None:
        """The first stage that is not done."""
        return next((one for one in self.stages if one.state is not StageState.DONE), None)


@dataclass(frozen=True, slots=True)
class ValidatorAbsent(Fact):
    """The validator's pods were listed, and none of them is this node's."""

    node: str


@dataclass(frozen=True, slots=True)
class CudaValidation(Fact):
    """The pod by which the validator has a CUDA program run, and its exit status."""

    pod: str
    node: str
    phase: str
    exit_code: int | None
    reason: str
    last_line: str = ""


@dataclass(frozen=True, slots=True)
class DriverReady(Fact):
    """What the driver stage found, as it left it on the node for the device plugin."""

    entries: dict[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class DriverReadyAbsent(Fact):
    """The node has no such file: the driver stage has not passed, or its pod just went."""

    said: str


def validator_pod(pod: Any, *, at: float, cluster: str) -> ValidatorPod:
    """Read a pod of the validator's DaemonSet."""
    inits = {text_at(one, "name"): one for one in listed(pod, "status", "initContainerStatuses")}
    mains = listed(pod, "status", "containerStatuses")
    named = [text_at(one, "name") for one in listed(pod, "spec", "initContainers")]
    return ValidatorPod(
        origin=origin_of(pod, at, cluster),
        pod=name_of(pod),
        node=text_at(pod, "spec", "nodeName"),
        phase=text_at(pod, "status", "phase"),
        restarts=sum(_restarts(one) for one in (*inits.values(), *mains)),
        stages=tuple(stage(name, inits.get(name, {})) for name in named),
        main=stage(text_at(mains[0], "name"), mains[0]) if mains else None,
    )


def cuda_validation(pod: Any, *, at: float, cluster: str, last_line: str = "") -> CudaValidation:
    """Read a ``nvidia-cuda-validator`` pod: the program is run by the first of its containers that
    failed, else by its first init container (GPO cmd/nvidia-validator/main.go)."""
    statuses = [
        stage(text_at(one, "name"), one)
        for key in ("initContainerStatuses", "containerStatuses")
        for one in listed(pod, "status", key)
    ]
    failed = next((one for one in statuses if one.exit_code), None)
    shown = failed or (statuses[0] if statuses else None)
    return CudaValidation(
        origin=origin_of(pod, at, cluster),
        pod=name_of(pod),
        node=text_at(pod, "spec", "nodeName"),
        phase=text_at(pod, "status", "phase"),
        exit_code=shown.exit_code if shown else None,
        reason=(shown.reason if shown else "") or text_at(pod, "status", "reason"),
        last_line=last_line,
    )


def stage(name: str, status: Obj) -> ValidatorStage:
    """A container's stage from its entry in a pod's status, empty where it has none yet."""
    kinds = ("terminated", "running", "waiting")
    kind = next((one for one in kinds if isinstance(at_path(status, "state", one), dict)), "")
    now = mapped(status, "state", kind)
    code = now.get("exitCode") if kind == "terminated" else _last_exit(status)
    states = {"running": StageState.RUNNING, "waiting": StageState.WAITING}
    if kind == "terminated":
        state = StageState.DONE if code == 0 else StageState.FAILED
    else:
        state = states.get(kind, StageState.UNKNOWN)
    return ValidatorStage(
        name=name,
        state=state,
        reason=text_at(now, "reason"),
        message=text_at(now, "message"),
        restarts=_restarts(status),
        exit_code=code if isinstance(code, int) else None,
    )


def with_last_line(pod: ValidatorPod, name: str, log: str) -> ValidatorPod:
    """The pod with the last line of one stage's log put to that stage."""
    line = last_line(log)
    stages = tuple(replace(one, last_line=line) if one.name == name else one for one in pod.stages)
    return replace(pod, stages=stages)


def last_line(log: str) -> str:
    """The last line of a log that is not blank, "" where there is none."""
    lines = [line.strip() for line in plain(log).split("\n") if line.strip()]
    return lines[-1] if lines else ""


def read_driver_ready(
    output: Output, *, at: float, source: str
) -> DriverReady | DriverReadyAbsent | Unread:
    """Read the reply of ``cat /run/nvidia/validations/driver-ready``: KEY=value, a line each."""
    origin = output.origin(at, source)
    if output.exit_code not in (0, None) and no_such_file(READY, output.stderr):
        return DriverReadyAbsent(origin, output.stderr.strip())
    return unfinished(output, READY, origin) or _ready(plain(output.stdout), origin)


def _ready(text: str, origin: Origin) -> DriverReady | Unread:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.split("\n")):
        key, equals, value = line.strip().partition("=")
        if not equals or not key.replace("_", "").isalnum():
            return Unread(origin, READY, f"this line is no KEY=value: {quote(line)}")
        if key in found:
            return Unread(origin, READY, f"{key} is there twice: {quote(text)}")
        found[key] = value.strip('"')
    if not found:
        return Unread(origin, READY, "the file is empty")
    return DriverReady(origin, found)


def _restarts(status: Any) -> int:
    found = at_path(status, "restartCount")
    return found if isinstance(found, int) else 0


def _last_exit(status: Any) -> Any:
    return at_path(status, "lastState", "terminated", "exitCode")
