"""Why a driver that is loaded drives no card: its modules are not the open ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from harness.diagnose.case import Kind, Text
from harness.diagnose.causes.modules import carded, offered, subject_of
from harness.diagnose.causes.shown import NO_GPU
from harness.diagnose.causes.signs import fits, proves, rules_out
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.things import dead
from harness.diagnose.view import View
from harness.facts.driver import DriverVersion, read_driver_version
from harness.facts.nvidia import SmiCards
from harness.facts.reply import Output

_BLACKWELL = re.compile(r"(?i)\bGB[12]\d\d|\b10de:(?:2[b-f]|29|31)[0-9a-f]{2}\b")
"""Names and PCI ids of Blackwell cards: GB100 and GB110, GB202 to GB207."""
_REQUIRES_OPEN = re.compile(r"NVRM:.*\buse of the NVIDIA open kernel modules")
"""What nvidia's own modules say of a card that takes only the open ones; not every build does
(gpu_path 5)."""
_NOT_STARTED = re.compile(r"NVRM:.*\bRmInitAdapter failed")
_LOADING = re.compile(r"NVRM: loading (NVIDIA UNIX .*)")

Flavour = Literal["open", "proprietary"]


def _flavours(view: View) -> Iterator[tuple[Text, Flavour, str]]:
    """Which modules are loaded, by text, and in its words: the driver's file under /proc, its line
    in the kernel's log, and its taint, with a P where its licence is no free one."""
    for text in view.texts(Kind.DRIVER):
        yield from _version(text, text.text)
    for text, line in view.lines(_LOADING, Kind.DMESG, Kind.CONSOLE):
        found = _LOADING.search(line)
        if found:
            yield from _version(text, f"NVRM version: {found[1]}\n")
    for text, table in view.module_tables:
        core = table.find("nvidia")
        if core is not None and core.taint:
            flavour: Flavour = "proprietary" if "P" in core.taint else "open"
            yield text, flavour, f"/proc/modules marks nvidia ({core.taint})"


def _version(text: Text, said: str) -> Iterator[tuple[Text, Flavour, str]]:
    found = read_driver_version(Output(("cat",), 0, said), at=0.0, source=text.source)
    if isinstance(found, DriverVersion):
        yield text, found.flavour, f"the driver is {found.banner}"


def _blackwell(view: View, node: str) -> bool:
    """Whether a machine is known to have a Blackwell card."""
    pool = view.pool_of(node)
    devices = [one.text for one in view.texts(Kind.LSPCI) if one.node == node]
    return bool(_BLACKWELL.search(" ".join([*(pool.cards or () if pool else ()), *devices])))


@proves(
    "/proc/driver/nvidia/version, /proc/modules or the kernel's log of a node with a Blackwell "
    "card",
    "NVIDIA UNIX x86_64 Kernel Module (not: Open Kernel Module), or nvidia marked (P...)",
)
def _proprietary(view: View) -> Iterator[Seen]:
    for text, flavour, words in _flavours(view):
        if flavour == "proprietary" and _blackwell(view, text.node):
            yield Seen(f"{words}, on a Blackwell card", text.source, subject_of(view, text))


@proves(
    "the kernel's log, where the build says so",
    "NVRM: ... requires use of the NVIDIA open kernel modules",
)
def _says_so(view: View) -> Iterator[Seen]:
    told: set[str] = set()
    for text, line in view.lines(_REQUIRES_OPEN, Kind.DMESG, Kind.CONSOLE):
        if text.source not in told:
            told.add(text.source)
            yield Seen(f"{line!r}", text.source, subject_of(view, text))


@rules_out(
    "/proc/driver/nvidia/version, the kernel's log, or /proc/modules",
    "Open Kernel Module, or nvidia marked without a P, as (OE)",
)
def _is_open(view: View) -> Iterator[Seen]:
    for text, flavour, words in _flavours(view):
        if flavour == "open":
            yield Seen(words, text.source, subject_of(view, text))


def _none_listed(view: View) -> Iterator[tuple[Text, str]]:
    """Nodes with a Blackwell card and nvidia loaded of which nvidia-smi lists none; not those whose
    modules are known to be the open ones."""
    live = {text.node for text, table in view.module_tables if table.find("nvidia")}
    live -= {text.node for text, flavour, _ in _flavours(view) if flavour == "open"}
    for text, said in view.smi_lists:
        if not isinstance(said, SmiCards) or said.cards or text.node not in live:
            continue
        if _blackwell(view, text.node):
            yield text, f"nvidia is Live, and nvidia-smi -L says {said.note!r}"


