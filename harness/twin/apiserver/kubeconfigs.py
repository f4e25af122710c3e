"""Kubeconfig documents for the twin's clusters."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any


def kubeconfig(
    servers: Mapping[str, tuple[str, bytes, bytes, bytes]], current: str
) -> dict[str, Any]:
    """A kubeconfig with one cluster, user and context for each entry.

    ``servers`` maps a context's name to (URL, CA, client certificate, client key), the last three
    in PEM. Raises ValueError where ``current`` is none of the contexts.
    """
    if current not in servers:
        raise ValueError(f"current context {current!r} is none of {sorted(servers)}")
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [_cluster(name, url, ca) for name, (url, ca, _, _) in servers.items()],
        "users": [_user(name, cert, key) for name, (_, _, cert, key) in servers.items()],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name}} for name in servers
        ],
        "current-context": current,
    }


def _cluster(name: str, url: str, ca: bytes) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(ca)}}


def _user(name: str, cert: bytes, key: bytes) -> dict[str, Any]:
    user = {"client-certificate-data": _base64(cert), "client-key-data": _base64(key)}
    return {"name": name, "user": user}


def _base64(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()
