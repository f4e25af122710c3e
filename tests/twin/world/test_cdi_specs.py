"""CDI files: which count, which names they resolve, and what nvidia-ctk writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.twin.world import cdi_gen, cdi_specs
from harness.twin.world.cdi_specs import Edits, Mount, Unresolvable
from harness.twin.world.filesystem import Filesystem, text
from harness.twin.world.nvidia import l40s

UUIDS = ("GPU-11111111-2222-4333-8444-555555555555", "GPU-66666666-7777-4888-9999-aaaaaaaaaaaa")
CARDS = tuple(l40s(f"0000:0{i}:00.0", uuid) for i, uuid in enumerate(UUIDS))
HOST = Filesystem(
    {
        **{f"/usr/local/lib/{name}": text("x") for name in cdi_gen.LIBRARIES},
        "/usr/local/bin/nvidia-smi": text("x", 0o755),
        "/dev/nvidiactl": text(""),
        "/dev/nvidia-uvm": text(""),
    }
)


def spec(**change: Any) -> dict[str, Any]:
    device = {"name": "a", "containerEdits": {"deviceNodes": [{"path": "/dev/a"}]}}
    base = {"cdiVersion": "0.5.0", "kind": "vendor.com/class", "devices": [device]}
    return {**base, "containerEdits": {"env": ["COMMON=1"]}, **change}


def files(*specs: Any, suffix: str = "json") -> dict[str, bytes]:
    return {f"/run/cdi/{i}.{suffix}": json.dumps(one).encode() for i, one in enumerate(specs)}


def test_a_device_brings_its_own_edits_after_what_all_share_once() -> None:
    two = spec(devices=[{"name": n, "containerEdits": {"env": [f"{n}=1"]}} for n in "ab"])
    edits = cdi_specs.resolve(files(two), ["vendor.com/class=b", "vendor.com/class=a"])
    assert edits.env == ("COMMON=1", "b=1", "a=1")
    assert cdi_specs.resolve(files(two), []) == Edits()


def test_yaml_and_json_are_read_alike() -> None:
    path = {"/run/cdi/x.yaml": yaml.safe_dump(spec()).encode()}
    name = "vendor.com/class=a"
    assert cdi_specs.resolve(path, [name]) == cdi_specs.resolve(files(spec()), [name])


@pytest.mark.parametrize(
    "change",
    [
        {"cdiVersion": "9.9.9"},
        {"cdiVersion": None},
        {"kind": "nokind"},
        {"devices": []},
        {"devices": [{"name": ""}]},
        {"devices": [{"name": "a"}]},
        {"devices": [{"name": "a", "containerEdits": {"env": []}}]},
        {"devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}}] * 2},
        {"devices": [{"name": "a", "containerEdits": {"env": ["A=1"]}, "what": 1}]},
        {"what": 1},
        {"containerEdits": {"what": 1}},
        {"devices": "a"},
        {"containerEdits": {"env": ["no-equals"]}},
        {"containerEdits": {"mounts": [{"hostPath": "/x"}]}},
        {"containerEdits": {"hooks": [{"path": "/x"}]}},
        {"containerEdits": []},
    ],
)
def test_a_file_that_is_no_valid_spec_resolves_nothing(change: dict[str, Any]) -> None:
    if change == {"containerEdits": []}:
        change = {"containerEdits": ["x"]}
    with pytest.raises(Unresolvable, match=r"devices vendor\.com/class=a$"):
        cdi_specs.resolve(files(spec(**change)), ["vendor.com/class=a"])


@pytest.mark.parametrize("version", ["0.1.0", "0.3.0", "1.0.0"])
def test_versions_that_are_known(version: str) -> None:
    assert cdi_specs.resolve(files(spec(cdiVersion=version)), ["vendor.com/class=a"])


@pytest.mark.parametrize(
    ("written", "name"), [("0", "0"), ('"0"', "0"), ("true", "true"), ("1.5", "1.5")]
)
def test_a_device_may_be_named_by_any_scalar(written: str, name: str) -> None:
    content = (
        f"---\ncdiVersion: 0.5.0\nkind: v.x/y\n"
        f"devices: [{{name: {written}, containerEdits: {{env: [A=1]}}}}]\n"
    ).encode()
    for suffix in ("yaml", "json"):
        assert cdi_specs.resolve({f"/run/cdi/x.{suffix}": content}, [f"v.x/y={name}"]).env == (
            "A=1",
        )


@pytest.mark.parametrize(
    "path", ["/run/cdi/x.txt", "/etc/cdi/x.json", "/run/cdi/deeper/x.json", "/run/x.json"]
)
def test_only_yaml_and_json_of_the_one_directory_count(path: str) -> None:
    with pytest.raises(Unresolvable):
        cdi_specs.resolve({path: json.dumps(spec()).encode()}, ["vendor.com/class=a"])


def test_a_device_that_two_files_define_is_nobodys() -> None:
    with pytest.raises(Unresolvable):
        cdi_specs.resolve(files(spec(), spec()), ["vendor.com/class=a"])
    other = spec(kind="vendor.com/other")
    assert cdi_specs.resolve(files(spec(), other), ["vendor.com/class=a"])


def test_every_name_that_is_missing_is_said() -> None:
    with pytest.raises(Unresolvable, match=r"devices v\.x/y=1, v\.x/y=2$"):
        cdi_specs.resolve(files(spec()), ["v.x/y=1", "vendor.com/class=a", "v.x/y=2"])


def test_a_spec_of_the_host_names_each_card_by_index_uuid_and_all() -> None:
    content = cdi_gen.text(CARDS, HOST)
    loaded = yaml.safe_load(content)
    assert [one["name"] for one in loaded["devices"]] == ["0", UUIDS[0], "1", UUIDS[1], "all"]
    assert content.startswith(b"---\ncdiVersion: 0.5.0\ncontainerEdits:\n")
    found = {
        name: cdi_specs.resolve({cdi_gen.SPEC: content}, [f"nvidia.com/gpu={name}"])
        for name in ("1", UUIDS[1], "all")
    }
    assert found["1"] == found[UUIDS[1]]
    assert set(found["1"].nodes) == {"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}
    assert {"/dev/nvidia0", "/dev/nvidia1"} <= set(found["all"].nodes)
    assert Mount("/usr/local/bin/nvidia-smi", "/usr/bin/nvidia-smi") in found["1"].mounts
    assert found["1"].env == ("NVIDIA_VISIBLE_DEVICES=void",)


def test_a_spec_without_cards_resolves_nothing() -> None:
    with pytest.raises(Unresolvable):
        cdi_specs.resolve({cdi_gen.SPEC: cdi_gen.text((), HOST)}, ["nvidia.com/gpu=all"])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "devices", "containerEdits", "env", "path", "mounts"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(["cdiVersion", "kind", "devices", "containerEdits"]), _VALUES)
)
def test_no_document_breaks_the_reader(document: dict[str, Any]) -> None:
    cdi_specs.parse("/run/cdi/x.json", json.dumps({**spec(), **document}).encode())


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["json", "yaml"]))
def test_no_bytes_break_the_reader(content: bytes, suffix: str) -> None:
    cdi_specs.parse(f"/run/cdi/x.{suffix}", content)


@settings(deadline=None)
@given(st.integers(0, 400), st.sampled_from(["json", "yaml"]))
def test_a_file_that_was_cut_is_the_whole_one_or_none(length: int, suffix: str) -> None:
    whole = json.dumps(spec()).encode() if suffix == "json" else yaml.safe_dump(spec()).encode()
    found = cdi_specs.parse(f"/run/cdi/x.{suffix}", whole[:length])
    if found is not None and suffix == "json":
        assert length >= len(whole)
