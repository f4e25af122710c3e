"""What helm-controller writes of its attempts: history, counters, digests, Events."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.objects import CAPI, CDI, COZY, HELM

NAMESPACE = "tenant-hil"
BAD = {"version": "v1.13"}


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in (obj.get("status") or {}).get("conditions", ()) if c["type"] == kind]
    return found[0].get(field) if found else None


def release(lab: Any, name: str = "gpu") -> Any:
    return lab.management.find(HELM, "HelmRelease", NAMESPACE, f"kubernetes-nodes-lab-{name}")


def status(lab: Any) -> Any:
    return release(lab).get("status") or {}


def ready(lab: Any, value: str = "True") -> bool:
    found = release(lab)
    seen = status(lab).get("lastAttemptedGeneration") == found["metadata"]["generation"]
    return bool(seen and condition(found, "Ready") == value)


def history(lab: Any) -> Any:
    return [(e["version"], e["status"]) for e in status(lab).get("history", ())]


def edit(lab: Any, **spec: Any) -> None:
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(spec))


def test_what_was_deployed_is_superseded_and_the_digest_follows_the_values(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0)
    lab.run_until(lambda: ready(lab), 20)
    first = copy.deepcopy(status(lab))
    edit(lab, maxUnhealthy="40%")
    lab.run_until(lambda: ready(lab), 20)
    newest, older = status(lab)["history"]
    assert (newest["status"], older["status"]) == ("deployed", "superseded")
    assert (newest["action"], older["action"]) == ("upgrade", "install")
    assert newest["configDigest"] == status(lab)["lastAttemptedConfigDigest"]
    assert newest["configDigest"] != older["configDigest"] == first["lastAttemptedConfigDigest"]
    assert newest["digest"] != older["digest"]
    assert newest["firstDeployed"] == older["firstDeployed"] < newest["lastDeployed"]
    edit(lab, maxUnhealthy="50%")
    lab.run_until(lambda: ready(lab), 20)
    assert status(lab)["history"][0]["digest"] == older["digest"]


def test_the_history_is_short_and_counts_on(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0)
    lab.run_until(lambda: ready(lab), 20)
    for share in range(41, 48):
        edit(lab, maxUnhealthy=f"{share}%")
        lab.run_until(lambda: ready(lab), 20)
    assert history(lab) == [(8, "deployed"), *((n, "superseded") for n in (7, 6, 5, 4))]
    assert ".v8 with chart" in condition(release(lab), "Ready", "message")


def test_failures_count_up_and_begin_anew_with_what_is_new(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0, talos=BAD)
    lab.run_until(lambda: status(lab).get("installFailures") == 3, 120)
    assert status(lab)["failures"] == 3
    edit(lab, maxUnhealthy="40%")
    lab.run_until(lambda: ready(lab, "False"), 20)
    assert status(lab)["failures"] == status(lab)["installFailures"] == 1
    (event,) = [e for e in lab.events("InstallFailed") if e["count"] > 1]
    assert event["count"] == 4
    assert event["message"].startswith(condition(release(lab), "Ready", "message"))
    assert "\n\nLast Helm logs:\n\n" in event["message"]
    edit(lab, talos={})
    lab.run_until(lambda: ready(lab), 20)
    assert not {"failures", "installFailures"} & set(status(lab))
    assert history(lab) == [(1, "deployed")]


def test_a_request_to_look_again_does_not_begin_anew(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0, talos=BAD)
    lab.run_until(lambda: status(lab).get("failures") == 2, 60)
    lab.management.edit(
        HELM, "HelmRelease", NAMESPACE, "kubernetes-nodes-lab-gpu",
        lambda stored: stored["metadata"].setdefault("annotations", {}).update(
            {"reconcile.fluxcd.io/requestedAt": "now"}
        ),
        manager="kubectl",
    )  # fmt: skip
    lab.run_until(lambda: status(lab).get("lastHandledReconcileAt") == "now", 20)
    assert status(lab)["failures"] == 3


def test_it_retries_in_the_interval_that_the_release_names(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0, talos=BAD)
    lab.management.edit(
        HELM, "HelmRelease", NAMESPACE, "kubernetes-nodes-lab-gpu",
        lambda stored: stored["spec"]["install"]["strategy"].update(retryInterval="2m"),
        manager="kubectl",
    )  # fmt: skip
    lab.run_until(lambda: ready(lab, "False"), 20)
    assert 120 <= lab.run_until(lambda: status(lab).get("failures") == 2, 200) <= 130


def test_what_the_api_refuses_is_a_failed_revision_and_a_good_one_follows(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0)
    lab.run_until(lambda: ready(lab), 20)

    def refuse(admission: Any) -> Any:
        is_check = admission.resource.kind == "MachineHealthCheck"
        if is_check and admission.verb == "UPDATE" and not admission.subresource:
            raise ApiError(422, "no such health check")
        return admission.obj

    lab.world.admission.append(refuse)
    edit(lab, maxUnhealthy="40%")
    lab.run_until(lambda: ready(lab, "False"), 20)
    assert condition(release(lab), "Ready", "reason") == "UpgradeFailed"
    assert "no such health check" in condition(release(lab), "Ready", "message")
    assert history(lab) == [(2, "failed"), (1, "deployed")]
    assert status(lab)["upgradeFailures"] == 1
    lab.world.admission.remove(refuse)
    lab.run_until(lambda: ready(lab), 60)
    assert history(lab) == [(3, "deployed"), (2, "failed"), (1, "superseded")]
    (check,) = lab.ours(CAPI, "MachineHealthCheck")
    assert check["spec"]["maxUnhealthy"] == "40%"


def test_a_failed_first_revision_is_upgraded(lab: Any) -> None:
    def refuse(admission: Any) -> Any:
        if admission.resource.kind == "MachineHealthCheck" and admission.verb == "CREATE":
            raise ApiError(403, "not now")
        return admission.obj

    lab.world.admission.append(refuse)
    lab.pool("gpu", minReplicas=0)
    lab.run_until(lambda: ready(lab, "False"), 20)
    assert history(lab) == [(1, "failed")]
    lab.world.admission.remove(refuse)
    lab.run_until(lambda: ready(lab), 60)
    assert history(lab) == [(2, "deployed"), (1, "failed")]
    lab.delete_pool()
    lab.run_until(lambda: release(lab) is None, 60)
    assert lab.ours(CAPI, "MachineDeployment") == []


def test_what_a_failed_revision_has_applied_goes_with_the_release(lab: Any) -> None:
    def refuse(admission: Any) -> Any:
        if admission.resource.kind == "MachineHealthCheck" and admission.verb == "CREATE":
            raise ApiError(403, "not now")
        return admission.obj

    lab.world.admission.append(refuse)
    lab.pool("gpu", minReplicas=0)
    lab.run_until(lambda: ready(lab, "False"), 20)
    assert lab.ours(CAPI, "MachineDeployment")
    lab.delete_pool()
    lab.run_until(lambda: release(lab) is None, 60)
    assert lab.ours(CAPI, "MachineDeployment") == []


def test_while_it_waits_the_release_owns_up_to_what_it_rendered_only(lab: Any) -> None:
    place = ("cozy-system", "kubernetes-worker-image")

    def held() -> Any:
        return lab.management.find(HELM, "HelmRelease", *place)

    def write(versions: list[str]) -> None:
        def change(stored: Any) -> None:
            image = stored["spec"]["components"]["platform"]["values"]["kubernetesWorkerImage"]
            entry = image["images"][0]
            image["images"] = [{**entry, "version": version} for version in versions]

        lab.management.edit(
            COZY, "Package", "", "cozystack.cozystack-platform", change, manager="kubectl"
        )

    write(["v1.13.6", "v1.13.5"])
    lab.run_until(lambda: len(lab.management.all(CDI, "DataVolume", "cozy-public")) == 2, 30)
    write(["v1.13.6"])
    lab.run(20)
    assert held()["metadata"]["generation"] == 3
    assert held()["status"]["observedGeneration"] == 1
    lab.run_until(lambda: len(held()["status"]["history"]) == 2, 400)
    assert held()["status"]["observedGeneration"] == 2
    lab.run_until(lambda: len(held()["status"]["history"]) == 3, 30)
    assert held()["status"]["observedGeneration"] == 3
    assert condition(held(), "Ready") == "True"


def test_a_suspended_release_is_left_alone(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0)
    lab.run_until(lambda: ready(lab), 20)
    lab.management.edit(
        HELM, "HelmRelease", NAMESPACE, "kubernetes-nodes-lab-gpu",
        lambda stored: stored["spec"].update(suspend=True), manager="kubectl",
    )  # fmt: skip
    edit(lab, maxUnhealthy="40%")
    lab.world.chart = replace(lab.world.chart, version="1.8.0")
    lab.run(120)
    assert history(lab) == [(1, "deployed")]
