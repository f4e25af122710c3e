from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.machineconfig import (
    DeclaredModule,
    InstallImage,
    NodeLabels,
    RenderedModules,
    install_image,
    node_labels,
    rendered_modules,
)

SCHEMATIC = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
CONFIG = f"""\
version: v1alpha1
machine:
  type: worker
  install:
    disk: /dev/vda
    image: factory.talos.dev/installer/{SCHEMATIC}:v1.13.6
  nodeLabels:
    gpu: "on"
  kernel:
    modules:
      - name: nvidia
        parameters:
          - NVreg_NvLinkDisable=1
      - name: nvidia_uvm
      - name: nvidia_drm
      - name: nvidia_modeset
cluster:
  controlPlane:
    endpoint: https://kubernetes-lab.tenant-test.svc:6443
"""


def read(text: str) -> RenderedModules | Unread:
    return rendered_modules(text, at=1.0, source="management TalosConfigTemplate ns/t")


def modules(text: str) -> RenderedModules:
    found = read(text)
    assert isinstance(found, RenderedModules), found
    return found


def image(text: str) -> InstallImage | Unread:
    return install_image(text, at=1.0, source="management TalosConfigTemplate ns/t")


def test_the_list_at_its_exact_path() -> None:
    found = modules(CONFIG)
    assert found.present_block
    assert found.modules == (
        DeclaredModule("nvidia", ("NVreg_NvLinkDisable=1",)),
        DeclaredModule("nvidia_uvm"),
        DeclaredModule("nvidia_drm"),
        DeclaredModule("nvidia_modeset"),
    )
    assert found.names == ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
    assert found.misplaced == ()
    assert found.origin.raw == CONFIG


@pytest.mark.parametrize(
    ("text", "block", "names", "misplaced"),
    [
        ("machine: {type: worker}", False, (), ()),
        ("machine: {kernel: {}}", True, (), ()),
        ("machine:\n  kernel:\n  type: worker", True, (), ()),
        ("machine: {kernel: {modules: []}}", True, (), ()),
        ("machine: {kernel: {modules: [{name: a}]}}", True, ("a",), ()),
        ("machine:\n  kernel:\n  modules:\n  - name: a", True, (), ("machine.modules",)),
        ("machine: {type: worker}\nmodules: [{name: a}]", False, (), ("modules",)),
        ("machine: {type: w}\nkernel: {modules: [{name: a}]}", False, (), ("kernel.modules",)),
        (
            "machine: {type: w, files: [{modules: [a]}]}",
            False,
            (),
            ("machine.files[0].modules",),
        ),
        ("machine: {type: w}\n---\nkind: X\nmodules: [a]", False, (), ("modules",)),
        ("kind: X\nname: y\n---\nmachine: {kernel: {modules: [{name: a}]}}", True, ("a",), ()),
        ("machine: {a: &a {modules: [b]}, c: *a}", False, (), ("machine.a.modules",)),
    ],
)
def test_where_a_list_stands(
    text: str, block: object, names: tuple[str, ...], misplaced: tuple[str, ...]
) -> None:
    found = modules(text)
    assert (found.present_block, found.names, found.misplaced) == (block, names, misplaced)


def test_values_stay_the_text_they_are() -> None:
    text = "machine: {kernel: {modules: [{name: on, parameters: [0x10, yes, 'a;b=1']}]}}"
    assert modules(text).modules == (DeclaredModule("on", ("0x10", "yes", "a;b=1")),)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "0 of 0 documents"),
        ("cluster: {}", "0 of 1 documents"),
        ("just text", "0 of 1 documents"),
        ("machine: {a: b}\n---\nmachine: {a: b}", "2 of 2 documents"),
        ("machine:", "the machine section is empty"),
        ("machine: [a]", "machine is no mapping"),
        ("machine: {kernel: [a]}", "kernel is no mapping"),
        ("machine: {kernel: {modules: nvidia}}", "is no list: \"'nvidia'\""),
        ("machine: {kernel: {modules: [nvidia]}}", "declares no module: \"'nvidia'\""),
        ("machine: {kernel: {modules: [{parameters: [a]}]}}", "declares no module"),
        ("machine: {kernel: {modules: [{name: a, parameters: b}]}}", "declares no module"),
        ("machine: {kernel: {modules: [{name: a, parameters: [{b: c}]}]}}", "is no text"),
        ("machine: {kernel: {modules: [{name: a}]}, kernel: {}}", "a key stands twice"),
        ("machine: {kernel: ", "not YAML"),
        ('machine: "\\UFFFFFFFF"', "not YAML"),
        ("machine: &m {kernel: {modules: [{name: a, self: *m}]}}", "recursive"),
        ("[" * 2000, "nested too deep"),
    ],
)
def test_what_is_no_configuration_is_quoted(text: str, quoted: str) -> None:
    found = read(text)
    assert isinstance(found, Unread)
    assert quoted in found.reason


