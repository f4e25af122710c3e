"""A worker's machine from power-on to power-off, on virtual time."""

from __future__ import annotations

import random
import re
import uuid
from dataclasses import dataclass, field

import pytest

from harness.twin.engine import EPOCH, Engine
from harness.twin.world.guest import Guest
from harness.twin.world.images import (
    NVIDIA_NONFREE,
    NVIDIA_OPEN,
    NVIDIA_OPEN_GDR,
    VANILLA,
    ImageFactory,
    schematic_id,
    schematic_text,
)
from harness.twin.world.nvidia import Card, gb202, l40s

UUID = "GPU-6b1f0c52-1111-4222-8333-000000000001"
L40S = l40s("0000:06:00.0", UUID)
GB202 = gb202("0000:06:00.0", UUID)
NVIDIA_MODULES = """
    modules:
      - name: nvidia
        parameters:
          - NVreg_NvLinkDisable=1
      - name: nvidia_uvm
      - name: nvidia_drm
      - name: nvidia_modeset
"""
SMI = ["chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"]


def config(modules: str = NVIDIA_MODULES) -> str:
    kernel = f"  kernel:{modules}" if modules else ""
    return f"""version: v1alpha1
machine:
  type: worker
  install:
    disk: /dev/vda
    image: factory.talos.dev/installer/{NVIDIA_OPEN}:v1.13.6
  nodeLabels:
    gpu: "on"
{kernel}
cluster: {{}}
"""


@dataclass
class Lab:
    """One guest and what it told its world."""

    guest: Guest
    engine: Engine
    kubelets: list[tuple[float, str]] = field(default_factory=list)  # (uptime, boot id)
    reboots: list[float] = field(default_factory=list)  # uptime of the system that went down
    started: float = 0.0

    def run(self, seconds: float) -> None:
        self.engine.run_until(self.engine.now + seconds)

    def on(self, seconds: float = 120) -> Lab:
        self.guest.power_on(
            lambda: self.kubelets.append((self.guest.uptime, self.guest.boot_id)),
            lambda: self.reboots.append(self.guest.kernel.uptime),
        )
        self.run(seconds)
        return self

    def cat(self, path: str) -> str:
        return self.guest.run(["cat", path]).stdout.decode()


def lab(
    schematic: str = NVIDIA_OPEN,
    *,
    cards: tuple[Card, ...] = (L40S,),
    text: str | None = None,
    seed: int = 7,
    factory: ImageFactory | None = None,
    kind: str = "openstack",
) -> Lab:
    engine = Engine()
    guest = Guest(
        hostname="kubernetes-lab-gpu-x7k2p",
        machine_config=config() if text is None else text,
        image=(factory or ImageFactory()).image(schematic, "v1.13.6"),
        cards=cards,
        engine=engine,
        rng=random.Random(seed),
        kind=kind,
    )
    return Lab(guest, engine)


def test_ids_are_the_hash_of_the_schematic() -> None:
    # the id that Cozystack's charts carry as their default
    assert VANILLA == "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
    # the id of an empty schematic, well known in the field
    empty = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
    assert schematic_id(()) == empty
    assert schematic_text(()) == "customization: {}\n"
    assert len({VANILLA, NVIDIA_OPEN, NVIDIA_NONFREE, NVIDIA_OPEN_GDR}) == 4


def test_installs_once_reboots_once_and_then_the_kubelet_comes_up() -> None:
    world = lab().on(20)
    assert (world.kubelets, world.reboots, world.guest.stage) == ([], [], "installing")
    first = world.guest.boot_id
    world.run(130)
    assert len(world.reboots) == 1 and 20 < world.reboots[0] < 40
    assert len(world.kubelets) == 1 and world.kubelets[0][0] < 60
    assert world.guest.boot_id == world.kubelets[0][1] != first
    assert (world.guest.stage, world.guest.boot_outcome) == ("running", "done")
    world.run(30 * 3600)
    assert (len(world.reboots), len(world.kubelets)) == (1, 1)


