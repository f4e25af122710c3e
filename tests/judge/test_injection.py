from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.cdifiles import CdiFile, CdiFiles
from harness.facts.daemonsets import DaemonSet, DaemonSets
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.nvidia import SmiCard, SmiCards, SmiFailed
from harness.facts.operator import Addons
from harness.facts.probes import Control, CudaRun, EarlyPod, Injected, NoTool, PodAsStored
from harness.judge.injection import cdi_injection, cdi_spec, cuda_runs, early_pod_unserved
from harness.judge.verdict import Verdict

AT = Origin(1.0, "x", "")
LOST = Unread(AT, "asked", "the reason")
OFF = Addons(AT, "kubernetes-lab", True, False, ())
CNI = DaemonSet(
    "kube-system", "cilium", "", "helm.sh/chart=cilium", (), ("/run/cilium",), 1, 1, False
)
HELPER = DaemonSet("default", "helper", "", "", (), ("/usr",), 1, 1, False)
ALONE = DaemonSets(AT, (CNI,))
HELPED = DaemonSets(AT, (CNI, HELPER))
HAMI = dataclasses.replace(OFF, hami=True)
A = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
B = "GPU-99af1802-3de2-4104-81ad-f2f48ce2567d"
IMAGE = "docker.io/library/ubuntu:24.04"


def cards(*uuids: str) -> SmiCards:
    return SmiCards(AT, tuple(SmiCard(n, "NVIDIA L40S", one) for n, one in enumerate(uuids)))


NO_TOOL = NoTool(AT, "executable file not found")
FAILED = SmiFailed(AT, "Failed to initialize NVML")


def stored(pod: str = "fresh", **more: Any) -> PodAsStored:
    given: dict[str, Any] = {
        "node": "w1",
        "phase": "Running",
        "reason": "",
        "message": "",
        "created": 5.0,
        "runtime_class": "",
        "requested": 1,
        "image": IMAGE,
        "aids": (),
        **more,
    }
    return PodAsStored(pod, **given)


def fresh(smi: Any = None, pod: str = "fresh", **more: Any) -> Injected:
    return Injected(AT, stored(pod, **more), cards(A) if smi is None else smi)


def control(*, found: bool = False, **more: Any) -> Control:
    return Control(AT, stored("control", **{"requested": 0, **more}), found, "its answer\n")


def check(verdict: Verdict, claim: str, outcome: str, said: str, *facts: Fact) -> None:
    assert (verdict.claim, verdict.subject) == (claim, "node w1")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because
    assert verdict.facts[-len(facts) :] == facts


@pytest.mark.parametrize(
    ("spec", "wanted", "outcome", "said"),
    [
        (CdiSpec(AT, "p", "0.5.0", "nvidia.com/gpu", ("0", A, "all")), 1, "holds", "names 1 card"),
        (CdiSpec(AT, "p", "0.5.0", "nvidia.com/gpu", (A, B)), 2, "holds", "expected 2"),
        (CdiSpec(AT, "p", "0.5.0", "nvidia.com/gpu", (A,)), 2, "broken", "names 1 card"),
        (CdiSpec(AT, "p", "0.5.0", "nvidia.com/gpu", (A, B)), 1, "broken", "names 2 cards"),
        (CdiSpec(AT, "p", "0.5.0", "nvidia.com/gpu", ("all",)), 1, "broken", "names 0 cards"),
        (
            CdiSpec(AT, "p", "0.5.0", "k8s.device-plugin.nvidia.com/gpu", (A,)),
            1,
            "broken",
            "of kind k8s.device-plugin.nvidia.com/gpu",
        ),
        (CdiAbsent(AT, "/run/cdi/nvidia.yaml", "no file"), 1, "broken", "not finished: no file"),
        (CdiAbsent(AT, "p", "no file"), 0, "unknown", "asked for no card"),
        (CdiSpec(AT, "p", "0.5.0", "nvidia.com/gpu", ("all",)), 0, "unknown", "no card"),
        (LOST, 1, "unknown", "the reason"),
    ],
)
def test_cdi_spec(spec: CdiSpec | CdiAbsent | Unread, wanted: int, outcome: str, said: str) -> None:
    check(cdi_spec(spec, wanted, "node w1"), "cdi-spec", outcome, said, spec)


