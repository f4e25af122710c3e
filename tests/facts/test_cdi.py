from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.cdi import LONGEST, PLUGIN_SPEC, SPEC, CdiAbsent, CdiSpec, read_spec
from harness.facts.fact import Unread
from harness.facts.reply import Output

A = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
B = "GPU-99af1802-3de2-4104-81ad-f2f48ce2567d"
# as nvidia-ctk writes it: keys in alphabetical order, one device by index, UUID and "all"
WRITTEN = f"""---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  mounts:
  - containerPath: /usr/bin/nvidia-smi
    hostPath: /usr/local/bin/nvidia-smi
    options:
    - ro
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: {A}
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
"""


def read(
    stdout: str, exit_code: int | None = 0, stderr: str = "", path: str = SPEC
) -> CdiSpec | CdiAbsent | Unread:
    output = Output(("cat", path), exit_code, stdout, stderr)
    return read_spec(output, path, at=1.0, source=f"guest w1:{path}")


def spec(text: str) -> CdiSpec:
    found = read(text)
    assert isinstance(found, CdiSpec), found
    return found


def test_what_the_service_writes() -> None:
    found = spec(WRITTEN)
    assert (found.path, found.version, found.device_kind) == (SPEC, "0.5.0", "nvidia.com/gpu")
    assert found.devices == ("0", A, "all")
    assert (found.gpus, found.nodes) == (1, ("/dev/nvidia0",))


def test_what_the_plugin_writes() -> None:
    kind = "k8s.device-plugin.nvidia.com/gpu"
    text = json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": A}, {"name": B}]})
    found = read(text, path=PLUGIN_SPEC)
    assert isinstance(found, CdiSpec)
    assert (found.device_kind, found.devices, found.gpus) == (kind, (A, B), 2)


@pytest.mark.parametrize(
    ("names", "gpus"),
    [
        (["0", "1", A, B, "all"], 2),
        (["0", "1", "all"], 2),
        ([A, B], 2),
        (["gpu0", "gpu1", "gpu2"], 3),
        (["0", A, B], 2),
        (["all"], 0),
        (["0:0", A.replace("GPU", "MIG")], 0),
        ([], 0),
    ],
)
def test_how_many_cards_the_names_tell_apart(names: list[str], gpus: int) -> None:
    devices = [{"name": name} for name in names]
    text = json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices})
    assert spec(text).gpus == gpus


def test_numbers_are_names_too() -> None:
    assert spec("cdiVersion: 1.0\nkind: a/b\ndevices: [{name: 0}]\n").devices == ("0",)


def test_what_a_terminal_added_is_let_pass() -> None:
    assert spec("\ufeff" + WRITTEN.replace("\n", "\r\n")).devices == spec(WRITTEN).devices


@pytest.mark.parametrize(
    "said",
    [
        f"cat: {SPEC}: No such file or directory\n",
        f"cat: can't open '{SPEC}': No such file or directory\n",
    ],
)
def test_no_such_file_is_an_absence(said: str) -> None:
    found = read("", 1, said)
    assert isinstance(found, CdiAbsent)
    assert (found.path, found.said) == (SPEC, said.strip())


@pytest.mark.parametrize(
    ("stdout", "exit_code", "quoted"),
    [
        ("", 0, "no cdiVersion and kind"),
        ("just text", 0, "no cdiVersion and kind"),
        (WRITTEN.replace("kind: nvidia.com/gpu\n", ""), 0, "no cdiVersion and kind"),
        (WRITTEN.replace("cdiVersion: 0.5.0\n", ""), 0, "no cdiVersion and kind"),
        (WRITTEN.replace("nvidia.com/gpu", "gpu"), 0, "no cdiVersion and kind"),
        (WRITTEN.replace("  name: all\n", ""), 0, "not each named once"),
        (WRITTEN.replace("name: all", f"name: {A}"), 0, "not each named once"),
        (WRITTEN + "}", 0, "neither YAML nor JSON"),
        (WRITTEN + "---\n" + WRITTEN, 0, "neither YAML nor JSON"),
        ("[" * 100_000, 0, "neither YAML nor JSON"),
        ("a" * (LONGEST + 1), 0, "too many to be one"),
        (WRITTEN, None, "no exit status"),
        (WRITTEN, 1, "ended with 1"),
    ],
)
def test_what_is_no_spec(stdout: str, exit_code: int | None, quoted: str) -> None:
    found = read(stdout, exit_code)
    assert isinstance(found, Unread)
    assert quoted in found.reason


