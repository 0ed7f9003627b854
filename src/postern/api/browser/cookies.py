"""The browser's session: an access token in a cookie that scripts cannot read, and what keeps other sites off it.

The cookie is SameSite=Lax and not Strict: the way back from an identity provider is a navigation that begins on the
provider's site, and under Strict the page it ends on would be loaded without the cookie. Lax lets no other site's
writes carry it; and since sites are wider than origins, each write must also prove that it comes from our own page:
by what the browser says of its origin, and by the header `X-CSRF-Token`, which only a page of ours can read.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from fastapi import Request, Response

from postern.api.info import ServerAddresses
from postern.domain.secret import Secret
from postern.errors import Denied
from postern.services.identity.logins.logins import OpenedLogin

CSRF_HEADER = "X-CSRF-Token"
SECURE_NAME = "__Host-postern"  # browsers take this prefix only with Secure, Path=/ and no Domain (RFC 6265bis)
PLAIN_NAME = "postern"  # on loopback, where there is no TLS
READS = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name(info: ServerAddresses) -> str:
    return SECURE_NAME if _is_https(info) else PLAIN_NAME


def set_login_cookie(response: Response, opened: OpenedLogin, info: ServerAddresses) -> None:
    """Kept for as long as the login can last; the token in it may have to be refreshed before."""
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


def login_cookie(request: Request, info: ServerAddresses) -> Secret | None:
    value = request.cookies.get(cookie_name(info))
    return Secret(value) if value else None


def csrf_token_of(token: Secret) -> str:
    """Bound to the access token, and so to its login; says nothing of it. After a refresh it is another."""
    return hmac.new(token.reveal().encode(), b"postern csrf", hashlib.sha256).hexdigest()


def require_own_page(request: Request, token: Secret, info: ServerAddresses) -> None:
    """For a write by cookie. Raises Denied."""
    require_own_origin(request, info)
    given = request.headers.get(CSRF_HEADER, "").encode()
    if not hmac.compare_digest(given, csrf_token_of(token).encode()):
        raise Denied(
            f"a change by the browser's session needs the header {CSRF_HEADER} with the `csrf_token` of "
            "GET /api/login/session, which is another after each login and refresh"
        )


def require_own_origin(request: Request, info: ServerAddresses) -> None:
    """Raises Denied unless the browser says that our own page sent this (Fetch Metadata, RFC 6454)."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    own = _origin_of(info.api_url)
    if site is None and origin is None:
        raise Denied("a browser's session needs the header Origin or Sec-Fetch-Site; other clients send a bearer token")
    if (site is not None and site != "same-origin") or (origin is not None and _origin_of(origin) != own):
        raise Denied(f"this came from another site; open the gateway's own page at {info.api_url}")


def _origin_of(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None for what is no such thing (`null`)."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _is_https(info: ServerAddresses) -> bool:
    return urlsplit(info.api_url).scheme == "https"
