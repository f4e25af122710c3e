"""NVIDIA's device plugin on a worker, and HAMi's: what they register, write and answer.

NDP v0.19.0 ``internal/plugin/server.go`` and ``internal/cdi/cdi.go``; the entry point that waits
for the validator: GPO ``assets/state-device-plugin/0400_configmap.yaml``; gpu_path.md sections 5.1
and 6. Which settings count is decided when the container starts, from its own environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.gpu_chart import HAMI_PLUGIN
from harness.twin.world.gpu_devices import Allocation
from harness.twin.world.gpu_operands import PLUGIN_CONTAINER, VALIDATIONS
from harness.twin.world.images import DRIVER_VERSION
from harness.twin.world.objects import Obj, deep, selected
from harness.twin.world.passages import Passage, Player, wait_for_file

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.guest import Guest
    from harness.twin.world.nvidia import Card
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

RESOURCE = "nvidia.com/gpu"
CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
CDI_SPEC = "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
CDI_PREFIX = "cdi.k8s.io/"
"""The only annotation prefix that containerd reads."""
_WAIT = "waiting for nvidia container stack to be setup"
_CDI = ("cdi-annotations", "cdi-cri")
_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


@dataclass(frozen=True, slots=True)
class Settings:
    """A device plugin's settings: its environment over the program's defaults."""

    strategies: tuple[str, ...]
    by_index: bool
    prefix: str
    hook: str
    passes_nodes: bool = False

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Settings:
        """From an environment."""
        listed = (env.get("DEVICE_LIST_STRATEGY") or "envvar").split(",")
        hook = env.get("NVIDIA_CDI_HOOK_PATH") or env.get("NVIDIA_CTK_PATH")
        return cls(
            tuple(one.strip() for one in listed),
            env.get("DEVICE_ID_STRATEGY", "uuid") == "index",
            env.get("CDI_ANNOTATION_PREFIX") or CDI_PREFIX,
            hook or "/usr/bin/nvidia-ctk",
            env.get("PASS_DEVICE_SPECS", "false") == "true",
        )

    @property
    def writes_spec(self) -> bool:
        """Whether devices are handed out by CDI at all, so that a spec is needed."""
        return any(one in self.strategies for one in _CDI)

    @property
    def reaches_runtime(self) -> bool:
        """Whether containerd hears of a CDI device: by its own field, or a prefix it reads."""
        annotated = "cdi-annotations" in self.strategies and self.prefix == CDI_PREFIX
        return annotated or "cdi-cri" in self.strategies


@dataclass(frozen=True, slots=True)
class Plugin:
    """NVIDIA's plugin, registered: the cards that the machine's driver really drives."""

    guest: Guest
    settings: Settings
    resource: str = RESOURCE

    def devices(self) -> tuple[str, ...]:
        """The cards' UUIDs."""
        return tuple(card.uuid for card in self.guest.kernel.driven())

    def allocate(self, ids: Sequence[str]) -> Allocation:
        """What the strategy gives a container for these cards."""
        names = device_names(self.guest.kernel.driven(), self.settings)
        chosen = [names[one] for one in ids if one in names]
        env: dict[str, str] = {}
        if "envvar" in self.settings.strategies:
            env["NVIDIA_VISIBLE_DEVICES"] = ",".join(chosen)
        if "volume-mounts" in self.settings.strategies:
            env["NVIDIA_VISIBLE_DEVICES"] = "/var/run/nvidia-container-devices"
        named = tuple(f"{CDI_KIND}={name}" for name in chosen)
        by_cdi = all(one in _CDI for one in self.settings.strategies)
        nodes = self._nodes(ids) if self.settings.passes_nodes and not by_cdi else ()
        return Allocation(env, named if self.settings.reaches_runtime else (), nodes)

    def _nodes(self, ids: Sequence[str]) -> tuple[str, ...]:
        """The device nodes that the kubelet puts into a container: nodes, and no library."""
        cards = self.guest.kernel.driven()
        mine = [f"/dev/nvidia{i}" for i, card in enumerate(cards) if card.uuid in ids]
        host = self.guest.root.tree()
        return tuple(path for path in (*(f"/dev/{one}" for one in _NODES), *mine)
                     if host.exists(path))  # fmt: skip


@dataclass(frozen=True, slots=True)
class HamiPlugin:
    """HAMi's plugin, registered: no CDI, so nothing but a variable (S-GPO: uncovered).

    That it splits cards is not modelled: a device is a card.
    """

    guest: Guest
    resource: str = RESOURCE

    def devices(self) -> tuple[str, ...]:
        """The cards' UUIDs."""
        return tuple(card.uuid for card in self.guest.kernel.driven())

    def allocate(self, ids: Sequence[str]) -> Allocation:
        """A list of cards for a runtime that nobody made the default."""
        return Allocation({"NVIDIA_VISIBLE_DEVICES": ",".join(ids)})


def device_names(cards: Sequence[Card], settings: Settings) -> dict[str, str]:
    """What each card, by UUID, is called in specs and answers."""
    return {c.uuid: str(i) if settings.by_index else c.uuid for i, c in enumerate(cards)}


