"""Logging in to the twin's hypervisors, and what one sees there."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import paramiko
import pytest

from harness.twin.process import Endpoint, HostAccess, TwinProcess

L40S = "AD102GL [L40S] [10de:26b9]"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwinProcess]:
    running = TwinProcess(tmp_path_factory.mktemp("twin"), seed=1)
    yield running
    running.close()


def connect(host: HostAccess, key: paramiko.PKey | None = None) -> paramiko.Transport:
    transport = paramiko.Transport(socket.create_connection((host.address, host.port), 10))
    transport.start_client(timeout=10)
    transport.auth_publickey(host.user, key or paramiko.Ed25519Key(filename=str(host.key)))
    return transport


def run(transport: paramiko.Transport, line: str) -> tuple[int, str, str]:
    channel = transport.open_session(timeout=10)
    channel.settimeout(10)
    channel.exec_command(line)
    out = channel.makefile("rb").read()
    err = channel.makefile_stderr("rb").read()
    code = channel.recv_exit_status()
    channel.close()
    return code, out.decode(), err.decode()


@pytest.fixture
def shell(twin: TwinProcess) -> Iterator[Any]:
    opened: dict[str, paramiko.Transport] = {}

    def ask(host: str, line: str) -> tuple[int, str, str]:
        if host not in opened:
            opened[host] = connect(twin.endpoint.hosts[host])
        return run(opened[host], line)

    yield ask
    for transport in opened.values():
        transport.close()


def test_the_cards_of_each_host_are_held_for_passing_through(shell: Any) -> None:
    code, out, err = shell("hv-1", "lspci -nnk -d 10de:")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line for line in lines if L40S in line] == lines[::3]
    assert len(lines) == 12
    assert lines[0].startswith("17:00.0 3D controller [0302]: NVIDIA Corporation ")
    assert set(lines[2::3]) == {"\tKernel driver in use: vfio-pci"}
    assert "GB202GL" in shell("hv-2", "lspci -nnk -d 10de:")[1]
    assert shell("hv-3", "lspci -nn -d 10de:2330")[1].count("\n") == 2
    assert shell("hv-3", "lspci -nnk -d 10de:26b9") == (0, "", "")


def test_small_programs_and_what_is_not_there(shell: Any) -> None:
    assert shell("hv-2", "uname -r") == (0, "6.18.34-talos\n", "")
    assert shell("hv-2", "hostname") == (0, "hv-2\n", "")
    assert "vfio_pci 16384 0 - Live" in shell("hv-2", "cat /proc/modules")[1]
    assert "nvidia" not in shell("hv-2", "cat /proc/modules")[1]
    assert shell("hv-2", "cat /no")[0] == 1
    assert shell("hv-2", "nvidia-smi -L") == (
        127,
        "",
        "bash: line 1: nvidia-smi: command not found\n",
    )
    assert shell("hv-2", "cat 'unfinished")[0] == 2
    assert shell("hv-2", "sudo -n uname -r")[1] == "6.18.34-talos\n"


def test_commands_at_the_same_time_have_an_answer_each(twin: TwinProcess) -> None:
    one = connect(twin.endpoint.hosts["hv-1"])
    two = connect(twin.endpoint.hosts["hv-2"])
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(run, (one, two)[i % 2], "hostname") for i in range(40)]
        found = [each.result(30)[1] for each in asked]
    assert found == ["hv-1\n", "hv-2\n"] * 20
    one.close()
    two.close()


def test_nobody_else_is_let_in(twin: TwinProcess) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    stranger = paramiko.Ed25519Key.from_private_key(io.StringIO(text.decode()))
    host = twin.endpoint.hosts["hv-1"]
    with pytest.raises(paramiko.AuthenticationException):
        connect(host, stranger)
    with pytest.raises(paramiko.AuthenticationException):
        connect(HostAccess(host.address, host.port, "admin", host.host_key, host.key))


def test_each_host_shows_the_key_that_the_twin_told(twin: TwinProcess) -> None:
    hosts = twin.endpoint.hosts
    assert set(hosts) == {"hv-1", "hv-2", "hv-3"}
    for host in hosts.values():
        transport = connect(host)
        assert transport.get_remote_server_key().fingerprint == host.host_key
        transport.close()
    assert len({host.host_key for host in hosts.values()}) == 3


def test_the_key_is_for_its_owner_alone(twin: TwinProcess) -> None:
    path = next(iter(twin.endpoint.hosts.values())).key
    assert path.stat().st_mode & 0o777 == 0o600
    assert Endpoint.load(Path(path).parent).hosts == twin.endpoint.hosts


def test_who_speaks_no_ssh_or_leaves_at_once_harms_nobody(twin: TwinProcess, shell: Any) -> None:
    host = twin.endpoint.hosts["hv-1"]
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4096):
        with socket.create_connection((host.address, host.port), 10) as plain:
            plain.sendall(said)
    transport = connect(host)
    channel = transport.open_session(timeout=10)
    channel.exec_command("lspci -nnk -d 10de:")
    transport.close()  # without waiting for an answer
    assert shell("hv-1", "hostname")[0] == 0
