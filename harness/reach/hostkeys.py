"""Which SSH host keys are trusted: pinned by a known_hosts text or a fingerprint, never learnt.

A key that is met for the first time is refused in one sentence that shows its fingerprint and says
how to pin it; so is one that is another than the pinned. Nothing is ever added by itself.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass

from harness.reach.errors import HostKeyChanged, HostKeyUnknown

SSH_PORT = 22
_REVOKED = "@revoked"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public key: its type ("ssh-ed25519") and its bytes as they go over the wire."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As OpenSSH shows it: ``SHA256:`` and the digest in base64, not padded."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest())
        return f"SHA256:{digest.decode().rstrip('=')}"

    def __str__(self) -> str:
        return f"{self.fingerprint} ({self.kind})"


@dataclass(frozen=True, slots=True)
class Pins:
    """The host keys that are trusted.

    ``known_hosts`` is the text of a known_hosts file (sshd(8)): plain or hashed names,
    ``[host]:port`` for a port of one's own, ``@revoked``. Names with wildcards match nothing, and
    certificate authorities are not read: hosts known by those alone are unknown. ``fingerprint``
    is one key as OpenSSH shows it; it is trusted for whatever host it is given with. ``source``
    names where they are from, for messages.
    """

    known_hosts: str = ""
    fingerprint: str = ""
    source: str = "the inventory"

    def kinds(self, host: str, port: int) -> list[str]:
        """The types of the keys known for a host: those to ask it for."""
        return [key.kind for key in _keys(self.known_hosts, host, port)]

    def check(self, host: str, port: int, key: HostKey) -> None:
        """Raise HostKeyUnknown or HostKeyChanged unless this key is trusted for the host."""
        tried = f"log in to {named(host, port)}"
        if key in _keys(self.known_hosts, host, port, marker=_REVOKED):
            saw = f"host key {key}, which {self.source} has as revoked"
            raise HostKeyChanged(tried, saw, "find out which machine answers at that address")
        known = list(_keys(self.known_hosts, host, port))
        if self.fingerprint == key.fingerprint or key in known:
            return
        if not known and not self.fingerprint:
            raise HostKeyUnknown(tried, f"host key {key}, not known yet", _how_to_pin(host, port))
        expected = self.fingerprint or ", ".join(str(pinned) for pinned in known)
        raise HostKeyChanged(
            tried,
            f"host key {key} where {self.source} pins {expected}",
            "find out which machine answers there; if it was installed anew, pin its new key",
        )


def named(host: str, port: int) -> str:
    """A host as known_hosts names it: with brackets and port unless the port is 22."""
    return host if port == SSH_PORT else f"[{host}]:{port}"


def _how_to_pin(host: str, port: int) -> str:
    asked = host if port == SSH_PORT else f"-p {port} {host}"
    return (
        "compare it with `ssh-keygen -lf` on the machine's own console, then pin the fingerprint, "
        f"or the line that `ssh-keyscan {asked}` prints, as known_hosts"
    )


def _keys(text: str, host: str, port: int, marker: str = "") -> Iterator[HostKey]:
    """The keys of a host in a known_hosts text; lines that cannot be read name no key."""
    name = named(host, port)
    for line in text.splitlines():
        words = line.split()
        if (words[0] if words and words[0].startswith("@") else "") != marker:
            continue
        fields = words[1:] if marker else words
        if len(fields) < 3 or not any(_matches(n, name) for n in fields[0].split(",")):
            continue
        try:
            blob = base64.b64decode(fields[2], validate=True)
        except binascii.Error:
            continue
        yield HostKey(fields[1], blob)


def _matches(pattern: str, name: str) -> bool:
    if not pattern.startswith("|1|"):
        return pattern.lower() == name.lower()
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in pattern[3:].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
