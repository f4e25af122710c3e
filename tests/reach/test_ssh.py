from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from harness.clock import WallClock
from harness.reach.errors import (
    HostKeyChanged,
    HostKeyUnknown,
    KeyUnusable,
    LabError,
    LoginRefused,
    Unreachable,
)
from harness.reach.hostkeys import Pins
from harness.reach.nodeshell import NodeShell
from harness.reach.ssh import Machine, SshShell
from tests.reach.sshd import Sshd, finish, key, relayed

CLOCK = WallClock()
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")


@pytest.fixture(scope="module")
def standing() -> Iterator[Sshd]:
    server = Sshd(host_keys=(key(), key("ecdsa")))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def sshd(standing: Sshd) -> Sshd:
    standing.sessions = 100
    standing.allowed = "publickey"
    standing.commands.clear()
    standing.lines.clear()
    return standing


@pytest.fixture
def key_file(standing: Sshd, tmp_path: Path) -> Path:
    return written(standing.accepted[0], tmp_path / "id")


def written(private: Any, path: Path) -> Path:
    path.write_text(private.text)
    return path


@pytest.fixture
def machine(sshd: Sshd, key_file: Path) -> Machine:
    pins = Pins(fingerprint=sshd.host_keys[0].fingerprint)
    return Machine("127.0.0.1", port=sshd.port, pins=pins, key_file=key_file, where="guest g")


@pytest.fixture
def shell(machine: Machine) -> Iterator[SshShell]:
    made = SshShell.open(machine, CLOCK, timeout=10)
    yield made
    made.close()


def test_streams_and_exit_codes(shell: SshShell) -> None:
    as_any: NodeShell = shell
    reply = as_any.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (reply.exit_code, reply.stdout, reply.stderr) == (7, b"out\n", b"err\n")
    assert (reply.problem, reply.argv[0]) == ("", "sh")
    assert reply.started <= reply.ended
    assert shell.run(["true"]).exit_code == 0
    assert as_any.where == "guest g"


def test_arguments_arrive_one_by_one(shell: SshShell) -> None:
    arguments = ["", "a b", "$HOME", "`id`", "it's", '"', "*", ";", "\\", "new\nline", "ünï"]
    reply = shell.run(["printf", "%s\\0", *arguments])
    assert reply.stdout.split(b"\0")[:-1] == [a.encode() for a in arguments]


def test_host_is_run_and_a_prefix_goes_before(
    sshd: Sshd, machine: Machine, shell: SshShell
) -> None:
    assert shell.host(["echo", "x"]).stdout == b"x\n"
    prefixed = SshShell.open(replace(machine, prefix=("env", "A=b c")), CLOCK)
    reply = prefixed.host(["printenv", "A"])
    assert reply.stdout == b"b c\n"
    assert reply.argv == ("env", "A=b c", "printenv", "A")
    prefixed.close()


def test_input_is_at_its_end(shell: SshShell, sshd: Sshd) -> None:
    got: list[bytes] = []

    def read_all(channel: paramiko.Channel) -> None:
        got.append(channel.recv(10))
        finish(channel)

    sshd.commands["cat"] = read_all
    assert shell.run(["cat"], timeout=5).exit_code == 0
    assert got == [b""]


def test_64_megabytes_on_both_streams(shell: SshShell, sshd: Sshd) -> None:
    piece = bytes(range(256)) * 4096

    def pour(channel: paramiko.Channel) -> None:
        for _ in range(32):
            channel.sendall(piece)
            channel.sendall_stderr(piece)
        finish(channel, code=3)

    sshd.commands["pour"] = pour
    reply = shell.run(["pour"], timeout=60)
    assert reply.exit_code == 3
    assert (len(reply.stdout), len(reply.stderr)) == (32 << 20, 32 << 20)
    assert reply.stdout == piece * 32


def test_split_characters_come_whole(shell: SshShell, sshd: Sshd) -> None:
    text = "München ✓".encode()

    def trickle(channel: paramiko.Channel) -> None:
        for byte in text:
            channel.sendall(bytes([byte]))
        finish(channel)

    sshd.commands["trickle"] = trickle
    assert shell.run(["trickle"]).stdout == text


def hang(channel: paramiko.Channel) -> None:
    channel.sendall(b"so far")


def test_deadline_keeps_what_came(shell: SshShell, sshd: Sshd) -> None:
    sshd.commands["hang"] = hang
    began = CLOCK.monotonic()
    reply = shell.run(["hang"], timeout=0.3)
    assert CLOCK.monotonic() - began < 3
    assert (reply.exit_code, reply.stdout) == (None, b"so far")
    assert reply.problem == "0.3 s passed without an exit status, after 6 bytes of output"
    assert shell.run(["echo", "next"]).stdout == b"next\n"


