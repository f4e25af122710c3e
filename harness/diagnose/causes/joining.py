"""Why a worker does not come to a Ready node, beside its card and its disk (uptime section 6)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, TENANT, Kind, Thing
from harness.diagnose.causes.shown import NOT_JOINED, NOT_PULLED, NOT_READY
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.things import age, ready, said
from harness.diagnose.view import View
from harness.facts.objects import at_path, condition, epoch, listed, text_at

MARKING = 60.0
"""Seconds by which a health check may be late."""
JOINING = 20 * 60.0
"""Seconds after which a worker that has not joined is late (nodeStartupTimeout's default)."""
_MAINTENANCE = re.compile(r"(?i)maintenance (?:mode|service)|machine stage[^\n]*maintenance"
                          r"|this machine is reachable at")  # fmt: skip
_ANONYMOUS = re.compile(r"system:anonymous")
_KUBELETS = re.compile(
    r"certificatesigningrequests|\b(?:csi)?nodes(?:\.\S+)? (?:\S+ )?is forbidden"
    r"|\bresource \W*(?:csi)?nodes\b|/(?:csi)?nodes\b|leases.*kube-node-lease|kubelet/v?\d"
)
"""What a kubelet asks for, as a refusal or an URI says it: a machine may be called node-1."""
_CNI = re.compile(r"(?i)cni plugin not initialized|network plugin (?:is )?not ready"
                  r"|NetworkPluginNotReady|NetworkReady=false")  # fmt: skip
_PART = r"([0-9]+(?:\.[0-9]+)?)([hms])"
_DURATION = rf"(?:{_PART})+"
_BARE_METAL = "the host is bare metal"
_VGIF = re.compile(r"kvm_amd/parameters/vgif\W+(?P<value>[01YN])")


@proves("MachineSet: condition MachinesCreated", "BootstrapTemplateCloningFailed")
def _no_template(view: View) -> Iterator[Seen]:
    for one in view.things("MachineSet", MANAGEMENT):
        found = condition(one.obj, "MachinesCreated")
        if text_at(found, "reason") == "BootstrapTemplateCloningFailed":
            yield Seen(f"{one.name}: {said(one, 'MachinesCreated')}", one.where, one.name)


@fits("the talos-reconcile Job", "failed, or still waiting")
def _job_waits(view: View) -> Iterator[Seen]:
    for one in view.things("Job", MANAGEMENT):
        if "talos-reconcile" in one.name and not at_path(one.obj, "status", "succeeded"):
            tries = at_path(one.obj, "status", "failed") or 0
            yield Seen(f"Job {one.name} has not succeeded, {tries} tries failed", one.where)


def _as_nobody(view: View) -> Iterator[tuple[Seen, bool]]:
    """Lines of requests that nobody signed, the first of each text, and whether a kubelet's are
    among them: it asks for certificates and for its own Node, as no probe of the API does."""
    found: dict[str, tuple[Seen, bool]] = {}
    for text, line in view.lines(_ANONYMOUS, Kind.LOG, Kind.CONSOLE, Kind.DMESG):
        kubelet = bool(_KUBELETS.search(line))
        if text.source not in found or (kubelet and not found[text.source][1]):
            found[text.source] = Seen(f"{line!r}", text.source), kubelet
    yield from found.values()


@proves(
    "logs of kubelet or of the tenant's apiserver",
    "certificatesigningrequests or nodes asked for as system:anonymous",
)
def _anonymous_kubelet(view: View) -> Iterator[Seen]:
    yield from (seen for seen, kubelet in _as_nobody(view) if kubelet)


@fits("logs of kubelet or of the tenant's apiserver", "requests as system:anonymous")
def _anonymous(view: View) -> Iterator[Seen]:
    yield from (seen for seen, kubelet in _as_nobody(view) if not kubelet)


@proves("the guest's console", "maintenance mode, no configuration")
def _maintenance(view: View) -> Iterator[Seen]:
    told: set[str] = set()
    for text, line in view.lines(_MAINTENANCE, Kind.CONSOLE, Kind.DMESG):
        if text.source not in told:
            told.add(text.source)
            yield Seen(f"{line!r}", text.source)


@proves("the boot URL", "nocloud in place of openstack")
def _nocloud(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        data = str(pool.machine_template.obj.get("spec", ""))
        if "nocloud-" in data:
            yield Seen(f"{pool.subject} boots a nocloud image", pool.machine_template.where,
                       pool.subject)  # fmt: skip


@rules_out("the boot URL", "an openstack image")
def _openstack(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if pool.boot and "openstack-" in pool.boot.address:
            yield Seen(f"{pool.subject} boots {pool.boot.address.rsplit('/', 1)[-1]}", "",
                       pool.subject)  # fmt: skip


@proves("pods of the tenant's control plane", "kube-apiserver was OOMKilled")
def _apiserver_killed(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod", MANAGEMENT):
        for status in listed(pod.obj, "status", "containerStatuses"):
            for state in ("state", "lastState"):
                reason = text_at(status, state, "terminated", "reason")
                if "apiserver" in text_at(status, "name") and reason == "OOMKilled":
                    count = at_path(status, "restartCount") or 0
                    yield Seen(f"{pod.name}: kube-apiserver was OOMKilled, {count} restarts",
                               pod.where)  # fmt: skip


@proves("Node: condition Ready", "False: the network plugin is not ready")
def _no_network(view: View) -> Iterator[Seen]:
    for node in view.tenant_nodes:
        found = condition(node.obj, "Ready")
        if text_at(found, "status") == "False" and _CNI.search(text_at(found, "message")):
            yield Seen(f"{node.name}: {said(node, 'Ready')}", node.source, f"node {node.name}")


@fits("HelmRelease kubernetes-<cluster>-cilium", "not Ready")
def _cilium(view: View) -> Iterator[Seen]:
    for one in view.things("HelmRelease", MANAGEMENT):
        if one.name.endswith("-cilium") and ready(one) == "False":
            yield Seen(f"{one.name}: {said(one, 'Ready')}", one.where)


@proves("Machine: condition HealthCheckSucceeded or OwnerRemediated", "NodeStartupTimeout")
def _startup_timeout(view: View) -> Iterator[Seen]:
    for one in view.things("Machine", MANAGEMENT):
        for found in listed(one.obj, "status", "conditions"):
            if text_at(found, "reason") == "NodeStartupTimeout":
                yield Seen(f"Machine {one.name}: {text_at(found, 'type')} NodeStartupTimeout",
                           one.where, one.name)  # fmt: skip
    for event in view.events(cluster=MANAGEMENT):
        message = text_at(event.obj, "message")
        if "NodeStartupTimeout" in message or "node startup timeout" in message.lower():
            yield Seen(f"{text_at(event.obj, 'involvedObject', 'name')}: {message}", event.source)


@proves(
    "Events of the MachineSet and of its Machine",
    "marked unhealthy nodeStartupTimeout after it was created",
)
def _never_had_the_time(view: View) -> Iterator[Seen]:
    for event, name, lived in marked_early(view):
        yield Seen(f"Machine {name} was marked unhealthy {lived:.0f} s after it was created, "
                   "which is nodeStartupTimeout", event.source, name)  # fmt: skip


def marked_early(view: View) -> Iterator[tuple[Thing, str, float]]:
    """Events of Machines that were marked unhealthy for not having joined in time: the Event, the
    Machine's name, and the seconds that it had."""
    made = {
        text_at(event.obj, "message").removeprefix("Created machine ").strip('"'): _at(event)
        for event in view.events("SuccessfulCreate", kind="MachineSet", cluster=MANAGEMENT)
    }
    limits = {
        _seconds(text_at(one.obj, "spec", "nodeStartupTimeout"))
        for one in view.things("MachineHealthCheck", MANAGEMENT)
    }
    for event in view.events("MachineMarkedUnhealthy", cluster=MANAGEMENT):
        name = text_at(event.obj, "involvedObject", "name")
        born, died = made.get(name), _at(event)
        if born is None or died is None:
            continue
        if any(limit and abs(died - born - limit) < MARKING for limit in limits):
            yield event, name, died - born


def _seconds(duration: str) -> float:
    """A duration as Go writes it (20m, 1h30m), in seconds; 0.0 for what is none."""
    if not re.fullmatch(_DURATION, duration):
        return 0.0
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(count) * units[unit] for count, unit in re.findall(_PART, duration))


def _at(event: Thing) -> float | None:
    """When an Event was first seen."""
    told = (text_at(event.obj, key) for key in ("firstTimestamp", "eventTime"))
    return next((epoch(one) for one in told if one), None)


@fits("Machines of the pool", "more than its most, or one that waits past 30 minutes")
def _extra_machine(view: View) -> Iterator[Seen]:
    for event in view.events("ScaledUpGroup", "TriggeredScaleUp", "FailedToScaleUpGroup"):
        yield Seen(f"{text_at(event.obj, 'reason')}: {text_at(event.obj, 'message')}", event.source)


@proves(
    "the virt-launcher pod: container guest-console-log",
    "not running, and the pod is PodInitializing",
)
def _console_wedge(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            for key in ("initContainerStatuses", "containerStatuses"):
                for status in listed(worker.launcher.obj, "status", key):
                    why = text_at(status, "state", "waiting", "reason")
                    if text_at(status, "name") == "guest-console-log" and why and why != \
                            "PodInitializing":  # fmt: skip
                        yield Seen(f"{worker.launcher.name}: guest-console-log: {why}",
                                   worker.launcher.where, pool.subject)  # fmt: skip


@proves("the host: /sys/module/kvm_amd/parameters/vgif", "0, and the host is a machine itself")
def _vgif(view: View) -> Iterator[Seen]:
    for text in view.case.texts:
        found = _VGIF.search(text.text)
        if found and found["value"] in "0N":
            yield Seen(f"vgif is {found['value']} on {text.node or 'the host'}", text.source)


@rules_out("the host: the flag hypervisor of /proc/cpuinfo", "not there: the host is bare metal")
def _bare_metal(view: View) -> Iterator[Seen]:
    for text in view.case.texts:
        if _BARE_METAL in text.text:
            yield Seen(f"{text.node or 'the host'} is bare metal", text.source)


@fits("the VMI and the Node", "the guest runs for long, and no Node registered")
def _runs_without_node(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            running = text_at(worker.vmi.obj, "status", "phase") == "Running"
            old = (age(worker.vmi) or 0.0) > JOINING
            if running and old and not worker.node.name and view.lacks("Node", TENANT):
                yield Seen(f"VMI {worker.vmi.name} runs, and there is no Node of it",
                           worker.vmi.where, pool.subject)  # fmt: skip


@speaks_against("the tenant's Nodes", "all are Ready: workers do join")
def _all_joined(view: View) -> Iterator[Seen]:
    found = view.tenant_nodes
    if found and all(ready(one) == "True" for one in found) and view.lacks("Node", TENANT):
        yield Seen(f"all {len(found)} Nodes are Ready", found[0].source)


# -- what is not pulled


@proves(
    "pods of the tenant cluster: a container that waits",
    "ImagePullBackOff, ErrImagePull, InvalidImageName",
)
def _not_pulled(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod"):
        for key in ("initContainerStatuses", "containerStatuses"):
            for status in listed(pod.obj, "status", key):
                why = text_at(status, "state", "waiting", "reason")
                if why in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName"):
                    message = text_at(status, "state", "waiting", "message")[:160]
                    yield Seen(f"{pod.namespace}/{pod.name}: {why}: {message}", pod.where,
                               f"{pod.cluster} {pod.namespace}".strip())  # fmt: skip


CAUSES = (
    Cause(
        id="talos-template-missing",
        family="join",
        title="The Talos template is not there",
        story="The MachineSet cannot make a Machine because the TalosConfigTemplate is missing: "
        "the "
        "reconcile Job has failed, or still waits.",
        signs=(_no_template, _job_waits),
        wrong="Cluster API is slow",
        why_wrong="it says what it misses, and will go on missing it until the Job succeeds.",
        check="the reconcile Job and its log; the Job is gone 600 s after its end",
        command="kubectl -n <tenant> get jobs,talosconfigtemplates; kubectl -n <tenant> logs -l "
        "cozystack.io/talos-reconcile --tail=-1",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="bootstrap-token-missing",
        family="join",
        title="The bootstrap token is not in the tenant's kube-system",
        story="kubelet's requests come as system:anonymous: the Secret bootstrap-token-<id> is "
        "missing, so that no certificate is asked for.",
        signs=(_anonymous_kubelet, _anonymous),
        wrong="RBAC of the tenant cluster",
        why_wrong="nobody is to be let in as anonymous: the token is what is missing.",
        check="the Secret bootstrap-token-<id>, and the CertificateSigningRequests",
        command="kubectl -n kube-system get secrets | grep bootstrap-token; kubectl get csr (of "
        "the "
        "tenant cluster)",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="wrong-image-platform",
        family="join",
        title="The image is of another platform: the config drive is not read",
        story="The image is nocloud where openstack is needed: Talos does not look at the config "
        "drive, says nothing of it, and stays in maintenance mode.",
        signs=(_nocloud, _maintenance, _openstack),
        wrong="DHCP",
        why_wrong="the guest has an address; it has no configuration.",
        check="the image's file name in the boot URL",
        command="kubectl -n <tenant> get kubevirtmachinetemplates -o yaml | grep url",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="apiserver-out-of-memory",
        family="join",
        title="The tenant's apiserver is too small",
        story="kube-apiserver of the tenant is killed for want of memory and comes back: it looks "
        "like a network that flakes.",
        signs=(_apiserver_killed,),
        wrong="the network",
        why_wrong="the container's last state says OOMKilled.",
        check="restarts and last state of the control plane's pods; controlPlane.apiServer's "
        "preset",
        command="kubectl -n <tenant> get pods -l kamaji.clastix.io/name=kubernetes-<cluster>; "
        "kubectl -n <tenant> describe pod <pod>",
        symptoms=(NOT_JOINED, NOT_READY),
    ),
    Cause(
        id="network-plugin-not-ready",
        family="join",
        title="Only the network plugin keeps the node from being Ready",
        story="The node joined, and cilium does not run on it.",
        signs=(_no_network, _cilium),
        wrong="the worker is broken",
        why_wrong="kubelet says what it waits for: the CNI. Other conditions are fine.",
        check="cilium's release and its pod on the node; addresses that are used up",
        command="kubectl -n <tenant> get helmrelease kubernetes-<cluster>-cilium; kubectl -n "
        "cozy-cilium get pods -o wide (of the tenant cluster)",
        symptoms=(NOT_READY,),
    ),
    Cause(
        id="startup-timeout-too-short",
        family="join",
        title="MachineHealthCheck deletes workers before they have joined",
        story="nodeStartupTimeout is shorter than joining takes here: each worker is deleted on "
        "its way, and its successor begins with the import.",
        signs=(_startup_timeout, _never_had_the_time),
        wrong="a fault of the image",
        why_wrong="no worker had the time to fail.",
        check="how long joining takes, beside nodeStartupTimeout (20m)",
        command="kubectl -n <tenant> get machinehealthchecks,machines",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="autoscaler-adds-machines",
        family="join",
        title="The autoscaler adds a machine because one takes too long",
        story="maxNodeProvisionTime has passed for a worker, and the autoscaler asks for another.",
        signs=(_extra_machine, _runs_without_node),
        wrong="load",
        why_wrong="the pods that wait are those that the late worker is for.",
        check="the autoscaler's log, beside the Machine that is late",
        command="kubectl -n <tenant> logs deployment/kubernetes-<cluster>-cluster-autoscaler",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="console-log-wedged",
        family="join",
        title="The container that logs the console keeps the machine from starting",
        story="logSerialConsole adds guest-console-log to the launcher, and that container does "
        "not come up (kubevirt#15989): the pod stays PodInitializing.",
        signs=(_console_wedge,),
        wrong="whatever feature was new in that run",
        why_wrong="the launcher waits for a container that has nothing to do with it.",
        check="the launcher's containers",
        command="kubectl -n <tenant> describe pod <virt-launcher-...>",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="nested-host-without-vgif",
        family="join",
        title="The host is a virtual machine whose kvm_amd has no vgif",
        story="Workers are guests of a guest, and the host's kvm_amd runs without vgif: joining "
        "stalls (#3513).",
        signs=(_vgif, _bare_metal, _runs_without_node, _all_joined),
        wrong="the registry, or egress",
        why_wrong="the stall follows the host's parameter, not the network. On bare metal it does "
        "not matter.",
        check="the parameter, on the host",
        command="cat /sys/module/kvm_amd/parameters/vgif (on the host)",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="image-not-pulled",
        family="join",
        title="An image cannot be pulled",
        story="A pod waits for an image that its registry does not give; what it is part of is "
        "down.",
        signs=(_not_pulled,),
        wrong="the component has a bug",
        why_wrong="it never ran.",
        check="the name, the registry, the mirror, egress",
        command="kubectl -n <namespace> describe pod <pod>",
        symptoms=(NOT_PULLED,),
    ),
)  # fmt: skip
