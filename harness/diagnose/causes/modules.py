"""Why the driver in the guest does not work: what is declared, what the image has, what loads."""

from __future__ import annotations

from collections.abc import Iterator

from harness.diagnose.case import Text
from harness.diagnose.causes.shown import NO_GPU
from harness.diagnose.causes.signs import fits, proves, rules_out
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import advertised, dead
from harness.diagnose.view import Pool, View
from harness.facts.machineconfig import RenderedModules


def carded(view: View) -> Iterator[Pool]:
    """Pools that ask for NVIDIA cards."""
    yield from (pool for pool in view.pools if pool.has_nvidia)


def undeclared(view: View) -> Iterator[tuple[Pool, RenderedModules]]:
    """Pools with cards whose machine configuration declares no nvidia module."""
    for pool in carded(view):
        if pool.modules is not None and "nvidia" not in pool.modules.names:
            yield pool, pool.modules


def _asked(pool: Pool) -> list[str] | None:
    """The names under kernelModules in the release's values, None where the key is absent."""
    if pool.written is None or pool.written.listed is None:
        return None
    return [one.name for one in pool.written.listed]


# -- declared


@proves(
    "HelmRelease spec.values.kernelModules beside the rendered machine.kernel.modules",
    "the key is absent, and nothing is rendered for a pool with cards",
)
def _chart_renders_none(view: View) -> Iterator[Seen]:
    for pool, modules in undeclared(view):
        if pool.written and _asked(pool) is None and not modules.misplaced:
            yield Seen(
                f"{pool.subject} leaves kernelModules to the chart, and its machine configuration "
                "declares no module",
                pool.config_template.where,
                pool.subject,
            )


