"""What cannot be run is refused: one sentence, the right exit status, never a traceback."""

from __future__ import annotations

import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from harness import cli
from tests.session.conftest import asked

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Any]

BROKEN = """\
name: twin
kind: twin
clock: virtul
colour: red
"""
MISTAKES = {
    "claim": (["--claim", "modules-livee"], "no claim 'modules-livee'", "'modules-live'"),
    "fault": (["--fault", "no-modules-blok"], "no fault 'no-modules-blok'", "'no-modules-block'"),
    "lane": (["--lane", "quik"], "has no lane 'quik'", "'quick'"),
    "pool": (["--pool", "gpu-l40"], "has no pool 'gpu-l40'", "'gpu-l40s'"),
    "no file": (["--lab", "gone.yaml"], "gone.yaml", "No such file"),
    "no YAML": (["--lab", "torn.yaml"], "torn.yaml:1", "allowed: YAML"),
    "no lab": (["--lab", "broken.yaml"], 'the unknown key "colour"', "allowed: virtual"),
    "run id": (["--run-id", "../up"], "--run-id '../up'", "letters, digits"),
    "no record": (["--claim", "unchanged-since"], "no recorded state was given", "--against FILE"),
    "record gone": (["--against", "gone.json"], "--against gone.json", "No such file"),
    "nothing stands": (
        ["--save-state", "state.json"],
        "--save-state is about pools that stand already",
        "--attach",
    ),
    "planted late": (["--attach", ".", "--fault", "no-modules-block"], "hil twin fault", "already"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "torn.yaml").write_text("a: [\n")
    (tmp_path / "broken.yaml").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_hil_names_the_mistake_and_the_nearest_word(
    mistake: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv, *words = MISTAKES[mistake]
    assert cli.main(["run", *argv]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("hil: ")
    for word in words:
        assert word in said.err
    assert not (here / "reports").exists()


def test_every_mistake_of_an_inventory_is_told_at_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--lab", "broken.yaml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if line.strip().startswith("broken.yaml:")]) >= 4


@pytest.mark.parametrize("mistake", ["claim", "fault", "lane", "pool", "no file", "no lab"])
def test_plain_pytest_says_the_same(mistake: str, plain: Run, here: Path) -> None:
    argv, *words = MISTAKES[mistake]
    argv = [str(here / word) if word.endswith(".yaml") else word for word in argv]
    lab = [] if "--lab" in argv else ["--lab", "inventory/twin.yaml"]
    ended = plain(*lab, *argv, "--out", here / "out")
    ended.assert_sentence(2, *words)
    assert "hil: " in ended.err
    assert not (here / "out").exists()


def test_a_lane_and_a_claim_that_it_leaves_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lane(here, claims=["node-joins"])
    assert cli.main(["run", "--lab", "lanes.yaml", "--lane", "few", "--claim", "passthrough"]) == 2
    assert "lane 'few' of lanes.yaml leaves out the claim 'passthrough'" in capsys.readouterr().err


def lane(here: Path, **asked: Any) -> Path:
    inventory = yaml.safe_load((ROOT / "inventory" / "twin.yaml").read_text())
    inventory["lanes"]["few"] = {"pools": ["plain"], **asked}
    path = here / "lanes.yaml"
    path.write_text(yaml.safe_dump(inventory))
    return path


# --- where runs are kept


@pytest.mark.parametrize("out", ["/proc/out", "torn.yaml", "torn.yaml/below"])
def test_a_place_that_cannot_be_written(out: str, hil: Run, here: Path) -> None:
    ended = hil("run", "--pool", "plain", "--out", out, cwd=here)
    ended.assert_sentence(2, "hil: --out ")
    assert ended.out == ""


def test_a_working_directory_that_cannot_be_written(hil: Run, tmp_path: Path) -> None:
    refused = hil("run", "--pool", "plain", cwd=Path("/proc"))
    refused.assert_sentence(2, "hil: --out /proc/reports/out: cannot write there")
    planned = hil("run", "--pool", "plain", "--plan", cwd=Path("/proc"))
    planned.assert_sentence(0, f"{asked('plain')} scenarios on 1 pool; nothing was run")


def test_scenarios_come_as_they_are_written_and_those_on_workers_themselves_last(hil: Run) -> None:
    """Pytest alone would put those first that only one of the pools is asked."""
    pools = ("--pool", "plain", "--pool", "cloned")
    planned = hil("run", "--lane", "everything", *pools, "--plan")
    of_cloned = planned.out.partition("pool cloned")[2]
    places = [of_cloned.index(f"claims  {one}") for one in ("addons-up", "golden-ready", "uptime")]
    places += [of_cloned.index(f"claims  {one}") for one in ("drbd-quorum", "disk-failover")]
    assert places == sorted(places)


# --- labs that are unfit


class Forbids(http.server.BaseHTTPRequestHandler):
    """Answers everything with 403, as the API does."""

    def do_GET(self) -> None:
        status = {
            "kind": "Status",
            "reason": "Forbidden",
            "message": 'namespaces "tenant-hil" is forbidden: User "eve" cannot get it',
        }
        body = json.dumps(status).encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def forbidding() -> Iterator[tuple[int, trustme.CA]]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forbids)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1], authority
    server.shutdown()
    server.server_close()
    thread.join()


def real_lab(here: Path, kubeconfig: Path, context: str = "management") -> Path:
    """The twin's inventory as if it were a real lab's."""
    inventory = yaml.safe_load((ROOT / "inventory" / "twin.yaml").read_text())
    inventory |= {"name": "real", "kind": "cluster", "clock": "real"}
    inventory["management"] = {"kubeconfig": {"file": str(kubeconfig)}, "context": context}
    path = here / "real.yaml"
    path.write_text(yaml.safe_dump(inventory))
    return path


