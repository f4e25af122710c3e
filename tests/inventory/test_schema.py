from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from harness.inventory import schema

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def validator() -> jsonschema.Draft202012Validator:
    loaded = json.loads(schema.published())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


def test_the_committed_schema_is_current() -> None:
    committed = (ROOT / "inventory/schema.json").read_text(encoding="utf-8")
    assert committed == schema.published(), "write it again with harness.inventory.schema.write"


def test_the_schema_is_the_same_in_every_process(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from harness.inventory import schema; "
    script += "schema.write(Path(sys.argv[1]))"
    for seed in ("1", "2"):
        argv = [sys.executable, "-c", script, str(tmp_path / seed)]
        subprocess.run(argv, check=True, cwd=ROOT, env={"PYTHONHASHSEED": seed})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert (tmp_path / "1").read_text(encoding="utf-8") == schema.published()


def test_the_schema_accepts_every_shipped_file(
    validator: jsonschema.Draft202012Validator, shipped: Path
) -> None:
    validator.validate(yaml.safe_load(shipped.read_text(encoding="utf-8")))


def test_the_schema_accepts_a_plain_path_as_kubeconfig(
    validator: jsonschema.Draft202012Validator, small: dict[str, Any]
) -> None:
    small["management"]["kubeconfig"] = "~/.kube/lab"
    validator.validate(small)


@pytest.mark.parametrize(
    "management",
    [
        {"inCluster": True},
        {"inCluster": True, "requestsPerSecond": 0},
        {"kubeconfig": "/a", "context": "x", "inCluster": False, "requestsPerSecond": 5},
    ],
)
def test_the_schema_accepts_each_way_in(
    validator: jsonschema.Draft202012Validator, small: dict[str, Any], management: dict[str, Any]
) -> None:
    validator.validate({**small, "management": management})


@pytest.mark.parametrize(
    "change",
    [
        {"colour": "red"},
        {"kind": "twinn"},
        {"gpus": {"h100": {}}},
        {"pools": {}},
        {"pools": {"Bad_Name": {}}},
        {"schematics": {"a": {"id": "12"}}},
        {"storageClasses": {"a": {"drbd": None, "replicas": 1}}},
        {"management": {"kubeconfig": {"file": "/a", "env": "B"}, "context": "x"}},
        {"management": {"kubeconfig": "relative", "context": "x"}},
        {"management": {"kubeconfig": "/a"}},
        {"management": {"context": "x"}},
        {"management": {}},
        {"management": {"inCluster": False}},
        {"management": {"inCluster": True, "context": "x"}},
        {"management": {"inCluster": True, "kubeconfig": "/a", "context": "x"}},
        {"management": {"inCluster": True, "requestsPerSecond": 1.5}},
        {"lanes": {"n": {"pools": ["a"], "soak": "90"}}},
    ],
)
def test_the_schema_refuses(
    validator: jsonschema.Draft202012Validator, small: dict[str, Any], change: dict[str, Any]
) -> None:
    assert validator.is_valid(small)
    assert not validator.is_valid({**small, **change})


@pytest.mark.parametrize("modules", [[], [{"name": "nvidia"}]])
def test_kernel_modules_have_no_default_and_no_null(
    validator: jsonschema.Draft202012Validator, small: dict[str, Any], modules: list[Any]
) -> None:
    assert "default" not in schema.at(("pools", "any", "kernelModules"))
    small["pools"]["cards"]["kernelModules"] = modules
    assert validator.is_valid(small)
    small["pools"]["cards"]["kernelModules"] = None
    assert not validator.is_valid(small)


def descriptions(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, str | None]]:
    for name, inside in part.get("properties", {}).items():
        yield f"{path}.{name}", inside.get("description")
    for name, inside in part.get("$defs", {}).items():
        yield from descriptions(inside, name)


def test_every_field_is_described() -> None:
    told = dict(descriptions(json.loads(schema.published())))
    assert len(told) > 40
    assert not [path for path, text in told.items() if not text]
