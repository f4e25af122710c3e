"""Requests by hand for the drivers that have no tool: urllib3 and json, nothing more."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml
from protocol import Wait

_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True)
class Server:
    """Where to ask. ``pool`` never retries by itself."""

    url: str
    pool: urllib3.PoolManager

    def ask(self, path: str, query: dict[str, str], timeout: float) -> Any:
        """A GET whose body is still to be read. Raises RuntimeError for any answer but 200."""
        asked = f"{self.url}{path}?{urlencode(query)}"
        answer = self.pool.request("GET", asked, timeout=timeout, preload_content=False)
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {answer.data[:200]!r}")
        return answer


def server(wait: Wait) -> Server:
    """The server of a wait's kubeconfig, one for all waits that name it."""
    with _one_at_a_time:
        return _server(wait.kubeconfig)


def met(pod: dict[str, Any], wait: Wait) -> bool:
    """Whether a pod is as the wait wants it. A condition of an older generation is none."""
    status = pod.get("status") or {}
    if wait.want == "misspelt":
        return bool(pod["status"]["phse"] == wait.value)
    if wait.want == "phase":
        return bool(status.get("phase") == wait.value)
    generation = pod["metadata"].get("generation", 0)
    return any(
        c["type"] == "Ready"
        and c["status"] == "True"
        and c.get("observedGeneration", generation) >= generation
        for c in status.get("conditions", ())
    )


def loaded(answer: Any) -> Any:
    """The JSON document of an answer."""
    return json.loads(answer.data)


@cache
def _server(kubeconfig: str) -> Server:
    told = yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8"))
    cluster, user = told["clusters"][0]["cluster"], told["users"][0]["user"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=ca)
    with tempfile.NamedTemporaryFile() as file:
        for key in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[key]))
        file.flush()
        context.load_cert_chain(file.name)
    pool = urllib3.PoolManager(ssl_context=context, retries=False, maxsize=64)
    return Server(cluster["server"], pool)
