"""Secrets taken out of text and data before either is written anywhere.

Where it cannot be told whether something is a secret, it is taken out: a report that says
``[redacted]`` once too often can still be read, a key in an archived report cannot be recalled.
Names of the fields are kept, so that a reader sees what was there.

Shapes known: PEM private keys (also base64, cut, or inside JSON), bearer and basic credentials,
JSON Web Tokens, kubeadm bootstrap tokens (six dot sixteen characters), credentials in addresses,
fields with a secret's name in YAML, JSON, flags and environment, ``Secret`` objects, Talos machine
configuration and secrets bundles, DRBD's ``shared-secret``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

MARK = "[redacted]"
_SHORT = 512
"""Characters: what is no longer is looked up, for a ledger says the same names over and over."""
_LONG = 256 * 1024
"""Characters: up to these a text is looked up among the last few, for a fact is written more than
once (to the ledger, to Allure). Longer ones are not kept.
"""

_NAME = (
    r"(?:token|passw(?:or)?d|passphrase|client-?key-?data|private-?_?key|secret-?_?key"
    r"|access-?_?key|api-?_?key|(?:encryption|client|shared)-?_?secret|user-?data-?base64"
    r"|(?<![\w.-])secret)"
)
_KEY = rf"(?<![\w.-])[\w.-]*{_NAME}"
_QUOTED = r"\"(?:\\.|[^\"\\])*(?:\"|\Z)|'(?:''|[^'])*(?:'|\Z)"
_ESCAPED = r"(?<!\\)\\\"(?:(?!(?<!\\)\\\")[\s\S])*(?:\\\"|\Z)"
_BARE = r"(?!(?:null|true|false|~)(?:[\s,;}\])]|\Z))[^\s,;}\])\"'\\\[{|>&<(][^\s,;}\])\"'\\&]*"
_ANY = rf"(?P<value>{_QUOTED}|{_ESCAPED}|{_BARE})"
_LINE_VALUE = r"(?!(?:null|true|false|~)[ \t]*$)[^\s\"'\\\[{|>].*$"

_PEM_NAME = r"[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?"
_PEM = re.compile(
    rf"-----BEGIN {_PEM_NAME}-----(?:[\s\S]*?-----END {_PEM_NAME}-----|[A-Za-z0-9+/=\s\\]*)"
)
_PEM_END = re.compile(rf"-----END {_PEM_NAME}-----")
_PEM_BASE64 = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{6,}={0,2}(?:\n[ \t]*[A-Za-z0-9+/=]{16,})*")
_BEARER = re.compile(r"(?i)\b(bearer[ \t]+)([A-Za-z0-9._~+/=-]+)")
_SCHEME = re.compile(
    r"(?i)(authorization\W{1,6}(?:basic|digest|negotiate|bearer|token)[ \t]+)[^\s\"'\\\[]+"
)
_JWT = re.compile(r"\b(?:eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,2}|ZXlK[A-Za-z0-9+/=]{20,})")
_BOOTSTRAP = re.compile(r"(?<![\w.-])(?=\S{0,22}\d)[a-z0-9]{6}\.[a-z0-9]{16}(?![\w-]|\.\w)")
_ADDRESS = re.compile(r"(?<=://)([^/\s:@\"']+):([^/\s@\"']+)@")
_FLAG = re.compile(
    rf"(?i)(--[\w-]*(?:token|password|passphrase|secret)[ \t]+|\bshared-secret[ \t]+)"
    rf"(?P<value>{_QUOTED}|[^\s;\[\"'-][^\s;]*)"
)
_BLOCK = re.compile(
    rf"(?im)^(?P<indent>[ \t]*)(?P<head>(?:- )?[\"']?{_KEY}[\"']?:[ \t]*[|>][-+\d]*[ \t]*)"
    r"(?:\n(?:(?P=indent)[ \t]+\S.*|[ \t]*$))+"
)
_LINE = re.compile(
    rf"(?im)^(?P<indent>[ \t]*)(?P<head>(?:- )?{_KEY}:[ \t]+){_LINE_VALUE}"
    r"(?:\n(?P=indent)[ \t]+[^\s:]+$)*"
)
_PAIR = re.compile(rf"(?i)({_KEY}\\*[\"']?[ \t]*[:=][ \t]*){_ANY}")
_NAMED = re.compile(
    rf"(?i)(\bname\\*[\"']?:[ \t]*\\*[\"']?{_KEY}\\*[\"']?,?\s*"
    rf"\\*[\"']?value\\*[\"']?:[ \t]*){_ANY}"
)
_TALOS_KEY = re.compile(
    r"(?i)((?:\bcrt[\"']?:[ \t]*[^\s,]+,?|service-?account[\"']?:[ \t]*\{?)"
    rf"\s*[\"']?key[\"']?:[ \t]*){_ANY}"
)
_IS_SECRET = re.compile(r"\bkind\\*[\"']?\s*:\s*\\*[\"']?Secret(?:List)?\b")
_GAP = r"(?:\s|\\(?=\s))*"  # folded YAML ends and begins its lines with a backslash
_TEXT = rf"(?:{_QUOTED}|{_ESCAPED})"
_SECRET_JSON = re.compile(
    rf"(\\*\"(?:data|stringData)\\*\"{_GAP}:{_GAP}\{{)"
    rf"((?:{_GAP}{_TEXT}{_GAP}:{_GAP}(?:{_TEXT}|null){_GAP},?)*)"
)
_SECRET_JSON_ITEM = re.compile(rf"(?P<key>{_TEXT})({_GAP}:{_GAP}){_ANY}")
_SECRET_FLOW = re.compile(
    rf"(\b(?:data|stringData):[ \t]*)\{{(?!{_GAP}\\*\")(?:{_QUOTED}|[^{{}}\"'])*\}}?"
)
_SECRET_YAML = re.compile(r"(?:- )?[\"']?(?:data|stringData)[\"']?:")
_DATA_NAME = re.compile(rf"(?i)[\w./-]*{_NAME}\Z")


def redact(text: str) -> str:
    """``text`` without its secrets; applying it twice changes nothing more."""
    if len(text) <= _SHORT:
        return _short(text)
    return _long(text) if len(text) <= _LONG else _redacted(text)


def _redacted(text: str) -> str:
    for pattern, replace in _STEPS:
        text = pattern.sub(replace, text)
    return _cut_keys(_secret_objects(text))


_short = lru_cache(maxsize=4096)(_redacted)
_long = lru_cache(maxsize=64)(_redacted)


def redact_data(value: Any, *, name: str = "") -> Any:
    """Plain data (dicts, lists, scalars) without its secrets; ``name`` is the field it sits in.

    A scalar in a field with a secret's name goes whole; other strings go through ``redact``.
    """
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, (list, tuple)):
        return [redact_data(item, name=name) for item in value]
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        secret = value != "" and _DATA_NAME.fullmatch(name) is not None
        if secret:
            return MARK
    return redact(value) if isinstance(value, str) else value


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    whole = {"data", "stringData"} if value.get("kind") == "Secret" else set()
    if "crt" in value and isinstance(value.get("key"), str):
        whole.add("key")
    named = str(value.get("name", ""))
    result: dict[str, Any] = {}
    for key, item in value.items():
        field = str(key)
        if field in whole:
            result[field] = dict.fromkeys(item, MARK) if isinstance(item, Mapping) else MARK
        else:
            result[redact(field)] = redact_data(item, name=named if field == "value" else field)
    return result


def _quotes(value: str) -> str:
    for quote in ('\\"', '"', "'"):
        if value.startswith(quote):
            return quote
    return ""


def _keep_head(match: re.Match[str]) -> str:
    value = match["value"]
    quote = _quotes(value)
    if value == quote + quote:
        return match[0]
    return f"{match[1]}{quote}{MARK}{quote}"


def _keep_line_head(match: re.Match[str]) -> str:
    return f"{match['indent']}{match['head']}{MARK}"


def _bearer(match: re.Match[str]) -> str:
    credential = match[2]
    if len(credential) < 20 and not any(letter.isdigit() for letter in credential):
        return match[0]
    return f"{match[1]}{MARK}"


def _base64_pem(match: re.Match[str]) -> str:
    try:
        start = base64.b64decode(match[0][:64].rstrip("=")[: len(match[0][:64]) // 4 * 4])
    except binascii.Error:
        return MARK
    public = b"CERTIFICATE" in start or b"PUBLIC KEY" in start
    return match[0] if public else MARK


def _cut_keys(text: str) -> str:
    """Take out the rest of a key whose first line was cut off."""
    while (end := _PEM_END.search(text)) is not None:
        before = text[: end.start()].rstrip(_BODY)
        text = f"{before}\n{MARK}{text[end.end() :]}"
    return text


def _secret_objects(text: str) -> str:
    if _IS_SECRET.search(text) is None:
        return text
    text = _SECRET_JSON.sub(_secret_json, text)
    text = _SECRET_FLOW.sub(rf"\1{{{MARK}}}", text)
    return _secret_yaml(text)


def _secret_json(match: re.Match[str]) -> str:
    def item(pair: re.Match[str]) -> str:
        quote = _quotes(pair["value"])
        return f"{pair['key']}{pair[2]}{quote}{MARK}{quote}"

    return match[1] + _SECRET_JSON_ITEM.sub(item, match[2])


def _secret_yaml(text: str) -> str:
    """Blank what stands under ``data:`` and ``stringData:``, by indentation."""
    lines: list[str] = []
    outer, inner = -1, -1
    for line in text.split("\n"):
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if outer >= 0 and bare and indent <= outer:
            outer = -1
        if outer >= 0 and bare:
            inner = indent if inner < 0 else inner
            key = bare.split(":", 1)[0] + ": " if indent == inner and ":" in bare else ""
            line = f"{' ' * indent}{key}{MARK}"
        elif outer < 0 and _SECRET_YAML.fullmatch(bare):
            outer, inner = indent + (2 if bare.startswith("- ") else 0), -1
        lines.append(line)
    return "\n".join(lines)


_BODY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \t\r\n"
_STEPS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_PEM, MARK),
    (_PEM_BASE64, _base64_pem),
    (_BEARER, _bearer),
    (_SCHEME, rf"\1{MARK}"),
    (_JWT, MARK),
    (_BOOTSTRAP, MARK),
    (_ADDRESS, rf"\1:{MARK}@"),
    (_FLAG, _keep_head),
    (_BLOCK, _keep_line_head),
    (_LINE, _keep_line_head),
    (_PAIR, _keep_head),
    (_NAMED, _keep_head),
    (_TALOS_KEY, _keep_head),
)
