"""How often `hil diagnose` names what was planted: `python -m bench.diagnosis [FAULT ...]`.

Each fault of the twin's catalogue is planted in a twin of its own, pools come up on virtual time,
and `hil diagnose --attach --json` is run as a person would. Which cause a fault is, is said here
and nowhere in the product. A fault that shows only on a trial of somebody's, or only inside a
guest, where a look at a lab does not go, is not counted against it: it has to name nothing then.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes
from harness.reach.errors import LabError
from harness.session.labs import LabChoice
from harness.twin.faults.catalogue import FAULTS
from harness.twin.faults.model import Fault
from harness.twin.process import TwinProcess

INVENTORY = Path(__file__).resolve().parent.parent / "inventory" / "twin.yaml"
SHORT, LONG = 45 * 60.0, 260 * 60.0
"""Seconds of the twin's time until the look: enough to join, and three cycles of a boot."""

UPTIME = frozenset(
    {
        "nvidia-schematic-no-gpu",
        "apid-port-50001-missing",
        "real-oom",
        "cdi-gen-not-finished",
        "gpu-pool-optout-with-nvidia-image",
        "no-modules-block",
        "gpu-label-without-driver",
    }
)
"""Faults whose boots end: looked at after several."""

PAST_TIMER = {
    "validator-preinstalled-not-detected": 90 * 60.0,
    "vmi-recreated": 90 * 60.0,
}
"""Faults that need a boot past the timer, and a log that has not been rotated yet, or the Events of
the hour in which it struck: later nothing is left to see."""

TRUTH: dict[str, tuple[str, ...]] = {
    "nvidia-schematic-no-gpu": ("nvidia-image-without-card",),
    "apid-port-50001-missing": ("port-50001-missing",),
    "real-oom": ("out-of-memory",),
    "vmi-recreated": ("replaced-by-health-check",),
    "cdi-gen-not-finished": ("cdi-file-not-made",),
    "boot-install-schematic-drift": ("boot-and-install-differ",),
    "gpu-not-permitted": ("card-not-permitted",),
    "gpu-resource-name-mismatch": ("card-name-mismatch",),
    "gpu-exhausted": ("cards-exhausted",),
    "host-driver-claims-gpu": ("host-driver-holds-card",),
    "host-driver-holds-spare-card": ("host-driver-holds-card",),
    "params-lost-to-dependency": ("parameter-lost",),
    "no-modules-block": ("chart-renders-no-modules",),
    "gpu-pool-optout-with-nvidia-image": ("chart-renders-no-modules",),
    "modules-empty-list-materialised": ("modules-list-empty",),
    "modules-list-replaces-auto": ("modules-list-without-nvidia",),
    "modules-indented-wrong": ("modules-misplaced",),
    "modules-declared-out-of-order": ("modules-out-of-order",),
    "module-parameters-dropped": ("parameter-not-rendered",),
    "module-missing-from-image": ("image-without-nvidia",),
    "gpu-label-without-driver": ("modules-not-in-image",),
    "nvlink-not-disabled-sxm": ("nvlink-waits-for-fabric", "parameter-not-rendered"),
    "blackwell-proprietary-module": ("proprietary-modules-on-blackwell",),
    "validator-preinstalled-not-detected": ("driver-not-detected",),
    "kernel-block-without-card": ("empty-kernel-block",),
    "immutable-tct-refused": ("template-immutable", "template-name-fixed"),
    "legacy-operator-default": ("operator-brings-driver",),
    "override-masks-default": ("override-hides-default",),
    "env-list-replaced": ("plugin-env-replaced",),
    "strategy-envvar": ("cards-by-envvar",),
    "plugin-env-edited-live": ("plugin-edited-by-hand",),
    "clusterpolicy-green-no-gpu": ("no-node-discovered",),
    "rogue-driver-daemonset": ("helper-brings-driver",),
    "hami-unsupported": ("hami-on",),
    "hr-ready-no-workers": ("cluster-paused",),
    "awaiting-etcd": ("tenant-without-etcd",),
    "mhc-deletes-slow-joiner": ("startup-timeout-too-short",),
    "nocloud-image": ("wrong-image-platform",),
    "vgif-nested-stall": ("nested-host-without-vgif",),
    "console-log-wedge": ("console-log-wedged",),
    "accepted-not-applied": ("accepted-not-applied", "value-refused"),
    "minor-talos-version": ("value-refused",),
    "cilium-agent-missing": ("image-not-pulled",),
    "golden-absent": ("golden-absent",),
    "golden-import-retrying": ("golden-import-retrying",),
    "golden-too-small": ("image-too-large-for-disk",),
    "disk-smaller-than-image": ("image-too-large-for-disk",),
    "catalog-on-local-class": ("class-without-profile",),
    "golden-not-kept": ("golden-not-kept",),
    "silent-host-assisted-fallback": ("clone-fell-back-to-copy",),
    "fallback-without-expansion": ("clone-fell-back-to-copy",),
    "fallback-other-provisioner": ("clone-fell-back-to-copy",),
    "fallback-other-volume-mode": ("clone-fell-back-to-copy",),
    "clone-strategy-copy": ("clone-strategy-set",),
    "clone-strategy-snapshot": ("clone-strategy-set",),
    "usepopulator-false-on-builtin": ("populator-off",),
    "cross-ns-rbac-missing": ("clone-forbidden",),
    "clone-role-too-wide": ("clone-role-too-wide",),
    "clone-from-anywhere": ("clone-role-too-wide",),
    "clone-leaves-temporary-claim": ("clone-left-over",),
    "cloned-disk-unmarked": ("cloned-disk-unmarked",),
    "stale-default-class-empty": ("default-class-moved",),
    "default-class-moved": ("default-class-moved",),
    "disk-not-grown": ("disk-not-grown",),
    "rwo-worker-disk": ("disk-of-one-node",),
    "tenant-quota-scratch": ("quota-exceeded",),
    "pool-space-exhausted": ("no-room-in-pools",),
    "pool-space-freed-late": ("no-room-in-pools",),
    "zero-linstor-nodes": ("no-linstor-node",),
    "linstor-view-stale": ("linstor-view-stale",),
    "drbd-resync-stalls": ("resync-under-way",),
    "drbd-quorum-suspended": ("quorum-lost",),
    "drbd-split-brain-standing": ("split-brain",),
    "drbd-out-of-sync-silent": ("replicas-differ",),
    "drbd-replica-missing": ("replica-missing",),
    "drbd-without-quorum": ("class-without-quorum",),
    "drbd-no-remote-io": ("class-gives-io-errors",),
    "metrics-api-down": ("image-not-pulled",),
    "csi-not-registered": ("image-not-pulled",),
    "names-do-not-resolve": ("image-not-pulled",),
}
"""Fault to the causes that it is; more than one where it is several edits at once."""