def test_identity() -> None:
    guest = lab().on().guest
    assert (guest.kernel_version, guest.os_image) == ("6.18.34-talos", "Talos (v1.13.6)")
    assert guest.node_labels == {"gpu": "on"}
    assert str(uuid.UUID(guest.boot_id)) == guest.boot_id
    assert guest.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.decode() == (
        f"{guest.boot_id}\n"
    )


def test_the_same_seed_gives_the_same_machine() -> None:
    one, two, other = lab().on(9000), lab().on(9000), lab(seed=8).on(9000)
    assert one.guest.console() == two.guest.console()
    assert one.guest.kernel_log() == two.guest.kernel_log()
    assert (one.kubelets, one.guest.boot_id) == (two.kubelets, two.guest.boot_id)
    assert one.guest.boot_id != other.guest.boot_id


def test_a_gpu_worker_sees_its_card() -> None:
    world = lab().on()
    result = world.guest.run(SMI)
    assert (result.exit_code, result.stdout.decode()) == (0, f"GPU 0: NVIDIA L40S (UUID: {UUID})\n")
    assert "\nNvLinkDisable: 1\n" in world.cat("/proc/driver/nvidia/params")
    assert world.cat("/sys/bus/pci/devices/0000:06:00.0/vendor") == "0x10de\n"
    assert world.cat("/sys/bus/pci/devices/0000:06:00.0/device") == "0x26b9\n"
    assert "kind: nvidia.com/gpu" in world.cat("/host/run/cdi/nvidia.yaml")
    assert UUID in world.cat("/proc/driver/nvidia/gpus/0000:06:00.0/information")


def test_registry_parameters_never_reach_sysfs() -> None:
    guest = lab().on().guest
    assert guest.run(["ls", "/sys/module/nvidia/parameters"]).stdout == b""
    assert guest.run(["ls", "/sys/module/nvidia_drm/parameters"]).stdout == b"fbdev\nmodeset\n"


def test_opting_out_leaves_the_card_unbound_and_the_node_looking_well() -> None:
    world = lab(VANILLA, text=config("")).on()
    assert "nvidia" not in world.cat("/proc/modules")
    assert world.cat("/sys/bus/pci/devices/0000:06:00.0/vendor") == "0x10de\n"
    assert world.guest.run(["readlink", "/sys/bus/pci/devices/0000:06:00.0/driver"]).exit_code == 1
    assert world.guest.boot_outcome == "done"
    missing = world.guest.run(SMI)
    assert missing.exit_code == 127
    assert b"can't execute '/usr/local/bin/nvidia-smi': No such file" in missing.stderr


def test_a_proprietary_module_on_gb202_is_live_and_drives_nothing_without_a_word() -> None:
    world = lab(NVIDIA_NONFREE, cards=(GB202,)).on()
    assert world.cat("/proc/modules").count("Live") > 4
    assert re.search(r"^nvidia \d+ .* Live ", world.cat("/proc/modules"), re.MULTILINE)
    assert world.guest.run(["ls", "/dev/nvidia0"]).exit_code == 0
    assert world.guest.run(SMI).stdout == b"No devices found\n"
    assert world.guest.run(["ls", "/proc/driver/nvidia/gpus"]).stdout == b""
    log = world.guest.kernel_log().decode().lower()
    assert not [line for line in log.splitlines() if "fail" in line or "error" in line]
    good = lab(NVIDIA_OPEN, cards=(GB202,)).on()
    assert b"RTX PRO 6000 Blackwell" in good.guest.run(SMI).stdout


def test_gdrdrv_declared_beside_the_four_loses_the_nvlink_parameter() -> None:
    text = config(NVIDIA_MODULES + "      - name: gdrdrv\n")
    world = lab(NVIDIA_OPEN_GDR, text=text).on()
    assert "\nNvLinkDisable: 0\n" in world.cat("/proc/driver/nvidia/params")
    assert b"GPU 0" in world.guest.run(SMI).stdout


