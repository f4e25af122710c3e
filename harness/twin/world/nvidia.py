"""NVIDIA cards and their kernel modules: binding, parameters, /proc/driver/nvidia, banners.

Shapes of the /proc files follow NKM ``kernel-open/nvidia/nv-procfs.c``; that ``NVreg_*`` are
registered with permission 0 and so never reach sysfs follows NKM ``nv-reg.h``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.twin.world.images import DRIVER_VERSION, Flavour, ModuleFile

VENDOR = "10de"


@dataclass(frozen=True, slots=True)
class Card:
    """One passed-through card as the guest's PCI bus shows it.

    ``pci_id`` is ``10de:26b9``; ``bdf`` ``0000:06:00.0``; ``uuid`` ``GPU-`` and a UUID.
    """

    pci_id: str
    bdf: str
    model: str
    uuid: str

    @property
    def device(self) -> str:
        """The device half of the PCI id, four hex digits."""
        return self.pci_id.partition(":")[2]

    @property
    def board(self) -> Board:
        """What nvidia-smi knows about this kind of card."""
        return _BOARDS[self.pci_id]


@dataclass(frozen=True, slots=True)
class Board:
    """Constants of a kind of card. Memory in MiB, power in W; ``flavours`` drive it.

    ``nvlink``: an SXM board, whose driver waits for the fabric of its NVSwitches.
    """

    model: str
    architecture: str
    memory: int
    power: int
    vbios: str
    flavours: frozenset[Flavour]
    cuda: str
    nvlink: bool = False


_BOARDS: Mapping[str, Board] = {
    "10de:26b9": Board(
        "NVIDIA L40S", "Ada Lovelace", 46068, 350, "95.02.66.00.02",
        frozenset({"open", "proprietary"}), "8.9",
    ),
    # Blackwell has no proprietary kernel module (S-DOC)
    "10de:2bb5": Board(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell", 97887, 600,
        "98.02.8D.00.05", frozenset({"open"}), "12.0",
    ),
    "10de:2330": Board(
        "NVIDIA H100 80GB HBM3", "Hopper", 81559, 700, "96.00.89.00.01",
        frozenset({"open", "proprietary"}), "9.0", nvlink=True,
    ),
}  # fmt: skip


def l40s(bdf: str, uuid: str) -> Card:
    """An L40S (10de:26b9)."""
    return Card("10de:26b9", bdf, _BOARDS["10de:26b9"].model, uuid)


def gb202(bdf: str, uuid: str) -> Card:
    """A GB202 board, RTX PRO 6000 Blackwell Server Edition (10de:2bb5)."""
    return Card("10de:2bb5", bdf, _BOARDS["10de:2bb5"].model, uuid)


def h100(bdf: str, uuid: str) -> Card:
    """An H100 SXM5 board (10de:2330)."""
    return Card("10de:2330", bdf, _BOARDS["10de:2330"].model, uuid)


def waits_for_fabric(card: Card, parameters: Mapping[str, str]) -> bool:
    """Whether a card's fabric is still to come up, which alone in a VM it never does.

    NvLinkDisable=1 gives it up and leaves a card that works (gpu_path.md section 4, S-GPO).
    """
    return card.board.nvlink and parameters.get("NVreg_NvLinkDisable", "0") == "0"


def binds(card: Card, flavour: Flavour) -> bool:
    """Whether a module of this flavour brings the card up (else it loads and drives nothing)."""
    return flavour in card.board.flavours


# Keys and values a driver shows with nothing set, in its own order. Text values are quoted.
_PARAMS: Mapping[str, int | str] = {
    "ResmanDebugLevel": 4294967295, "RmLogonRC": 1, "ModifyDeviceFiles": 1, "DeviceFileUID": 0,
    "DeviceFileGID": 0, "DeviceFileMode": 438, "InitializeSystemMemoryAllocations": 1,
    "UsePageAttributeTable": 4294967295, "EnableMSI": 1, "EnablePCIeGen3": 0,
    "MemoryPoolSize": 0, "KMallocHeapMaxSize": 0, "VMallocHeapMaxSize": 0, "IgnoreMMIOCheck": 0,
    "EnableStreamMemOPs": 0, "EnableUserNUMAManagement": 1, "NvLinkDisable": 0,
    "RmProfilingAdminOnly": 1, "PreserveVideoMemoryAllocations": 1,
    "EnableS0ixPowerManagement": 1, "S0ixPowerManagementVideoMemoryThreshold": 256,
    "DynamicPowerManagement": 3, "DynamicPowerManagementVideoMemoryThreshold": 200,
    "RegisterPCIDriver": 1, "EnablePCIERelaxedOrderingMode": 0, "EnableResizableBar": 0,
    "EnableGpuFirmware": 18, "EnableGpuFirmwareLogs": 2, "RmNvlinkBandwidthLinkCount": 0,
    "EnableDbgBreakpoint": 0, "OpenRmEnableUnsupportedGpus": 1, "DmaRemapPeerMmio": 1,
    "ImexChannelCount": 2048, "CreateImexChannel0": 0, "GrdmaPciTopoCheckOverride": 0,
    "CoherentGPUMemoryMode": "", "RegistryDwords": "", "RegistryDwordsPerDevice": "",
    "RmMsg": "", "GpuBlacklist": "", "TemporaryFilePath": "", "ExcludedGpus": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter a module declares. ``mode`` 0: registered, yet absent from sysfs."""

    kind: str  # "uint" | "bool" | "charp"
    default: str
    mode: int = 0

    def accepts(self, value: str) -> bool:
        """Whether the kernel would take this text for the parameter."""
        if self.kind == "uint":
            digits = value.lower().removeprefix("0x")
            base = "0123456789abcdef" if value.lower().startswith("0x") else "0123456789"
            return bool(digits) and all(c in base for c in digits)
        if self.kind == "bool":
            return value[:1] in tuple("yYnN10tTfF") and bool(value)
        return True

    def stored(self, value: str) -> str:
        """The value as it is read back."""
        if self.kind == "bool":
            return "Y" if value[:1] in tuple("yY1tT") else "N"
        if self.kind == "uint":
            return str(int(value, 16 if value.lower().startswith("0x") else 10))
        return value


