from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.inventory.models import Access
from harness.inventory.secrets import SecretRef, SecretUnavailableError, secret_kind

CONFIG = "apiVersion: v1\nkind: Config\n"


def test_a_secret_is_read_when_it_is_used(tmp_path: Path) -> None:
    place = tmp_path / "key"
    ref = SecretRef(file=str(place))
    with pytest.raises(SecretUnavailableError, match="No such file"):
        ref.resolve()
    place.write_text("hunter2", encoding="utf-8")
    assert ref.resolve() == "hunter2"
    place.write_text("other", encoding="utf-8")
    assert ref.resolve() == "other"


def test_a_variable_holds_the_secret() -> None:
    ref = SecretRef(env="LAB_KEY")
    assert ref.resolve({"LAB_KEY": "hunter2"}) == "hunter2"
    for empty in ({}, {"LAB_KEY": " \n"}):
        with pytest.raises(SecretUnavailableError, match="variable LAB_KEY is not set"):
            ref.resolve(empty)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "hunter2")
    assert SecretRef(env="LAB_KEY").resolve() == "hunter2"


def test_a_variable_may_hold_a_document_or_its_path(tmp_path: Path) -> None:
    place = tmp_path / "kubeconfig"
    place.write_text(CONFIG, encoding="utf-8")
    ref = SecretRef(env="LAB_KUBECONFIG")
    assert ref.document({"LAB_KUBECONFIG": CONFIG}) == CONFIG
    assert ref.document({"LAB_KUBECONFIG": f"{place}\n"}) == CONFIG
    assert ref.document({"LAB_KUBECONFIG": f":{place}:"}) == CONFIG
    with pytest.raises(SecretUnavailableError, match="file named by variable LAB_KUBECONFIG"):
        ref.document({"LAB_KUBECONFIG": str(tmp_path / "none")})


def test_the_files_that_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert SecretRef(file="~/lab").files() == (Path("/home/me/lab"),)
    ref = SecretRef(env="LAB")
    for both in ("/a:~/b:\n", ":/a:~/b", "::/a::~/b"):
        assert ref.files({"LAB": both}) == (Path("/a"), Path("/home/me/b"))
    for none in ({}, {"LAB": CONFIG}, {"LAB": "relative:/a"}):
        assert ref.files(none) == ()


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_an_empty_or_binary_file_is_no_secret(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "key"
    place.write_bytes(content)
    with pytest.raises(SecretUnavailableError):
        SecretRef(file=str(place)).resolve()


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("hunter2", encoding="utf-8")
    assert SecretRef(file="~/key").resolve() == "hunter2"


def test_a_reference_never_shows_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "hunter2")
    ref = SecretRef(env="LAB_KEY")
    ref.resolve()
    assert "hunter2" not in repr(ref) + ref.model_dump_json() + ref.where
    assert ref.model_dump() == {"env": "LAB_KEY"}


@pytest.mark.parametrize("given", [{}, {"file": "/a", "env": "B"}, {"file": "a"}, {"env": "A B"}])
def test_exactly_one_place(given: Any) -> None:
    with pytest.raises(ValueError):
        SecretRef.model_validate(given)


def test_a_kubeconfig_may_be_a_plain_path() -> None:
    access = Access.model_validate({"kubeconfig": "~/.kube/lab", "context": "admin"})
    assert access.kubeconfig == SecretRef(file="~/.kube/lab")
    assert access.model_dump() == {"kubeconfig": {"file": "~/.kube/lab"}, "context": "admin"}


@pytest.mark.parametrize(
    "text",
    [
        "ab" * 32,
        "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION",
        "registry.example/team/busybox@sha256:" + "0f" * 32,
        "/home/jenkins/agent/workspace/nightly/cozystack/hardware/validation/kubeconfig",
        "siderolabs/nvidia-open-gpu-kernel-modules-production",
        "https://lab.example:6443/path",
        "admin@cozystack",
    ],
)
def test_ordinary_values_are_no_secrets(text: str) -> None:
    assert secret_kind(text) is None