_TRIAL = "shows when somebody tries it: a bad value, another pool, a change"
_INSIDE = "shows inside a guest or on its host only"
_POD = "shows on a pod of somebody's that asks for a card"
_AFTER = "shows once a pool is taken down"
HIDDEN: dict[str, str] = {
    "volumes-retained": _AFTER,
    "drbd-resource-stuck-deleting": _AFTER,
    "launcher-keeps-card": _AFTER,
    "nvidia-loads-late": _INSIDE,
    "boot-id-repeats": _INSIDE,
    "drbd-write-lost": _TRIAL,
    "drbd-link-heals-without-reconnect": _TRIAL,
    "drbd-outdated-promoted": _TRIAL,
    "drbd-verify-blind": _TRIAL,
    "drbd-fails-without-quorum": _TRIAL,
    "unexpected-pool-roll": _TRIAL,
    "param-unicode-linebreak": _TRIAL,
    "stale-pod-no-injection": _POD,
    "runtimeclass-masks-cdi": _POD,
    "image-bundles-driver": _POD,
    "absent-annotation-misread": "is no fault",
    "secrets-in-plain-sight": "is no fault",
    "wrong-cluster-queried": "is no fault",
    "console-stolen": "shows to whoever has a console attached",
    "install-reboot-flagged": "is no fault",
    "events-expired": "is no fault",
    "nvidia-runtime-by-default": _POD,
    **dict.fromkeys(
        (
            "both-image-forms-accepted",
            "schematic-unchecked",
            "talos-version-unchecked",
            "factory-url-unchecked",
            "talos-matrix-unchecked",
            "pool-ahead-of-parent",
            "foreign-pool-taken-over",
            "refusals-of-images-wordless",
            "golden-absent-unrefused",
            "class-mismatch-unrefused",
            "disk-smaller-than-golden",
            "pool-annotation-prefix-collision",
            "refusals-of-goldens-wordless",
            "empty-form-is-none",
            "failing-golden-rendered",
            "gone-golden-strands-pools",
            "mid-import-refused",
            "adoption-not-rolled",
            "cloned-class-forgotten",
            "golden-class-by-default",
            "catalogue-duplicates-accepted",
            "catalogue-names-unchecked",
            "catalogue-change-unchecked",
        ),
        _TRIAL,
    ),
}
"""Faults that a look at a lab cannot see, each with the reason."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one fault. ``word`` is first, named, undecided, silent, wrong, or unseen (as it
    should be) and invented for one that cannot be seen."""

    fault: str
    word: str
    exit_status: int
    named: tuple[str, ...]
    possible: tuple[str, ...]


