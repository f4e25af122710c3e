"""For all tests: a connected twin; and properties whose examples may take their time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.inventory.loading import load
from harness.twin.process import TwinProcess

INVENTORY = Path(__file__).resolve().parents[1] / "inventory" / "twin.yaml"

# how long an example of a property takes depends on who else uses the machine
settings.register_profile("hil", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hil")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinProcess]:
    """One twin for all tests of a module; each leaves it as it was."""
    process = TwinProcess(tmp_path_factory.mktemp("twin"), seed=1)
    yield process
    process.close()


@pytest.fixture
def lab(twin: TwinProcess) -> Iterator[ConnectedLab]:
    """The twin, connected, as the run ``mine`` sees it."""
    way = Reachable(twin.endpoint.kubeconfig, "management", twin.endpoint.clock_url)
    connected = connect(load(INVENTORY), way, "mine")
    with connected.clock.actor("test"):
        yield connected
    connected.close()
