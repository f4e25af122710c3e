from __future__ import annotations

import json

import pytest

from tests.clients.driving import NAMESPACE, Kubectl, config_map, pool_request


def data(lab: Kubectl, namespace: str, name: str = "cm") -> dict[str, str]:
    found: dict[str, str] = lab.read("get", "cm", name, "-n", namespace).get("data", {})
    return found


def test_apply_says_what_it_did(lab: Kubectl, namespace: str) -> None:
    for size, outcome in (("1", "created"), ("2", "configured"), ("2", "unchanged")):
        applied = lab("apply", "-f", "-", stdin=config_map("cm", namespace, size=size))
        assert applied.stdout == f"configmap/cm {outcome}\n"
        assert applied.stderr == ""
    removed = lab("apply", "-f", "-", stdin=config_map("cm", namespace, other="x"))
    assert removed.stdout == "configmap/cm configured\n"
    assert data(lab, namespace) == {"other": "x"}


def test_apply_of_a_pool_that_is_there_changes_nothing(lab: Kubectl) -> None:
    applied = lab("apply", "-f", "-", stdin=json.dumps(pool_request()))
    assert applied.stdout == "kubernetesnodes.apps.cozystack.io/lab-gpu-l40s unchanged\n"
    assert lab("diff", "-f", "-", stdin=json.dumps(pool_request())).stdout == ""


@pytest.mark.parametrize("owner", ["--server-side", ""])
def test_a_server_side_conflict_names_field_and_manager(
    lab: Kubectl, namespace: str, owner: str
) -> None:
    first = [argument for argument in ("apply", owner, "-f", "-") if argument]
    lab(*first, stdin=config_map("cm", namespace, size="1"))
    other = ("apply", "--server-side", "--field-manager", "other", "-f", "-")
    refused = lab(*other, stdin=config_map("cm", namespace, size="2"), code=1).stderr
    assert "conflict with" in refused
    assert '"kubectl' in refused
    assert ".data.size" in refused
    assert data(lab, namespace) == {"size": "1"}
    lab(*other, "--force-conflicts", stdin=config_map("cm", namespace, size="2"))
    assert data(lab, namespace) == {"size": "2"}


def managers(lab: Kubectl, namespace: str) -> list[str]:
    shown = ("get", "cm", "cm", "-n", namespace, "--show-managed-fields")
    return [entry["manager"] for entry in lab.read(*shown)["metadata"].get("managedFields", [])]


def test_who_moves_from_client_to_server_has_no_conflict_with_himself(
    lab: Kubectl, namespace: str
) -> None:
    lab("apply", "-f", "-", stdin=config_map("cm", namespace, size="1", kind="a"))
    server = ("apply", "--server-side", "-f", "-")
    moved = lab(*server, stdin=config_map("cm", namespace, size="2"))
    assert moved.stdout == "configmap/cm serverside-applied\n"
    assert data(lab, namespace) == {"size": "2"}  # what is no longer applied is gone
    assert managers(lab, namespace).count("kubectl") == 1


def test_two_may_apply_the_same_and_part_again(lab: Kubectl, namespace: str) -> None:
    mine = ("apply", "--server-side", "--field-manager", "me", "-f", "-")
    yours = ("apply", "--server-side", "--field-manager", "you", "-f", "-")
    lab(*mine, stdin=config_map("cm", namespace, shared="1", mine="1"))
    lab(*yours, stdin=config_map("cm", namespace, shared="1", yours="1"))
    assert managers(lab, namespace) == ["me", "you"]
    lab(*mine, stdin=config_map("cm", namespace, mine="1"))
    assert data(lab, namespace) == {"shared": "1", "mine": "1", "yours": "1"}
    lab(*yours, stdin=config_map("cm", namespace, shared="2", yours="1"))  # yours alone now
    assert data(lab, namespace)["shared"] == "2"


def test_every_field_in_conflict_is_named(lab: Kubectl, namespace: str) -> None:
    lab("apply", "--server-side", "-f", "-", stdin=config_map("cm", namespace, a="1", b="1"))
    other = ("apply", "--server-side", "--field-manager", "other", "-f", "-")
    refused = lab(*other, stdin=config_map("cm", namespace, a="2", b="2"), code=1).stderr
    assert "Apply failed with 2 conflicts" in refused
    for field in (".data.a", ".data.b"):
        assert field in refused
    assert "--force-conflicts" in refused  # kubectl's advice, which it gives for a Conflict only


