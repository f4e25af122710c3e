"""A container that is there already as a `harness.reach.nodeshell.NodeShell`: a satellite's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.reach.execs import Reply, run_in_pod

if TYPE_CHECKING:
    from harness.reach.kube import Kube


@dataclass(frozen=True, slots=True)
class ContainerShell:
    """Runs commands in one container, which is somebody else's and stays.

    ``where`` names the machine that it stands for; there is no host root beside its own.
    """

    kube: Kube
    namespace: str
    pod: str
    container: str
    where: str
    root: str = ""

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """Run a command in the container."""
        return run_in_pod(
            self.kube, self.namespace, self.pod, argv, container=self.container, timeout=timeout
        )

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """The same as `run`: the container's root is the only one it has."""
        return self.run(argv, timeout=timeout)
