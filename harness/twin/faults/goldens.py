"""Faults of the platform's golden images: not there, not imported, of another class, not kept."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import NO_HOST, NOT_ASKED_FOR, NOT_RENDERED, UNFILLED
from harness.twin.faults.model import Edit, Fault
from harness.twin.faults.requests import MANAGER, both, catalogue_chart
from harness.twin.world import golden_seed
from harness.twin.world.golden_catalogue import PLATFORM, VALUES
from harness.twin.world.golden_chart import KEEP_POLICY, TALOS
from harness.twin.world.landscape import GOLDENS
from harness.twin.world.objects import CDI, COZY, STORAGE, deep
from harness.twin.world.pool_disk import PUBLIC, golden_name, image_url

if TYPE_CHECKING:
    from harness.twin.world.world import World

CLONED = ("cloned",)
BLOCKED = frozenset({"catalogue-kept", "catalogue-refused", "class-resolved", "golden-lost"})
"""Unknown where the catalogue's release waits for a golden in vain."""
STUCK = NO_HOST | UNFILLED | BLOCKED | {"golden-refused", "os-image-allowed", "os-image-rolls"}
"""Unknown where the golden is there and is not imported: no pool of it is rendered then (R7)."""
ANOTHER = "v1.12.4"
FACTORY = "https://factory.talos.dev"
MIRROR_HOST = "factory.mirror.example.org"
MIRROR = f"https://{MIRROR_HOST}"
NO_ANSWER = f"dial tcp: lookup {MIRROR_HOST}: i/o timeout"
TOO_SMALL = "4Gi"
BARE = "local-path"


def _catalogue(world: World, change: Callable[[Obj], None]) -> None:
    """Change what the platform's Package says of the catalogue."""

    def write(package: Obj) -> None:
        change(deep(package, *VALUES, "kubernetesWorkerImage"))

    world.management.edit(COZY, "Package", "", PLATFORM, write, manager=MANAGER)


def _take_out(world: World) -> Obj:
    """The golden from before the story, which is not there any more, nor is its claim."""
    (golden,) = world.cluster.all(CDI, "DataVolume", PUBLIC)
    place = PUBLIC, golden["metadata"]["name"]
    claim = world.cluster.find("v1", "PersistentVolumeClaim", *place)
    world.cluster.remove(golden)
    if claim is not None:
        world.cluster.remove(claim)
    return golden


def _anew(golden: Obj) -> Obj:
    """What the catalogue's chart applied for a golden."""
    metadata = golden["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations")}
    return copy.deepcopy({**golden, "metadata": kept, "status": {}})


def imported_late(values: Obj, change: Callable[[Obj], None]) -> Edit:
    """The golden is asked for as the story begins, otherwise than it should be.

    ``values`` are what the catalogue then says, ``change`` what follows of it for the golden.
    """

    def edit(world: World) -> None:
        golden = _anew(_take_out(world))
        change(golden["spec"])
        world.cluster.create(golden, manager="helm-controller")
        _catalogue(world, lambda catalogue: catalogue.update(values))

    return edit


def _list_another(world: World) -> None:
    """The catalogue's only entry is of another Talos release."""
    golden = _anew(_take_out(world))
    (image,) = GOLDENS
    schematic = image["schematicID"]
    golden["metadata"]["name"] = golden_name(schematic, ANOTHER)
    golden["metadata"]["annotations"][TALOS] = ANOTHER
    golden["spec"]["source"]["http"]["url"] = image_url(FACTORY, schematic, ANOTHER)
    golden_seed.imported(world, world.cluster.create(golden, manager="helm-controller"))
    _catalogue(world, lambda catalogue: catalogue.update(images=[{**image, "version": ANOTHER}]))


def _from_mirror(spec: Obj) -> None:
    url = spec["source"]["http"]["url"]
    spec["source"]["http"]["url"] = url.replace(FACTORY, MIRROR)


