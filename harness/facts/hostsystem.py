"""A hypervisor host's own system: KVM's parameters, time that it lacks, time that it withholds.

vgif discriminates a join that stalls on a nested AMD host (uptime_and_diagnosis.md section 6,
#3513); on bare metal it does not matter, so whether the host is a machine itself is asked as well.
Formats: proc(5); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpuacct (cpu.stat);
``module_param(vgif, int, 0444)`` of arch/x86/kvm/svm/svm.c, bool in older kernels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.fact import Fact, Unread
from harness.facts.reply import Output, no_such_file, plain, quote, unfinished

VGIF = "/sys/module/kvm_amd/parameters/vgif"
STAT = "/proc/stat"
CPUINFO = "/proc/cpuinfo"
CPU_STAT = "cpu.stat"

_FLAGS = {"1": True, "Y": True, "y": True, "0": False, "N": False, "n": False}
_COLUMNS = 10
_CPU = re.compile(r"cpu +(?P<ticks>\d{1,20}(?: +\d{1,20})*) *", re.ASCII)
_KEYED = re.compile(r"(?P<key>[a-z_]+) (?P<value>\d{1,20}) *", re.ASCII)
_NANO = 1000  # cgroup v1 tells the throttled time in nanoseconds


@dataclass(frozen=True, slots=True)
class KvmVgif(Fact):
    """Whether kvm_amd runs with virtual GIF."""

    on: bool


@dataclass(frozen=True, slots=True)
class KvmVgifAbsent(Fact):
    """The host has no such parameter: kvm_amd is not loaded, as on any processor but AMD's."""


@dataclass(frozen=True, slots=True)
class Virtual(Fact):
    """Whether the host is a machine of a hypervisor itself (the CPU flag ``hypervisor``)."""

    virtual: bool


@dataclass(frozen=True, slots=True)
class CpuTimes(Fact):
    """All processors' time since the host's boot, in ticks (1/100 s): ``steal`` is what another
    hypervisor took, ``busy`` what was worked, guests included, ``total`` all of it."""

    busy: int
    idle: int
    steal: int

    @property
    def total(self) -> int:
        """Ticks of any sort."""
        return self.busy + self.idle + self.steal

    def steal_share(self, before: CpuTimes | None = None) -> float | None:
        """Share of stolen time since an earlier look, else since the host's boot; None for none."""
        total = self.total - (before.total if before else 0)
        stolen = self.steal - (before.steal if before else 0)
        return stolen / total if total > 0 and stolen >= 0 else None


@dataclass(frozen=True, slots=True)
class CpuThrottle(Fact):
    """How often a control group has used up its processor quota.

    ``periods`` is 0 without a quota, and ``throttled`` those of them in which it had to stand
    still, for ``seconds`` in all.
    """

    periods: int
    throttled: int
    seconds: float

    @property
    def share(self) -> float:
        """Share of periods in which it stood still; 0 without a quota."""
        return self.throttled / self.periods if self.periods else 0.0


def read_vgif(output: Output, *, at: float, source: str) -> KvmVgif | KvmVgifAbsent | Unread:
    """Read the reply of ``cat /sys/module/kvm_amd/parameters/vgif``."""
    origin = output.origin(at, source)
    if output.exit_code and no_such_file(VGIF, output.stderr or output.stdout):
        return KvmVgifAbsent(origin)
    refused = unfinished(output, VGIF, origin)
    if refused is not None:
        return refused
    said = plain(output.stdout).strip()
    if said not in _FLAGS:
        return Unread(origin, VGIF, f"this is neither on nor off: {quote(output.stdout)}")
    return KvmVgif(origin, _FLAGS[said])


def read_virtual(output: Output, *, at: float, source: str) -> Virtual | Unread:
    """Read the reply of ``cat /proc/cpuinfo``: the flags of its first processor."""
    origin = output.origin(at, source)
    refused = unfinished(output, CPUINFO, origin)
    if refused is not None:
        return refused
    head, line_end, _ = plain(output.stdout).partition("\n\n")
    found = re.search(r"^flags\s*:(?P<flags>[^\n]*)$", head, re.MULTILINE)
    if found is None or not line_end:
        said = quote(output.stdout)
        return Unread(origin, CPUINFO, f"no whole first processor with its flags: {said}")
    return Virtual(origin, "hypervisor" in found["flags"].split())


def read_cpu_times(output: Output, *, at: float, source: str) -> CpuTimes | Unread:
    """Read the reply of ``cat /proc/stat``: its first line, of all processors together.

    A line that a terminal wrapped is joined; one that is cut is not read.
    """
    origin = output.origin(at, source)
    refused = unfinished(output, STAT, origin)
    if refused is not None:
        return refused
    said = plain(output.stdout)
    first, _, rest = re.sub(r"\n(?=[0-9 ])", "", said).partition("\n")
    found = _CPU.fullmatch(first)
    ticks = [int(one) for one in found["ticks"].split()] if found else []
    # a kernel of today tells ten kinds of time; the end of a text that stops there may lack digits
    if len(ticks) != _COLUMNS or not rest:
        return Unread(origin, STAT, f"no whole line of all processors' time: {quote(said)}")
    user, nice, system, idle, iowait, irq, softirq, steal, _, _ = ticks  # guests are in user, nice
    return CpuTimes(origin, user + nice + system + irq + softirq, idle + iowait, steal)


def read_throttle(output: Output, *, at: float, source: str) -> CpuThrottle | Unread:
    """Read the reply of ``cat .../cpu.stat`` of a control group, of either version.

    Without the three figures nothing is known: a group whose controller is off does not tell them.
    """
    origin = output.origin(at, source)
    refused = unfinished(output, CPU_STAT, origin)
    if refused is not None:
        return refused
    lines = plain(output.stdout).split("\n")[:-1]  # what has no line end may be cut
    read = [one for one in map(_KEYED.fullmatch, lines) if one is not None]
    told = {one["key"]: int(one["value"]) for one in read}
    micro = told.get("throttled_usec", told.get("throttled_time", 0) // _NANO)
    known = {"throttled_usec", "throttled_time"} & told.keys()
    if not {"nr_periods", "nr_throttled"} <= told.keys() or not known:
        why = f"it does not tell of periods in which it stood still: {quote(output.stdout)}"
        return Unread(origin, CPU_STAT, why)
    if told["nr_throttled"] > told["nr_periods"]:
        return Unread(origin, CPU_STAT, f"more throttled than there were: {quote(output.stdout)}")
    return CpuThrottle(origin, told["nr_periods"], told["nr_throttled"], micro / 1e6)
