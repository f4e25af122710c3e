"""The pools around one that is changed: what each consists of, so that none moves unnoticed.

What belongs to whom is told by the label that names a MachineDeployment, by a Machine's reference
to its Node and by a disk's owner, never by how a name begins (objects 1; CAPI).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.facts.fact import Fact, Origin
from harness.facts.objects import Obj, at_path, listed, mapped, name_of, text_at, uid_of
from harness.facts.poolstate import digest

DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
_RELEASE = "meta.helm.sh/release-name"
_REFERENCES = (("infrastructureRef",), ("bootstrap", "configRef"))


@dataclass(frozen=True, slots=True)
class PoolSight:
    """One pool. ``name`` is its MachineDeployment's; ``values`` the SHA-256 of what its release
    was told, "" without one; ``parts`` map its objects ("Kind name") to UID and, of a template,
    content, and its Nodes ("boot of NAME") to the boot id. ``ready``: all its workers had come up;
    ``going``: it is being deleted.
    """

    name: str
    values: str
    parts: dict[str, str] = field(hash=False)
    ready: bool = True
    going: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings(Fact):
    """Every pool but one, by its MachineDeployment's name."""

    pools: tuple[PoolSight, ...]

    def of(self, name: str) -> PoolSight | None:
        """The pool of this MachineDeployment."""
        return next((one for one in self.pools if one.name == name), None)


def surroundings(
    *,
    deployments: Sequence[Obj],
    releases: Iterable[Obj],
    templates: Sequence[Obj],
    machines: Sequence[Obj],
    vmis: Sequence[Obj],
    data_volumes: Sequence[Obj],
    nodes: Sequence[Obj],
    leaving_out: str,
    at: float,
    where: str,
) -> Surroundings:
    """Put every pool but that of ``leaving_out`` together from the objects of a namespace."""
    told, going = {}, set()
    for one in releases:
        told[name_of(one)] = digest(at_path(one, "spec", "values"))
        going |= {name_of(one)} if text_at(one, "metadata", "deletionTimestamp") else set()
    pools = []
    for deployment in deployments:
        name = name_of(deployment)
        if name == leaving_out:
            continue
        own = [one for one in machines if _label(one) == name]
        running = [one for one in vmis if _label(one) == name]
        vms = {name_of(one) for one in running} | {
            text_at(one, "spec", "infrastructureRef", "name") for one in own
        }
        joined = {text_at(one, "status", "nodeRef", "name") for one in own} | vms
        parts = {
            **_templates(deployment, templates),
            **_uids(own),
            **_uids(running),
            **_uids(one for one in data_volumes if vms & _owners(one)),
            **{
                f"boot of {name_of(one)}": text_at(one, "status", "nodeInfo", "bootID")
                for one in nodes
                if name_of(one) in joined
            },
        }
        release = mapped(deployment, "metadata", "annotations").get(_RELEASE, "")
        leaves = release in going or bool(text_at(deployment, "metadata", "deletionTimestamp"))
        pools.append(
            PoolSight(name, told.get(release, ""), parts, _all_ready(deployment), going=leaves)
        )
    raw = "\n".join(f"{one.name}: {dict(sorted(one.parts.items()))}" for one in pools)
    return Surroundings(Origin(at, f"{where} pools beside {leaving_out}", raw), tuple(pools))


def _all_ready(deployment: Obj) -> bool:
    wanted, ready = at_path(deployment, "spec", "replicas"), "readyReplicas"
    return (mapped(deployment, "status").get(ready) or 0) >= (wanted or 0)


def _templates(deployment: Obj, templates: Sequence[Obj]) -> dict[str, str]:
    """The templates in use, each with its UID and content; one that is not there has neither."""
    found: dict[str, str] = {}
    for path in _REFERENCES:
        reference = mapped(deployment, "spec", "template", "spec", *path)
        kind, name = text_at(reference, "kind"), text_at(reference, "name")
        template = next(
            (one for one in templates if (text_at(one, "kind"), name_of(one)) == (kind, name)), {}
        )
        found[f"{kind} {name}"] = f"{uid_of(template)} {digest(at_path(template, 'spec'))}"
    return found


def _uids(objects: Iterable[Obj]) -> Mapping[str, str]:
    return {f"{text_at(one, 'kind')} {name_of(one)}": uid_of(one) for one in objects}


def _owners(obj: Obj) -> set[str]:
    return {text_at(one, "name") for one in listed(obj, "metadata", "ownerReferences")}


def _label(obj: Obj) -> str:
    return str(mapped(obj, "metadata", "labels").get(DEPLOYMENT_LABEL, ""))