def diagnosed(faults: Sequence[str], pools: Sequence[str], seconds: float) -> tuple[int, Any]:
    """Exit status and JSON of `hil diagnose` on a twin with these faults and pools."""
    with tempfile.TemporaryDirectory(prefix="hil-diagnosis-") as folder:
        directory = Path(folder)
        twin = TwinProcess(directory, seed=1, faults=faults)
        try:
            _bring_up(directory, pools, seconds)
            argv = ["diagnose", "--attach", str(directory), "--json"]
            done = subprocess.run(
                [sys.executable, "-m", "harness.cli", *argv],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            twin.close()
    if not done.stdout:
        raise RuntimeError(f"hil diagnose said nothing: {done.stderr}")
    return done.returncode, json.loads(done.stdout)


def _bring_up(directory: Path, pools: Sequence[str], seconds: float) -> None:
    choice = LabChoice(load(INVENTORY), "diagnosis", directory, attach=directory)
    with choice.open(pools[0]) as lab:
        for pool in pools:
            try:
                lab.management.create(kubernetes_nodes(lab.inventory, pool))
            except LabError as refused:
                print(f"  {pool} is refused: {refused.saw}", flush=True)
        lab.clock.sleep(seconds, "pools")


def pools_for(fault: Fault) -> list[str]:
    """Pools that the fault concerns, and one that it does not; three at most, for the storage."""
    if len(fault.where) >= 3:
        return ["gpu-l40s", "plain", "cloned"]
    other = "plain" if "plain" not in fault.where else "gpu-l40s"
    return [*fault.where, other]


def judged(fault: str, exit_status: int, said: Any) -> Result:
    """What the answer is worth, beside the truth."""
    causes = said["causes"]
    named = tuple(one["id"] for one in causes if one["standing"] == "named")
    possible = tuple(one["id"] for one in causes if one["standing"] == "possible")
    true = TRUTH.get(fault, ())
    if not true:
        word = "invented" if named else "unseen"
    elif named and named[0] in true:
        word = "first"
    elif set(named) & set(true):
        word = "named"
    elif named:
        word = "wrong"
    else:
        word = "undecided" if set(possible) & set(true) else "silent"
    return Result(fault, word, exit_status, named, possible)


def measure(fault: Fault) -> Result:
    """Plant one fault and judge what is said of it."""
    seconds = PAST_TIMER.get(fault.id, LONG if fault.id in UPTIME else SHORT)
    return judged(fault.id, *diagnosed([fault.id], pools_for(fault), seconds))


def main(wanted: Sequence[str]) -> int:
    """Print a line for each fault, then the shares."""
    found = []
    for fault in FAULTS.values():
        if wanted and fault.id not in wanted:
            continue
        one = measure(fault)
        found.append(one)
        also = f"; possible: {', '.join(one.possible)}" if one.possible else ""
        print(f"{one.word:<10} {fault.id}: {', '.join(one.named) or '-'}{also}", flush=True)
    counts = Counter(one.word for one in found)
    seen = sum(1 for one in found if one.fault in TRUTH)
    print(f"\n{seen} faults that a look can see: " + ", ".join(
        f"{counts[word]} {word}" for word in ("first", "named", "undecided", "silent", "wrong")
    ))  # fmt: skip
    print(f"{len(found) - seen} that it cannot: {counts['unseen']} unseen, "
          f"{counts['invented']} invented")  # fmt: skip
    return 1 if counts["wrong"] or counts["invented"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
