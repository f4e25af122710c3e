"""An entry in somebody else's Package: put in and taken out, and nothing else of it touched."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bringup.package_images import IMAGES, NOTE, PATCH, NotRestored, PackageImages
from harness.reach.errors import ApiRefused

OLD = {"schematicID": "old", "version": "v1.13.6"}
NEW = {"schematicID": "new", "version": "v1.13.6"}
OTHER = {"schematicID": "other", "version": "v1.13.6", "storage": "8Gi"}


class Package:
    """A cluster that keeps one Package and takes JSON patches; ``before`` runs ahead of each."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.before: Callable[[Any], None] = lambda _: None
        self.patches = 0

    def get(self, *_: str) -> Any:
        return copy.deepcopy(self.obj)

    def path_of(self, *_: str) -> str:
        return "/packages"

    def request(self, verb: str, method: str, path: str, query: Any, body: Any, kind: str) -> bytes:
        assert (verb, method, kind) == ("patch", "PATCH", PATCH)
        assert path == "/packages/cozystack.cozystack-platform"
        self.patches += 1
        self.before(self.obj)
        try:
            self.obj = jsonpatch.apply_patch(self.obj, body)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as failed:
            raise ApiRefused(422, "Invalid", str(failed)) from failed
        return b"{}"


def package(images: Any = None, **metadata: Any) -> Any:
    image: dict[str, Any] = {"storageClass": "replicated"}
    if images is not None:
        image["images"] = images
    values = {"bundles": {"enabledPackages": ["x"]}, "kubernetesWorkerImage": image}
    return {
        "metadata": {"name": "cozystack.cozystack-platform", **metadata},
        "spec": {"variant": "isp-full", "components": {"platform": {"values": values}}},
    }


def bare() -> Any:
    return {"metadata": {"name": "p"}, "spec": {"variant": "isp-full"}}


def images_of(cluster: Package) -> Any:
    found = cluster.obj
    for key in IMAGES:
        found = found[key]
    return found


def opened(obj: Any) -> tuple[Package, PackageImages]:
    cluster: Any = Package(obj)
    return cluster, PackageImages(cluster)


@pytest.mark.parametrize(
    "obj",
    [
        package([OLD]),
        package([]),
        package([OLD, OTHER], annotations={"theirs": "kept"}),
        package(),
        bare(),
        {"metadata": {"name": "p"}, "spec": {"components": {"platform": {}}}},
    ],
)
@pytest.mark.parametrize("golden", ["", "talos-worker-new-v1.13.6"])
def test_what_is_put_in_is_taken_out_to_the_letter(obj: Any, golden: str) -> None:
    cluster, images = opened(copy.deepcopy(obj))
    images.add(NEW, golden=golden, standing=[OLD])
    assert images_of(cluster)[-1] == NEW
    note = images.note()
    assert note is not None and (note.entry, note.golden) == (NEW, golden)
    images.take_out()
    if golden:
        kept = images.note()
        assert kept is not None and (kept.entry, kept.golden) == (None, golden)
        images.take_out()
        images.forget()
    assert cluster.obj == obj
    assert images.note() is None
    patches = cluster.patches
    images.take_out()
    images.forget()
    images.change(NEW)
    assert cluster.patches == patches, "without a note nothing is written"


def test_a_list_that_was_not_written_begins_with_what_stands() -> None:
    cluster, images = opened(package())
    images.add(NEW, golden="", standing=[OLD])
    assert images_of(cluster) == [OLD, NEW]


def test_an_entry_that_is_there_twice_loses_the_one_that_was_put_in() -> None:
    cluster, images = opened(package([OLD, OTHER]))
    images.add(OLD, golden="", standing=[])
    assert images_of(cluster) == [OLD, OTHER, OLD]
    images.take_out()
    assert images_of(cluster) == [OLD, OTHER]


