"""What a 6.x kernel writes when it panics, and when it kills for want of memory.

A panic by sysrq: console_reboots.txt of lab/captures; the rest: Linux, mm/oom_kill.c and
kernel/panic.c.
"""

from __future__ import annotations

_HARDWARE = "Hardware name: KubeVirt None/RHEL, BIOS 1.16.3-4.el9 04/01/2014"
_TRACE = ("Call Trace:", " <TASK>", " dump_stack_lvl+0x5d/0x80", " panic+0x118/0x2f4")
_CRASH = (" sysrq_handle_crash+0x16/0x20", " __handle_sysrq.cold+0x44/0x11c")
_OFFSET = (
    "Kernel Offset: 0x5c00000 from 0xffffffff81000000 "
    "(relocation range: 0xffffffff80000000-0xffffffffbfffffff)"
)
_VICTIMS = (("load-generator", 4711, 14_210), ("containerd", 1312, 96))  # name, pid, MiB


def lines(why: str, task: str, release: str) -> list[str]:
    """A panic, up to where the kernel says what it does next."""
    trace = [*_TRACE, *(_CRASH if task == "sh" else ()), " </TASK>"]
    cpu = f"CPU: 0 UID: 0 PID: 2111 Comm: {task} Not tainted {release} #1"
    return [f"Kernel panic - not syncing: {why}", cpu, _HARDWARE, *trace, _OFFSET]


def out_of_memory(total: int, index: int, release: str) -> list[str]:
    """One kill; ``total`` is the machine's memory in KiB, ``index`` whose turn it is."""
    name, pid, size = _VICTIMS[index % len(_VICTIMS)]
    pages, kib = size * 256, size * 1024
    constraint = "constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom"
    return [
        f"{name} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, "
        "oom_score_adj=0",
        f"CPU: 3 UID: 0 PID: {pid} Comm: {name} Not tainted {release} #1",
        _HARDWARE,
        "Mem-Info:",
        f"active_anon:{pages} inactive_anon:{total // 64} isolated_anon:0",
        f" free:{total // 400} free_pcp:312 free_cma:0",
        "Tasks state (memory values in pages):",
        "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes "
        "swapents oom_score_adj name",
        f"[{pid:>7}]     0 {pid:>5} {pages + 4096:>8} {pages:>8} {pages:>8}        0         0 "
        f"{pages // 2:>14}        0             0 {name}",
        f"oom-kill:{constraint},task_memcg=/kubepods/burstable/pod1,task={name},pid={pid},uid=0",
        f"Out of memory: Killed process {pid} ({name}) total-vm:{kib + 16_384}kB, "
        f"anon-rss:{kib}kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:{kib // 512}kB "
        "oom_score_adj:0",
        f"oom_reaper: reaped process {pid} ({name}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    ]
