"""Labels that say what a worker has: NFD's from its PCI bus, gpu-feature-discovery's from NVML.

NFD as the operator's chart sets it up: labels by vendor, for devices of the classes of network
and display controllers (GPO ``deployments/gpu-operator/values.yaml``); keys: objects.md section 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.gpu_chart import NFD_WORKER
from harness.twin.world.gpu_operands import FEATURES
from harness.twin.world.gpu_plugin import await_toolkit
from harness.twin.world.images import DRIVER_VERSION
from harness.twin.world.objects import Obj, deep, labels_of, selected
from harness.twin.world.passages import Passage, Player
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.guest import Guest
    from harness.twin.world.nvidia import Card
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

NFD_PREFIX = "feature.node.kubernetes.io/"
GPU_LABEL = f"{NFD_PREFIX}pci-10de.present"
_CLASSES = ("02", "0200", "0207", "0300", "0302")
MASTER = "nfd-master"


class NodeFeatures:
    """Node feature discovery of one cluster: a look at each node where its worker runs."""

    def __init__(self, world: World, workers: Workers) -> None:
        self._world, self._workers = world, workers
        self._looks = Activities(world.engine)
        self._followed: dict[str, Guest] = {}  # by Node: whose bus and modules are heard of
        workers.cluster.on("v1", "Pod", self._hear)

    def _hear(self, change: Change) -> None:
        pod = change.obj
        began = conditions.holds(pod, "Ready") and not conditions.holds(change.old or {}, "Ready")
        if change.type != "DELETED" and began and selected(pod, NFD_WORKER):
            self._plan(str(deep(pod, "spec", "nodeName")), "nfd.scan")

    def _plan(self, node: str, timing: str) -> None:
        seconds = self._world.timings.draw(timing)
        self._looks.start(f"NFD looks at {node}", seconds, lambda: self._look(node))

    def _changed(self, guest: Guest) -> None:
        if self._workers.guest_of(guest.hostname) is guest and self._runs(guest.hostname):
            self._plan(guest.hostname, "nfd.rescan")

    def _runs(self, node: str) -> bool:
        return any(
            selected(pod, NFD_WORKER)
            and deep(pod, "spec", "nodeName") == node
            and conditions.holds(pod, "Ready")
            for pod in self._workers.cluster.all("v1", "Pod")
        )

    def _look(self, name: str) -> None:
        guest = self._workers.guest_of(name)
        node = self._workers.cluster.find("v1", "Node", "", name)
        if guest is None or node is None or not self._runs(name):
            return
        if self._followed.get(name) is not guest:
            self._followed[name] = guest
            guest.kernel.changed.append(lambda: self._changed(guest))
        found = features(guest)

        def change(stored: Obj) -> None:
            kept = labels_of(stored)
            ours = [key for key in kept if key.startswith(NFD_PREFIX)]
            stored["metadata"]["labels"] = {
                **{key: value for key, value in kept.items() if key not in ours},
                **found,
            }

        self._workers.cluster.edit(node, change, manager=MASTER)


def features(guest: Guest) -> dict[str, str]:
    """The labels NFD gives a machine."""
    tree = guest.root.tree()
    found = {
        f"{NFD_PREFIX}kernel-version.full": guest.kernel_version,
        f"{NFD_PREFIX}system-os_release.ID": "talos",
        f"{NFD_PREFIX}system-os_release.VERSION_ID": guest.image.version,
    }
    for bdf in tree.listing("/sys/bus/pci/devices"):
        vendor, kind = (
            tree.read(f"/sys/bus/pci/devices/{bdf}/{name}").decode().strip().removeprefix("0x")
            for name in ("vendor", "class")
        )
        if kind[:4] in _CLASSES or kind[:2] in _CLASSES:
            found[f"{NFD_PREFIX}pci-{vendor}.present"] = "true"
    return found


class FeatureDiscovery(Player):
    """Plays the pods of gpu-feature-discovery."""

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """It waits for the validator's toolkit stage."""
        return {"toolkit-validation": await_toolkit}

    def main(self, passage: Passage) -> None:
        """Look at the cards, and label the node through NFD."""
        passage.serve()
        passage.takes("gfd.scan", lambda: self._label(passage), "labels its node")

    def _label(self, passage: Passage) -> None:
        node = self.workers.cluster.find("v1", "Node", "", passage.node)
        cards = passage.guest.kernel.driven()
        if node is None or not cards:
            return
        passage.say(FEATURES, "Creating Labels", f"Writing labels to output file: {len(cards)} GPU")
        found = card_labels(cards)
        self.workers.cluster.edit(
            node,
            lambda stored: stored["metadata"].update(labels={**labels_of(stored), **found}),
            manager=MASTER,
        )


def card_labels(cards: tuple[Card, ...]) -> dict[str, str]:
    """gpu-feature-discovery's labels for a machine's cards; what differs is the first one's."""
    board = cards[0].board
    major, _, minor = board.cuda.partition(".")
    return {
        "nvidia.com/gpu.product": board.model.replace(" ", "-"),
        "nvidia.com/gpu.count": str(len(cards)),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.memory": str(board.memory),
        "nvidia.com/gpu.family": board.architecture.lower().replace(" ", "-"),
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/cuda.driver-version.full": DRIVER_VERSION,
        "nvidia.com/mig.capable": "false",
    }
