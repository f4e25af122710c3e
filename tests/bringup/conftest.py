from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bringup.connect import Reachable, connect
from harness.bringup.keeper import hold
from harness.bringup.pool import HeldPool
from harness.inventory.loading import load
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinProcess]:
    """One twin for all tests here; each leaves it as it was."""
    process = TwinProcess(tmp_path_factory.mktemp("twin"), seed=1)
    yield process
    process.close()


@pytest.fixture(scope="package")
def gpu_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldPool]:
    """A pool with a card, held on a twin of its own; each test leaves it standing as it was."""
    process = TwinProcess(tmp_path_factory.mktemp("gpu"), seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    connected = connect(load(ROOT / "inventory" / "twin.yaml"), way, "mine")
    with (
        connected.clock.actor("test"),
        hold(connected, "gpu-l40s", lambda kind, text: None) as pool,
    ):
        yield pool
    connected.close()
    process.close()


@pytest.fixture(scope="package")
def cloned_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldPool]:
    """A pool whose disks are cloned, held on a twin of its own; each test leaves it as it was."""
    process = TwinProcess(tmp_path_factory.mktemp("cloned"), seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    connected = connect(load(ROOT / "inventory" / "twin.yaml"), way, "mine")
    with (
        connected.clock.actor("test"),
        hold(connected, "cloned", lambda kind, text: None) as pool,
    ):
        yield pool
    connected.close()
    process.close()