def test_the_installer() -> None:
    found = image(CONFIG)
    assert isinstance(found, InstallImage)
    assert (found.repository, found.schematic, found.version) == (
        "factory.talos.dev/installer",
        SCHEMATIC,
        "v1.13.6",
    )


@pytest.mark.parametrize(
    ("written", "repository"),
    [("reg.local:5000/i/abc:v1.0.0", "reg.local:5000/i"), ("r/abc:v1.0.0@sha256:12", "r")],
)
def test_an_installer_of_another_registry(written: str, repository: str) -> None:
    found = image(f"machine: {{install: {{image: '{written}'}}}}")
    assert isinstance(found, InstallImage)
    assert (found.repository, found.schematic, found.version) == (repository, "abc", "v1.0.0")


@pytest.mark.parametrize(
    "text",
    [
        "machine: {type: worker}",
        "machine: {install: {image: abc:v1}}",
        "machine: {install: {image: r/abc}}",
        "machine: {install: {image: [r]}}",
        "machine: {install: x}",
        "nothing",
    ],
)
def test_no_installer(text: str) -> None:
    assert isinstance(image(text), Unread)


names = st.from_regex(r"[a-z0-9_-]{1,12}", fullmatch=True)
parameters = st.from_regex(r"[!#%&(-\[\]-_a-~]{1,12}", fullmatch=True)
declared = st.builds(DeclaredModule, names, st.lists(parameters, max_size=3).map(tuple))


@given(st.lists(declared, max_size=5))
def test_what_is_rendered_is_read_back(written: list[DeclaredModule]) -> None:
    entries = [{"name": one.name, "parameters": list(one.parameters)} for one in written]
    config: dict[str, Any] = {"machine": {"kernel": {"modules": entries}}}
    assert modules(yaml.safe_dump(config)).modules == tuple(written)


yamlish = st.text(alphabet="machine: kernlodus-\n {}[]&*!|>'\"#,a\t?%\\U0")


@given(st.text() | yamlish | yamlish.map(lambda text: f"machine:\n  kernel: {text}\n"))
def test_any_text_is_read_or_unread(text: str) -> None:
    for found in (read(text), image(text)):
        assert found.origin.raw == text
        assert not isinstance(found, Unread) or found.reason


@pytest.mark.parametrize("nothing", ["", " null", " ~", " {}"])
def test_a_kernel_section_without_a_value_declares_nothing(nothing: str) -> None:
    text = f"machine:\n  kernel:{nothing}\n  modules:\n  - name: nvidia\n  install: {{}}\n"
    found = rendered_modules(text, at=0.0, source="x")
    assert isinstance(found, RenderedModules)
    assert (found.present_block, found.modules) == (True, ())
    assert found.misplaced == ("machine.modules",)


@pytest.mark.parametrize(
    ("entries", "extra"),
    [
        ("[{name: a, parameters: [b=1]}]", ()),
        ("[{name: a, x: 1, y: 2}, {name: b, x: 3}]", ("x", "y")),
        ("[]", ()),
        ("~", ()),
    ],
)
def test_keys_that_no_entry_should_have(entries: str, extra: tuple[str, ...]) -> None:
    assert modules(f"machine: {{kernel: {{modules: {entries}}}}}").extra_keys == extra


def labels(text: str) -> NodeLabels | Unread:
    return node_labels(text, at=1.0, source="management TalosConfigTemplate ns/t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CONFIG, {"gpu": "on"}),
        ("machine: {type: worker}", {}),
        ("machine: {nodeLabels: ~, type: worker}", {}),
        ("machine: {nodeLabels: {a: 'true', b: on}}", {"a": "true", "b": "on"}),
    ],
)
def test_the_labels_of_the_node(text: str, expected: dict[str, str]) -> None:
    found = labels(text)
    assert isinstance(found, NodeLabels)
    assert found.labels == expected


@pytest.mark.parametrize(
    "text", ["", "machine: []", "machine: {nodeLabels: [gpu]}", "machine: {nodeLabels: {a: [b]}}"]
)
def test_labels_that_cannot_be_read(text: str) -> None:
    assert isinstance(labels(text), Unread)


@given(st.text())
def test_any_text_has_labels_or_is_unread(text: str) -> None:
    assert isinstance(labels(text), NodeLabels | Unread)
