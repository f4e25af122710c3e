from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from harness.reach.errors import KubeconfigUnreadable, PluginFailed
from harness.reach.execplugin import Credential, Plugin, plugin_of, read_credential

V1, BETA = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
Written = Callable[..., dict[str, Any]]


def told(version: str = V1, **status: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write a plugin; gives the user's exec section that names it."""

    def write(body: str, **more: Any) -> dict[str, Any]:
        path = tmp_path / "plugin"
        path.write_text(f"#!{sys.executable} -IS\nimport json, os, sys, time\n{body}\n")
        path.chmod(0o700)
        return {"apiVersion": V1, "command": str(path), "interactiveMode": "Never", **more}

    return write


def run(section: dict[str, Any], cluster: Any = None) -> Credential:
    return plugin_of(section, cluster or {"server": "https://lab"}, "read the kubeconfig x").run()


@pytest.mark.parametrize("version", [V1, BETA])
def test_a_token_and_its_end(written: Written, version: str) -> None:
    answer = told(version, token="sesame", expirationTimestamp="2026-01-01T00:00:00Z")
    found = run(written(f"print({answer!r})", apiVersion=version))
    assert found == Credential("sesame", expires=1767225600.0)
    assert "sesame" not in repr(found)


def test_arguments_and_environment_reach_it(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "kept")
    monkeypatch.setenv("PROFILE", "mine")
    body = "token = '/'.join([*sys.argv[1:], os.environ['KEPT'], os.environ['PROFILE']])\n"
    body += f"print({told()!r}.replace('{{}}', json.dumps({{'token': token}})))"
    env = [{"name": "PROFILE", "value": "lab"}]
    assert run(written(body, args=["a", "b;c"], env=env)).token == "a/b;c/kept/lab"


def test_it_is_told_what_it_serves_and_that_nobody_is_there(
    written: Written, tmp_path: Path
) -> None:
    body = f"open({str(tmp_path / 'info')!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
    body += f"assert sys.stdin.read() == ''\nprint({told(token='x')!r})"
    (tmp_path / "ca").write_bytes(b"pem")
    cluster = {
        "server": "https://lab",
        "certificate-authority": str(tmp_path / "ca"),
        "tls-server-name": "name",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}],
    }
    never_closed, kept = os.pipe(), os.dup(0)
    try:  # as a terminal would be: a plugin that was handed it would wait for ever
        os.dup2(never_closed[0], 0)
        found = plugin_of(written(body, provideClusterInfo=True), cluster, "x")
        Plugin(found.argv, found.version, found.env, cluster=found.cluster, seconds=5).run()
    finally:
        os.dup2(kept, 0)
        for descriptor in (*never_closed, kept):
            os.close(descriptor)
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"]) == (V1, "ExecCredential")
    assert info["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://lab",
            "tls-server-name": "name",
            "certificate-authority-data": base64.b64encode(b"pem").decode(),
            "config": {"a": 1},
        },
    }
    run(written(body), cluster)
    assert "cluster" not in json.loads((tmp_path / "info").read_text())["spec"]


def test_a_missing_program_says_how_to_install_it(written: Written) -> None:
    section = {**written(""), "command": "no-such-login", "installHint": "pip install\n  it"}
    with pytest.raises(PluginFailed, match=r"no program 'no-such-login' to run: pip install it$"):
        run(section)
    with pytest.raises(PluginFailed, match="install it, or correct the kubeconfig"):
        run({**section, "installHint": ""})


def test_a_program_that_cannot_be_started(written: Written, tmp_path: Path) -> None:
    section = written("")
    (tmp_path / "plugin").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(PluginFailed, match="cannot be started"):
        run(section)


def test_a_failure_is_quoted_without_its_secrets(written: Written) -> None:
    jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2ln"
    body = f"""
print('stdout-secret')
sys.stderr.write('login at https://me:hush@idp.example/x failed\\nBearer abcdef {jwt} '
                 'client_secret=verysecret password: pass1 key {os.urandom(30).hex()} ')
sys.stderr.write(os.environ['API_TOKEN'])
sys.exit(3)
"""
    env = [{"name": "API_TOKEN", "value": "plain words"}]
    with pytest.raises(PluginFailed) as caught:
        run(written(body, args=["--flag=argument-secret"], env=env))
    said = str(caught.value)
    assert "an end with status 3; it said 'login at https://(withheld)@idp.example/x failed" in said
    for secret in (
        "stdout-secret", "hush", "abcdef", "eyJ", "verysecret", "pass1", "plain words", "argument",
    ):  # fmt: skip
        assert secret not in said
    assert "\n" not in said