def _not_started(view: View) -> set[str]:
    """Nodes whose kernel says that a card was tried and did not start, for whatever reason."""
    return {text.node for text, _ in view.lines(_NOT_STARTED, Kind.DMESG, Kind.CONSOLE)}


def _kernel_told(view: View) -> set[str]:
    """Nodes of whose kernel's log something is there."""
    return {text.node for text in view.texts(Kind.DMESG, Kind.CONSOLE)}


@proves(
    "/proc/modules beside nvidia-smi -L and the kernel's log, on a Blackwell card",
    "nvidia is Live, nvidia-smi says No devices found, and the log has no RmInitAdapter failed",
)
def _no_devices(view: View) -> Iterator[Seen]:
    for text, words in _none_listed(view):
        if text.node in _kernel_told(view) - _not_started(view):
            yield Seen(words, text.source, subject_of(view, text))


@fits(
    "/proc/modules beside nvidia-smi -L, on a Blackwell card",
    "nvidia is Live, nvidia-smi says No devices found; no kernel's log tells whether a card failed",
)
def _no_devices_without_log(view: View) -> Iterator[Seen]:
    for text, words in _none_listed(view):
        if text.node not in _kernel_told(view):
            yield Seen(words, text.source, subject_of(view, text))


@fits(
    "/proc/modules beside nvidia-smi -L and the kernel's log, on a Blackwell card",
    "No devices found, and RmInitAdapter failed: the card, or its reset, fails so too",
)
def _did_not_start(view: View) -> Iterator[Seen]:
    for text, words in _none_listed(view):
        if text.node in _not_started(view):
            yield Seen(f"{words}; RmInitAdapter failed", text.source, subject_of(view, text))


@proves("the schematic of a pool with Blackwell cards", "it has the nonfree (proprietary) modules")
def _nonfree(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        extensions = view.schematics.get(pool.boot.schematic, ()) if pool.boot else ()
        nonfree = [one for one in extensions if "nonfree-kmod-nvidia" in one]
        if nonfree and _BLACKWELL.search(" ".join(pool.cards or ())):
            yield Seen(f"{pool.subject} has Blackwell cards and boots {nonfree[0]}",
                       pool.machine_template.where, pool.subject)  # fmt: skip


@fits(
    "a pool with Blackwell cards: schematic, allocatable",
    "a schematic of which nothing is known, and no card offered",
)
def _unknown_flavour(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        unknown = pool.boot and pool.boot.schematic not in view.schematics
        blackwell = _BLACKWELL.search(" ".join(pool.cards or ()))
        if unknown and blackwell and any(map(dead, pool.nodes)):
            yield Seen(f"{pool.subject} has Blackwell cards and offers none; what its schematic "
                       "holds is not known", pool.machine_template.where, pool.subject)  # fmt: skip


@rules_out("the schematic of the pool", "it has the open modules")
def _open(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        extensions = view.schematics.get(pool.boot.schematic, ()) if pool.boot else ()
        if any("nvidia-open-gpu-kernel-modules" in one for one in extensions):
            yield Seen(f"{pool.subject} boots the open modules", pool.machine_template.where,
                       pool.subject)  # fmt: skip


CAUSES = (
    Cause(
        id="proprietary-modules-on-blackwell",
        family="driver",
        title="Proprietary modules on a Blackwell card",
        story="The schematic carries the proprietary kernel modules, which load and drive no "
        "Blackwell card: it takes the open ones.",
        signs=(
            _proprietary, _says_so, _nonfree, _no_devices, _no_devices_without_log, _did_not_start,
            _unknown_flavour, _is_open, _open, offered,
        ),
        wrong="passthrough, or CDI",
        why_wrong="the modules are Live, /dev/nvidia0 is there and dmesg is mostly clean: only "
        "nvidia-smi says No devices found.",
        check="which modules are loaded, or the extension's name",
        command="talosctl -n <node> read /proc/driver/nvidia/version; talosctl -n <node> get "
        "extensions",
        symptoms=(NO_GPU,),
    ),
)  # fmt: skip
