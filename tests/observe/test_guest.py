from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.driver import DriverVersion
from harness.facts.fabric import FabricStates
from harness.facts.fact import Unread
from harness.facts.guest import BootId, Uptime
from harness.facts.modules import ModuleTable
from harness.facts.nvidia import NvidiaParams, ParamsAbsent, SmiCards
from harness.facts.pci import PciCards
from harness.facts.validator import DriverReady, DriverReadyAbsent
from harness.observe import guest
from harness.reach.errors import Unreachable
from harness.reach.nodeshell import NodeShell, Reply

UUID = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
BUS = "/sys/bus/pci/devices"
READY = "/host/run/nvidia/validations/driver-ready"
CDI = "/host/run/cdi/nvidia.yaml"
PLUGIN = "/host/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
SAID = {
    "cat /proc/modules": "nvidia 1 0 - Live 0x0 (OE)\n",
    "cat /proc/driver/nvidia/params": "NvLinkDisable: 1\n",
    "chroot /host /usr/local/bin/nvidia-smi -L": f"GPU 0: NVIDIA L40S (UUID: {UUID})\n",
    f"ls {BUS}": "0000:07:00.0\n0000:08:00.0\n",
    f"cat {BUS}/0000:07:00.0/vendor {BUS}/0000:07:00.0/device"
    f" {BUS}/0000:08:00.0/vendor {BUS}/0000:08:00.0/device": "0x1af4\n0x1042\n0x10de\n0x26b9\n",
    "cat /proc/sys/kernel/random/boot_id": "9c6cd353-d611-4b30-910f-c90ec5268979\n",
    "cat /proc/uptime": "83.25 300.10\n",
    "cat /proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build\n"
    ),
    "chroot /host /usr/local/bin/nvidia-smi -q": (
        "Driver Version : 595.45.04\nAttached GPUs : 1\nGPU 00000000:08:00.0\n"
        f"    GPU UUID : {UUID}\n    Fabric\n        State : N/A\n"
    ),
    f"cat {READY}": "IS_HOST_DRIVER=true\n",
    f"cat {CDI}": f"cdiVersion: 0.5.0\ndevices: [{{name: {UUID}}}]\nkind: nvidia.com/gpu\n",
    f"cat {PLUGIN}": '{"cdiVersion": "0.5.0", "kind": "a/b", "devices": []}',
}


class Shell:
    """A machine that answers as `SAID`, or as ``said`` where that names the command."""

    where = "guest w1"
    root = "/host"

    def __init__(self, **said: Reply | str) -> None:
        self._said = {**SAID, **{key.replace("_", " "): value for key, value in said.items()}}

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        command = " ".join(argv)
        said = self._said.get(command)
        if isinstance(said, Reply):
            return said
        if said is None:
            return reply(argv, 1, stderr=f"{argv[0]}: {argv[-1]}: No such file or directory\n")
        return reply(argv, 0, said)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        return self.run(["chroot", "/host", *argv], timeout=timeout)


def reply(
    argv: Sequence[str], code: int | None, stdout: str = "", stderr: str = "", problem: str = ""
) -> Reply:
    return Reply(tuple(argv), code, stdout.encode(), stderr.encode(), 40.0, 42.0, problem)


def answering(command: str, answer: Reply | None) -> Shell:
    shell = Shell()
    shell._said.pop(command)
    if answer is not None:
        shell._said[command] = answer
    return shell


def test_modules() -> None:
    found = guest.modules(Shell())
    assert isinstance(found, ModuleTable)
    assert [one.name for one in found.modules] == ["nvidia"]
    assert (found.origin.source, found.origin.at) == ("guest w1:/proc/modules", 42.0)
    assert found.origin.raw == SAID["cat /proc/modules"]


def test_parameters() -> None:
    found = guest.nvidia_params(Shell())
    assert isinstance(found, NvidiaParams)
    assert found.parameters == {"NvLinkDisable": "1"}


def test_no_parameters() -> None:
    assert isinstance(
        guest.nvidia_params(answering("cat /proc/driver/nvidia/params", None)), ParamsAbsent
    )


def test_cards_of_the_driver_come_from_the_hosts_root() -> None:
    found = guest.smi_list(Shell())
    assert isinstance(found, SmiCards)
    assert [card.uuid for card in found.cards] == [UUID]
    assert found.origin.source == "guest w1:nvidia-smi -L"


