"""Responses of the gateway itself: errors in words, for programs as text and for browsers as a page."""

from __future__ import annotations

import html
from dataclasses import replace
from typing import Final

from postern.errors import (
    Denied,
    Invalid,
    NotFound,
    PosternError,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from postern.gateway.clients.failed_logins import TooManyFailedLogins
from postern.gateway.session_opening import SessionAborted
from postern.protocols.http.http_heads import RequestHead, ResponseHead, first_value, without
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http_client_exchange import GatewayResponse, is_browser

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:36rem;padding:0 1rem;color:#1c2430}}
@media(prefers-color-scheme:dark){{body{{background:#14181f;color:#e6e9ee}}}}</style></head>
<body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""
_TITLES: Final = {
    400: "This request is not valid",
    401: "Log in first",
    403: "Access denied",
    429: "Too many failed logins",
    502: "The application did not answer",
    503: "Not available now",
    504: "The application did not answer in time",
}
_STATUSES: Final[tuple[tuple[type[PosternError], int], ...]] = (
    (SessionAborted, 503),
    (Unauthenticated, 401),
    (Denied, 403),
    (NotFound, 403),
    (Invalid, 400),
    (TooManyFailedLogins, 429),
    (TooMany, 503),
    (Unavailable, 502),
)
_FOR_SCRIPTS: Final = (b"www-authenticate", b'Postern realm="open the page again to log in"')
# An application can show an error in a frame of its own page.
_PAGE_POLICY: Final = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
)
REALM: Final = "Postern: user name and password of a credential"
RETRY_WAITING: Final = 5  # seconds after which a browser that waits for a review asks again


def status_for(error: PosternError) -> int:
    """Return the status of an error in the way of a request."""
    if isinstance(error, HttpSyntaxError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 502)


def error_response(status: int, text: str, *, retry_after: int | None = None) -> GatewayResponse:
    headers = [(b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", f'Basic realm="{REALM}", charset="UTF-8"'.encode()))
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % retry_after))
    return GatewayResponse(status, f"{_sentence(text)}\n".encode(), tuple(headers))


def waiting_response(notice: str) -> GatewayResponse:
    """Return the page of a browser that waits for a review; it loads again by itself."""
    headers = (
        (b"cache-control", b"no-store"),
        (b"retry-after", b"%d" % RETRY_WAITING),
        (b"refresh", b"%d" % RETRY_WAITING),
    )
    body = page("Waiting for approval", f"{_sentence(notice)} This page continues by itself.")
    return GatewayResponse(503, body, headers, "text/html; charset=utf-8")


def page(title: str, text: str) -> bytes:
    return _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()


def for_reader(response: GatewayResponse, head: RequestHead) -> GatewayResponse:
    """Return an error as a page if a person looks at it. Scripts and forms of a page get no challenge of Basic, which
    browsers answer with a dialog."""
    if response.status == 401 and first_value(head.headers, b"sec-fetch-mode") and not is_browser(head):
        return replace(response, headers=(*without(response.headers, (b"www-authenticate",)), _FOR_SCRIPTS))
    if response.status < 400 or not is_browser(head) or not response.content_type.startswith("text/plain"):
        return response
    body = page(_TITLES.get(response.status, "An error"), response.body.decode().strip())
    return GatewayResponse(response.status, body, response.headers, "text/html; charset=utf-8")


def response_of(response: GatewayResponse, method: str) -> tuple[ResponseHead, bytes]:
    """Return a response as it is sent: its head, and its body where the method has one."""
    headers = response.headers
    if response.body:
        if response.content_type.startswith("text/html") and not first_value(headers, _PAGE_POLICY[0]):
            headers = (_PAGE_POLICY, *headers)
        headers = ((b"content-type", response.content_type.encode()), (b"x-content-type-options", b"nosniff"), *headers)
    has_body = method != "HEAD" and response.status not in (204, 304)
    head = ResponseHead(response.status, headers, len(response.body), has_body)
    return head, response.body if has_body else b""


def _sentence(text: str) -> str:
    """Return a message as a sentence."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"
