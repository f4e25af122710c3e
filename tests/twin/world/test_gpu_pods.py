"""What decides whether a pod gets a card: admission, injection, images, and what it then can do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.twin.world.gpu_devices import Allocation

BUDGET = 300.0
GPU = "nvidia.com/gpu"
SPACE = "probes"
H100 = "nvidia.com/GH100_H100_SXM5_80GB"
VECTOR_ADD = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
SLEEP = ["sleep", "2147483647"]
PLUGIN_SPEC = "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"


def create(lab: Any, name: str, image: str = "ubuntu:24.04", gpus: int = 1, **spec: Any) -> Any:
    """A pod with one container ``probe``; ``command`` and ``env`` go to the container."""
    container: dict[str, Any] = {"name": "probe", "image": image}
    container |= {key: spec.pop(key) for key in ("command", "env", "args") if key in spec}
    if gpus:
        container["resources"] = {"limits": {GPU: str(gpus)}}
    if image.startswith("ubuntu") and "command" not in container:
        container["command"] = SLEEP
    pod = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    kind = lab.tenant.registry.by_kind("v1", "Pod")
    return lab.tenant.create(kind, pod, namespace=SPACE)


def get(lab: Any, name: str) -> Any:
    return lab.tenant.find("v1", "Pod", SPACE, name)


def phase(lab: Any, name: str) -> str:
    return str(get(lab, name)["status"]["phase"])


def delete(lab: Any, name: str) -> None:
    lab.tenant.delete(lab.tenant.registry.by_kind("v1", "Pod"), SPACE, name)


def state(lab: Any, name: str) -> Any:
    return get(lab, name)["status"]["containerStatuses"][0]["state"]


def run(lab: Any, name: str, *argv: str) -> Any:
    return lab.world.exec("tenant-lab", SPACE, name, "probe", list(argv))


def said(lab: Any, name: str, *, previous: bool = False) -> str:
    text = lab.world.logs("tenant-lab", SPACE, name, "probe", previous=previous)
    return str(text.decode())


def of(lab: Any, name: str, reason: str) -> list[str]:
    found = lab.events(reason, lab.tenant)
    return [e["message"] for e in found if e["involvedObject"]["name"] == name]


def until_running(lab: Any, name: str) -> Any:
    lab.run_until(lambda: phase(lab, name) == "Running", 60)
    return get(lab, name)


def guest(lab: Any) -> Any:
    return lab.world.guests.all()[0]


def node(lab: Any) -> str:
    return str(lab.nodes()[0]["metadata"]["name"])


def amounts(lab: Any) -> tuple[str | None, str | None]:
    status = lab.nodes()[0]["status"]
    return status["capacity"].get(GPU), status["allocatable"].get(GPU)


def listed(lab: Any) -> list[str]:
    return [
        f"GPU {index}: {card.model} (UUID: {card.uuid})"
        for index, card in enumerate(guest(lab).cards)
    ]


@pytest.fixture
def bare(lab: Any) -> Any:
    """A lab in which no operator runs, so that only what a test plugs is there."""
    lab.tenant.edit(
        "apps/v1", "Deployment", "cozy-gpu-operator", "gpu-operator",
        lambda stored: stored["spec"].update(replicas=0), manager="kubectl",
    )  # fmt: skip
    lab.run(30)
    return space(lab)


def space(lab: Any) -> Any:
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    kind = lab.tenant.registry.by_kind("v1", "Namespace")
    lab.tenant.create(kind, {"metadata": {"name": SPACE, "labels": labels}}, namespace="")
    return lab


class Plugin:
    """A device plugin of the machine's own, with a strategy."""

    resource = GPU

    def __init__(self, lab: Any, strategy: str = "cdi", kind: str = "nvidia.com/gpu") -> None:
        self.guest, self.strategy, self.kind = guest(lab), strategy, kind
        self.asked: list[list[str]] = []

    def devices(self) -> tuple[str, ...]:
        return tuple(card.uuid for card in self.guest.kernel.driven())

    def allocate(self, ids: Any) -> Allocation:
        self.asked.append(list(ids))
        if self.strategy == "cdi":
            return Allocation(cdi_devices=tuple(f"{self.kind}={one}" for one in ids))
        nodes = tuple(f"/dev/nvidia{self.devices().index(one)}" for one in ids)
        if self.strategy == "nodes":
            return Allocation(
                {"NVIDIA_VISIBLE_DEVICES": ",".join(ids)},
                device_nodes=("/dev/nvidiactl", "/dev/nvidia-uvm", *nodes),
            )
        return Allocation({"NVIDIA_VISIBLE_DEVICES": ",".join(ids)})