def test_endless_output_ends_at_the_deadline(shell: SshShell, sshd: Sshd) -> None:
    def pour(channel: paramiko.Channel) -> None:
        while True:
            channel.sendall(bytes(32768))

    sshd.commands["yes"] = pour
    began = CLOCK.monotonic()
    reply = shell.run(["yes"], timeout=0.3)
    assert CLOCK.monotonic() - began < 3
    assert reply.exit_code is None
    assert "0.3 s passed" in reply.problem


def test_a_server_that_closes_without_a_status_is_unknown(shell: SshShell, sshd: Sshd) -> None:
    def drop(channel: paramiko.Channel) -> None:
        channel.sendall(b"half")
        channel.close()

    sshd.commands["drop"] = drop
    reply = shell.run(["drop"])
    assert (reply.exit_code, reply.stdout) == (None, b"half")
    assert "closed without an exit status" in reply.problem
    assert "after 4 bytes" in reply.problem


def test_a_status_before_the_last_output_loses_nothing(shell: SshShell, sshd: Sshd) -> None:
    def status_first(channel: paramiko.Channel) -> None:
        channel.send_exit_status(5)
        channel.sendall(b"x" * 1_000_000)
        channel.close()

    sshd.commands["early"] = status_first
    reply = shell.run(["early"])
    assert (reply.exit_code, len(reply.stdout)) == (5, 1_000_000)


def test_an_ended_command_whose_output_stays_open_is_unknown(shell: SshShell, sshd: Sshd) -> None:
    sshd.commands["daemon"] = lambda channel: channel.send_exit_status(0)
    reply = shell.run(["daemon"], timeout=0.3)
    assert reply.exit_code is None
    assert "it ended with 0, its output did not" in reply.problem


def test_a_status_that_comes_late_is_waited_for(shell: SshShell, sshd: Sshd) -> None:
    def late(channel: paramiko.Channel) -> None:
        channel.sendall(b"x")
        channel.shutdown_write()
        threading.Timer(0.1, lambda: finish(channel, code=4)).start()

    sshd.commands["late"] = late
    assert shell.run(["late"], timeout=5).exit_code == 4


def test_a_command_that_is_not_taken_is_not_started(shell: SshShell) -> None:
    reply = shell.run(["refused"])
    assert reply.exit_code is None
    assert reply.problem.startswith("not started: ")


def test_too_many_at_once_is_said(shell: SshShell, sshd: Sshd) -> None:
    sshd.sessions = 0
    reply = shell.run(["true"])
    assert reply.exit_code is None
    assert reply.problem.startswith("not started: the machine gave no channel")


def test_commands_run_at_the_same_time(shell: SshShell) -> None:
    def once(number: int) -> bool:
        reply = shell.run(["sh", "-c", f"echo {number}; exit {number}"])
        return (reply.stdout, reply.exit_code) == (b"%d\n" % number, number)

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(once, range(40)))
    assert len(shell.connections) == 1


def test_no_command_is_a_mistake(shell: SshShell) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        shell.run([])


# -- the way there


def test_a_connection_that_is_cut_is_said_and_made_anew_on_demand(
    sshd: Sshd, machine: Machine
) -> None:
    sshd.commands["hang"] = hang
    with relayed(sshd.port) as relay:
        shell = SshShell.open(replace(machine, port=relay.port), CLOCK)
        threading.Timer(0.2, relay.cut).start()
        reply = shell.run(["hang"], timeout=20)
        assert (reply.exit_code, reply.stdout) == (None, b"so far")
        assert "the SSH connection has ended" in reply.problem
        assert not shell.alive()
        again = shell.run(["true"])
        assert again.problem.startswith("not started: the SSH connection has ended")
        made = shell.reconnect()
        assert shell.run(["true"]).exit_code == 0
        assert shell.connections[-1] == made
        assert len(shell.connections) == 2
        assert made.fingerprint == sshd.host_keys[0].fingerprint
        shell.close()


def test_a_half_dead_connection_holds_nobody_up(sshd: Sshd, machine: Machine) -> None:
    sshd.commands["hang"] = hang
    with relayed(sshd.port) as relay:
        shell = SshShell.open(replace(machine, port=relay.port), CLOCK)
        assert shell.alive()
        relay.freeze()
        began = CLOCK.monotonic()
        reply = shell.run(["true"], timeout=0.5)
        assert not shell.alive(within=0.3)
        shell.close()
        assert CLOCK.monotonic() - began < 5
        assert reply.exit_code is None
        assert reply.problem == (
            "not started: the machine gave no channel for it (Timeout opening channel.)"
        )


