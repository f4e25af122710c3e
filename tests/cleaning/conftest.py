from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.inventory.loading import load
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinProcess]:
    """One twin for all tests here; each leaves it as it was."""
    process = TwinProcess(tmp_path_factory.mktemp("twin"), seed=1)
    yield process
    process.close()


@pytest.fixture
def lab(twin: TwinProcess) -> Iterator[ConnectedLab]:
    """The twin, connected, as the run ``mine`` sees it."""
    way = Reachable(twin.endpoint.kubeconfig, "management", twin.endpoint.clock_url)
    connected = connect(load(ROOT / "inventory" / "twin.yaml"), way, "mine")
    with connected.clock.actor("test"):
        yield connected
    connected.close()
