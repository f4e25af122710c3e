"""Ask a hypervisor host about its own system, and return facts.

Over any shell on the host (SSH). Raises reach's LabError where it cannot be asked at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.facts import hostsystem as read
from harness.facts.fact import Unread
from harness.facts.hostsystem import CpuThrottle, CpuTimes, KvmVgif, KvmVgifAbsent, Virtual
from harness.facts.reply import no_such_file
from harness.observe.guest import read_file
from harness.reach.nodeshell import NodeShell

GROUPS = "/sys/fs/cgroup"


def vgif(shell: NodeShell) -> KvmVgif | KvmVgifAbsent | Unread:
    """Whether the host's kvm_amd runs with virtual GIF."""
    output, at, source = read_file(shell, read.VGIF)
    return read.read_vgif(output, at=at, source=source)


def virtual(shell: NodeShell) -> Virtual | Unread:
    """Whether the host is a machine itself."""
    output, at, source = read_file(shell, read.CPUINFO)
    return read.read_virtual(output, at=at, source=source)


def cpu_times(shell: NodeShell) -> CpuTimes | Unread:
    """The host's processors' time since its boot, stolen time among it."""
    output, at, source = read_file(shell, read.STAT)
    return read.read_cpu_times(output, at=at, source=source)


def pod_throttle(shell: NodeShell, uid: str, qos: str) -> CpuThrottle | Unread:
    """How often a pod on the host has used up its quota. ``qos`` is status.qosClass.

    The group is looked for where a kubelet of either cgroup driver, of either version, has it.
    """
    output, at, source = None, 0.0, ""
    for path in groups_of(uid, qos):
        output, at, source = read_file(shell, path)
        if not no_such_file(path, output.stderr or output.stdout):
            break
    assert output is not None, "there is always a place to look"
    return read.read_throttle(output, at=at, source=source)


def groups_of(uid: str, qos: str) -> Iterator[str]:
    """Where a pod's cpu.stat may be: cgroup v2 then v1; cgroupfs, then systemd
    (kubernetes pkg/kubelet/cm/cgroup_manager_linux.go, qos_container_manager_linux.go).
    """
    kind = "" if qos == "Guaranteed" else qos.lower()
    plain = "/".join(part for part in ("kubepods", kind, f"pod{uid}") if part)
    parts = [f"kubepods-{kind}.slice"] if kind else []
    slice_name = "-".join(
        part for part in ("kubepods", kind, f"pod{uid.replace('-', '_')}") if part
    )
    slices = "/".join(("kubepods.slice", *parts, f"{slice_name}.slice"))
    for version in ("", "/cpu,cpuacct", "/cpu"):
        for way in (plain, slices):
            yield f"{GROUPS}{version}/{way}/{read.CPU_STAT}"
