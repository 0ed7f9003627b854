"""Allowed redirect targets of a login: the web app, or a command line that listens on the user's machine (RFC 8252
section 7.3).

Any other target is rejected: the end of a login must never lead a user to an attacker's page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from postern.domain.identity.login import ClientKind
from postern.errors import Invalid

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # SHA-256 in base64url, RFC 7636 section 4.2
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_MAX_LENGTH = 2_000
_ODD = re.compile(r"[^\x21-\x7e]|[\\<>\"^`{|}]")


@dataclass(frozen=True, slots=True)
class RedirectTarget:
    """Where a login ends. `code_challenge` is the command line's; the web app has a cookie instead."""

    url: str
    client: ClientKind
    code_challenge: str = ""

    def with_query(self, **values: str) -> str:
        parts = urlsplit(self.url)
        query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in values]
        return urlunsplit(parts._replace(query=urlencode([*query, *values.items()])))


def redirect_target_of(redirect: str | None, code_challenge: str | None, api_url: str) -> RedirectTarget:
    """Return the target for `redirect`, a URL or a path of the web app; its front page when missing. Raises Invalid."""
    if not redirect:
        return RedirectTarget(api_url + "/", ClientKind.WEB)
    if len(redirect) > _MAX_LENGTH or _ODD.search(redirect):
        raise Invalid("redirect: is too long, or has a character that must be percent-encoded", field="redirect")
    if redirect.startswith("/") and not redirect.startswith("//"):
        redirect = api_url + redirect
    try:
        parts, result = urlsplit(redirect), urlsplit(api_url)
        origin, own_origin = (parts.scheme, parts.hostname, parts.port), (result.scheme, result.hostname, result.port)
    except ValueError:
        raise Invalid("redirect: cannot be read as a URL", field="redirect") from None
    if parts.username is not None or parts.fragment:
        raise Invalid("redirect: must have no user name and no fragment", field="redirect")
    if origin == own_origin:
        return RedirectTarget(redirect, ClientKind.WEB)
    host, _, port = parts.netloc.rpartition(":")
    if parts.scheme == "http" and host in _LOOPBACK and port.isdigit():
        if not _CHALLENGE.fullmatch(code_challenge or ""):
            raise Invalid(
                "code_challenge: a redirect to this machine needs the S256 challenge of a code verifier (RFC 7636)",
                field="code_challenge",
            )
        return RedirectTarget(redirect, ClientKind.CLI, code_challenge or "")
    raise Invalid(f"redirect: must be below {api_url}, or http://127.0.0.1:PORT/", field="redirect")
