"""What a privileged pod can run on the guest, with busybox's words and exit statuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world.filesystem import (
    Device,
    Directory,
    Filesystem,
    Link,
    PathError,
    text,
)
from harness.twin.world.programs import Machine, run

HOST = Filesystem(
    {
        "/proc/modules": text("b 1 0 - Live 0x0\na 1 1 b, Live 0x0\n"),
        "/sys/module/a/initstate": text("live\n"),
        "/dev/nvidia0": Device(195, 0),
        "/usr/local/bin/nvidia-smi": text("\x7fELF", 0o755),
        "/usr/local/bin/notes": text("n", 0o644),
        "/usr/bin/nvidia-smi": Link("../local/bin/nvidia-smi"),
        "/usr/bin/absolute": Link("/usr/local/bin/nvidia-smi"),
        "/loop": Link("/loop"),
        "/lib": Link("usr/lib"),
        "/usr/lib/os": text("x\n"),
        "/run/cdi": Directory(),
    }
)


def program(path: str, arguments: object) -> ExecResult:
    assert isinstance(arguments, list)
    return ExecResult(f"{path} {' '.join(arguments)}\n".encode(), b"", 0)


MACHINE = Machine(HOST, "w1", "6.18.34-talos", lambda: "[    0.0] x\n", "Jan  1 00:02", program)


def said(*argv: str) -> tuple[int, str, str]:
    result = run(argv, MACHINE)
    assert result.error == ""
    return result.exit_code, result.stdout.decode(), result.stderr.decode()


def test_the_pod_and_the_host_root_show_one_kernel() -> None:
    assert said("cat", "/proc/modules") == said("cat", "/host/proc/modules")
    assert said("cat", "/sys/module/a/initstate") == (0, "live\n", "")
    assert said("cat", "/usr/lib/os")[0] == 1  # the host's, not the pod's
    assert said("cat", "/host/lib/os") == (0, "x\n", "")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["cat", "/no"], (1, "", "cat: can't open '/no': No such file or directory\n")),
        (["cat", "/proc"], (1, "", "cat: read error: Is a directory\n")),
        (["ls", "/no"], (1, "", "ls: /no: No such file or directory\n")),
        (["head", "/no"], (1, "", "head: /no: No such file or directory\n")),
        (["tail", "/no"], (1, "", "tail: can't open '/no': No such file or directory\n")),
        (["grep", "x", "/no"], (2, "", "grep: /no: No such file or directory\n")),
        (["grep", "zzz", "/proc/modules"], (1, "", "")),
        (["grep", "-c", "Live", "/proc/modules"], (0, "2\n", "")),
        (["head", "-n", "1", "/proc/modules"], (0, "b 1 0 - Live 0x0\n", "")),
        (["tail", "-1", "/proc/modules"], (0, "a 1 1 b, Live 0x0\n", "")),
        (["head", "-c", "3", "/proc/modules"], (0, "b 1", "")),
        (["ls", "/host/run/cdi"], (0, "", "")),
        (["ls", "/sys/module", "/dev"], (0, "/sys/module:\na\n\n/dev:\nnvidia0\n", "")),
        (["ls", "-z"], (1, "", "ls: unrecognized option: z\n")),
        (["uname", "-r"], (0, "6.18.34-talos\n", "")),
        (["hostname"], (0, "w1\n", "")),
        (["id", "-u"], (0, "0\n", "")),
        (["sh", "-c", "nvidia-smi -L"], (127, "", "sh: nvidia-smi: not found\n")),
        (["sh", "-c", "cat /sys/module/a/initstate"], (0, "live\n", "")),
        (["readlink", "/host/usr/bin/nvidia-smi"], (0, "../local/bin/nvidia-smi\n", "")),
    ],
)
def test_busybox(argv: list[str], expected: tuple[int, str, str]) -> None:
    assert said(*argv) == expected


def test_long_listing_shows_device_numbers_and_link_targets() -> None:
    _, out, _ = said("ls", "-l", "/dev/nvidia0")
    assert out.startswith("crw-rw-rw-    1 root     root      195,   0 Jan  1 00:02 /dev/nvidia0")
    _, out, _ = said("ls", "-l", "/host/usr/bin")
    assert " nvidia-smi -> ../local/bin/nvidia-smi\n" in out


@pytest.mark.parametrize("name", ["/usr/local/bin/nvidia-smi", "/usr/bin/nvidia-smi", "nvidia-smi"])
def test_chroot_runs_the_hosts_own_binary(name: str) -> None:
    code, out, _ = said("chroot", "/host", name, "-L")
    assert (code, out) == (0, "/usr/local/bin/nvidia-smi -L\n")


def test_an_absolute_link_leads_somewhere_only_inside_the_host_root() -> None:
    assert said("chroot", "/host", "/usr/bin/absolute")[0] == 0
    assert said("cat", "/host/usr/bin/absolute")[0] == 1


@pytest.mark.parametrize("command", [["sh"], ["sh", "-c", "nvidia-smi"], ["/bin/sh"], ["cat"]])
def test_there_is_no_shell_in_the_host_root(command: list[str]) -> None:
    code, out, err = said("chroot", "/host", *command)
    words = f"chroot: can't execute '{command[0]}': No such file or directory\n"
    assert (code, out, err) == (127, "", words)


def test_chroot_that_cannot() -> None:
    assert said("chroot", "/host", "/usr/local/bin/notes")[0] == 126
    assert said("chroot", "/no", "x") == (
        1,
        "",
        "chroot: can't change root directory to '/no': No such file or directory\n",
    )
    assert said("chroot", "/host")[0] == 127


def test_a_program_that_the_pod_lacks_could_not_be_started() -> None:
    result = run(["nvidia-smi", "-L"], MACHINE)
    assert 'exec: "nvidia-smi": executable file not found in $PATH' in result.error
    assert result.stdout == b""


@pytest.mark.parametrize("argv", [["sh", "-c", "a; b"], ["sh"], ["sh", "-c", "cat /x | wc"], []])
def test_what_is_not_modelled_is_refused_and_never_guessed(argv: list[str]) -> None:
    assert run(argv, MACHINE).error


def test_a_link_that_leads_to_itself_is_an_error() -> None:
    with pytest.raises(PathError, match="Symbolic link loop"):
        HOST.find("/loop")
    assert HOST.find("/loop", follow=False)[1] == Link("/loop")


@given(st.lists(st.text(max_size=20), max_size=4))
def test_no_argument_vector_breaks_the_machine(argv: list[str]) -> None:
    result = run(argv, MACHINE)
    assert result.error or result.exit_code in (0, 1, 2, 126, 127)


@given(
    st.sampled_from(["cat", "ls", "head", "tail", "grep", "readlink", "chroot", "sh", "uname"]),
    st.lists(
        st.sampled_from(
            [
                "-l",
                "-n",
                "-c",
                "-1",
                "--",
                "/proc/modules",
                "/dev/nvidia0",
                "/no",
                "",
                "/host",
                "3",
                "(",
            ]
        ),
        max_size=4,
    ),
)
def test_no_arguments_break_a_program(name: str, arguments: list[str]) -> None:
    result = run([name, *arguments], MACHINE)
    assert result.error or result.exit_code in (0, 1, 2, 126, 127)