@pytest.mark.parametrize(
    ("pod", "beside", "node", "outcome", "said"),
    [
        (fresh(), control(), cards(A), "holds", f"asked for 1 and lists {A}; w1 has {A}"),
        (fresh(), control(), cards(A, B), "holds", "asked for 1"),
        (fresh(cards(B, A), requested=2), control(), cards(A, B), "holds", "asked for 2"),
        (fresh(cards(B)), control(), cards(A), "broken", f"lists {B}; w1 has {A}"),
        (fresh(cards(A, B)), control(), cards(A, B), "broken", "asked for 1 and lists"),
        (fresh(cards(A), requested=2), control(), cards(A, B), "broken", "asked for 2 and lists"),
        (fresh(cards()), control(), cards(A), "broken", "lists none"),
        (fresh(NO_TOOL), control(), cards(A), "broken", "has no nvidia-smi (executable file"),
        (fresh(NO_TOOL), control(), LOST, "broken", "has no nvidia-smi"),
        (fresh(FAILED), control(), cards(A), "broken", "no answer of the driver (Failed to init"),
        (fresh(LOST), control(), cards(A), "unknown", "the reason"),
        (
            fresh(LOST, phase="Failed", reason="UnexpectedAdmissionError", message="m"),
            control(),
            cards(A),
            "broken",
            "fresh is Failed (UnexpectedAdmissionError: m)",
        ),
        (
            fresh(LOST, phase="Failed", reason="OutOfnvidia.com/gpu"),
            control(),
            cards(A),
            "broken",
            "OutOfnvidia.com/gpu",
        ),
        (
            fresh(LOST, phase="Failed", reason="Evicted", message="CDI"),
            control(),
            cards(A),
            "unknown",
            "the reason",
        ),
        (
            fresh(LOST, phase="Pending", reason="CreateContainerError", message="unresolvable CDI"),
            control(),
            cards(A),
            "broken",
            "unresolvable CDI",
        ),
        (
            fresh(LOST, phase="Pending", reason="RunContainerError", message="CDI"),
            control(),
            cards(A),
            "broken",
            "RunContainerError",
        ),
        (
            fresh(LOST, phase="Failed", reason="StartError", message="CDI"),
            control(),
            cards(A),
            "broken",
            "StartError",
        ),
        (
            fresh(LOST, phase="Pending", reason="CreateContainerError", message="no such image"),
            control(),
            cards(A),
            "unknown",
            "the reason",
        ),
        (
            fresh(LOST, phase="Pending", reason="UnexpectedAdmissionError"),
            control(),
            cards(A),
            "unknown",
            "the reason",
        ),
        (
            fresh(LOST, node="", phase="Pending", reason="Unschedulable"),
            control(),
            cards(A),
            "unknown",
            "asked could not be read: the reason",
        ),
        (fresh(), control(), LOST, "unknown", "which cards the node has is not known"),
        (fresh(), control(), FAILED, "unknown", "which cards the node has is not known"),
        (LOST, control(), cards(A), "unknown", "the reason"),
        (fresh(), LOST, cards(A), "unknown", "the reason"),
    ],
)
def test_cdi_injection(pod: Any, beside: Any, node: Any, outcome: str, said: str) -> None:
    verdict = cdi_injection(pod, beside, node, OFF, ALONE, "node w1")
    check(verdict, "cdi-injection", outcome, said, pod, beside, node, OFF, ALONE)


@pytest.mark.parametrize(
    ("pod", "beside", "said"),
    [
        (
            fresh(aids=("runtimeClassName nvidia",)),
            control(),
            "fresh is stored with runtimeClassName nvidia",
        ),
        (fresh(requested=0), control(), "fresh asks for no nvidia.com/gpu"),
        (fresh(), control(found=True), "which asked for no card, finds a driver: its answer"),
        (fresh(), control(aids=("host path /usr",)), "control is stored with host path /usr"),
        (fresh(), control(requested=1), "control is to be the control, and asks for a card"),
        (fresh(), control(image="cuda:12"), f"control has the image cuda:12, fresh has {IMAGE}"),
        (fresh(), control(node="w2"), "control is on w2, fresh on w1"),
        (fresh(NO_TOOL, aids=("privileged container probe",)), control(), "is stored with"),
    ],
)
def test_spoilt_evidence_shows_nothing(pod: Injected, beside: Control, said: str) -> None:
    verdict = cdi_injection(pod, beside, cards(A), OFF, ALONE, "node w1")
    check(
        verdict,
        "cdi-injection",
        "unknown",
        "the evidence is spoilt: ",
        beside,
        cards(A),
        OFF,
        ALONE,
    )
    assert said in verdict.because


