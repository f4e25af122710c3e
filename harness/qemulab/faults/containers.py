"""Faults on the way of a card into a container: the CDI file, and what it names.

The first guest has each; the other one is as it was.
"""

from __future__ import annotations

from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.model import Fault

GENERATOR = "/usr/local/bin/hil-cdi-generate"
SPEC = "/run/cdi/nvidia.yaml"
TOOL = "/usr/local/bin/nvidia-smi"
_FAILING = """#!/bin/sh
echo "hil-cdi-generate: failed to initialize NVML: Driver/library version mismatch" >&2
exit 1
"""


def _generator_fails(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.write(guest, GENERATOR, _FAILING, program=True)
    bench.run(guest, "rm", "-f", SPEC)


def _version_too_new(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.replace(guest, GENERATOR, "cdiVersion: 0.5.0", "cdiVersion: 0.6.0")
    bench.run(guest, GENERATOR)


def _card_node_missing(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.run(guest, "rm", "/dev/nvidia0")


def _tool_missing(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.run(guest, "mv", TOOL, f"{TOOL}.old")


def _two_specs(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.sh(guest, 'cp "$1" "${1%.yaml}-old.yaml"', SPEC)


def _stale_elsewhere(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.sh(guest, 'mkdir -p /etc/cdi && sed s/nvidia0/nvidia9/ "$1" >/etc/cdi/nvidia.yaml', SPEC)


FAULTS = (
    Fault(
        id="cdi-generator-fails",
        sentence="The service that writes the CDI file fails at its first word with the driver.",
        seen="no /run/cdi/nvidia.yaml; podman: unresolvable CDI devices",
        wrong_diagnosis="podman does not know CDI",
        edit=_generator_fails,
        breaks=frozenset({"cdi-spec", "cdi-injection"}),
        controls=frozenset({"modules-live", "nvlink-param"}),
    ),
    Fault(
        id="cdi-version-too-new",
        sentence="The CDI file is written in version 0.6.0, which podman 4.3 does not read.",
        seen="the file names the card; podman: unresolvable CDI devices, as if it were not there",
        wrong_diagnosis="the CDI file is missing: podman says the same of a missing one",
        edit=_version_too_new,
        breaks=frozenset({"cdi-injection"}),
        controls=frozenset({"cdi-spec", "modules-live"}),
        says={"cdi-injection": "0.6.0"},
    ),
    Fault(
        id="card-node-missing",
        sentence="The CDI file names /dev/nvidia0, and the machine has no such node any more.",
        seen="podman: failed to stat CDI host device /dev/nvidia0",
        wrong_diagnosis="the container's image is broken",
        edit=_card_node_missing,
        breaks=frozenset({"cdi-injection"}),
        controls=frozenset({"cdi-spec", "modules-live"}),
        says={"cdi-injection": "/dev/nvidia0"},
    ),
    Fault(
        id="driver-tool-missing",
        sentence="The CDI file mounts the driver's nvidia-smi, which is no more where it was.",
        seen="the container does not start: a mount's source does not exist",
        wrong_diagnosis="the card is gone",
        edit=_tool_missing,
        breaks=frozenset({"cdi-injection"}),
        controls=frozenset({"cdi-spec", "modules-live"}),
        says={"cdi-injection": TOOL},
    ),
    Fault(
        id="cdi-card-named-twice",
        sentence="An older CDI file of the same directory names the same card.",
        seen="both files are sound; podman: unresolvable CDI devices",
        wrong_diagnosis="the CDI file is sound, so it must be podman",
        edit=_two_specs,
        breaks=frozenset({"cdi-injection"}),
        controls=frozenset({"cdi-spec", "modules-live"}),
    ),
    Fault(
        id="cdi-stale-file-elsewhere",
        sentence="/etc/cdi has an old CDI file that names the card with a node it no longer has.",
        seen="two files name the same card; the one in /var/run/cdi wins, without a word",
        wrong_diagnosis="the card is named twice, so no container gets it",
        edit=_stale_elsewhere,
        controls=frozenset({"cdi-injection", "cdi-spec"}),
        harmless=True,
    ),
)
