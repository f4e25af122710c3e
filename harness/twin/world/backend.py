"""What an API server asks of the world: run a program in a container, show its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world.world import World


@dataclass(frozen=True, slots=True)
class ClusterBackend:
    """The world, as one cluster's API server sees it. ``cluster``: management or tenant-<name>."""

    world: World
    cluster: str

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], stdin: bytes
    ) -> ExecResult:
        """Run a program in a container. Raises ApiError."""
        return self.world.exec(self.cluster, namespace, pod, container, argv, stdin)

    def logs(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> bytes:
        """What a container has written. Raises ApiError."""
        del query  # tailing is the API server's
        return self.world.logs(self.cluster, namespace, pod, container)
