from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from harness.reach.access import client_from_file, client_from_text, client_in_cluster
from harness.reach.errors import (
    BadCertificate,
    KubeconfigMissing,
    KubeconfigUnreadable,
    NoSuchContext,
    Unreachable,
)
from harness.reach.kube import Kube


def test_missing_file_says_so(tmp_path: Any) -> None:
    with pytest.raises(KubeconfigMissing, match="no such file") as caught:
        client_from_file(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(caught.value)


@pytest.mark.parametrize("text", ["{: [", "hello", "", "- a", "contexts: none", "\x00"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Any, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeconfigUnreadable):
        client_from_file(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Any) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KubeconfigUnreadable):
        client_from_file(path)


def test_context_pointing_to_nothing_is_refused(server: Any) -> None:
    config = {**server.kubeconfig(), "clusters": []}
    with pytest.raises(KubeconfigUnreadable):
        client_from_file(server.write(config))


def test_certificate_that_is_no_certificate(server: Any) -> None:
    path = server.write(server.kubeconfig())
    (server.directory / "ca.pem").write_text("-----BEGIN nonsense")
    with pytest.raises(BadCertificate, match="unusable"):
        client_from_file(path)


def test_unknown_context_names_the_nearest(server: Any) -> None:
    path = server.write(server.kubeconfig())
    with pytest.raises(NoSuchContext, match=r"'managment'.*did you mean 'management'"):
        client_from_file(path, "managment")


def test_unknown_context_near_nothing_lists_all(server: Any) -> None:
    path = server.write(server.kubeconfig())
    with pytest.raises(NoSuchContext, match="management, tenant-lab"):
        client_from_file(path, "zzz")


def test_no_current_context(server: Any) -> None:
    config = server.kubeconfig()
    del config["current-context"]
    with pytest.raises(NoSuchContext, match="no current-context"):
        client_from_file(server.write(config))


def test_no_hidden_retries_and_an_explicit_pool(server: Any) -> None:
    client = client_from_file(server.write(server.kubeconfig()))
    assert client.configuration.retries is False
    assert client.rest_client.pool_manager.connection_pool_kw["maxsize"] == 32


def test_loopback_goes_past_a_proxy(
    server: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    kube = Kube("here", client_from_file(server.write(server.kubeconfig())), clock)
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    assert kube.get("v1", "Node", "", "n") == {"kind": "Node"}


def test_other_hosts_keep_the_proxy(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://192.0.2.1:3128")
    config = server.kubeconfig(server="https://api.example.test:6443")
    client = client_from_file(server.write(config))
    assert client.configuration.proxy == "http://192.0.2.1:3128"


def test_text_of_a_secret_serves_as_well(server: Any, clock: Any) -> None:
    config = server.kubeconfig()
    ca = server.ca.cert_pem.bytes()
    config["clusters"][0]["cluster"] = {
        "server": server.url,
        "certificate-authority-data": base64.b64encode(ca).decode(),
    }
    kube = Kube("tenant lab", client_from_text(yaml.safe_dump(config)), clock)
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    assert kube.get("v1", "Node", "", "n") is not None
    assert server.seen[-1][3]["Authorization"] == "Bearer sesame"


def test_text_errors_name_their_source() -> None:
    with pytest.raises(KubeconfigUnreadable, match="Secret ns/lab-admin"):
        client_from_text("no", source="Secret ns/lab-admin")


def test_stranger_certificate(server: Any, clock: Any) -> None:
    config = server.kubeconfig(trusted=trustme.CA(key_type=trustme.KeyType.ECDSA))
    kube = Kube("management", client_from_file(server.write(config)), clock)
    with pytest.raises(BadCertificate, match="certificate"):
        kube.get("v1", "Node", "", "n")
    assert server.seen == []


def test_certificate_for_another_name(server: Any, clock: Any) -> None:
    config = server.kubeconfig()
    config["clusters"][0]["cluster"]["tls-server-name"] = "elsewhere.test"
    kube = Kube("management", client_from_file(server.write(config)), clock)
    with pytest.raises(BadCertificate, match="elsewhere"):
        kube.get("v1", "Node", "", "n")


def test_nobody_listens(server: Any, clock: Any) -> None:
    config = server.kubeconfig(server="https://127.0.0.1:1")
    kube = Kube("management", client_from_file(server.write(config)), clock)
    with pytest.raises(Unreachable, match="refused") as caught:
        kube.get("v1", "Node", "", "n")
    assert "management" in caught.value.tried and "https://127.0.0.1:1" in caught.value.tried
    assert kube.calls[0].status == 0


def test_plain_http_where_tls_was_expected(server: Any, serve: Any, clock: Any) -> None:
    with serve(server.answer, None) as port:
        config = server.kubeconfig(server=f"https://127.0.0.1:{port}")
        kube = Kube("management", client_from_file(server.write(config)), clock)
        with pytest.raises(Unreachable):
            kube.get("v1", "Node", "", "n")


def node(kube: Kube) -> None:
    assert kube.get("v1", "Node", "", "n") == {"kind": "Node"}


def test_a_name_for_tls(server: Any, serve: Any, clock: Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.ca.issue_cert("elsewhere.test").configure_cert(context)
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    with serve(server.answer, context) as port:
        config = server.kubeconfig(server=f"https://127.0.0.1:{port}")
        with pytest.raises(BadCertificate):
            node(Kube("management", client_from_file(server.write(config)), clock))
        config["clusters"][0]["cluster"]["tls-server-name"] = "elsewhere.test"
        node(Kube("management", client_from_file(server.write(config)), clock))


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_certificate_that_is_not_asked_for(server: Any, clock: Any) -> None:
    config = server.kubeconfig()
    config["clusters"][0]["cluster"] = {"server": server.url, "insecure-skip-tls-verify": True}
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    node(Kube("management", client_from_file(server.write(config)), clock))


@pytest.fixture
def mutual(server: Any, serve: Any) -> Any:
    """The server, for those alone who show a certificate of its authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.ca.issue_cert("127.0.0.1").configure_cert(context)
    server.ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    with serve(server.answer, context) as port:
        yield server, f"https://127.0.0.1:{port}"


@pytest.mark.parametrize("form", ["files", "data"])
def test_a_client_certificate(mutual: Any, clock: Any, tmp_path: Path, form: str) -> None:
    server, url = mutual
    pair = server.ca.issue_cert("me.test")
    parts = {
        "client-certificate": pair.cert_chain_pems[0].bytes(),
        "client-key": pair.private_key_pem.bytes(),
    }
    config = server.kubeconfig(server=url)
    if form == "data":
        coded = {f"{name}-data": base64.b64encode(part).decode() for name, part in parts.items()}
        config["users"][0]["user"] = coded
    else:
        for name, part in parts.items():
            (tmp_path / f"{name}.pem").write_bytes(part)
        config["users"][0]["user"] = {name: f"{name}.pem" for name in parts}
    node(Kube("management", client_from_file(server.write(config)), clock))


def test_a_user_and_a_password(server: Any, clock: Any) -> None:
    config = server.kubeconfig()
    config["users"][0]["user"] = {"username": "me", "password": "hush"}
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    node(Kube("management", client_from_file(server.write(config)), clock))
    wanted = f"Basic {base64.b64encode(b'me:hush').decode()}"
    assert server.seen[-1][3]["Authorization"] == wanted


def test_nobody_in_particular(server: Any, clock: Any) -> None:
    config = server.kubeconfig()
    config["contexts"][0]["context"] = {"cluster": "here"}
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    node(Kube("management", client_from_file(server.write(config)), clock))
    assert "Authorization" not in server.seen[-1][3]


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"auth-provider": {"name": "gcp"}}, "use the provider's exec plugin"),
        ({"token": "two\nlines"}, "a token that no header can hold"),
        ({"token": ["listed"]}, "a token that no header can hold"),
        ({"token": "t", "as": "somebody"}, "an impersonation"),
        ({"tokenFile": "/etc/hostname", "as-groups": ["system:masters"]}, "an impersonation"),
        ({"exec": {"command": "x"}}, "an exec plugin of None"),
        ({"client-certificate": "nowhere.pem", "client-key": "nowhere.pem"}, "nowhere.pem"),
    ],
)
def test_a_user_that_cannot_be_used(server: Any, user: dict[str, Any], says: str) -> None:
    config = server.kubeconfig()
    config["users"][0]["user"] = user
    with pytest.raises(KubeconfigUnreadable, match=says):
        client_from_file(server.write(config))


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}},
        {"tokenFile": "/etc/hostname"},
    ],
)
def test_a_clusters_own_text_reads_and_runs_nothing_here(server: Any, user: dict[str, Any]) -> None:
    config = server.kubeconfig()
    config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] = {"server": server.url}
    with pytest.raises(KubeconfigUnreadable, match="read or run on this machine"):
        client_from_text(yaml.safe_dump(config), foreign=True)


# -- in a pod ------------------------------------------------------------------------------------


@pytest.fixture
def account(server: Any, tmp_path: Path) -> Callable[[], Kube]:
    """A service account's files, and what a pod's environment says of the server."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    server.ca.cert_pem.write_to_path(folder / "ca.crt")
    server.account = folder
    server.environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    return lambda: client_in_cluster(server.environ, folder)


def test_a_pods_service_account(server: Any, clock: Any, account: Any) -> None:
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    kube = Kube("management", account(), clock)
    node(kube)
    assert server.seen[-1][3]["Authorization"] == "Bearer first"
    (server.account / "token").write_text("second")
    node(kube)
    assert server.seen[-1][3]["Authorization"] == "Bearer second"


def test_a_pods_service_account_of_another_cluster(server: Any, clock: Any, account: Any) -> None:
    trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.write_to_path(server.account / "ca.crt")
    with pytest.raises(BadCertificate):
        node(Kube("management", account(), clock))


def test_a_server_of_version_6(server: Any, account: Any) -> None:
    server.environ["KUBERNETES_SERVICE_HOST"] = "fd00::1"
    assert account().configuration.host == f"https://[fd00::1]:{server.port}"


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_what_is_no_pod(server: Any, account: Any, missing: str) -> None:
    server.environ[missing] = ""
    with pytest.raises(KubeconfigMissing, match="run it in a pod, or name a kubeconfig"):
        account()


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account(server: Any, account: Any, missing: str) -> None:
    (server.account / missing).unlink()
    with pytest.raises(KubeconfigMissing, match=f"{missing}: give the pod a service account"):
        account()


def test_a_pod_with_an_empty_token(server: Any, account: Any) -> None:
    (server.account / "token").write_text("")
    with pytest.raises(KubeconfigUnreadable, match="no token in it"):
        account()
