"""Claims about what a tenant's pod gets of a card, judged by its effect inside the pod.

Annotations of a Pod are not looked at: none stands there where injection works (S-GPO). Whatever
could have brought a driver by another way spoils the evidence, and a spoilt one is unknown.

On a machine that belongs to no cluster a pod is a container that the machine's own engine runs;
``addons`` and ``daemonsets`` are None there, and neither HAMi nor a DaemonSet can have done it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.daemonsets import DaemonSets
from harness.facts.fact import Fact, Unread
from harness.facts.gpunode import RESOURCE
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.facts.operator import Addons
from harness.facts.podman import SOURCE_MISSING, UNRESOLVED, missing_source
from harness.facts.probes import (
    CDI_REFUSALS,
    Control,
    CudaRun,
    EarlyPod,
    Injected,
    NoTool,
    PodAsStored,
    Seen,
)
from harness.judge.cdi_resolution import taken_from, unresolved
from harness.judge.hidden import helpers
from harness.judge.operator import not_covered
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, outcome, unread

_KIND = "nvidia.com/gpu"
_NOT_CREATED = ("CreateContainerError", "RunContainerError", "StartError")
_NOT_ADMITTED = ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
_UNRESOLVABLE = re.compile(r"unresolvable CDI devices (?P<names>[^\s,]+(?:, [^\s,]+)*)")
_FABRIC = ("802", "system not yet initialized")
_QUOTED = 200
"""Characters of a log's end that a sentence quotes."""


def cdi_spec(spec: CdiSpec | CdiAbsent | Unread, cards: int, subject: str) -> Verdict:
    """cdi-spec: the node's /run/cdi/nvidia.yaml is there and names as many cards as it has.

    Unknown where no card was asked for.
    """
    claim = "cdi-spec"
    if isinstance(spec, Unread):
        return unread(claim, subject, spec)
    if cards < 1:
        because = "the pool asked for no card, so none is to be named"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (spec,))
    if isinstance(spec, CdiAbsent):
        because = f"{spec.path} is not there, its service has not finished: {spec.said}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (spec,))
    same = spec.device_kind == _KIND and spec.gpus == cards
    because = (
        f"{spec.path} is of kind {spec.device_kind} and names {counted(spec.gpus, 'card')} "
        f"({named(spec.devices)}), expected {cards} of {_KIND}"
    )
    return Verdict(claim, subject, outcome(same), because, (spec,))


def cdi_injection(
    injected: Injected | Unread,
    control: Control | Unread,
    node_smi: SmiCards | SmiFailed | Unread,
    addons: Addons | Unread | None,
    daemonsets: DaemonSets | Unread | None,
    subject: str,
) -> Verdict:
    """cdi-injection: a fresh pod lists exactly as many cards as it asked for, all of them the
    node's, and a pod of the same image on the same node that asked for none finds no driver.

    Unknown where the evidence is spoilt: a runtime class or any other aid on either pod as it is
    stored, a driver in the control, pods of two images or two nodes, no card asked for, a
    DaemonSet beside the platform's that may have done it (faults.md 28). A pod that its engine
    refuses for the device is broken, with what is wrong in the machine's CDI files.
    """
    claim = "cdi-injection"
    facts = _there(injected, control, node_smi, addons, daemonsets)
    uncovered = _not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    if (
        isinstance(injected, Unread)
        or isinstance(control, Unread)
        or isinstance(daemonsets, Unread)
    ):
        return unread(claim, subject, *facts)
    spoilt = [*_spoilt(injected.stored), *_spoilt_control(control, injected.stored)]
    spoilt += _helped(daemonsets)
    if (addons is None) is not (daemonsets is None):
        spoilt.append("of the cluster not all was looked at that could have done it")
    if spoilt:
        because = f"the evidence is spoilt: {'; '.join(spoilt)}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    if not isinstance(injected.smi, SmiCards):
        return _without_cards(claim, subject, injected, facts)
    if not isinstance(node_smi, SmiCards):
        because = "which cards the node has is not known, so none in the pod can be told for its"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    verdict = _cards_of(claim, subject, injected, injected.smi, node_smi, facts)
    return _without_cluster(verdict) if addons is None else verdict


