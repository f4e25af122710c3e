"""What is no object: kernels' logs, modules, DRBD, LINSTOR, nvidia-smi, talosctl, descriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.case import MANAGEMENT, Kind, Text
from harness.facts.fact import Origin
from harness.facts.linstor import LinstorNodes, LinstorPools, LinstorResources
from harness.facts.linstor_json import read_nodes, read_pools, read_resources
from harness.facts.objects import condition
from tests.diagnose.reading.reading_files import CAPTURES, REAL, read, whys

MODULES = """\
virtio_net 90112 0 - Live 0x0000000000000000
failover 16384 1 virtio_net, Live 0x0000000000000000
overlay 217088 21 - Live 0x0000000000000000
"""
NVIDIA = """\
nvidia_drm 16384 0 - Live 0xffffffffc0327000 (OE)
nvidia 16384 2 nvidia_drm, Live 0xffffffffc0314000 (OE)
"""
SERVICES = """\
NODE     SERVICE                   STATE     HEALTH   LAST CHANGE   LAST EVENT
work-1   apid                      Running   OK       41m12s ago    Health check successful
work-1   ext-nvidia-persistenced   Waiting   ?        41m21s ago    Waiting for path "/x" to exist
"""
EXTENSIONS = """\
NODE     NAMESPACE   TYPE              ID   VERSION   NAME         VERSION
work-1   runtime     ExtensionStatus   0    1         nvidia-kmod  595.45.04-v1.13.6
work-1   runtime     ExtensionStatus   1    1         schematic    2f6f9e
"""


def text(tmp_path: Path, content: str, name: str = "capture.txt") -> Text:
    found = read(tmp_path, {name: content}).texts
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (Kind.MODULES, MODULES),
        (Kind.MODULES, "Module                  Size  Used by\nnvidia 16384 2 nvidia_drm\n"),
        (Kind.PARAMS, 'ResmanDebugLevel: 4294967295\nNvLinkDisable: 1\nRegistryDwords: ""\n'),
        (Kind.SMI_LIST, "No devices found\n"),
        (
            Kind.DRIVER,
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC\n"
            "GCC version:  gcc version 12.2.0\n",
        ),
        (Kind.HOST, "/sys/module/kvm_amd/parameters/vgif:0\n"),
        (Kind.NVIDIA_SMI, "NVIDIA-SMI has failed because it couldn't communicate\n"),
        (Kind.NVIDIA_SMI, "+----+\n| NVIDIA-SMI 595.45.04   Driver Version: 595.45.04 |\n"),
        (Kind.LSPCI, "3b:00.0 3D controller [0302]: NVIDIA [10de:26b9] (rev a1)\n"),
        (Kind.DRBD, "r0 role:Primary suspended:quorum\n  volume:0 disk:UpToDate\n"),
        (Kind.DRBD, "exists resource name:r0 role:Primary\nexists -\n"),
        (Kind.DRBD, '[{"name": "r0", "role": "Primary", "devices": [], "connections": []}]\n'),
        (Kind.PROC_DRBD, "version: 8.4.11 (api:1/proto:86-101)\n 0: cs:Connected\n"),
        (Kind.LINSTOR, '[{"name": "n1", "type": "SATELLITE", "connection_status": "ONLINE"}]\n'),
        (Kind.LINSTOR, '[[{"storage_pool_name": "data", "node_name": "n1"}]]\n'),
        (Kind.TALOS_SERVICES, SERVICES),
        (Kind.TALOS_EXTENSIONS, EXTENSIONS),
        (Kind.MEMINFO, "MemTotal:  4014080 kB\nMemAvailable: 18820 kB\n"),
        (Kind.MEMINFO, "               total        used        free\nMem:  468   35   376\n"),
        (Kind.UPTIME, " 08:16:47 up 1 min,  0 user,  load average: 1.23, 0.41, 0.15\n"),
        (Kind.UPTIME, "4206.12 8000.33\n"),
        (
            Kind.HELM_MESSAGE,
            "Helm install failed for release a/b with chart c@1: execution error\n",
        ),
        (Kind.LOG, "I0601 08:00:00.000000       1 main.go:7] started\n" * 3),
        (Kind.LOG, '{"level":"error","ts":"x","msg":"no"}\n{"level":"info","msg":"y"}\n'),
        (Kind.DMESG, "[    0.000000] Linux version 6.1\n[    1.500000] usb 1-1: new\n"),
        (Kind.DMESG, "[Mon Jun  1 08:00:00 2026] Linux version 6.1\n"),
        (Kind.DMESG, "10.5.0.2: kern:    info: [2026-06-01T08:00:00.1Z]: Linux version 6.18\n"),
        (
            Kind.CONSOLE,
            "[    0.0000] Linux version 6.1\nn1 login: \n[    0.0000] Linux version 6.1\n",
        ),
        (Kind.UNKNOWN, "hello there\n"),
    ],
)
def test_what_a_text_is(tmp_path: Path, kind: Kind, content: str) -> None:
    assert text(tmp_path, content).kind is kind


def test_what_was_filtered_is_a_part(tmp_path: Path) -> None:
    assert not text(tmp_path, MODULES).cut
    assert text(tmp_path, "$ grep nvidia /proc/modules\n" + NVIDIA).cut
    assert text(tmp_path, NVIDIA).cut
    assert text(tmp_path, MODULES[:-20]).cut
    assert not text(tmp_path, MODULES + NVIDIA).cut
    assert text(tmp_path, "MemTotal:  4014080 kB\nMemAvail").cut
    assert text(tmp_path, "$ dmesg | tail -2\n[   10.00000] a\n[   11.000000] b\n").cut


def test_a_prompt_names_the_machine(tmp_path: Path) -> None:
    assert text(tmp_path, "root@hv-1:~# cat /proc/modules\n" + MODULES).node == "hv-1"
    assert text(tmp_path, "$ talosctl -n work-1 services\n" + SERVICES).node == "work-1"
    log = "$ kubectl logs -n gpu val-x -c driver\nI0601 08:00:00.000000 1 main.go:7] x\n"
    assert text(tmp_path, log).node == "gpu/val-x/driver"


def test_what_was_not_recognised_is_told(tmp_path: Path) -> None:
    assert "capture.txt:1: not recognised: 'hello there'" in whys(
        read(tmp_path, {"capture.txt": "hello there\n"})
    )


def test_a_schematic_is_known_by_a_nodes_extensions(tmp_path: Path) -> None:
    assert read(tmp_path, {"e.txt": EXTENSIONS}).schematics == {"2f6f9e": ("nvidia-kmod",)}


def test_linstors_tables_are_read_as_its_json(tmp_path: Path) -> None:
    tables = """\
