"""The failures that a route declares in the OpenAPI description."""

from __future__ import annotations

from typing import Any

from postern.api.schemas.common import HTTPError

_MEANING = {
    400: "The body is invalid: missing or unknown field, wrong type, unknown enum value",
    401: "The token is missing or invalid",
    403: "The caller is authenticated but not allowed; or a write with a browser's session did not come from "
    "the gateway's own page",
    404: "It does not exist, or is hidden from the caller",
    409: "It exists already, or another request changed it at the same time",
    410: "The recording was purged",
    412: "`If-Match` names a different version than the current one",
    413: "The body is too large",
    416: "The range begins after the end of the file",
    422: "The request breaks a rule: a constraint, an unknown reference, an immutable field; or a parameter is invalid",
    429: "Too many failed attempts",
    500: "Internal error of the gateway",
    503: "The store does not answer",
}
_ALWAYS = (400, 422, 500, 503)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the given failures, and those of every route with authentication."""
    return open_errors(401, 403, *statuses)


def open_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the given failures, and those of every route."""
    return {status: {"model": HTTPError, "description": _MEANING[status]} for status in sorted({*statuses, *_ALWAYS})}
