"""The chart's rule for `kernelModules`: three states, checked at render (gpu_path.md section 1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.twin.world.chart_behaviour import ChartBehaviour, RenderRefused, TemplateBroken
from harness.twin.world.objects import Obj

_WHERE = "kubernetes-nodes/templates/_kernelmodules.tpl:21:6"
_NAME = re.compile(r"^[a-z0-9_-]+$")
_FORBIDDEN = frozenset("$`\\'\"")
_LINE_BREAKS = ("\u2028", "\u2029")


def rendered(values: Mapping[str, Any], pool: str, chart: ChartBehaviour) -> list[Obj]:
    """The modules to load. Raises RenderRefused for a name or parameter that is not allowed.

    Absent key: the automatic set where a device's resource name begins with ``nvidia.com/``,
    else nothing. A list: exactly that one, rebuilt from name and parameters. ``[]``: nothing.
    """
    if not chart.kernel_modules:
        return []
    written = values.get("kernelModules")
    if written is None:
        if chart.empty_means_absent or not (chart.automatic_modules and wants_nvidia(values)):
            return []
        return [_entry(name, parameters, chart) for name, parameters in chart.modules]
    return [_checked(item, pool, chart) for item in written]


def wants_nvidia(values: Mapping[str, Any]) -> bool:
    """Whether a pool asks for an ``nvidia.com/*`` device."""
    return any(str(gpu.get("name", "")).startswith("nvidia.com/") for gpu in values["gpus"] or ())


def _entry(name: str, parameters: Sequence[str], chart: ChartBehaviour) -> Obj:
    entry: Obj = {"name": name}
    if parameters and not chart.drop_parameters:
        entry["parameters"] = list(parameters)
    return entry


def _checked(item: Any, pool: str, chart: ChartBehaviour) -> Obj:
    name = str(item.get("name", "")) if isinstance(item, dict) else str(item)
    if not _NAME.match(name):
        raise RenderRefused(_WHERE, f"pool {pool}: invalid kernelModules name {name!r}")
    parameters = [str(parameter) for parameter in (item.get("parameters") or ())]
    for parameter in parameters:
        _check_parameter(parameter, name, pool, chart)
    return _entry(name, parameters, chart)


def _check_parameter(parameter: str, name: str, pool: str, chart: ChartBehaviour) -> None:
    breaks = any(mark in parameter for mark in _LINE_BREAKS)
    if breaks and not chart.ascii_parameters:
        raise TemplateBroken(
            "kubernetes-nodes/templates/talos-reconcile-job.yaml",
            "line 88: could not find expected ':'",
        )
    printable = all(" " < mark <= "~" and mark not in _FORBIDDEN for mark in parameter)
    if not parameter or not printable:
        raise RenderRefused(
            _WHERE, f"pool {pool}: module {name}: invalid kernelModules parameter {parameter!r}"
        )