+------------------------------------------------------+
| Node | NodeType  | Addresses            | State       |
|======================================================|
| hv-1 | SATELLITE | 10.0.0.1:3367 (SSL)  | Online      |
| hv-2 | SATELLITE | 10.0.0.2:3367 (SSL)  | OFFLINE     |
+------------------------------------------------------+
╭───────────────────────────────────────────────────────────────────────────╮
┊ StoragePool ┊ Node ┊ Driver ┊ PoolName ┊ FreeCapacity ┊ TotalCapacity ┊ State ┊
╞═══════════════════════════════════════════════════════════════════════════╡
┊ data        ┊ hv-1 ┊ ZFS    ┊ data     ┊     1.50 GiB ┊       200 GiB ┊ Ok    ┊
╰───────────────────────────────────────────────────────────────────────────╯
+-----------------------------------------------------------------------------+
| ResourceName | Node | Port | Usage | Conns            |    State | CreatedOn |
|=============================================================================|
| pvc-1        | hv-1 | 7000 | InUse | Connecting(hv-2) | UpToDate | x         |
| pvc-1        | hv-2 | 7000 |       |                  |  Unknown | x         |
"""
    case = read(tmp_path, {"l.txt": tables})
    nodes, pools, resources = (one.text for one in case.of(Kind.LINSTOR))
    origin = Origin(0.0, "", "")
    read_as = read_nodes(nodes, origin)
    assert isinstance(read_as, LinstorNodes)
    assert [(one.name, one.connection) for one in read_as.nodes] == [
        ("hv-1", "ONLINE"),
        ("hv-2", "OFFLINE"),
    ]
    found = read_pools(pools, origin)
    assert isinstance(found, LinstorPools)
    assert (found.pools[0].free, found.pools[0].provider) == (1572864, "ZFS")
    replicas = read_resources(resources, origin)
    assert isinstance(replicas, LinstorResources)
    assert replicas.replicas[0].connection("hv-2").message == "Connecting"  # type: ignore[union-attr]
    assert [one.cut for one in case.of(Kind.LINSTOR)] == [False, False, True]
    assert {one.cluster for one in case.of(Kind.LINSTOR)} == {MANAGEMENT}


# -- descriptions


def test_a_described_instance(tmp_path: Path) -> None:
    case = read(tmp_path, {"d.txt": (CAPTURES / "management-desc-vmi.txt").read_text()})
    thing, *events = case.objects
    assert {event.obj["reason"] for event in events} == {"SuccessfulCreate", "Started"}
    assert (thing.kind, thing.cluster) == ("VirtualMachineInstance", MANAGEMENT)
    assert thing.obj["status"]["phase"] == "Running"
    assert condition(thing.obj, "LiveMigratable")["reason"] == "HostDeviceNotLiveMigratable"
    assert thing.obj["metadata"]["labels"]["cluster.x-k8s.io/role"] == "worker"
    assert thing.obj["metadata"]["uid"]
    assert not thing.knows("spec", "domain")


def test_a_described_node(tmp_path: Path) -> None:
    case = read(tmp_path, {"d.txt": (CAPTURES / "tenant-desc-node.txt").read_text()})
    (node,) = (thing for thing in case.objects if thing.kind == "Node")
    assert node.obj["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert node.knows("status", "allocatable")
    assert node.obj["status"]["nodeInfo"]["bootID"]
    assert condition(node.obj, "Ready")["status"] == "True"


def test_events_below_a_description(tmp_path: Path) -> None:
    described = """\
