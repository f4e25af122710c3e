"""Long texts: what is kept of them, and how much memory that takes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from harness.diagnose.case import Kind
from harness.diagnose.reading import Limits, read_folder
from tests.diagnose.reading.reading_files import folder, whys

SMALL = Limits(window=4096, matched=4096)
LINE = "2026-06-01T08:00:00Z level=info msg=reconciled\n"
GIVEN_UP = "[ 4195.3] [talos] boot sequence: failed\n"
LISTED = "$ kubectl get pods -A\nNAMESPACE   NAME   READY   STATUS    RESTARTS   AGE\n"
POD = "default     web    1/1     Running   0          5m\n"


def test_beginning_end_and_the_lines_that_matter_are_kept(tmp_path: Path) -> None:
    filler = LINE * 25_000
    text = "first\n" + filler + GIVEN_UP + filler + "last\n"
    (kept,) = read_folder(folder(tmp_path, {"c.log": text}), SMALL).texts
    assert kept.cut
    assert kept.text.startswith("first\n")
    assert kept.text.endswith("last\n")
    assert kept.text.count(GIVEN_UP) == 1
    assert len(kept.text) < 2_000_000


@pytest.mark.parametrize(
    "line",
    [
        'nodes "w" is forbidden: User "system:anonymous" cannot get resource\n',
        "Failed to allocate device vector A (error code system not yet initialized)!\n",
        "denied the request: TalosConfigTemplate spec.template.spec field is immutable\n",
    ],
)
def test_a_line_that_a_rule_rests_on_is_kept(tmp_path: Path, line: str) -> None:
    text = LINE * 25_000 + line + LINE * 25_000
    (kept,) = read_folder(folder(tmp_path, {"c.log": text}), SMALL).texts
    assert kept.text.count(line) == 1


def test_of_too_many_such_lines_the_first_and_the_last_are_kept(tmp_path: Path) -> None:
    lines = "".join(f"{i:07} drbd r0: something happened here\n" for i in range(40_000))
    case = read_folder(folder(tmp_path, {"d.log": lines}), SMALL)
    assert "lines between were used" in whys(case)
    assert case.texts[0].text.startswith("0000000 drbd")
    assert case.texts[0].text.endswith("0039999 drbd r0: something happened here\n")


def test_nothing_is_listed_across_a_gap(tmp_path: Path) -> None:
    text = LISTED + POD * 25_000 + "$ date\nMon\n" + LISTED + POD + "$ date\nMon\n"
    case = read_folder(folder(tmp_path, {"t.txt": text}), SMALL)
    assert case.listings == ()


def test_objects_are_not_made_of_two_halves(tmp_path: Path) -> None:
    half = (
        "LINE\n" * 1500 + "$ kubectl get svc a -o yaml\napiVersion: v1\nkind: Service\nmetadata:\n"
    )
    text = (
        half + "  name: a\n  uid: u\nspec:\n" + "  - x\n" * 190_000 + "  ports: []\n$ date\nMon\n"
    )
    case = read_folder(folder(tmp_path, {"t.txt": text}), Limits(window=16384))
    assert [thing.name for thing in case.objects] == ["a"]
    assert not any(thing.knows("spec", "ports") for thing in case.objects)


def test_a_gigabyte_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    with path.open("wb") as stream:
        stream.write(b"[    0.000000] Linux version 6.18.34-talos\n")
        for part in range(1, 10):
            stream.seek(part * 100_000_000)
            stream.write(b"\n" + GIVEN_UP.encode())
        stream.seek(1_000_000_000)
        stream.write(b"\n[ 4206.3] reboot: Restarting system\n")
    code = (
        "import sys; from pathlib import Path; from harness.diagnose.reading import read_folder;"
        "case = read_folder(Path(sys.argv[1]));"
        # not ru_maxrss: that begins with the peak of whoever started the program
        "peak = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0];"
        "print(case.texts[0].text.count('boot sequence: failed'), case.texts[0].cut, peak)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert said[:2] == ["9", "True"]
    assert int(said[2]) < 200 * 1024  # KiB


def test_many_large_files_stay_within_what_is_kept_of_all(tmp_path: Path) -> None:
    limits = Limits(window=50_000, texts=200_000)
    path = folder(tmp_path, {f"{i}.log": LINE * 2000 for i in range(12)})
    tracemalloc.start()
    case = read_folder(path, limits)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 1 < len(case.of(Kind.LOG)) < 5
    assert "no room left for its text" in whys(case)
    assert peak < 6_000_000
