"""Why a driver that is declared does not work: the image, and the driver's parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import Kind, Text
from harness.diagnose.causes.modules import (
    FOLLOWS,
    carded,
    loaded,
    not_loaded,
    nothing_offered,
    offered,
    subject_of,
    undeclared,
)
from harness.diagnose.causes.shown import CUDA_FAILS, NO_GPU
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import advertised, dead
from harness.diagnose.view import View
from harness.facts.nvidia import NvidiaParams, read_params
from harness.facts.objects import text_at
from harness.facts.reply import Output

NVLINK = "NvLinkDisable"


PARAMETER = f"NVreg_{NVLINK}=1"


_NO_RUNTIME = re.compile(r'no runtime for "?nvidia"? is configured')


_LOAD_FAILED = re.compile(
    r"(?i)(?:error|fail)\w*.{0,60}(?:load\w* (?:kernel )?module|kernel\.?module).{0,60}nvidia"
    r"|module.{0,20}nvidia\w*.{0,40}not found"
)


_NOT_INITIALIZED = re.compile(r"(?i)system not yet initialized|cudaErrorSystemNotReady|error 802")


@proves(
    "the pool's schematic: what it holds",
    "a pool with cards boots a schematic without NVIDIA's extensions",
)
def _vanilla(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if pool.boot and view.lacks_nvidia(pool.boot.schematic):
            yield Seen(f"{pool.subject} boots schematic {pool.boot.schematic[:8]}…, which has no "
                       "NVIDIA extension", pool.machine_template.where, pool.subject)  # fmt: skip


@proves("talosctl get extensions of the node", "no nvidia among them")
def _no_extension(view: View) -> Iterator[Seen]:
    for text in view.texts(Kind.TALOS_EXTENSIONS):
        pool = view.pool_of(text.node)
        if pool and pool.has_nvidia and not text.cut and "nvidia" not in text.text:
            yield Seen(f"{text.node} has no NVIDIA extension", text.source, pool.subject)


@fits("Events of the GPU operator's pods", 'no runtime for "nvidia" is configured')
def _no_runtime(view: View) -> Iterator[Seen]:
    told: set[str] = set()
    for event in view.events("FailedCreatePodSandBox"):
        said = text_at(event.obj, "message")
        pod = view.find("Pod", text_at(event.obj, "involvedObject", "name"))
        pool = view.pool_of(text_at(pod.obj, "spec", "nodeName"))
        subject = pool.subject if pool else ""
        if _NO_RUNTIME.search(said) and subject not in told:
            told.add(subject)
            yield Seen(f"{pod.name}: {said}", event.source, subject)


@rules_out("talosctl get extensions, or what the schematic holds", "NVIDIA's extensions are there")
def _has_extension(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if pool.boot and pool.boot.schematic in view.nvidia_schematics:
            yield Seen(f"{pool.subject} boots schematic {pool.boot.schematic[:8]}…: "
                       f"{view.nvidia_schematics[pool.boot.schematic]}",
                       pool.machine_template.where, pool.subject)  # fmt: skip


def _load_errors(view: View) -> Iterator[tuple[Seen, bool]]:
    """Lines that say that loading nvidia failed, and whether the image is known to have it."""
    told: set[str] = set()
    for text, line in view.lines(_LOAD_FAILED, Kind.DMESG, Kind.CONSOLE):
        pool = view.pool_of(text.node)
        boot = pool.boot if pool else None
        has = boot is not None and boot.schematic in view.nvidia_schematics
        if text.source not in told:
            told.add(text.source)
            seen = Seen(f"{line!r}", text.source, subject_of(view, text))
            yield seen, has or _extended(view, text)


def _extended(view: View, of: Text) -> bool:
    """Whether the extensions of the same node are known to have NVIDIA's."""
    texts = view.texts(Kind.TALOS_EXTENSIONS)
    return any(one.node == of.node and "nvidia" in one.text for one in texts)


@proves(
    "dmesg or the console of the node, beside its extensions",
    "loading nvidia fails, and the extension is there",
)
def _load_fails(view: View) -> Iterator[Seen]:
    yield from (seen for seen, has in _load_errors(view) if has)


@fits("dmesg or the console of the node", "loading nvidia fails, again and again")
def _load_error(view: View) -> Iterator[Seen]:
    yield from (seen for seen, has in _load_errors(view) if not has)


