"""A case as rules look at it: pools with all that belongs to them, nodes with their boots, texts.

Everything here is read, nothing is concluded. What a case does not tell is None or empty, and a
rule that meets it finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from harness.diagnose.boots import Boots, boots_of
from harness.diagnose.case import MANAGEMENT, TENANT, Case, Kind, Text, Thing
from harness.diagnose.things import (
    ABSENT,
    advertised,
    application,
    deployment_of,
    on_node,
)
from harness.facts import machineconfig
from harness.facts import pool as pool_facts
from harness.facts.daemonsets import DaemonSet, daemonsets
from harness.facts.machineconfig import InstallImage, RenderedModules
from harness.facts.modules import ModuleTable, read_modules
from harness.facts.nvidia import SmiCards, SmiFailed, read_smi_list
from harness.facts.objects import listed, mapped, text_at, uid_of
from harness.facts.pool import BootSource, PoolRequest, RequestedModules
from harness.facts.reply import Output
from harness.facts.vmi import compute_container

_T = TypeVar("_T")

OPERATOR = "cozy-gpu-operator"
PRESENT = "feature.node.kubernetes.io/pci-10de.present"
EXTENSIONS = "extensions.talos.dev/"
"""How Talos begins the keys by which a Node tells its extensions: a label, or an annotation where
the value is none; its schematic is an annotation (TAL, ExtensionStatus to NodeLabelSpec)."""
VANILLA = re.compile(r"ce4c9805[0-9a-f]{51}c7515")
"""The charts' own default schematic, which has no NVIDIA extension (objects.md 2.1)."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker along its chain; each `ABSENT` where the case has none."""

    machine: Thing = ABSENT
    vm: Thing = ABSENT
    vmi: Thing = ABSENT
    launcher: Thing = ABSENT
    node: Thing = ABSENT

    @property
    def names(self) -> set[str]:
        """The names of its machine in either cluster."""
        return {self.vmi.name, self.node.name, self.vm.name} - {""}

    @property
    def name(self) -> str:
        """The name that most of the chain shares."""
        return next((one.name for one in (self.vmi, self.node, self.machine) if one.name), "")


@dataclass(frozen=True, slots=True)
class Pool:
    """One worker pool. ``cards`` are the resource names that a worker asks for, None where the
    case does not tell; ``written`` its kernelModules as the release's values have them."""

    name: str
    request: Thing = ABSENT
    release: Thing = ABSENT
    deployment: Thing = ABSENT
    machine_template: Thing = ABSENT
    config_template: Thing = ABSENT
    workers: tuple[Worker, ...] = ()
    cards: tuple[str, ...] | None = None
    boot: BootSource | None = None
    installer: InstallImage | None = None
    modules: RenderedModules | None = None
    written: RequestedModules | None = None

    @property
    def subject(self) -> str:
        """How evidence names it."""
        return f"pool {self.name}"

    @property
    def nodes(self) -> tuple[Thing, ...]:
        """The tenant Nodes of its workers."""
        return tuple(one.node for one in self.workers if one.node.name)

    @property
    def has_nvidia(self) -> bool:
        """Whether it is known to ask for an NVIDIA card."""
        return any(one.startswith("nvidia.com/") for one in self.cards or ())

    @property
    def cardless(self) -> bool:
        """Whether it is known to ask for no NVIDIA card."""
        return self.cards is not None and not self.has_nvidia