def test_a_machine_that_dies_under_a_command_holds_nobody_up(sshd: Sshd, machine: Machine) -> None:
    with relayed(sshd.port) as relay:
        shell = SshShell.open(replace(machine, port=relay.port), CLOCK)

        def die(channel: paramiko.Channel) -> None:
            relay.freeze()
            channel.sendall(b"unheard")

        sshd.commands["die"] = die
        reply = shell.run(["die"], timeout=0.5)
        assert (reply.exit_code, reply.stdout) == (None, b"")
        shell.close()


def test_an_answer_to_the_request_that_never_comes_is_given_up(
    sshd: Sshd, machine: Machine
) -> None:
    with relayed(sshd.port) as relay:
        shell = SshShell.open(replace(machine, port=relay.port), CLOCK)
        transport = shell._transports[-1]
        open_session = transport.open_session

        def open_and_freeze(**more: Any) -> Any:
            channel = open_session(**more)
            relay.freeze()
            return channel

        transport.open_session = open_and_freeze  # type: ignore[method-assign]
        began = CLOCK.monotonic()
        reply = shell.run(["true"], timeout=0.4)
        assert CLOCK.monotonic() - began < 3
        assert reply.problem.startswith("not started: ")
        shell.close()


def test_a_jump_host_is_gone_through(sshd: Sshd, machine: Machine) -> None:
    behind = Sshd(accepted=sshd.accepted)
    behind.start()
    pins = Pins(fingerprint=behind.host_keys[0].fingerprint)
    there = replace(machine, port=behind.port, pins=pins, jump=machine)
    shell = SshShell.open(there, CLOCK)
    assert shell.run(["echo", "x"]).stdout == b"x\n"
    assert sshd.forwarded == [("127.0.0.1", behind.port)]
    assert behind.lines == ["echo x"]
    shell.close()
    behind.stop()


# -- who answers, and who may


def refused(machine: Machine, error: type[LabError], timeout: float = 10) -> str:
    with pytest.raises(error) as caught:
        SshShell.open(machine, CLOCK, timeout=timeout)
    return str(caught.value)


def test_an_unknown_key_is_refused_before_anything_is_offered(sshd: Sshd, machine: Machine) -> None:
    told = refused(replace(machine, pins=Pins()), HostKeyUnknown)
    assert any(k.fingerprint in told for k in sshd.host_keys)
    assert f"ssh-keyscan -p {sshd.port} 127.0.0.1" in told
    assert not sshd.transports[-1].is_authenticated()


def test_another_key_than_the_pinned_is_refused(sshd: Sshd, machine: Machine) -> None:
    other = key()
    told = refused(replace(machine, pins=Pins(fingerprint=other.fingerprint)), HostKeyChanged)
    assert other.fingerprint in told
    assert sshd.host_keys[0].fingerprint in told


def test_the_key_that_is_known_is_the_one_asked_for(sshd: Sshd, machine: Machine) -> None:
    for host_key in sshd.host_keys:
        line = f"[127.0.0.1]:{sshd.port} {host_key.get_name()} {host_key.get_base64()}"
        shell = SshShell.open(replace(machine, pins=Pins(line)), CLOCK)
        assert shell.connections[0].fingerprint == host_key.fingerprint
        shell.close()


def test_a_key_that_is_not_taken_is_said(machine: Machine, tmp_path: Path) -> None:
    stranger = key()
    told = refused(replace(machine, key_file=written(stranger, tmp_path / "other")), LoginRefused)
    assert f"having offered {stranger.fingerprint}" in told
    assert "authorized_keys" in told
    assert "root@[127.0.0.1]:" in told


def test_a_server_that_takes_no_keys_is_said(sshd: Sshd, machine: Machine) -> None:
    sshd.allowed = "password"
    assert "the server takes password only" in refused(machine, LoginRefused)


def test_nothing_to_offer_is_said(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    none = replace(machine, key_file=None)
    assert "neither a key file nor an agent" in refused(none, LoginRefused)
    assert "an ssh-agent without keys" in refused(replace(none, agent=True), LoginRefused)


def test_keys_that_cannot_be_used_are_said(machine: Machine, tmp_path: Path) -> None:
    missing = replace(machine, key_file=tmp_path / "none")
    assert "no key file" in refused(missing, KeyUnusable)
    (tmp_path / "junk").write_text("junk")
    assert "junk" in refused(replace(machine, key_file=tmp_path / "junk"), KeyUnusable)
    assert "directory" in refused(replace(machine, key_file=tmp_path), KeyUnusable)
    if shutil.which("ssh-keygen"):
        locked = tmp_path / "locked"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)], check=True
        )
        assert "needs a passphrase" in refused(replace(machine, key_file=locked), KeyUnusable)