def test_aliases_that_would_expand_into_gigabytes_are_read_for_what_they_are() -> None:
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 9))
    text = f"l0: &l0 [x]\n{layers}\ncdiVersion: '1'\nkind: a/b\ndevices: *l8\n"
    assert isinstance(read(text), Unread)


@given(st.text(), st.sampled_from([0, 1, None]), st.text())
def test_any_text_is_a_spec_absent_or_unread(
    stdout: str, exit_code: int | None, stderr: str
) -> None:
    assert isinstance(read(stdout, exit_code, stderr), CdiSpec | CdiAbsent | Unread)


@given(st.integers(0, len(WRITTEN)), st.text(max_size=4))
def test_a_cut_or_disturbed_file_never_has_more_cards(at: int, noise: str) -> None:
    found = read(WRITTEN[:at] + noise + WRITTEN[at:])
    if isinstance(found, CdiSpec):
        assert found.gpus <= 2
    cut = read(WRITTEN[:at])
    assert isinstance(cut, Unread) or cut.gpus == 1


FILES = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      hostPath: /dev/zero
    - path: /dev/nvidia-uvm
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  mounts:
  - hostPath: /usr/local/bin/nvidia-smi
    containerPath: /usr/bin/nvidia-smi
  - containerPath: /nothing
"""


def test_what_has_to_be_on_the_machine() -> None:
    found = spec(FILES)
    assert found.sources == (
        "/dev/nvidiactl",
        "/usr/local/bin/nvidia-smi",
        "/dev/zero",
        "/dev/nvidia-uvm",
    )
    assert found.flaw == ""


EMPTY = 'cdiVersion: 0.5.0\nkind: a/b\ndevices: [{name: "0", containerEdits: {env: []}}]\n'


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        (FILES, ""),
        (FILES + "extra: 1\n", "cdiVersion 0.5.0 has no key extra"),
        (FILES + "annotations: {a: b}\n", "cdiVersion 0.5.0 has no key annotations"),
        (FILES.replace("0.5.0", "0.6.0") + "annotations: {a: b}\n", ""),
        (FILES + "  additionalGids: [0]\n", "cdiVersion 0.5.0 has no key additionalGids"),
        (FILES.replace("0.5.0", "0.7.0") + "  additionalGids: [0]\n", ""),
        (FILES.replace("0.5.0", "1.0.0") + "  intelRdt: {}\n", ""),
        (FILES.replace("0.5.0", "0.6.0") + "  intelRdt: {}\n", "cdiVersion 0.6.0 has no key int"),
        (FILES.replace("  containerEdits", "  annotations: {}\n  containerEdits"), "no key annot"),
        (FILES.replace("    deviceNodes", "    intelRdt: {}\n    deviceNodes"), "no key intelRdt"),
        (FILES.replace("    deviceNodes", "    env: [A]\n    deviceNodes"), "'A' is no variable"),
        (FILES.replace("0.5.0", "new") + "annotations: {}\n", "cdiVersion new has no key annot"),
        (FILES.replace('"0"', "-0"), "'-0' is no device's name"),
        (FILES.replace('"0"', "a b"), "'a b' is no device's name"),
        (FILES + "  env: [A=1, B]\n", "'B' is no variable"),
        ("cdiVersion: 0.5.0\nkind: a/b\ndevices: []\n", "it names no device"),
        ("cdiVersion: 0.5.0\nkind: a/b\n", "it names no device"),
        ("cdiVersion: 0.5.0\nkind: a/b\ndevices: [{name: x}]\n", "its device x brings nothing"),
        (EMPTY, "its device 0 brings nothing"),
        (WRITTEN, ""),
    ],
)
def test_why_no_engine_takes_a_file_that_reads_well(text: str, flaw: str) -> None:
    found = spec(text).flaw
    assert flaw in found
    assert bool(flaw) == bool(found)
