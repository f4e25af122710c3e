"""The GPU operator in a tenant: from a worker with a card to allocatable, and what stops it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.world.gpu_devices import Allocation, DevicePlugin
from harness.twin.world.images import NVIDIA_NONFREE, VANILLA

BUDGET = 300.0
SPACE = "cozy-gpu-operator"
GPU = "nvidia.com/gpu"
POLICY = ("nvidia.com/v1", "ClusterPolicy")
GB202 = "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"
CDI_SPEC = "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
READY = "/run/nvidia/validations"


def operands(lab: Any, app: str) -> list[Any]:
    found = lab.tenant.all("v1", "Pod", SPACE)
    return [pod for pod in found if (pod["metadata"].get("labels") or {}).get("app") == app]


def operand(lab: Any, app: str) -> Any:
    (found,) = operands(lab, app)
    return found


def daemonset(lab: Any, name: str) -> Any:
    return lab.tenant.find("apps/v1", "DaemonSet", SPACE, name)


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in (obj.get("status") or {}).get("conditions") or () if c["type"] == kind]
    return found[0].get(field) if found else None


def allocatable(lab: Any) -> list[str | None]:
    return [node["status"]["allocatable"].get(GPU) for node in lab.nodes()]


def containers(pod: Any, kind: str = "initContainerStatuses") -> dict[str, Any]:
    return {one["name"]: one for one in (pod.get("status") or {}).get(kind) or ()}


def stage(lab: Any) -> str:
    """The validator's init container that is not through; "" when all are."""
    found = containers(operand(lab, "nvidia-operator-validator"))
    return next((name for name, one in found.items() if not one["ready"]), "")


def log(lab: Any, pod: Any, container: str) -> str:
    name = pod["metadata"]["name"]
    return str(lab.world.logs("tenant-lab", SPACE, name, container).decode())


def env(lab: Any, name: str) -> dict[str, str]:
    container = daemonset(lab, name)["spec"]["template"]["spec"]["containers"][0]
    return {one["name"]: one.get("value", "") for one in container["env"]}


def edit_cluster(lab: Any, change: Any) -> None:
    """Change the values of the Kubernetes application, as kubectl edit does."""
    lab.management.edit(
        "apps.cozystack.io/v1alpha1", "Kubernetes", "tenant-hil", "lab", change, manager="kubectl"
    )


def edit_daemonset(lab: Any, name: str, change: Any) -> None:
    lab.tenant.edit("apps/v1", "DaemonSet", SPACE, name, change, manager="kubectl-edit")