def test_cards_of_the_bus() -> None:
    found = guest.pci_cards(Shell())
    assert isinstance(found, PciCards)
    assert [(card.address, card.pci_id) for card in found.cards] == [("0000:08:00.0", "10de:26b9")]
    assert found.devices == 2


def test_a_bus_that_cannot_be_listed_is_not_asked_further() -> None:
    found = guest.pci_cards(answering(f"ls {BUS}", None))
    assert isinstance(found, Unread)
    assert "No such file" in found.reason


def test_the_boot() -> None:
    boot, up = guest.boot_id(Shell()), guest.uptime(Shell())
    assert isinstance(boot, BootId)
    assert isinstance(up, Uptime)
    assert (boot.boot_id[:8], up.seconds) == ("9c6cd353", 83.25)


def test_the_drivers_version() -> None:
    found = guest.driver_version(Shell())
    assert isinstance(found, DriverVersion)
    assert (found.release, found.flavour) == ("595.45.04", "open")
    assert found.origin.source == "guest w1:/proc/driver/nvidia/version"


def test_the_fabric_is_told_by_the_hosts_own_program() -> None:
    found = guest.fabric_states(Shell())
    assert isinstance(found, FabricStates)
    assert [one.state for one in found.cards] == ["N/A"]
    assert found.origin.source == "guest w1:nvidia-smi -q"


def test_files_of_the_host_are_named_as_the_host_does() -> None:
    ready, spec, plugin = (
        guest.driver_ready(Shell()),
        guest.cdi_spec(Shell()),
        guest.plugin_cdi_spec(Shell()),
    )
    assert isinstance(ready, DriverReady)
    assert ready.origin.source == "guest w1:/run/nvidia/validations/driver-ready"
    assert isinstance(spec, CdiSpec)
    assert (spec.path, spec.gpus) == ("/run/cdi/nvidia.yaml", 1)
    assert isinstance(plugin, CdiSpec)
    assert plugin.path == "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"


def test_files_that_the_host_does_not_have() -> None:
    ready = guest.driver_ready(answering(f"cat {READY}", None))
    assert isinstance(ready, DriverReadyAbsent)
    assert "/host" not in ready.said
    spec = guest.cdi_spec(answering(f"cat {CDI}", None))
    assert isinstance(spec, CdiAbsent)
    assert spec.path == "/run/cdi/nvidia.yaml"


ASKING: list[tuple[str, Callable[[NodeShell], object]]] = [
    ("cat /proc/modules", guest.modules),
    ("cat /proc/driver/nvidia/params", guest.nvidia_params),
    ("chroot /host /usr/local/bin/nvidia-smi -L", guest.smi_list),
    (f"ls {BUS}", guest.pci_cards),
    ("cat /proc/sys/kernel/random/boot_id", guest.boot_id),
    ("cat /proc/uptime", guest.uptime),
    ("cat /proc/driver/nvidia/version", guest.driver_version),
    ("chroot /host /usr/local/bin/nvidia-smi -q", guest.fabric_states),
    (f"cat {READY}", guest.driver_ready),
    (f"cat {CDI}", guest.cdi_spec),
    (f"cat {PLUGIN}", guest.plugin_cdi_spec),
]


@pytest.mark.parametrize(("command", "ask"), ASKING, ids=[command for command, _ in ASKING])
def test_an_answer_without_an_exit_status_is_none(
    command: str, ask: Callable[[NodeShell], object]
) -> None:
    cut = reply(command.split(), None, SAID[command], problem="the connection closed")
    found = ask(answering(command, cut))
    assert isinstance(found, Unread)
    assert "the connection closed" in found.reason
    assert found.origin.raw == SAID[command]


def test_bytes_that_are_no_text_are_kept_as_escapes() -> None:
    dirty = Reply(("cat",), 0, b"nvidia\xff 1 0 - Live 0x0\n", b"", 40.0, 42.0)
    found = guest.modules(answering("cat /proc/modules", dirty))
    assert isinstance(found, Unread)
    assert "\\xff" in found.origin.raw


def test_a_machine_out_of_reach_is_no_fact() -> None:
    class Gone(Shell):
        def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
            raise Unreachable("run a command", "connection refused", "look at the node")

    with pytest.raises(Unreachable):
        guest.modules(Gone())
