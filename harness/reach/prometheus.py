"""Prometheus' HTTP API, or that of what answers like it: by address, or through an API server.

Three questions are asked, each once and bounded in time and bytes: an instant query, a range query,
a list of series (prometheus.io, HTTP API). Plain urllib3, as for LINSTOR; no proxy is used, no
redirect followed. An answer with ``status: success`` comes back as its text, untouched.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlencode, urlsplit

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
from harness.reach.errors import (
    ApiRefused,
    BadCertificate,
    Garbled,
    KeyUnusable,
    LabError,
    Unreachable,
)

if TYPE_CHECKING:
    from harness.reach.kube import Kube

CONNECT, READ, WHOLE = 5.0, 15.0, 30.0
"""Seconds of the runner's clock: to connect, between two pieces, and for a whole answer."""
LARGEST = 16 * 1024 * 1024
"""Bytes of an answer; thirty hours of one series, scraped each 15 s, are about 200,000."""

_CHECK = "check `prometheus` in the inventory, and that it is up"


class Stranger(LabError):
    """The server, or what stands in front of it, does not let these credentials in (401, 403)."""


class Untrusted(BadCertificate):
    """The server's certificate is not of the authority that was named, or not its name's."""


class TooLarge(LabError):
    """The answer is longer than `LARGEST`, or took longer than `WHOLE`."""


class QueryRefused(LabError):
    """The server answered, and the answer was no.

    ``code`` is the HTTP status, ``kind`` Prometheus' type of error ("bad_data", "execution",
    "timeout"; "" where the answer is none of Prometheus'), ``said`` its sentence.
    """

    def __init__(self, tried: str, code: int, body: str) -> None:
        told = _document(body)
        self.code = code
        self.kind = str(told.get("errorType", ""))
        self.said = str(told.get("error", "")) or body[:QUOTED]
        saw = f"HTTP {code} {self.kind}".rstrip() + f": {self.said!r}"
        super().__init__(tried, saw, "read the server's own message")


class Way(Protocol):
    """How the API is reached."""

    @property
    def where(self) -> str:
        """The address in words; no secret in it."""

    def get(self, path: str, query: Mapping[str, str], tried: str) -> tuple[int, bytes]:
        """Status and body of a GET below the API's root. Raises LabError."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the server is shown: PEM texts, a bearer token, or a user with a password.

    ``ca`` "" trusts the system's authorities.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    token: str = ""
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Nothing of what it holds."""
        return "Credentials(...)"

    def headers(self) -> dict[str, str]:
        """The headers of a request."""
        if self.token:
            return {"Authorization": f"Bearer {self.token.strip()}"}
        if self.user:
            return dict(urllib3.make_headers(basic_auth=f"{self.user}:{self.password}"))
        return {}


NOBODY = Credentials()


