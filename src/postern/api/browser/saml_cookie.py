"""A cookie that binds a SAML login to the browser in which it began (login CSRF). The answer comes as a POST from the
provider's page, and browsers send only cookies with SameSite=None with it, which must be Secure. Browsers accept Secure
cookies on loopback over plain HTTP, too."""

from __future__ import annotations

import hashlib

from fastapi import Request, Response

from postern.api.info import ServerAddresses
from postern.domain.secret import Secret
from postern.services.identity.logins.saml_login import REQUEST_LIFE, SamlStarted


def set_saml_cookie(response: Response, started: SamlStarted, info: ServerAddresses) -> None:
    """Set the cookie. A command line needs none, since its code verifier binds it."""
    if started.binding is not None:
        response.set_cookie(
            _name(started.relay_state, info),
            started.binding.reveal(),
            max_age=int(REQUEST_LIFE.total_seconds()),
            path="/",
            secure=True,
            httponly=True,
            samesite="none",
        )


def saml_cookie(request: Request, relay_state: str, info: ServerAddresses) -> Secret | None:
    value = request.cookies.get(_name(relay_state, info))
    return Secret(value) if value else None


def clear_saml_cookie(response: Response, relay_state: str, info: ServerAddresses) -> None:
    response.delete_cookie(_name(relay_state, info), path="/", secure=True, httponly=True, samesite="none")


def _name(relay_state: str, info: ServerAddresses) -> str:
    """Return the name of the cookie: one for each login, since a browser can have several in progress. It reveals
    nothing of the relay state."""
    digest = hashlib.sha256(relay_state.encode(errors="replace")).hexdigest()[:16]
    return f"{'__Host-' if info.api_url.startswith('https:') else ''}postern-saml-{digest}"
