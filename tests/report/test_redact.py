from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.fact import Fact
from harness.judge.verdict import Outcome, Verdict
from harness.report.ledger import Ledger, merge
from harness.report.redact import MARK, redact, redact_data

BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 4)
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----\n"
PUBLIC = BODY.swapcase()
CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{PUBLIC}\n-----END CERTIFICATE-----\n"
PEM_BASE64 = base64.b64encode(PEM.encode()).decode()
TALOS_KEY = base64.b64encode(b"-----BEGIN ED25519 PRIVATE KEY-----\nMC4CAQ\n").decode()
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJzeXN0ZW06c2EifQ.c2lnbmF0dXJlLWhlcmU"
BOOTSTRAP = "9vr73a.a8uxyaju799qwdjv"
PLAIN = "hunter2-Correct/Horse"

SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "talos-bootstrap", "labels": {"a": "kept-label"}},
    "data": {"value": base64.b64encode(PLAIN.encode()).decode(), "other": "c2hvcnQ="},
    "stringData": {"config": f"password {PLAIN}\nand: {PLAIN}", "json": json.dumps({"x": PLAIN})},
}
APPLIED = {
    **SECRET,
    "metadata": {
        "name": "talos-bootstrap",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(SECRET)},
    },
}
MACHINE_CONFIG = f"""\
version: v1alpha1
machine:
  type: worker
  token: {BOOTSTRAP}
  ca:
    crt: {base64.b64encode(CERTIFICATE.encode()).decode()}
    key: {TALOS_KEY}
  kernel:
    modules:
      - name: nvidia
cluster:
  id: kept-cluster-id
  secret: bm90LWEtcmVhbC1zZWNyZXQtYXQtYWxsLTEyMw==
  token: {BOOTSTRAP}
  secretboxEncryptionSecret: bm90LWEtcmVhbC1ib3gtYXQtYWxsLTEyMw==
  serviceAccount:
    key: bm90LWEtcGVtLWtleS1hdC1hbGw=
"""
SECRETS_BUNDLE = """\
secrets:
  bootstraptoken: plain-bootstrap-value
  secretboxencryptionsecret: bm90LWEtcmVhbC1ib3g=
trustdinfo:
  token: plain-trustd-value
certs:
  k8sserviceaccount:
    key: bm90LWEtcGVtLWtleS1hdC1hbGw=
"""
KUBECONFIG = f"""\
users:
- name: admin
  user:
    client-certificate-data: kept-certificate
    client-key-data: {PEM_BASE64}
    token: {JWT}
"""

MODULES = (
    "nvidia_uvm 4911104 0 - Live 0x0000000000000000 (PO)\n"
    "nvidia 9732096 8 nvidia_uvm, Live 0x0000000000000000 (PO)\n"
)

CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "pem": (f"before\n{PEM}after", [BODY[:40]], ["before", "after"]),
    "pem without an end": (f"before\n{PEM[:120]}", [BODY[:40]], ["before"]),
    "pem without a start": (f"log:\n{PEM[60:]}rest!", [PEM[60:100]], ["rest!"]),
    "pem in json": (json.dumps({"f": PEM, "g": "kept"}), [BODY[:40]], ["kept"]),
    "pem in base64": (f"x {PEM_BASE64} kept", [PEM_BASE64[60:90]], ["kept"]),
    "certificates stay": (CERTIFICATE, [], [PUBLIC[:40]]),
    "bearer": (f"> Authorization: Bearer {PLAIN}", [PLAIN], ["Authorization"]),
    "bearer in prose": ("the bearer token expired", [], ["the bearer token expired"]),
    "basic": ("authorization: Basic dXNlcjpwYXNz", ["dXNlcjpwYXNz"], []),
    "jwt": (f"got {JWT} from it", [JWT[:40], JWT[-20:]], ["got", "from it"]),
    "cut jwt": (f"got {JWT[:50]}", [JWT[20:50]], ["got"]),
    "bootstrap token": (f"kubeadm join --x {BOOTSTRAP} y", [BOOTSTRAP[7:]], ["kubeadm join"]),
    "address": (
        f"GET https://admin:{PLAIN.split('/')[0]}@host/x",
        ["hunter2"],
        ["admin", "host/x"],
    ),
    "flag": (f"talosctl gen --token {PLAIN} --force", [PLAIN], ["--force"]),
    "flag with equals": (f"run --db-password={PLAIN} --force", [PLAIN], ["--force"]),
    "query": ("GET /x?token=abc.def&limit=5", ["abc.def"], ["limit=5"]),
    "environment": ("ADMIN_PASSWORD=hunter2\nHOME=/root", ["hunter2"], ["HOME=/root"]),
    "named value": (
        "- name: ADMIN_PASSWORD\n  value: hunter2, with more\n- name: B\n  value: kept",
        ["hunter2"],
        ["value: kept"],
    ),
    "named value in json": (
        '[{"name":"S3_SECRET_KEY","value":"hunter2"},{"name":"B","value":"kept"}]',
        ["hunter2"],
        ["kept"],
    ),
    "line with spaces": (
        "password: correct horse, [battery]\nnext: kept",
        ["horse", "battery"],
        ["kept"],
    ),
    "block": ("a:\n  token: |\n    one\n    two: three\n  b: kept", ["one", "three"], ["b: kept"]),
    "folded": ("  token: aaaa1111\n    bbbb2222\n  b: kept", ["aaaa", "bbbb2222"], ["b: kept"]),
    "go map": ("map[name:x token:abc123 uid:7]", ["abc123"], ["name:x", "uid:7"]),
    "escaped json": ('{"a":"{\\"token\\":\\"abc\\",\\"b\\":\\"kept\\"}"}', ["abc"], ["kept"]),
    "cut json": ('{"b":"kept","password":"hun ter2', ["hun", "ter2"], ["kept"]),
    "shared secret": ('net { shared-secret "hunter2"; kept; }', ["hunter2"], ["kept; }"]),
    "machine config": (
        MACHINE_CONFIG,
        [
            BOOTSTRAP[7:],
            TALOS_KEY[30:],
            "bm90LWEtcmVhbC1zZWNyZXQ",
            "bm90LWEtcmVhbC1ib3g",
            "bm90LWEtcGVt",
        ],
        ["kept-cluster-id", "name: nvidia", "type: worker"],
    ),
    "secrets bundle": (
        SECRETS_BUNDLE,
        ["plain-bootstrap-value", "bm90LWEtcmVhbC1ib3g=", "plain-trustd-value", "bm90LWEtcGVt"],
        ["k8sserviceaccount"],
    ),
    "kubeconfig": (KUBECONFIG, [PEM_BASE64[60:90], JWT[:40]], ["kept-certificate", "name: admin"]),
    "no secrets": (
        "automountServiceAccountToken: false\nsecretName: kept\nimagePullSecrets: []\ntoken: null",
        [],
        ["false", "secretName: kept", "imagePullSecrets: []", "token: null"],
    ),
    "nested secret volume": (
        '{"secret":{"secretName":"kept"},"serviceAccountToken":{"path":"token"}}',
        [],
        ['"secret":{"secretName":"kept"}'],
    ),
    "modules": (MODULES, [], [MODULES]),
}
FORMS: dict[str, Callable[[Any], str]] = {
    "json": json.dumps,
    "indented json": lambda value: json.dumps(value, indent=2),
    "yaml": yaml.safe_dump,
    "quoted yaml": lambda value: yaml.safe_dump(value, default_style='"'),
    "flow yaml": lambda value: yaml.safe_dump(value, default_flow_style=True, width=10_000),
}
for name, form in FORMS.items():
    for title, thing in {"secret": SECRET, "applied secret": APPLIED}.items():
        listed = {"apiVersion": "v1", "kind": "SecretList", "items": [thing, thing]}
        hidden = ["hunter2", SECRET["data"]["value"][:12], "c2hvcnQ"]
        CASES[f"{title} as {name}"] = (form(thing), hidden, ["talos-bootstrap"])
        CASES[f"list of {title} as {name}"] = (form(listed), hidden, ["talos-bootstrap"])


@pytest.mark.parametrize("case", CASES)
def test_secrets_go_and_the_rest_stays(case: str) -> None:
    text, hidden, kept = CASES[case]
    clean = redact(text)
    assert [item for item in hidden if item in clean] == []
    assert [item for item in kept if item not in clean] == []
    assert (MARK in clean) == bool(hidden)


