"""What the installed charts do, of worker pools and of tenant clusters: revisions, as data."""

from __future__ import annotations

from dataclasses import dataclass

# objects.md section 2.1; gpu_path.md section 1 (S-KM): names, parameters and order
AUTOMATIC: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("nvidia", ("NVreg_NvLinkDisable=1",)),
    ("nvidia_uvm", ()),
    ("nvidia_drm", ()),
    ("nvidia_modeset", ()),
)
# gpu_path.md section 5 (S-GPO): what #3585 renders for the gpu-operator addon
PLUGIN_ENV: tuple[tuple[str, str], ...] = (
    ("DEVICE_LIST_STRATEGY", "cdi-annotations"),
    ("DEVICE_ID_STRATEGY", "uuid"),
    ("NVIDIA_DRIVER_ROOT", "/"),
    ("NVIDIA_CTK_PATH", "/usr/local/bin/nvidia-ctk"),
    ("CDI_ANNOTATION_PREFIX", "cdi.k8s.io/"),
)
VALIDATOR_ENV: tuple[tuple[str, str], ...] = (
    ("DRIVER_ROOT", "/"),
    ("NVIDIA_DRIVER_ROOT", "/"),
    ("DISABLE_DEV_CHAR_SYMLINK_CREATION", "true"),
)


class RenderRefused(Exception):
    """A chart's ``fail``: ``where`` is FILE:L:C, ``text`` what the author is told."""

    def __init__(self, where: str, text: str) -> None:
        super().__init__(text)
        self.where = where
        self.text = text

    @property
    def message(self) -> str:
        """As Helm words it (objects.md section 3)."""
        return f"execution error at ({self.where}): {self.text}"


class TemplateBroken(RenderRefused):
    """The rendered text is not YAML: Helm's words for it name no line of the template."""

    @property
    def message(self) -> str:
        """As Helm words it."""
        return f"YAML parse error on {self.where}: error converting YAML to JSON: yaml: {self.text}"


class LookupForbidden(RenderRefused):
    """The release may not look something up: Helm renders nothing, which is no absence."""

    @property
    def message(self) -> str:
        """As Helm words it (helm #9002)."""
        return f"template: {self.where}: error calling lookup: {self.text}"


_WORDLESS = "invalid values"


@dataclass(frozen=True, slots=True)
class DiskRules:
    """What the pool chart checks of a system disk (clone_path.md sections 1 and 3).

    ``lacks``: rows of section 3 that it does not refuse. ``wordless``: rows that it refuses without
    saying what is wrong.
    Each False of the second block is a revision that lacks another rule:
    ``class_written``: the class that R8 compared is the one that a cloned disk gets; without it an
    empty class stays empty there too.
    ``own_class``: a pool without a class that has cloned has that of its own claim;
    ``golden_claim``: a golden without one has that of its claim. Without them: the cluster's.
    ``exact_pool``: a pool knows its own disks by the whole annotation; without it by its beginning.
    ``waits_for_import``: a golden in mid-import renders. ``clones_exempt``: a pool that has cloned
    before is not asked for its golden any more. ``importer_guard``: R7.
    ``marks_disks``: cloned disks name their golden and their pool.
    ``empty_counts``: a form of osImage that is there and empty is chosen.
    ``disk_in_name``: a machine template's name tells where its disk comes from.
    ``platform``: the platform of the image that a pool downloads, as the factory's URL names it.
    The last block is the newest revision:
    ``claim_counts``: a golden whose DataVolume is gone but whose claim is
    there is no absent one. ``kubevirt_default``: KubeVirt's own default class comes first.
    """

    lacks: frozenset[str] = frozenset()
    wordless: frozenset[str] = frozenset()
    class_written: bool = True
    own_class: bool = True
    golden_claim: bool = True
    exact_pool: bool = True
    waits_for_import: bool = True
    clones_exempt: bool = True
    importer_guard: bool = True
    marks_disks: bool = True
    empty_counts: bool = True
    disk_in_name: bool = True
    platform: str = "openstack"
    claim_counts: bool = False
    kubevirt_default: bool = False

    def refuse(self, row: str, where: str, text: str) -> None:
        """Fail as a row does. Raises RenderRefused, but in a revision that lacks the row."""
        if row not in self.lacks:
            raise RenderRefused(where, _WORDLESS if row in self.wordless else text)


NEWEST_DISK_RULES = DiskRules(claim_counts=True, kubevirt_default=True)


@dataclass(frozen=True, slots=True)
class ChartBehaviour:
    """Switches between revisions of the chart, good and bad.

    ``kernel_modules``: the field exists and the automatic set is rendered (#3571); without it
    nothing ever renders modules and the key is ignored.
    ``automatic_modules``: a pool with an ``nvidia.com/*`` device gets the set by itself.
    ``modules``: that set. ``indent_modules``: the block lands at machine.kernel.modules; False
    puts it one level out, at machine.modules.
    ``empty_means_absent``: a default of ``[]`` collapsed the two states (an explicit ``[]`` and
    absence both render no modules).
    ``kernel_block_always``: an empty machine.kernel block is rendered where there is nothing.
    ``drop_parameters``: the rebuilt list forgets the parameters.
    ``ascii_parameters``: U+2028 and U+2029 are refused with the kernelModules message.
    ``content_named``: TalosConfigTemplates carry a content hash in their name (#3523).
    ``installer_schematic``: the schematic written into machine.install.image whatever the boot
    source is; "" follows it.
    ``ignore_awaiting_etcd``: render the pool although the tenant has no etcd.
    ``disks``: what it checks of system disks.
    """

    version: str = "1.7.0"
    kernel_modules: bool = True
    automatic_modules: bool = True
    modules: tuple[tuple[str, tuple[str, ...]], ...] = AUTOMATIC
    indent_modules: bool = True
    empty_means_absent: bool = False
    kernel_block_always: bool = False
    drop_parameters: bool = False
    ascii_parameters: bool = True
    content_named: bool = True
    installer_schematic: str = ""
    ignore_awaiting_etcd: bool = False
    disks: DiskRules = DiskRules()


@dataclass(frozen=True, slots=True)
class KubernetesChart:
    """Switches between revisions of the chart of a tenant cluster, and so of its addons.

    ``version``: the chart's own; "" follows the platform's (that of the pool chart).
    ``os_driver``: the gpu-operator addon expects the operating system's driver (#3585); False is
    the release before it: driver and toolkit containers, and a ConfigMap with module parameters.
    ``plugin_env``, ``validator_env``: what the addon then sets for the device plugin and the
    driver validation, in order.
    """

    version: str = ""
    os_driver: bool = True
    plugin_env: tuple[tuple[str, str], ...] = PLUGIN_ENV
    validator_env: tuple[tuple[str, str], ...] = VALIDATOR_ENV


@dataclass(frozen=True, slots=True)
class CatalogueChart:
    """Switches between revisions of the chart of golden images (clone_path.md section 2).

    ``version``: the chart's own; "" follows the platform's.
    ``keeps``: goldens carry the policy by which Helm leaves them when an entry is dropped.
    ``duplicate_guard``, ``name_guard``, ``change_guard``: its three refusals.
    """

    version: str = ""
    keeps: bool = True
    duplicate_guard: bool = True
    name_guard: bool = True
    change_guard: bool = True
