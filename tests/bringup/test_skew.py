"""Clocks that are too far apart for a Lease: a run and a clean-up are refused, with both times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.connect import ConnectedLab
from harness.bringup.leasing import leased
from harness.bringup.pool import RENEW_EVERY
from harness.bringup.skew import FAR_APART, LEASE_SECONDS, refuse_far_apart, skew_of
from harness.inventory.loading import load
from harness.reach.errors import ApiRefused, LabError
from harness.session.labs import LabChoice
from harness.twin.command import chaos
from harness.twin.process import TwinProcess
from tests.conftest import INVENTORY

DATE = "Tue, 01 Dec 2026 02:00:00 GMT"
AT = 1796090400.0
LEASE = ("coordination.k8s.io/v1", "Lease", "tenant-hil", "hil-pool-lab-plain")


@pytest.fixture
def skewed(twin: TwinProcess) -> Iterator[Any]:
    folder = twin.endpoint.kubeconfig.parent
    yield lambda seconds: chaos(folder, "skew", {"seconds": seconds})
    chaos(folder, "clear", {})


@pytest.mark.parametrize(
    ("asked", "answered", "apart"),
    [
        (AT, AT, 0.0),
        (AT + 0.9, AT + 0.9, 0.0),  # a Date has whole seconds
        (AT - 20, AT, 0.0),  # a slow answer is no skew
        (AT - 20, AT - 5, 5.0),
        (AT + 31, AT + 40, -30.0),
    ],
)
def test_only_what_the_way_does_not_explain_is_skew(
    asked: float, answered: float, apart: float
) -> None:
    found = skew_of(DATE, asked, answered)
    assert found is not None
    assert found.apart == pytest.approx(apart)


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Dec 2026 02:00:00 GMT"])
def test_what_is_no_date_says_nothing(date: str) -> None:
    assert skew_of(date, AT, AT) is None


def test_the_limit_leaves_a_living_runs_lease_alone() -> None:
    """Both machines apart by the limit, the one ahead and the other behind."""
    left = LEASE_SECONDS - LEASE_SECONDS / 3 - RENEW_EVERY
    assert 0 < 2 * FAR_APART < left


@pytest.mark.parametrize("seconds", [FAR_APART + 20, -FAR_APART - 20])
def test_a_pool_is_not_leased_by_a_clock_that_is_far_apart(
    lab: ConnectedLab, skewed: Any, seconds: float
) -> None:
    before = lab.management.get(*LEASE)
    skewed(seconds)
    with (
        pytest.raises(LabError, match=r"Z there, .*Z here; 150 s are allowed.*NTP") as told,
        leased(lab, "plain", lambda *_: None),
    ):
        pass
    assert lab.management.get(*LEASE) == before
    assert any(f"{said} s " in str(told.value) for said in (169, 170))  # a Date has whole seconds


def test_a_clock_that_is_near_is_noted(lab: ConnectedLab, skewed: Any) -> None:
    skewed(FAR_APART - 20)
    said: list[str] = []
    with leased(lab, "gpu-l40s", lambda _, text: said.append(text)):
        pass
    assert said[-1].startswith("pool gpu-l40s is leased; the API server's clock is 1")
    assert said[-1].endswith(" s ahead of this machine's; 150 s are allowed, a sixth of a lease")


def test_a_clock_that_may_not_be_asked_is_noted_and_refuses_nothing(
    lab: ConnectedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream(*_: Any, **__: Any) -> Any:
        raise ApiRefused(403, "Forbidden", "you may not")

    monkeypatch.setattr(lab.management, "stream", stream)
    assert "clock is not known: 403 Forbidden" in refuse_far_apart(lab)


def test_a_run_sees_it_before_it_begins(twin: TwinProcess, tmp_path: Path, skewed: Any) -> None:
    folder = twin.endpoint.kubeconfig.parent
    choice = LabChoice(load(INVENTORY), "run", tmp_path, attach=folder)
    choice.see()
    skewed(-400)
    with pytest.raises(LabError, match=r"(399|400) s behind this machine's"):
        choice.see()
