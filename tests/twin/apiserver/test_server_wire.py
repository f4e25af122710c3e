"""The pure parts of the front: protobuf, queries, ages, kubeconfigs, forms, the log."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.apiserver import bodies, protobuf
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.negotiation import form
from harness.twin.apiserver.queries import boolean, delete_options, parse, write_options
from harness.twin.apiserver.requestlog import Request, RequestLog
from harness.twin.apiserver.resources import Column, Resource
from harness.twin.apiserver.tables import human_duration, table


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def part(number: int, value: bytes | int) -> bytes:
    """One field on the wire."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = part(1, api_version.encode()) + part(2, kind.encode())
    return b"k8s\x00" + part(1, meta) + part(2, raw) + part(3, b"") + part(4, b"")


def entry(key: str, value: bytes) -> bytes:
    return part(1, key.encode()) + part(2, value)


def test_a_secret_in_protobuf() -> None:
    metadata = part(1, b"s") + part(3, b"default") + part(11, entry("app", b"x")) + part(8, b"")
    raw = part(1, metadata) + part(2, entry("key", b"\x00\xff")) + part(3, b"Opaque") + part(5, 1)
    assert protobuf.decode(envelope("v1", "Secret", raw)) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "labels": {"app": "x"}},
        "data": {"key": base64.b64encode(b"\x00\xff").decode()},
        "type": "Opaque",
        "immutable": True,
    }


def test_a_review_in_protobuf() -> None:
    wanted = part(1, b"default") + part(2, b"get") + part(3, b"apps") + part(5, b"deployments")
    raw = part(1, b"") + part(2, part(1, wanted)) + part(3, part(1, 0))
    kind = "SelfSubjectAccessReview"
    assert protobuf.decode(envelope("authorization.k8s.io/v1", kind, raw)) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {},
        "spec": {
            "resourceAttributes": {
                "namespace": "default",
                "verb": "get",
                "group": "apps",
                "resource": "deployments",
            }
        },
        "status": {"allowed": False},
    }


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (envelope("apps/v1", "Deployment", b""), 415, "apps/v1 Deployment"),
        (envelope("v1", "ConfigMap", part(1, part(17, b""))), 415, "field 17 of ObjectMeta"),
        (b"\x0a\x00", 400, "magic number"),
        (envelope("v1", "ConfigMap", b"\x0a\x05a"), 400, "cut short"),
        (envelope("v1", "ConfigMap", part(1, 5)), 400, "a number stands where bytes belong"),
        (envelope("v1", "ConfigMap", part(2, entry("k", b"\xff"))), 400, "utf-8"),
        (envelope("v1", "ConfigMap", part(2, part(1, 3))), 400, "a number stands"),
    ],
)
def test_protobuf_that_is_not_read_is_refused(data: bytes, code: int, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        protobuf.decode(data)
    assert refused.value.code == code


KNOWN = st.sampled_from(sorted(protobuf.KINDS))


@given(st.binary(max_size=80), KNOWN)
def test_no_protobuf_is_ever_more_than_refused(raw: bytes, kind: tuple[str, str]) -> None:
    for data in (raw, b"k8s\x00" + raw, envelope(*kind, raw)):
        try:
            assert isinstance(protobuf.decode(data), dict)
        except ApiError as refused:
            assert refused.code in (400, 415)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4))
def test_a_config_map_survives_protobuf(data: dict[str, str]) -> None:
    raw = b"".join(part(2, entry(key, value.encode())) for key, value in data.items())
    found = protobuf.decode(envelope("v1", "ConfigMap", raw))
    assert found.get("data", {}) == data