@pytest.fixture
def worker(bare: Any) -> Any:
    """One GPU worker that has joined, with no plugin."""
    bare.gpu_pool()
    bare.run_until(bare.joined, BUDGET)
    bare.run(5)
    return bare


@pytest.fixture
def served(worker: Any) -> Any:
    """The same with a plugin that hands cards out by the machine's own CDI spec."""
    worker.plugin = Plugin(worker)
    worker.world.workers["lab"].plug(node(worker), worker.plugin)
    return worker


def test_with_the_operator_a_fresh_driverless_pod_lists_exactly_the_nodes_card(lab: Any) -> None:
    space(lab)
    lab.gpu_pool()
    lab.run_until(lambda: lab.nodes() and amounts(lab)[1] == "1", BUDGET)
    create(lab, "probe")
    pod = until_running(lab, "probe")
    assert run(lab, "probe", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(lab)
    assert "runtimeClassName" not in pod["spec"]
    assert not any("cdi.k8s.io" in key for key in pod["metadata"].get("annotations") or {})
    delete(lab, "probe")
    create(lab, "cuda", VECTOR_ADD, restartPolicy="Never")
    lab.run_until(lambda: phase(lab, "cuda") == "Succeeded", 120)
    assert "Test PASSED" in said(lab, "cuda").splitlines()


def test_a_pod_without_a_limit_gets_nothing_and_its_program_does_not_start(served: Any) -> None:
    create(served, "control", gpus=0)
    until_running(served, "control")
    ran = run(served, "control", "nvidia-smi", "-L")
    assert 'exec: "nvidia-smi": executable file not found in $PATH' in ran.error
    assert (ran.exit_code, ran.stdout) == (127, b"")
    ran = run(served, "control", "sh", "-c", "nvidia-smi -L")
    assert (ran.exit_code, ran.stderr) == (127, b"sh: 1: nvidia-smi: not found\n")
    ran = run(served, "control", "ls", "/dev/nvidia0")
    assert ran.exit_code == 2 and b"No such file or directory" in ran.stderr
    # what the kernel says everybody may read
    assert (
        b"Open Kernel Module" in run(served, "control", "cat", "/proc/driver/nvidia/version").stdout
    )


def test_the_scheduler_counts_what_was_handed_out(served: Any) -> None:
    create(served, "first")
    until_running(served, "first")
    create(served, "second")
    served.run(10)
    (event,) = of(served, "second", "FailedScheduling")
    assert "0/1 nodes are available: 1 Insufficient nvidia.com/gpu." in event
    assert amounts(served) == ("1", "1")  # allocatable is no count of what is free
    delete(served, "first")
    until_running(served, "second")
    assert run(served, "second", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(served)


def test_a_pod_bound_to_a_node_whose_cards_are_taken_is_refused_for_good(served: Any) -> None:
    create(served, "first")
    until_running(served, "first")
    create(served, "bound", nodeName=node(served))
    served.run(5)
    status = get(served, "bound")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "Requested: 1, Available: 0, which is unexpected" in status["message"]
    assert served.events("UnexpectedAdmissionError", served.tenant)
    delete(served, "first")
    served.run(60)
    assert phase(served, "bound") == "Failed"


def test_a_pod_from_before_the_resource_was_known_runs_without_it_and_keeps_its_place(
    worker: Any,
) -> None:
    create(worker, "early", nodeName=node(worker))
    early = until_running(worker, "early")
    worker.world.workers["lab"].plug(node(worker), Plugin(worker))
    worker.run(30)
    assert phase(worker, "early") == "Running"
    assert run(worker, "early", "nvidia-smi", "-L").error
    # what it asked for counts against the node all the same
    create(worker, "fresh")
    create(worker, "bound", nodeName=node(worker))
    worker.run(10)
    assert "Insufficient nvidia.com/gpu" in of(worker, "fresh", "FailedScheduling")[0]
    assert get(worker, "bound")["status"]["reason"] == "OutOfnvidia.com/gpu"
    assert "used: 1, capacity: 1" in get(worker, "bound")["status"]["message"]
    delete(worker, "early")
    until_running(worker, "fresh")
    assert run(worker, "fresh", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(worker)
    assert early["metadata"]["uid"] != get(worker, "fresh")["metadata"]["uid"]


def test_a_kubelet_keeps_the_capacity_of_a_lost_plugin_for_five_minutes(served: Any) -> None:
    workers = served.world.workers["lab"]
    workers.unplug(node(served), GPU)
    assert amounts(served) == ("1", "0")
    create(served, "bound", nodeName=node(served))
    served.run(5)
    status = get(served, "bound")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "no healthy devices present" in status["message"]
    served.run(300)
    assert amounts(served) == ("0", "0")
    create(served, "later", nodeName=node(served))
    served.run(5)
    assert get(served, "later")["status"]["reason"] == "OutOfnvidia.com/gpu"
    workers.plug(node(served), served.plugin)
    assert amounts(served) == ("1", "1")
    served.run(400)
    assert amounts(served) == ("1", "1")


def test_a_plugin_that_is_back_in_time_is_not_forgotten_later(served: Any) -> None:
    workers = served.world.workers["lab"]
    workers.unplug(node(served), GPU)
    served.run(200)
    workers.plug(node(served), served.plugin)
    served.run(40)
    assert amounts(served) == ("1", "1")
    workers.unplug(node(served), GPU)
    served.run(200)
    assert amounts(served) == ("1", "0")  # the five minutes begin anew
    served.run(100)
    assert amounts(served) == ("0", "0")


def test_a_reboot_forgets_the_plugin_and_refuses_the_pods_that_had_cards(served: Any) -> None:
    create(served, "old")
    create(served, "plain", gpus=0)
    for name in ("old", "plain"):
        until_running(served, name)
    guest(served).reboot()
    served.run_until(lambda: amounts(served) == ("0", "0"), 120)
    served.run(30)
    status = get(served, "old")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "terminated" in status["containerStatuses"][0]["state"]
    assert get(served, "plain")["status"]["containerStatuses"][0]["restartCount"] == 1
    served.world.workers["lab"].plug(node(served), served.plugin)
    create(served, "fresh")
    until_running(served, "fresh")
    assert run(served, "fresh", "nvidia-smi", "-L").exit_code == 0


def test_devices_that_no_spec_names_leave_the_container_uncreated_until_one_does(
    served: Any,
) -> None:
    spec = guest(served).tmpfs.pop("/run/cdi/nvidia.yaml")
    create(served, "probe")
    served.run(20)
    waiting = state(served, "probe")["waiting"]
    (card,) = guest(served).cards
    assert waiting["reason"] == "CreateContainerError"
    assert waiting["message"].endswith(f"unresolvable CDI devices nvidia.com/gpu={card.uuid}")
    assert phase(served, "probe") == "Pending"
    assert any("unresolvable" in e["message"] for e in served.events("Failed", served.tenant))
    guest(served).tmpfs["/run/cdi/nvidia.yaml"] = spec
    until_running(served, "probe")
    assert run(served, "probe", "nvidia-smi", "-L").exit_code == 0


def test_what_a_container_got_stays_until_it_is_made_again(served: Any) -> None:
    create(served, "probe")
    until_running(served, "probe")
    del guest(served).tmpfs["/run/cdi/nvidia.yaml"]
    served.world.workers["lab"].unplug(node(served), GPU)
    served.run(60)
    assert run(served, "probe", "nvidia-smi", "-L").exit_code == 0


@pytest.mark.parametrize(
    ("runtime", "image", "env", "works"),
    [
        ("", "ubuntu:24.04", [], False),
        ("nvidia", "ubuntu:24.04", [], True),
        ("nvidia", "ubuntu:24.04", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], False),
    ],
)
def test_a_variable_works_only_with_the_nvidia_runtime(
    worker: Any, runtime: str, image: str, env: Any, *, works: bool
) -> None:
    runtime_class(worker)
    worker.world.workers["lab"].plug(node(worker), Plugin(worker, "env"))
    more = {"runtimeClassName": runtime} if runtime else {}
    create(worker, "probe", image, env=env, **more)
    until_running(worker, "probe")
    found = run(worker, "probe", "env").stdout.decode().splitlines()
    (card,) = guest(worker).cards
    if not env:
        shown = "void" if works else card.uuid
        assert f"NVIDIA_VISIBLE_DEVICES={shown}" in found
    ran = run(worker, "probe", "nvidia-smi", "-L")
    assert (ran.error == "") is works


def runtime_class(lab: Any) -> None:
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    if lab.tenant.find("node.k8s.io/v1", "RuntimeClass", "", "nvidia") is None:
        kind = lab.tenant.registry.by_kind("node.k8s.io/v1", "RuntimeClass")
        lab.tenant.create(kind, {**made, "handler": "nvidia"}, namespace="")


def test_the_runtime_class_gives_every_card_to_who_asks_by_a_variable(worker: Any) -> None:
    runtime_class(worker)
    create(worker, "mask", "nvcr.io/nvidia/cuda:12.5.0-base-ubuntu22.04", gpus=0, command=SLEEP,
           runtimeClassName="nvidia")  # fmt: skip
    until_running(worker, "mask")
    assert run(worker, "mask", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(worker)


def test_a_runtime_class_that_is_not_there_makes_no_sandbox(worker: Any) -> None:
    create(worker, "probe", gpus=0, runtimeClassName="other")
    worker.run(30)
    assert phase(worker, "probe") == "Pending"
    (event,) = of(worker, "probe", "FailedCreatePodSandBox")
    assert 'RuntimeClass.node.k8s.io "other" not found' in event


def test_an_image_with_a_driver_works_as_soon_as_it_has_the_device_nodes(worker: Any) -> None:
    image = "nvcr.io/nvidia/driver:595.45.04-ubuntu24.04"
    create(worker, "without", image, gpus=0, command=SLEEP)
    until_running(worker, "without")
    ran = run(worker, "without", "nvidia-smi", "-L")
    assert (ran.exit_code, ran.stdout) == (255, b"Failed to initialize NVML: Unknown Error\n")
    worker.world.workers["lab"].plug(node(worker), Plugin(worker, "nodes"))
    create(worker, "bundled", image, command=SLEEP)
    until_running(worker, "bundled")
    found = run(worker, "bundled", "nvidia-smi", "-L").stdout.decode().splitlines()
    assert found == listed(worker)
    delete(worker, "bundled")
    create(worker, "other", "nvcr.io/nvidia/driver:550.90.07-ubuntu22.04", command=SLEEP)
    until_running(worker, "other")
    ran = run(worker, "other", "nvidia-smi")
    assert ran.exit_code == 18
    assert ran.stdout.startswith(b"Failed to initialize NVML: Driver/library version mismatch\n")
    delete(worker, "other")
    create(worker, "plain")  # device nodes alone are no driver
    until_running(worker, "plain")
    assert run(worker, "plain", "nvidia-smi").error
    assert run(worker, "plain", "sh", "-c", "ls /dev/nvidia*").stdout.decode().split() == [
        "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl",
    ]  # fmt: skip


@pytest.mark.parametrize("privileged", [True, False])
def test_a_mount_of_the_hosts_devices_gives_no_right_to_open_them(
    worker: Any, *, privileged: bool
) -> None:
    container = {
        "name": "probe",
        "image": "nvcr.io/nvidia/driver:595.45.04-ubuntu24.04",
        "command": SLEEP,
        "volumeMounts": [{"name": "dev", "mountPath": "/dev"}],
        "securityContext": {"privileged": privileged},
    }
    volumes = [{"name": "dev", "hostPath": {"path": "/dev"}}]
    pod = {"metadata": {"name": "odd"}, "spec": {"containers": [container], "volumes": volumes}}
    worker.tenant.create(worker.tenant.registry.by_kind("v1", "Pod"), pod, namespace=SPACE)
    until_running(worker, "odd")
    assert run(worker, "odd", "ls", "/dev/nvidia0").exit_code == 0
    ran = run(worker, "odd", "nvidia-smi", "-L")
    assert ran.exit_code == (0 if privileged else 255)


def test_a_container_sees_its_own_cards_alone(bare: Any) -> None:
    gpu = {"name": "nvidia.com/AD102GL_L40S"}
    bare.gpu_pool(gpus=[gpu, gpu])
    bare.run_until(bare.joined, BUDGET)
    bare.run(5)
    bare.world.workers["lab"].plug(node(bare), Plugin(bare))
    for name in ("one", "two"):
        create(bare, name)
        until_running(bare, name)
    cards = guest(bare).cards
    for index, name in enumerate(("one", "two")):
        text = run(bare, name, "nvidia-smi", "-L").stdout.decode()
        assert text == f"GPU 0: NVIDIA L40S (UUID: {cards[index].uuid})\n"
        assert re.search(
            rf"Minor Number +: {index}\n", run(bare, name, "nvidia-smi", "-q").stdout.decode()
        )
    for name in ("one", "two"):
        delete(bare, name)
    create(bare, "both", gpus=2)
    until_running(bare, "both")
    assert run(bare, "both", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(bare)


def test_a_static_image_cannot_load_the_injected_program(served: Any) -> None:
    create(served, "probe", "busybox:1.37", command=SLEEP)
    until_running(served, "probe")
    ran = run(served, "probe", "nvidia-smi", "-L")
    assert "exec /usr/bin/nvidia-smi: no such file or directory" in ran.error
    assert run(served, "probe", "ls", "/usr/bin/nvidia-smi").exit_code == 0
    assert run(served, "probe", "sh", "-c", "nvidia-smi").exit_code == 127


@pytest.mark.parametrize("disabled", [True, False])
def test_an_sxm_card_works_only_without_its_fabric(bare: Any, *, disabled: bool) -> None:
    modules = [
        {"name": "nvidia", **({"parameters": ["NVreg_NvLinkDisable=1"]} if disabled else {})},
        {"name": "nvidia_uvm"},
        {"name": "nvidia_drm"},
        {"name": "nvidia_modeset"},
    ]
    bare.gpu_pool(gpu=H100, kernelModules=modules)
    bare.run_until(bare.joined, BUDGET)
    bare.run(5)
    bare.world.workers["lab"].plug(node(bare), Plugin(bare))
    create(bare, "cuda", VECTOR_ADD, restartPolicy="Never")
    bare.run_until(lambda: phase(bare, "cuda") in ("Succeeded", "Failed"), 60)
    create(bare, "probe")
    until_running(bare, "probe")
    long = run(bare, "probe", "nvidia-smi", "-q").stdout.decode()
    assert "H100" in run(bare, "probe", "nvidia-smi", "-L").stdout.decode()
    assert guest(bare).run(["chroot", "/host", "nvidia-smi", "-q"]).stdout.decode() == long
    (fabric,) = re.findall(r"Fabric\n +State +: (.*)\n", long)
    assert fabric == ("N/A" if disabled else "In Progress")
    lines = said(bare, "cuda").splitlines()
    ended = state(bare, "cuda")["terminated"]
    if disabled:
        assert (lines[-2:], ended["exitCode"]) == (["Test PASSED", "Done"], 0)
    else:
        assert "error code system not yet initialized" in lines[-1]
        assert (phase(bare, "cuda"), ended["exitCode"], ended["reason"]) == ("Failed", 1, "Error")


def test_a_cuda_program_says_why_it_has_no_card(worker: Any) -> None:
    create(worker, "bare", VECTOR_ADD, gpus=0, restartPolicy="Never")
    worker.run_until(lambda: phase(worker, "bare") == "Failed", 60)
    assert "CUDA driver version is insufficient for CUDA runtime version" in said(worker, "bare")
    runtime_class(worker)
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]
    create(worker, "none", VECTOR_ADD, gpus=0, restartPolicy="Never", env=env,
           runtimeClassName="nvidia")  # fmt: skip
    worker.run_until(lambda: phase(worker, "none") == "Failed", 60)
    assert "no CUDA-capable device is detected" in said(worker, "none")


def test_a_cuda_pod_frees_its_card_when_it_ends(served: Any) -> None:
    for name in ("first", "second"):
        create(served, name, VECTOR_ADD, restartPolicy="Never")
    served.run_until(
        lambda: [phase(served, name) for name in ("first", "second")] == ["Succeeded"] * 2, 60
    )
    assert [len(ids) for ids in served.plugin.asked] == [1, 1]


def test_a_machine_whose_driver_drives_nothing_cannot_start_a_container_of_the_nvidia_runtime(
    bare: Any,
) -> None:
    bare.gpu_pool(kernelModules=[{"name": "nf_tables"}])
    bare.run_until(lambda: bare.nodes() and bare.joined(), BUDGET)
    runtime_class(bare)
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    create(bare, "probe", gpus=0, env=env, runtimeClassName="nvidia", restartPolicy="Never")
    bare.run_until(lambda: phase(bare, "probe") == "Failed", 60)
    ended = state(bare, "probe")["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert "ERROR_DRIVER_NOT_LOADED" in ended["message"]


def test_a_spec_with_a_hook_that_is_not_on_the_host_starts_nothing(served: Any) -> None:
    text = guest(served).tmpfs["/run/cdi/nvidia.yaml"]
    guest(served).tmpfs["/run/cdi/nvidia.yaml"] = text.replace(
        b"/usr/local/bin/nvidia-cdi", b"/opt/x"
    )
    create(served, "probe", restartPolicy="Never")
    served.run_until(lambda: phase(served, "probe") == "Failed", 60)
    message = state(served, "probe")["terminated"]["message"]
    assert "error running createContainer hook #0: fork/exec /opt/x" in message


def test_a_spec_with_a_mount_or_a_device_that_is_not_on_the_host(served: Any) -> None:
    path = "/run/cdi/nvidia.yaml"
    text = guest(served).tmpfs[path]
    guest(served).tmpfs[path] = text.replace(b"hostPath: /usr/local/bin", b"hostPath: /gone")
    create(served, "mount", restartPolicy="Never")
    served.run_until(lambda: phase(served, "mount") == "Failed", 60)
    assert (
        'error mounting "/gone/nvidia-smi" to rootfs'
        in state(served, "mount")["terminated"]["message"]
    )
    guest(served).tmpfs[path] = text.replace(b"path: /dev/nvidia0", b"path: /dev/nvidia9")
    create(served, "device")
    served.run(20)
    waiting = state(served, "device")["waiting"]
    assert waiting["reason"] == "CreateContainerError"
    assert 'failed to stat CDI host device "/dev/nvidia9"' in waiting["message"]


def test_what_the_plugins_daemonset_says_decides_what_the_next_pod_gets(lab: Any) -> None:
    """One variable taken from the live DaemonSet: from working by CDI to nodes without a driver."""
    space(lab)
    lab.gpu_pool()
    lab.run_until(lambda: lab.nodes() and amounts(lab)[1] == "1", BUDGET)
    create(lab, "before")
    until_running(lab, "before")
    assert run(lab, "before", "nvidia-smi", "-L").exit_code == 0
    delete(lab, "before")

    def change(stored: Any) -> None:
        container = stored["spec"]["template"]["spec"]["containers"][0]
        kept = [one for one in container["env"] if one["name"] != "DEVICE_LIST_STRATEGY"]
        container["env"] = kept

    lab.tenant.edit("apps/v1", "DaemonSet", "cozy-gpu-operator", "nvidia-device-plugin-daemonset",
                    change, manager="kubectl")  # fmt: skip
    lab.run_until(lambda: amounts(lab)[1] == "0", 60)
    lab.run_until(lambda: amounts(lab)[1] == "1", 60)
    create(lab, "after")
    until_running(lab, "after")
    assert "executable file not found" in run(lab, "after", "nvidia-smi", "-L").error
    delete(lab, "after")
    create(lab, "bundled", "nvcr.io/nvidia/driver:595.45.04-ubuntu24.04", command=SLEEP)
    until_running(lab, "bundled")
    assert run(lab, "bundled", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(lab)


def test_a_node_whose_default_runtime_is_nvidias_helps_every_pod_in_secret(worker: Any) -> None:
    worker.world.workers["lab"].plug(node(worker), Plugin(worker, "env"))
    guest(worker).default_runtime = "nvidia"
    create(worker, "probe")
    until_running(worker, "probe")
    assert run(worker, "probe", "nvidia-smi", "-L").stdout.decode().splitlines() == listed(worker)


def test_an_sxm_pool_gets_the_parameter_without_asking(lab: Any) -> None:
    space(lab)
    lab.gpu_pool(gpu=H100)
    lab.run_until(lambda: lab.nodes() and amounts(lab)[1] == "1", BUDGET)
    fabric = guest(lab).run(["chroot", "/host", "nvidia-smi", "-q"]).stdout.decode()
    assert "In Progress" not in fabric  # the pool's automatic modules have NvLinkDisable=1