def cuda_runs(
    run: CudaRun | Unread,
    success: str,
    addons: Addons | Unread,
    daemonsets: DaemonSets | Unread,
    subject: str,
) -> Verdict:
    """cuda-runs: the CUDA probe succeeded with exit status 0 and wrote the text of success.

    ``success`` is the inventory's, and never empty. Unknown while the pod has not ended, where
    its log could not be read, and where anything could have brought a driver by another way.
    """
    claim = "cuda-runs"
    facts = (run, addons, daemonsets)
    uncovered = not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    if isinstance(run, Unread) or isinstance(daemonsets, Unread):
        return unread(claim, subject, *facts)
    spoilt = [*_spoilt(run.stored), *_helped(daemonsets)]
    if spoilt or not success.strip():
        why = "; ".join(spoilt) or "the text of success is empty, and stands in any log"
        because = f"the evidence is spoilt: {why}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    if _refused_by_runtime(run.stored):
        return Verdict(claim, subject, Outcome.BROKEN, f"pod {run.stored}", facts)
    if run.exit_code is None or (run.log is None and run.exit_code == 0):
        missing = "its log could not be read" if run.exit_code == 0 else "it has not ended"
        because = f"pod {run.stored}; {missing}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    log = run.log or ""
    passed = run.stored.phase == "Succeeded" and run.exit_code == 0 and success in log
    fabric = any(one in log for one in _FABRIC) and not passed
    because = (
        f"pod {run.stored}, exit status {run.exit_code}, expected 0 and {success!r} in its log, "
        f"which ends {_end(log)}" + ("; error 802 means the fabric" if fabric else "")
    )
    return Verdict(claim, subject, outcome(passed), because, facts)


def early_pod_unserved(
    early: EarlyPod | Unread,
    fresh: Injected | Unread,
    addons: Addons | Unread | None,
    subject: str,
) -> Verdict:
    """early-pod-unserved: a pod bound to the node before that offered a card has none still, now
    that a fresh pod on it works, alike but for its age; it has to be made anew.

    The kubelet refuses such a pod where it knows the resource, and runs it without a card where
    it does not (its removeMissingExtendedResources); both are without. A container engine refuses
    it as the former; as the latter stands a container that runs since before and asked for none,
    and that one finds no driver either. Unknown where the pod was not made early enough, where no
    fresh pod works, and where the evidence is spoilt.
    """
    claim = "early-pod-unserved"
    facts = _there(early, fresh, addons)
    uncovered = _not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    if isinstance(early, Unread) or isinstance(fresh, Unread):
        return unread(claim, subject, *facts)
    doubts = [*_too_late(early), *_spoilt(early.stored), *_spoilt(fresh.stored)]
    doubts += [*_not_beside(early, fresh), *_spoilt_older(early, fresh.stored)]
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    if isinstance(early.smi, SmiCards) and early.smi.cards:
        because = f"pod {early.stored}, made before its node offered a card, {_saw(early.smi)}"
        return Verdict(claim, subject, Outcome.BROKEN, because, facts)
    refused = early.smi is None and _not_admitted(early.stored)
    if refused or isinstance(early.smi, NoTool):
        without = "refused" if refused else "without nvidia-smi"
        if isinstance(early.older, Control):
            without += f"; {early.older.stored.pod}, which runs since before, finds no driver"
        because = f"early pod {early.stored}, {without}; the fresh one {_saw(fresh.smi)}"
        return Verdict(claim, subject, Outcome.HOLDS, because, facts)
    seen = _saw(early.smi) if early.smi is not None else "runs no command"
    because = f"early pod {early.stored}, {seen}: neither with a card nor plainly without"
    return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)


def _there(*facts: Fact | None) -> tuple[Fact, ...]:
    return tuple(fact for fact in facts if fact is not None)


def _not_covered(
    claim: str, subject: str, addons: Addons | Unread | None, *facts: Fact
) -> Verdict | None:
    return None if addons is None else not_covered(claim, subject, addons, *facts)


def _without_cluster(verdict: Verdict) -> Verdict:
    because = (
        f"{verdict.because}; the machine belongs to no cluster, so neither HAMi nor a DaemonSet "
        "can have done it"
    )
    return Verdict(verdict.claim, verdict.subject, verdict.outcome, because, verdict.facts)


def _helped(daemonsets: DaemonSets | None) -> list[str]:
    """What beside the platform may have brought the driver that a pod was seen with."""
    found = [] if daemonsets is None else helpers(daemonsets)
    return [f"DaemonSet {one} may have done it" for one in found]


def _spoilt(pod: PodAsStored) -> Iterator[str]:
    if pod.aids:
        yield f"{pod.pod} is stored with {named(pod.aids)}"
    if pod.requested < 1:
        yield f"{pod.pod} asks for no {RESOURCE}"


def _spoilt_control(control: Control, fresh: PodAsStored) -> Iterator[str]:
    pod = control.stored
    if control.found_driver:
        yield f"{pod.pod}, which asked for no card, finds a driver: {control.said.strip()}"
    if pod.requested:
        yield f"{pod.pod} is to be the control, and asks for a card"
    if pod.aids:
        yield f"{pod.pod} is stored with {named(pod.aids)}"
    if pod.image != fresh.image:
        yield f"{pod.pod} has the image {pod.image}, {fresh.pod} has {fresh.image}"
    if fresh.node and pod.node != fresh.node:
        yield f"{pod.pod} is on {pod.node}, {fresh.pod} on {fresh.node}"


