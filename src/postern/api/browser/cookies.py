"""The browser's session: an access token in a cookie that scripts cannot read, and its protection against other sites.

The cookie is SameSite=Lax and not Strict: the redirect from an identity provider is a navigation that begins on the
provider's site, and under Strict the page would be loaded without the cookie. Under Lax no write of another site
carries it. Since sites are wider than origins, each write must also prove that it comes from our own page: by the
browser's origin headers, and by the header `X-CSRF-Token`, which only our pages can read.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from fastapi import Request, Response
from starlette.requests import HTTPConnection

from postern.api.info import ServerAddresses
from postern.domain.secret import Secret
from postern.errors import Denied
from postern.services.identity.logins.logins import OpenedLogin

CSRF_HEADER = "X-CSRF-Token"
SECURE_NAME = "__Host-postern"  # browsers accept this prefix only with Secure, Path=/ and no Domain (RFC 6265bis)
PLAIN_NAME = "postern"  # on loopback, without TLS
READS = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(info: ServerAddresses) -> str:
    return SECURE_NAME if _is_https(info) else PLAIN_NAME


def set_login_cookie(response: Response, opened: OpenedLogin, info: ServerAddresses) -> None:
    """Set the cookie for as long as the login can last; the token in it can need a refresh before."""
    response.set_cookie(
        cookie_name(info),
        opened.token.reveal(),
        max_age=int((opened.login.ends_at - opened.login.created_at).total_seconds()),
        path="/",
        secure=_is_https(info),
        httponly=True,
        samesite="lax",
    )


def clear_login_cookie(response: Response, info: ServerAddresses) -> None:
    response.delete_cookie(cookie_name(info), path="/", secure=_is_https(info), httponly=True, samesite="lax")


def login_cookie(request: HTTPConnection, info: ServerAddresses) -> Secret | None:
    value = request.cookies.get(cookie_name(info))
    return Secret(value) if value else None


def csrf_token_of(token: Secret) -> str:
    """Return the CSRF token, which is bound to the access token, and so to its login, and reveals nothing of it. It
    changes with a refresh."""
    return hmac.new(token.reveal().encode(), b"postern csrf", hashlib.sha256).hexdigest()


def is_csrf_token(text: str, token: Secret) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), csrf_token_of(token).encode())


def require_own_page(request: Request, token: Secret, info: ServerAddresses) -> None:
    """Check a write that is authenticated by cookie. Raises Denied."""
    require_own_origin(request, info)
    if not is_csrf_token(request.headers.get(CSRF_HEADER, ""), token):
        raise Denied(
            f"a write with the browser's session needs the header {CSRF_HEADER}; its value is the "
            "`csrf_token` of GET /api/login/session, which changes with each login and refresh"
        )


def require_own_socket(socket: HTTPConnection, info: ServerAddresses) -> None:
    """Check the handshake of a WebSocket, to which browsers apply no same-origin policy. Raises Denied."""
    if len(socket.headers.getlist("Origin")) != 1:
        raise Denied("a WebSocket needs one header Origin, which browsers send; other programs use `postern connect`")
    require_own_origin(socket, info)


def require_own_origin(request: HTTPConnection, info: ServerAddresses) -> None:
    """Raises Denied unless the browser confirms that our own page sent this (Fetch Metadata, RFC 6454)."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    own_origin = _origin_of(info.api_url)
    if site is None and origin is None:
        raise Denied(
            "a write with the browser's session needs the header Origin or Sec-Fetch-Site; other clients must "
            "send a bearer token"
        )
    if (site is not None and site != "same-origin") or (origin is not None and _origin_of(origin) != own_origin):
        raise Denied(f"the request came from another site; open the gateway's own page at {info.api_url}")


def _origin_of(url: str) -> tuple[str, str | None, int | None] | None:
    """Return scheme, host and port; None if it is not an origin (`null`)."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _is_https(info: ServerAddresses) -> bool:
    return urlsplit(info.api_url).scheme == "https"
