"""Which platform is installed, out of what its own objects say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from harness.facts.platformversion import (
    PlatformVersion,
    packages_kind,
    platform_version,
    unknown_platform,
    version_in,
)

D1, D2 = (f"sha256:{letter * 64}" for letter in "ab")
IMAGE = "ghcr.io/cozystack/cozystack/cozystack-operator"
WHERE = "of Deployment cozy-system/cozystack-operator"


def operator(
    image: str = f"{IMAGE}:v1.4.0@{D1}",
    said: str | None = "v1.4.0",
    args: Any = (f"--platform-source-ref=digest={D1}",),
    name: str = "cozystack-operator",
    wanted: int = 1,
    **status: Any,
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": image, "args": list(args)}
    if said is not None:
        container["env"] = [{"name": "COZYSTACK_VERSION", "value": said}]
    beside = {"name": "sidecar", "image": "example.org/sidecar:v9.9.9"}
    counts = {"replicas": 1, "updatedReplicas": 1, "observedGeneration": 3}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "cozy-system", "generation": 3},
        "spec": {"replicas": wanted, "template": {"spec": {"containers": [beside, container]}}},
        "status": counts | status,
    }


def packages(revision: str = D1, kind: str = "OCIRepository", **status: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": "cozystack-packages", "namespace": "cozy-system"},
        "status": {"artifact": {"revision": revision} if revision else {}, **status},
    }


def read(one: Any, other: Any) -> PlatformVersion:
    return platform_version(one, other, at=1.0, cluster="management")


@pytest.mark.parametrize(
    ("one", "other", "version"),
    [
        (operator(), packages(), "v1.4.0"),
        (operator(said=None), packages(), "v1.4.0"),
        (operator(said=""), packages(), "v1.4.0"),  # as the platform's own program takes it
        (operator(image=f"{IMAGE}@{D1}"), packages(), "v1.4.0"),
        (operator(image=f"{IMAGE}:main@{D1}"), packages(), "v1.4.0"),
        (operator(image="localhost:5000/cozystack-operator:v1.4.0", said=None), "gone", "v1.4.0"),
        # the image of a candidate that was promoted keeps its tag
        (operator(image=f"{IMAGE}:v1.4.0-rc.2@{D1}"), packages(), "v1.4.0"),
        (operator(image=f"{IMAGE}:v1.4.0-rc.2@{D1}", said=None), packages(), "v1.4.0-rc.2"),
        (operator(image=f"{IMAGE}:v1.4.0-rc.2@{D1}"), packages(f"v1.4.0-rc.2@{D1}"), "v1.4.0"),
        (operator(), packages(f"v1.4.0@{D1}"), "v1.4.0"),
        (operator(), packages(f"main@{D1}"), "v1.4.0"),
        (operator(args=()), packages(D2), "v1.4.0"),
        (operator(), "it may not be read", "v1.4.0"),
        (operator(), packages(""), "v1.4.0"),
        (operator(f"{IMAGE}:latest", None, ["--cozystack-version=v1.0.0"]), "-", "v1.0.0"),
        (operator(f"{IMAGE}:latest", None, ["--cozystack-version", "1.0.0"]), "-", "v1.0.0"),
        (operator("x/installer:v0.41.5@" + D1, None, (), "cozystack"), "-", "v0.41.5"),
        (operator(f"{IMAGE}:0.0.0-nightly.20261130", None), "-", "v0.0.0-nightly.20261130"),
    ],
)
def test_the_version_that_is_installed(one: Any, other: Any, version: str) -> None:
    found = read(one, other)
    assert (found.version, found.reason) == (version, "")
    assert found.origin.source.startswith("management Deployment cozy-system/cozystack")


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (
            operator(said="v1.5.0"),
            packages(),
            f"what tells it differs: COZYSTACK_VERSION {WHERE} says 'v1.5.0'; "
            f"the image {WHERE} says '{IMAGE}:v1.4.0@",
        ),
        # a candidate of another release, and one that calls itself less than its image
        (operator(image=f"{IMAGE}:v1.4.1-rc.1"), packages(), "what tells it differs: "),
        (operator(said="v1.4.0-rc.1"), packages(), "what tells it differs: "),
        (operator(image=f"{IMAGE}:v1.4.0-3-gabc1234"), packages(), "what tells it differs: "),
        (operator(), packages(f"v1.3.0@{D1}"), "says 'v1.3.0@sha256:"),
        (
            operator(),
            packages(D2),
            f"the operator is told to take packages {D1}, and OCIRepository "
            f"cozy-system/cozystack-packages says '{D2}'",
        ),
        (operator(), packages(f"main@{D2}"), "the operator is told to take packages"),
        (operator(observedGeneration=2), packages(), "generation 2 of 3 is seen"),
        (operator(updatedReplicas=0), packages(), "0 of 1 replicas are updated"),
        (operator(updatedReplicas=None), packages(), "None of 1 replicas are updated"),
        (operator(replicas=2), packages(), "2 exist"),
        (operator(wanted=2), packages(), "1 of 2 replicas are updated"),
        (operator(wanted=0, replicas=0, updatedReplicas=0), packages(), "0 of 0 replicas"),
        (operator(f"{IMAGE}@{D1}", None), packages(), f"the image {WHERE} says '{IMAGE}@sha256:"),
        (operator(f"{IMAGE}:latest", None), packages(), f"says '{IMAGE}:latest'"),
        # packages of a release beneath an operator of one's own are no release
        (operator(f"{IMAGE}:main", None), packages(f"v1.4.0@{D1}"), f"says '{IMAGE}:main'"),
        (operator(f"{IMAGE}", None), packages(), f"says '{IMAGE}'"),
        (operator(f"{IMAGE}:v1.4", "main"), packages(), f"COZYSTACK_VERSION {WHERE} says 'main'"),
        # what goes over the image's tag is no release, whatever the tag
        (operator(said="main"), packages(), f"no version: COZYSTACK_VERSION {WHERE} says 'main'"),
        (operator(said=None, args=["--cozystack-version=dev"]), packages(), "says 'dev'"),
        # a candidate's packages beneath an operator that is none of that candidate
        (operator(), packages(f"v1.4.0-rc.2@{D1}"), "says 'v1.4.0-rc.2@sha256:"),
        (
            "it is not there",
            packages(),
            "the operator names no version: Deployment cozy-system/cozystack",
        ),
        ("403 Forbidden, 'no'", "403", "says \"403 Forbidden, 'no'\""),
    ],
)
def test_what_does_not_tell_it_is_unknown_and_quoted(one: Any, other: Any, says: str) -> None:
    found = read(one, other)
    assert found.version == ""
    assert says in found.reason


def test_a_variable_from_elsewhere_is_quoted_and_names_nothing() -> None:
    made = operator(f"{IMAGE}:main")
    source = {"configMapKeyRef": {"name": "x", "key": "v"}}
    containers = made["spec"]["template"]["spec"]["containers"]
    containers[1]["env"] = [{"name": "COZYSTACK_VERSION", "valueFrom": source}]
    found = read(made, packages())
    assert found.version == "" and "configMapKeyRef" in found.reason
    containers[1]["image"] = f"{IMAGE}:v1.4.0"
    assert read(made, packages()).version == "v1.4.0"


def test_each_source_is_kept_with_its_words() -> None:
    found = read(operator(), packages("", conditions=[{"type": "Ready", "message": "no such tag"}]))
    assert [(one.where, one.text, one.version) for one in found.sources] == [
        (f"COZYSTACK_VERSION {WHERE}", "v1.4.0", "v1.4.0"),
        (f"the image {WHERE}", f"{IMAGE}:v1.4.0@{D1}", "v1.4.0"),
        ("OCIRepository cozy-system/cozystack-packages", "no such tag", ""),
    ]
    assert len(read(operator(said=""), packages()).sources) == 2
    assert '"cozystack-packages"' in found.origin.raw and '"sidecar"' in found.origin.raw


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("oci://ghcr.io/x", "OCIRepository"),
        ("https://example.org/x.git", "GitRepository"),
        ("", "OCIRepository"),
    ],
)
def test_the_kind_of_source_is_as_the_operator_is_told(url: str, kind: str) -> None:
    assert packages_kind(operator(args=[f"--platform-source-url={url}"])) == kind
    assert packages_kind("it is not there") == "OCIRepository"


def test_a_git_source_is_read_as_well() -> None:
    found = read(operator(), packages("v1.3.0@sha1:" + "c" * 40, "GitRepository"))
    assert "GitRepository cozy-system/cozystack-packages says 'v1.3.0@sha1:" in found.reason


def test_a_cluster_that_could_not_be_asked() -> None:
    found = unknown_platform("no answer", at=1.0, cluster="management")
    assert (found.version, found.reason, found.origin.raw) == ("", "no answer", "no answer")


@pytest.mark.parametrize(
    ("text", "version"),
    [(" v1.4.0\n", "v1.4.0"), ("V1.4.0", "v1.4.0"), ("v1.4", ""), ("v1.4.0-", ""), (D1, "")],
)
def test_a_version_is_a_whole_one(text: str, version: str) -> None:
    assert version_in(text) == version


KEYS = ("metadata", "spec", "status", "template", "containers", "env", "args", "name", "image")
MORE = ("value", "artifact", "revision", "kind", "generation", "replicas", "conditions")
JUNK = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=8),
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from([*KEYS, *MORE]), inner, max_size=4)
    ),
    max_leaves=25,
)


@given(some.dictionaries(some.sampled_from(["metadata", "spec", "status", "kind"]), JUNK), JUNK)
def test_nothing_that_an_api_may_send_breaks_it(one: Any, other: Any) -> None:
    found = read(one, other if isinstance(other, (dict, str)) else {})
    assert bool(found.version) != bool(found.reason)
    assert packages_kind(one) in ("OCIRepository", "GitRepository")


@given(JUNK)
def test_no_container_that_an_api_may_send_breaks_it(junk: Any) -> None:
    made = operator()
    made["spec"]["template"]["spec"]["containers"] = junk
    read(made, packages())
    container = operator()["spec"]["template"]["spec"]["containers"][1]
    made["spec"]["template"]["spec"]["containers"] = [
        container | {"env": [junk], "args": [junk], "image": junk}
    ]
    read(made, packages())
