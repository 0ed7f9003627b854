"""Heads of HTTP requests and responses as values, without anything that describes only the connection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Headers = tuple[tuple[bytes, bytes], ...]
"""Names in lower case and values, in order. Without `HOP_BY_HOP` and `content-length`."""

# Headers of one connection (RFC 9110, 7.6.1), besides those that `Connection` names. They are never forwarded.
HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"te", b"trailer"),
        *(b"http2-settings", b"proxy-authenticate", b"proxy-authorization"),
    }
)
# The values of these are secrets: they are neither recorded nor shown.
SECRET_REQUEST_HEADERS: Final = frozenset(
    {
        *(b"authorization", b"cookie", b"proxy-authorization", b"x-api-key", b"x-auth-token", b"x-csrf-token"),
        *(b"x-amz-security-token", b"postern-authorization", b"sec-websocket-key"),
    }
)
SECRET_RESPONSE_HEADERS: Final = frozenset({b"set-cookie", b"www-authenticate", b"authentication-info"})
REDACTED: Final = b"[not recorded]"


def values_of(headers: Headers, name: bytes) -> list[bytes]:
    """Return all values of a header; `name` is in lower case."""
    return [value for key, value in headers if key == name]


def first_value(headers: Headers, name: bytes) -> bytes:
    """Return the first value of a header, or nothing."""
    for key, value in headers:
        if key == name:
            return value
    return b""


def plain_name(name: bytes) -> bytes:
    """Return a header's name as CGI and what follows it (WSGI, PHP, Rack) read it: underscores are dashes."""
    return name.replace(b"_", b"-") if b"_" in name else name


def without(headers: Headers, names: Iterable[bytes]) -> Headers:
    """Return the headers without those of these names."""
    dropped = frozenset(names)
    return tuple(pair for pair in headers if pair[0] not in dropped)


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request without its body.

    - `target`: path and query in origin form, as the client sent it, ASCII; `*` for `OPTIONS *`.
    - `authority`: host and port that the client addressed. The listener replaces it with the target's.
    - `length`: bytes of the body; None if that is known only at its end.
    - `upgrade`: the protocol that the client wants to change to (`websocket`); empty for none.
    - `digest`: SHA-256 of the body in hexadecimal digits, where the target's credential is a signature.
    """

    method: str
    target: str
    authority: str
    headers: Headers = ()
    length: int | None = 0
    upgrade: str = ""
    digest: str = ""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def with_headers(self, headers: Headers) -> RequestHead:
        return RequestHead(self.method, self.target, self.authority, headers, self.length, self.upgrade, self.digest)


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A final response, or 101, without its body.

    - `length`: the `Content-Length`; None if the response has none. A response to HEAD, and 304, can have a length and
      no body: `has_body` is False then.
    """

    status: int
    headers: Headers = ()
    length: int | None = None
    has_body: bool = True

    def with_headers(self, headers: Headers) -> ResponseHead:
        return ResponseHead(self.status, headers, self.length, self.has_body)
