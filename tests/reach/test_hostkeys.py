from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reach.errors import HostKeyChanged, HostKeyUnknown
from harness.reach.hostkeys import HostKey, Pins

MINE = HostKey("ssh-ed25519", b"\x00\x00\x00\x0bssh-ed25519mine")
OTHER = HostKey("ssh-ed25519", b"\x00\x00\x00\x0bssh-ed25519other")
BLOB = base64.b64encode(MINE.blob).decode()


def line(names: str, key: HostKey = MINE, marker: str = "") -> str:
    blob = base64.b64encode(key.blob).decode()
    return f"{marker}{names} {key.kind} {blob} a comment\n"


def hashed(name: str) -> str:
    salt = b"0123456789abcdef0123"
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("text", "port"),
    [
        (line("guest"), 22),
        (line("10.0.0.9,Guest"), 22),
        (line("[guest]:2222"), 2222),
        (line(hashed("guest")), 22),
        (line(hashed("[guest]:2222")), 2222),
        ("# a comment\n\n" + line("other", OTHER) + line("guest", OTHER) + line("guest"), 22),
    ],
)
def test_a_known_key_is_trusted(text: str, port: int) -> None:
    pins = Pins(text)
    pins.check("guest", port, MINE)
    assert "ssh-ed25519" in pins.kinds("guest", port)


def test_a_fingerprint_is_trusted() -> None:
    Pins(fingerprint=MINE.fingerprint).check("anything", 2222, MINE)


def test_the_fingerprint_is_openssh_s() -> None:
    # ssh-keygen -lf of this key
    blob = base64.b64decode("AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl")
    shown = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    assert HostKey("ssh-ed25519", blob).fingerprint == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        line("other"),
        line("guest2"),
        line("[guest]:2222"),
        line("*"),
        line("guest", marker="@cert-authority "),
        "guest ssh-ed25519",
        f"guest ssh-ed25519 {BLOB[:-1]}%\n",
        line("|1|x|y"),
        line("|1|"),
    ],
)
def test_what_is_not_pinned_is_unknown(text: str) -> None:
    with pytest.raises(HostKeyUnknown) as refused:
        Pins(text).check("guest", 22, MINE)
    told = str(refused.value)
    assert MINE.fingerprint in told
    assert "ssh-keyscan guest`" in told


def test_how_to_pin_says_the_port() -> None:
    with pytest.raises(HostKeyUnknown, match=r"ssh-keyscan -p 2222 guest`"):
        Pins().check("guest", 2222, MINE)


@pytest.mark.parametrize("pins", [Pins(line("guest")), Pins(fingerprint=MINE.fingerprint)])
def test_another_key_than_the_pinned_is_refused(pins: Pins) -> None:
    with pytest.raises(HostKeyChanged) as refused:
        pins.check("guest", 22, OTHER)
    assert OTHER.fingerprint in str(refused.value)
    assert MINE.fingerprint in str(refused.value)


def test_a_revoked_key_is_refused_however_it_is_listed() -> None:
    pins = Pins(line("guest") + line("guest", marker="@revoked "), source="hosts.txt")
    with pytest.raises(HostKeyChanged, match=r"hosts\.txt has as revoked"):
        pins.check("guest", 22, MINE)
    with pytest.raises(HostKeyChanged, match="revoked"):
        Pins(line("guest", marker="@revoked "), MINE.fingerprint).check("guest", 22, MINE)


@given(st.text())
def test_any_text_is_met(text: str) -> None:
    with pytest.raises(HostKeyUnknown):
        Pins(text).check("guest", 22, MINE)
