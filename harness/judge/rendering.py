"""Claims about what the platform renders for a pool, before any machine has read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.facts.extensions import Extensions
from harness.facts.fact import Unread
from harness.facts.machineconfig import DeclaredModule, InstallImage, RenderedModules
from harness.facts.pool import BootSource, PoolRequest, RequestedModules
from harness.judge.expectation import (
    NVIDIA_MODULES,
    NVLINK_DISABLED,
    expected_modules,
)
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, outcome, unread

_PATH = "machine.kernel.modules"


def spec_read_back(
    stored: PoolRequest | Unread, written: RequestedModules, subject: str
) -> Verdict:
    """spec-read-back: kernelModules in the HelmRelease's values is exactly what was written."""
    claim = "spec-read-back"
    if isinstance(stored, Unread):
        return unread(claim, subject, stored)
    found = stored.kernel_modules
    same = found == written
    because = f"kernelModules is stored as {found}, and was written as {written}"
    return Verdict(claim, subject, outcome(same), because, (stored,))


def render_modules(
    rendered: RenderedModules | Unread,
    requested: RequestedModules,
    gpus: Sequence[str],
    subject: str,
) -> Verdict:
    """render-modules: what is declared at machine.kernel.modules is what the request calls for.

    The chart's own choice is judged by its names (order and parameters have claims of their own);
    a list of the user's must stand there verbatim, parameters and order included. A request for
    none holds where the configuration was read and declares none.
    """
    claim = "render-modules"
    if isinstance(rendered, Unread):
        return unread(claim, subject, rendered)
    expected = expected_modules(requested, gpus)
    if requested.listed is None:
        same = Counter(rendered.names) == Counter(one.name for one in expected)
    else:
        same = rendered.modules == expected
    if rendered.misplaced:
        because = (
            f"a list of modules stands at {named(rendered.misplaced)}, where Talos reads none; "
            f"{_PATH} declares {named(rendered.names)}, the request calls for {_told(expected)}"
        )
        return Verdict(claim, subject, Outcome.BROKEN, because, (rendered,))
    because = (
        f"{_PATH} declares {_told(rendered.modules)}, the request (kernelModules {requested}, "
        f"gpus {named(gpus)}) calls for {_told(expected)}"
    )
    return Verdict(claim, subject, outcome(same), because, (rendered,))


def render_module_order(
    rendered: RenderedModules | Unread,
    subject: str,
    *,
    order: Sequence[str] = NVIDIA_MODULES,
) -> Verdict:
    """render-module-order: these modules are declared, and in this order.

    Unknown where nothing is declared, and where some are missing and the rest is in order: which
    names are declared is another claim's business. Other modules may stand between.
    """
    claim = "render-module-order"
    if isinstance(rendered, Unread):
        return unread(claim, subject, rendered)
    if not rendered.modules:
        because = f"{_PATH} declares nothing, so there is no order to judge"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (rendered,))
    found = [name for name in rendered.names if name in order]
    missing = [name for name in order if name not in found]
    because = f"{_PATH} declares {named(rendered.names)}, expected in this order: {named(order)}"
    if found != [name for name in order if name in found]:
        return Verdict(claim, subject, Outcome.BROKEN, because, (rendered,))
    if missing:
        because = f"{because}; without {named(missing)} the order is not established"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (rendered,))
    return Verdict(claim, subject, Outcome.HOLDS, because, (rendered,))


def render_module_params(
    rendered: RenderedModules | Unread,
    subject: str,
    *,
    module: str = NVIDIA_MODULES[0],
    parameter: str = NVLINK_DISABLED,
) -> Verdict:
    """render-module-params: every entry of the module gives the parameter this value.

    Unknown where the module is not declared. The same parameter with another value beside it is
    broken: which of the two the kernel takes is not for a configuration to leave open.
    """
    claim = "render-module-params"
    if isinstance(rendered, Unread):
        return unread(claim, subject, rendered)
    entries = [one for one in rendered.modules if one.name == module]
    if not entries:
        because = f"{_PATH} declares {named(rendered.names)}, no {module} to carry {parameter}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (rendered,))
    key = _parameter_name(parameter)
    given = [text for one in entries for text in one.parameters if _parameter_name(text) == key]
    same = bool(given) and set(given) == {parameter}
    said = named(text for one in entries for text in one.parameters)
    because = f"{module} is declared with the parameters {said}, expected {parameter}"
    return Verdict(claim, subject, outcome(same), because, (rendered,))


def render_no_kernel_block(
    rendered: RenderedModules | Unread,
    requested: RequestedModules,
    gpus: Sequence[str],
    subject: str,
) -> Verdict:
    """render-no-kernel-block: a pool that calls for no module renders no machine.kernel block.

    Unknown for a pool that does call for modules: the claim says nothing of it.
    """
    claim = "render-no-kernel-block"
    if isinstance(rendered, Unread):
        return unread(claim, subject, rendered)
    expected = expected_modules(requested, gpus)
    asked = f"(kernelModules {requested}, gpus {named(gpus)})"
    if expected:
        because = f"this pool's request {asked} calls for {_told(expected)}, so a block is due"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (rendered,))
    if rendered.misplaced:
        because = f"a list of modules stands at {named(rendered.misplaced)}, none is due {asked}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (rendered,))
    seen = "has a kernel block" if rendered.present_block else "has no kernel block"
    because = f"the machine section {seen}, and none is due {asked}"
    return Verdict(claim, subject, outcome(not rendered.present_block), because, (rendered,))


def schematic_consistent(
    boot: BootSource | Unread,
    install: InstallImage | Unread,
    subject: str,
    running: Sequence[Extensions | Unread] = (),
) -> Verdict:
    """schematic-consistent: boot source and installer name one schematic and one version, and each
    of the machines that were asked runs that schematic.

    Without a machine to ask, only what is declared is compared, and that is said.
    """
    claim = "schematic-consistent"
    facts = (boot, install, *running)
    if isinstance(boot, Unread) or isinstance(install, Unread):
        return unread(claim, subject, *facts)
    same = (boot.schematic, boot.version) == (install.schematic, install.version)
    because = (
        f"the disk comes from schematic {boot.schematic} {boot.version} ({boot.form}), the "
        f"installer is schematic {install.schematic} {install.version}; expected the same"
    )
    because += "" if same else ": the next upgrade or reinstall brings another set of extensions"
    ran = [one for one in running if isinstance(one, Extensions)]
    others = [one for one in ran if one.schematic != boot.schematic]
    because += _running(ran, others)
    if same and not others and len(ran) < len(running):
        return unread(claim, subject, *facts)
    return Verdict(claim, subject, outcome(same and not others), because, facts)


def _running(ran: Sequence[Extensions], others: Sequence[Extensions]) -> str:
    """What machines run, in words."""
    if others:
        told = (f"{one.node} runs {one.schematic or 'no schematic'}" for one in others)
        return f"; {named(told)}"
    nodes = named(one.node for one in ran)
    return f"; {nodes} {'runs' if len(ran) == 1 else 'run'} that of the disk" if ran else ""


def _told(modules: Sequence[DeclaredModule]) -> str:
    return named(" ".join((one.name, *one.parameters)) for one in modules)


def _parameter_name(text: str) -> str:
    """The name in "name=value"; the kernel takes a dash for an underscore there."""
    return text.partition("=")[0].replace("-", "_")