Name:         a
Namespace:    cozy-public
Labels:       <none>
API Version:  cdi.kubevirt.io/v1beta1
Kind:         DataVolume
Status:
  Phase:          ImportInProgress
  Restart Count:  14
Events:
  Type     Reason  Age                From               Message
  ----     ------  ----               ----               -------
  Warning  Error   2m (x14 over 69m)  import-controller  Unable to connect: 503
"""
    case = read(tmp_path, {"d.txt": described})
    volume, event = case.objects
    assert volume.obj["status"] == {"phase": "ImportInProgress", "restartCount": 14}
    assert volume.knows("status", "restartCount")
    assert (event.obj["reason"], event.obj["count"]) == ("Error", 14)
    (half,) = read(tmp_path, {"d.txt": described[: described.index("  Restart")]}).objects
    assert half.obj["status"] == {"phase": "ImportInProgress"}
    assert not half.knows("status", "restartCount")
    assert event.obj["involvedObject"]["name"] == "a"


# -- real machines


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the captures of real machines are not at {REAL}")
def test_real_captures_are_recognised(tmp_path: Path) -> None:
    expected = {
        "console_first_boot_and_login.txt": {Kind.CONSOLE},
        "console_reboots.txt": {Kind.CONSOLE},
        "dmesg_drbd9_n1.txt": {Kind.DMESG},
        "dmesg_drbd84_link_cut_n1.txt": {Kind.DMESG},
        "drbd9_07_n1_quorum_lost.txt": {Kind.DRBD, Kind.PROC_DRBD, Kind.UNKNOWN},
        "drbd84_events2_stream_cut_and_resync.txt": {Kind.DRBD},
    }
    for name, kinds in expected.items():
        case = read(tmp_path / name, {name: (REAL / name).read_bytes()})
        assert {one.kind for one in case.texts} == kinds, name
    guest = read(tmp_path / "g", {"g": (REAL / "guest_fastinit_cdi.txt").read_bytes()})
    assert {Kind.MODULES, Kind.PARAMS, Kind.SMI_LIST, Kind.MEMINFO} <= {t.kind for t in guest.texts}
    drbd = read(tmp_path / "d", {"d": (REAL / "drbd9_03_uptodate_all.txt").read_bytes()})
    assert {one.node for one in drbd.of(Kind.DRBD)} == {"n1", "n2", "n3"}