def kubeconfig(here: Path, port: int, authority: trustme.CA) -> Path:
    import base64

    ca = base64.b64encode(authority.cert_pem.bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": ca}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "abc"}}],
        "contexts": [{"name": "management", "context": {"cluster": "c", "user": "u"}}],
    }
    path = here / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def assert_unfit(hil: Run, here: Path, lab: Path, *words: str) -> None:
    ended = hil("run", "--lab", lab, "--out", here / "out", cwd=here)
    ended.assert_sentence(3, "hil: tried to ", *words)
    assert len(ended.said.strip().splitlines()) == 1
    assert not (here / "out").exists()


def test_no_kubeconfig(hil: Run, here: Path) -> None:
    lab = real_lab(here, here / "nowhere")
    assert_unfit(hil, here, lab, "nowhere", "No such file", "`management`")


def test_a_kubeconfig_in_a_variable_that_is_not_set(hil: Run, here: Path) -> None:
    lab = ROOT / "inventory" / "lab-l40s.yaml"
    assert_unfit(hil, here, lab, "LAB_KUBECONFIG is not set: export it", "`management`")


def test_no_such_context(hil: Run, here: Path) -> None:
    lab = real_lab(here, kubeconfig(here, 1, trustme.CA()), "managment")
    assert_unfit(hil, here, lab, "no context 'managment'", "did you mean 'management'?")


def test_nobody_listens(hil: Run, here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    lab = real_lab(here, kubeconfig(here, port, trustme.CA()))
    assert_unfit(hil, here, lab, "Connection refused", "check that the API server is up")


def test_a_certificate_of_somebody_else(
    hil: Run, here: Path, forbidding: tuple[int, trustme.CA]
) -> None:
    lab = real_lab(here, kubeconfig(here, forbidding[0], trustme.CA()))
    assert_unfit(hil, here, lab, "certificate", "check the kubeconfig's certificate authority")


def test_forbidden(hil: Run, here: Path, forbidding: tuple[int, trustme.CA]) -> None:
    lab = real_lab(here, kubeconfig(here, *forbidding))
    assert_unfit(hil, here, lab, "403 Forbidden", "cannot get it", "give this identity")


def test_plain_pytest_on_an_unfit_lab(plain: Run, here: Path) -> None:
    lab = real_lab(here, kubeconfig(here, 1, trustme.CA()))
    ended = plain("--lab", lab, "--out", here / "out")
    ended.assert_sentence(3, "hil: tried to ", "check that the API server is up")


def test_no_twin_to_attach_to(hil: Run, here: Path) -> None:
    ended = hil("run", "--attach", cwd=here)
    ended.assert_sentence(3, "hil: no running twin in", ".hil", "hil twin up")
    assert len(ended.said.strip().splitlines()) == 1
    assert "Errno" not in ended.said


def test_a_twin_that_died_without_a_word(hil: Run, here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = {
        "kubeconfig": str(kubeconfig(here, port, trustme.CA())),
        "clock": f"http://127.0.0.1:{port}",
        "contexts": ["management"],
        "pid": 1,
        "ssh": {"key": str(here / "key"), "hosts": {}},
    }
    (here / "twin.json").write_text(json.dumps(told))
    ended = hil("run", "--attach", here, "--out", here / "out")
    ended.assert_sentence(3, "hil: tried to ", "Connection refused", "hil twin state")


# --- the plan


def test_the_plan_of_a_lane_that_leaves_claims_out(hil: Run, here: Path) -> None:
    lab = lane(here, exclude=["node-joins", "schematic-consistent"])
    ended = hil("run", "--plan", "--lab", lab, "--lane", "few", "--out", here / "out")
    ended.assert_sentence(0, "lab twin, lane few", "pool plain: 2 workers, no GPU")
    assert ended.err == ""
    told, _, rest = ended.out.partition("not to be established here:")
    assert "node-joins" not in told
    assert "claims  render-no-kernel-block" in told
    assert "needs   kubernetes, no-gpu" in told
    lacking, _, left_out = rest.partition("not asked by this run: ")
    assert "passthrough, driver-sees-gpu" in lacking
    assert "has no GPU, and one is needed" in lacking
    assert left_out.splitlines()[0] == "node-joins, schematic-consistent"
    # and without the soak of a run that names no lane
    assert f"{asked('plain') - 3} scenarios on 1 pool; nothing was run" in ended.out
    assert "not asked: unchanged-since: no recorded state was given" in ended.out
    assert "lane few of lab twin has no soak, so no node grows old enough" in ended.out
    assert not (here / "out").exists()


def test_the_plan_of_a_lab_that_is_not_there(hil: Run, here: Path) -> None:
    lab = real_lab(here, here / "nowhere")
    ended = hil("run", "--plan", "--lab", lab, "--pool", "plain", cwd=here)
    ended.assert_sentence(0, "lab real", "nothing was run")
    assert not (here / "reports").exists()


def test_nothing_planned_is_no_success(hil: Run, here: Path) -> None:
    ended = hil(
        *("run", "--pool", "plain", "--claim", "passthrough", "--out", here / "out"),
        *("--run-id", "none"),
    )
    ended.assert_sentence(5, "Scenarios: 0 planned", "not established")


def test_guests_without_an_emulator(
    hil: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lab = ROOT / "inventory" / "qemu-mini.yaml"
    ended = hil("run", "--lab", lab, "--lane", "mini", "--out", tmp_path / "out")
    ended.assert_sentence(3, "no qemu-system-x86_64 on the PATH", "install Debian's")
    assert not (tmp_path / "out").exists()
