"""What can go wrong on the way to a lab: each error says what was tried, what was seen, what to do.

These are errors of the lab or of its user. A product that misbehaves is a verdict, not an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_QUOTED = 300  # characters of an answer that is not a Status object kept in a message


class LabError(Exception):
    """The base. ``tried`` is what was attempted, ``saw`` what came back, ``do`` the next step."""

    def __init__(self, tried: str, saw: str, do: str) -> None:
        super().__init__(tried, saw, do)
        self.tried = tried
        self.saw = saw
        self.do = do

    def __str__(self) -> str:
        return f"tried to {self.tried}, saw {self.saw}: {self.do}"


class Unreachable(LabError):
    """No answer: refused, reset, timed out, or cut off in the middle of an answer."""


class BadCertificate(LabError):
    """One side does not trust the other's certificate."""


class Garbled(LabError):
    """An answer that no Kubernetes API gives; nothing may be concluded from it."""


class KubeconfigMissing(LabError):
    """There is no kubeconfig file where one was named."""


class KubeconfigUnreadable(LabError):
    """There is a kubeconfig, but it cannot be used as it stands."""


class NoSuchContext(LabError):
    """The kubeconfig names no such context."""


class PluginFailed(LabError):
    """The program that a kubeconfig names for its credentials gave none."""


class LeaseHeld(LabError):
    """Another run holds the pool, or was promised its cards. ``since`` and ``until`` are epoch
    seconds, None if unreadable; ``what`` is what stands in the way ("lease NAME").
    """

    def __init__(
        self,
        tried: str,
        saw: str,
        do: str,
        *,
        holder: str,
        since: float | None,
        until: float | None,
        what: str = "",
    ) -> None:
        super().__init__(tried, saw, do)
        self.holder = holder
        self.what = what
        self.since = since
        self.until = until


class LeaseLost(LabError):
    """This run no longer holds the pool it had leased; what it saw since is not its own."""


class HostKeyUnknown(LabError):
    """A machine showed an SSH host key that is not pinned for it."""


class HostKeyChanged(LabError):
    """A machine showed another SSH host key than the one pinned for it."""


class LoginRefused(LabError):
    """A machine did not take the SSH user and keys that it was offered."""


class KeyUnusable(LabError):
    """An SSH private key that was named cannot be used."""


class ApiRefused(LabError):
    """The API answered, and the answer was no.

    ``code`` is the HTTP status, ``reason`` the API's one-word reason ("Conflict"), ``message``
    its sentence and ``details`` the details of the Status object as they came.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        tried: str = "ask the API",
        do: str = "",
    ) -> None:
        super().__init__(tried, f"{code} {reason}, {message!r}", do or _next_step(code))
        self.code = code
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = dict(details or {})


class Refused(ApiRefused):
    """401 or 403: these credentials may not do this."""


class UnknownKind(ApiRefused):
    """The cluster does not serve this kind; not the same as an object that is not there."""


def refusal(
    code: int, body: bytes, tried: str, retry_after: str = "", *, writing: str = ""
) -> ApiRefused:
    """The error for a non-2xx answer; a body that is no Status object is quoted, not lost.

    ``writing`` is the verb of a request that writes: one that an API server gave up on (500 and
    above) may have been carried out.
    ``retry_after`` is the answer's header of that name: seconds or a date (RFC 9110 10.2.3). It is
    told, and never obeyed here: whoever asks again does so in the open.
    """
    status = _status(body)
    reason = str(status.get("reason") or _REASONS.get(code, "Unknown"))
    message = str(status.get("message") or body[:_QUOTED].decode("utf-8", "replace"))
    details = status.get("details")
    kept = details if isinstance(details, dict) else {}
    kind = Refused if code in (401, 403) else ApiRefused
    do = _next_step(code)
    if writing and code >= 500:
        do = f"{do}; {unsure(writing)}"
    if retry_after.isascii() and retry_after.isdigit():
        kept = {"retryAfterSeconds": int(retry_after), **kept}
        retry_after = f"{retry_after} s"
    if retry_after:
        do = f"{do} (Retry-After: {retry_after})"
    return kind(code, reason, message, kept, tried=tried, do=do)


def unsure(verb: str) -> str:
    """What to say of a write whose answer does not tell how it went."""
    return f"whether the {verb} took effect is not known"


def _status(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _next_step(code: int) -> str:
    return _STEPS.get(code, "read the API's message; the request itself was delivered")


# reasons for answers that carry no Status object (a proxy's, a load balancer's)
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

_STEPS = {
    401: "check that the kubeconfig's credentials are current",
    403: "give this identity the permission, or use another context",
    404: "check the names; this was not read as an absence",
    409: "read the object again and decide anew",
    410: "list again: this version is no longer kept",
    422: "correct the object",
    429: "the API server is overloaded: wait and ask again",
    503: "the API server is not ready: look at its pods",
}
