"""A machine configuration is read at exact paths."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.world.machineconfig import MachineConfigError, ModuleSpec, parse


def test_modules_in_their_written_order_with_parameters() -> None:
    text = (
        "machine:\n  kernel:\n    modules:\n    - name: nvidia\n      parameters:\n"
        "      - NVreg_RegistryDwords=a;b\n    - name: nvidia_uvm\n"
    )
    assert parse(text).kernel_modules == (
        ModuleSpec("nvidia", ("NVreg_RegistryDwords=a;b",)),
        ModuleSpec("nvidia_uvm"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "machine:\n  kernel:\n  modules:\n  - name: nvidia\n",
        "machine:\n  type: worker\nkernel:\n  modules:\n  - name: nvidia\n",
        "machine:\n  kernel:\n    modules: []\n",
        "machine:\n  kernel:\n    modules:\n",
    ],
)
def test_one_level_out_or_empty_means_no_module(text: str) -> None:
    assert parse(text).kernel_modules == ()


def test_the_document_with_the_machine_is_found_among_others() -> None:
    text = "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\n---\nmachine:\n  type: worker\n"
    assert parse(text).node_labels == {}


def test_scalars_stay_text() -> None:
    parsed = parse("machine:\n  nodeLabels: {gpu: on, zone: 0010}\n  install: {image: a/b:v1}\n")
    assert parsed.node_labels == {"gpu": "on", "zone": "0010"}
    assert parsed.install_image == "a/b:v1"


@pytest.mark.parametrize(
    "text",
    [
        "machine: {kernel: {modules: {name: nvidia}}}",
        "machine: {kernel: {modules: [nvidia]}}",
        "machine: {kernel: {modules: [{parameters: [a]}]}}",
        "machine: {kernel: {modules: [{name: a, parameters: b}]}}",
        "machine: {nodeLabels: {a: [b]}}",
        "machine: {install: {image: [b]}}",
        "\tmachine: x",
    ],
)
def test_what_cannot_be_read_is_said(text: str) -> None:
    with pytest.raises(MachineConfigError):
        parse(text)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse(text)
    except MachineConfigError as error:
        assert str(error)


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5), st.lists, max_leaves=5))
def test_no_value_at_the_path_breaks_the_reader(value: object) -> None:
    text = yaml.safe_dump({"machine": {"kernel": {"modules": value}, "nodeLabels": value}})
    try:
        parse(text)
    except MachineConfigError as error:
        assert str(error)