def run(phase: str = "Succeeded", code: int | None = 0, log: str | None = "Test PASSED\n",
        **more: Any) -> CudaRun:  # fmt: skip
    return CudaRun(AT, stored("cuda", phase=phase, **more), code, log)


@pytest.mark.parametrize(
    ("seen", "success", "outcome", "said"),
    [
        (run(), "Test PASSED", "holds", "exit status 0"),
        (run(log="[Vector addition]\nTest PASSED\nDone\n"), "Test PASSED", "holds", "Done"),
        (run(log="Test FAILED\n"), "Test PASSED", "broken", "which ends 'Test FAILED'"),
        (run(log=""), "Test PASSED", "broken", "which ends without a word"),
        (run("Failed", 1, "Test PASSED"), "Test PASSED", "broken", "exit status 1"),
        (run("Succeeded", 1), "Test PASSED", "broken", "exit status 1"),
        (run("Failed", 0), "Test PASSED", "broken", "cuda is Failed"),
        (run("Failed", 1, None), "Test PASSED", "broken", "without a word"),
        (
            run("Failed", 1, "error code 802"),
            "Test PASSED",
            "broken",
            "error 802 means the fabric",
        ),
        (
            run("Failed", 1, "CUDA error: system not yet initialized"),
            "Test PASSED",
            "broken",
            "error 802 means the fabric",
        ),
        (run("Running", None, None), "Test PASSED", "unknown", "it has not ended"),
        (run("Pending", None, None), "Test PASSED", "unknown", "it has not ended"),
        (run("Succeeded", 0, None), "Test PASSED", "unknown", "its log could not be read"),
        (
            run("Pending", None, None, reason="CreateContainerError", message="CDI device"),
            "Test PASSED",
            "broken",
            "CDI device",
        ),
        (
            run("Failed", None, None, reason="UnexpectedAdmissionError"),
            "Test PASSED",
            "broken",
            "UnexpectedAdmissionError",
        ),
        (run(), "", "unknown", "the text of success is empty"),
        (run(), "  ", "unknown", "the text of success is empty"),
        (run(aids=("runtimeClassName nvidia",)), "Test PASSED", "unknown", "is stored with"),
        (run(requested=0), "Test PASSED", "unknown", "asks for no nvidia.com/gpu"),
        (LOST, "Test PASSED", "unknown", "the reason"),
    ],
)
def test_cuda_runs(seen: CudaRun | Unread, success: str, outcome: str, said: str) -> None:
    verdict = cuda_runs(seen, success, OFF, ALONE, "node w1")
    check(verdict, "cuda-runs", outcome, said, seen, OFF, ALONE)


def test_a_helper_beside_the_platform_may_have_done_it() -> None:
    for verdict in (
        cdi_injection(fresh(), control(), cards(A), OFF, HELPED, "node w1"),
        cuda_runs(run(), "Test PASSED", OFF, HELPED, "node w1"),
    ):
        assert verdict.outcome == "unknown"
        assert "DaemonSet default/helper (mounts /usr) may have done it" in verdict.because
        assert HELPED in verdict.facts


def test_without_the_daemonsets_nobody_knows_who_did_it() -> None:
    for verdict in (
        cdi_injection(fresh(), control(), cards(A), OFF, LOST, "node w1"),
        cuda_runs(run(), "Test PASSED", OFF, LOST, "node w1"),
    ):
        assert (verdict.outcome, "the reason" in verdict.because) == ("unknown", True)


def test_a_program_that_passed_is_not_said_to_lack_a_fabric() -> None:
    assert (
        "fabric"
        not in cuda_runs(run(log="802 Test PASSED"), "Test PASSED", OFF, ALONE, "x").because
    )
    assert "fabric" not in cuda_runs(run(log="no"), "Test PASSED", OFF, ALONE, "x").because


def test_of_a_long_log_the_end_is_quoted() -> None:
    verdict = cuda_runs(run(log="a" * 500 + "the end\n"), "Test PASSED", OFF, ALONE, "x")
    assert "'" + "a" * 193 + "the end'" in verdict.because


def early(smi: Any = NO_TOOL, advertised: str | None = None, older: Any = None,
          **more: Any) -> EarlyPod:  # fmt: skip
    return EarlyPod(AT, stored("early", **{"created": 1.0, **more}), advertised, smi, older)


