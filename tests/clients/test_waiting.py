from __future__ import annotations

import json

import pytest

from tests.clients.driving import NAMESPACE, Kubectl, config_map, eventually, finish

POOLS = ("-n", NAMESPACE)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"containers": [{"name": "main", "image": "docker.io/library/busybox:1.37"}]},
}


def pod(tenant: Kubectl, namespace: str) -> str:
    """A pod on the worker that sleeps; it starts when time moves."""
    (node,) = tenant.read("get", "nodes")["items"]
    spec = {**POD["spec"], "nodeName": node["metadata"]["name"]}  # type: ignore[dict-item]
    return json.dumps({**POD, "metadata": {"name": "one", "namespace": namespace}, "spec": spec})


def test_wait_for_a_condition_while_time_is_moved(tenant: Kubectl, unique: str) -> None:
    tenant("create", "namespace", unique)
    tenant("create", "-f", "-", stdin=pod(tenant, unique))
    here, before = ("pod/one", "-n", unique), tenant.twin.watches("tenant-lab", "Pod")
    ready = tenant.start("wait", *here, "--for=condition=Ready", "--timeout=50s")
    running = tenant.start("wait", *here, "--for=jsonpath={.status.phase}=Running")
    eventually(lambda: tenant.twin.watches("tenant-lab", "Pod") == before + 2, "two watches")
    assert ready.poll() is None
    tenant.twin.hil("advance", "1m")
    for process in (ready, running):
        assert finish(process).stdout == "pod/one condition met\n"
    gone = tenant.start("wait", *here, "--for=delete")
    eventually(lambda: tenant.twin.watches("tenant-lab", "Pod") > before, "a watch")
    tenant("delete", "pod", "one", "-n", unique, "--wait=false")
    assert gone.poll() is None  # it has thirty seconds of virtual time to stop
    tenant.twin.advance(60)
    assert "condition met" in finish(gone).stdout
    assert "NotFound" in tenant("get", *here, code=1).stderr


@pytest.mark.parametrize(
    ("what", "until", "count"),
    [
        (("nodes", "--all"), "condition=Ready", 3),
        (("nodes", "-l", "kubernetes.io/hostname=hv-2"), "condition=Ready=true", 1),
        (("nodes", "--all"), "condition=Ready=True", 3),
        (("kubernetesnodes/lab-gpu-l40s", *POOLS), "condition=Ready", 1),
        (("md/kubernetes-lab-gpu-l40s", *POOLS), "jsonpath={.status.readyReplicas}=1", 1),
        (("vmi", "--all", *POOLS), "jsonpath={.status.phase}=Running", 1),
        (("hr/kubernetes-lab", *POOLS), "jsonpath={.status.conditions[0].status}=True", 1),
    ],
)
def test_what_is_so_already_is_not_waited_for(
    lab: Kubectl, what: tuple[str, ...], until: str, count: int
) -> None:
    met = lab("wait", *what, f"--for={until}", "--timeout=20s").stdout.splitlines()
    assert len(met) == count
    assert all(line.endswith(" condition met") for line in met)


def test_wait_for_a_value_whatever_it_is(tenant: Kubectl) -> None:
    if tenant.minor() < 31:
        pytest.skip("before 1.31 a value has to be named")
    nodes = ("wait", "nodes", "--all", "--timeout=20s")
    assert " met\n" in tenant(*nodes, "--for=jsonpath={.spec.providerID}").stdout
    cut = ("wait", "nodes", "--all", "--timeout=1s")
    assert "timed out" in tenant(*cut, "--for=jsonpath={.spec.unschedulable}", code=1).stderr


def test_wait_until_it_is_created(lab: Kubectl, namespace: str) -> None:
    if lab.minor() < 31:
        pytest.skip("before 1.31 there is no --for=create")
    here = ("cm/late", "-n", namespace)
    waiting = lab.start("wait", *here, "--for=create", "--timeout=50s")
    path = f"/namespaces/{namespace}/configmaps/late"
    eventually(lambda: lab.twin.requests(path) > 1, "it asks again and again")
    lab("create", "configmap", "late", "-n", namespace)
    assert finish(waiting).stdout == "configmap/late condition met\n"


def test_wait_for_what_is_not_there(lab: Kubectl, namespace: str) -> None:
    here = ("cm/none", "-n", namespace, "--timeout=5s")
    assert lab("wait", *here, "--for=delete").returncode == 0
    assert "NotFound" in lab("wait", *here, "--for=jsonpath={.data.a}=b", code=1).stderr
    nothing = lab("wait", "pods", "--all", "-n", namespace, "--for=condition=Ready", code=1)
    assert "no matching resources found" in nothing.stderr


def test_wait_gives_up_in_real_time(lab: Kubectl, namespace: str) -> None:
    lab("apply", "-f", "-", stdin=config_map("cm", namespace))
    wait = ("wait", "cm/cm", "-n", namespace, "--for=jsonpath={.data.x}=1", "--timeout=1s")
    assert "timed out waiting" in lab(*wait, code=1).stderr


def test_delete_waits_until_the_finalizer_is_gone(lab: Kubectl, namespace: str) -> None:
    held = json.loads(config_map("cm", namespace))
    held["metadata"]["finalizers"] = ["example.org/hold"]
    lab("apply", "-f", "-", stdin=json.dumps(held))
    before = lab.twin.watches("management", "ConfigMap")
    deleting = lab.start("delete", "cm", "cm", "-n", namespace)
    eventually(lambda: lab.twin.watches("management", "ConfigMap") > before, "a watch")
    assert lab.read("get", "cm", "cm", "-n", namespace)["metadata"]["deletionTimestamp"]
    patch = '{"metadata":{"finalizers":null}}'
    lab("patch", "cm", "cm", "-n", namespace, "--type", "merge", "-p", patch)
    ended = finish(deleting)
    assert ended.returncode == 0
    assert 'configmap "cm" deleted' in ended.stdout