def _of_size(spec: Obj) -> None:
    spec["storage"]["resources"]["requests"]["storage"] = TOO_SMALL


def _of_class(spec: Obj) -> None:
    spec["storage"]["storageClassName"] = BARE


def _mirror_is_down(world: World) -> None:
    world.factory.mirrors_down[MIRROR_HOST] = NO_ANSWER


def _bare_class(world: World) -> None:
    """A class of a provisioner that CDI knows nothing of."""
    made = {
        "apiVersion": STORAGE,
        "kind": "StorageClass",
        "metadata": {"name": BARE},
        "provisioner": "rancher.io/local-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    world.cluster.create(made, manager=MANAGER)


def _drop_policy(world: World) -> None:
    def change(golden: Obj) -> None:
        del golden["metadata"]["annotations"][KEEP_POLICY]

    (golden,) = world.cluster.all(CDI, "DataVolume", PUBLIC)
    world.cluster.edit(golden, change, manager=MANAGER)


FAULTS = (
    Fault(
        id="golden-absent",
        sentence="The platform's catalogue has no entry for the image that the pool is to clone.",
        seen="no DataVolume and no PVC of that name in cozy-public, one of another Talos release; "
        "a pool that is asked for all the same: InstallFailed, not found in cozy-public",
        wrong_diagnosis="RBAC: the tenant may not see it",
        breaks=frozenset({"golden-ready"}),
        blinds=NOT_ASKED_FOR | {"headroom"},
        where=CLONED,
        edit=_list_another,
        source="S-OSI",
    ),
    Fault(
        id="golden-import-retrying",
        sentence="The factory that the golden comes from does not answer.",
        seen="ImportInProgress with a restartCount that rises, Running=False Error, Event "
        "ErrImportFailed; never Failed; the pool is rendered at first, its disks wait for their "
        "source, and from the third restart on its release is refused for that",
        wrong_diagnosis="it will be Failed in the end, so wait",
        breaks=frozenset({"catalogue-import", "golden-ready", "node-joins"}),
        blinds=STUCK,
        where=CLONED,
        edit=both(_mirror_is_down, imported_late({"imageFactoryURL": MIRROR}, _from_mirror)),
        source="CDI; S-OSI",
    ),
    Fault(
        id="golden-too-small",
        sentence="The catalogue asks for goldens smaller than the image.",
        seen="ImportInProgress with a restartCount that rises: DataVolume too small to contain "
        "image; never Failed",
        wrong_diagnosis="the image factory",
        breaks=frozenset({"catalogue-import", "golden-ready", "node-joins"}),
        blinds=STUCK,
        where=CLONED,
        edit=imported_late({"storage": TOO_SMALL}, _of_size),
        source="S-OSI",
    ),
    Fault(
        id="catalog-on-local-class",
        sentence="The catalogue's class is local-path, whose StorageProfile knows no access mode.",
        seen="the golden has no PVC, ErrClaimNotValid; the catalogue's release times out; the pool "
        "is refused for its class",
        wrong_diagnosis="DRBD",
        breaks=frozenset(
            {
                "catalogue-import",
                "golden-ready",
                "node-joins",
                "spec-applied",
            }
        ),
        blinds=NOT_RENDERED | BLOCKED | {"golden-refused", "os-image-allowed"},
        where=CLONED,
        edit=both(_bare_class, imported_late({"storageClass": BARE}, _of_class)),
        source="S-OSI",
    ),
    Fault(
        id="golden-not-kept",
        sentence="The catalogue's chart makes goldens without Helm's policy to keep them.",
        seen="everything works until an entry is dropped: then its golden goes with it",
        wrong_diagnosis="somebody deleted it",
        breaks=frozenset({"golden-ready", "catalogue-import", "catalogue-kept"}),
        blinds=frozenset({"class-resolved", "golden-lost"}),
        where=CLONED,
        edit=both(_drop_policy, catalogue_chart(keeps=False)),
        source="S-OSI",
    ),
)