REFUSED = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}


@pytest.mark.parametrize(
    ("old", "new", "outcome", "said"),
    [
        (early(), fresh(), "holds", "early pod early is Running, without nvidia-smi; the fresh"),
        (early(advertised="0"), fresh(), "holds", f"the fresh one lists {A}"),
        (early(advertised=""), fresh(), "holds", "without nvidia-smi"),
        (early(None, **REFUSED), fresh(), "holds", "(UnexpectedAdmissionError: Allocate failed)"),
        (
            early(None, phase="Failed", reason="OutOfnvidia.com/gpu"),
            fresh(),
            "holds",
            ", refused;",
        ),
        (early(cards(A)), fresh(), "broken", f"made before its node offered a card, lists {A}"),
        (early(cards()), fresh(), "unknown", "neither with a card nor plainly without"),
        (early(FAILED), fresh(), "unknown", "gets no answer of the driver"),
        (early(LOST), fresh(), "unknown", "gets no answer of the driver (the reason)"),
        (early(None, phase="Failed", reason="Evicted"), fresh(), "unknown", "runs no command"),
        (early(None, phase="created", reason="NotStarted"), fresh(), "unknown", "runs no command"),
        (
            early(None, phase="Pending", reason="UnexpectedAdmissionError"),
            fresh(),
            "unknown",
            "runs no command",
        ),
        (early(advertised="1"), fresh(), "unknown", "not made early enough: w1 offered 1 already"),
        (early(aids=("privileged container probe",)), fresh(), "unknown", "early is stored with"),
        (early(requested=0), fresh(), "unknown", "early asks for no"),
        (early(), fresh(aids=("host path /",)), "unknown", "fresh is stored with host path /"),
        (early(), fresh(requested=0), "unknown", "fresh asks for no"),
        (early(), fresh(NO_TOOL), "unknown", "so there is nothing to compare with"),
        (early(), fresh(cards()), "unknown", "the fresh pod lists none"),
        (early(), fresh(LOST), "unknown", "nothing to compare with"),
        (early(cards(A)), fresh(NO_TOOL), "unknown", "nothing to compare with"),
        (early(node="w2"), fresh(), "unknown", "the early pod is on w2, the fresh one on w1"),
        (early(), fresh(pod="early"), "unknown", "the early and the fresh pod at once"),
        (early(), fresh(image="other"), "unknown", f"early pod has the image {IMAGE}, the fresh"),
        (early(asked=("a/b=c",)), fresh(), "unknown", "asks for a/b=c, the fresh one for another"),
        (early(created=5.0), fresh(), "unknown", "the early pod is no older than the fresh one"),
        (early(created=6.0), fresh(), "unknown", "the early pod is no older than the fresh one"),
        (early(created=None), fresh(), "unknown", "how old the two pods are is not known"),
        (early(), fresh(created=None), "unknown", "how old the two pods are is not known"),
        (LOST, fresh(), "unknown", "the reason"),
        (early(), LOST, "unknown", "the reason"),
    ],
)
def test_early_pod_unserved(old: Any, new: Any, outcome: str, said: str) -> None:
    verdict = early_pod_unserved(old, new, OFF, "node w1")
    check(verdict, "early-pod-unserved", outcome, said, old, new, OFF)


@pytest.mark.parametrize(
    ("addons", "said"),
    [(HAMI, "HAMi is not covered"), (LOST, "whether HAMi is on could not be read")],
)
def test_nothing_holds_under_hami(addons: Addons | Unread, said: str) -> None:
    for verdict in (
        cdi_injection(fresh(), control(), cards(A), addons, ALONE, "node w1"),
        cuda_runs(run(), "Test PASSED", addons, ALONE, "node w1"),
        early_pod_unserved(early(), fresh(), addons, "node w1"),
        cdi_injection(fresh(NO_TOOL), control(), cards(A), addons, ALONE, "node w1"),
    ):
        assert verdict.outcome == "unknown"
        assert said in verdict.because
        assert addons in verdict.facts


# -- on a machine that belongs to no cluster

RUN_CDI = "/run/cdi/nvidia.yaml"
ZERO = ("nvidia.com/gpu=0",)
UNRESOLVABLE = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0"
NO_NODE = 'Error: failed to stat CDI host device "/dev/nvidia0": no such file or directory'
NO_SOURCE = (
    'Error: runc: error mounting "/opt/stub" to rootfs at "/usr/bin/nvidia-smi": stat /opt/stub: '
    "no such file or directory"
)
SPEC = CdiSpec(
    AT, RUN_CDI, "0.5.0", "nvidia.com/gpu", ("0", "all"), sources=("/dev/nvidia0", "/opt/stub")
)


