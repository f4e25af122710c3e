from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from harness.facts.drbd import DrbdStatus
from harness.facts.fact import Unread
from harness.facts.linstor import LinstorErrors, LinstorNodes, LinstorPools, LinstorVersion
from harness.observe import linstor as observe
from harness.reach.bounded import Answer
from harness.reach.errors import Garbled, LabError, Unreachable
from harness.reach.linstor import LinstorRefused
from harness.reach.nodeshell import Reply
from tests.facts.drbd_texts import PROC9
from tests.facts.linstor_texts import NAMES, node, pool, resource

STATUS = [
    {
        "name": "pvc-1",
        "node-id": 0,
        "role": "Primary",
        "suspended": False,
        "devices": [{"volume": 0, "disk-state": "UpToDate", "client": False, "quorum": True}],
        "connections": [],
    }
]


def now() -> float:
    return 9.0


class Controller:
    """Answers as told by path, and keeps what was asked; an error is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "/v1/nodes": [node(name) for name in NAMES],
            "/v1/view/resources": [resource("pvc-1", "n1")],
            **answers,
        }
        self.asked: list[str] = []

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        self.asked.append(f"{path}?{dict(query)}" if query else path)
        found = self.answers[path]
        if isinstance(found, Exception):
            raise found
        text = found if isinstance(found, str) else json.dumps(found)
        return Answer(f"LINSTOR {path}", text, 7.0)


class Satellite:
    """A shell on a storage node with DRBD 9."""

    def __init__(self, controller: Controller, name: str, *, deaf: bool = False) -> None:
        self.where = f"storage node {name}"
        self._controller, self._name, self._deaf = controller, name, deaf

    def run(self, argv: Any, **_: Any) -> Reply:
        if self._deaf:
            raise Unreachable("run in it", "no pod", "look")
        self._controller.asked.append(self._name)
        text = PROC9 if argv[0] == "cat" else json.dumps(STATUS)
        return Reply(tuple(argv), 0, text.encode(), b"", 8.0, 8.0)


def test_facts_bear_the_answers_time_and_text() -> None:
    controller: Any = Controller(
        **{
            "/v1/view/storage-pools": [pool("n1", 5)],
            "/v1/error-reports": [],
            "/v1/controller/version": {"version": "1.31.3"},
        }
    )
    nodes = observe.nodes(controller, now=now)
    assert isinstance(nodes, LinstorNodes)
    assert (nodes.origin.at, nodes.origin.source) == (7.0, "LINSTOR /v1/nodes")
    assert json.loads(nodes.origin.raw) == [node(name) for name in NAMES]
    assert isinstance(observe.pools(controller, now=now), LinstorPools)
    assert isinstance(observe.errors(controller, now=now), LinstorErrors)
    assert isinstance(observe.version(controller, now=now), LinstorVersion)
    assert controller.asked[2] == "/v1/error-reports?{'limit': '20'}"


@pytest.mark.parametrize(
    "error",
    [
        LinstorRefused("ask", 500, ("out of memory",), ""),
        Garbled("ask", "'<html>', which is no JSON", "look"),
    ],
)
def test_refusal_is_unread_with_its_own_words(error: LabError) -> None:
    controller: Any = Controller(**{"/v1/nodes": error})
    found = observe.nodes(controller, now=now)
    assert isinstance(found, Unread)
    assert (found.asked, found.reason, found.origin.at) == ("/v1/nodes", error.saw, 9.0)


def test_controller_out_of_reach_is_raised() -> None:
    controller: Any = Controller(**{"/v1/nodes": Unreachable("ask", "refused", "look")})
    with pytest.raises(Unreachable):
        observe.nodes(controller, now=now)


def test_linstor_is_asked_before_and_after_the_kernels() -> None:
    controller: Any = Controller()
    shells: Any = {"n1": Satellite(controller, "n1"), "n2": Satellite(controller, "n2")}
    seen = observe.look(controller, shells, now=now)
    views = [at for at, one in enumerate(controller.asked) if one == "/v1/view/resources"]
    kernels = [at for at, one in enumerate(controller.asked) if one in NAMES]
    assert len(views) == 2
    assert views[0] < min(kernels)
    assert max(kernels) < views[1]
    assert [one.node for one in seen.kernels if isinstance(one, DrbdStatus)] == ["n1", "n2"]


def test_kernel_out_of_reach_leaves_the_others() -> None:
    controller: Any = Controller()
    shells: Any = {
        "n1": Satellite(controller, "n1", deaf=True),
        "n2": Satellite(controller, "n2"),
    }
    first, second = observe.look(controller, shells, now=now).kernels
    assert isinstance(first, Unread)
    assert first.asked == "drbdsetup status on storage node n1"
    assert "no pod" in first.reason
    assert isinstance(second, DrbdStatus)
