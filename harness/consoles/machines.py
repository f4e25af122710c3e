"""The consoles there are: of a cluster's VMIs, and of the mini-lab's guests; one face for both."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bringup.connect import ConnectedLab
from harness.bringup.leasing import lease_name
from harness.clock import Clock
from harness.facts.objects import Obj, listed, mapped, name_of, text_at
from harness.inventory.naming import deployment_name
from harness.observe.joining_context import CONSOLE_LOG
from harness.observe.pool import DEPLOYMENT_LABEL, KUBEVIRT
from harness.qemulab.console_tail import readable, tail
from harness.qemulab.lab import MiniLab
from harness.reach.console import Console
from harness.reach.errors import ApiRefused, LabError, Refused
from harness.reach.kube import Kube
from harness.reach.lease import API, KIND, lease_state, micro_time
from harness.reach.terminal import Attached
from harness.session.mistake import UserMistake

_VMI = "VirtualMachineInstance"
_MOST = 1024 * 1024  # bytes of a log whose last lines are asked for


@dataclass(frozen=True, slots=True)
class Opened:
    """A console that may be attached to. ``refuse_another`` raises LabError where somebody else has
    it, ``attach`` attaches, ``kept`` gives the last lines of what was kept of it. ``name`` is how
    messages speak of it."""

    name: str
    attach: Callable[[], Attached]
    kept: Callable[[int], Sequence[str]]
    refuse_another: Callable[[], None] = lambda: None


def guest_console(directory: Path, guest: str, clock: Clock) -> Opened:
    """A guest of the mini-lab that is up in a directory. Raises LabError, Misnamed for its name.

    QEMU takes one client at a time and never cuts one off: attaching to a taken one is refused.
    """
    lab = MiniLab.attach(directory)
    log = lab.guest(guest).log
    return Opened(guest, lambda: lab.console(guest, clock), lambda lines: tail(log, lines))


def cluster_console(lab: ConnectedLab, name: str) -> Opened:
    """A VMI of the inventory's tenant. Raises UserMistake where there is none of that name."""
    kube, namespace = lab.management, lab.inventory.tenant.namespace
    place = f"{namespace}/{name}"
    try:
        found = kube.get(KUBEVIRT, _VMI, namespace, name)
        if found is None:
            raise UserMistake(_no_such(kube, namespace, name))
    except Refused as refused:
        raise _no_access(place, namespace, refused) from refused

    return Opened(
        place,
        lambda: _attach(kube, found),
        lambda lines: _kept(kube, found, lines),
        lambda: _refuse_another(lab, found),
    )


def _no_such(kube: Kube, namespace: str, name: str) -> str:
    names = sorted(map(name_of, kube.list(KUBEVIRT, _VMI, namespace)))
    if not names:
        return f"there is no VMI in namespace {namespace}: its pools have no worker now"
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:20])}"
    return f"there is no VMI {name} in namespace {namespace}; {hint}"


def _no_access(place: str, namespace: str, refused: Refused) -> LabError:
    do = (
        "ask for `get` on virtualmachineinstances in group kubevirt.io and on "
        f"virtualmachineinstances/console in group subresources.kubevirt.io, in namespace "
        f"{namespace} (KubeVirt's ClusterRole kubevirt.io:edit has both)"
    )
    return LabError(f"open the console of {place}", refused.saw, do)


def _refuse_another(lab: ConnectedLab, vmi: Obj) -> None:
    """Raise LabError where a run holds the VMI's pool: attaching would end its capture."""
    place = lab.inventory.tenant
    deployment = mapped(vmi, "metadata", "labels").get(DEPLOYMENT_LABEL, "")
    prefix = deployment_name(place.cluster, "")
    if not deployment.startswith(prefix):
        return
    pool = deployment.removeprefix(prefix)
    found = lab.management.get(API, KIND, place.namespace, lease_name(place.cluster, pool))
    state = lease_state(found) if found is not None else None
    if state is None or not state.live(lab.clock.now()):
        return
    until = "a time that cannot be read" if state.until is None else micro_time(state.until)
    saw = (
        f"that run {state.holder} holds pool {pool} till {until}: a second reader would end its "
        "capture without a word"
    )
    do = "wait till then, read the run's own record, or take it with --steal"
    raise LabError(f"open the console of {name_of(vmi)}", saw, do)


def _attach(kube: Kube, vmi: Obj) -> Attached:
    namespace, name = text_at(vmi, "metadata", "namespace"), name_of(vmi)
    tried = f"open the console of {namespace}/{name}"
    try:
        return Console.attach(kube, namespace, name)
    except Refused as refused:
        raise _no_access(f"{namespace}/{name}", namespace, refused) from refused
    except ApiRefused as refused:
        raise LabError(tried, refused.saw, _next_step(refused, vmi)) from refused


def _next_step(refused: ApiRefused, vmi: Obj) -> str:
    """What would help against a precondition that is not met (uptime_and_diagnosis section 4)."""
    namespace, name = text_at(vmi, "metadata", "namespace"), name_of(vmi)
    if "serial" in refused.message.lower():
        return "it was made without one (autoattachSerialConsole: false); only a new VMI has one"
    if refused.code == 409:
        return f"it failed: see `kubectl -n {namespace} describe vmi {name}`"
    if refused.code == 400:
        phase = text_at(vmi, "status", "phase") or "without a phase"
        return f"it is {phase}: wait until `kubectl -n {namespace} get vmi {name}` says Running"
    if refused.code == 404:
        return "it went a moment ago: see whether another has taken its place"
    return "read the API's message; the request itself was delivered"


def _kept(kube: Kube, vmi: Obj, lines: int) -> Sequence[str]:
    """The last lines of the container that logs the console. Raises UserMistake without one."""
    namespace, name = text_at(vmi, "metadata", "namespace"), name_of(vmi)
    labels = f"kubevirt.io/created-by={text_at(vmi, 'metadata', 'uid')}"
    for pod in kube.list("v1", "Pod", namespace, labels=labels):
        containers = (*listed(pod, "spec", "initContainers"), *listed(pod, "spec", "containers"))
        if any(text_at(one, "name") == CONSOLE_LOG for one in containers):
            said = kube.logs(namespace, name_of(pod), CONSOLE_LOG, limit_bytes=_MOST, tail=lines)
            return readable(said)[-lines:]
    raise UserMistake(
        f"nothing is kept of the console of {name}: it has no history, but where the pool sets "
        "logSerialConsole; attach, and wait for what comes (--until TEXT, --seconds 60)"
    )
