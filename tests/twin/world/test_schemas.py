from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.twin.world.chart_behaviour import ChartBehaviour

SCHEMAS = Path(__file__).resolve().parents[3] / "../shared/schemas"


def schemas() -> dict[tuple[str, str], Any]:
    if not (SCHEMAS / "index.tsv").is_file():
        pytest.skip("the CRD schemas are not beside this repository")
    found: dict[tuple[str, str], Any] = {}
    with (SCHEMAS / "index.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            schema = json.loads((SCHEMAS / row["file"]).read_text())["schema"]
            key = f"{row['group']}/{row['version']}", row["kind"]
            found[key] = jsonschema.Draft202012Validator(
                schema, format_checker=jsonschema.FormatChecker()
            )
    return found


def closed(schema: Any) -> Any:
    """The same schema, refusing fields it does not name: a CRD would prune them."""
    if not isinstance(schema, dict):
        return schema
    result = {key: closed_value(key, value) for key, value in schema.items()}
    if (
        "properties" in schema
        and "additionalProperties" not in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        result["additionalProperties"] = False
    return result


def closed_value(key: str, value: Any) -> Any:
    if key == "properties":
        return {name: closed(one) for name, one in value.items()}
    return closed(value) if key in ("items", "additionalProperties") else value


def test_every_version_of_every_object_is_valid_through_a_whole_life(lab: Any) -> None:
    validators = {
        key: jsonschema.Draft202012Validator(
            closed(one.schema), format_checker=jsonschema.FormatChecker()
        )
        for key, one in schemas().items()
    }
    problems: dict[str, None] = {}
    checked: dict[tuple[str, str], int] = {}

    def check(obj: Any) -> None:
        key = obj["apiVersion"], obj["kind"]
        if key not in validators:
            return
        checked[key] = checked.get(key, 0) + 1
        for error in validators[key].iter_errors(obj):
            path = ".".join(str(part) for part in error.absolute_path)
            problems[f"{obj['kind']} {path}: {error.message[:200]}"] = None

    for resource in lab.management.registry:
        for obj in lab.management.all(resource.api_version, resource.kind):
            check(obj)
    lab.management.subscribe(lambda change: check(change.obj))
    lab.tenant.subscribe(lambda change: check(change.obj))
    lab.gpu_pool(logSerialConsole=True)
    lab.pool("plain", resources={"cpu": "2", "memory": "4Gi"})
    lab.pool("stuck", gpus=[{"name": "nvidia.com/NOT_LISTED"}], storageClass="local")
    lab.pool("refused", talos={"version": "v1.13"})
    lab.pool("cloned", osImage={"builtin": {}}, storageClass="replicated")
    lab.run(300)
    lab.world.chart = ChartBehaviour(version="1.7.1", drop_parameters=True)
    lab.run(600)
    for name in ("gpu", "plain", "stuck", "refused", "cloned"):
        lab.delete_pool(name)
    lab.run(300)
    assert not problems, "\n".join(problems)
    seen = {kind for _, kind in checked}
    assert seen >= {
        "Machine", "MachineSet", "MachineDeployment", "MachineHealthCheck", "KubevirtMachine",
        "KubevirtMachineTemplate", "TalosConfig", "TalosConfigTemplate", "HelmRelease",
        "VirtualMachine", "VirtualMachineInstance", "DataVolume", "KubeVirt", "CDI",
        "Cluster", "KamajiControlPlane", "TenantControlPlane", "WorkloadMonitor", "LinstorCluster",
        "Package", "PackageSource",
    }  # fmt: skip
