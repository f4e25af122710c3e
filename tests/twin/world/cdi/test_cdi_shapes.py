from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.twin.world.objects import CDI

SCHEMA = (
    Path(__file__).resolve().parents[4]
    / "../shared/schemas/cdi.kubevirt.io_v1beta1_DataVolume.json"
)
NO_POPULATOR = {"cdi.kubevirt.io/storage.usePopulator": "false"}


def closed(schema: Any) -> Any:
    """The same schema, refusing fields it does not name: a CRD would prune them."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        found["additionalProperties"] = False
    return found


@pytest.fixture
def validator() -> Any:
    if not SCHEMA.is_file():
        pytest.skip("the CRD schemas are not beside this repository")
    return jsonschema.Draft202012Validator(
        closed(json.loads(SCHEMA.read_text())["schema"]), format_checker=jsonschema.FormatChecker()
    )


def test_every_version_of_every_disk_is_valid(disks: Any, validator: Any) -> None:
    disks.import_golden()
    disks.clone("csi")
    disks.clone("own", notes=NO_POPULATOR)
    disks.clone("small", size="6G")
    disks.clone("nothing", source="nothing")
    disks.http("http", notes=NO_POPULATOR)
    disks.http("wrong", url="https://factory.talos.dev/image/x/v1.13.6/openstack-amd64.raw.xz")
    disks.http("unclear", klass="gone")
    disks.run(300)
    disks.quota("1Gi")
    disks.clone("over")
    disks.run(60)
    disks.delete(disks.get(CDI, "DataVolume", "tenant-hil", "csi"))
    name = disks.claim("http")["spec"]["volumeName"]
    disks.delete(disks.get("v1", "PersistentVolume", "", name))
    disks.run(60)
    versions = [c.obj for _, c in disks.seen if c.resource.kind == "DataVolume"]
    assert len({(v["metadata"]["name"], v.get("status", {}).get("phase")) for v in versions}) > 25
    problems = [
        f"{version['metadata']['name']} {list(error.absolute_path)}: {error.message}"
        for version in versions
        for error in validator.iter_errors({k: v for k, v in version.items() if k != "metadata"})
    ]
    assert problems == []
