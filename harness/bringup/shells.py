"""The privileged pod on a worker through which its operating system is asked."""

from __future__ import annotations

from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import PoolNotReady
from harness.reach.kube import Kube
from harness.reach.nodeshell import PodShell

BUDGET = 300.0
"""Seconds that a node may take to pull the shell's image and start its pod."""
NAMESPACE = "hil-shell"


def open_shell(lab: ConnectedLab, image: str, node: str) -> PodShell:
    """A privileged pod on a node of the tenant cluster, running. Raises PoolNotReady."""

    def wait_running(kube: Kube, namespace: str, name: str) -> None:
        feed = lab.observatory.feed(kube, "v1", "Pod", namespace)
        seen = feed.wait(
            lambda r: (
                r.key == (namespace, name) and r.obj.get("status", {}).get("phase") == "Running"
            ),
            lab.clock.deadline(BUDGET),
            f"pod {namespace}/{name} to run",
        )
        if seen is None:
            status = (feed.object(name) or {}).get("status", {})
            raise PoolNotReady(
                f"no shell on the node: pod {namespace}/{name} is {status.get('phase', 'gone')} "
                f"after {BUDGET:.0f} s ({status.get('conditions', [])!r:.300})"
            )

    return PodShell.open(
        lab.tenant,
        node,
        run=lab.run_id,
        image=image,
        wait_running=wait_running,
        namespace=NAMESPACE,
    )
