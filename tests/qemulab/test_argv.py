from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.qemulab.argv import arguments
from harness.qemulab.spec import Spec
from tests.qemulab.conftest import spec_for


def lab(tmp_path: Path) -> Spec:
    return spec_for(tmp_path / "lab", tmp_path, [20022, 20023])


def after(argv: list[str], option: str) -> list[str]:
    return [argv[i + 1] for i, word in enumerate(argv) if word == option]


def test_root_is_the_first_disk_and_nothing_is_flushed_to_the_hosts_disk(tmp_path: Path) -> None:
    spec = lab(tmp_path)
    drives = after(arguments(spec, spec.guests[0], 20022, 5), "-drive")
    assert drives == [
        f"if=none,id=root,format=qcow2,cache=unsafe,file={tmp_path}/lab/n1/root.qcow2",
        f"if=none,id=data,format=qcow2,cache=unsafe,file={tmp_path}/lab/n1/data.qcow2",
    ]


def test_each_guest_is_told_who_it_is_and_has_cards_of_its_own(tmp_path: Path) -> None:
    spec = lab(tmp_path)
    lines = [arguments(spec, guest, guest.port, 5) for guest in spec.guests]
    assert [after(line, "-append") for line in lines] == [
        ["console=ttyS0 hil.node=1"],
        ["console=ttyS0 hil.node=2"],
    ]
    cards = [d for line in lines for d in after(line, "-device") if d.startswith("virtio-net")]
    assert len({card.partition("mac=")[2] for card in cards}) == 4
    forwards = [after(line, "-netdev")[0] for line in lines]
    assert forwards[1] == "user,id=outer,restrict=on,hostfwd=tcp:127.0.0.1:20023-:22"


def test_it_stands_still_until_told_and_loads_what_it_is_told(tmp_path: Path) -> None:
    spec = lab(tmp_path)
    plain = arguments(spec, spec.guests[0], 20022, 5)
    assert "-S" in plain
    assert "-loadvm" not in plain
    assert arguments(spec, spec.guests[0], 20022, 5, "pristine")[-2:] == ["-loadvm", "pristine"]


def test_a_comma_in_a_path_is_no_end_of_an_option(tmp_path: Path) -> None:
    spec = lab(tmp_path)
    guest = replace(spec.guests[0], log=Path("/tmp/a,b/console.log"))
    chardevs = after(arguments(spec, guest, 20022, 5), "-chardev")
    assert "logfile=/tmp/a,,b/console.log,logappend=on" in chardevs[0]


def test_a_spec_survives_its_file(tmp_path: Path) -> None:
    spec = lab(tmp_path)
    spec.save()
    assert Spec.load(spec.file) == spec