def test_keys_of_an_agent_are_offered(
    machine: Machine, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (shutil.which("ssh-agent") and shutil.which("ssh-add")):
        pytest.skip("ssh-agent and ssh-add are not on PATH")
    key_file.chmod(0o600)
    path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        subprocess.run(["ssh-add", "-q", str(key_file)], check=True)
        shell = SshShell.open(replace(machine, key_file=None, agent=True), CLOCK)
        assert shell.run(["true"]).exit_code == 0
        shell.close()
    finally:
        agent.terminate()
        agent.wait(10)
        agent.stdout.close()


@pytest.fixture
def listening() -> Iterator[Callable[[bytes], int]]:
    """A port that greets with some bytes and says nothing more."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def greet(words: bytes) -> int:
        def accept() -> None:
            connection, _ = listener.accept()
            held.append(connection)
            connection.sendall(words)

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    yield greet
    for one in held:
        one.close()
    listener.close()


def test_nobody_there_is_unreachable(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert "refused" in refused(replace(machine, port=port), Unreachable)


@pytest.mark.parametrize("words", [b"", b"SSH-2.0-stuck\r\n"])
def test_a_silent_port_is_given_up(
    machine: Machine, listening: Callable[[bytes], int], words: bytes
) -> None:
    began = CLOCK.monotonic()
    refused(replace(machine, port=listening(words)), Unreachable, timeout=0.4)
    assert CLOCK.monotonic() - began < 5


def test_another_service_is_no_ssh(machine: Machine, listening: Callable[[bytes], int]) -> None:
    port = listening(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)
    assert "no SSH" in refused(replace(machine, port=port), Unreachable, timeout=3)


_DISCONNECT = b"\x01\0\0\0\x02\0\0\0\x0bToo many\xff\xff\xff\0\0\0\0"


@pytest.mark.parametrize(
    "words",
    [
        b"SSH-2.0-\xff\xfe\r\n",
        b"\x00\x8e\xd0\n\xff\n",
        b"SSH-2.0-x\r\n" + b"\xff" * 64,
        b"SSH-2.0-x\r\n\0\0\0\x0c\x0a\x14" + bytes(50),
        b"SSH-2.0-x\r\n\0\0\0\x24\x0b" + _DISCONNECT + bytes(11),
    ],
)
def test_whatever_a_port_says_is_a_sentence(
    machine: Machine, listening: Callable[[bytes], int], words: bytes
) -> None:
    """Text that is no UTF-8 fails in paramiko's own parsers, with any exception."""
    said = refused(replace(machine, port=listening(words)), Unreachable, timeout=3)
    assert "no SSH there" in said


@pytest.mark.parametrize("host", ["..", "a" * 70 + ".example"])
def test_a_name_that_is_none_is_unreachable(machine: Machine, host: str) -> None:
    assert "idna" in refused(replace(machine, host=host), Unreachable)


def test_an_argument_that_is_no_text_is_a_mistake(shell: SshShell) -> None:
    with pytest.raises(TypeError):
        shell.run(["echo", 1])  # type: ignore[list-item]


def test_a_real_sshd(tmp_path: Path) -> None:
    if SSHD is None:
        pytest.skip("no sshd on this machine")
    host, mine = key(), key()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "host").write_text(host.text)  # type: ignore[attr-defined]
    (tmp_path / "host").chmod(0o600)
    (tmp_path / "keys").write_text(f"{mine.get_name()} {mine.get_base64()}\n")
    options = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "keys",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
    }
    config = tmp_path / "sshd_config"
    config.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
    try:
        assert server.stderr is not None
        assert b"listening" in server.stderr.readline()
        import getpass

        machine = Machine(
            "127.0.0.1",
            user=getpass.getuser(),
            port=port,
            pins=Pins(fingerprint=host.fingerprint),
            key_file=written(mine, tmp_path / "id"),
        )
        shell = SshShell.open(machine, CLOCK)
        reply = shell.run(["sh", "-c", "echo 'a  b'; echo err >&2; exit 3"])
        assert (reply.exit_code, reply.stdout, reply.stderr) == (3, b"a  b\n", b"err\n")
        assert shell.run(["sh", "-c", "kill -9 $$"]).exit_code in (None, 137)
        shell.close()
    finally:
        server.terminate()
        server.wait(10)
