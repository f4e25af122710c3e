"""A GET of a server that is no Kubernetes API: asked once, bounded in time and bytes.

Plain urllib3, which `kubernetes` brings along: no question is asked twice unseen, no redirect
followed, and TLS is shown a client's certificate from a file that is nobody else's.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import urllib3

QUOTED = 300
"""Characters of an answer that an error quotes."""
_PIECE = 65536


class Time(Protocol):
    """What is needed of a clock."""

    def now(self) -> float:
        """The lab's time, seconds since the epoch."""

    def monotonic(self) -> float:
        """The runner's own monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered: JSON as text, untouched. ``at`` is the lab's time."""

    source: str
    text: str
    at: float


class Endless(Exception):
    """An answer that went over its bounds; what was seen of it is its text."""


class PairUnusable(Exception):
    """A certificate and a key that do not go together; its text says why, and quotes neither."""


def fetch(
    pool: urllib3.HTTPConnectionPool | urllib3.PoolManager,
    url: str,
    headers: Mapping[str, str],
    *,
    seconds: float,
    largest: int,
    clock: Time,
) -> tuple[int, bytes]:
    """Status and body of a GET that takes at most ``seconds`` of the runner's clock and ``largest``
    bytes. Raises Endless, and what urllib3 and sockets raise.
    """
    until = clock.monotonic() + seconds
    response = pool.request(
        "GET", url, headers=dict(headers), redirect=False, preload_content=False
    )
    try:
        found = bytearray()
        while piece := response.read1(_PIECE):
            found += piece
            if len(found) > largest or clock.monotonic() > until:
                raise Endless(f"{len(found)} bytes after {seconds:g} s or more, and no end")
        return response.status, bytes(found)
    finally:
        response.close()  # what is left of a cut answer must not meet the next question


def load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have TLS show a client's certificate; both are PEM texts. Raises PairUnusable."""
    with tempfile.TemporaryDirectory(prefix="hil-tls-") as folder:
        shown = _written(Path(folder) / "tls.crt", certificate)
        secret = _written(Path(folder) / "tls.key", key)
        try:
            # a key with a passphrase would ask for it on the terminal, where nobody may sit
            context.load_cert_chain(shown, secret, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            # OpenSSL's word for it; never a text that could quote what it read
            raise PairUnusable(getattr(error, "reason", None) or type(error).__name__) from None


def _written(path: Path, text: str) -> Path:
    """A file of this user's alone: the ssl module takes a key from nowhere else."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


def innermost(error: BaseException) -> BaseException:
    """What the lowest layer raised; the layers above only wrap it."""
    seen = {id(error)}
    while True:
        reason = getattr(error, "reason", None)
        for below in (reason, error.__cause__, error.__context__, *error.args):
            if isinstance(below, BaseException) and id(below) not in seen:
                break
        else:
            return error
        seen.add(id(below))
        error = below
