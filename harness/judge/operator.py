"""Claims about the GPU operator with a driver that the operating system provides.

HAMi deals out cards by a plugin of its own, without this wiring; upstream neither covers nor tests
it (S-GPO; S-DOC), so that nothing here can hold where it is on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.facts.containers import Variable
from harness.facts.daemonsets import DaemonSet, DaemonSets
from harness.facts.fact import Fact, Unread
from harness.facts.gpunode import RESOURCE, GpuNode
from harness.facts.operator import Addons, OperatorPolicy, OperatorValues
from harness.facts.validator import (
    VALIDATOR,
    CudaValidation,
    DriverReady,
    DriverReadyAbsent,
    ValidatorAbsent,
    ValidatorPod,
    ValidatorStage,
)
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, outcome, unread

NAMESPACE = "cozy-gpu-operator"
PLUGIN = "nvidia-device-plugin-daemonset"
REPLACED = ("nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset")
"""What must not be there where the operating system brings driver and toolkit (objects 9)."""
PLUGIN_ENV: Mapping[str, str] = {
    "DEVICE_LIST_STRATEGY": "cdi-annotations",
    "DEVICE_ID_STRATEGY": "uuid",
    "NVIDIA_DRIVER_ROOT": "/",
    "NVIDIA_CTK_PATH": "/usr/local/bin/nvidia-ctk",
    "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
}
"""The five variables that the chart gives the device plugin (CZ commits 10137b83b, 48007bdc1)."""
VALIDATOR_ENV: Mapping[str, str] = {
    "DRIVER_ROOT": "/",
    "NVIDIA_DRIVER_ROOT": "/",
    "DISABLE_DEV_CHAR_SYMLINK_CREATION": "true",
}
"""The three that it gives the validator's driver stage (the same)."""

_USUALLY = {
    "driver-validation": "usually the driver is not visible in the host's root",
    "toolkit-validation": "usually the container gets no driver: injection or runtime",
    "cuda-validation": "usually a CUDA program fails; error 802 in its log means the fabric",
    "plugin-validation": f"usually the Node offers no {RESOURCE}",
}
"""What each stage waits for (gpu_path 5.1)."""
_HOST_DRIVER = "IS_HOST_DRIVER"


def not_covered(claim: str, subject: str, addons: Addons | Unread, *facts: Fact) -> Verdict | None:
    """The verdict where HAMi is on, or where it is not known whether it is; else None."""
    if isinstance(addons, Unread):
        because = f"whether HAMi is on could not be read: {addons.reason}"
    elif addons.hami_on:
        because = (
            "HAMi is not covered: it replaces the operator's device plugin by one without CDI "
            "wiring, and upstream does not test it"
        )
    else:
        return None
    return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)


