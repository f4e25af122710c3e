"""From a request to its answer: who asks, whether they may, and what the cluster says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDictProxy

from harness.twin.apiserver.access import Access, Attributes, User, forbidden
from harness.twin.apiserver.calls import (
    Answer,
    Call,
    attributes,
    document,
    failure,
    no_such_resource,
    not_allowed,
    unserved,
    verb_of,
)
from harness.twin.apiserver.chaos import Rule
from harness.twin.apiserver.discovery import Discovery, version_page
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execs import Containers
from harness.twin.apiserver.http1 import http_date
from harness.twin.apiserver.identity import Authenticator
from harness.twin.apiserver.misbehave import refusal
from harness.twin.apiserver.negotiation import form
from harness.twin.apiserver.openapi import OpenApi
from harness.twin.apiserver.queries import boolean, parse
from harness.twin.apiserver.requestlog import Request, RequestLog
from harness.twin.apiserver.reviews import Reviews
from harness.twin.apiserver.routing import Router, Target, segments
from harness.twin.apiserver.store import Store
from harness.twin.apiserver.tokens import Tokens
from harness.twin.apiserver.verbs import Verbs

_HEALTH = ("healthz", "livez", "readyz")
_NO_HEADERS: Mapping[str, str] = {}


@dataclass(slots=True)
class Ask:
    """A request as it came. ``certificate`` is the verified client certificate, if there is one.

    ``verb`` becomes the API's word for it once that is known; the request log has it.
    """

    method: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]
    certificate: Mapping[str, Any] | None
    verb: str = ""

    @classmethod
    def of(
        cls,
        method: str,
        target: str,
        headers: CIMultiDictProxy[str],
        certificate: Mapping[str, Any] | None,
    ) -> Ask:
        """An ask for a request's target, which is a path with its query."""
        path, _, query = target.partition("?")
        return cls(method, path, query, headers, certificate, method.lower())


class Front:
    """Answers everything of one cluster that is one answer; streams it only admits."""

    def __init__(
        self,
        store: Store,
        containers: Containers,
        *,
        access: Access,
        tokens: Tokens,
        log: RequestLog,
        version: str,
    ) -> None:
        self._store = store
        self._containers = containers
        self._access = access
        self._log = log
        self._version = version
        self._authenticator = Authenticator(access, tokens)
        self._router = Router(store.registry)
        self._discovery = Discovery(store.registry)
        self._openapi = OpenApi(self._discovery, version)
        self._verbs = Verbs(store, Reviews(access, tokens), tokens)

    def stream(self, ask: Ask) -> Target | None:
        """What the request opens a stream on (a watch, an exec), or None if it opens none."""
        target = self._router.target(ask.path)
        if target is None:
            return None
        if target.subresource in ("exec", "console"):
            return target
        if target.subresource == "log":
            follows = ask.method == "GET" and boolean(parse(ask.query), "follow")
            return target if follows else None
        if ask.method != "GET" or target.name or "watch" not in ask.query:
            return None
        return target if boolean(parse(ask.query), "watch") else None

    def admit(self, ask: Ask, target: Target) -> User:
        """The user of a request that may be made. ApiError 401, 403 or 405 for any other."""
        user = self._authenticator.user(ask.certificate, ask.headers)
        query = parse(ask.query)
        ask.verb = verb_of(ask.method, target, query)
        self._access.require(user, attributes(target, ask.verb, query))
        return user

    def verb(self, ask: Ask) -> str:
        """What chaos calls a request: one of its VERBS, or off the resources the method."""
        target = self._router.target(ask.path)
        if target is None:
            return ask.method.lower()
        if target.subresource == "exec":
            return "exec"
        connects = target.subresource and self.stream(ask) is not None
        return "connect" if connects else self._verb(ask, target)

    def refusal(self, ask: Ask, rule: Rule) -> ApiError:
        """How a rule of chaos refuses a request."""
        target = self._router.target(ask.path)
        if target is not None:
            ask.verb = self._verb(ask, target)
        return refusal(rule, lambda: self._forbidden(ask, target))

    def _verb(self, ask: Ask, target: Target) -> str:
        try:
            return verb_of(ask.method, target, parse(ask.query))
        except ApiError:
            return ask.method.lower()

    def _forbidden(self, ask: Ask, target: Target | None) -> ApiError:
        try:
            user = self._authenticator.user(ask.certificate, ask.headers)
        except ApiError as stranger:
            return stranger
        if target is None:
            return forbidden(user, Attributes(ask.verb, path=ask.path))
        return forbidden(user, attributes(target, ask.verb, parse(ask.query)))

    def answer(self, ask: Ask, body: bytes) -> Answer:
        """The answer, a refusal included."""
        try:
            answer = self._answer(ask, body)
        except ApiError as refused:
            answer = failure(refused)
        self.record(ask, answer.status)
        return answer

    def refuse(self, ask: Ask, refused: ApiError) -> Answer:
        """The answer to a request that is refused on other grounds."""
        self.record(ask, refused.code)
        return failure(refused)

    def record(self, ask: Ask, status: int) -> None:
        """Put a request in the log."""
        agent = ask.headers.get("User-Agent", "")
        self._log.add(Request(self._store.name, ask.verb, ask.path, ask.query, status, agent))

    def headers(self, answer: Answer | None = None, content_type: str = "") -> dict[str, str]:
        """The headers of an answer, or of a stream. Date is the cluster's time, skewed if it is."""
        return {
            "Content-Type": answer.content_type if answer else content_type,
            "Cache-Control": "no-cache, private",
            "Date": http_date(int(self._store.now() + self._store.skew)),
            **(answer.headers if answer else _NO_HEADERS),
        }

    def _answer(self, ask: Ask, body: bytes) -> Answer:
        target = self._router.target(ask.path)
        if target is None:
            return self._page(ask)
        user = self.admit(ask, target)
        query = parse(ask.query)
        if target.subresource == "log":
            if ask.verb != "get":
                raise not_allowed()
            return Answer(200, self._containers.logs(target, query), "text/plain")
        headers = ask.headers
        call = Call(
            target,
            ask.verb,
            user,
            query,
            headers.get("User-Agent", ""),
            form(headers.get("Accept", "")),
            body,
            headers.get("Content-Type", ""),
        )
        return self._verbs.answer(call)

    # -- paths that are no resource

    def _page(self, ask: Ask) -> Answer:
        user = self._authenticator.user(ask.certificate, ask.headers)
        parts = segments(ask.path)
        answer = self._document(parts, ask.headers.get("Accept", ""))
        asked = Attributes(ask.method.lower(), path="/" + "/".join(parts))
        self._access.require(user, asked if answer else unserved(parts, ask.method))
        if answer is None:
            raise no_such_resource()
        if ask.method not in ("GET", "HEAD"):
            raise not_allowed()
        return answer

    def _document(self, parts: tuple[str, ...], accept: str) -> Answer | None:
        if len(parts) == 1 and parts[0] in _HEALTH:
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        if parts == ("version",):
            return document(version_page(self._version))
        if parts and parts[0] == "openapi":
            found = self._openapi.page(parts)
            return None if found is None else document(found)
        wanted = form(accept)
        aggregated = wanted.discovery and len(parts) == 1
        page = self._discovery.page(parts, aggregated=aggregated)
        if page is None:
            return None
        return document(
            page, content_type=wanted.content_type if aggregated else "application/json"
        )
