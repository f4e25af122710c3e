"""A hypervisor's own operating system: its processors, KVM's parameters, and time that it lacks.

Files as the kernel writes them: proc(5) for /proc/stat (ticks of 1/100 s), cgroup v2's cpu.stat,
``module_param(vgif, int, 0444)`` of arch/x86/kvm/svm/svm.c. That joining stalls where the host is a
machine itself and its kvm_amd runs without vgif: uptime_and_diagnosis.md section 6, #3513.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.twin.world.filesystem import Entry, text

CPUS = 64
STALLED = 60.0
"""How many times longer a guest takes for everything on such a host (order; #3513 gives none)."""
KVM_AMD = "/sys/module/kvm_amd/parameters"
PODS = "/sys/fs/cgroup/kubepods"
_TICKS = 100
_SINCE = 40 * 86400.0  # seconds for which the hosts were up before the story begins
_PERIOD = 0.1  # seconds of one period of the CPU controller
_SHARES = (("user", 0.06), ("nice", 0.0), ("system", 0.02))  # of a processor, beside guests


@dataclass(frozen=True, slots=True)
class HostSystem:
    """What one host is. ``virtual``: it is a machine of another hypervisor itself; ``steal`` is the
    share of its processors' time that this takes; ``throttled`` the share of periods in which its
    launchers have used up their quota."""

    vendor: str = "intel"
    vgif: bool = True
    nested: bool = True
    virtual: bool = False
    steal: float = 0.0
    throttled: float = 0.0

    @property
    def pace(self) -> float:
        """How many times longer a guest takes here than on bare metal."""
        stalls = self.virtual and self.vendor == "amd" and not self.vgif
        return STALLED if stalls else 1.0

    @property
    def kvm(self) -> str:
        """The module of its processors' virtualization."""
        return f"kvm_{self.vendor}"

    def files(
        self, now: float, started: float, launchers: Sequence[tuple[str, str, float]]
    ) -> dict[str, Entry]:
        """/proc/stat, /proc/cpuinfo, KVM's parameters, and cpu.stat of each launcher: its UID, its
        class of service in lower case, and the seconds for which it has run."""
        found: dict[str, Entry] = {
            "/proc/stat": text(self._stat(now - started + _SINCE, now)),
            "/proc/cpuinfo": text(self._cpuinfo()),
        }
        if self.vendor == "amd":
            found[f"{KVM_AMD}/vgif"] = text(f"{int(self.vgif)}\n")
            found[f"{KVM_AMD}/nested"] = text(f"{int(self.nested)}\n")
        for uid, qos, seconds in launchers:
            place = f"{PODS}/pod{uid}" if qos == "guaranteed" else f"{PODS}/{qos}/pod{uid}"
            found[f"{place}/cpu.stat"] = text(self.cpu_stat(seconds))
        return found

    def _stat(self, up: float, now: float) -> str:
        busy = sum(share for _, share in _SHARES)
        spent = [int(up * _TICKS * share) for _, share in _SHARES]
        idle = int(up * _TICKS * (1 - busy - self.steal))
        one = [*spent, idle, int(up * 0.1), 0, int(up * 0.05), int(up * _TICKS * self.steal), 0, 0]
        whole = " ".join(str(ticks * CPUS) for ticks in one)
        each = " ".join(str(ticks) for ticks in one)
        lines = [f"cpu  {whole}", *(f"cpu{number} {each}" for number in range(CPUS))]
        tail = (f"ctxt {int(up * 41000)}", f"btime {int(now - up)}", f"processes {int(up * 9)}")
        return "\n".join((*lines, *tail, "procs_running 3", "procs_blocked 0")) + "\n"

    def _cpuinfo(self) -> str:
        names = {"intel": "GenuineIntel", "amd": "AuthenticAMD"}
        flag = {"intel": "vmx", "amd": "svm"}[self.vendor]
        more = " hypervisor" if self.virtual else ""
        return "".join(
            f"processor\t: {number}\nvendor_id\t: {names[self.vendor]}\n"
            f"flags\t\t: fpu {flag} aes{more}\n\n"
            for number in range(CPUS)
        )

    def cpu_stat(self, seconds: float) -> str:
        """cpu.stat of a launcher that has run for so many seconds."""
        usage = int(seconds * 0.8e6)
        periods = int(seconds / _PERIOD) if self.throttled else 0
        stopped = int(periods * self.throttled)
        return (
            f"usage_usec {usage}\nuser_usec {int(usage * 0.7)}\nsystem_usec {int(usage * 0.3)}\n"
            f"nr_periods {periods}\nnr_throttled {stopped}\n"
            f"throttled_usec {int(stopped * _PERIOD * 0.5e6)}\nnr_bursts 0\nburst_usec 0\n"
        )