@given(st.binary(max_size=200), st.sampled_from([bodies.JSON, bodies.YAML, "", "text/plain"]))
def test_no_body_is_ever_more_than_refused(body: bytes, media: str) -> None:
    try:
        assert isinstance(bodies.read_object(body, media), dict)
    except ApiError as refused:
        assert refused.code in (400, 415)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("f=0", False),
        ("f=false", False),
        ("f=False", False),
        ("f=1", True),
        ("f=True", True),
        ("f=", True),
        ("f", True),
    ],
)
def test_flags(text: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert boolean(parse(text), "f") is expected


def test_of_a_repeated_parameter_the_first_counts() -> None:
    assert parse("a=1&a=2&b=%20")["a"] == "1"


def test_write_options() -> None:
    query = parse("fieldManager=me&dryRun=All&force=True&fieldValidation=Strict")
    options = write_options(query, "kubectl/v1")
    found = (options.manager, options.dry_run, options.force, options.field_validation)
    assert found == ("me", True, True, "Strict")
    assert write_options(parse(""), "kubectl/v1 (linux)").manager == "kubectl"
    assert write_options(parse(""), "").manager == "unknown"


@pytest.mark.parametrize("text", ["dryRun=Some", "fieldValidation=Loose"])
def test_unknown_write_options_are_refused(text: str) -> None:
    with pytest.raises(ApiError, match="Unsupported value") as refused:
        write_options(parse(text), "")
    assert refused.value.code == 422


@pytest.mark.parametrize(
    ("query", "body", "policy"),
    [
        ("", None, "Background"),
        ("propagationPolicy=Foreground", None, "Foreground"),
        ("propagationPolicy=Foreground", {"propagationPolicy": "Orphan"}, "Orphan"),
        ("orphanDependents=true", None, "Orphan"),
        ("", {"orphanDependents": False}, "Background"),
    ],
)
def test_propagation(query: str, body: Any, policy: str) -> None:
    assert delete_options(parse(query), body, "").propagation == policy


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"propagationPolicy": "Sometimes"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"gracePeriodSeconds": "soon"}, 400),
        ({"dryRun": ["None"]}, 422),
    ],
)
def test_unknown_delete_options_are_refused(body: Any, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        delete_options(parse(""), body, "")
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (179 * 60 + 59, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 720, "5h12m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (3 * 86400 + 4 * 3600, "3d4h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (770 * 86400, "2y40d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_cells_of_every_type() -> None:
    columns = (
        Column("Text", "spec.text"),
        Column("Flag", "spec.flag"),
        Column("Many", "spec.many"),
        Column("Count", "spec.count", type="integer"),
        Column("None", "spec.text.deeper", type="integer"),
        Column("When", "spec.when", type="date"),
        Column("Broken", "spec.text", type="date"),
        Column("Never", "spec.never", type="date"),
    )
    resource = Resource("example.org", "v1", "Widget", "widgets", columns=columns)
    spec = {"text": "a", "flag": True, "many": [1, 2], "count": 3, "when": "2026-01-01T00:00:00Z"}
    shown = table(
        resource,
        [{"metadata": {"name": "w"}, "spec": spec}],
        now=1767225600.0 + 60,
        metadata={},
    )
    cells = shown["rows"][0]["cells"]
    assert cells == ["w", "a", "true", "1,2", 3, None, "60s", "<invalid>", "<unknown>"]


@pytest.mark.parametrize(
    ("accept", "transform"),
    [
        ("", ""),
        ("*/*", ""),
        ("application/json;q=0.9", ""),
        ("text/html, application/json", ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Table"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", ""),
    ],
)
def test_the_first_form_that_is_given_is_taken(accept: str, transform: str) -> None:
    assert form(accept).transform == transform


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;as=Table;v=v2;g=meta.k8s.io", "application/yaml"]
)
def test_other_forms_are_refused(accept: str) -> None:
    with pytest.raises(ApiError) as refused:
        form(accept)
    assert refused.value.code == 406


def test_a_kubeconfig_has_a_context_for_each_cluster() -> None:
    server = ("https://127.0.0.1:1", b"ca", b"cert", b"key")
    config = kubeconfig({"management": server, "tenant": server}, "tenant")
    assert config["current-context"] == "tenant"
    assert [c["name"] for c in config["contexts"]] == ["management", "tenant"]
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == b"key"
    with pytest.raises(ValueError, match="none of"):
        kubeconfig({"management": server}, "other")


def test_the_log_is_bounded_and_counts_on() -> None:
    log = RequestLog(limit=2)
    for name in "abc":
        log.add(Request("c", "get", f"/{name}", "", 200, "test"))
    assert (log.total, [entry.path for entry in log.entries()]) == (3, ["/b", "/c"])
    log.clear()
    assert (log.total, log.count()) == (3, 0)