@rules_out(
    "HelmRelease spec.values.kernelModules", "the key is there: the chart does as it is told"
)
def _key_there(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if pool.written and pool.written.listed is not None:
            yield Seen(f"{pool.subject}: kernelModules is {pool.written}", pool.release.where,
                       pool.subject)  # fmt: skip


@rules_out("TalosConfigTemplate: machine.kernel.modules", "nvidia is declared there")
def _declared(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if pool.modules and "nvidia" in pool.modules.names:
            yield Seen(f"{pool.subject} declares {', '.join(pool.modules.names)}",
                       pool.config_template.where, pool.subject)  # fmt: skip


@proves(
    "TalosConfigTemplate: machine.kernel.modules", "the chart's own list, with nvidia not first"
)
def _out_of_order(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        names = pool.modules.names if pool.modules else ()
        if pool.written and _asked(pool) is None and "nvidia" in names and names[0] != "nvidia":
            yield Seen(f"{pool.subject} declares {', '.join(names)}", pool.config_template.where,
                       pool.subject)  # fmt: skip


@proves("HelmRelease spec.values.kernelModules", "[], on a pool with cards")
def _empty_list(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if _asked(pool) == []:
            yield Seen(f"{pool.subject}: kernelModules is []", pool.release.where, pool.subject)


@proves("HelmRelease spec.values.kernelModules", "a list without nvidia, on a pool with cards")
def _list_without_nvidia(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        asked = _asked(pool)
        if asked and "nvidia" not in asked:
            yield Seen(f"{pool.subject}: kernelModules is {pool.written}", pool.release.where,
                       pool.subject)  # fmt: skip


@rules_out("HelmRelease spec.values.kernelModules", "absent, or not empty")
def _not_empty(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if pool.written and _asked(pool) != []:
            yield Seen(f"{pool.subject}: kernelModules is {pool.written}", pool.release.where,
                       pool.subject)  # fmt: skip


@rules_out("HelmRelease spec.values.kernelModules", "absent, empty, or with nvidia in it")
def _no_own_list(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        asked = _asked(pool)
        if pool.written and (not asked or "nvidia" in asked):
            yield Seen(f"{pool.subject}: kernelModules is {pool.written}", pool.release.where,
                       pool.subject)  # fmt: skip


@rules_out("TalosConfigTemplate: its data parsed", "no module list at any other place")
def _well_placed(view: View) -> Iterator[Seen]:
    for pool in carded(view):
        if pool.modules and not pool.modules.misplaced:
            yield Seen(f"{pool.subject} has no module list at a wrong place",
                       pool.config_template.where, pool.subject)  # fmt: skip


@proves(
    "TalosConfigTemplate: its data parsed, not searched",
    "a list `modules` anywhere but at machine.kernel.modules",
)
def _misplaced(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if pool.modules and pool.modules.misplaced and not pool.modules.modules:
            where = ", ".join(pool.modules.misplaced)
            yield Seen(f"{pool.subject} has a module list at {where}, and none at "
                       "machine.kernel.modules", pool.config_template.where,
                       pool.subject)  # fmt: skip


@rules_out("TalosConfigTemplate: its data parsed", "a module list at another place")
def _placed_wrong(view: View) -> Iterator[Seen]:
    yield from _misplaced.find(view)


@fits("the Node's allocatable", "no nvidia.com/gpu on a worker that has a card")
def nothing_offered(view: View) -> Iterator[Seen]:
    """Nodes with a card that offer none."""
    for pool in carded(view):
        for node in pool.nodes:
            if dead(node):
                yield Seen(f"{node.name} offers no nvidia.com/gpu", node.source, pool.subject)


@fits("/proc/modules of the node", "no nvidia")
def not_loaded(view: View) -> Iterator[Seen]:
    """Nodes on which nvidia is not loaded."""
    for text, table in view.module_tables:
        pool = view.pool_of(text.node)
        if table.find("nvidia") is None and not (pool and pool.cardless):
            yield Seen(
                "nvidia is not among the loaded modules", text.source, subject_of(view, text)
            )


@rules_out("/proc/modules of the node", "nvidia is loaded")
def loaded(view: View) -> Iterator[Seen]:
    """Nodes on which nvidia is loaded."""
    for text, table in view.module_tables:
        found = table.find("nvidia")
        if found is not None:
            yield Seen(f"nvidia is {found.state}", text.source, subject_of(view, text))


@rules_out("the Node's allocatable", "nvidia.com/gpu is offered: the driver works")
def offered(view: View) -> Iterator[Seen]:
    """Nodes that offer their card."""
    for pool in carded(view):
        for node in pool.nodes:
            if advertised(node):
                yield Seen(f"{node.name} offers its card", node.source, pool.subject)


def subject_of(view: View, text: Text) -> str:
    """How evidence names the pool or the machine that a text is of."""
    pool = view.pool_of(text.node)
    return pool.subject if pool else f"node {text.node}" if text.node else ""


# -- image


# -- flavour


# -- parameter and NVLink


_TEMPLATES = "kubectl -n <tenant> get talosconfigtemplates -o yaml (parse data, read " \
    "machine.kernel.modules)"  # fmt: skip
_VALUES = "kubectl -n <tenant> get helmrelease kubernetes-nodes-<cluster>-<pool> -o " \
    "jsonpath='{.spec.values}'"  # fmt: skip
_COMMON = (nothing_offered, not_loaded, loaded, offered)
FOLLOWS = ("boot-waits-for-driver",)

CAUSES = (
    Cause(
        id="chart-renders-no-modules",
        family="driver",
        title="The chart renders no kernel modules for a pool with cards",
        story="The pool leaves kernelModules to the chart, and the chart renders none: it predates "
        "the field, or takes an absent list for an empty one. Nothing loads the driver.",
        signs=(_chart_renders_none, *_COMMON, _key_there, _declared, _placed_wrong),
        wrong="passthrough is broken",
        why_wrong="the card is in the guest, unbound, and no log has an error: the extension "
        "blacklists its modules, so that nothing loads them unasked.",
        check="the chart's version, and the rendered machine configuration",
        command=_TEMPLATES,
        symptoms=(NO_GPU,),
        leads_to=FOLLOWS,
    ),
    Cause(
        id="modules-list-empty",
        family="driver",
        title="kernelModules: [] is written, which means none at all",
        story="The release's values hold an empty list, which opts the pool out of the automatic "
        "modules; absent would have left the choice to the chart.",
        signs=(_empty_list, *_COMMON, _not_empty),
        wrong="a bug of the chart",
        why_wrong="the chart does what is written. Look at who writes []: a client that fills in "
        "zero values, a form, a dict.",
        check="whether the key is there in the release's values, not in the CR as a form shows it",
        command=_VALUES,
        symptoms=(NO_GPU,),
        leads_to=FOLLOWS,
    ),
    Cause(
        id="modules-list-without-nvidia",
        family="driver",
        title="A module list of the user's own replaces the NVIDIA set",
        story="kernelModules lists something else, and a list replaces the automatic one whole: "
        "nvidia is not loaded.",
        signs=(_list_without_nvidia, *_COMMON, _no_own_list),
        wrong="the list adds to the automatic one",
        why_wrong="it replaces it: on a pool with cards all four NVIDIA modules have to be listed "
        "too.",
        check="the list in the release's values",
        command=_VALUES,
        symptoms=(NO_GPU,),
        leads_to=FOLLOWS,
    ),
    Cause(
        id="modules-misplaced",
        family="driver",
        title="The module list stands at the wrong place of the machine configuration",
        story="The list is rendered at another path than machine.kernel.modules: valid YAML, which "
        "loads nothing.",
        signs=(_misplaced, *_COMMON, _well_placed),
        wrong="the list is there: a search in the text finds it",
        why_wrong="Talos reads it at exactly one path, and lets pass what stands elsewhere.",
        check="the parsed path machine.kernel.modules",
        command=_TEMPLATES,
        symptoms=(NO_GPU,),
        leads_to=FOLLOWS,
    ),
    Cause(
        id="modules-out-of-order",
        family="driver",
        title="The chart declares the modules in another order",
        story="nvidia does not stand first in the rendered list. Talos loads by name, so that the "
        "kernel's order is right all the same; the configuration is another text, and rolls pools.",
        signs=(_out_of_order,),
        wrong="the kernel loads in the order declared",
        why_wrong="the list is kept sorted by name, and what a module needs is loaded before it.",
        check="the order in /proc/modules, whose newest line is the first",
        command=_TEMPLATES,
        grade=Grade.HAZARD,
    ),
)  # fmt: skip
