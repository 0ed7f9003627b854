"""What is recorded of heads: everything but the values that are secrets.

A secret in a URL is a parameter whose name is known for it. The fragment of a redirect is redacted alike, since OAuth
returns tokens in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
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


@lru_cache(maxsize=1024)
def _is_secret_header(name: bytes) -> bool:
    return _SECRET_HEADER.fullmatch(plain_name(name)) is not None


def redact_request_headers(headers: Headers) -> Headers:
    """Return the headers of a request as they are recorded."""
    return _redact(headers, SECRET_REQUEST_HEADERS)


def redact_response(head: ResponseHead) -> ResponseHead:
    """Return the head of a response as it is recorded; the same object if it has no secret."""
    redacted = _redact(head.headers, SECRET_RESPONSE_HEADERS)
    return head if redacted == head.headers else head.with_headers(redacted)


def _redact(headers: Headers, secret: frozenset[bytes]) -> Headers:
    return tuple((name, _redact_value(name, value, secret)) for name, value in headers)


def _redact_value(name: bytes, value: bytes, secret: frozenset[bytes]) -> bytes:
    if name in secret or _is_secret_header(name):
        return REDACTED
    if name in _URLS and b"=" in value:
        return redact_url(value.decode("latin-1")).encode("latin-1")
    return value
