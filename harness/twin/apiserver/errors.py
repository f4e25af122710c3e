"""Errors as the Kubernetes API answers them: a Status object with reason and code."""

from __future__ import annotations

from typing import Any

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


UNKNOWN = "Unknown"
"""The reason that the API does not say."""


class ApiError(Exception):
    """A refusal. ``code`` is the HTTP status; ``reason`` the API's word for it.

    ``details`` given as ``{}`` go out empty, which some clients rely on; left out, they do not.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason or REASONS.get(code, UNKNOWN)
        self.details = {k: v for k, v in (details or {}).items() if v not in ("", None)}
        self._detailed = bool(self.details) or details == {}
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        """The ``meta/v1 Status`` object that goes over the wire."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason != UNKNOWN:
            body["reason"] = self.reason
        if self._detailed:
            body["details"] = self.details
        return body


def not_found(group: str, plural: str, name: str) -> ApiError:
    """404 worded as a real API server words it."""
    qualified = f"{plural}.{group}" if group else plural
    return ApiError(
        404,
        f'{qualified} "{name}" not found',
        details={"name": name, "group": group, "kind": plural},
    )


def invalid_options(
    kind: str, field: str, message: str, reason: str = "FieldValueForbidden"
) -> ApiError:
    """422 for a parameter; ``kind`` is that of the options it belongs to (``PatchOptions``)."""
    return ApiError(
        422,
        f'{kind}.meta.k8s.io "" is invalid: {field}: {message}',
        details={
            "group": "meta.k8s.io",
            "kind": kind,
            "causes": [{"reason": reason, "message": message, "field": field}],
        },
    )