def drop_variable(name: str) -> Any:
    def change(stored: Any) -> None:
        container = stored["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [one for one in container["env"] if one["name"] != name]

    return change


def guest(lab: Any) -> Any:
    return lab.world.guests.all()[0]


def registrations(lab: Any) -> list[DevicePlugin]:
    """The device plugins that register from now on, oldest first."""
    workers, seen = lab.world.workers["lab"], []
    plug = workers.plug

    def record(node: str, plugin: DevicePlugin) -> None:
        seen.append(plugin)
        plug(node, plugin)

    workers.plug = record
    return seen


def allocation(lab: Any) -> Allocation:
    """What the kubelet would get for the first card from the plugin that registered last."""
    plugin = lab.plugins[-1]
    found: Allocation = plugin.allocate(plugin.devices()[:1])
    return found


@pytest.fixture
def served(lab: Any) -> Any:
    """A lab with one GPU worker that advertises its card, its operands all up."""
    lab.plugins = registrations(lab)
    # all at once, so that the plugin is there before the validator is through
    lab.world.timings.override("operand.start", 3.0)
    lab.gpu_pool()
    lab.run_until(lambda: allocatable(lab) == ["1"], BUDGET)
    lab.run_until(lambda: policy(lab)["status"]["state"] == "ready" and reason(lab), 60)
    return lab


def policy(lab: Any) -> Any:
    return lab.one(*POLICY, lab.tenant)


def reason(lab: Any) -> bool:
    return condition(policy(lab), "Ready", "reason") == "Reconciled"


def test_a_tenant_without_nodes_has_a_green_policy_that_says_nothing(lab: Any) -> None:
    lab.run(60)
    assert policy(lab)["status"]["state"] == "ready"
    assert condition(policy(lab), "Ready") == "True"
    assert condition(policy(lab), "Ready", "reason") == "NFDLabelsMissing"
    assert lab.tenant.all("apps/v1", "DaemonSet", SPACE) == [
        daemonset(lab, "gpu-operator-node-feature-discovery-worker")
    ]


def test_a_tenant_with_a_plain_node_says_no_gpu_nodes_and_is_green(lab: Any) -> None:
    lab.pool("plain")
    lab.run_until(lab.joined, BUDGET)
    lab.run(60)
    assert condition(policy(lab), "Ready", "reason") == "NoGPUNodes"
    assert policy(lab)["status"]["state"] == "ready"
    (node,) = lab.nodes()
    assert node["metadata"]["labels"]["feature.node.kubernetes.io/pci-1af4.present"] == "true"
    assert "feature.node.kubernetes.io/pci-10de.present" not in node["metadata"]["labels"]
    assert daemonset(lab, "nvidia-operator-validator") is None


def test_a_worker_with_a_card_is_found_validated_and_advertised(served: Any) -> None:
    (node,) = served.nodes()
    labels = node["metadata"]["labels"]
    assert labels["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert labels["nvidia.com/gpu.present"] == "true"
    for one in ("device-plugin", "operator-validator", "gpu-feature-discovery", "dcgm-exporter"):
        assert labels[f"nvidia.com/gpu.deploy.{one}"] == "true"
    assert node["status"]["capacity"][GPU] == "1"
    served.run_until(
        lambda: "nvidia.com/gpu.product" in served.nodes()[0]["metadata"]["labels"], 60
    )
    labels = served.nodes()[0]["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-L40S"
    assert labels["nvidia.com/gpu.count"] == "1"
    assert labels["nvidia.com/gpu.memory"] == "46068"
    for name in ("nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset"):
        assert daemonset(served, name) is None
    runtime = served.one("node.k8s.io/v1", "RuntimeClass", served.tenant)
    assert (runtime["metadata"]["name"], runtime["handler"]) == ("nvidia", "nvidia")


def test_every_card_of_a_worker_is_advertised(lab: Any) -> None:
    lab.gpu_pool(gpus=[{"name": "nvidia.com/AD102GL_L40S"}] * 2, instanceType="u1.xlarge")
    lab.run_until(lambda: allocatable(lab) == ["2"], BUDGET)
    lab.run(20)
    assert lab.nodes()[0]["metadata"]["labels"]["nvidia.com/gpu.count"] == "2"


def test_the_validator_went_through_its_stages_without_a_restart(served: Any) -> None:
    pod = operand(served, "nvidia-operator-validator")
    found = containers(pod)
    assert list(found) == [
        "driver-validation",
        "toolkit-validation",
        "cuda-validation",
        "plugin-validation",
    ]
    for one in (*found.values(), *containers(pod, "containerStatuses").values()):
        assert one["restartCount"] == 0
    assert all(one["state"]["terminated"]["exitCode"] == 0 for one in found.values())
    text = log(served, pod, "driver-validation")
    assert "Attempting to validate a pre-installed driver on the host" in text
    assert "Detected a pre-installed driver on the host" in text
    assert log(served, pod, "nvidia-operator-validator") == "all validations are successful\n"
    cuda = operand(served, "nvidia-cuda-validator")
    assert cuda["status"]["phase"] == "Succeeded"
    assert cuda["metadata"]["name"].startswith("nvidia-cuda-validator-")
    assert "Test PASSED" in log(served, cuda, "cuda-validation")


def test_the_status_files_are_on_the_machine(served: Any) -> None:
    tree = guest(served).root.tree()
    assert tree.listing(READY) == ["cuda-ready", "driver-ready", "plugin-ready", "toolkit-ready"]
    lines = tree.read(f"{READY}/driver-ready").decode().splitlines()
    assert lines[0] == "IS_HOST_DRIVER=true"
    assert "NVIDIA_DRIVER_ROOT=/" in lines and "DRIVER_ROOT_CTR_PATH=/host" in lines


def test_the_plugin_waited_for_the_validator_and_wrote_its_cdi_spec(served: Any) -> None:
    pod = operand(served, "nvidia-device-plugin-daemonset")
    waited = log(served, pod, "toolkit-validation")
    assert "waiting for nvidia container stack to be setup" in waited
    said = log(served, pod, "nvidia-device-plugin")
    assert said.index("IS_HOST_DRIVER=true") < said.index("Registered device plugin")
    card = guest(served).cards[0]
    spec = guest(served).tmpfs[CDI_SPEC].decode()
    assert '"kind":"k8s.device-plugin.nvidia.com/gpu"' in spec and card.uuid in spec
    assert '"path":"/usr/local/bin/nvidia-ctk"' in spec
    name = f"k8s.device-plugin.nvidia.com/gpu={card.uuid}"
    assert allocation(served) == Allocation(cdi_devices=(name,))


def test_the_plugins_live_environment_is_the_policys_over_the_operators(served: Any) -> None:
    found = env(served, "nvidia-device-plugin-daemonset")
    assert found["DEVICE_LIST_STRATEGY"] == "cdi-annotations"
    assert found["DEVICE_ID_STRATEGY"] == "uuid"
    assert found["NVIDIA_DRIVER_ROOT"] == "/"
    assert found["NVIDIA_CTK_PATH"] == "/usr/local/bin/nvidia-ctk"
    assert found["CDI_ANNOTATION_PREFIX"] == "cdi.k8s.io/"
    assert found["CDI_ENABLED"] == "true"
    step = daemonset(served, "nvidia-operator-validator")["spec"]["template"]["spec"]
    first = {one["name"]: one.get("value") for one in step["initContainers"][0]["env"]}
    assert first["DRIVER_ROOT"] == first["NVIDIA_DRIVER_ROOT"] == "/"
    assert first["DISABLE_DEV_CHAR_SYMLINK_CREATION"] == "true"


def test_after_a_reboot_everything_starts_again(served: Any) -> None:
    machine = guest(served)
    machine.reboot()
    served.run(20)
    assert CDI_SPEC not in machine.tmpfs
    served.run_until(lambda: condition(served.nodes()[0], "Ready") == "True", 120)
    assert allocatable(served) == ["0"]
    served.run_until(lambda: allocatable(served) == ["1"], 120)
    served.run_until(lambda: f"{READY}/plugin-ready" in machine.tmpfs, 60)
    assert CDI_SPEC in machine.tmpfs
    pod = operand(served, "nvidia-operator-validator")
    assert containers(pod, "containerStatuses")["nvidia-operator-validator"]["restartCount"] == 1
    assert len(operands(served, "nvidia-cuda-validator")) == 1


def test_a_card_that_is_gone_after_a_reboot_takes_labels_and_operands_with_it(served: Any) -> None:
    machine = guest(served)
    machine.hold_card_until(1_000_000.0)
    machine.reboot()
    served.run_until(lambda: condition(served.nodes()[0], "Ready") == "True", 120)
    served.run(60)
    labels = served.nodes()[0]["metadata"]["labels"]
    assert "feature.node.kubernetes.io/pci-10de.present" not in labels
    assert labels["nvidia.com/gpu.present"] == "false"
    assert [key for key in labels if key.startswith("nvidia.com/gpu.deploy.")] == []
    assert operands(served, "nvidia-operator-validator") == []
    assert allocatable(served) == ["0"]
    assert condition(policy(served), "Ready", "reason") == "NoGPUNodes"


def test_deleting_the_validator_unreadies_the_node_for_a_while(served: Any) -> None:
    machine, kind = guest(served), served.tenant.registry.by_kind("v1", "Pod")
    old = operand(served, "nvidia-operator-validator")["metadata"]["name"]
    served.tenant.delete(kind, SPACE, old)
    served.run(1.5)
    assert [path for path in machine.tmpfs if path.startswith(READY)] == []
    assert allocatable(served) == ["1"]  # the plugin, once started, goes on
    served.run_until(lambda: f"{READY}/plugin-ready" in machine.tmpfs, 90)
    assert operand(served, "nvidia-operator-validator")["metadata"]["name"] != old


# -- what it is stuck in


def test_a_driver_that_drives_no_card_leaves_the_validator_in_its_first_stage(lab: Any) -> None:
    lab.gpu_pool(gpu=GB202, osImage={"factory": {"schematicID": NVIDIA_NONFREE}})
    lab.run_until(lambda: operands(lab, "nvidia-operator-validator"), BUDGET)
    lab.run(90)
    assert stage(lab) == "driver-validation"
    pod = operand(lab, "nvidia-operator-validator")
    text = log(lab, pod, "driver-validation")
    assert "No pre-installed driver detected on the host: exit status 6" in text
    assert text.count("Attempting to validate a driver container installation") > 5
    assert containers(pod)["driver-validation"]["restartCount"] == 0
    waiting = operand(lab, "nvidia-device-plugin-daemonset")
    assert containers(waiting)["toolkit-validation"]["state"].get("running")
    assert waiting["status"]["phase"] == "Pending"
    assert allocatable(lab) == [None]
    assert condition(policy(lab), "Error", "reason") == "OperandNotReady"
    assert policy(lab)["status"]["state"] == "notReady"


def test_an_image_without_the_toolkit_has_no_runtime_for_the_operands(lab: Any) -> None:
    lab.gpu_pool(osImage={"factory": {"schematicID": VANILLA}})
    lab.run_until(lambda: operands(lab, "nvidia-operator-validator"), BUDGET)
    lab.run(60)
    assert lab.events("FailedCreatePodSandBox", lab.tenant)
    assert stage(lab) == "driver-validation"
    assert allocatable(lab) == [None]


def test_without_uvm_the_cuda_pod_fails_and_the_validator_tries_anew(lab: Any) -> None:
    modules = [{"name": "nvidia"}, {"name": "nvidia_drm"}, {"name": "nvidia_modeset"}]
    lab.gpu_pool(kernelModules=modules)
    lab.run_until(lambda: operands(lab, "nvidia-cuda-validator"), BUDGET)
    lab.run(120)
    assert stage(lab) == "cuda-validation"
    first = operand(lab, "nvidia-cuda-validator")
    assert containers(first)["cuda-validation"]["restartCount"] > 1
    assert "Failed to allocate device vector A" in log(lab, first, "cuda-validation")
    # the plugin needs no more than the toolkit stage
    assert allocatable(lab) == ["1"]
    lab.run(300)
    assert operand(lab, "nvidia-cuda-validator")["metadata"]["name"] != first["metadata"]["name"]
    again = containers(operand(lab, "nvidia-operator-validator"))["cuda-validation"]
    assert again["restartCount"] == 1


def test_a_fabric_in_progress_is_error_802(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.twin.world import nvidia_smi

    real = nvidia_smi._long
    text = ("State                                     : N/A", "State : In Progress")
    monkeypatch.setattr(nvidia_smi, "_long", lambda driver: real(driver).replace(*text))
    lab.gpu_pool()
    lab.run_until(lambda: operands(lab, "nvidia-cuda-validator"), BUDGET)
    lab.run(60)
    assert stage(lab) == "cuda-validation"
    said = log(lab, operand(lab, "nvidia-cuda-validator"), "cuda-validation")
    assert "system not yet initialized" in said


def test_without_a_device_plugin_the_last_stage_is_tried_again_and_again(served: Any) -> None:
    def off(spec: Any) -> None:
        spec["spec"]["devicePlugin"]["enabled"] = False

    served.tenant.edit(*POLICY, "", "cluster-policy", off, manager="kubectl")
    served.run_until(lambda: allocatable(served) == ["0"], 60)
    served.run(301)  # the validator looks at the capacity, which a kubelet keeps for a while
    kind = served.tenant.registry.by_kind("v1", "Pod")
    name = operand(served, "nvidia-operator-validator")["metadata"]["name"]
    served.tenant.delete(kind, SPACE, name)
    served.run(60)
    assert stage(served) == "plugin-validation"
    text = log(served, operand(served, "nvidia-operator-validator"), "plugin-validation")
    assert "GPU resources are not yet discovered by the node, retry: 3" in text
    served.run(300)
    found = containers(operand(served, "nvidia-operator-validator"))["plugin-validation"]
    assert found["restartCount"] >= 1


def test_an_image_without_the_link_has_no_driver_for_the_validator(lab: Any) -> None:
    lab.world.on_guest.append(lambda machine, _: machine.root.lacking.add("/usr/bin/nvidia-smi"))
    lab.gpu_pool()
    lab.run_until(lambda: operands(lab, "nvidia-operator-validator"), BUDGET)
    lab.run(60)
    assert stage(lab) == "driver-validation"
    text = log(lab, operand(lab, "nvidia-operator-validator"), "driver-validation")
    assert "No pre-installed driver detected on the host" in text
    assert guest(lab).run(["chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"]).exit_code == 0


def test_where_nfd_never_ran_the_policy_is_green_and_nothing_is_made(lab: Any) -> None:
    def nowhere(stored: Any) -> None:
        stored["spec"]["template"]["spec"]["nodeSelector"] = {"never": "true"}

    edit_daemonset(lab, "gpu-operator-node-feature-discovery-worker", nowhere)
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    lab.run(120)
    assert policy(lab)["status"]["state"] == "ready"
    assert condition(policy(lab), "Ready", "reason") == "NFDLabelsMissing"
    assert daemonset(lab, "nvidia-operator-validator") is None
    assert allocatable(lab) == [None]


# -- state decides


def test_a_deleted_daemonset_is_made_again(served: Any) -> None:
    kind = served.tenant.registry.by_kind("apps/v1", "DaemonSet")
    before = daemonset(served, "nvidia-dcgm-exporter")["metadata"]["uid"]
    served.tenant.delete(kind, SPACE, "nvidia-dcgm-exporter")
    served.run_until(lambda: daemonset(served, "nvidia-dcgm-exporter"), 30)
    assert daemonset(served, "nvidia-dcgm-exporter")["metadata"]["uid"] != before


def test_a_second_policy_is_ignored(served: Any) -> None:
    kind = served.tenant.registry.by_kind(*POLICY)
    spec = {"devicePlugin": {"env": [7, {"value": 1}]}, "driver": [], "daemonsets": "none"}
    other = {"apiVersion": POLICY[0], "kind": POLICY[1], "metadata": {"name": "zz-other"}}
    served.tenant.create(kind, {**other, "spec": spec})
    served.run(20)
    other = served.tenant.find(*POLICY, "", "zz-other")
    assert other["status"]["state"] == "ignored"
    served.tenant.delete(kind, "", "cluster-policy")
    # nonsense that no schema would let through harms nobody but its author
    served.run(120)


def test_an_edited_daemonset_changes_what_the_next_pod_gets_and_stays_edited(served: Any) -> None:
    name = "nvidia-device-plugin-daemonset"
    before = operand(served, name)["metadata"]["name"]
    edit_daemonset(served, name, drop_variable("DEVICE_LIST_STRATEGY"))
    served.run_until(
        lambda: [p["metadata"]["name"] for p in operands(served, name)] != [before], 30
    )
    served.run_until(lambda: allocatable(served) == ["1"], 60)
    uuid = guest(served).cards[0].uuid
    given = allocation(served)
    assert (given.env, given.cdi_devices) == ({"NVIDIA_VISIBLE_DEVICES": uuid}, ())
    # PASS_DEVICE_SPECS, which only counts beside a strategy that is not CDI
    assert {"/dev/nvidiactl", "/dev/nvidia0"} <= set(given.device_nodes)
    served.run(600)
    assert "DEVICE_LIST_STRATEGY" not in env(served, name)

    def touch(spec: Any) -> None:
        spec["spec"]["devicePlugin"]["env"].append({"name": "PASS_DEVICE_SPECS", "value": "false"})

    served.tenant.edit(*POLICY, "", "cluster-policy", touch, manager="kubectl")
    served.run_until(lambda: "DEVICE_LIST_STRATEGY" in env(served, name), 30)
    served.run_until(lambda: allocatable(served) == ["0"], 30)
    served.run_until(lambda: allocatable(served) == ["1"], 60)
    assert allocation(served).cdi_devices


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        ({"CDI_ANNOTATION_PREFIX": "other/"}, ()),
        (
            {"DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri", "CDI_ANNOTATION_PREFIX": "x/"},
            "uuid",
        ),
        ({"DEVICE_ID_STRATEGY": "index"}, "index"),
    ],
)
def test_strategy_prefix_and_ids_decide_what_reaches_the_runtime(
    served: Any, changed: dict[str, str], given: Any
) -> None:
    def change(stored: Any) -> None:
        for one in stored["spec"]["template"]["spec"]["containers"][0]["env"]:
            one["value"] = changed.get(one["name"], one.get("value", ""))

    edit_daemonset(served, "nvidia-device-plugin-daemonset", change)
    served.run_until(lambda: allocatable(served) == ["0"], 30)
    served.run_until(lambda: allocatable(served) == ["1"], 60)
    name = {"uuid": guest(served).cards[0].uuid, "index": "0"}.get(given or "", "")
    wanted = (f"k8s.device-plugin.nvidia.com/gpu={name}",) if name else ()
    assert allocation(served).cdi_devices == wanted
    if name:
        assert f'"name":"{name}"' in guest(served).tmpfs[CDI_SPEC].decode()


def test_the_operator_acts_only_while_it_runs(served: Any) -> None:
    def scale(count: int) -> None:
        served.tenant.edit(
            "apps/v1", "Deployment", SPACE, "gpu-operator",
            lambda stored: stored["spec"].update(replicas=count), manager="kubectl",
        )  # fmt: skip

    def off(spec: Any) -> None:
        spec["spec"]["dcgmExporter"]["enabled"] = False

    scale(0)
    served.run(10)
    served.tenant.edit(*POLICY, "", "cluster-policy", off, manager="kubectl")
    served.run(60)
    assert daemonset(served, "nvidia-dcgm-exporter") is not None
    scale(1)
    served.run_until(lambda: daemonset(served, "nvidia-dcgm-exporter") is None, 60)
    served.run(5)
    assert operands(served, "nvidia-dcgm-exporter") == []


def test_a_node_whose_operands_are_switched_off_loses_them(served: Any) -> None:
    node = served.nodes()[0]["metadata"]["name"]

    def off(stored: Any) -> None:
        stored["metadata"]["labels"]["nvidia.com/gpu.deploy.operands"] = "false"

    served.tenant.edit("v1", "Node", "", node, off, manager="kubectl")
    served.run(20)
    assert operands(served, "nvidia-device-plugin-daemonset") == []
    assert allocatable(served) == ["0"]


def test_a_pod_with_an_operands_label_and_none_of_its_parts_runs_all_the_same(served: Any) -> None:
    for app in (
        "nvidia-operator-validator",
        "nvidia-device-plugin-daemonset",
        "nvidia-cuda-validator",
    ):
        pod = {
            "metadata": {"name": f"odd-{app}", "labels": {"app": app}},
            "spec": {
                "nodeName": served.nodes()[0]["metadata"]["name"],
                "containers": [{"name": "other", "image": "pause"}],
            },
        }
        kind = served.tenant.registry.by_kind("v1", "Pod")
        served.tenant.create(kind, pod, namespace=SPACE)
    served.run(60)
    for app in ("nvidia-operator-validator", "nvidia-device-plugin-daemonset"):
        assert served.tenant.find("v1", "Pod", SPACE, f"odd-{app}")["status"]["phase"] == "Running"
