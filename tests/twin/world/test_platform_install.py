"""The platform's own objects, as an administrator of a real installation finds them."""

from __future__ import annotations

import re

from harness.twin.world.objects import Obj
from harness.twin.world.platform_install import OPERATOR, PACKAGES, SEED, SOURCE, VERSION
from tests.twin.world.conftest import Lab


def found(lab: Lab, api_version: str, kind: str, name: str) -> Obj:
    obj = lab.management.find(api_version, kind, "cozy-system", name)
    assert obj is not None
    return obj


def test_the_operator_runs_the_release_that_it_says(lab: Lab) -> None:
    operator = found(lab, "apps/v1", "Deployment", OPERATOR)
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert container["env"][0] == {"name": "COZYSTACK_VERSION", "value": VERSION}
    image = rf"ghcr\.io/cozystack/cozystack/{OPERATOR}:{VERSION}@sha256:[0-9a-f]{{64}}"
    assert re.fullmatch(image, container["image"])
    status = operator["status"]
    assert status["observedGeneration"] == operator["metadata"]["generation"]
    assert status["updatedReplicas"] == operator["spec"]["replicas"]


def test_the_packages_are_those_that_the_operator_is_told_to_take(lab: Lab) -> None:
    operator = found(lab, "apps/v1", "Deployment", OPERATOR)
    args = operator["spec"]["template"]["spec"]["containers"][0]["args"]
    seed, copy = (found(lab, SOURCE, "OCIRepository", name) for name in (SEED, PACKAGES))
    assert seed["spec"] == copy["spec"]
    digest = copy["spec"]["ref"]["digest"]
    assert f"--platform-source-ref=digest={digest}" in args
    assert f"--platform-source-url={copy['spec']['url']}" in args
    assert copy["status"]["artifact"]["revision"] == digest
    assert copy["status"]["conditions"][0]["status"] == "True"


def test_every_pool_is_rendered_from_the_source_that_is_there(lab: Lab) -> None:
    named = lab.management.find("cozystack.io/v1alpha1", "PackageSource", "",
                                "cozystack.kubernetes-worker-image")  # fmt: skip
    assert named is not None
    reference = named["spec"]["sourceRef"]
    found(lab, SOURCE, reference["kind"], reference["name"])