def cdi_spec(cards: Sequence[Card], settings: Settings) -> bytes:
    """The plugin's CDI spec: a device for each card, and what every container gets.

    Where Talos keeps the libraries is inferred; nvidia-smi's place: gpu_path.md section 3.
    """
    names = device_names(cards, settings)
    devices = [
        {"name": names[card.uuid], "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{i}"}]}}
        for i, card in enumerate(cards)
    ]
    libraries = [f"lib{one}.so.{DRIVER_VERSION}" for one in ("cuda", "nvidia-ml")]
    mounts = [(f"/usr/local/lib/{one}", f"/usr/lib64/{one}") for one in libraries]
    mounts.append(("/usr/local/bin/nvidia-smi", "/usr/bin/nvidia-smi"))
    hook = {
        "hookName": "createContainer",
        "path": settings.hook,
        "args": ["nvidia-ctk", "hook", "update-ldcache", "--folder", "/usr/lib64"],
    }
    edits = {
        "deviceNodes": [{"path": f"/dev/{one}"} for one in _NODES],
        "hooks": [hook],
        "mounts": [
            {
                "hostPath": host,
                "containerPath": inside,
                "options": ["ro", "nosuid", "nodev", "bind"],
            }
            for host, inside in mounts
        ],
    }
    spec = {
        "cdiVersion": "0.5.0",
        "kind": CDI_KIND,
        "devices": devices,
        "containerEdits": edits,
    }
    return json.dumps(spec, separators=(",", ":")).encode()


class DevicePlugins(Player):
    """Plays the pods of NVIDIA's device plugin."""

    def __init__(self, world: World, workers: Workers) -> None:
        super().__init__(world, workers)
        self._registered: dict[str, str] = {}  # node to UID of the pod that registered there
        workers.on_down.append(self._forget)

    def _forget(self, node: str) -> None:
        self._registered.pop(node, None)

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """It waits for the validator's toolkit stage."""
        return {"toolkit-validation": await_toolkit}

    def main(self, passage: Passage) -> None:
        """The entry point: wait for the driver stage, take its file over, start the plugin."""
        passage.serve()
        path = f"{VALIDATIONS}/driver-ready"
        line = "waiting for the driver validations to be ready..."
        wait_for_file(passage, PLUGIN_CONTAINER, path, line, partial(self._start, passage, path))

    def _start(self, passage: Passage, path: str) -> None:
        text = passage.guest.tmpfs[path].decode()
        passage.say(PLUGIN_CONTAINER, *text.splitlines(), "Starting nvidia-device-plugin")
        # the file's variables win over the pod's (gpu_path.md section 5.1)
        said = dict(line.partition("=")[::2] for line in text.splitlines())
        settings = Settings.read({**passage.env(PLUGIN_CONTAINER), **said})
        passage.takes("plugin.start", partial(self._register, passage, settings), "registers")

    def _register(self, passage: Passage, settings: Settings) -> None:
        cards = passage.guest.kernel.driven()
        if not cards:
            passage.say(PLUGIN_CONTAINER, "No devices found. Waiting indefinitely.")
            return
        if settings.writes_spec:
            text = f"Generating CDI spec for resource: {CDI_KIND}"
            passage.say(PLUGIN_CONTAINER, text)
            passage.guest.tmpfs[CDI_SPEC] = cdi_spec(cards, settings)
        passage.say(
            PLUGIN_CONTAINER,
            f"Starting GRPC server for '{RESOURCE}'",
            f"Starting to serve '{RESOURCE}' on /var/lib/kubelet/device-plugins/nvidia-gpu.sock",
            f"Registered device plugin for '{RESOURCE}' with Kubelet",
        )
        self._registered[passage.node] = passage.pod["metadata"]["uid"]
        self.workers.plug(passage.node, Plugin(passage.guest, settings))

    def ended(self, passage: Passage) -> None:
        """The plugin's socket goes with its pod."""
        uid = passage.pod["metadata"]["uid"]
        if self._registered.get(passage.node) == uid:
            del self._registered[passage.node]
            self.workers.unplug(passage.node, RESOURCE)


def await_toolkit(passage: Passage) -> None:
    """The init container of every operand: until the validator's toolkit stage is through."""
    path = f"{VALIDATIONS}/toolkit-ready"
    wait_for_file(passage, "toolkit-validation", path, _WAIT, passage.passed)


class HamiPlugins:
    """HAMi's device plugin, on every worker where its pod runs."""

    def __init__(self, world: World, workers: Workers) -> None:
        self._world, self._workers = world, workers
        workers.cluster.on("v1", "Pod", self._hear)

    def _hear(self, change: Change) -> None:
        pod = change.obj
        if not selected(pod, HAMI_PLUGIN):
            return
        runs = change.type != "DELETED" and conditions.holds(pod, "Ready")
        if runs != conditions.holds(change.old or {}, "Ready"):
            what = f"{pod['metadata']['name']} registers or goes"
            self._world.engine.after(0.0, lambda: self._settle(pod, runs=runs), what)

    def _settle(self, pod: Obj, *, runs: bool) -> None:
        node = str(deep(pod, "spec", "nodeName") or "")
        guest = self._workers.guest_of(node)
        if not runs:
            self._workers.unplug(node, RESOURCE)
        elif guest is not None and guest.kernel.driven():
            self._workers.plug(node, HamiPlugin(guest))
