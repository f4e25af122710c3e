"""The operator's validator on a worker, and the pod with a CUDA kernel that it makes.

Stages, log texts, retries and status files: gpu_path.md section 5.1; GPO v26.3.1
``cmd/nvidia-validator/main.go``. Each stage is judged from what the machine really shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.gpu_operands import DRIVER, VALIDATIONS, VALIDATOR
from harness.twin.world.objects import Obj, deep, labels_of, rfc3339
from harness.twin.world.passages import POLL, Passage, Player

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest

CUDA_VALIDATOR = "nvidia-cuda-validator"
CUDA_STAGE = "cuda-validation"
_SMI = "/usr/bin/nvidia-smi"
_INJECTED = "/usr/local/bin/nvidia-smi"  # what the nvidia runtime brings into a container
_LOOKS_FOR_POD = 60  # podCreationWaitRetries
_LOOKS_FOR_GPU = 30  # gpuResourceDiscoveryWaitRetries


class Validator(Player):
    """Plays the pods of the validator."""

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """driver, toolkit, cuda, plugin."""
        return {
            "driver-validation": lambda passage: validate_driver(passage, "driver-validation"),
            "toolkit-validation": self._toolkit,
            CUDA_STAGE: self._cuda,
            "plugin-validation": self._plugin,
        }

    def main(self, passage: Passage) -> None:
        """Every stage is through: the pod sleeps until it is taken away."""
        passage.say(VALIDATOR, "all validations are successful")
        passage.serve()

    def ended(self, passage: Passage) -> None:
        """preStop, which only a container that runs gets: the node is not validated any more."""
        if passage.serving:
            for path in [p for p in passage.guest.tmpfs if _is_sentinel(p)]:
                del passage.guest.tmpfs[path]

    # -- toolkit

    def _toolkit(self, passage: Passage) -> None:
        drop(passage.guest, "toolkit-ready")

        def judge() -> None:
            ran = passage.guest.run(["chroot", "/host", _INJECTED])
            passage.say("toolkit-validation", *ran.stdout.decode().splitlines())
            if ran.exit_code:
                passage.say("toolkit-validation", "toolkit is not ready")
                passage.failed()
            else:
                leave(passage.guest, "toolkit-ready")
                passage.passed()

        passage.takes("validator.program", judge, "nvidia-smi in a container")

    # -- cuda

    def _cuda(self, passage: Passage) -> None:
        drop(passage.guest, "cuda-ready")
        cluster, namespace = self.workers.cluster, passage.pod["metadata"]["namespace"]
        for pod in cluster.all("v1", "Pod", namespace):
            ours = labels_of(pod).get("app") == CUDA_VALIDATOR
            if ours and deep(pod, "spec", "nodeName") == passage.node:
                cluster.remove(pod)
        try:
            made = cluster.create(_workload(cluster.find, passage), manager="nvidia-validator")
        except ApiError as refused:
            logrus(passage, CUDA_STAGE, "error", f"failed to create pod: {refused.message}")
            passage.after(1.0, passage.failed, "gives up")
            return
        self._await(passage, made, _LOOKS_FOR_POD)

    def _await(self, passage: Passage, made: Obj, looks: int) -> None:
        name = made["metadata"]["name"]
        found = self.workers.cluster.current(made)
        phase = deep(found or {}, "status", "phase") or "Pending"
        if phase == "Succeeded":
            logrus(passage, CUDA_STAGE, "info", f"pod {name} have run successfully")
            leave(passage.guest, "cuda-ready")
            passage.passed()
        elif found is None or looks == 0:
            text = "failed to get pod" if found is None else "gave up waiting for pod"
            logrus(passage, CUDA_STAGE, "error", f"{text} {name}")
            passage.failed()
        else:
            logrus(passage, CUDA_STAGE, "info", f"pod {name} is curently in {phase} phase")
            passage.after(POLL, lambda: self._await(passage, made, looks - 1), "looks at its pod")

    # -- plugin

    def _plugin(self, passage: Passage) -> None:
        drop(passage.guest, "plugin-ready")
        self._look(passage, 1)

    def _look(self, passage: Passage, turn: int) -> None:
        node = self.workers.cluster.find("v1", "Node", "", passage.node) or {}
        capacity = deep(node, "status", "capacity") or {}
        if any(int(n) for name, n in capacity.items() if name.startswith("nvidia.com/gpu")):
            leave(passage.guest, "plugin-ready")
            passage.passed()
        elif turn > _LOOKS_FOR_GPU:
            text = "GPU resources are not discovered by the node"
            logrus(passage, "plugin-validation", "error", text)
            passage.failed()
        else:
            text = f"GPU resources are not yet discovered by the node, retry: {turn}"
            logrus(passage, "plugin-validation", "info", text)
            passage.after(POLL, lambda: self._look(passage, turn + 1), "looks at its node")


class DriverGate(Player):
    """Plays the pods of the container toolkit, which wait for the driver as the validator does."""

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """driver."""
        return {"driver-validation": lambda passage: validate_driver(passage, "driver-validation")}


class CudaWorkload(Player):
    """Plays the pods that run a CUDA kernel for the validator."""

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """vectorAdd."""
        return {CUDA_STAGE: self._vector_add}

    def main(self, passage: Passage) -> None:
        """All was done before: a word, and the end."""
        passage.say(CUDA_VALIDATOR, "cuda workload validation is successful")
        passage.finish()

    def _vector_add(self, passage: Passage) -> None:
        def judge() -> None:
            problem = cuda_problem(passage.guest)
            passage.say(CUDA_STAGE, "[Vector addition of 50000 elements]")
            if problem:
                text = f"Failed to allocate device vector A (error code {problem})!"
                passage.say(CUDA_STAGE, text)
                passage.failed()
            else:
                passage.say(CUDA_STAGE, *_VECTOR_ADD)
                passage.passed()

        passage.takes("cuda.program", judge, "vectorAdd")


_VECTOR_ADD = (
    "Copy input data from the host memory to the CUDA device",
    "CUDA kernel launch with 196 blocks of 256 threads",
    "Copy output data from the CUDA device to the host memory",
    "Test PASSED",
    "Done",
)


def cuda_problem(guest: Guest) -> str:
    """Why a CUDA context does not come up on a machine, in CUDA's words; "" where it does.

    802, system not yet initialized: gpu_path.md section 4. No nvidia_uvm: inferred.
    """
    ran = guest.run(["chroot", "/host", _INJECTED, "-q"])
    if ran.exit_code:
        return "no CUDA-capable device is detected"
    if guest.kernel.module("nvidia_uvm") is None:
        return "unknown error"
    return "system not yet initialized" if "In Progress" in ran.stdout.decode() else ""


# -- the driver's stage


def validate_driver(passage: Passage, stage: str) -> None:
    """The first stage: a driver on the host, else endless looks for one in a container.

    A driver that appears on the host later is not looked for again.
    """
    drop(passage.guest, "driver-ready")
    logrus(passage, stage, "info", "Attempting to validate a pre-installed driver on the host")
    passage.takes("validator.program", lambda: _judge_driver(passage, stage), "nvidia-smi")


def _judge_driver(passage: Passage, stage: str) -> None:
    # S-GPO: beside a driver container, which clashes with the system's driver, it never passes
    managed = _managed(passage)
    problem = "" if managed else _host_driver(passage, stage)
    if not managed and not problem:
        logrus(passage, stage, "info", "Detected a pre-installed driver on the host")
        root = "IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\nDRIVER_ROOT_CTR_PATH=/host\n"
        leave(passage.guest, "driver-ready", f"{root}NVIDIA_DEV_ROOT=/\nDEV_ROOT_CTR_PATH=/host\n")
        passage.passed()
        return
    logrus(passage, stage, "info", f"No pre-installed driver detected on the host{problem}")
    logrus(passage, stage, "info", "Validating containerized driver installation")
    if managed:
        text = "Driver is not pre-installed on the host and is managed by GPU Operator. "
        logrus(passage, stage, "info", f"{text}Checking driver container status.")
        _retry_status(passage, stage)
    else:
        _retry_container(passage, stage)


def _host_driver(passage: Passage, stage: str) -> str:
    """What is wrong with the driver on the host, as a clause; "" where it works."""
    if not passage.guest.root.tree().exists(_SMI):
        return f": stat /host{_SMI}: no such file or directory"
    ran = passage.guest.run(["chroot", "/host", _SMI])
    passage.say(stage, *ran.stdout.decode().splitlines())
    return f": exit status {ran.exit_code}" if ran.exit_code else ""


def _managed(passage: Passage) -> bool:
    namespace = passage.pod["metadata"]["namespace"]
    return passage.workers.cluster.find("apps/v1", "DaemonSet", namespace, DRIVER) is not None


def _retry_status(passage: Passage, stage: str) -> None:
    path = f"{VALIDATIONS}/.driver-ctr-ready"
    passage.say(
        stage,
        f"running command sh with args [-c stat {path}]",
        f"stat: cannot statx '{path}': No such file or directory",
    )
    logrus(passage, stage, "warning", "error running command: exit status 1")
    passage.say(stage, "command failed, retrying after 5 seconds")
    passage.after(POLL, lambda: _retry_status(passage, stage), "looks for a driver container")


def _retry_container(passage: Passage, stage: str) -> None:
    logrus(passage, stage, "info", "Attempting to validate a driver container installation")
    text = "failed to validate the driver, retrying after 5 seconds"
    logrus(passage, stage, "warning", text)
    passage.after(POLL, lambda: _retry_container(passage, stage), "looks for a driver container")


# -- parts


def leave(guest: Guest, name: str, text: str = "") -> None:
    """Write one of the validator's status files on a machine."""
    guest.tmpfs[f"{VALIDATIONS}/{name}"] = text.encode()


