"""LINSTOR's controller over its REST API, with a TLS client certificate.

Plain HTTP and not `python-linstor`: that package is clean and has no dependency, but is one more,
and optional at best (lab/python_kube_stack.md sections 1 and 7). Here five GETs are all that is
asked, for which `kubernetes` brings urllib3 along; and what counts is that no question is asked
twice unseen, each ends in time, and an error tells which of the two sides refused whose
certificate.

Port 3370 is plain and 3371 TLS for holders of a client certificate (objects.md section 8); only the
second is spoken here. No proxy is used, no redirect followed.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from harness.reach.bounded import (
    QUOTED,
    Answer,
    Endless,
    PairUnusable,
    Time,
    fetch,
    innermost,
    load_pair,
)
from harness.reach.errors import BadCertificate, Garbled, KeyUnusable, LabError, Unreachable

CONNECT, READ, WHOLE = 5.0, 15.0, 30.0
"""Seconds of the runner's clock: to connect, between two pieces, and for a whole answer."""
LARGEST = 64 * 1024 * 1024
"""Bytes of an answer; a thousand volumes on three nodes are about ten million."""

_CHECK = "check `linstor` in the inventory, and that the controller is up"
_HUNG_UP = "see its log: one that wants another client certificate may hang up without a word"


class Untrusted(BadCertificate):
    """The controller's certificate is not of the authority that was named, or not its name's."""


class CertificateRefused(BadCertificate):
    """The controller does not let the holder of this client certificate in: a TLS alert."""


class LinstorRefused(LabError):
    """The controller answered, and the answer was no.

    ``code`` is the HTTP status, ``messages`` what LINSTOR says of it, word for word; empty where
    the answer is none of LINSTOR's.
    """

    def __init__(self, tried: str, code: int, messages: tuple[str, ...], body: str) -> None:
        said = "; ".join(messages) or repr(body[:QUOTED])
        super().__init__(tried, f"HTTP {code}: {said}", "read LINSTOR's own message")
        self.code = code
        self.messages = messages


@dataclass(frozen=True, slots=True)
class Keys:
    """PEM texts: the authority that the controller's certificate is of, our own, and its key."""

    ca: str
    certificate: str
    key: str

    def __repr__(self) -> str:
        """Nothing of what it holds."""
        return "Keys(...)"


class Linstor:
    """One controller. Close it when done; any thread may ask, one question at a time each."""

    def __init__(self, url: str, keys: Keys, clock: Time) -> None:
        """Nothing is sent yet. Raises KeyUnusable, BadCertificate or LabError for a bad address."""
        host, port, self.url = _address(url)
        self._clock = clock
        self._pool = urllib3.HTTPSConnectionPool(
            host,
            port,
            maxsize=4,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT, read=READ),
            ssl_context=_context(self.url, keys),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """What a GET of ``path`` ("/v1/nodes") gives: a document of JSON, asked once.

        Raises Unreachable, Untrusted, CertificateRefused, LinstorRefused, or Garbled for what is
        no JSON.
        """
        asked = quote(path) + (f"?{urlencode(query)}" if query else "")
        tried = f"ask LINSTOR at {self.url} for {asked}"
        status, body = self._fetch(asked, tried)
        at, text = self._clock.now(), body.decode("utf-8", "backslashreplace")
        if not 200 <= status < 300:
            raise LinstorRefused(tried, status, _messages(text), text)
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            saw = f"{text[:QUOTED]!r} ({len(text)} characters), which is no JSON"
            do = "see whether it is LINSTOR's controller that answers there"
            raise Garbled(tried, saw, do) from error
        return Answer(f"LINSTOR {asked}", text, at)

    def _fetch(self, asked: str, tried: str) -> tuple[int, bytes]:
        headers = {"Accept": "application/json", "User-Agent": "hil"}
        try:
            return fetch(
                self._pool, asked, headers, clock=self._clock, seconds=WHOLE, largest=LARGEST
            )
        except Endless as endless:
            raise Unreachable(tried, str(endless), "see what slows the controller down") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise failure(error, tried) from error


def _address(url: str) -> tuple[str, int, str]:
    """Host, port, and the address as it is told: no password, nothing after the port."""
    try:
        where = urlsplit(url)
        host, port = where.hostname, where.port  # ValueError: no port's number, half a bracket
    except ValueError:
        host = None
    if not host or where.scheme != "https":
        saw = f"the address {url}, which is none of HTTPS"
        raise LabError("ask LINSTOR", saw, "name it as https://host:3371; 3370 takes no TLS")
    return host, port or 3371, f"https://{where.netloc.rpartition('@')[2]}"


def failure(error: Exception, tried: str) -> LabError:
    """The lab error for what the HTTP library, TLS or a socket raised."""
    inner = innermost(error)
    said = " ".join(str(inner).split()) or type(inner).__name__
    if isinstance(inner, ssl.SSLCertVerificationError):
        do = "check `linstor.ca`, and that `linstor.url` has a name that the certificate bears"
        return Untrusted(tried, f"a certificate that is not trusted here ({said})", do)
    if isinstance(inner, ssl.SSLError):
        return _tls_failure(inner, said, tried)
    if "resolve" in said or "Name or service" in said or "nodename" in said:
        return Unreachable(tried, f"no such host ({said})", _CHECK)
    if isinstance(inner, (ConnectionError, http.client.HTTPException)) and "refused" not in said:
        return Unreachable(tried, f"a connection cut off before an answer ({said})", _HUNG_UP)
    return Unreachable(tried, said, _CHECK)


# alerts of a side that wants another certificate than it was shown (RFC 8446 section 6.2)
_ABOUT_CERTIFICATES = re.compile(
    r"ALERT_(BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_\w+|UNKNOWN_CA|ACCESS_DENIED"
    r"|HANDSHAKE_FAILURE)"
)


def _tls_failure(error: ssl.SSLError, said: str, tried: str) -> LabError:
    reason = str(error.reason or said)
    if _ABOUT_CERTIFICATES.search(reason.upper().replace(" ", "_")):
        do = "check that `linstor.certificate` is of the authority that the controller trusts"
        return CertificateRefused(tried, f"our client certificate refused ({said})", do)
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason:
        return Unreachable(tried, f"an answer that is no TLS ({said})", "3371 speaks TLS, 3370 not")
    return Unreachable(tried, f"TLS broken off ({said})", _HUNG_UP)


def _messages(text: str) -> tuple[str, ...]:
    """LINSTOR's list of answers (ApiCallRc: message, cause, details, correction) as sentences."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    listed = found if isinstance(found, list) else [found]
    said = [_sentence(one) for one in listed if isinstance(one, dict)]
    return tuple(one for one in said if one)


def _sentence(answer: Mapping[str, object]) -> str:
    parts = (answer.get(key) for key in ("message", "cause", "details", "correction"))
    return " - ".join(" ".join(part.split()) for part in parts if isinstance(part, str) and part)


def _context(url: str, keys: Keys) -> ssl.SSLContext:
    tried = f"make TLS for LINSTOR at {url}"
    # not the library's default context: given none, that one trusts the system's authorities
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=keys.ca)
    except (ssl.SSLError, ValueError) as error:
        saw = "a `linstor.ca` that holds no certificate"
        raise BadCertificate(tried, saw, "name the authority's certificate as PEM") from error
    try:
        load_pair(context, keys.certificate, keys.key)
    except PairUnusable as why:
        saw = f"`linstor.certificate` and `linstor.key` that do not go together ({why})"
        do = "name both as PEM, the key without a passphrase"
        raise KeyUnusable(tried, saw, do) from None
    return context
