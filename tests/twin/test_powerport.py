"""Power and links over a running twin's admin port, as whoever drives it calls them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.twin.process import TwinFailed, TwinLink, TwinPower, TwinProcess


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinProcess]:
    directory: Path = tmp_path_factory.mktemp("twin")
    process = TwinProcess(directory, seed=1)
    yield process
    process.close()


def test_a_host_goes_through_its_states(twin: TwinProcess) -> None:
    power = TwinPower(twin.endpoint.clock_url, "hv-3")
    power.pause()
    power.resume()
    power.off()
    power.off()
    with pytest.raises(TwinFailed, match="hv-3 is switched off: it cannot be reset"):
        power.reset()
    power.on()
    power.reset()
    with pytest.raises(TwinFailed, match="NMI"):
        power.nmi()


def test_links_are_cut_and_healed(twin: TwinProcess) -> None:
    link = TwinLink(twin.endpoint.clock_url)
    link.cut("hv-1", "hv-2", carrier=True)
    link.lose("hv-1", "hv-2", 0.5)
    link.delay("hv-2", "hv-1", 0.1)
    link.heal()


def test_a_host_that_there_is_none_of(twin: TwinProcess) -> None:
    with pytest.raises(TwinFailed, match="no hypervisor 'hv-9': there are hv-1, hv-2, hv-3"):
        TwinPower(twin.endpoint.clock_url, "hv-9").off()


def test_links_that_there_are_none_of(twin: TwinProcess) -> None:
    link = TwinLink(twin.endpoint.clock_url)
    with pytest.raises(TwinFailed, match="name two of hv-1, hv-2, hv-3"):
        link.cut("hv-1", "hv-1")
    with pytest.raises(TwinFailed, match=r"share is 1\.5: give a number from 0 to 1"):
        link.lose("hv-1", "hv-2", 1.5)


def test_a_refusal_is_raised_as_the_caller_wants_it(twin: TwinProcess) -> None:
    class Unfit(Exception):
        pass

    made: list[tuple[str, str, str]] = []

    def unfit(tried: str, saw: str, do: str) -> Exception:
        made.append((tried, saw, do))
        return Unfit(tried)

    with pytest.raises(Unfit):
        TwinPower(twin.endpoint.clock_url, "hv-9", unfit).off()
    with pytest.raises(Unfit):
        TwinPower("http://127.0.0.1:9", "hv-1", unfit).off()
    assert [one[0] for one in made] == ["have hv-9 off", "have hv-1 off"]
    assert "does not answer" in made[1][1]
