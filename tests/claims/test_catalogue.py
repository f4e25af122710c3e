from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import pytest

from harness import claims, judge

CATALOGUE = {
    "node-joins",
    "passthrough",
    "spec-read-back",
    "render-modules",
    "render-module-order",
    "render-module-params",
    "render-no-kernel-block",
    "modules-live",
    "kernel-module-order",
    "nvlink-param",
    "driver-sees-gpu",
    "schematic-consistent",
    "image-fits",
    "nothing-left",
    "apid-serves",
    "module-flavour",
    "fabric-state",
    "vfio-bound",
    "operator-default",
    "operator-live",
    "host-driver-accepted",
    "gpu-advertised",
    "cdi-spec",
    "cdi-injection",
    "cuda-runs",
    "early-pod-unserved",
    "no-hidden-helper",
    "kernel-modules-refused",
    "kernel-modules-verbatim",
    "rollout",
    "no-roll",
    "unchanged-since",
    "uptime",
    "storage-ok",
    "linstor-agrees",
    "headroom",
    "reboots-told",
    "drbd-failover",
    "drbd-replica-loss",
    "drbd-primary-loss",
    "drbd-link-loss",
    "drbd-split-brain",
    "drbd-disk-loss",
    "drbd-outdated-refused",
    "drbd-verify",
    "drbd-io-policy",
    "drbd-quorum",
    "golden-ready",
    "csi-clone",
    "disk-source",
    "disk-phases",
    "disk-shape",
    "os-image-refused",
    "golden-refused",
    "os-image-allowed",
    "spec-applied",
    "os-image-rolls",
    "clone-rbac",
    "catalogue-import",
    "catalogue-refused",
    "catalogue-kept",
    "golden-lost",
    "class-resolved",
    "disk-failover",
    "addons-up",
}
TERM = re.compile(r"[a-z][a-z0-9-]*(=[a-z0-9-]+)?")


def test_the_catalogue_holds_these_claims() -> None:
    assert set(claims.load()) == CATALOGUE


def test_every_claim_has_a_judge() -> None:
    assert {name.replace("-", "_") for name in claims.load()} <= set(judge.__all__)


@pytest.mark.parametrize("claim", claims.load().values(), ids=str)
def test_every_claim_is_complete(claim: claims.Claim) -> None:
    assert claim.sentence.endswith(".")
    assert claim.severity in claims.SEVERITIES
    assert all(TERM.fullmatch(term) for term in claim.needs)
    assert claim.proof.endswith(".") and claim.not_proof.endswith(".")
    assert claim.not_shown.endswith(".")
    assert claim.page.endswith(f"#{claim.id}")


def test_what_needs_a_card_says_so() -> None:
    needing = {name for name, claim in claims.load().items() if "gpu" in claim.needs}
    assert {"passthrough", "driver-sees-gpu", "cuda-runs"} <= needing
    assert claims.get("render-no-kernel-block").needs == ("kubernetes", "no-gpu")
    assert claims.get("vfio-bound").needs == ("kubernetes", "gpu", "ssh")


def test_what_needs_an_operating_system_alone_says_nothing_of_a_cluster() -> None:
    bare = {name for name, claim in claims.load().items() if "kubernetes" not in claim.needs}
    assert {"modules-live", "kernel-module-order", "nvlink-param", "uptime"} <= bare
    assert {"cdi-injection", "storage-ok", "reboots-told"} <= bare
    assert not {"node-joins", "no-roll", "cuda-runs", "driver-sees-gpu"} & bare
    assert claims.get("uptime").needs == ("shell", "soak")


def test_a_claim_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        claims.get("passthrough").severity = "normal"


def test_an_unknown_claim_names_the_nearest() -> None:
    with pytest.raises(claims.UnknownClaim, match="did you mean 'driver-sees-gpu'") as caught:
        claims.get("driver_sees_gpus")
    assert caught.value.nearest == "driver-sees-gpu"


def test_an_unknown_claim_like_no_other_names_none() -> None:
    with pytest.raises(claims.UnknownClaim) as caught:
        claims.get("zzzzzz")
    assert caught.value.nearest == ""
    assert "did you mean" not in str(caught.value)


def test_importing_the_claims_loads_no_parser() -> None:
    probe = (
        "import sys, harness.claims\n"
        "heavy = {'tomllib', 'difflib', 'yaml', 'kubernetes', 'pytest'} & set(sys.modules)\n"
        "sys.exit(','.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
