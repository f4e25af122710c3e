from __future__ import annotations

import json

from tests.clients.driving import Kubectl, config_map, eventually, finish

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
