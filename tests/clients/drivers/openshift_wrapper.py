"""A day with openshift-python-wrapper and timeout-sampler, as KubeVirt's own tests use them."""

from __future__ import annotations

from importlib.metadata import version as installed

from kubernetes.client.exceptions import ApiException
from ocp_resources.config_map import ConfigMap
from ocp_resources.namespace import Namespace
from ocp_resources.node import Node
from ocp_resources.pod import Pod
from ocp_resources.resource import Resource, ResourceEditor, get_client
from ocp_resources.virtual_machine_instance import VirtualMachineInstance
from surroundings import MANAGEMENT, POOLS, TENANT, Obj, Surroundings, drive
from timeout_sampler import TimeoutExpiredError, TimeoutSampler


def connect(at: Surroundings, context: str = MANAGEMENT) -> object:
    return get_client(config_file=at.kubeconfig, context=context)


def reading(at: Surroundings) -> Obj:
    client = connect(at)
    nodes = list(Node.get(client=client))
    instances = list(VirtualMachineInstance.get(client=client, namespace=POOLS))
    pods = Pod.get(client=client, namespace=POOLS, label_selector="kubevirt.io=virt-launcher")
    return {
        "client": installed("openshift-python-wrapper"),
        "nodes": [node.name for node in nodes],
        "ready": [node.kubelet_ready for node in nodes],
        "addresses": len({node.internal_ip for node in nodes}),
        "instances": [vmi.status for vmi in instances],
        "on": [vmi.instance.status.nodeName for vmi in instances],
        "launcher": [pod.status for pod in pods],
        "absent": Node(client=client, name="none").exists is None,
    }


def spaces(at: Surroundings) -> Obj:
    """A namespace for the length of a `with`: made, waited for, and gone after it."""
    client, name = connect(at), f"{at.namespace}-w"
    with Namespace(client=client, name=name) as space:
        space.wait_for_status(status=Namespace.Status.ACTIVE, timeout=20)
        phase = space.status
    return {"phase": phase, "left": bool(Namespace(client=client, name=name).exists)}


def writing(at: Surroundings) -> Obj:
    client = connect(at)
    one = ConfigMap(client=client, name="written", namespace=at.namespace, data={"a": "1"})
    one.deploy()
    again = 0
    try:
        ConfigMap(client=client, name="written", namespace=at.namespace, data={}).deploy()
    except ApiException as refused:
        again = refused.status
    one.update({"metadata": {"name": "written"}, "data": {"b": "2"}})
    merged = dict(one.instance.data)
    with ResourceEditor(patches={one: {"data": {"a": "edited"}}}):
        edited = dict(one.instance.data)
    restored = dict(one.instance.data)
    gone = one.clean_up()
    return {
        "again": again,
        "merged": merged,
        "edited": edited,
        "restored": restored,
        "gone": [gone, bool(one.exists)],
    }


def running(at: Surroundings) -> Obj:
    client, body = connect(at, TENANT), at.pod("sleeper")
    pod = Pod(client=client, kind_dict=body)
    pod.deploy()
    with at.moving():
        pod.wait_for_status(status=Pod.Status.RUNNING, timeout=50)
        pod.wait_for_condition(
            condition=Resource.Condition.READY, status=Resource.Condition.Status.TRUE, timeout=50
        )
    try:
        gave_up = ""
        for sample in TimeoutSampler(wait_timeout=1, sleep=1, func=lambda: pod.status):
            if sample == "Succeeded":
                break
    except TimeoutExpiredError as late:
        gave_up = str(late)
    saw = {
        "phase": pod.status,
        "node": pod.node.name,
        "modules": pod.execute(command=["cat", "/proc/modules"]),
        "failed": pod.execute(command=["cat", "/none"], ignore_rc=True),
        "gave_up": gave_up,
    }
    with at.moving():
        gone = pod.clean_up(wait=True, timeout=50)
    return saw | {"gone": [gone, bool(pod.exists)]}


if __name__ == "__main__":
    drive(reading, spaces, writing, running)
