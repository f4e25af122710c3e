"""One cluster, at the level of plain dicts.

No typed models: they are fourteen times slower than JSON, refuse objects that a server accepts,
and drop fields newer than themselves on a read-modify-write (lab/python_kube_stack.md 2.1, 2.2).
No retries: an outage is a fact, recorded in ``calls`` and raised.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

import urllib3

from harness.reach.access import Answer, Timeouts, authorized, transport_error
from harness.reach.courtesy import Courtesy
from harness.reach.credentials import Renewal
from harness.reach.errors import ApiRefused, Garbled, LabError, Unreachable, refusal, unsure
from harness.reach.kinds import Kind, Kinds

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from harness.clock import Clock

Obj = dict[str, Any]
Objects = list[Obj]  # Kube.list hides the built-in name inside the class
Query = Mapping[str, str] | Sequence[tuple[str, str]]

PAGE = 500  # objects per list request, as kubectl asks for
CALLS_KEPT = 10_000
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """One request made. ``verb`` is the API's (get, list, watch, create, patch, ...).

    ``status`` is the HTTP status, 0 where no answer came; ``seconds`` the runner's time until the
    answer (for a watch: until its headers); ``at`` the lab's time at its end, epoch seconds;
    ``held`` how many of the runner's seconds it was kept back before, out of courtesy.
    """

    verb: str
    path: str
    status: int
    seconds: float
    query: str = ""
    at: float = 0.0
    held: float = 0.0


class Kube:
    """One cluster. ``name`` is how messages speak of it ("management", "tenant lab").

    Every method raises Unreachable or BadCertificate where no answer came, Refused for 401 and
    403, ApiRefused for any other no, UnknownKind for a kind that is not served. A 401 is asked
    once more where the credentials can be fetched anew; ``renewals`` tells of each time. Requests
    go no faster than ``courtesy`` lets them, None for no limit. Safe to share between threads.
    """

    def __init__(
        self,
        name: str,
        client: ApiClient,
        clock: Clock,
        *,
        timeouts: Timeouts | None = None,
        courtesy: Courtesy | None = None,
    ) -> None:
        self.name = name
        self.client = client
        self.clock = clock
        self.timeouts = timeouts or Timeouts()
        self.courtesy = courtesy or Courtesy(0, clock)
        self.calls: deque[Call] = deque(maxlen=CALLS_KEPT)
        self.renewals: deque[Renewal] = deque(maxlen=CALLS_KEPT)
        self.kinds = Kinds(self._discover)

    @property
    def url(self) -> str:
        """Where the API server is, without a slash at the end."""
        host: str = self.client.configuration.host
        return host.rstrip("/")

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Obj | None:
        """An object, or None where the API says that it is not there.

        Only a 404 that names the object is an absence; any other 404 is raised.
        """
        path = self._object_path(api_version, kind, namespace, name)
        try:
            return self._object("get", "GET", path)
        except ApiRefused as refused:
            if _is_absence(refused, name):
                return None
            raise

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> Objects:
        """Every matching object; "" is every namespace. Whole or raised, never a part."""
        return self.list_raw(api_version, kind, namespace, labels=labels, fields=fields)[0]

    def list_raw(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> tuple[Objects, str]:
        """Every matching object and the list's resourceVersion, from which a watch goes on.

        A list that expires between two pages (410) is raised, not begun again in silence.
        """
        path = self.path_of(api_version, kind, namespace)
        query = {"limit": str(PAGE), **_selectors(labels, fields)}
        items: Objects = []
        version = ""
        while True:
            page = self._object("list", "GET", path, query)
            metadata = page.get("metadata")
            if not isinstance(page.get("items"), list) or not isinstance(metadata, dict):
                raise Garbled(f"list {kind} at {self.name}", "no list in the answer", _LOOK)
            items += page["items"]
            version = version or str(metadata.get("resourceVersion") or "")
            if not metadata.get("continue"):
                return [_named(item, api_version, kind) for item in items], version
            query["continue"] = metadata["continue"]

    def create(self, obj: Obj) -> Obj:
        """Create an object in the namespace that its metadata names."""
        namespace = obj["metadata"].get("namespace", "")
        path = self._kind(obj["apiVersion"], obj["kind"], namespace).path(namespace)
        return self._object("create", "POST", path, body=obj)

    def apply(self, obj: Obj, *, manager: str = "hil", force: bool = False) -> Obj:
        """Server-side apply; another manager's field is a 409 unless ``force``."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        kind = "application/apply-patch+yaml"  # JSON is YAML; the type names the kind of patch
        return self._object("patch", "PATCH", self._path_to(obj), query, obj, kind)

    def merge(
        self,
        api_version: str,
        kind: str,
        namespace: str,
        name: str,
        patch: Obj,
        *,
        subresource: str = "",
    ) -> Obj:
        """JSON merge patch: a null removes, a list replaces the whole list."""
        path = self._object_path(api_version, kind, namespace, name, subresource)
        return self._object("patch", "PATCH", path, {}, patch, "application/merge-patch+json")

    def replace(self, obj: Obj) -> Obj:
        """Write the whole object; with a resourceVersion only onto that version (else 409)."""
        return self._object("update", "PUT", self._path_to(obj), body=obj)

    def delete(
        self,
        api_version: str,
        kind: str,
        namespace: str,
        name: str,
        *,
        propagation: str = "Background",
        uid: str = "",
    ) -> bool:
        """Ask for an object's deletion; False where it was not there.

        With ``uid``, only that very object: one recreated under its name is a 409. True does not
        mean gone: finalizers and grace periods still run.
        """
        options: Obj = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if uid:
            options["preconditions"] = {"uid": uid}
        path = self._object_path(api_version, kind, namespace, name)
        try:
            self.request("delete", "DELETE", path, body=options)
        except ApiRefused as refused:
            if _is_absence(refused, name):
                return False
            raise
        return True

    def logs(
        self,
        namespace: str,
        pod: str,
        container: str = "",
        *,
        previous: bool = False,
        limit_bytes: int | None = None,
        tail: int | None = None,
    ) -> bytes:
        """A container's log as it was written; "" is the pod's only container.

        ``tail``: only that many of its last lines. See `harness.reach.logs` for following one.
        """
        query = {"container": container} if container else {}
        if previous:
            query["previous"] = "true"
        if limit_bytes is not None:
            query["limitBytes"] = str(limit_bytes)
        if tail is not None:
            query["tailLines"] = str(tail)
        path = self._object_path("v1", "Pod", namespace, pod, "log")
        return self.request("get", "GET", path, query)

    def path_of(self, api_version: str, kind: str, namespace: str) -> str:
        """The request path of a kind's collection; namespace "" is all of them."""
        return self._kind(api_version, kind, namespace, all_namespaces=True).path(namespace)

    def stream(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        read_timeout: float | None,
        verb: str = "watch",
        answer_timeout: float | None = None,
    ) -> urllib3.HTTPResponse:
        """An answer that is still being written, on a connection of its own, headers read.

        The reader closes it. ``read_timeout`` is the longest silence in seconds, None for ever;
        reading raises urllib3's errors, which `transport_error` turns into the lab's. The headers
        have to come within ``answer_timeout``, by default as soon as any other answer.
        """
        answer = self.timeouts.read if answer_timeout is None else answer_timeout
        first = answer if read_timeout is None else min(answer, read_timeout)
        opened = self.authorized(
            lambda headers: self._stream(verb, path, urlencode(query), headers, first)
        )
        if opened.connection is not None and opened.connection.sock is not None:
            opened.connection.sock.settimeout(read_timeout)
        return opened

    def _stream(
        self,
        verb: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        timeout: float,
    ) -> urllib3.HTTPResponse:
        from kubernetes.client.rest import RESTClientObject

        own = RESTClientObject(self.client.configuration)
        with self.recorded(verb, path, query) as answered:
            answer = own.pool_manager.request(
                "GET",
                f"{self.url}{path}?{query}",
                headers={**headers, "Accept": JSON},
                timeout=urllib3.Timeout(connect=self.timeouts.connect, read=timeout),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            answered(answer.status)
            if answer.status != 200:
                body = answer.read()
                answer.close()
                asked = answer.headers.get("Retry-After", "")
                raise refusal(answer.status, body, f"{verb} {path} at {self.name}", asked)
            return cast(urllib3.HTTPResponse, answer)

    def request(
        self,
        verb: str,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> bytes:
        """One request, sent once; the body of a 2xx answer. ``body`` is sent as JSON."""
        written = None if body is None else json.dumps(body).encode()
        more = {"Accept": JSON} | ({} if body is None else {"Content-Type": content_type})
        encoded = urlencode(query or {})
        return self.authorized(
            lambda headers: self._send(verb, method, path, encoded, written, {**headers, **more})
        )

    def _send(
        self,
        verb: str,
        method: str,
        path: str,
        encoded: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> bytes:
        with self.recorded(verb, path, encoded) as answered:
            answer = self.client.rest_client.pool_manager.request(
                method,
                f"{self.url}{path}" + (f"?{encoded}" if encoded else ""),
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=self.timeouts.connect, read=self.timeouts.read),
                retries=False,
                redirect=False,
            )
            answered(answer.status)
        if not 200 <= answer.status < 300:
            asked = answer.headers.get("Retry-After", "")
            tried, writing = f"{verb} {path} at {self.name}", "" if verb in _READING else verb
            raise refusal(answer.status, answer.data, tried, asked, writing=writing)
        return answer.data

    def authorized(self, send: Callable[[Mapping[str, str]], Answer]) -> Answer:
        """`access.authorized` for this cluster, noted in ``renewals``."""
        return authorized(self.client, send, self.renewals.append, self.clock.now)

    @contextmanager
    def recorded(self, verb: str, path: str, query: str = "") -> Iterator[_Answered]:
        """Write a request into ``calls`` however it ends, and raise what broke it as a LabError.

        Yields a callable that is told the HTTP status.
        """
        held = self.courtesy.admit()
        began = self.clock.monotonic()
        answered = _Answered()
        try:
            yield answered
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._no_answer(error, verb, path) from error
        finally:
            seconds, now = self.clock.monotonic() - began, self.clock.now()
            self.calls.append(Call(verb, path, answered.status, seconds, query, now, held))

    def _no_answer(self, error: Exception, verb: str, path: str) -> LabError:
        proxy = self.client.configuration.proxy
        way = f"{self.url} through the proxy {proxy}" if proxy else self.url
        found = transport_error(error, f"{verb} {path} at {self.name} ({way})")
        if verb in _READING or not isinstance(found, Unreachable):
            return found
        return Unreachable(found.tried, found.saw, f"{found.do}; {unsure(verb)}")

    def _object(
        self,
        verb: str,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> Obj:
        data = self.request(verb, method, path, query, body, content_type)
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            secret = "/secrets" in path
            quoted = repr(data[:200].decode("utf-8", "replace")) if not secret else "(withheld)"
            saw = f"{quoted}, no JSON object"
            do = _LOOK if verb in _READING else f"{_LOOK}; {unsure(verb)}"
            raise Garbled(f"{verb} {path} at {self.name}", saw, do)
        return found

    def _discover(self, path: str) -> Obj | None:
        try:
            return self._object("get", "GET", path)
        except ApiRefused as refused:
            if refused.code == 404:
                return None
            raise

    def _kind(
        self, api_version: str, kind: str, namespace: str, *, all_namespaces: bool = False
    ) -> Kind:
        found = self.kinds.find(api_version, kind)
        if namespace and not found.namespaced:
            raise ValueError(f"{api_version} {kind} has no namespaces: {namespace!r} was given")
        if not namespace and found.namespaced and not all_namespaces:
            raise ValueError(f"{api_version} {kind} is namespaced: name a namespace")
        return found

    def _object_path(
        self, api_version: str, kind: str, namespace: str, name: str, subresource: str = ""
    ) -> str:
        if not name:
            raise ValueError(f"{api_version} {kind}: an object needs a name")
        return self._kind(api_version, kind, namespace).path(namespace, name, subresource)

    def _path_to(self, obj: Obj) -> str:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        return self._object_path(obj["apiVersion"], obj["kind"], namespace, metadata["name"])


class _Answered:
    """Told the HTTP status of a request's answer; 0 until then."""

    def __init__(self) -> None:
        self.status = 0

    def __call__(self, status: int) -> None:
        self.status = status


_LOOK = "check what answers at the API server's address"
_READING = frozenset({"get", "list", "watch"})


def _selectors(labels: str, fields: str) -> dict[str, str]:
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


def _named(item: Obj, api_version: str, kind: str) -> Obj:
    # items of built-in kinds come without the two, those of custom kinds with them
    return {"apiVersion": api_version, "kind": kind, **item}


def _is_absence(refused: ApiRefused, name: str) -> bool:
    if refused.code != 404 or refused.reason != "NotFound":
        return False
    return refused.details.get("name") == name or f'"{name}"' in refused.message
