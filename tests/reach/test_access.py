from __future__ import annotations

from typing import Any

import pytest
import trustme
import yaml

from harness.reach.access import client_from_file, client_from_text
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
    import base64

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