@fits(
    "machine.kernel.modules beside the Node's allocatable",
    "nvidia is declared, the schematic has the extension, and no card is offered",
)
def _declared_and_dead(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        has = pool.boot and not view.lacks_nvidia(pool.boot.schematic)
        declared = pool.modules and "nvidia" in pool.modules.names
        found = [node for node in pool.nodes if dead(node)]
        if has and declared and found:
            yield Seen(f"{pool.subject} declares nvidia, and {found[0].name} offers no card",
                       pool.config_template.where, pool.subject)  # fmt: skip


@fits("reboots of the node", "each boot lasts about 4206 s: a service of the image waits")
def _reboots(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        for node in pool.nodes:
            if view.boots[node.name].at_timer and advertised(node) == 0:
                yield Seen(f"{node.name}: {view.boots[node.name].told}", node.source, pool.subject)


@speaks_against("reboots of the node", "past 75 minutes on one boot: nothing of the boot waits")
def _stays_up(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        for node in pool.nodes:
            current = view.boots[node.name].current
            if current is not None and current > 4500 and advertised(node) == 0:
                yield Seen(f"{node.name} is on one boot for {current:.0f} s", node.source,
                           pool.subject)  # fmt: skip


@rules_out("TalosConfigTemplate: machine.kernel.modules", "nvidia is not declared there at all")
def _not_declared(view: View) -> Iterator[Seen]:
    for pool, _ in undeclared(view):
        yield Seen(f"{pool.subject} declares no nvidia", pool.config_template.where, pool.subject)


@proves(
    "TalosConfigTemplate: machine.kernel.modules",
    f"nvidia without {PARAMETER}, where the chart chooses",
)
def _without_parameter(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        chosen = pool.written is not None and pool.written.listed is None
        nvidia = [m for m in (pool.modules.modules if pool.modules else ()) if m.name == "nvidia"]
        if chosen and nvidia and PARAMETER not in nvidia[0].parameters:
            yield Seen(f"{pool.subject} declares nvidia with {list(nvidia[0].parameters)}",
                       pool.config_template.where, pool.subject)  # fmt: skip


@rules_out("TalosConfigTemplate: machine.kernel.modules", f"nvidia is declared with {PARAMETER}")
def _with_parameter(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        for module in pool.modules.modules if pool.modules else ():
            if module.name == "nvidia" and PARAMETER in module.parameters:
                yield Seen(f"{pool.subject} declares nvidia with {PARAMETER}",
                           pool.config_template.where, pool.subject)  # fmt: skip


def _in_effect(view: View) -> Iterator[tuple[Text, str]]:
    """NvLinkDisable as the driver has it, by text."""
    for text in view.texts(Kind.PARAMS):
        found = read_params(Output(("cat",), 0, text.text), at=0.0, source=text.source)
        if isinstance(found, NvidiaParams) and NVLINK in found.parameters:
            yield text, found.parameters[NVLINK]


@proves(
    "/proc/driver/nvidia/params beside machine.kernel.modules",
    f"{NVLINK}: 0, although it is declared as 1",
)
def _parameter_lost(view: View) -> Iterator[Seen]:
    with_it = {seen.subject for seen in _with_parameter.find(view)}
    for text, value in _in_effect(view):
        if value == "0" and subject_of(view, text) in with_it:
            yield Seen(f"{NVLINK} is {value}, and {PARAMETER} is declared", text.source,
                       subject_of(view, text))  # fmt: skip


@fits("/proc/driver/nvidia/params (never /sys/module/nvidia/parameters)", f"{NVLINK}: 0")
def _parameter_off(view: View) -> Iterator[Seen]:
    for text, value in _in_effect(view):
        if value == "0":
            yield Seen(f"{NVLINK} is {value}", text.source, subject_of(view, text))


@rules_out("/proc/driver/nvidia/params", f"{NVLINK}: 1")
def _parameter_on(view: View) -> Iterator[Seen]:
    for text, value in _in_effect(view):
        if value == "1":
            yield Seen(f"{NVLINK} is {value}", text.source, subject_of(view, text))


@proves(
    "the log of nvidia-cuda-validator, or of any CUDA program",
    "system not yet initialized (error 802)",
)
def _cuda_not_ready(view: View) -> Iterator[Seen]:
    for text, line in view.lines(_NOT_INITIALIZED, Kind.LOG, Kind.CONSOLE):
        pod = text.node.split("/")[1] if text.node.count("/") >= 1 else ""
        pool = view.pool_of(text_at(view.find("Pod", pod).obj, "spec", "nodeName"))
        yield Seen(f"{line!r}", text.source, pool.subject if pool else "")


@proves("nvidia-smi -q: Fabric, State", "In Progress")
def _fabric(view: View) -> Iterator[Seen]:
    for text in view.texts(Kind.NVIDIA_SMI):
        found = re.search(r"(?s)Fabric\s*\n\s+State\s+:\s+In Progress", text.text)
        if found:
            yield Seen("Fabric State is In Progress", text.source, subject_of(view, text))


CAUSES = (
    Cause(
        id="image-without-nvidia",
        family="driver",
        title="The image has no NVIDIA extension",
        story="A pool with cards boots a schematic without NVIDIA's extensions: the modules are "
        "declared, and there are none to load. No NVIDIA service waits either, so that the uptime "
        "is fine.",
        signs=(
            _vanilla, _no_extension, _no_runtime, _load_error, nothing_offered, not_loaded,
            _has_extension, loaded,
            offered, speaks_against(
                "reboots of the node", "each boot lasts about 4206 s: some service of the image "
                "waits",
            )(_reboots.find),
        ),
        wrong="the chart did not render the list",
        why_wrong="the list is in the machine configuration; the image has nothing of that name.",
        check="the extensions of the booted node",
        command="talosctl -n <node> get extensions",
        symptoms=(NO_GPU,),
    ),
    Cause(
        id="modules-not-in-image",
        family="driver",
        title="The extension is there and its modules do not load",
        story="The modules are declared and the image has NVIDIA's extension, and loading them "
        "fails; its services wait for a driver, and the boot is given up after 70 minutes.",
        signs=(_load_fails, _load_error, _declared_and_dead, _reboots, not_loaded, _stays_up,
               loaded,
               offered, _not_declared),
        wrong="the label gpu=on, or NFD's, says that there is a GPU",
        why_wrong="both come without any driver: one from the configuration, one from the PCI bus.",
        check="the kernel's log of the node, and /proc/modules",
        command="talosctl -n <node> dmesg | grep -i nvidia; talosctl -n <node> read /proc/modules",
        symptoms=(NO_GPU,),
        leads_to=FOLLOWS,
    ),
    Cause(
        id="nvlink-waits-for-fabric",
        family="driver",
        title="An SXM card without its NVSwitches waits for the fabric",
        story="NVLink is not turned off on a card that was passed through without its NVSwitches: "
        "Fabric State stays In Progress, and every CUDA call fails with error 802.",
        signs=(_cuda_not_ready, _fabric, _parameter_off, _parameter_on),
        wrong="a broken CUDA image",
        why_wrong="nvidia-smi -L and nvidia.com/gpu are fine with it; it is the driver that waits, "
        f"for {NVLINK} is not 1.",
        check="Fabric State, and the parameter in effect",
        command="nvidia-smi -q | grep -A2 Fabric; cat /proc/driver/nvidia/params (host's root)",
        symptoms=(CUDA_FAILS,),
    ),
    Cause(
        id="parameter-not-rendered",
        family="driver",
        title=f"nvidia is declared without {PARAMETER}",
        story="The chart declares nvidia and forgets its parameter: NVLink stays on. PCIe cards "
        "work all the same; an SXM card does not.",
        signs=(_without_parameter, _with_parameter, _parameter_off, _parameter_on),
        wrong="/sys/module/nvidia/parameters is empty, so that the default applies",
        why_wrong="the driver's parameters are never shown there; /proc/driver/nvidia/params has "
        "them.",
        check="the parameter in effect",
        command="cat /proc/driver/nvidia/params (host's root)",
        symptoms=(CUDA_FAILS,),
        leads_to=("nvlink-waits-for-fabric",),
        grade=Grade.HAZARD,
    ),
    Cause(
        id="parameter-lost",
        family="driver",
        title=f"{PARAMETER} is declared and not in effect",
        story="Something pulled nvidia in first, as a dependency or by hand, and so without its "
        "parameters: a module that is there already keeps what it was loaded with.",
        signs=(_parameter_lost, _parameter_off, _parameter_on,
               rules_out("TalosConfigTemplate: machine.kernel.modules",
                         "the parameter is not even declared")(_without_parameter.find)),
        wrong="/sys/module shows no such parameter, so that the default applies",
        why_wrong="it never does: only /proc/driver/nvidia/params tells.",
        check="the parameter in effect",
        command="cat /proc/driver/nvidia/params (host's root)",
        symptoms=(CUDA_FAILS,),
        leads_to=("nvlink-waits-for-fabric",),
        grade=Grade.HAZARD,
    ),
)  # fmt: skip
