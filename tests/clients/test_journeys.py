"""What a person changes with kubectl, and what a run then says of it: a whole way each time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.clients.driving import LAB, NAMESPACE, Binary, Kubectl, RunningTwin, hil, pool_request

VANILLA = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
CARD = "nvidia.com/AD102GL_L40S"
HERE = ("-n", NAMESPACE)
WEBHOOK = 'admission webhook "vtalosconfigtemplate.cluster.x-k8s.io" denied the request'
GUEST = frozenset(
    {
        "cdi-injection",
        "cdi-spec",
        "cuda-runs",
        "driver-sees-gpu",
        "early-pod-unserved",
        "fabric-state",
        "gpu-advertised",
        "host-driver-accepted",
        "kernel-module-order",
        "module-flavour",
        "modules-live",
        "nvlink-param",
    }
)
WORKERS = frozenset({"no-hidden-helper", "no-roll", "operator-live", "vfio-bound"})
CHART = frozenset(
    {"kernel-modules-refused", "kernel-modules-verbatim", "operator-default", "rollout"}
)
RENDERED = frozenset(
    {
        "spec-read-back",
        "render-modules",
        "render-module-order",
        "render-module-params",
        "schematic-consistent",
    }
)
STORAGE = frozenset({"storage-ok", "linstor-agrees", "headroom"})
DISKS = frozenset({"disk-source", "disk-phases"})
INSIDE = frozenset({"disk-shape", "addons-up"})
SCRATCH = frozenset({"os-image-refused", "spec-applied"})
PLATFORM = CHART | RENDERED | STORAGE | DISKS | SCRATCH
BOOTED = frozenset({"apid-serves", "uptime"})
CLAIMS = (
    GUEST
    | WORKERS
    | PLATFORM
    | INSIDE
    | BOOTED
    | {"image-fits", "node-joins", "nothing-left", "passthrough"}
)
UNADVERTISED = frozenset({"cdi-spec", "gpu-advertised", "host-driver-accepted"})
# An editor: takes the card's entry out of the list of devices that guests may be given.
FORBID = f"""
import pathlib, sys, yaml
file = pathlib.Path(sys.argv[1])
obj = yaml.safe_load(file.read_text())
permitted = obj["spec"]["configuration"]["permittedHostDevices"]
devices = permitted["pciHostDevices"]
permitted["pciHostDevices"] = [one for one in devices if one["resourceName"] != "{CARD}"]
file.write_text(yaml.safe_dump(obj))
"""


@pytest.fixture
def lab(newest: Binary, twin: Callable[..., RunningTwin]) -> Kubectl:
    """kubectl on a twin in which nothing has happened yet."""
    return newest.at(twin())


def ask_for_pool(lab: Kubectl) -> None:
    lab("apply", "-f", "-", stdin=json.dumps(pool_request()))


def template(lab: Kubectl) -> str:
    """Let time pass until the pool's TalosConfigTemplate is there; gives its name."""
    for _ in range(60):
        found = lab("get", "talosconfigtemplate", *HERE, "-o", "name").stdout.split()
        if found:
            return str(found[0].partition("/")[2])
        lab.twin.advance(1)
    pytest.fail("no TalosConfigTemplate in a minute")


