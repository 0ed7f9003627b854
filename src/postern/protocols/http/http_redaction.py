"""What is recorded of heads: everything but the values that are secrets.

A secret in a URL is a parameter whose name is known for it. The fragment of a redirect is redacted alike, since OAuth
returns tokens in it.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus

from postern.protocols.http.http_heads import (
    REDACTED,
    SECRET_REQUEST_HEADERS,
    SECRET_RESPONSE_HEADERS,
    Headers,
    ResponseHead,
    plain_name,
)

# Names of parameters whose values are secrets, without separators and in lower case.
SECRET_PARAMETERS: Final = frozenset(
    {
        *("accesstoken", "refreshtoken", "idtoken", "authtoken", "token", "apikey", "xapikey", "key", "secret"),
        *("clientsecret", "clientassertion", "assertion", "password", "passwd", "pwd", "passphrase", "privatekey"),
        *("signature", "sig", "xamzsignature", "xamzsecuritytoken", "xamzcredential", "xgoogsignature", "code"),
        *("samlresponse", "samlrequest", "session", "sessionid", "sid", "jwt", "bearer", "otp", "ticket", "csrf"),
        *("csrftoken", "xcsrftoken", "csrfmiddlewaretoken", "authenticitytoken", "credentials", "codeverifier"),
        *("xsrf", "xsrftoken", "xxsrftoken"),
    }
)
# Last words of names of headers whose values are secrets, of requests and responses, besides those that are known by
# their whole names.
_SECRET_HEADER: Final = re.compile(
    rb"(?:.*-)?(?:[a-z]*tokens?|secret|password|passwd|jwt|assertion|dpop|oidc-data|session(?:-?id)?|apikey|signature|"
    rb"credentials?|authorization|cookie|(?:api|auth|access|subscription|functions|private|secret|master|account)-?key)"
)
_URLS: Final = frozenset({b"location", b"content-location", b"referer", b"refresh"})
_PARAMETER: Final = re.compile(r"(?<=[?&;#])([^=&;#?]*)=([^&;#]*)")
_SEPARATORS: Final = re.compile(r"[^0-9a-z]+")
_TEXT: Final = REDACTED.decode()


def is_secret_name(name: str) -> bool:
    """Return whether a parameter or field of this name holds a secret."""
    return _SEPARATORS.sub("", name.lower()) in SECRET_PARAMETERS


def redact_url(url: str) -> str:
    """Return a URL, or a path with its query, without the values of secret parameters."""
    if "=" not in url:
        return url
    return _PARAMETER.sub(_redact_parameter, url)


def _redact_parameter(match: re.Match[str]) -> str:
    name = match.group(1)
    return f"{name}={_TEXT}" if match.group(2) and is_secret_name(unquote_plus(name)) else match.group(0)


# What is recorded of a header.
_ALL: Final = 1
_URL: Final = 2  # its value, without secret parameters
_NAME: Final = 3  # only its name

_request_kinds: Final[dict[bytes, int]] = {}
_response_kinds: Final[dict[bytes, int]] = {}
_MAX_KINDS: Final = 1024  # names whose kind is remembered …
_MAX_NAME: Final = 64  # … and bytes of such a name


def _kind(name: bytes, known: dict[bytes, int], secret: frozenset[bytes]) -> int:
    if name in secret or _SECRET_HEADER.fullmatch(plain_name(name)) is not None:
        kind = _NAME
    else:
        kind = _URL if name in _URLS else _ALL
    if len(known) < _MAX_KINDS and len(name) <= _MAX_NAME:
        known[name] = kind
    return kind


def redact_request_headers(headers: Headers) -> Headers:
    """Return the headers of a request as they are recorded; the same object if they have no secret."""
    return _redact(headers, _request_kinds, SECRET_REQUEST_HEADERS)


def redact_response(head: ResponseHead) -> ResponseHead:
    """Return the head of a response as it is recorded; the same object if it has no secret."""
    redacted = _redact(head.headers, _response_kinds, SECRET_RESPONSE_HEADERS)
    return head if redacted is head.headers else head.with_headers(redacted)


def _redact(headers: Headers, known: dict[bytes, int], secret: frozenset[bytes]) -> Headers:
    changed: dict[int, tuple[bytes, bytes]] = {}
    for place, (name, value) in enumerate(headers):
        kind = known.get(name) or _kind(name, known, secret)
        if kind == _ALL:
            continue
        redacted = REDACTED if kind == _NAME else _redact_value(value)
        if redacted != value:
            changed[place] = (name, redacted)
    if not changed:
        return headers
    return tuple([changed.get(place, pair) for place, pair in enumerate(headers)])


def _redact_value(url: bytes) -> bytes:
    return redact_url(url.decode("latin-1")).encode("latin-1") if b"=" in url else url
