"""The values of the gpu-operator and HAMi addons, as the chart of a tenant cluster renders them.

Key set: gpu_path.md section 5 (S-GPO; CZ commits 10137b83b, 48007bdc1). An override is laid over
it as Helm's ``mergeOverwrite`` does: mappings are merged, lists are replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from harness.twin.world.chart_behaviour import KubernetesChart, RenderRefused
from harness.twin.world.objects import Obj, deep
from harness.twin.world.shapes import type_of

GPU_OPERATOR = "gpu-operator"
MODULE_PARAMETERS = "nvidia-kernel-module-params"
_HAMI = "kubernetes/templates/helmreleases/hami.yaml"


def enabled(values: Obj, addon: str) -> bool:
    """Whether ``addons.<addon>.enabled`` is set."""
    return bool(deep(values, "addons", addon, "enabled"))


def gpu_operator(values: Obj, chart: KubernetesChart) -> Obj:
    """The gpu-operator addon's values for a cluster's ``values``: default, then override."""
    default = _os_driver(chart) if chart.os_driver else _driver_container()
    if enabled(values, "hami"):
        default[GPU_OPERATOR].setdefault("devicePlugin", {})["enabled"] = False
    return overlaid(default, _override(values, "gpuOperator"))


def hami(values: Obj) -> Obj:
    """The HAMi addon's values. Raises RenderRefused where the gpu-operator addon is off.

    The refusal's words and the default: CZ ``packages/apps/kubernetes/templates/helmreleases``.
    """
    if not enabled(values, "gpuOperator"):
        text = "addons.hami requires addons.gpuOperator to be enabled"
        raise RenderRefused(f"{_HAMI}:12:4", text)
    default = {"hami": {"devicePlugin": {"runtimeClassName": "nvidia"}}}
    return overlaid(default, _override(values, "hami"))


def _override(values: Obj, addon: str) -> Obj:
    found = deep(values, "addons", addon, "valuesOverride") or {}
    if not isinstance(found, dict):
        where = f"/addons/{addon}/valuesOverride"
        raise RenderRefused("kubernetes", f"at '{where}': got {type_of(found)}, want object")
    return found


def overlaid(base: Mapping[str, Any], over: Mapping[str, Any]) -> Obj:
    """``over`` laid over ``base``: mappings are merged, everything else is replaced."""
    found = dict(copy.deepcopy(dict(base)))
    for key, value in over.items():
        before = found.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        found[key] = overlaid(before or {}, value) if both else copy.deepcopy(value)
    return found


def _env(pairs: tuple[tuple[str, str], ...]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in pairs]


def _os_driver(chart: KubernetesChart) -> Obj:
    return {
        GPU_OPERATOR: {
            "driver": {"enabled": False},
            "toolkit": {"enabled": False},
            "validator": {"driver": {"env": _env(chart.validator_env)}},
            "devicePlugin": {"env": _env(chart.plugin_env)},
        }
    }


def _driver_container() -> Obj:
    """The default before #3585: the operator's own, and a ConfigMap of module parameters."""
    return {
        GPU_OPERATOR: {"driver": {"kernelModuleConfig": {"name": MODULE_PARAMETERS}}},
        "kernelModuleConfig": {
            "create": True,
            "name": MODULE_PARAMETERS,
            "content": "options nvidia NVreg_NvLinkDisable=1\n",
        },
    }
