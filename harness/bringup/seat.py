"""A seat at a lab's clock that several processes drive: time moves when all of them ask for it."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from harness.reach.errors import Unreachable

TIMEOUT = 60.0
"""Real seconds for the lab to give one."""


@dataclass(frozen=True, slots=True)
class Seat:
    """``ident`` is what its holder asks with. It is had until it is left, or its process ends."""

    ident: str
    _connection: http.client.HTTPConnection

    @staticmethod
    def take(url: str, name: str) -> Seat:
        """A seat at the clock at ``url``, for who calls itself so. Raises Unreachable."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)
        tried, do = f"take a seat at the clock at {url}", "see whether the twin still runs"
        try:
            connection.request("GET", f"/clock/seat?name={quote(name, safe='')}")
            answer = connection.getresponse()
            line = answer.readline() if answer.status == http.client.OK else b""
            return Seat(str(json.loads(line)["seat"]), connection)
        except (OSError, http.client.HTTPException) as gone:
            connection.close()
            raise Unreachable(tried, str(gone) or type(gone).__name__, do) from gone
        except (ValueError, KeyError, TypeError) as strange:
            connection.close()
            raise Unreachable(tried, f"an answer that is no seat's ({strange})", do) from strange

    def leave(self) -> None:
        """Give it up; leaving twice is fine."""
        self._connection.close()
