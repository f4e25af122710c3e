"""Waiting for the GPU operator on one node: it is through when the node offers its cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.clock import Deadline
from harness.facts.gpunode import RESOURCE
from harness.facts.objects import condition, listed, mapped, text_at
from harness.facts.validator import CUDA, VALIDATOR
from harness.observe.operator import NAMESPACE
from harness.reach.history import Obj

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

OPERATOR_BUDGET = 900.0
"""Seconds from the first question about a Ready node until the operator is taken to be stuck: its
images are large, and its stages wait for one another."""


class OperatorWait:
    """Waits for the operator on one node, once: the budget is for all questions together."""

    def __init__(self, pool: HeldPool, node: str) -> None:
        self._pool = pool
        self._node = node
        self._deadline: Deadline | None = None

    def __call__(self) -> None:
        """Return when the operator is through, or at the end of the budget, whatever it came to."""
        lab, cards = self._pool.lab, str(self._pool.request.cards)
        pods = lab.observatory.feed(lab.tenant, "v1", "Pod", NAMESPACE)
        nodes = self._pool.watched.nodes
        if self._deadline is None:
            self._deadline = lab.clock.deadline(OPERATOR_BUDGET)

        def through() -> bool:
            node = nodes.object(self._node) or {}
            offered = mapped(node, "status", "allocatable").get(RESOURCE)
            return str(offered) == cards and _validated(pods.objects(), self._node)

        what = f"the GPU operator to be through on node {self._node}"
        self._pool.wait(through, self._deadline.remaining(), what)


def _validated(pods: list[Obj], node: str) -> bool:
    """Whether the validator's pod on the node is Ready and its CUDA program ended well."""
    here = [one for one in pods if text_at(one, "spec", "nodeName") == node]
    ready = any(_is(one, VALIDATOR) and _ready(one) for one in here)
    return ready and any(
        _is(one, CUDA) and text_at(one, "status", "phase") == "Succeeded" for one in here
    )


def _is(pod: Obj, app: str) -> bool:
    return bool(mapped(pod, "metadata", "labels").get("app") == app)


def _ready(pod: Obj) -> bool:
    started = bool(listed(pod, "status", "containerStatuses"))
    return started and text_at(condition(pod, "Ready"), "status") == "True"
