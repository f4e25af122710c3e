from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import peers

PIN = re.compile(r"^([\w.\-]+)==(\S+) \\$", re.MULTILINE)
NAMES = ["kr8s", "kubernetes-36", "kubernetes-37", "lightkube", "openshift-python-wrapper"]


def run(*names: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench.peers", *names]
    return subprocess.run(argv, capture_output=True, text=True, cwd=peers.ROOT, check=False)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pins and environments of the test's own; gives the folder of the pins."""
    (tmp_path / "pins").mkdir()
    monkeypatch.setattr(peers, "PEERS", tmp_path / "made")
    monkeypatch.setattr(peers, "PINNED", tmp_path / "pins")
    return tmp_path / "pins"


def test_every_client_is_pinned_with_what_it_needs() -> None:
    assert peers.names() == NAMES
    for name in NAMES:
        wanted = (peers.PINNED / f"{name}.in").read_text().strip()
        text = (peers.PINNED / f"{name}.txt").read_text()
        pins = [f"{package}=={version}" for package, version in PIN.findall(text)]
        assert wanted in pins
        blocks = [block for block in re.split(PIN, text) if "--hash" in block]
        assert len(blocks) == len(pins)  # none without a hash


def test_the_wrapper_needs_an_older_client_than_ours() -> None:
    text = (peers.PINNED / "openshift-python-wrapper.txt").read_text()
    (version,) = [version for name, version in PIN.findall(text) if name == "kubernetes"]
    assert int(version.split(".")[0]) < 36  # why it has an environment of its own


def test_a_wrong_name() -> None:
    ended = run("kr9s")
    assert ended.returncode == 2
    assert ended.stderr == f"peers: no client 'kr9s'; there are {', '.join(NAMES)}\n"


def test_one_is_made_once_and_anew_when_its_pins_change(elsewhere: Path) -> None:
    (elsewhere / "one.txt").write_text("# nothing\n")
    assert peers.python_of("one") is None
    python = peers.make("one")
    assert peers.python_of("one") == python
    made = python.lstat().st_mtime_ns
    assert peers.make("one").lstat().st_mtime_ns == made
    (elsewhere / "one.txt").write_text("# nothing yet\n")
    assert peers.python_of("one") is None
    assert peers.python_of("none") is None


def test_what_cannot_be_installed_is_said_in_a_sentence(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (elsewhere / "one.txt").write_text("absent==1\n")  # no hash: refused before it is looked for
    monkeypatch.setattr(sys, "argv", ["peers", "one"])
    assert peers.main() == 3
    said = capsys.readouterr().err
    assert said.startswith("peers: the environment 'one' was not made: ERROR: ")
    assert said.count("\n") == 1
    assert peers.python_of("one") is None
