"""A chart's ``lookup``: what it finds, as whom, and what becomes of it without permission.

helm-controller may see everything; a release with ``spec.serviceAccountName`` sees what that
account may. What may not be seen is not absent: Helm then renders nothing (helm #9002).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.access import Access, Attributes, account_user, forbidden
from harness.twin.world.chart_behaviour import LookupForbidden
from harness.twin.world.objects import Obj

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster


class Lookups:
    """Look-ups of one release. ``account``: a ServiceAccount of its namespace, "" for none."""

    def __init__(self, cluster: Cluster, access: Access, namespace: str, account: str) -> None:
        self._cluster = cluster
        self._access = access
        self._user = account_user(namespace, account) if account else None

    def one(self, api_version: str, kind: str, namespace: str, name: str) -> Obj | None:
        """One object, None where it is not there. Raises LookupForbidden."""
        self._require("get", api_version, kind, namespace, name)
        return self._cluster.find(api_version, kind, namespace, name)

    def all(self, api_version: str, kind: str, namespace: str) -> list[Obj]:
        """Every object of a kind in a namespace ("": in all). Raises LookupForbidden."""
        self._require("list", api_version, kind, namespace, "")
        return self._cluster.all(api_version, kind, namespace)

    def _require(self, verb: str, api_version: str, kind: str, namespace: str, name: str) -> None:
        if self._user is None:
            return
        resource = self._cluster.store.registry.by_kind(api_version, kind)
        asked = Attributes(verb, resource.group, resource.plural, "", namespace, name)
        if not self._access.allows(self._user, asked):
            where = f'executing at <lookup "{api_version}" "{kind}" "{namespace}" "{name}">'
            raise LookupForbidden(where, str(forbidden(self._user, asked)))