def test_a_late_card_with_a_build_that_lacks_an_edge_inverts_the_order() -> None:
    factory = ImageFactory()
    factory.without_edge(NVIDIA_OPEN, "nvidia_uvm", "nvidia")
    world = lab(factory=factory)
    world.guest.hold_card_until(30)
    world.on(300)
    rows = [x.split()[0] for x in world.cat("/proc/modules").splitlines() if x[:6] == "nvidia"]
    assert rows.index("nvidia") < rows.index("nvidia_uvm")  # newest first
    assert b"GPU 0" in world.guest.run(SMI).stdout
    assert world.guest.boot_outcome == "done"


def test_a_late_card_with_the_edge_in_place_keeps_the_order() -> None:
    world = lab()
    world.guest.hold_card_until(30)
    world.on(300)
    rows = [x.split()[0] for x in world.cat("/proc/modules").splitlines() if x[:6] == "nvidia"]
    assert rows == ["nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"]


def test_an_nvidia_image_without_a_card_reboots_at_the_boot_timeout_for_ever() -> None:
    world = lab(cards=(), text=config("")).on(3 * 4300)
    cycles = world.reboots[1:]
    assert len(cycles) >= 2
    # the task's limit runs from where it starts, and the countdown comes on top
    assert all(4204 < uptime - 11 < 4210 for uptime in cycles)
    assert len({boot_id for _, boot_id in world.kubelets}) == len(world.kubelets) >= 3
    assert all(uptime < 60 for uptime, _ in world.kubelets)  # Ready long before the failure
    console = world.guest.console().decode()
    assert console.count("boot sequence: failed") == len(cycles)
    counted = re.findall(r"rebooting in (\d+) seconds", console)
    assert counted == [*map(str, range(10, -1, -1))] * len(cycles)
    failed = re.findall(r"\[ *([\d.]+)\] \[talos\] boot sequence: failed", console)
    assert all(abs(float(at) - 4206) < 3 for at in failed)
    assert 'service "ext-nvidia-persistenced" to be "up"' in console
    assert console.count("Linux version") == len(world.reboots) + 1


def test_the_console_is_silent_while_the_ring_buffer_names_what_is_missing() -> None:
    world = lab(cards=(), text=config("")).on(200)
    before = world.guest.console()
    world.run(3000)
    assert world.guest.console() == before
    waits = world.guest.kernel_log().decode().count('service "ext-nvidia-cdi-gen" to be "up"')
    assert waits > 150
    assert world.guest.services.state("ext-nvidia-persistenced") == "Waiting"
    assert (
        "/sys/bus/pci/drivers/nvidia"
        in {s.spec.id: s.event for s in world.guest.services.table()}["ext-nvidia-persistenced"]
    )


def test_a_gpu_pool_that_opted_out_on_an_nvidia_image_reboots_too() -> None:
    world = lab(text=config("    modules: []\n".replace("    ", "\n    ", 1))).on(4500)
    assert len(world.reboots) == 2


def test_a_held_service_runs_into_the_timer_and_a_released_one_does_not() -> None:
    held = lab()
    held.guest.services.hold("apid", "")
    held.on(4500)
    assert len(held.reboots) == 2
    log = held.guest.kernel_log().decode()
    assert "Waiting for api certificates" in log
    freed = lab()
    freed.guest.services.hold("apid", "")
    freed.on(600)
    assert freed.guest.boot_outcome == "waiting"
    freed.guest.services.release("apid")
    freed.run(60)
    assert freed.guest.boot_outcome == "done"
    freed.run(9000)
    assert len(freed.reboots) == 1


def test_a_kubelet_that_never_comes_up_is_never_announced() -> None:
    world = lab()
    world.guest.services.hold("kubelet", "its image")
    world.on(4500)
    assert world.kubelets == []
    assert len(world.reboots) == 2


def test_panic_zero_sleeps_instead_of_rebooting() -> None:
    world = lab(cards=(), text=config(""))
    world.guest.kernel.command_line += " panic=0"
    world.on(9000)
    assert len(world.reboots) == 1
    assert b"sleeping forever" in world.guest.console()


