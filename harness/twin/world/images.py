"""Talos images as an image factory builds them: schematic id to extensions and kernel modules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

Flavour = Literal["in-tree", "out-of-tree", "open", "proprietary"]

GUEST_AGENT = "siderolabs/qemu-guest-agent"
OPEN_KMOD = "siderolabs/nvidia-open-gpu-kernel-modules-production"
NONFREE_KMOD = "siderolabs/nonfree-kmod-nvidia-production"
TOOLKIT = "siderolabs/nvidia-container-toolkit-production"
GDRDRV = "siderolabs/nvidia-gdrdrv-device"

DRIVER_VERSION = "595.45.04"  # branch of the -production extensions (EXT release-1.13; NKM)
RAW_BYTES = 1_087_897 * 4096
"""Bytes of an image unpacked, about 4.15 GiB whatever is in it (clone_path.md section 2)."""
PACKED_BYTES = 167_772_160
"""Bytes of the ``.raw.xz`` that a factory gives (order: 160 MiB)."""
_KERNELS = {"v1.13.6": "6.18.34-talos"}
_NEWEST_KERNEL = "6.18.34-talos"


class UnknownSchematic(LookupError):
    """The factory has never been given a schematic of this id."""


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """One ``.ko`` of an image.

    ``size`` is what /proc/modules shows, in bytes; ``depends`` the modules whose symbols it uses
    (its edges in modules.dep), in the order they are brought in.
    """

    name: str
    size: int
    depends: tuple[str, ...] = ()
    flavour: Flavour = "in-tree"

    @property
    def taint(self) -> str:
        """Taint letters as /proc/modules and /sys/module/<m>/taint show them."""
        return {"in-tree": "", "out-of-tree": "O", "open": "O", "proprietary": "PO"}[self.flavour]


@dataclass(frozen=True, slots=True)
class Image:
    """A bootable Talos image: what is in it, not what is running."""

    schematic: str
    version: str
    kernel: str
    extensions: tuple[str, ...]
    modules: Mapping[str, ModuleFile]

    @property
    def has_toolkit(self) -> bool:
        """nvidia-smi, nvidia-ctk and the two ext-nvidia services are in the image."""
        return any("nvidia-container-toolkit" in name for name in self.extensions)

    @property
    def has_guest_agent(self) -> bool:
        """ext-qemu-guest-agent is in the image."""
        return GUEST_AGENT in self.extensions


def schematic_text(extensions: Iterable[str]) -> str:
    """The canonical YAML of a schematic: the text whose SHA-256 is its id."""
    names = list(extensions)
    if not names:
        return "customization: {}\n"
    head = "customization:\n    systemExtensions:\n        officialExtensions:\n"
    return head + "".join(f"            - {name}\n" for name in names)


def schematic_id(extensions: Iterable[str]) -> str:
    """The id an image factory gives a schematic: SHA-256 of its canonical YAML, in hex."""
    return hashlib.sha256(schematic_text(extensions).encode()).hexdigest()


_VANILLA = (GUEST_AGENT,)
_OPEN = (GUEST_AGENT, TOOLKIT, OPEN_KMOD)
_NONFREE = (GUEST_AGENT, NONFREE_KMOD, TOOLKIT)
_OPEN_GDR = (GUEST_AGENT, TOOLKIT, GDRDRV, OPEN_KMOD)

# "Vanilla" in Cozystack's charts is the schematic that carries the guest agent and nothing else;
# the id follows from that content (objects.md section 2, talos.schematicID).
VANILLA = schematic_id(_VANILLA)
NVIDIA_OPEN = schematic_id(_OPEN)
NVIDIA_NONFREE = schematic_id(_NONFREE)
NVIDIA_OPEN_GDR = schematic_id(_OPEN_GDR)

_STOCK = (
    ModuleFile("virtio_pci_modern_dev", 20480),
    ModuleFile("virtio_pci_legacy_dev", 16384),
    ModuleFile("mfd_core", 12288),
    ModuleFile("i2c_smbus", 12288),
    ModuleFile("i2c_i801", 28672, ("i2c_smbus",)),
    ModuleFile("lpc_ich", 24576, ("mfd_core",)),
    ModuleFile("iTCO_vendor_support", 12288),
    ModuleFile("watchdog", 40960),
    ModuleFile("iTCO_wdt", 12288, ("iTCO_vendor_support", "watchdog")),
    ModuleFile("libahci", 53248),
    ModuleFile("ahci", 45056, ("libahci",)),
    ModuleFile("virtio_balloon", 24576),
    ModuleFile("virtio_rng", 16384),
)
# in the image, loaded only on request
_LOADABLE = (
    ModuleFile("br_netfilter", 32768, ("bridge",)),
    ModuleFile("bridge", 319488),
    ModuleFile("drm_ttm_helper", 12288),
    ModuleFile("nf_tables", 307200, ("nfnetlink",)),
    ModuleFile("nfnetlink", 20480),
    ModuleFile("nvme_fabrics", 28672),
    ModuleFile("nvme_tcp", 57344, ("nvme_fabrics",)),
    ModuleFile("vhost", 53248),
    ModuleFile("vhost_net", 32768, ("vhost",)),
    ModuleFile("zram", 32768),
)
BOOT_MODULES = tuple(module.name for module in _STOCK)


def _nvidia(flavour: Flavour) -> tuple[ModuleFile, ...]:
    core = 111489024 if flavour == "proprietary" else 14684160
    return (
        ModuleFile("nvidia", core, (), flavour),
        ModuleFile("nvidia_modeset", 1908736, ("nvidia",), flavour),
        ModuleFile("nvidia_drm", 151552, ("drm_ttm_helper", "nvidia_modeset", "nvidia"), flavour),
        ModuleFile("nvidia_uvm", 2232320, ("nvidia",), flavour),
    )


_BY_EXTENSION: Mapping[str, tuple[ModuleFile, ...]] = {
    OPEN_KMOD: _nvidia("open"),
    NONFREE_KMOD: _nvidia("proprietary"),
    GDRDRV: (ModuleFile("gdrdrv", 28672, ("nvidia",), "out-of-tree"),),
    "siderolabs/drbd": (
        ModuleFile("drbd", 770048, ("lru_cache",), "out-of-tree"),
        ModuleFile("lru_cache", 16384),
        ModuleFile("drbd_transport_tcp", 45056, ("drbd",), "out-of-tree"),
    ),
}


class ImageFactory:
    """Answers for schematic ids; starts out knowing the ids named in this module."""

    def __init__(self) -> None:
        self.unreachable = ""  # why nobody reaches it, as an importer tells it; "" while it answers
        self.mirrors_down: dict[str, str] = {}  # the same for hosts that give its images, by name
        self._extensions: dict[str, tuple[str, ...]] = {}
        self._changes: dict[str, dict[str, ModuleFile | None]] = {}
        for extensions in ((), _VANILLA, _OPEN, _NONFREE, _OPEN_GDR):
            self.register(extensions)

    def register(
        self,
        extensions: Iterable[str],
        *,
        modules: Mapping[str, ModuleFile | None] | None = None,
    ) -> str:
        """Submit a schematic; returns its id. Submitting the same one twice gives the same id.

        ``modules`` makes this factory's build of that schematic a different one, name by name
        (None: the module is missing): a bad build keeps the id of the good one, as in the field.
        """
        names = tuple(extensions)
        identity = schematic_id(names)
        self._extensions[identity] = names
        if modules is not None:
            self._changes.setdefault(identity, {}).update(modules)
        return identity

    def silence(self, url: str) -> str:
        """Why nobody answers at an image's address; "" where somebody does."""
        return self.unreachable or self.mirrors_down.get(urlsplit(url).hostname or "", "")

    def extensions(self, schematic: str) -> tuple[str, ...]:
        """The official extensions of a schematic. Raises UnknownSchematic."""
        try:
            return self._extensions[schematic]
        except KeyError:
            raise UnknownSchematic(schematic) from None

    def without_edge(self, schematic: str, module: str, dependency: str) -> str:
        """Rebuild a schematic so that a module no longer depends on another; returns its id."""
        built = self._modules(self.extensions(schematic), self._changes.get(schematic, {}))
        kept = tuple(name for name in built[module].depends if name != dependency)
        change = {module: replace(built[module], depends=kept)}
        return self.register(self.extensions(schematic), modules=change)

    def image(self, schematic: str, version: str) -> Image:
        """The image of a schematic at a Talos version (``v1.13.6``). Raises UnknownSchematic."""
        extensions = self.extensions(schematic)
        modules = self._modules(extensions, self._changes.get(schematic, {}))
        kernel = _KERNELS.get(version, _NEWEST_KERNEL)
        return Image(schematic, version, kernel, extensions, MappingProxyType(modules))

    @staticmethod
    def _modules(
        extensions: Iterable[str], changes: Mapping[str, ModuleFile | None]
    ) -> dict[str, ModuleFile]:
        files = [*_STOCK, *_LOADABLE]
        for extension in extensions:
            files.extend(_BY_EXTENSION.get(extension, ()))
        built: dict[str, ModuleFile | None] = {file.name: file for file in files}
        built.update(changes)
        return {name: file for name, file in built.items() if file is not None}