@dataclass(slots=True)
class Prometheus:
    """One server; any thread may ask. Close it when done."""

    way: Way
    clock: Time

    def close(self) -> None:
        """Let go of the connections."""
        self.way.close()

    def instant(self, query: str, at: float) -> Answer:
        """A query evaluated at one moment; a bare range selector gives the samples themselves.

        Raises Unreachable, Untrusted, Stranger, QueryRefused, TooLarge or Garbled.
        """
        return self._ask("query", {"query": query, "time": f"{at:.3f}"})

    def range(self, query: str, begin: float, end: float, step: float) -> Answer:
        """A query evaluated each ``step`` seconds of a time; raises as `instant`."""
        moments = {"start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return self._ask("query_range", {"query": query, **moments})

    def series(self, selector: str, begin: float, end: float) -> Answer:
        """The label sets of a selector's series that have samples; raises as `instant`."""
        moments = {"start": f"{begin:.3f}", "end": f"{end:.3f}"}
        return self._ask("series", {"match[]": selector, **moments})

    def _ask(self, what: str, query: Mapping[str, str]) -> Answer:
        asked = query.get("query") or query.get("match[]", "")
        tried = f"ask Prometheus at {self.way.where} for {what} {asked}"
        status, body = self.way.get(f"/api/v1/{what}", query, tried)
        at, text = self.clock.now(), body.decode("utf-8", "backslashreplace")
        told = _document(text)
        if status in (401, 403):
            saw = f"HTTP {status}: {text[:QUOTED]!r}"
            raise Stranger(tried, saw, "check token, user or certificate of `prometheus`")
        if not 200 <= status < 300 or told.get("status") == "error":
            raise QueryRefused(tried, status, text)
        if told.get("status") != "success" or "data" not in told:
            saw = f"{text[:QUOTED]!r} ({len(text)} characters), which is no answer of its API"
            raise Garbled(tried, saw, "see whether it is Prometheus' API that answers there")
        return Answer(f"Prometheus {what} {asked}", text, at)


class HttpWay:
    """By address: HTTP, or HTTPS with the credentials' authority and client certificate."""

    def __init__(self, url: str, credentials: Credentials, clock: Time) -> None:
        """Nothing is sent yet. Raises KeyUnusable, BadCertificate or LabError for an address."""
        where, root = _address(url)
        self.where = where
        self._root = root
        self._clock = clock
        self._headers = {
            "Accept": "application/json",
            "User-Agent": "hil",
            **credentials.headers(),
        }
        context = _context(where, credentials) if where.startswith("https:") else None
        self._pool = urllib3.PoolManager(
            maxsize=4,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT, read=READ),
            ssl_context=context,
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.clear()

    def get(self, path: str, query: Mapping[str, str], tried: str) -> tuple[int, bytes]:
        """Status and body. Raises Unreachable, Untrusted or TooLarge."""
        url = f"{self._root}{path}?{urlencode(query)}"
        try:
            return fetch(
                self._pool, url, self._headers, clock=self._clock, seconds=WHOLE, largest=LARGEST
            )
        except Endless as endless:
            do = "ask for a shorter window, or see what slows it down"
            raise TooLarge(tried, str(endless), do) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _failure(error, tried) from error


@dataclass(slots=True)
class ServiceWay:
    """A Service through the proxy of its cluster's API server, with that cluster's credentials."""

    kube: Kube
    namespace: str
    name: str
    port: int
    scheme: str = "http"
    _root: str = field(init=False)

    def __post_init__(self) -> None:
        place = f"{self.scheme}:{self.name}:{self.port}"
        self._root = f"/api/v1/namespaces/{self.namespace}/services/{place}/proxy"

    @property
    def where(self) -> str:
        """The Service, and by whose API server."""
        return f"Service {self.namespace}/{self.name}:{self.port} of {self.kube.name}"

    def close(self) -> None:
        """The connections are the cluster's."""

    def get(self, path: str, query: Mapping[str, str], tried: str) -> tuple[int, bytes]:
        """Status and body. Raises Unreachable, BadCertificate or QueryRefused.

        A refusal may be the API server's or the Service's; it is told as it came.
        """
        try:
            return 200, self.kube.request("get", "GET", f"{self._root}{path}", dict(query))
        except ApiRefused as refused:
            if refused.code in (401, 403):
                raise Stranger(tried, refused.saw, "its role needs services/proxy, get") from None
            raise QueryRefused(tried, refused.code, refused.message) from refused


def _address(url: str) -> tuple[str, str]:
    """The address as it is told, without a password, and as it is asked."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # ValueError: no port's number, half a bracket
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        saw = f"the address {url!r}, which is none of HTTP"
        raise LabError("ask Prometheus", saw, "name it as https://host/path, without /api/v1")
    bare = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return bare, bare


def _document(text: str) -> Mapping[str, object]:
    """The document of an answer, empty for what is no JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _failure(error: Exception, tried: str) -> LabError:
    inner = innermost(error)
    said = " ".join(str(inner).split()) or type(inner).__name__
    if isinstance(inner, ssl.SSLCertVerificationError):
        do = "check `prometheus.ca`, and that `prometheus.url` has a name the certificate bears"
        return Untrusted(tried, f"a certificate that is not trusted here ({said})", do)
    if isinstance(inner, ssl.SSLError):
        return Unreachable(tried, f"TLS broken off ({said})", _CHECK)
    return Unreachable(tried, said, _CHECK)


def _context(where: str, credentials: Credentials) -> ssl.SSLContext:
    tried = f"make TLS for Prometheus at {where}"
    try:
        context = ssl.create_default_context(cadata=credentials.ca or None)
    except (ssl.SSLError, ValueError) as error:
        saw = "a `prometheus.ca` that holds no certificate"
        raise BadCertificate(tried, saw, "name the authority's certificate as PEM") from error
    if not credentials.certificate:
        return context
    try:
        load_pair(context, credentials.certificate, credentials.key)
    except PairUnusable as why:
        saw = f"`prometheus.certificate` and `key` that do not go together ({why})"
        raise KeyUnusable(tried, saw, "name both as PEM, no passphrase") from None
    return context