def cdi_files(*specs: Any) -> CdiFiles:
    found = tuple(CdiFile(one.path, one) for one in specs)
    return CdiFiles(AT, "podman 4.3.1", ("/etc/cdi", "/run/cdi"), found)


def refused(reason: str, message: str, files: Any = None, **more: Any) -> Injected:
    given = {"phase": "created", "reason": reason, "message": message, "asked": ZERO, **more}
    return Injected(AT, stored("fresh", **given), LOST, files)


def test_without_a_cluster_nothing_of_one_can_have_done_it() -> None:
    pod = fresh(asked=ZERO, phase="running")
    verdict = cdi_injection(pod, control(), cards(A), None, None, "node w1")
    check(verdict, "cdi-injection", "holds", f"lists {A}", pod, control(), cards(A))
    assert verdict.facts == (pod, control(), cards(A))
    assert "no cluster, so neither HAMi nor a DaemonSet can have done it" in verdict.because
    with_one = cdi_injection(pod, control(), cards(A), OFF, ALONE, "node w1")
    assert "no cluster" not in with_one.because


@pytest.mark.parametrize(("addons", "sets"), [(None, ALONE), (OFF, None)])
def test_half_a_cluster_is_none(addons: Any, sets: Any) -> None:
    verdict = cdi_injection(fresh(), control(), cards(A), addons, sets, "node w1")
    assert (verdict.outcome, "not all was looked at" in verdict.because) == ("unknown", True)