def test_a_killed_plugin(written: Written) -> None:
    with pytest.raises(PluginFailed, match="an end with signal 9"):
        run(written("os.kill(os.getpid(), 9)"))


def test_one_that_hangs_is_ended_with_its_children(written: Written, tmp_path: Path) -> None:
    body = f"""
child = os.fork()
if child:
    open({str(tmp_path / "child")!r}, 'w').write(str(child))
    sys.stderr.write('open your browser at ...'); sys.stderr.flush()
time.sleep(60)
"""
    began = time.monotonic()
    found = plugin_of(written(body), {}, "x")
    hasty = Plugin(found.argv, found.version, found.env, seconds=1.0)
    with pytest.raises(PluginFailed, match="no end within 1 s; it said 'open your browser at"):
        hasty.run()
    assert time.monotonic() - began < 20
    child = int((tmp_path / "child").read_text())
    ended = threading.Event()
    for _ in range(500):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        ended.wait(0.01)
    else:
        pytest.fail("its child lives on")


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("hello sesame", "12 bytes of output that are no JSON"),
        ("", "0 bytes of output"),
        ("[]", "no ExecCredential"),
        ('{"kind": "ExecCredential"}', "no ExecCredential with a status"),
        (told(BETA, token="sesame"), f"another apiVersion than {V1}"),
        (told(), "neither a token nor"),
        (told(token="two words"), "no header can hold"),
        (told(token="sesame\n"), "no header can hold"),
        (told(token="x", expirationTimestamp="soon"), "no time, 'soon'"),
        (told(clientCertificateData="x"), "without its key"),
        (told(clientCertificateData="x", clientKeyData="y"), "cannot be used"),
    ],
)
def test_junk_is_described_and_never_quoted(output: str, says: str) -> None:
    found = read_credential(output.encode(), V1)
    assert isinstance(found, str) and says in found
    assert "sesame" not in found


def test_a_client_certificate() -> None:
    pair = trustme.CA().issue_cert("me")
    certificate = pair.cert_chain_pems[0].bytes().decode()
    key = pair.private_key_pem.bytes().decode()
    found = read_credential(told(clientCertificateData=certificate, clientKeyData=key).encode(), V1)
    assert found == Credential(certificate=certificate, key=key)
    assert "PRIVATE" not in repr(found)


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T02:00:00+02:00", 1767225600.0),
        ("2026-01-01T00:00:00.123456789Z", 1767225600.123456),
        ("2026-01-01T00:00:00", 1767225600.0),
    ],
)
def test_the_ways_to_write_a_moment(
    moment: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    found = read_credential(told(token="x", expirationTimestamp=moment).encode(), V1)
    monkeypatch.undo()
    time.tzset()
    assert isinstance(found, Credential) and found.expires == seconds


@given(
    st.one_of(
        st.binary(),
        st.recursive(
            st.none() | st.booleans() | st.text(max_size=8),
            lambda inner: st.dictionaries(
                st.sampled_from(["status", "kind", "apiVersion", "token", "expirationTimestamp"]),
                inner,
            ),
        ).map(lambda found: json.dumps(found).encode()),
    )
)
def test_any_output_is_a_credential_or_a_problem(raw: bytes) -> None:
    assert isinstance(read_credential(raw, V1), Credential | str)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": None}, "command and args are not text"),
        ({"command": ""}, "command and args are not text"),
        ({"args": [1]}, "command and args are not text"),
        ({"args": "-x"}, "command and args are not text"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1', which is none of"),
        ({"apiVersion": None}, "which is none of"),
        ({"interactiveMode": "Always"}, "nobody is at a terminal"),
        ({"env": [{"name": "A"}]}, "no list of name and value"),
        ({"env": {"A": "b"}}, "no list of name and value"),
        ({"env": 3}, "no list of name and value"),
    ],
)
def test_a_section_that_cannot_be_used(written: Written, change: dict[str, Any], says: str) -> None:
    with pytest.raises(KubeconfigUnreadable, match=says):
        plugin_of({**written(""), **change}, {}, "read the kubeconfig x")
    with pytest.raises(KubeconfigUnreadable):
        plugin_of("aws", {}, "read the kubeconfig x")
