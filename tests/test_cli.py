"""The command line: quick to start, every verb explained with an example."""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness import cli

HEAVY = ("kubernetes", "pytest", "_pytest", "pydantic", "aiohttp", "yaml", "allure", "jinja2")


def verbs(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield (*path, name), below
                yield from verbs(below, (*path, name))


VERBS = dict(verbs(cli.parser()))
TOLD = (
    "run",
    "prove",
    "twin",
    "qemu",
    "clean",
    "watch",
    "equivalence",
    "report",
    "signoff",
    "compare",
    "trend",
    "diagnose",
    "console",
    "doctor",
    "claims",
    "faults",
    "inventory",
)


def test_help_loads_nothing_heavy() -> None:
    """A bound on time would measure the machine; these modules are what takes the time."""
    program = (
        "import sys\nfrom harness import cli\n"
        "try:\n    cli.main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"sys.stderr.write(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ended.stderr == ""
    for verb in TOLD:
        assert f"\n  {verb}" in ended.stdout or f"\n    {verb}" in ended.stdout


def test_the_verbs_are_those_that_people_know() -> None:
    assert {path[0] for path in VERBS} == set(TOLD)
    assert ("twin", "up") in VERBS
    assert ("inventory", "check") in VERBS


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*path, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert f"example: hil {' '.join(path)}" in " ".join(said.split())


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_examples_are_commands_that_parse(path: tuple[str, ...]) -> None:
    example = str(VERBS[path].epilog).removeprefix("example: hil ").split(" > ")[0]
    assert callable(cli._chosen(example.split()).verb)


@pytest.mark.parametrize(
    "argv", [["rnu"], [], ["run", "--workers", "-1"], ["run", "--seed", "x"], ["twin"]]
)
def test_what_is_no_command_ends_with_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(argv)
    assert end.value.code == 2
    assert "usage: hil" in capsys.readouterr().err


def test_ctrl_c_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_claims", interrupted)
    assert cli.main(["claims"]) == 130
    assert capsys.readouterr().err == "hil: interrupted\n"


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    program = f"{sys.executable} -m harness.cli claims"
    hil = subprocess.Popen(
        program.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert hil.stdout is not None
    hil.stdout.close()
    assert hil.stderr is not None
    assert hil.stderr.read() == ""
    hil.stderr.close()
    assert hil.wait(60) == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["claims", "modules-livee"], "did you mean 'modules-live'?"),
        (["faults", "no-modules-blok"], "did you mean 'no-modules-block'?"),
        (["prove", "--fault", "no-modules-blok"], "did you mean 'no-modules-block'?"),
        (["twin", "up", "--fault", "no-modules-blok"], "did you mean 'no-modules-block'?"),
        (["twin", "fault", "no-modules-blok"], "did you mean 'no-modules-block'?"),
        (["twin", "advance", "soon"], "'soon' is not a duration"),
        (["inventory", "check", "gone.yaml"], "gone.yaml: found no readable file"),
    ],
)
def test_a_word_that_is_not_known(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(argv) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["rnu"], "did you mean 'run'?"),
        (["twin", "advnce"], "did you mean 'advance'?"),
        (["run", "--clam", "modules-live"], "did you mean '--claim'?"),
        (["run", "--workers", "-1"], "--workers: '-1' is not a whole number of 0 or more"),
        (["prove", "--jobs", "-2"], "--jobs: '-2' is not a whole number of 0 or more"),
        (["prove", "--jobs", "two"], "--jobs: 'two' is not a whole number of 0 or more"),
    ],
)
def test_a_mistyped_command_line(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(argv)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_a_letter_that_the_terminal_lacks_is_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.BytesIO()
    shown = io.TextIOWrapper(kept, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)

    def say(_: argparse.Namespace) -> int:
        sys.stdout.write("l\u00e4ufe\n")
        return 0

    monkeypatch.setattr(cli, "_claims", say)
    assert cli.main(["claims"]) == 0
    shown.flush()
    assert kept.getvalue() == b"l\\xe4ufe\n"
