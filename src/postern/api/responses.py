"""The failures a route declares in the OpenAPI description."""

from __future__ import annotations

from typing import Any

from postern.api.schemas.common import HTTPError

_MEANING = {
    400: "The body cannot be read: missing or unknown field, wrong type, unknown enum value",
    401: "No valid token",
    403: "Known, and may not; or a write by a browser's session that its own page did not send",
    404: "Does not exist, or is hidden from the caller",
    409: "Exists already, or somebody else changed it at the same time",
    410: "The recording was purged",
    412: "`If-Match` names another version than the one there is",
    413: "The body is too large",
    416: "The range begins behind the end of the file",
    422: "Breaks a rule: a constraint, an unknown reference, an immutable field; or a parameter is wrong",
    429: "Too many failed tries",
    500: "Something went wrong in the gateway",
    503: "The store does not answer",
}
_ALWAYS = (400, 422, 500, 503)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Those given, and those that every route with a token can have."""
    return open_errors(401, 403, *statuses)


def open_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Those given, and those that every route can have."""
    return {status: {"model": HTTPError, "description": _MEANING[status]} for status in sorted({*statuses, *_ALWAYS})}