def _registry() -> dict[str, Parameter]:
    return {
        f"NVreg_{key}": Parameter("charp" if isinstance(value, str) else "uint", str(value))
        for key, value in _PARAMS.items()
    }


PARAMETERS: Mapping[str, Mapping[str, Parameter]] = {
    "nvidia": _registry(),
    "nvidia_drm": {
        "modeset": Parameter("bool", "Y", 0o400),
        "fbdev": Parameter("bool", "Y", 0o400),
    },
    "nvidia_modeset": {"config_file": Parameter("charp", "(null)", 0o400)},
    "nvidia_uvm": {"uvm_debug_prints": Parameter("uint", "0", 0o644)},
    "gdrdrv": {
        "dbg_enabled": Parameter("uint", "0"),
        "info_enabled": Parameter("uint", "0"),
        "use_persistent_mapping": Parameter("uint", "0"),
    },
}


def version_text(flavour: Flavour) -> str:
    """/proc/driver/nvidia/version: the wording tells open from proprietary."""
    if flavour == "open":
        banner = f"NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER_VERSION}  Release Build"
        built = "  (@buildkitsandbox)  Thu Apr 16 09:41:02 UTC 2026"
    else:
        banner = f"NVIDIA UNIX x86_64 Kernel Module  {DRIVER_VERSION}"
        built = "  Wed Mar 25 03:10:22 UTC 2026"
    return f"NVRM version: {banner}{built}\nGCC version:  gcc version 15.2.0 (GCC) \n"


def params_text(parameters: Mapping[str, str]) -> str:
    """/proc/driver/nvidia/params: every registry key without its NVreg_ prefix."""
    lines = []
    for key, default in _PARAMS.items():
        value = parameters.get(f"NVreg_{key}", str(default))
        lines.append(f'{key}: "{value}"\n' if isinstance(default, str) else f"{key}: {value}\n")
    return "".join(lines)


def information_text(card: Card, minor: int) -> str:
    """/proc/driver/nvidia/gpus/<bdf>/information of a card that came up."""
    return (
        f"Model: \t\t {card.model}\n"
        f"IRQ:   \t\t {48 + minor}\n"
        f"GPU UUID: \t {card.uuid}\n"
        f"Video BIOS: \t {card.board.vbios}\n"
        "Bus Type: \t PCIe\n"
        "DMA Size: \t 52 bits\n"
        "DMA Mask: \t 0xfffffffffffff\n"
        f"Bus Location: \t {card.bdf}\n"
        f"Device Minor: \t {minor}\n"
        "GPU Excluded:\t No\n"
    )


def start(module: ModuleFile, cards: Sequence[Card]) -> tuple[tuple[str, ...], str]:
    """A module's own initialisation: (kernel log lines, error text or "").

    Only ``nvidia`` can fail: without a 10de device on the bus it says so and gives ENODEV. A card
    of the wrong generation is no failure and leaves no line: it is simply not driven (S-DOC).
    """
    if module.name == "nvidia":
        return _start_core(module, cards)
    return tuple(_BANNERS.get(module.name, ())), ""


def _start_core(module: ModuleFile, cards: Sequence[Card]) -> tuple[tuple[str, ...], str]:
    core = "nvidia-nvlink: Nvlink Core is being initialized, major device number 240"
    if not cards:
        gone = "nvidia-nvlink: Unregistered Nvlink Core, major device number 240"
        return (core, "NVRM: No NVIDIA GPU found.", gone), "no such device"
    bound = [f"nvidia {card.bdf}: enabling device (0000 -> 0002)" for card in cards]
    banner = version_text(module.flavour).splitlines()[0].removeprefix("NVRM version: ")
    return (core, *bound, f"NVRM: loading {banner}"), ""


_BANNERS: Mapping[str, Iterable[str]] = {
    "nvidia_uvm": ("nvidia-uvm: Loaded the UVM driver, major device number 237.",),
    "nvidia_modeset": (
        "nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  "
        f"{DRIVER_VERSION}",
    ),
    "nvidia_drm": ("[drm] [nvidia-drm] [GPU ID 0x00000600] Loading driver",),
    "gdrdrv": ("gdrdrv:gdrdrv_init:loading gdrdrv version 2.5 built for NVIDIA driver",),
}
