"""QEMU's arguments for one guest: options measured to work, one by one (lab/qemu_drbd.md)."""

from __future__ import annotations

from harness.qemulab.spec import GuestSpec, Spec

PROGRAM = "qemu-system-x86_64"
NIC = "nic1"
"""The device on the private wire; its carrier is what the guest sees."""
WIRE = "wire"
"""The netdev behind it."""
JUMBO = 9000
"""MTU of the private wire: what replication links are run with, and a fifth of the frames."""

SSH, TALOS_API = 22, 50000
"""The port of a guest that can be reached: its sshd's, or that of Talos' API, which has no sshd."""

_MEBIBYTE = 1024 * 1024


def arguments(spec: Spec, guest: GuestSpec, port: int, monitor: int, load: str = "") -> list[str]:
    """The command. It starts with the vCPU stopped, so that carriers are set before it runs.

    ``monitor`` is an inherited file descriptor, one end of a socket pair; ``load`` a snapshot.
    Every disk is qcow2 behind virtio and the clock is the machine's own (``clock=vm``), without
    which snapshots would not hold. ``cache=unsafe`` leaves flushes to the host's page cache: they
    outlive QEMU's death, not the host's.
    """
    return [
        PROGRAM,
        *("-name", f"hil-{guest.name}", "-S"),
        *spec.accelerator,
        *("-machine", "q35", "-m", f"{spec.memory // _MEBIBYTE}M"),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-rtc", "base=utc,clock=vm"),
        *_start(spec, guest),
        *_disk("root", guest.root),
        *_disk("data", guest.data),
        *_cards(guest, port, TALOS_API if spec.foreign else SSH),
        *_console(guest),
        *("-chardev", f"socket,id=qmp,fd={monitor}", "-mon", "chardev=qmp,mode=control"),
        *(("-loadvm", load) if load else ()),
    ]


def _disk(name: str, path: object) -> tuple[str, ...]:
    drive = f"if=none,id={name},format=qcow2,cache=unsafe,file={_escaped(path)}"
    return ("-drive", drive, "-device", f"virtio-blk-pci,drive={name},id=disk-{name}")


def _start(spec: Spec, guest: GuestSpec) -> tuple[str, ...]:
    """What it boots, and on how many processors: two are the least that Talos takes."""
    if spec.foreign:
        return ("-smp", "2", "-boot", "order=c")
    append = f"{spec.append} hil.node={guest.node}"
    return (
        *("-smp", "1", "-kernel", str(spec.kernel), "-initrd", str(spec.initrd)),
        *("-append", append),
    )


def _cards(guest: GuestSpec, port: int, inside: int) -> tuple[str, ...]:
    """The way in comes through the first, which reaches nothing outside; the second is the wire."""
    outer = f"user,id=outer,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:{inside}"
    local = f"local.type=unix,local.path={_escaped(guest.guest_side)}"
    remote = f"remote.type=unix,remote.path={_escaped(guest.switch_side)}"
    card = "virtio-net-pci,romfile="
    return (
        *("-netdev", outer, "-device", f"{card},netdev=outer,id=nic0,mac={guest.outer_mac}"),
        *("-netdev", f"dgram,id={WIRE},{local},{remote}"),
        *("-device", f"{card},netdev={WIRE},id={NIC},mac={guest.mac},host_mtu={JUMBO}"),
    )


def _console(guest: GuestSpec) -> tuple[str, ...]:
    where = f"path={_escaped(guest.console)},server=on,wait=off"
    kept = f"logfile={_escaped(guest.log)},logappend=on"
    return ("-chardev", f"socket,id=con,{where},{kept}", "-serial", "chardev:con")


def _escaped(path: object) -> str:
    return str(path).replace(",", ",,")  # how QEMU's options take a comma