@pytest.mark.parametrize("case", CASES)
def test_a_second_pass_changes_nothing(case: str) -> None:
    once = redact(CASES[case][0])
    assert redact(once) == once


@pytest.mark.parametrize("case", [name for name in CASES if name.endswith("as json")])
def test_a_redacted_document_is_still_one(case: str) -> None:
    assert json.loads(redact(CASES[case][0]))


def test_data_is_redacted_by_the_names_of_its_fields() -> None:
    clean: Any = redact_data(
        {
            "objects": [SECRET],
            "user": {"token": PLAIN, "client-key-data": PLAIN, "name": "admin"},
            "env": [{"name": "DB_PASSWORD", "value": PLAIN}, {"name": "A", "value": "kept"}],
            "ca": {"crt": "kept", "key": PLAIN},
            "tokens": 3,
            "pin": {"password": 1234, "token": None, "automountServiceAccountToken": True},
            "nested": json.dumps({"password": PLAIN}),
        }
    )
    assert "hunter2" not in json.dumps(clean)
    assert SECRET["data"]["value"] not in json.dumps(clean)
    assert clean["user"]["name"] == "admin"
    assert clean["env"][1]["value"] == clean["ca"]["crt"] == "kept"
    assert clean["tokens"] == 3
    assert clean["pin"] == {"password": MARK, "token": None, "automountServiceAccountToken": True}
    assert clean["objects"][0]["metadata"] == SECRET["metadata"]


@settings(max_examples=300)
@given(st.text("ab1 \n\t:=\"'\\{}[],|>-", max_size=60).map(lambda text: f"token{text}"))
def test_redaction_settles_after_one_pass_over_dirty_text(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


PASSWORDS = st.text("abcdefgXYZ0123456789+/=_.-", min_size=6, max_size=30).map(lambda t: f"q{t}Q7")


@settings(max_examples=150)
@given(PASSWORDS, st.sampled_from(["token", "password", "client-key-data", "clientSecret"]))
def test_a_field_with_a_secret_s_name_loses_its_value_in_every_notation(
    value: str, name: str
) -> None:
    tree = {"a": {name: value, "z": "kept"}}
    for text in (
        json.dumps(tree),
        json.dumps(json.dumps(tree)),
        json.dumps(tree, indent=1),
        yaml.safe_dump(tree),
        yaml.safe_dump(tree, default_style="'"),
        f"{name}={value} z=kept",
        f"--{name}={value} --z=kept",
    ):
        clean = redact(text)
        assert value not in clean
        assert "kept" in clean


@pytest.mark.parametrize(
    "text",
    ["A" * 400_000, "aGVsbG8\n" * 50_000, "token " * 60_000, "-----BEGIN RSA PRIVATE KEY " * 9_000],
    ids=["one word", "base64 lines", "the word token", "openings"],
)
def test_long_texts_take_time_in_proportion(text: str) -> None:
    assert len(redact(text)) > 0


def test_nothing_planted_reaches_a_ledger(tmp_path: Path, fact: Callable[..., Fact]) -> None:
    everything = "\n".join(text for text, _, _ in CASES.values())
    planted = {item for _, hidden, _ in CASES.values() for item in hidden if len(item) > 6}
    bearer = f"Authorization: Bearer {PLAIN}"
    seen = fact(bearer, source=bearer, raw=everything, detail={"token": PLAIN, "s": [SECRET]})
    judged = Verdict("modules-live", bearer, Outcome.HOLDS, f"saw {PEM}", (seen,))
    with Ledger(tmp_path, "pool") as ledger:
        for _, (text, _, _) in CASES.items():
            ledger.fact(fact("nvidia", raw=text, detail=text))
        ledger.planned(bearer, bearer, [bearer], hardware=bearer)
        ledger.verdict(judged, scenario=bearer, pool=bearer, at=0.0)
        ledger.note("bring-up", f"{MACHINE_CONFIG}{KUBECONFIG}", at=0.0)
        ledger.not_run(bearer, bearer, [bearer], bearer)
        ledger.not_established(bearer, bearer, bearer, hardware=bearer)
        ledger.end(bearer, bearer, pool=bearer)
    text = merge(tmp_path, ["pool"]).read_text()
    assert [item for item in planted if item in text] == []
    assert PLAIN not in text
