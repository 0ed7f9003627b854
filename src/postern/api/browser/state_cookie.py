"""A cookie that binds a login in progress to the browser in which it began, so that no user is logged in by an answer
that another browser got from the provider (login CSRF; RFC 6749 section 10.12). One cookie for each login: a browser
can have several in progress."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response

from postern.api.info import ServerAddresses
from postern.domain.secret import Secret
from postern.services.identity.logins.oidc_login import STATE_LIFE, Started


def set_state_cookie(response: Response, started: Started, info: ServerAddresses) -> None:
    """Set the cookie. A command line needs none, since its code verifier binds it."""
    if started.binding is not None:
        response.set_cookie(
            _name(started.state, info),
            started.binding.reveal(),
            max_age=int(STATE_LIFE.total_seconds()),
            path="/",
            secure=_is_https(info),
            httponly=True,
            samesite="lax",  # the redirect from the provider is a navigation that begins on its site
        )


def state_cookie(request: Request, state: Secret, info: ServerAddresses) -> Secret | None:
    value = request.cookies.get(_name(state, info))
    return Secret(value) if value else None


def clear_state_cookie(response: Response, state: Secret, info: ServerAddresses) -> None:
    response.delete_cookie(_name(state, info), path="/", secure=_is_https(info), httponly=True, samesite="lax")


def _name(state: Secret, info: ServerAddresses) -> str:
    """Return the name of the cookie, which reveals nothing of the state."""
    digest = hashlib.sha256(state.reveal().encode(errors="replace")).hexdigest()[:16]
    return f"{'__Host-' if _is_https(info) else ''}postern-login-{digest}"


def _is_https(info: ServerAddresses) -> bool:
    return info.api_url.startswith("https:")