def test_a_change_is_of_the_own_entry_alone_and_goes_with_it() -> None:
    cluster, images = opened(package([OLD]))
    images.add(NEW, golden="g", standing=[])
    images.change({**NEW, "storage": "7Gi"})
    assert images_of(cluster) == [OLD, {**NEW, "storage": "7Gi"}]
    note = images.note()
    assert note is not None and note.golden == "g"
    images.take_out()
    images.forget()
    assert cluster.obj == package([OLD])


ENTRIES = st.lists(st.sampled_from([OLD, OTHER, NEW]), max_size=3)


@given(ENTRIES, ENTRIES, st.booleans())
def test_what_others_wrote_meanwhile_stays(
    before: list[Any],
    after: list[Any],
    written: bool,  # noqa: FBT001 - drawn
) -> None:
    cluster, images = opened(package(list(before) if written else None))
    images.add({**NEW, "mine": "yes"}, golden="", standing=list(before))
    images_of(cluster).extend(after)
    cluster.obj["spec"]["variant"] = "theirs"
    images.take_out()
    found = images_of(cluster) if "images" in _above(cluster) else []
    assert found == [*before, *after] or (not written and not after and found == [])
    assert cluster.obj["spec"]["variant"] == "theirs"
    assert NOTE not in cluster.obj["metadata"].get("annotations", {})


def _above(cluster: Package) -> Any:
    found = cluster.obj
    for key in IMAGES[:-1]:
        found = found[key]
    return found


def test_a_key_that_somebody_put_beside_a_made_part_stays() -> None:
    cluster, images = opened(bare())
    images.add(NEW, golden="", standing=[OLD])
    cluster.obj["spec"]["components"]["other"] = {"values": {}}
    images.take_out()
    assert cluster.obj["spec"]["components"]["other"] == {"values": {}}
    assert images_of(cluster) == [OLD]


def test_an_edit_in_between_makes_the_patch_anew() -> None:
    cluster, images = opened(package([OLD]))

    def meanwhile(obj: Any) -> None:
        if cluster.patches == 1:
            obj["spec"]["components"]["platform"]["values"]["kubernetesWorkerImage"][
                "images"
            ].append(OTHER)

    cluster.before = meanwhile
    images.add(NEW, golden="", standing=[])
    assert images_of(cluster) == [OLD, OTHER, NEW]
    assert cluster.patches == 2


def test_edits_without_end_are_told() -> None:
    cluster, images = opened(package([OLD]))

    def meanwhile(obj: Any) -> None:
        obj["spec"]["components"]["platform"]["values"]["kubernetesWorkerImage"]["images"].append(
            OTHER
        )

    cluster.before = meanwhile
    with pytest.raises(ApiRefused):
        images.add(NEW, golden="", standing=[])
    assert cluster.patches == 3
    assert NEW not in images_of(cluster)


def test_an_entry_that_somebody_took_out_takes_the_note_along() -> None:
    cluster, images = opened(package([OLD]))
    images.add(NEW, golden="", standing=[])
    images_of(cluster).remove(NEW)
    images.take_out()
    assert cluster.obj == package([OLD])
    images.add(NEW, golden="g", standing=[])
    images_of(cluster).remove(NEW)
    with pytest.raises(NotRestored, match="not there any more"):
        images.change(OTHER)


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"golden": "g"}', '"x"'])
def test_a_note_that_is_garbled_is_told_and_nothing_is_written(text: str) -> None:
    cluster, images = opened(package([OLD], annotations={NOTE: text}))
    for step in (images.note, images.take_out):
        with pytest.raises(NotRestored, match=r"hil\.dev/catalogue"):
            step()
    assert cluster.patches == 0


def test_no_package_is_no_note() -> None:
    _, images = opened(None)
    assert images.package() == {}
    assert images.note() is None


def test_a_note_can_be_read_by_a_person() -> None:
    cluster, images = opened(package([OLD]))
    images.add(NEW, golden="g", standing=[])
    text = cluster.obj["metadata"]["annotations"][NOTE]
    assert json.loads(text) == {"entry": NEW, "place": [], "golden": "g"}