def test_the_three_kinds_of_patch(lab: Kubectl, namespace: str) -> None:
    lab("apply", "-f", "-", stdin=config_map("cm", namespace, a="1", b="2"))
    patch = ("patch", "cm", "cm", "-n", namespace, "-p")
    lab(*patch, '{"data":{"a":"3"}}')
    lab(*patch, '{"data":{"b":null}}', "--type", "merge")
    lab(*patch, '[{"op":"add","path":"/data/c","value":"4"}]', "--type", "json")
    assert data(lab, namespace) == {"a": "3", "c": "4"}
    wrong = '[{"op":"test","path":"/data/c","value":"5"}]'
    assert "test" in lab(*patch, wrong, "--type", "json", code=1).stderr


def test_a_strategic_patch_is_for_built_in_kinds(lab: Kubectl, namespace: str) -> None:
    labelled = json.dumps({"metadata": {"labels": {namespace: "x"}}})
    lab("patch", "node", "hv-3", "-p", labelled)
    lab("label", "node", "hv-3", f"{namespace}-")
    hr = ("patch", "hr", "kubernetes-lab", "-n", NAMESPACE, "-p", '{"spec":{"interval":"6m"}}')
    refused = lab(*hr, "--type", "strategic", code=1).stderr
    assert "application/strategic-merge-patch+json is not supported" in refused


def test_edit(lab: Kubectl, namespace: str) -> None:
    lab("apply", "-f", "-", stdin=config_map("cm", namespace, word="before"))
    edit = ("edit", "cm", "cm", "-n", namespace)
    lab(*edit, KUBE_EDITOR="sed -i s/before/after/")
    assert data(lab, namespace) == {"word": "after"}
    assert "no changes made" in lab(*edit, KUBE_EDITOR="true").stderr


def test_replace_refuses_a_version_that_was_overtaken(lab: Kubectl, namespace: str) -> None:
    lab("apply", "-f", "-", stdin=config_map("cm", namespace, a="1"))
    held = lab("get", "cm", "cm", "-n", namespace, "-o", "json").stdout
    lab("replace", "-f", "-", stdin=held.replace('"a": "1"', '"a": "2"'))
    refused = lab("replace", "-f", "-", stdin=held, code=1).stderr
    assert "the object has been modified; please apply your changes to the latest" in refused
    assert data(lab, namespace) == {"a": "2"}


def test_labels_annotations_taints_and_cordons(lab: Kubectl, tenant: Kubectl, unique: str) -> None:
    lab("label", "node", "hv-3", f"{unique}=a")
    assert "already has a value" in lab("label", "node", "hv-3", f"{unique}=b", code=1).stderr
    lab("annotate", "node", "hv-3", f"{unique}=a", "--overwrite")
    lab("label", "node", "hv-3", f"{unique}-")
    node = tenant("get", "nodes", "-o", "name").stdout.strip().removeprefix("node/")
    tenant("cordon", node)
    assert "SchedulingDisabled" in tenant("get", "node", node).stdout
    tenant("uncordon", node)
    tenant("taint", "node", node, f"{unique}=x:NoSchedule")
    assert unique in tenant("describe", "node", node).stdout
    tenant("taint", "node", node, f"{unique}-")


def test_create_and_delete(lab: Kubectl, unique: str) -> None:
    lab("create", "namespace", unique)
    here = ("-n", unique)
    lab("create", "configmap", "cm", "--from-literal=a=b", *here)
    lab("create", "secret", "generic", "s", "--from-literal=a=b", *here)
    assert lab("get", "secret", "s", *here, "-o", "jsonpath={.data.a}").stdout == "Yg=="
    assert "already exists" in lab("create", "configmap", "cm", *here, code=1).stderr
    assert "configmap" in lab("delete", "cm", "cm", *here).stdout
    lab("delete", "namespace", unique)
    assert "NotFound" in lab("get", "secret", "s", *here, code=1).stderr
    assert "not found" in lab("create", "configmap", "cm", *here, code=1).stderr


def test_a_dry_run_changes_nothing(lab: Kubectl, namespace: str) -> None:
    body = config_map("cm", namespace, a="1")
    assert "server dry run" in lab("apply", "--dry-run=server", "-f", "-", stdin=body).stdout
    assert "NotFound" in lab("get", "cm", "cm", "-n", namespace, code=1).stderr


def test_a_value_of_another_type_is_refused(lab: Kubectl) -> None:
    replicas = ("patch", "md", "kubernetes-lab-gpu-l40s", "-n", NAMESPACE, "--type", "merge", "-p")
    ill = lab(*replicas, '{"spec":{"replicas":"many"}}', code=1).stderr
    assert "spec.replicas in body must be of type number" in ill
