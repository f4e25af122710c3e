"""Ask the container engine of a machine that belongs to no cluster, and return facts.

`Podman.ask` is the one way to podman: bring-up makes and removes containers through it. It raises
LabError where podman says that it can run no container at all; a container that it refuses is a
fact. Nothing is retried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.facts import cdi, cdifiles, podman, probes
from harness.facts.cdi import CdiAbsent
from harness.facts.cdifiles import CdiFile, CdiFiles
from harness.facts.fact import Origin, Unread
from harness.facts.podman import Container
from harness.facts.probes import Seen
from harness.facts.reply import Output
from harness.observe.guest import output_of, read_file
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell

COMMAND = ("podman", "--cgroup-manager=cgroupfs")
"""Podman where no systemd runs (lab/captures/guest_systemd_modules_and_cdi.txt)."""
ASK_BUDGET = 60.0
"""Seconds for a question; without KVM each costs podman a second or two."""
LOG_LINES = 40
HOOK_DIRECTORIES = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
"""Where podman looks for OCI hooks, which it runs in every container that they match."""


@dataclass(frozen=True, slots=True)
class Podman:
    """Podman on one machine. ``node`` is how facts name the machine."""

    shell: NodeShell
    node: str
    command: tuple[str, ...] = COMMAND

    def ask(self, *words: str, timeout: float = ASK_BUDGET) -> tuple[Output, Origin]:
        """Run podman with these words, in the host's root; the answer, and where it is from."""
        reply = self.shell.host([*self.command, *words], timeout=timeout)
        output = output_of(reply)
        do = podman.unfit(output)
        if do:
            said = " ".join(output.text.split()) or output.problem
            raise LabError(f"run podman {words[0]} on {self.node}", said, do)
        return output, output.origin(reply.ended, f"{self.shell.where}:podman {words[0]}")

    def version(self) -> str | Unread:
        """Podman's name and release, "podman 4.3.1"."""
        output, origin = self.ask("--version")
        return podman.read_version(output, at=origin.at, source=origin.source)

    def containers(
        self, names: Sequence[str], hooks: Sequence[str] = ()
    ) -> tuple[Container, ...] | Unread:
        """How each of these containers was made and how it stands; ``hooks`` as `hooks` gave them.

        One question for all, so that they are seen at one moment.
        """
        output, origin = self.ask("inspect", "--type", "container", *names)
        source = f"{self.shell.where}:podman inspect {' '.join(names)}"
        return podman.read_containers(
            output, names, self.node, hooks=hooks, at=origin.at, source=source
        )

    def smi_list(self, name: str) -> Seen:
        """What ``nvidia-smi -L`` in a container comes to."""
        output, origin = self.ask("exec", name, *probes.ARGV)
        source = f"{self.shell.where} container {name}:{' '.join(probes.ARGV)}"
        return probes.read_seen(output, at=origin.at, source=source)

    def logs(self, name: str) -> str | Unread:
        """The last lines that a container wrote."""
        output, origin = self.ask("logs", "--tail", str(LOG_LINES), name)
        if output.exit_code != 0:
            return podman.lost(origin, name, output.text or output.problem)
        return output.text

    def hooks(self) -> tuple[str, ...] | Unread:
        """The OCI hooks that podman would run, by path; Debian's packages bring none."""
        found: list[str] = []
        for directory in HOOK_DIRECTORIES:
            names, _ = _listed(self.shell, directory)
            if isinstance(names, Unread):
                return names
            found += names
        return tuple(found)


def cdi_files(
    shell: NodeShell, engine: str, directories: Sequence[str] = cdifiles.DIRECTORIES
) -> CdiFiles | Unread:
    """Every CDI file of these directories, which ``engine`` reads ("podman 4.3.1", "" unknown)."""
    found: list[CdiFile] = []
    at = 0.0
    for directory in directories:
        names, at = _listed(shell, directory)
        if isinstance(names, Unread):
            return names
        found += _read(shell, names)
    origin = Origin(at, f"{shell.where}:{','.join(directories)}", "")
    return CdiFiles(origin, engine, tuple(directories), tuple(found))


def _read(shell: NodeShell, paths: Sequence[str]) -> Iterator[CdiFile]:
    for path in paths:
        output, at, source = read_file(shell, path)
        spec = cdi.read_spec(output, path, at=at, source=source)
        if not isinstance(spec, CdiAbsent):
            yield CdiFile(path, spec)


def _listed(shell: NodeShell, directory: str) -> tuple[tuple[str, ...] | Unread, float]:
    reply = shell.run(["ls", f"{shell.root}{directory}"])
    said = output_of(reply)
    stderr = said.stderr.replace(f"{shell.root}{directory}", directory)
    output = Output(said.argv, said.exit_code, said.stdout, stderr, said.problem)
    source = f"{shell.where}:{directory}"
    return cdifiles.read_names(output, directory, at=reply.ended, source=source), reply.ended
