"""The table of the built-in kinds' fields is whole, and says what the kinds are served with."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from harness.twin.apiserver import fieldtable
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.resources import ATOMIC, Resource

TABLE = json.loads(files("harness.twin.apiserver").joinpath("builtin_fields.json").read_text())


def test_every_type_that_is_named_is_there() -> None:
    named = {
        fieldtable.word(text).type_name
        for fields in TABLE["types"].values()
        for name, text in fields.items()
        if name
    }
    assert named - {""} <= TABLE["types"].keys()


@pytest.mark.parametrize("resource", BUILTIN, ids=lambda resource: resource.kind)
def test_every_built_in_kind_is_known_with_its_metadata(resource: Resource) -> None:
    assert resource.list_keys["metadata.ownerReferences"] == "uid"
    assert "metadata" in resource.present


def test_keys_sets_and_atomic_maps_by_path() -> None:
    keys = fieldtable.known("apps/v1", "Deployment").list_keys
    spec = "spec.template.spec"
    assert keys[f"{spec}.containers"] == "name"
    assert keys[f"{spec}.containers.ports"] == "containerPort,protocol"
    assert keys["spec.selector"] == keys[f"{spec}.nodeSelector"] == ATOMIC
    assert keys["metadata.finalizers"] == ""
    assert f"{spec}.containers.args" not in keys


def test_a_kind_that_is_not_in_the_table() -> None:
    assert fieldtable.known("example.org/v1", "Widget").list_keys == {}
    assert fieldtable.type_of("example.org/v1", "Widget") == ""


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_word_without_a_type_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="no type of a field"):
        fieldtable.word(text)
