"""The claim that nothing on the tenant cluster helps in secret."""

from __future__ import annotations

from collections.abc import Iterator

from harness.facts.daemonsets import DaemonSet, DaemonSets
from harness.facts.fact import Unread
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, unread

_PLATFORM = ("cozy-",)
_SYSTEM = ("kube-system",)
_BELOW = (
    "/usr",
    "/run/nvidia",
    "/run/cdi",
    "/etc/cdi",
    "/run/containerd",
    "/etc/containerd",
    "/etc/cri",
    "/etc/nvidia-container-runtime",
    "/lib/modules",
    "/lib/firmware",
    "/var/lib/kubelet/device-plugins",
)
"""Paths of the host by which a driver is put in or a runtime changed, with all below them."""
_EXACT = ("/", "/run", "/etc", "/lib", "/dev")
"""Parents of such paths: whoever mounts one has what is below it."""


def no_hidden_helper(daemonsets: DaemonSets | Unread, subject: str) -> Verdict:
    """no-hidden-helper: no DaemonSet beside the platform's own could bring a driver.

    The platform's own are in one of its namespaces (cozy-*, kube-system) and say who made them: an
    owner, or a label of Helm's or Flux's. Any other is broken where it mounts what a driver, CDI
    or the container runtime live in, or may enter the host; each such one is named. Unknown where
    the cluster has no DaemonSet at all: a tenant's own network is one.
    """
    claim = "no-hidden-helper"
    if isinstance(daemonsets, Unread):
        return unread(claim, subject, daemonsets)
    if not daemonsets.sets:
        because = "the cluster has no DaemonSet at all, which is not to be believed"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (daemonsets,))
    others = [one for one in daemonsets.sets if not _is_platforms(one)]
    found = helpers(daemonsets)
    if found:
        because = f"beside the platform, these could bring a driver unseen: {'; '.join(found)}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (daemonsets,))
    because = (
        f"of {counted(len(daemonsets.sets), 'DaemonSet')}, {len(others)} beside the platform's, "
        "none mounts what a driver, CDI or the container runtime live in"
    )
    return Verdict(claim, subject, Outcome.HOLDS, because, (daemonsets,))


def helpers(daemonsets: DaemonSets) -> list[str]:
    """Every DaemonSet beside the platform's that could bring a driver, with the ways it has."""
    others = [one for one in daemonsets.sets if not _is_platforms(one)]
    return [f"{one} ({', '.join(ways)})" for one in others if (ways := list(_ways(one)))]


def _is_platforms(one: DaemonSet) -> bool:
    at_home = one.namespace.startswith(_PLATFORM) or one.namespace in _SYSTEM
    return at_home and bool(one.owner or one.manager)


def _ways(one: DaemonSet) -> Iterator[str]:
    for path in one.host_paths:
        if _is_near(path):
            yield f"mounts {path}"
    if one.privileged and one.host_pid:
        yield "is privileged and sees the host's processes"


def _is_near(path: str) -> bool:
    """Whether a path of the host holds, or is held by, what brings a driver."""
    real = _resolved(path)
    below = any(real == one or real.startswith(f"{one}/") for one in _BELOW)
    return below or real in _EXACT or real.startswith("/dev/nvidia")


def _resolved(path: str) -> str:
    """A path without doubled and closing slashes and steps back; /var/run is /run."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    if parts[:2] == ["var", "run"]:
        parts = parts[1:]
    return "/" + "/".join(parts)
