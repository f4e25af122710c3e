"""`hil twin chaos` and /chaos of a twin that is up: unleash, list, clear, and every mistake."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from harness import cli
from harness.twin.process import TwinProcess

PODS = "/api/v1/pods"


class Lab:
    """A twin in a process of its own, asked over its ports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process = TwinProcess(directory, seed=1)

    def admin(self, verb: str, body: str | None = None) -> tuple[int, str]:
        parts = urlsplit(self.process.endpoint.clock_url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
        connection.request(verb, "/chaos", body)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def rules(self) -> list[dict[str, Any]]:
        status, text = self.admin("GET")
        assert status == 200
        rules: list[dict[str, Any]] = json.loads(text)["rules"]
        return rules

    def status_of(self, path: str, context: str = "management") -> int:
        """The status that a cluster answers a stranger with: 401, unless chaos says otherwise."""
        config = yaml.safe_load((self.directory / "kubeconfig").read_text())
        servers = {one["name"]: one["cluster"]["server"] for one in config["clusters"]}
        parts = urlsplit(servers[context])
        blind = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(
            str(parts.hostname), parts.port, timeout=10, context=blind
        )
        connection.request("GET", path)
        status = connection.getresponse().status
        connection.close()
        return status


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("chaos"))
    yield lab
    lab.process.close()


@pytest.fixture
def lab(running: Lab) -> Lab:
    assert running.admin("DELETE")[0] == 200
    return running


@pytest.fixture
def hil(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*argv: str, code: int = 0) -> str:
        try:
            ended = cli.main(["twin", *argv])
        except SystemExit as end:
            ended = int(str(end.code))
        said = capsys.readouterr()
        assert ended == code, said
        return said.err if code else said.out

    return run


def test_a_session(lab: Lab, hil: Any) -> None:
    where = ("--dir", str(lab.directory))
    assert lab.status_of(PODS) == 401
    said = hil("chaos", "unavailable", "--verb", "list", "--path", "*/pods", "--times", "1", *where)
    assert said == "unleashed unavailable on management, tenant-lab\n"
    assert lab.status_of("/api/v1/nodes") == 401
    assert [lab.status_of(PODS), lab.status_of(PODS)] == [503, 401]
    assert hil("chaos", "list", *where).splitlines() == [
        "management: unavailable, verb list, path */pods, times 1 (struck 1 of 1, spent)",
        "tenant-lab: unavailable, verb list, path */pods, times 1 (struck 0 of 0)",
    ]
    state = hil("state", *where)
    assert "chaos     management: unavailable, verb list, path */pods, times 1 (struck 1" in state
    assert hil("chaos", "clear", *where) == "cleared 2\n"
    assert hil("chaos", "list", *where) == "no chaos\n"
    assert "chaos" not in hil("state", *where)


def test_one_cluster(lab: Lab, hil: Any) -> None:
    where = ("--dir", str(lab.directory))
    said = hil("chaos", "throttle", "--cluster", "tenant-lab", *where)
    assert said == "unleashed throttle on tenant-lab\n"
    assert [lab.status_of(PODS, name) for name in ("management", "tenant-lab")] == [401, 429]
    assert [rule["seconds"] for rule in lab.rules()] == [1]  # what a real server would say


def test_the_whole_server(lab: Lab, hil: Any) -> None:
    said = hil("chaos", "restart", "--cluster", "management", "--dir", str(lab.directory))
    assert said == "unleashed restart on management\n"
    assert lab.status_of(PODS) == 401
    assert hil("chaos", "skew", "--seconds", "-30", "--dir", str(lab.directory))


MISTAKES = [
    (("gon",), "no chaos 'gon'; did you mean 'gone'?"),
    (("claer",), "no chaos 'claer'; did you mean 'clear'?"),
    (("cut", "--verb", "wach"), "no verb 'wach'; did you mean 'watch'?"),
    (("cut", "--verb", "list"), "cut never strikes list, only watch and exec"),
    (("slow",), "slow needs seconds: say by how many"),
    (("slow", "--seconds", "-2"), "seconds is -2: give 0 or more, at most ten years"),
    (("slow", "--seconds", "nan"), "seconds is nan"),
    (("cut", "--seconds", "1"), "--seconds says nothing about cut: leave it out"),
    (("restart", "--times", "2"), "--times says nothing about restart"),
    (("list", "--verb", "get"), "--verb says nothing about list"),
    (("cut", "--cluster", "tenant-lap"), "no cluster 'tenant-lap'; did you mean 'tenant-lab'?"),
    (("cut", "--cluster", "x"), "no cluster 'x'; there are management, tenant-lab"),
]