def operator_default(
    values: OperatorValues | Unread, addons: Addons | Unread, subject: str
) -> Verdict:
    """operator-default: the chart renders driver and toolkit off and all eight variables, and
    nobody overrides its values.

    Unknown where the right values come with an override or may come from elsewhere (valuesFrom):
    then the default is not established. Further variables are let pass.
    """
    claim = "operator-default"
    facts = (values, addons)
    uncovered = not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    if isinstance(values, Unread) or isinstance(addons, Unread):
        return unread(claim, subject, *facts)
    wrong = list(_rendered_wrong(values))
    where = f"HelmRelease {values.release}"
    if values.values_from:
        because = f"{where} takes values from {named(values.values_from)} too, which are not read"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    over = f"valuesOverride sets {named(addons.override)}"
    if wrong:
        cause = f"; {over}" if addons.override else ""
        because = f"{where} renders {'; '.join(wrong)}{cause}"
        return Verdict(claim, subject, Outcome.BROKEN, because, facts)
    if addons.override:
        because = f"the values arrive by override: the default is not established ({over})"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    because = f"{where} renders driver and toolkit off, {_all_eight()}, and nothing overrides them"
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def operator_live(
    values: OperatorValues | Unread,
    daemonsets: DaemonSets | Unread,
    addons: Addons | Unread,
    subject: str,
) -> Verdict:
    """operator-live: the running DaemonSets have the required variables, and every other one that
    is rendered, with its value; no DaemonSet brings a driver or a toolkit.

    Variables that the operator adds of its own are let pass.
    """
    claim = "operator-live"
    facts = (values, daemonsets, addons)
    uncovered = not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    if isinstance(values, Unread) or isinstance(daemonsets, Unread):
        return unread(claim, subject, *facts)
    plugin = daemonsets.find(NAMESPACE, PLUGIN)
    validator = daemonsets.find(NAMESPACE, VALIDATOR)
    wrong = [
        *(f"{one} exists, though the operating system brings it" for one in _replaced(daemonsets)),
        *_live_wrong(PLUGIN, plugin, "nvidia-device-plugin", _asked(PLUGIN_ENV, values.plugin_env)),
        *_live_wrong(
            VALIDATOR, validator, "driver-validation", _asked(VALIDATOR_ENV, values.validator_env)
        ),
    ]
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    because = f"{PLUGIN} and {VALIDATOR} run with {_all_eight()}; {named(REPLACED)} are not there"
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def host_driver_accepted(
    validator: ValidatorPod | ValidatorAbsent | Unread,
    ready: DriverReady | DriverReadyAbsent | Unread,
    cuda: CudaValidation | Unread,
    policy: OperatorPolicy | Unread,
    addons: Addons | Unread,
    subject: str,
) -> Verdict:
    """host-driver-accepted: the validator's pod runs without a restart and with every stage done,
    the node's driver-ready says IS_HOST_DRIVER=true, and the CUDA pod succeeded.

    Broken names the stage that it is stuck in. The ClusterPolicy is recorded and decides nothing.
    """
    claim = "host-driver-accepted"
    facts = (validator, ready, cuda, policy, addons)
    uncovered = not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    wrong = [*_validator_wrong(validator), *_ready_wrong(ready), *_cuda_wrong(cuda)]
    beside = "" if isinstance(policy, Unread) else f"; {policy}, which proves nothing"
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, f"{'; '.join(wrong)}{beside}", facts)
    if isinstance(validator, Unread) or isinstance(ready, Unread) or isinstance(cuda, Unread):
        return unread(claim, subject, *facts)
    if cuda.phase != "Succeeded":
        because = f"{cuda.pod} is {cuda.phase or 'without a phase'}, not ended yet{beside}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    because = (
        f"every stage of the validator is done without a restart, driver-ready says "
        f"{_HOST_DRIVER}=true, and its CUDA pod succeeded"
    )
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def gpu_advertised(
    node: GpuNode | Unread,
    cards: int,
    policy: OperatorPolicy | Unread,
    addons: Addons | Unread,
    subject: str,
) -> Verdict:
    """gpu-advertised: the Node's allocatable nvidia.com/gpu is the number of its cards.

    Its capacity and labels are told and decide nothing, and neither does a ClusterPolicy that is
    ready. Unknown where no card was asked for and where the node is not Ready: its kubelet says
    nothing new then.
    """
    claim = "gpu-advertised"
    facts = (node, policy, addons)
    uncovered = not_covered(claim, subject, addons, *facts)
    if uncovered is not None:
        return uncovered
    if isinstance(node, Unread):
        return unread(claim, subject, *facts)
    if cards < 1:
        because = "the pool asked for no card, so there is none to offer"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    if not node.ready:
        because = f"node {node.name} is not Ready, so what it offers may be old: {_offer(node)}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    same = node.allocatable == str(cards)
    because = f"allocatable {_offer(node)}; expected {cards}"
    if not same and not isinstance(policy, Unread):
        because += f"; {policy}, which proves nothing"
    return Verdict(claim, subject, outcome(same), because, facts)


def _offer(node: GpuNode) -> str:
    marks = {
        "capacity": node.capacity,
        "label gpu": node.label_gpu,
        "gpu.present": node.gpu_present,
        "NFD's 10de": "true" if node.nfd_pci else "",
    }
    beside = named(f"{key} {value}" for key, value in marks.items() if value)
    return f"{RESOURCE} is {node.allocatable or 'absent'} (no proof: {beside})"


