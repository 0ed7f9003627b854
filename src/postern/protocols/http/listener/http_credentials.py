"""The credential in a request: where clients put it, and how it is removed before the request goes on.

    Postern-Authorization: Basic BASE64(USER:PASSWORD)      the application's own Authorization stays as it is
    Cookie: __Host-postern=USER.PASSWORD                    browsers; without TLS `postern=…`
    Authorization: Basic BASE64(USER:PASSWORD)              `curl -u`, git, pip, most programs
    Authorization: Bearer USER.PASSWORD                     programs that only have a token; `USER:PASSWORD` too

The first that a request has counts. `Authorization` counts only if it names a credential of Postern: others are the
application's. A user name has no dot, and neither it nor a password has characters that a token or a cookie cannot
have.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b
from typing import Final, NamedTuple

from postern.domain.identity.credential import is_username
from postern.domain.secret import Secret
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead, values_of

OWN_HEADER: Final = b"postern-authorization"
SECURE_COOKIE: Final = b"__Host-postern"
PLAIN_COOKIE: Final = b"postern"  # without TLS, where browsers reject the prefix
_AUTHORIZATION: Final = b"authorization"
_LOGIN_HEADERS: Final = frozenset({OWN_HEADER, b"cookie", _AUTHORIZATION})
_COOKIES: Final = frozenset({SECURE_COOKIE, PLAIN_COOKIE})
_LOGIN_COOKIES: Final = (SECURE_COOKIE + b"-login-", PLAIN_COOKIE + b"-login-")
MAX_LENGTH: Final = 1_000  # characters of a credential


class PresentedCredential(NamedTuple):
    """A user name and a password, not checked yet. `source` is the name of its header."""

    username: str
    password: Secret
    source: bytes


def cookie_name(*, tls: bool) -> str:
    return (SECURE_COOKIE if tls else PLAIN_COOKIE).decode()


def cookie_value(username: str, password: Secret) -> str:
    """Return a credential as the value of a cookie, which is also a bearer token."""
    return f"{username}.{password.reveal()}"


def credential_of(head: RequestHead, *, tls: bool) -> PresentedCredential | None:
    """Return the credential in a request, or None."""
    own = values_of(head.headers, OWN_HEADER)
    if own:
        return _of_header(own, OWN_HEADER)
    cookie = _cookie(head.headers, SECURE_COOKIE if tls else PLAIN_COOKIE)
    if cookie is not None:
        return _of_token(cookie, b"cookie")
    found = _of_header(values_of(head.headers, _AUTHORIZATION), _AUTHORIZATION)
    return found if found is not None and is_username(found.username) else None


def login_digest(head: RequestHead) -> bytes:
    """Return a hash of everything that `credential_of` reads, so that connections need not keep passwords; nothing if
    there is none of it."""
    parts: list[bytes] = []
    for name, value in head.headers:
        if name in _LOGIN_HEADERS:
            parts.append(name)
            parts.append(value)
    return blake2b(b"\0".join(parts), digest_size=32).digest() if parts else b""


def without_credential(head: RequestHead, used: PresentedCredential | None) -> RequestHead:
    """Return the request without what is Postern's: the own header and cookies, and `Authorization` if the credential
    came in it, or is there as well."""
    headers: list[tuple[bytes, bytes]] = []
    for name, value in head.headers:
        if name == OWN_HEADER or (name == _AUTHORIZATION and _is_the_same(value, used)):
            continue
        if name == b"cookie":
            value = _without_own_cookies(value)
            if not value:
                continue
        headers.append((name, value))
    return head.with_headers(tuple(headers))


def without_own_cookies(head: ResponseHead) -> ResponseHead:
    """Return an application's response without cookies that would replace Postern's. Browsers send a cookie without a
    name as its value alone, which can look like one with a name."""
    own = [pair for pair in head.headers if pair[0] == b"set-cookie" and _is_own(_name_of(_strip_start(pair[1])))]
    if not own:
        return head
    return head.with_headers(tuple([pair for pair in head.headers if pair not in own]))


def _is_the_same(value: bytes, used: PresentedCredential | None) -> bool:
    if used is None:
        return False
    if used.source == _AUTHORIZATION:
        return True  # there was only one
    found = _of_header([value], _AUTHORIZATION)
    return found is not None and found.username == used.username


def _of_header(values: list[bytes], source: bytes) -> PresentedCredential | None:
    if len(values) != 1 or len(values[0]) > 2 * MAX_LENGTH:
        return None
    scheme, _, content = values[0].strip().partition(b" ")
    content = content.strip()
    if scheme.lower() == b"basic":
        return _of_basic(content, source)
    return _of_token(content, source) if scheme.lower() == b"bearer" else None


def _of_basic(content: bytes, source: bytes) -> PresentedCredential | None:
    try:
        text = base64.b64decode(content, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    username, colon, password = text.partition(":")
    return PresentedCredential(username, Secret(password), source) if colon else None


def _of_token(content: bytes, source: bytes) -> PresentedCredential | None:
    if len(content) > MAX_LENGTH:
        return None
    text = content.decode("ascii", "replace")
    for separator in ".:":
        username, found, password = text.partition(separator)
        if found and is_username(username):
            return PresentedCredential(username, Secret(password), source)
    return None


def _cookie(headers: Headers, wanted: bytes) -> bytes | None:
    for value in values_of(headers, b"cookie"):
        for pair in value.split(b";"):
            if _name_of(pair) == wanted:
                return pair.partition(b"=")[2].strip()
    return None


def _without_own_cookies(value: bytes) -> bytes:
    if b"postern" not in value:
        return value
    kept = [pair for pair in value.split(b";") if not _is_own(_name_of(pair))]
    return b";".join(kept).strip()


def _strip_start(cookie: bytes) -> bytes:
    return cookie.lstrip(b"= \t")


def _is_own(name: bytes) -> bool:
    """Return whether a cookie is the gateway's: a credential, or a login that was begun."""
    return name in _COOKIES or name.startswith(_LOGIN_COOKIES)


def _name_of(pair: bytes) -> bytes:
    return pair.partition(b";")[0].partition(b"=")[0].strip()
