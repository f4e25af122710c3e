from __future__ import annotations

from typing import Any

import pytest

from harness.bringup import linstor as bringup
from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import PoolNotReady
from harness.bringup.linstor import LOOKS, PAUSE, linstor_of, looks
from harness.facts.linstorlooks import LinstorLook
from tests.facts.linstor_texts import NAMES, kernel, nodes, resource, view


class Held:
    """A pool with one disk, on a lab whose storage nodes nobody has to reach."""

    name = "plain"

    def __init__(self, lab: ConnectedLab) -> None:
        self.lab = lab
        self.paused: list[float] = []

    def disks(self) -> tuple[str, ...]:
        return ("pvc-1",)

    def pause(self, seconds: float, what: str) -> None:
        self.paused.append(seconds)


def seen(disk: str) -> LinstorLook:
    said = view(resource("pvc-1", "n3", disk=disk))
    return LinstorLook(nodes(), said, tuple(kernel(name) for name in NAMES), said)


@pytest.fixture
def held(lab: ConnectedLab, monkeypatch: pytest.MonkeyPatch) -> Held:
    class Somebody:
        def __enter__(self) -> Somebody:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(bringup, "linstor_of", lambda lab: Somebody())
    monkeypatch.setattr(bringup, "satellites", lambda kube: {})
    return Held(lab)


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (["UpToDate"], 1),
        (["Inconsistent", "UpToDate"], 2),
        (["Inconsistent"] * 9, LOOKS),
    ],
)
def test_looks_again_until_both_say_the_same(
    held: Held, monkeypatch: pytest.MonkeyPatch, said: list[str], taken: int
) -> None:
    given = iter(said)
    monkeypatch.setattr(bringup, "look", lambda *_, **__: seen(next(given)))
    pool: Any = held
    assert len(looks(pool)) == taken
    assert held.paused == [PAUSE] * (taken - 1)


def test_lab_that_names_no_controller(lab: ConnectedLab) -> None:
    with linstor_of(lab) as linstor:
        assert linstor is None
    pool: Any = Held(lab)
    with pytest.raises(PoolNotReady, match="nothing of LINSTOR"):
        looks(pool)