def _all_eight() -> str:
    return named(f"{key}={value}" for key, value in (*PLUGIN_ENV.items(), *VALIDATOR_ENV.items()))


def _rendered_wrong(values: OperatorValues) -> Iterator[str]:
    for name, switch in (
        ("driver.enabled", values.driver_enabled),
        ("toolkit.enabled", values.toolkit_enabled),
    ):
        if switch is not False:
            yield f"{name} {'absent' if switch is None else 'true'}, expected false"
    if values.plugin_enabled is False:
        yield "devicePlugin.enabled false, without HAMi"
    yield from _env_wrong("devicePlugin.env", values.plugin_env, PLUGIN_ENV)
    yield from _env_wrong("validator.driver.env", values.validator_env, VALIDATOR_ENV)


def _env_wrong(
    where: str, env: tuple[Variable, ...] | None, required: Mapping[str, str]
) -> Iterator[str]:
    if env is None:
        yield f"no {where}, expected {named(required)}"
        return
    found = {one.name: one.value for one in env}
    for name, value in required.items():
        if found.get(name) != value:
            yield f"{where} with {_value(found, name)}, expected {name}={value}"


def _value(found: Mapping[str, str | None], name: str) -> str:
    if name not in found:
        return f"no {name}"
    return str(Variable(name, found[name]))


def _asked(required: Mapping[str, str], env: tuple[Variable, ...] | None) -> dict[str, str]:
    """What must be live: all that is rendered, and the required variables with their own value."""
    rendered = {one.name: one.value for one in env or () if one.value is not None}
    return {**rendered, **required}


def _replaced(daemonsets: DaemonSets) -> list[str]:
    return [str(one) for one in daemonsets.sets if one.name in REPLACED]


def _live_wrong(
    name: str, found: DaemonSet | None, container: str, asked: Mapping[str, str]
) -> Iterator[str]:
    if found is None:
        yield f"there is no DaemonSet {NAMESPACE}/{name}"
        return
    inside = found.container(container)
    if inside is None:
        yield f"{found} has no container {container}"
        return
    for key, value in asked.items():
        seen = inside.variables
        if seen.get(key) != value:
            yield f"{found} runs {container} with {_value(seen, key)}, asked {key}={value}"


def _validator_wrong(pod: ValidatorPod | ValidatorAbsent | Unread) -> Iterator[str]:
    if isinstance(pod, ValidatorAbsent):
        yield f"no pod of {VALIDATOR} is on {pod.node}"
        return
    if isinstance(pod, Unread):
        return
    stuck = pod.stuck
    if not pod.stages:
        yield f"{pod.pod} has no stage at all"
    elif stuck is not None:
        yield f"{pod.pod} is stuck in {_stage(stuck)}"
    elif pod.phase != "Running":
        yield f"{pod.pod} is {pod.phase or 'without a phase'} after its last stage"
    if pod.restarts:
        yield f"{pod.pod} has {counted(pod.restarts, 'restart')}, expected none"


def _stage(stage: ValidatorStage) -> str:
    usually = _USUALLY.get(stage.name)
    return f"{stage.name} ({stage})" + (f": {usually}" if usually else "")


def _ready_wrong(ready: DriverReady | DriverReadyAbsent | Unread) -> Iterator[str]:
    if isinstance(ready, DriverReadyAbsent):
        yield f"the node has no driver-ready: {ready.said}"
    elif isinstance(ready, DriverReady) and ready.entries.get(_HOST_DRIVER) != "true":
        found = ready.entries.get(_HOST_DRIVER)
        yield f"driver-ready says {_HOST_DRIVER}={found or 'nothing'}, expected true"


def _cuda_wrong(cuda: CudaValidation | Unread) -> Iterator[str]:
    if isinstance(cuda, CudaValidation) and (cuda.phase == "Failed" or cuda.exit_code):
        said = f": {cuda.last_line}" if cuda.last_line else ""
        ended = "not ended" if cuda.exit_code is None else f"exit status {cuda.exit_code}"
        yield f"{cuda.pod} is {cuda.phase} ({ended}, {cuda.reason or 'no reason'}){said}"