def driven(lab: Kubectl, out: Path, *more: str, code: int = 1) -> dict[str, frozenset[str]]:
    """`hil run --attach`: the claims by what came out."""
    where = ("--attach", str(lab.twin.directory), "--pool", "gpu-l40s", *more)
    ran = hil("run", "--quiet", *where, "--out", str(out), "--run-id", "journey", code=code)
    text = (out / "journey" / "ledger.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    verdicts = [record for record in records if record["record"] == "verdict"]
    assert {record["claim"] for record in verdicts} == CLAIMS, ran
    outcomes = {record["outcome"] for record in verdicts}
    return {
        outcome: frozenset(r["claim"] for r in verdicts if r["outcome"] == outcome)
        for outcome in outcomes
    }


def without_modules(text: str) -> str:
    """A TalosConfigTemplate (JSON) whose machine config has lost machine.kernel.modules."""
    obj = json.loads(text)
    inner = obj["spec"]["template"]["spec"]
    config = yaml.safe_load(inner["data"])
    assert [module["name"] for module in config["machine"]["kernel"]["modules"]] == [
        "nvidia",
        "nvidia_uvm",
        "nvidia_drm",
        "nvidia_modeset",
    ]
    del config["machine"]["kernel"]["modules"]
    inner["data"] = yaml.safe_dump(config, sort_keys=False)
    return json.dumps(obj)


def refuses_to_change(lab: Kubectl, name: str, wanted: str) -> None:
    """Everything that would change the template where it stands is refused by the webhook."""
    spec = json.dumps({"spec": json.loads(wanted)["spec"]})
    replaced = lab("replace", "-f", "-", stdin=wanted, code=1)
    merged = lab("patch", "talosconfigtemplate", name, *HERE, "--type", "merge", "-p", spec, code=1)
    edit = ("edit", "talosconfigtemplate", name, *HERE)
    edited = lab(*edit, code=1, KUBE_EDITOR="sed -i s/nvidia_uvm/nvidia_uvx/")
    for refused in (replaced, merged, edited):
        assert WEBHOOK in refused.stderr
        assert "TalosConfigTemplate.Spec is immutable" in refused.stderr


def left_standing(lab: Kubectl) -> None:
    """The pool that a person made is still there after a run that did not make it."""
    assert lab("get", "kubernetesnodes", "lab-gpu-l40s", *HERE, "-o", "name").stdout
    assert lab.read("get", "md", "kubernetes-lab-gpu-l40s", *HERE)["spec"]["replicas"] == 1
    (lease,) = lab.read("get", "leases", *HERE)["items"]
    assert not lease["spec"].get("holderIdentity")


MODULES_GONE = {
    # the image's services wait for a driver that is never loaded, and the boot is given up for it
    "broken": UNADVERTISED
    | {"render-modules", "modules-live", "driver-sees-gpu", "image-fits", "uptime"},
    "unknown": GUEST - UNADVERTISED - {"modules-live", "driver-sees-gpu"}
    | {"render-module-order", "render-module-params"},
    "holds": WORKERS
    | INSIDE
    | (PLATFORM - {"render-modules", "render-module-order", "render-module-params"})
    | {"apid-serves", "node-joins", "nothing-left", "passthrough"},
}


@pytest.mark.parametrize("way", ["replace --force", "delete and create"])
def test_modules_taken_out_of_the_template(lab: Kubectl, tmp_path: Path, way: str) -> None:
    ask_for_pool(lab)
    name = template(lab)
    assert lab("get", "machines", *HERE, "-o", "name").stdout == ""  # no worker booted
    held = lab("get", "talosconfigtemplate", name, *HERE, "-o", "json").stdout
    wanted = without_modules(held)
    refuses_to_change(lab, name, wanted)
    if way == "replace --force":
        lab("replace", "--force", "-f", "-", stdin=wanted)
    else:
        lab("delete", "talosconfigtemplate", name, *HERE)
        lab.twin.advance(120)  # in which the MachineSet finds nothing to clone
        (machine_set,) = lab.read("get", "machinesets", *HERE)["items"]
        reasons = [condition.get("reason") for condition in machine_set["status"]["conditions"]]
        assert "BootstrapTemplateCloningFailed" in reasons
        fresh = json.loads(wanted)
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            del fresh["metadata"][field]
        lab("create", "-f", "-", stdin=json.dumps(fresh))
    assert driven(lab, tmp_path / "out") == MODULES_GONE
    left_standing(lab)
    kept = lab.read("get", "talosconfigtemplate", name, *HERE)  # not collected, not rewritten
    assert kept["spec"] == json.loads(wanted)["spec"]


def test_another_schematic_before_the_first_boot(lab: Kubectl, tmp_path: Path) -> None:
    ask_for_pool(lab)
    template(lab)
    vanilla = json.dumps({"spec": {"talos": {"schematicID": VANILLA}}})
    patch = ("patch", "kubernetesnodes", "lab-gpu-l40s", *HERE, "--type", "merge", "-p", vanilla)
    assert lab(*patch).stdout == "kubernetesnodes.apps.cozystack.io/lab-gpu-l40s patched\n"
    # a run takes no pool for the one it was told of when it is another
    assert driven(lab, tmp_path / "told", code=3) == {"unknown": CLAIMS}
    inventory = yaml.safe_load(LAB.read_text())
    inventory["pools"]["gpu-l40s"] |= {"schematic": "vanilla", "misfit": "to see what breaks"}
    file = tmp_path / "lab.yaml"
    file.write_text(yaml.safe_dump(inventory))
    assert driven(lab, tmp_path / "out", "--lab", str(file)) == {
        "broken": UNADVERTISED | {"modules-live"},
        # that image has no driver, and no nvidia-smi
        "unknown": GUEST - UNADVERTISED - {"modules-live"},
        "holds": PLATFORM
        | WORKERS
        | INSIDE
        | BOOTED
        | {"image-fits", "node-joins", "nothing-left", "passthrough"},
    }
    left_standing(lab)


def test_a_card_taken_out_of_the_kubevirt_cr(lab: Kubectl, tmp_path: Path) -> None:
    kubevirt = ("kubevirt", "kubevirt", "-n", "cozy-kubevirt")
    permitted = "{.spec.configuration.permittedHostDevices.pciHostDevices[*].resourceName}"
    assert CARD in lab("get", *kubevirt, "-o", f"jsonpath={permitted}").stdout
    editor = tmp_path / "editor.py"
    editor.write_text(FORBID)
    lab("edit", *kubevirt, KUBE_EDITOR=f"{sys.executable} {editor}")
    assert CARD not in lab("get", *kubevirt, "-o", f"jsonpath={permitted}").stdout
    ask_for_pool(lab)
    assert driven(lab, tmp_path / "out") == {
        "broken": frozenset({"node-joins", "passthrough"}),
        "unknown": GUEST | WORKERS | INSIDE | BOOTED,
        # the control plane's half of apid-serves was seen
        "holds": PLATFORM | {"apid-serves", "image-fits", "nothing-left"},
    }
    left_standing(lab)
