"""Which form of an answer a client asks for: plain JSON, Table, metadata only, discovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from harness.twin.apiserver.errors import ApiError

_META = "meta.k8s.io"
_DISCOVERY = "apidiscovery.k8s.io"
_JSON_NAMES = ("application/json", "application/*", "*/*")
_PLAIN, _TABLE, _PARTIAL = "", "Table", "PartialObjectMetadata"


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is to look. ``transform`` is "", Table, PartialObjectMetadata or discovery.

    ``content_type`` is what the answer declares.
    """

    transform: str = _PLAIN
    content_type: str = "application/json"

    @property
    def table(self) -> bool:
        """Rows and columns rather than objects."""
        return self.transform == _TABLE

    @property
    def partial(self) -> bool:
        """The objects' metadata only."""
        return self.transform == _PARTIAL

    @property
    def discovery(self) -> bool:
        """Discovery of every group at once."""
        return self.transform == "discovery"


PLAIN = Form()
_DISCOVERY_FORM = Form(
    "discovery", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)


@lru_cache(maxsize=256)
def form(accept: str) -> Form:
    """The first form in an Accept header that this server gives. ApiError 406 if none is."""
    if not accept:
        return PLAIN
    for part in accept.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        found = _offered(media.lower(), parameters)
        if found is not None:
            return found
    raise ApiError(
        406,
        "only the following media types are accepted: application/json, "
        "application/json;as=Table;v=v1;g=meta.k8s.io, "
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    )


def _offered(media: str, parameters: Mapping[str, str]) -> Form | None:
    if media not in _JSON_NAMES:
        return None
    wanted = parameters.get("as", "")
    if not wanted:
        return PLAIN
    kind = (parameters.get("g"), parameters.get("v"), wanted)
    if kind == (_META, "v1", "Table"):
        return Form(_TABLE)
    if kind in ((_META, "v1", _PARTIAL), (_META, "v1", _PARTIAL + "List")):
        return Form(_PARTIAL)
    return _DISCOVERY_FORM if kind == (_DISCOVERY, "v2", "APIGroupDiscoveryList") else None
