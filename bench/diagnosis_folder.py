"""How long `hil diagnose --from` takes, and how much memory: `python -m bench.diagnosis_folder`.

One folder holds 10,000 objects of both clusters as kubectl writes them, JSON and YAML, with a cause
planted among them; another a console log of 1 GB, whose telling line stands in the middle. Each is
read by a process of its own, whose peak of resident memory (ru_maxrss) and wall time are told.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

OBJECTS = 10_000
LOG = 10**9
TARGET = 500.0
"""MB of memory that a look at any folder stays below."""
_KINDS = (
    ("v1", "Pod", "tenant-t"),
    ("v1", "Event", "tenant-t"),
    ("cluster.x-k8s.io/v1beta1", "Machine", "tenant-t"),
    ("kubevirt.io/v1", "VirtualMachineInstance", "tenant-t"),
    ("cdi.kubevirt.io/v1beta1", "DataVolume", "tenant-t"),
)
_TELLS = (
    b'[ 4200.0] [talos] task startAllServices (1/1): service "ext-nvidia-persistenced" to be up\n'
)
_LINE = b"[ 1.0] systemd-less line of a guest that says nothing of interest, again and again\n"


def objects(folder: Path, count: int) -> None:
    """Lists of many objects, half JSON, half YAML, and a Service without port 50001."""
    share = count // len(_KINDS)
    for number, (version, kind, namespace) in enumerate(_KINDS):
        made = list(_objects(version, kind, namespace, share))
        whole = {"apiVersion": "v1", "kind": "List", "items": made}
        if number % 2:
            text = yaml.dump(whole, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
            (folder / f"{kind.lower()}s.yaml").write_text(text)
        else:
            (folder / f"{kind.lower()}s.json").write_text(json.dumps(whole, indent=1))
    metadata = {"name": "kubernetes-lab", "namespace": "tenant-t", "uid": "service-1"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    metadata_labels = {"kamaji.clastix.io/name": "kubernetes-lab"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "labels": metadata_labels},
        "spec": {"ports": [{"port": 6443}, {"port": 8132}]},
    }
    (folder / "service.json").write_text(json.dumps(service))


def log(folder: Path, size: int) -> None:
    """A console's log of so many bytes."""
    block = _LINE * 12_000
    with (folder / "console.log").open("wb") as file:
        while file.tell() < size // 2:
            file.write(block)
        file.write(_TELLS)
        while file.tell() < size:
            file.write(block)


def measured(fill: Callable[[Path], None]) -> tuple[float, float, float, Any]:
    """Seconds, MB of memory at most, MB on the disk, and the answer."""
    with tempfile.TemporaryDirectory(prefix="hil-folder-") as name:
        folder = Path(name)
        fill(folder)
        size = sum(one.stat().st_size for one in folder.iterdir()) / 1e6
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli", "diagnose", "--from", name, "--json"],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        said = process.stdout.read()
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        return time.monotonic() - began, used.ru_maxrss / 1e3, size, json.loads(said)


def main(argv: Sequence[str]) -> int:
    """Print a line for each folder; 1 where one takes more memory than it may."""
    parser = argparse.ArgumentParser(prog="python -m bench.diagnosis_folder")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--log", type=int, default=LOG, metavar="BYTES")
    chosen = parser.parse_args(argv)
    most = 0.0
    for name, fill in (
        (f"{chosen.objects} objects", lambda folder: objects(folder, chosen.objects)),
        (f"a log of {chosen.log / 1e9:g} GB", lambda folder: log(folder, chosen.log)),
    ):
        seconds, memory, size, said = measured(fill)
        most = max(most, memory)
        named = [one["id"] for one in said["causes"] if one["standing"] == "named"]
        print(
            f"{name:<20} {size:>8.1f} MB {seconds:>7.1f} s {memory:>7.0f} MB of memory   "
            f"looked at {said['lookedAt']}, named: {', '.join(named) or '-'}",
            flush=True,
        )
    return int(most > TARGET)


def _objects(version: str, kind: str, namespace: str, count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        name = f"kubernetes-lab-md0-{number:05d}"
        metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{number:06d}"}
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
        labels = {"cluster.x-k8s.io/deployment-name": "kubernetes-lab-md0"}
        made: dict[str, Any] = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {**metadata, "labels": labels},
            "spec": {"nodeName": f"hv-{number % 40}", "note": "x" * 200},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ]},
        }  # fmt: skip
        if kind == "Event":
            about = {"kind": "Pod", "name": name, "namespace": namespace}
            made |= {"involvedObject": about, "reason": "Pulled", "message": "pulled", "type": "N"}
        yield made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
