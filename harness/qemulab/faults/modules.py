"""Faults of kernel modules: what is loaded, and with which parameters it really runs.

Only what the kernel allows can be brought about: it refuses to load a module before one that it
depends on, so nothing here breaks kernel-module-order. The first guest has each; the other one is
as it was.
"""

from __future__ import annotations

from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.model import Fault

UNLOADED = ("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia")
"""The four, each before those that it depends on."""
WANTED = "NVreg_NvLinkDisable=1"
MISSPELT = "NVreg_NVLinkDisable=1"


def _module_missing(bench: Bench) -> None:
    bench.run(bench.guests[0], "modprobe", "-r", "nvidia_uvm")


def _driver_asked_late(bench: Bench) -> None:
    _reloaded(bench, ("nvidia_drm",), ("nvidia", WANTED), ("nvidia_uvm",), ("nvidia_modeset",))


def _parameter_misspelt(bench: Bench) -> None:
    _reloaded(bench, ("nvidia", MISSPELT), ("nvidia_uvm",), ("nvidia_drm",))


def _driver_unloaded(bench: Bench) -> None:
    _reloaded(bench)


def _module_back(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.run(guest, "modprobe", "-r", "nvidia_drm", "nvidia_modeset")
    for asked in ("nvidia_modeset", "nvidia_drm"):
        bench.run(guest, "modprobe", asked)


def _reloaded(bench: Bench, *requests: tuple[str, ...]) -> None:
    """Unload the four, and ask for modules in this order."""
    guest = bench.guests[0]
    bench.run(guest, "modprobe", "-r", *UNLOADED)
    for asked in requests:
        bench.run(guest, "modprobe", *asked)


FAULTS = (
    Fault(
        id="module-missing",
        sentence="nvidia_uvm is not loaded on one guest; the other three are.",
        seen="no line of nvidia_uvm in /proc/modules; the driver lists its card",
        wrong_diagnosis="the extension is not in the image",
        edit=_module_missing,
        breaks=frozenset({"modules-live"}),
        controls=frozenset({"kernel-module-order", "nvlink-param"}),
        says={"modules-live": "not loaded: nvidia_uvm"},
    ),
    Fault(
        id="driver-asked-late",
        sentence="nvidia_drm is asked for first, so that nvidia comes in as its dependency; that "
        "nvidia is asked for with its parameter then changes nothing.",
        seen="modprobe nvidia NVreg_NvLinkDisable=1 ends with 0; NvLinkDisable: 0 in "
        "/proc/driver/nvidia/params; all four are Live, and in an order that says nothing",
        wrong_diagnosis="the parameter was given: its modprobe succeeded",
        edit=_driver_asked_late,
        breaks=frozenset({"nvlink-param"}),
        controls=frozenset({"kernel-module-order", "modules-live"}),
        says={"nvlink-param": "NvLinkDisable: 0"},
        source="lab/qemu_drbd.md, modules, scenario B",
    ),
    Fault(
        id="parameter-misspelt",
        sentence="nvidia is loaded with a parameter that it does not have, by one letter's case.",
        seen="modprobe ends with 0, one line of the kernel's log has it: unknown parameter ignored",
        wrong_diagnosis="the machine configuration carries the parameter",
        edit=_parameter_misspelt,
        breaks=frozenset({"nvlink-param"}),
        controls=frozenset({"kernel-module-order", "modules-live"}),
    ),
    Fault(
        id="driver-unloaded",
        sentence="All four modules are unloaded.",
        seen="no nvidia in /proc/modules, no /proc/driver/nvidia",
        wrong_diagnosis="NvLinkDisable is not set: there is no driver that could have it",
        edit=_driver_unloaded,
        breaks=frozenset({"modules-live"}),
        blinds=frozenset({"kernel-module-order", "nvlink-param"}),
        controls=frozenset({"storage-ok"}),
    ),
    Fault(
        id="module-gone-and-back",
        sentence="nvidia_modeset and nvidia_drm are unloaded and loaded again after nvidia_uvm.",
        seen="both stand above nvidia_uvm in /proc/modules, which lists the newest first: another "
        "order than after boot",
        wrong_diagnosis="the modules were loaded in the wrong order; but what is compared with the "
        "list in the configuration was never what the kernel followed",
        edit=_module_back,
        controls=frozenset({"kernel-module-order", "modules-live", "nvlink-param"}),
        harmless=True,
    ),
)