@dataclass(frozen=True)
class View:
    """What rules are given. Made once for a case; parts are read when first asked for."""

    case: Case
    _indexed: dict[str, tuple[Thing, ...]] = field(default_factory=dict, repr=False)
    _named: dict[str, dict[str, Thing]] = field(default_factory=dict, repr=False)
    _once: dict[Any, Any] = field(default_factory=dict, repr=False)

    def things(self, kind: str, cluster: str = "", namespace: str = "") -> tuple[Thing, ...]:
        """`Case.things`, remembered."""
        key = f"{kind} {cluster} {namespace}"
        if key not in self._indexed:
            self._indexed[key] = self.case.things(kind, cluster, namespace)
        return self._indexed[key]

    def find(self, kind: str, name: str, cluster: str = "", namespace: str = "") -> Thing:
        """An object by its name, `ABSENT` where the case has none."""
        key = f"{kind} {cluster} {namespace}"
        if key not in self._named:
            known = self.things(kind, cluster, namespace)
            self._named[key] = {one.name: one for one in reversed(known)}
        return self._named[key].get(name, ABSENT)

    def events(self, *reasons: str, kind: str = "", cluster: str = "") -> Iterator[Thing]:
        """Events of these reasons (any without), about objects of a kind."""
        for one in self.things("Event", cluster):
            about = text_at(one.obj, "involvedObject", "kind")
            if (not reasons or text_at(one.obj, "reason") in reasons) and kind in ("", about):
                yield one

    def once(self, look: Callable[[View], _T]) -> _T:
        """What a look at this case comes to, made the first time that it is asked for."""
        if look not in self._once:
            self._once[look] = look(self)
        found: _T = self._once[look]
        return found

    def lacks(self, kind: str, cluster: str, namespace: str = "") -> bool:
        """Whether objects of a kind were listed whole in a place: only then is one absent."""
        return self.case.listed_whole(kind, cluster, namespace) is not None

    # -- texts

    def texts(self, *kinds: Kind) -> tuple[Text, ...]:
        """The texts of these kinds."""
        return self.case.of(*kinds)

    def lines(self, pattern: re.Pattern[str], *kinds: Kind) -> Iterator[tuple[Text, str]]:
        """Lines of texts in which a pattern is found."""
        for text in self.texts(*kinds):
            if pattern.search(text.text):
                found = (line for line in text.text.splitlines() if pattern.search(line))
                yield from ((text, line.strip()[:200]) for line in found)

    @cached_property
    def module_tables(self) -> tuple[tuple[Text, ModuleTable], ...]:
        """Whole tables of loaded modules, by the text that each was read from."""
        read = [
            (one, read_modules(Output(("cat",), 0, one.text), at=one.at or 0.0, source=one.source))
            for one in self.texts(Kind.MODULES)
        ]
        return tuple(
            (text, table)
            for text, table in read
            if isinstance(table, ModuleTable) and table.whole and not text.cut
        )

    @cached_property
    def smi_lists(self) -> tuple[tuple[Text, SmiCards | SmiFailed], ...]:
        """What nvidia-smi -L said, where it can be read."""
        read = [
            (one, read_smi_list(Output(("smi",), 0, one.text), at=one.at or 0.0, source=one.source))
            for one in self.texts(Kind.SMI_LIST)
        ]
        return tuple((text, said) for text, said in read if isinstance(said, SmiCards | SmiFailed))

    # -- pools

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool of which the case has anything, by name."""
        names = {name for name in self._pool_names() if name}
        return tuple(self._pool(name) for name in sorted(names))

    def pool_of(self, node: str) -> Pool | None:
        """The pool of a tenant node, None where that cannot be told."""
        linked = (p for p in self.pools if any(node in w.names for w in p.workers))
        return next(linked, None) or self._pool_named(node)

    def _pool_named(self, node: str) -> Pool | None:
        """The pool whose name a worker's begins with (inferred: CAPI names a MachineSet after its
        deployment, and a Machine after its set, five random letters each)."""
        begins = [
            pool
            for pool in self.pools
            if re.fullmatch(rf"{re.escape(pool.name)}-[a-z0-9]{{5}}-[a-z0-9]{{5}}", node)
        ]
        return max(begins, key=lambda one: len(one.name), default=None)

    def _pool_names(self) -> Iterator[str]:
        for kind in ("MachineDeployment", "MachineHealthCheck"):
            yield from (one.name for one in self.things(kind, MANAGEMENT))
        for one in self.things("KubernetesNodes", MANAGEMENT):
            yield f"kubernetes-{one.name}"
        for one in self.things("HelmRelease", MANAGEMENT):
            if one.name.startswith("kubernetes-nodes-"):
                yield "kubernetes-" + one.name.removeprefix("kubernetes-nodes-")
        for kind in ("Machine", "VirtualMachineInstance", "VirtualMachine"):
            yield from (deployment_of(one) for one in self.things(kind, MANAGEMENT))

    def _pool(self, name: str) -> Pool:
        short = name.removeprefix("kubernetes-")
        request = self.find("KubernetesNodes", short, MANAGEMENT)
        release = self.find("HelmRelease", f"kubernetes-nodes-{short}", MANAGEMENT)
        deployment = self.find("MachineDeployment", name, MANAGEMENT)
        spec = mapped(deployment.obj, "spec", "template", "spec")
        machine = self._template("KubevirtMachineTemplate", name, spec, ("infrastructureRef",))
        config = self._template("TalosConfigTemplate", name, spec, ("bootstrap", "configRef"))
        workers = tuple(self._workers(name))
        pool = Pool(name, request, release, deployment, machine, config, workers)
        return self._read(pool)

    def _template(
        self, kind: str, name: str, spec: Mapping[str, object], path: tuple[str, ...]
    ) -> Thing:
        """The template in use: the one referred to, else the only one of the pool's name."""
        wanted = text_at(spec, *path, "name")
        if wanted:
            return self.find(kind, wanted, MANAGEMENT)
        pattern = re.compile(rf"{re.escape(name)}(-[0-9a-f]{{6}})?")
        found = [one for one in self.things(kind, MANAGEMENT) if pattern.fullmatch(one.name)]
        return found[0] if len(found) == 1 else ABSENT

    def _workers(self, pool: str) -> Iterator[Worker]:
        machines = [m for m in self.things("Machine", MANAGEMENT) if deployment_of(m) == pool]
        vmis = self.things("VirtualMachineInstance", MANAGEMENT)
        seen: set[str] = set()
        for machine in machines:
            name = text_at(machine.obj, "spec", "infrastructureRef", "name") or machine.name
            seen.add(name)
            node = text_at(machine.obj, "status", "nodeRef", "name") or name
            yield self._worker(machine, name, node)
        for vmi in vmis:
            if deployment_of(vmi) == pool and vmi.name not in seen:
                yield self._worker(ABSENT, vmi.name, vmi.name)

    def _worker(self, machine: Thing, name: str, node: str) -> Worker:
        vmi = self.find("VirtualMachineInstance", name, MANAGEMENT)
        return Worker(
            machine=machine,
            vm=self.find("VirtualMachine", name, MANAGEMENT),
            vmi=vmi,
            launcher=self._launcher(vmi, name),
            node=self.find("Node", node, TENANT),
        )

    def _launcher(self, vmi: Thing, name: str) -> Thing:
        uid = uid_of(vmi.obj)
        for pod, maker in self._launchers:
            if (uid and maker == uid) or pod.name.startswith(f"virt-launcher-{name}-"):
                return pod
        return ABSENT

    @cached_property
    def _launchers(self) -> tuple[tuple[Thing, str], ...]:
        """The pods that may be launchers, each with the UID of the VMI that it was made for."""
        found = (
            (pod, mapped(pod.obj, "metadata", "labels").get("kubevirt.io/created-by", ""))
            for pod in self.things("Pod", MANAGEMENT)
        )
        return tuple(one for one in found if one[1] or one[0].name.startswith("virt-launcher-"))

    def _read(self, pool: Pool) -> Pool:
        boot = pool_facts.boot_source(pool.machine_template.obj, at=0.0, cluster=MANAGEMENT)
        config = pool.config_template
        data = text_at(config.obj, "spec", "template", "spec", "data") * config.knows("spec")
        source = config.where
        installer = machineconfig.install_image(data, at=0.0, source=source)
        modules = machineconfig.rendered_modules(data, at=0.0, source=source)
        asked = pool_facts.pool_request(pool.release.obj, at=0.0, cluster=MANAGEMENT)
        return Pool(
            pool.name, pool.request, pool.release, pool.deployment,
            pool.machine_template, pool.config_template, pool.workers,
            cards=_cards(pool),
            boot=boot if isinstance(boot, BootSource) else None,
            installer=installer if isinstance(installer, InstallImage) else None,
            modules=modules if isinstance(modules, RenderedModules) else None,
            written=asked.kernel_modules
            if isinstance(asked, PoolRequest) and pool.release.knows("spec", "values")
            else None,
        )  # fmt: skip

    # -- schematics

    @cached_property
    def schematics(self) -> dict[str, tuple[str, ...]]:
        """What is in each schematic of which somebody says it: the inventory, or a Node of it."""
        found = {key: dict.fromkeys(names) for key, names in self.case.schematics.items()}
        for node in self.things("Node"):
            marks = {**mapped(node.obj, "metadata", "labels"),
                     **mapped(node.obj, "metadata", "annotations")}  # fmt: skip
            said = {k.removeprefix(EXTENSIONS): v for k, v in marks.items()
                    if k.startswith(EXTENSIONS)}  # fmt: skip
            schematic = said.pop("schematic", None)
            if isinstance(schematic, str) and node.knows("metadata"):
                found.setdefault(schematic, {}).update(dict.fromkeys(said))
        return {key: tuple(names) for key, names in found.items()}

    @cached_property
    def nvidia_schematics(self) -> dict[str, str]:
        """Schematics known to carry NVIDIA's extensions, each with how that is known."""
        known = {
            one: f"its extensions are known: {', '.join(said)}"
            for one, said in self.schematics.items()
            if any("nvidia" in name for name in said)
        }
        for pool in self.pools:
            serving = [n.name for n in pool.nodes if advertised(n)]
            if pool.boot and pool.has_nvidia and serving:
                why = f"the cards of {pool.subject} are served from it ({serving[0]})"
                known.setdefault(pool.boot.schematic, why)
        return known

    def lacks_nvidia(self, schematic: str) -> bool:
        """Whether a schematic is known to have no NVIDIA extension."""
        said = self.schematics.get(schematic)
        if said is not None:
            return not any("nvidia" in name for name in said)
        return VANILLA.fullmatch(schematic) is not None

    # -- tenant cluster

    @cached_property
    def tenant_nodes(self) -> tuple[Thing, ...]:
        """The tenant's Nodes."""
        return tuple(one for one in self.things("Node", TENANT) if one.cluster == TENANT)

    @cached_property
    def boots(self) -> dict[str, Boots]:
        """The boots of each tenant node, by its name."""
        return {one.name: self._boots(one) for one in self.tenant_nodes}

    def _boots(self, node: Thing) -> Boots:
        versions = [one for one in self.case.versions("Node", TENANT) if one.name == node.name]
        uid = uid_of(node.obj)
        same = [one for one in versions if uid_of(one.obj) == uid]
        pods = [p for p in self.things("Pod", TENANT) if on_node(p) == node.name]
        events = [
            one
            for one in self.events("Rebooted", kind="Node")
            if text_at(one.obj, "involvedObject", "name") == node.name
        ]
        return boots_of(node.name, same or [node], pods, events)

    @cached_property
    def daemonsets(self) -> tuple[tuple[Thing, DaemonSet], ...]:
        """The tenant's DaemonSets."""
        found = [
            one
            for one in self.things("DaemonSet", TENANT)
            if one.cluster == TENANT and one.knows("spec", "template")
        ]
        return tuple((one, daemonsets([one.obj], at=0.0, cluster=TENANT).sets[0]) for one in found)

    def daemonset(self, name: str) -> tuple[Thing, DaemonSet] | None:
        """The tenant's DaemonSet of this name in the GPU operator's namespace."""
        found = (
            one for one in self.daemonsets if (one[1].namespace, one[1].name) == (OPERATOR, name)
        )
        return next(found, None)

    def has_daemonset(self, name: str) -> Thing:
        """The tenant's DaemonSet of this name, of which nothing but its name need be known."""
        found = self.find("DaemonSet", name, TENANT, OPERATOR)
        return found if found.cluster == TENANT else ABSENT

    def pods(self, app: str, cluster: str = TENANT) -> Iterator[Thing]:
        """Pods with this label ``app``."""
        for one in self.things("Pod", cluster):
            if mapped(one.obj, "metadata", "labels").get("app") == app:
                yield one

    @cached_property
    def clusters(self) -> tuple[Thing, ...]:
        """The HelmReleases of tenant clusters: those that render a control plane."""
        return tuple(
            one
            for one in self.things("HelmRelease", MANAGEMENT)
            if application(one) == "Kubernetes" or _renders_cluster(one) or _has_addons(one)
        )