def _spoilt_older(early: EarlyPod, fresh: PodAsStored) -> Iterator[str]:
    """Why the container that runs since before shows nothing, where there is one."""
    if isinstance(early.older, Unread):
        yield f"{early.older.asked} could not be read: {early.older.reason}"
    elif early.older is not None:
        yield from _spoilt_control(early.older, fresh)


def _refused_by_runtime(pod: PodAsStored) -> bool:
    """The pod could not be made because of what was to be put into it."""
    runtime = pod.reason in _NOT_CREATED and "CDI" in pod.message
    return runtime or pod.reason in CDI_REFUSALS or _not_admitted(pod)


def _not_admitted(pod: PodAsStored) -> bool:
    """Kubelet or engine refused the pod because there is no such card to be had."""
    admission = pod.phase == "Failed" and pod.reason in _NOT_ADMITTED
    return admission or pod.reason == UNRESOLVED


def _without_cards(
    claim: str, subject: str, injected: Injected, facts: tuple[Fact, ...]
) -> Verdict:
    pod, refused = injected.stored, _refused_by_runtime(injected.stored)
    if isinstance(injected.smi, Unread) and not (refused and _by_its_files(injected)):
        return unread(claim, subject, injected.smi, *facts)
    saw = "" if isinstance(injected.smi, Unread) else f", {_saw(injected.smi)}"
    because = f"pod {pod}{saw}; expected {counted(pod.requested, 'card')}{_by_files(injected)}"
    return Verdict(claim, subject, Outcome.BROKEN, because, facts)


def _by_its_files(injected: Injected) -> bool:
    """Whether a source that could not be mounted is one that a CDI file names; others are not."""
    if injected.stored.reason != SOURCE_MISSING:
        return True
    if injected.files is None or isinstance(injected.files, Unread):
        return False
    sources = {
        source
        for one in injected.files.files
        if isinstance(one.spec, CdiSpec)
        for source in one.spec.sources
    }
    return missing_source(injected.stored.message) in sources


def _by_files(injected: Injected) -> str:
    """What the machine's CDI files have to do with a card that is not there; "" if nothing."""
    if injected.files is None:
        return ""
    asked = _asked(injected.stored)
    refused = _UNRESOLVABLE.search(injected.stored.message)
    told = unresolved(asked, injected.files) if refused else taken_from(asked, injected.files)
    return f"; {told}" if told else ""


def _asked(pod: PodAsStored) -> Sequence[str]:
    """The CDI devices that were asked for: the container's own, else those that were refused."""
    found = _UNRESOLVABLE.search(pod.message)
    return pod.asked or (found["names"].split(", ") if found else ())


def _cards_of(
    claim: str,
    subject: str,
    injected: Injected,
    seen: SmiCards,
    node: SmiCards,
    facts: tuple[Fact, ...],
) -> Verdict:
    """Whether the pod sees as many cards as it asked for, all of them the node's."""
    pod = injected.stored
    given = [card.uuid for card in seen.cards]
    has = {card.uuid for card in node.cards}
    same = len(given) == pod.requested and set(given) <= has
    because = (
        f"{pod.pod} asked for {pod.requested} and lists {named(given)}; {pod.node} has "
        f"{named(sorted(has))}; a pod of the same image without a limit has no driver"
    ) + ("" if same else _by_files(injected))
    return Verdict(claim, subject, outcome(same), because, facts)


def _too_late(early: EarlyPod) -> Iterator[str]:
    if early.advertised not in (None, "", "0"):
        yield (
            f"{early.stored.pod} was not made early enough: {early.stored.node} offered "
            f"{early.advertised} already"
        )


def _not_beside(early: EarlyPod, fresh: Injected) -> Iterator[str]:
    """Why the fresh pod is no measure of the early one."""
    if not (isinstance(fresh.smi, SmiCards) and fresh.smi.cards):
        yield f"the fresh pod {_saw(fresh.smi)}, so there is nothing to compare with"
    if early.stored.node != fresh.stored.node:
        yield f"the early pod is on {early.stored.node}, the fresh one on {fresh.stored.node}"
    if early.stored.pod == fresh.stored.pod:
        yield f"{early.stored.pod} is the early and the fresh pod at once"
    if early.stored.image != fresh.stored.image:
        yield f"the early pod has the image {early.stored.image}, the fresh one has another"
    if early.stored.asked != fresh.stored.asked:
        yield f"the early pod asks for {named(early.stored.asked)}, the fresh one for another"
    if early.stored.created is None or fresh.stored.created is None:
        yield "how old the two pods are is not known"
    elif early.stored.created >= fresh.stored.created:
        yield "the early pod is no older than the fresh one"


def _saw(seen: Seen) -> str:
    if isinstance(seen, SmiCards):
        return f"lists {named(card.uuid for card in seen.cards)}"
    if isinstance(seen, NoTool):
        return f"has no nvidia-smi ({seen.said.strip()})"
    return f"gets no answer of the driver ({seen.reason})"


def _end(log: str) -> str:
    said = log.strip()
    return repr(said[-_QUOTED:]) if said else "without a word"
