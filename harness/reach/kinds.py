"""Which path serves a kind: asked of the cluster's discovery, one request per group-version."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from harness.reach.errors import Garbled, UnknownKind

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One served kind. ``base`` is ``/api/v1`` or ``/apis/<group>/<version>``."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    base: str

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The request path of a collection, an object or its subresource."""
        parts = [self.base]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


class Kinds:
    """The kinds of one cluster, remembered once found.

    ``fetch`` gets a discovery document by path, None where the cluster has no such group-version.
    A kind that is not found is asked for again the next time: CRDs arrive while a lab comes up.
    """

    def __init__(self, fetch: Callable[[str], Obj | None]) -> None:
        self._fetch = fetch
        self._known: dict[tuple[str, str], Kind] = {}
        self._lock = threading.Lock()

    def find(self, api_version: str, kind: str) -> Kind:
        """The kind's path and scope. Raises UnknownKind where the cluster does not serve it."""
        with self._lock:
            known = self._known.get((api_version, kind))
            if known is None:
                self._read(api_version, kind)
                known = self._known[api_version, kind]
            return known

    def _read(self, api_version: str, kind: str) -> None:
        base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        document = self._fetch(base)
        if document is None:
            raise _unknown(api_version, kind, f"the cluster does not serve {api_version}")
        resources = document.get("resources")
        if not isinstance(resources, list):
            tried = f"discover the kinds of {api_version}"
            raise Garbled(tried, f"no resource list at {base}", "check what answers at the address")
        served = [
            _kind(api_version, base, entry) for entry in resources if "/" not in entry["name"]
        ]
        self._known.update({(api_version, found.kind): found for found in served})
        if (api_version, kind) not in self._known:
            names = [found.kind for found in served]
            near = difflib.get_close_matches(kind, names, n=1, cutoff=0.6)
            hint = f"; near it: {near[0]}" if near else ""
            raise _unknown(api_version, kind, f"{api_version} has no kind {kind}{hint}")


def _kind(api_version: str, base: str, entry: Obj) -> Kind:
    return Kind(api_version, entry["kind"], entry["name"], bool(entry.get("namespaced")), base)


def _unknown(api_version: str, kind: str, message: str) -> UnknownKind:
    return UnknownKind(
        404,
        "NotServed",
        message,
        {"group": api_version.partition("/")[0] if "/" in api_version else "", "kind": kind},
        tried=f"find {kind} in {api_version}",
        do="check the spelling, or install what serves this kind",
    )
