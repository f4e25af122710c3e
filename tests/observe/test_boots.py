from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.facts.boots import BootSample
from harness.facts.fact import Unread
from harness.observe.boots import boot_sample, guest_sample
from harness.reach.nodeshell import Reply

Make = Callable[..., Any]
BOOT = "9c6cd353-d611-4b30-910f-c90ec5268979"


class Shell:
    """Answers the one command; ``code`` None for an answer that broke off."""

    where = "guest w1"
    root = "/host"

    def __init__(self, code: int | None = 0) -> None:
        self._code = code
        self.timeouts: list[float] = []

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        assert argv == ("cat", "/proc/sys/kernel/random/boot_id", "/proc/uptime")
        self.timeouts.append(timeout)
        said = f"{BOOT}\n83.25 300.10\n".encode()
        return Reply(tuple(argv), self._code, said, b"", 40.0, 42.0, "closed")

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise AssertionError("the host's own root has no cat")


def test_a_sample(cluster: Make, obj: Make) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    kube = cluster(obj("v1", "Node", "w1", status=ready))
    found = boot_sample(Shell(), kube, "w1", vmi_uid="v")
    assert isinstance(found, BootSample)
    assert (found.boot_id, found.uptime, found.vmi_uid, found.node_uid, found.node_ready) == (
        BOOT,
        83.25,
        "v",
        "uid-w1",
        True,
    )
    assert found.origin.at == 42.0


def test_a_node_that_is_gone_has_no_uid_and_is_not_ready(cluster: Make) -> None:
    found = boot_sample(Shell(), cluster(), "w1", vmi_uid="v")
    assert isinstance(found, BootSample)
    assert (found.node_uid, found.node_ready) == ("", False)


def test_an_answer_without_an_exit_status_is_none(cluster: Make) -> None:
    found = boot_sample(Shell(None), cluster(), "w1", vmi_uid="v")
    assert isinstance(found, Unread)
    assert "closed" in found.reason


def test_a_machine_of_no_cluster_is_asked_within_a_limit() -> None:
    shell = Shell()
    found = guest_sample(shell, "n1", timeout=5.0)
    assert isinstance(found, BootSample)
    assert (found.node, found.boot_id, found.origin.at) == ("n1", BOOT, 42.0)
    assert shell.timeouts == [5.0]
