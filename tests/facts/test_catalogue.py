from __future__ import annotations

from typing import Any

import pytest

from harness.facts.catalogue import (
    Entry,
    Phase,
    catalogue_release,
    golden_import,
    golden_name,
    golden_volume,
    resolved,
    users_of,
)

ENTRY = {"schematicID": "abc", "version": "v1.13.6"}
GOLDEN = "talos-worker-abc-v1.13.6"


def release(**values: Any) -> dict[str, Any]:
    said = {"type": "Ready", "status": "True", "reason": "ok", "observedGeneration": 2}
    return {
        "kind": "HelmRelease",
        "metadata": {"name": "kubernetes-worker-image", "generation": 2},
        "spec": {"values": values},
        "status": {"conditions": [said], "history": [{"version": 5}]},
    }


def test_a_release_and_what_it_names() -> None:
    found = catalogue_release(release(images=[ENTRY]), at=1.0, cluster="m")
    assert (found.images, found.generation, found.ready, found.revision) == (
        (GOLDEN,), 2, "True", 5,
    )  # fmt: skip


def test_what_was_said_of_an_earlier_generation_is_not_said_of_this() -> None:
    newer = release(images=[])
    newer["metadata"]["generation"] = 3
    found = catalogue_release(newer, at=1.0, cluster="m")
    assert (found.ready, found.images) == ("", ())
    assert catalogue_release({}, at=1.0, cluster="m").revision == 0


def test_an_entry_takes_from_the_release_what_it_leaves_out() -> None:
    values = {"storage": "8Gi", "storageClass": "fast", "imageFactoryURL": "https://f/"}
    url = "https://f/image/abc/v1.13.6/openstack-amd64.raw.xz"
    assert resolved(ENTRY, release(**values)) == Entry("abc", "v1.13.6", "8Gi", "fast", url)
    own = {**ENTRY, "storage": "9Gi", "storageClass": "slow", "imageFactoryURL": "http://o"}
    found = resolved(own, release(**values))
    assert (found.storage, found.storage_class) == ("9Gi", "slow")
    assert found.url.startswith("http://o/image/")
    bare = resolved(ENTRY, {})
    assert (bare.storage, bare.storage_class, bare.url) == ("6Gi", "replicated", "")
    assert bare.golden == golden_name(ENTRY) == GOLDEN


def volume(phase: str = "Succeeded", restarts: Any = 0, **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "DataVolume",
        "metadata": {"name": GOLDEN, "namespace": "cozy-public", "uid": "u", **metadata},
        "spec": {
            "contentType": "kubevirt",
            "source": {"http": {"url": "https://f"}},
            "storage": {
                "storageClassName": "replicated",
                "resources": {"requests": {"storage": "6Gi"}},
            },
        },
        "status": {
            "phase": phase,
            "restartCount": restarts,
            "conditions": [
                {"type": "Running", "status": "False", "reason": "Error", "message": "why"}
            ],
        },
    }


def test_a_golden_as_it_is() -> None:
    found = golden_volume(volume(annotations={"a": "b"}), at=1.0, cluster="m")
    assert (found.name, found.uid, found.phase, found.restarts) == (GOLDEN, "u", "Succeeded", 0)
    assert (found.content_type, found.url, found.storage) == ("kubevirt", "https://f", "6Gi")
    assert (found.storage_class, found.running) == ("replicated", "False Error why")
    assert (found.marks, found.labels, found.leaving) == ({"a": "b"}, {}, False)
    leaving = golden_volume(volume(deletionTimestamp="2026-01-01T00:00:00Z"), at=1.0, cluster="m")
    assert leaving.leaving


@pytest.mark.parametrize("nothing", [None, {}, [], "x"])
def test_what_is_no_golden_is_read_as_nothing(nothing: Any) -> None:
    found = golden_volume(nothing, at=1.0, cluster="m")
    assert (found.name, found.phase, found.restarts, found.running) == ("", "", 0, "")


def history(versions: list[tuple[float, dict[str, Any]]], at: float = 200.0) -> Any:
    return golden_import(GOLDEN, versions, since=100.0, doubt="", at=at, cluster="m")


def test_phases_with_their_times_and_restarts() -> None:
    found = history(
        [
            (101.0, volume("")),
            (102.0, volume("Pending")),
            (103.0, volume("ImportInProgress", 0)),
            (150.0, volume("ImportInProgress", 2)),
            (190.0, volume("Succeeded", 2)),
        ]
    )
    assert found.phases == (
        Phase("Pending", 0, 2.0),
        Phase("ImportInProgress", 2, 3.0),
        Phase("Succeeded", 2, 90.0),
    )
    assert (found.restarts, found.seconds, found.waited) == (2, 90.0, 100.0)


def test_a_phase_that_comes_again_is_told_again() -> None:
    found = history([(101.0, volume("A")), (102.0, volume("B")), (103.0, volume("A"))])
    assert [one.phase for one in found.phases] == ["A", "B", "A"]
    assert found.seconds is None


def test_nothing_seen_is_no_import() -> None:
    found = history([])
    assert (found.phases, found.seconds, found.restarts, found.waited) == ((), None, 0, 100.0)


def test_who_uses_a_golden() -> None:
    mark = {"kubernetes-worker-image.cozystack.io/golden": GOLDEN}

    def disk(name: str, source: Any = None, **metadata: Any) -> dict[str, Any]:
        return {
            "metadata": {"namespace": "tenant-a", "name": name, **metadata},
            "spec": {"source": source or {}},
        }

    claim = {"pvc": {"namespace": "cozy-public", "name": GOLDEN}}
    disks = [
        disk("marked", annotations=mark),
        disk("cloned", claim),
        disk("elsewhere", {"pvc": {"namespace": "tenant-a", "name": GOLDEN}}),
        disk("longer", {"pvc": {"namespace": "cozy-public", "name": f"{GOLDEN}-x"}}),
        disk("none"),
    ]
    assert users_of(GOLDEN, disks) == ("tenant-a/marked", "tenant-a/cloned")