def _has_addons(release: Thing) -> bool:
    return "addons" in mapped(release.obj, "spec", "values")


def _renders_cluster(release: Thing) -> bool:
    entries = listed(release.obj, "status", "inventory", "entries")
    return any("_KamajiControlPlane" in text_at(one, "id") for one in entries)


def _cards(pool: Pool) -> tuple[str, ...] | None:
    """What a worker of the pool asks for: what any of its objects shows, none where one that is
    whole shows none."""
    none = False
    for thing, path in _asking(pool):
        asked = mapped(thing.obj, *path)
        found = [
            text_at(one, "deviceName") or text_at(one, "name") for one in listed(asked, "gpus")
        ]
        if found:
            return tuple(found)
        none = none or (bool(asked) and thing.knows(*(step for step in path if step)))
    limits = [
        mapped(compute_container(w.launcher.obj), "resources", "limits") for w in pool.workers
    ]
    held = tuple(
        dict.fromkeys(key for one in limits for key in one if key.startswith("nvidia.com/"))
    )
    return held or (() if none else None)


def _asking(pool: Pool) -> Iterator[tuple[Thing, tuple[str, ...]]]:
    """The objects that say what cards a worker gets, and where in them."""
    template = ("spec", "template", "spec", "virtualMachineTemplate", "spec", "template", "spec")
    yield pool.release, ("spec", "values")
    yield pool.request, ("spec",)
    yield pool.machine_template, (*template, "domain", "devices")
    for worker in pool.workers:
        yield worker.vmi, ("spec", "domain", "devices")