@pytest.mark.parametrize(
    ("pod", "outcome", "said"),
    [
        (
            refused("CDIUnresolved", UNRESOLVABLE, cdi_files()),
            "broken",
            "expected 1 card; nvidia.com/gpu=0: no file is in /etc/cdi or /run/cdi",
        ),
        (
            refused("CDIUnresolved", UNRESOLVABLE, cdi_files(dataclasses.replace(SPEC,
                    version="0.6.0"))),
            "broken",
            "podman 4.3.1 takes cdiVersion 0.5.0 at most, not 0.6.0",
        ),
        (refused("CDIUnresolved", UNRESOLVABLE, LOST), "broken", "files could not be read: the"),
        (refused("CDIUnresolved", UNRESOLVABLE), "broken", "expected 1 card"),
        (
            refused("CDINodeMissing", NO_NODE, cdi_files(SPEC)),
            "broken",
            f"expected 1 card; nvidia.com/gpu=0 is taken from {RUN_CDI}",
        ),
        (
            refused("CDISourceMissing", NO_SOURCE, cdi_files(SPEC)),
            "broken",
            f"nvidia.com/gpu=0 is taken from {RUN_CDI}",
        ),
        # a mount that no CDI file names is somebody else's
        (
            refused("CDISourceMissing", NO_SOURCE.replace("/opt/stub", "/x"), cdi_files(SPEC)),
            "unknown",
            "the reason",
        ),
        (refused("CDISourceMissing", NO_SOURCE, LOST), "unknown", "the reason"),
        (refused("CDISourceMissing", NO_SOURCE), "unknown", "the reason"),
        (refused("NotStarted", "Error: crun: x", cdi_files(SPEC)), "unknown", "the reason"),
        (
            Injected(AT, stored("fresh", asked=ZERO), NO_TOOL,
                     cdi_files(SPEC, dataclasses.replace(SPEC, path="/etc/cdi/a.yaml"))),
            "broken",
            f"no nvidia-smi (executable file not found); expected 1 card; nvidia.com/gpu=0 is "
            f"taken from {RUN_CDI}, which passes over /etc/cdi/a.yaml",
        ),
        (
            Injected(AT, stored("fresh", asked=ZERO), cards(B), cdi_files(SPEC)),
            "broken",
            f"w1 has {A}; a pod of the same image without a limit has no driver; nvidia.com/gpu=0 "
            f"is taken from {RUN_CDI}",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_machines_cdi_files(pod: Injected, outcome: str, said: str) -> None:
    verdict = cdi_injection(pod, control(), cards(A), None, None, "node w1")
    check(verdict, "cdi-injection", outcome, said, pod, control(), cards(A))


@pytest.mark.parametrize(
    ("pod", "ends"),
    [
        (refused("CDINodeMissing", NO_NODE, cdi_files()), f"{NO_NODE}); expected 1 card"),
        (refused("CDIUnresolved", UNRESOLVABLE), f"{UNRESOLVABLE}); expected 1 card"),
        (
            Injected(AT, stored("fresh"), NO_TOOL, cdi_files(SPEC)),
            "nvidia-smi (executable file not found); expected 1 card",
        ),
    ],
)
def test_where_the_files_say_nothing_nothing_is_said_of_them(pod: Injected, ends: str) -> None:
    because = cdi_injection(pod, control(), cards(A), None, None, "node w1").because
    assert because.endswith(ends)


def test_a_file_that_is_none_names_no_source() -> None:
    files = cdi_files(SPEC)
    files = dataclasses.replace(files, files=(CdiFile("/etc/cdi/x.json", LOST), *files.files))
    pod = refused("CDISourceMissing", NO_SOURCE, files)
    verdict = cdi_injection(pod, control(), cards(A), None, None, "node w1")
    assert verdict.outcome == "broken"


def test_where_it_works_no_file_is_talked_about() -> None:
    pod = Injected(AT, stored("fresh", asked=ZERO), cards(A), cdi_files(SPEC))
    because = cdi_injection(pod, control(), cards(A), None, None, "node w1").because
    assert RUN_CDI not in because


def test_a_pod_that_containerd_refuses_is_explained_by_the_nodes_files_too() -> None:
    kind = "k8s.device-plugin.nvidia.com/gpu"
    message = f"CDI device injection failed: unresolvable CDI devices {kind}={A}, {kind}={B}"
    pod = stored(phase="Pending", reason="CreateContainerError", message=message, requested=2)
    found = CdiFiles(AT, "", ("/run/cdi",), (CdiFile(RUN_CDI, SPEC),))
    verdict = cdi_injection(
        Injected(AT, pod, LOST, found), control(), cards(A), OFF, ALONE, "node w1"
    )
    assert verdict.outcome == "broken"
    for one in (A, B):
        assert f"{kind}={one}: no file of kind {kind} counts ({RUN_CDI} of kind" in verdict.because


OLDER = Control(AT, stored("older", requested=0, created=2.0), False, "not found\n")


def asker(**more: Any) -> EarlyPod:
    given = {"phase": "created", "reason": "CDIUnresolved", "message": UNRESOLVABLE, **more}
    return early(None, older=given.pop("older", OLDER), asked=ZERO, **given)


SERVED = fresh(asked=ZERO)


@pytest.mark.parametrize(
    ("old", "outcome", "said"),
    [
        (
            asker(),
            "holds",
            f"{UNRESOLVABLE}), refused; older, which runs since before, finds no driver; the fresh "
            f"one lists {A}",
        ),
        (asker(older=None), "holds", f"{UNRESOLVABLE}), refused; the fresh one"),
        (asker(advertised=RUN_CDI), "unknown", f"early enough: w1 offered {RUN_CDI} already"),
        (asker(older=LOST), "unknown", "asked could not be read: the reason"),
        (
            asker(older=dataclasses.replace(OLDER, found_driver=True)),
            "unknown",
            "older, which asked for no card, finds a driver: not found",
        ),
        (
            asker(older=Control(AT, stored("older"), False, "")),
            "unknown",
            "older is to be the control, and asks for a card",
        ),
        (asker(reason="CDINodeMissing"), "unknown", "runs no command"),
        (asker(reason="CDISourceMissing"), "unknown", "runs no command"),
        # somebody started it again once the file was there: it has its card, late
        (
            early(cards(A), older=OLDER, asked=ZERO, phase="running"),
            "broken",
            "made before its node offered a card, lists",
        ),
        (
            early(NO_TOOL, older=OLDER, asked=ZERO, phase="running"),
            "holds",
            "without nvidia-smi; older, which runs",
        ),
        (
            early(LOST, older=OLDER, asked=ZERO, phase="running", reason="CDIUnresolved"),
            "unknown",
            "neither with a card nor plainly without",
        ),
    ],
)
def test_a_container_from_before_the_cdi_file(old: EarlyPod, outcome: str, said: str) -> None:
    verdict = early_pod_unserved(old, SERVED, None, "node w1")
    check(verdict, "early-pod-unserved", outcome, said, old, SERVED)
    assert verdict.facts == (old, SERVED)