def test_loading_by_hand_lets_the_waiting_services_start() -> None:
    world = lab(text=config("")).on(600)
    assert world.guest.boot_outcome == "waiting"
    world.guest.kernel.load("nvidia_drm")
    world.run(30)
    assert world.guest.boot_outcome == "done"
    assert "\nNvLinkDisable: 0\n" in world.cat("/proc/driver/nvidia/params")


@pytest.mark.parametrize(
    "text", ["", "machine: [", "machine: text", "a: b", "machine:\n  kernel: 3"]
)
def test_a_configuration_that_cannot_be_read_leaves_maintenance_mode(text: str) -> None:
    world = lab(text=text).on(9000)
    assert (world.guest.stage, world.kubelets, world.reboots) == ("maintenance", [], [])
    assert b"failed to load machine configuration" in world.guest.console()
    assert world.guest.node_labels == {}


def test_a_nocloud_image_is_silent_about_the_configuration_it_does_not_read() -> None:
    world = lab(kind="nocloud").on(9000)
    assert (world.guest.stage, world.kubelets, world.reboots) == ("maintenance", [], [])
    console = world.guest.console()
    assert b"maintenance" in console and b"failed" not in console
    assert b"talos.platform=nocloud" in console


def test_power_off_stops_everything_and_the_disk_keeps_the_installation() -> None:
    world = lab(cards=(), text=config("")).on(200)
    world.guest.power_off()
    assert not world.guest.running
    assert world.guest.run(["cat", "/proc/uptime"]).error
    world.run(9000)
    assert world.engine.pending() == []
    assert len(world.reboots) == 1
    world.on(60)
    assert len(world.kubelets) == 2 and len(world.reboots) == 1


def test_powering_on_twice_is_a_mistake() -> None:
    world = lab().on(1)
    with pytest.raises(ValueError, match="already powered on"):
        world.on(1)


def test_a_reboot_clears_what_was_written_below_run() -> None:
    world = lab().on()
    world.guest.tmpfs["/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"] = b"{}"
    assert world.cat("/host/run/cdi/k8s.device-plugin.nvidia.com-gpu.json") == "{}"
    world.guest.reboot()
    world.run(10)
    listed = world.guest.run(["ls", "/host/run/cdi"]).stdout.decode()
    assert "device-plugin" not in listed


def test_uptime_grows_with_time() -> None:
    world = lab().on()
    before = float(world.cat("/proc/uptime").split()[0])
    world.run(100)
    assert float(world.cat("/proc/uptime").split()[0]) == pytest.approx(before + 100, abs=0.02)
    assert world.engine.now == EPOCH + 220


def test_the_console_can_be_followed_and_left() -> None:
    world = lab()
    pieces: list[bytes] = []
    leave = world.guest.follow_console(pieces.append)
    world.on(120)
    assert b"".join(pieces) == world.guest.console()
    assert all(piece.endswith(b"\r\n") for piece in pieces)
    leave()
    count = len(pieces)
    world.guest.reboot()
    world.run(30)
    assert len(pieces) == count


def test_persistenced_holds_the_driver_beside_its_users() -> None:
    world = lab().on()
    row = next(x for x in world.cat("/proc/modules").splitlines() if x.startswith("nvidia "))
    references, users = row.split()[2:4]
    assert int(references) > len([name for name in users.split(",") if name])


def test_power_cut_from_within_a_reboot_stays_off() -> None:
    world = lab()
    world.guest.power_on(lambda: None, world.guest.power_off)
    world.run(9000)
    assert (world.guest.stage, world.guest.running) == ("off", False)


def test_power_cut_as_the_kubelet_comes_up_stays_off() -> None:
    world = lab()
    world.guest.power_on(world.guest.power_off, lambda: None)
    world.run(9000)
    assert (world.guest.stage, world.guest.running) == ("off", False)
    assert world.guest.services.table() == ()