def drop(guest: Guest, name: str) -> None:
    """Take one of the validator's status files away, if it is there."""
    guest.tmpfs.pop(f"{VALIDATIONS}/{name}", None)


def _is_sentinel(path: str) -> bool:
    name = path.removeprefix(f"{VALIDATIONS}/")
    return name != path and name.endswith("-ready") and not name.startswith(".")


def logrus(passage: Passage, container: str, level: str, message: str) -> None:
    """A line as the validator logs it."""
    moment = rfc3339(passage.world.engine.now)
    passage.say(container, f'time="{moment}" level={level} msg="{message}"')


def _workload(find: Callable[[str, str, str, str], Obj | None], passage: Passage) -> Obj:
    """The pod with the kernel: on this node, owned by what owns the validator's DaemonSet."""
    namespace, spec = passage.pod["metadata"]["namespace"], passage.pod["spec"]
    image = passage.container(CUDA_STAGE).get("image", "")
    parent = find("apps/v1", "DaemonSet", namespace, VALIDATOR) or {"metadata": {}}
    privileged = {"privileged": True}
    first = {
        "name": CUDA_STAGE,
        "image": image,
        "command": ["sh", "-c"],
        "args": ["vectorAdd"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "securityContext": privileged,
    }
    then = {
        "name": CUDA_VALIDATOR,
        "image": image,
        "command": ["sh", "-c"],
        "args": ["echo cuda workload validation is successful"],
        "securityContext": privileged,
    }
    pod: Obj = {
        "restartPolicy": "OnFailure",
        "nodeName": passage.node,
        "tolerations": spec.get("tolerations") or [],
        "initContainers": [first],
        "containers": [then],
    }
    if spec.get("runtimeClassName"):
        pod["runtimeClassName"] = spec["runtimeClassName"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{CUDA_VALIDATOR}-",
            "namespace": namespace,
            "labels": {"app": CUDA_VALIDATOR},
            "ownerReferences": parent["metadata"].get("ownerReferences") or [],
        },
        "spec": pod,
    }
