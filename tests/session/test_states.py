"""The states of standing pools, from one run to a later one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.facts.fact import Origin
from harness.facts.poolstate import PoolState, ReleaseState, TemplateState
from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes
from harness.session import states
from harness.session.choice import choose, refuse_misfit
from harness.session.mistake import UserMistake
from harness.twin.process import TwinProcess

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"


def state(pool: str) -> PoolState:
    template = TemplateState("TalosConfigTemplate", f"{pool}-abc", "uid", "0" * 64)
    return PoolState(
        origin=Origin(7.0, "management", ""),
        pool=pool,
        cluster="lab",
        regime="content",
        bootstrap=template,
        machine=template,
        job="",
        machines={"a": "1"},
        vmis={"a": "2"},
        data_volumes={"a": "3"},
        boots={"a": "4"},
        release=ReleaseState("r", "True", "", "", 1, "", "", "0" * 64),
    )


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """What a run recorded of two pools."""
    for pool in ("plain", "gpu-l40s"):
        states.keep(tmp_path / "run", pool, state(pool))
    path = tmp_path / "state.json"
    assert states.publish(tmp_path / "run", path, "twin", "run-1") == ("gpu-l40s", "plain")
    return path


def mistake(path: Path, lab: str = "twin") -> str:
    with pytest.raises(UserMistake) as raised:
        states.read(path, lab)
    return str(raised.value)


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    return path


def test_what_was_recorded_is_read_back(recorded: Path) -> None:
    found = states.read(recorded, "twin")
    assert {name: one.values() for name, one in found.items()} == {
        name: state(name).values() for name in ("gpu-l40s", "plain")
    }
    assert found["plain"].origin.at == 7.0


def test_nothing_recorded_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert states.publish(tmp_path, path, "twin", "run-1") == ()
    assert not path.exists()


def test_another_lab(recorded: Path) -> None:
    assert mistake(recorded, "lab-l40s").endswith("recorded in lab twin, this is lab-l40s")


def test_no_file(tmp_path: Path) -> None:
    assert "none.json: No such file or directory" in mistake(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("\udcff", "no JSON"),
        ("[]", "no file that --save-state wrote"),
        ('{"kind": "else"}', "no file that --save-state wrote"),
    ],
)
def test_another_file(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert said in mistake(path)


def test_another_schema_of_file_or_pool(recorded: Path) -> None:
    assert "pool plain: the file has schema" in mistake(
        changed(recorded, lambda found: found["pools"]["plain"].update(schema=2))
    )
    assert "schema 2, this hil reads 1; record" in mistake(
        changed(recorded, lambda found: found.update(schema=2))
    )


def test_a_damaged_state_and_none_at_all(recorded: Path) -> None:
    damaged = changed(recorded, lambda found: found["pools"]["plain"]["state"].pop("vmis"))
    assert "pool plain: the file is damaged: vmis" in mistake(damaged)
    assert "no pool in it" in mistake(changed(recorded, lambda found: found.update(pools={})))


def test_a_record_is_never_written_over(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="it is there already; name another file"):
        states.check_writable(recorded)
    with pytest.raises(UserMistake, match="is no folder that can be written to"):
        states.check_writable(tmp_path / "none" / "state.json")
    states.check_writable(tmp_path / "other.json")


def test_the_claim_is_asked_only_with_a_record_and_only_of_pools_in_it(recorded: Path) -> None:
    from harness.claims.catalogue import get

    without = choose(TWIN, "", [], [])
    assert not without.asks("unchanged-since") and without.asks("no-roll")
    choice = choose(TWIN, "", [], [], recorded)
    assert choice.asks("unchanged-since")
    assert choice.missing([get("unchanged-since")], "plain") == []
    assert choice.missing([get("unchanged-since")], "gpu-gb202") == [
        "no state of pool gpu-gb202 was recorded"
    ]


def test_the_embedded_twin_has_no_pool_to_compare(recorded: Path, tmp_path: Path) -> None:
    choice = choose(TWIN, "", [], [], recorded)
    with pytest.raises(UserMistake, match="--against is about pools that stand already"):
        refuse_misfit(choice, [], None, "")
    refuse_misfit(choice, [], tmp_path, "")


# --- two runs with a file between them


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ConnectedLab]]:
    """A twin that is up, and on it a pool that no run made."""
    directory = tmp_path_factory.mktemp("twin")
    process = TwinProcess(directory, seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    lab = connect(load(TWIN), way, "by-hand")
    with lab.clock.actor("test"):
        lab.management.apply(kubernetes_nodes(lab.inventory, "plain"))
        lab.clock.sleep(600)
    yield directory, lab
    lab.close()
    process.close()


def test_recorded_before_and_compared_after(
    hil: Run, standing: tuple[Path, ConnectedLab], tmp_path: Path
) -> None:
    directory, lab = standing
    asked = ("run", "--attach", directory, "--pool", "plain", "--out", tmp_path / "out")
    file = tmp_path / "state.json"
    first = hil(*asked, "--claim", "no-roll", "--save-state", file, "--run-id", "one")
    first.assert_sentence(0, "the state of pool plain is recorded", f"plain is in {file}")
    compare = (*asked, "--claim", "unchanged-since", "--against", file)
    hil(*compare, "--run-id", "two").assert_sentence(0, "Claims: 1 holds")
    (machine, *_) = lab.management.list("cluster.x-k8s.io/v1beta1", "Machine", "tenant-hil")
    with lab.clock.actor("test"):
        lab.management.delete(
            *("cluster.x-k8s.io/v1beta1", "Machine", "tenant-hil", machine["metadata"]["name"])
        )
        lab.clock.sleep(600)
    third = hil(*compare, "--run-id", "three")
    third.assert_sentence(1, "BROKEN  unchanged-since on plain", machine["metadata"]["name"])


def test_a_pool_of_the_runs_own_is_not_recorded(
    hil: Run, standing: tuple[Path, ConnectedLab], tmp_path: Path
) -> None:
    file = tmp_path / "state.json"
    ended = hil(
        *("run", "--attach", standing[0], "--pool", "gpu-gb202", "--claim", "spec-read-back"),
        *("--out", tmp_path / "out", "--save-state", file),
    )
    ended.assert_sentence(3, "no pool stood already", "is not written", "Claims: 1 holds")
    assert "pool gpu-gb202 is this run's own: its state is not recorded" in ended.err
    assert not file.exists()