@pytest.mark.parametrize(("argv", "said"), MISTAKES)
def test_a_mistake_is_one_sentence(lab: Lab, hil: Any, argv: tuple[str, ...], said: str) -> None:
    text = hil("chaos", *argv, "--dir", str(lab.directory), code=2)
    assert text.startswith("hil: ")
    assert said in text
    assert text.count("\n") == 1
    assert lab.rules() == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("cut", "--times", "-1"), "'-1' is not a whole number"),
        (("cut", "--after", "x"), "'x' is not a whole number"),
        (("slow", "--seconds", "soon"), "'soon'"),
        (("cut", "--verbs", "get"), "did you mean '--verb'?"),
    ],
)
def test_numbers_and_options_that_are_none(hil: Any, argv: tuple[str, ...], said: str) -> None:
    assert said in hil("chaos", *argv, code=2)


@pytest.mark.parametrize("what", ["cut", "list", "clear"])
def test_no_twin(tmp_path: Path, hil: Any, what: str) -> None:
    text = hil("chaos", what, "--dir", str(tmp_path), code=3)
    assert f"no running twin in {tmp_path}" in text


def test_help_has_an_example_of_every_kind(hil: Any) -> None:
    said = " ".join(hil("chaos", "--help").split())
    assert "example: hil twin chaos gone --verb watch --path '*/pods' --times 1" in said


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_a_watch_lifetime_that_is_none(tmp_path: Path, hil: Any, seconds: str) -> None:
    text = hil("up", "--dir", str(tmp_path), "--watch-lifetime", seconds, code=2)
    assert f"--watch-lifetime {float(seconds):g}: give real seconds, 0 or more" in text


# -- the port


def test_a_rule_over_http(lab: Lab) -> None:
    status, text = lab.admin("POST", '{"what": "slow", "cluster": "management", "seconds": 0.1}')
    assert status == 200
    assert json.loads(text)["clusters"] == ["management"]
    (rule,) = lab.rules()
    assert rule == {
        "cluster": "management",
        "what": "slow",
        "verb": "*",
        "path": "*",
        "times": 0,
        "skip": 0,
        "after": 0,
        "seconds": 0.1,
        "met": 0,
        "struck": 0,
        "spent": False,
    }
    assert lab.admin("DELETE") == (200, '{"cleared": 1}')


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "the body is no JSON"),
        ("[]", "the body is no JSON object"),
        ("{}", "the body says no kind"),
        ('{"what": "gon"}', "did you mean 'gone'?"),
        ('{"what": 1}', "what is 1: give text"),
        ('{"what": "cut", "times": "x"}', "times is 'x': give a whole number"),
        ('{"what": "cut", "times": true}', "times is True: give a whole number"),
        ('{"what": "cut", "times": 1.5}', "times is 1.5: give a whole number"),
        ('{"what": "cut", "cluster": "nowhere"}', "no cluster 'nowhere'"),
        ('{"what": "cut", "path": null}', "path is None: give text"),
        ('{"what": "cut", "count": 1}', "no field 'count': a rule has what, verb"),
        ('{"what": "slow", "seconds": NaN}', "seconds is nan"),
    ],
)
def test_a_refusal_is_a_sentence(lab: Lab, body: str, said: str) -> None:
    status, text = lab.admin("POST", body)
    assert status == 400
    assert said in text
    assert "\n" not in text
    assert lab.rules() == []


def test_nothing_heavy_is_loaded_for_a_mistake() -> None:
    program = (
        "import sys\nfrom harness import cli\nassert cli.main(['twin', 'chaos', 'gon']) == 2\n"
        "assert not {'aiohttp', 'yaml', 'kubernetes'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=os.environ)
