"""Header fields of HTTP/1.1: a block of lines as names and values, and those that describe the connection or the body.

A block is read strictly: lines end with CR LF, names are tokens with nothing before the colon, values have no control
characters, and no line continues another (obs-fold).
"""

from __future__ import annotations

import re
from typing import Final

from postern.protocols.http.http_heads import HOP_BY_HOP, Headers
from postern.protocols.http.http_syntax import TOKEN, VALUE_BYTES, HttpSyntaxError, allowed_trailers

# Fields that the codec reads itself. They are not among a head's headers.
_CONTROL: Final = HOP_BY_HOP | {b"content-length", b"host", b"expect"}
# Some readers (llhttp) apply these when they come as trailers.
_REFUSED_TRAILERS: Final = frozenset(
    {b"content-length", b"transfer-encoding", b"connection", b"proxy-connection", b"upgrade"}
)
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")

# Names in lower case by how they are usually written, which saves a check of most names.
_COMMON: Final = (
    "accept accept-encoding accept-language accept-ranges access-control-allow-origin age authorization cache-control "
    "connection content-disposition content-encoding content-language content-length content-type cookie date etag "
    "expect expires host if-modified-since if-none-match keep-alive last-modified link location origin pragma range "
    "referer sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest sec-fetch-mode sec-fetch-site "
    "sec-fetch-user sec-websocket-accept sec-websocket-key sec-websocket-version server set-cookie "
    "strict-transport-security te trailer transfer-encoding upgrade upgrade-insecure-requests user-agent vary via "
    "www-authenticate x-amz-date x-amz-target x-amzn-requestid x-content-type-options x-forwarded-for x-frame-options "
    "x-requested-with"
)
_LOWER_CASE: Final = {
    written: name for name in _COMMON.encode().split() for written in (name, name.title(), name.capitalize())
}


def read_fields(block: bytes, max_fields: int) -> list[tuple[bytes, bytes]]:
    """Return names in lower case and values of lines without the last CR LF. Raises HttpSyntaxError."""
    if not block:
        return []
    lines = block.split(b"\r\n")
    if len(lines) > max_fields:
        raise HttpSyntaxError(431, f"the head has more than {max_fields} header fields")
    # CR and LF are not allowed in values; none are left but those that end the lines.
    rest = block.translate(None, VALUE_BYTES)
    if len(rest) != 2 * (len(lines) - 1):
        raise HttpSyntaxError(400, "a header field contains a control character")
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        lower = _LOWER_CASE.get(name)
        if lower is None or not colon:
            lower = _checked_name(name, colon)
        fields.append((lower, value.strip(b" \t")))
    return fields


def read_trailers(block: bytes, max_fields: int) -> Headers:
    """Return the trailers that may be forwarded. Raises HttpSyntaxError."""
    if not block:
        return ()
    fields = read_fields(block, max_fields)
    if any(name in _REFUSED_TRAILERS for name, _ in fields):
        raise HttpSyntaxError(400, "a trailer describes the connection or where the body ends, which only the head can")
    return allowed_trailers(tuple(fields))


def _checked_name(name: bytes, colon: bytes) -> bytes:
    if name[:1] in (b" ", b"\t"):
        raise HttpSyntaxError(400, "a header field continues on another line, which HTTP no longer allows")
    if not colon:
        raise HttpSyntaxError(400, "a line of the head has no colon")
    if name[-1:] in (b" ", b"\t"):
        raise HttpSyntaxError(400, "a header field has a space before its colon")
    if TOKEN.fullmatch(name) is None:
        raise HttpSyntaxError(400, "a header field has an invalid name")
    return name.lower()


class ControlFields:
    """The fields of a head that describe the connection and the body, separated from its headers."""

    __slots__ = ("_codings", "_lengths", "_options", "_upgrades", "expectations", "headers", "hosts")

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self.hosts: list[bytes] = []
        self.expectations: list[bytes] = []
        self._codings: list[bytes] = []
        self._lengths: list[bytes] = []
        self._options: set[bytes] = set()
        self._upgrades: list[bytes] = []
        headers: list[tuple[bytes, bytes]] = []
        for field in fields:
            if field[0] in _CONTROL:
                self._add(field[0], field[1])
            else:
                headers.append(field)
        named = self._options - _CONTROL - {b"close"}
        if named:  # they are of this connection only
            headers = [field for field in headers if field[0] not in named]
        self.headers: Headers = tuple(headers)

    def _add(self, name: bytes, value: bytes) -> None:
        if name == b"connection":
            self._options.update(_tokens(value))
        elif name == b"host":
            self.hosts.append(value)
        elif name == b"content-length":
            self._lengths.append(value)
        elif name == b"transfer-encoding":
            self._codings.append(value)
        elif name == b"upgrade":
            self._upgrades += _tokens(value)
        elif name == b"expect":
            self.expectations.append(value)

    def keeps_alive(self, minor_version: int) -> bool:
        """Return whether the connection stays open after this message."""
        return b"close" not in self._options and (minor_version == 1 or b"keep-alive" in self._options)

    @property
    def upgrades(self) -> list[bytes]:
        """Return the protocols that the connection can change to, in lower case."""
        return self._upgrades if b"upgrade" in self._options else []

    @property
    def is_chunked(self) -> bool:
        return bool(self._codings)

    @property
    def content_length(self) -> int | None:
        """Return the length of the body if it is given; `check_framing` must have been called."""
        return int(self._lengths[0]) if self._lengths else None

    def check_framing(self, minor_version: int) -> None:
        """Raises HttpSyntaxError if two readers could disagree about where the body ends."""
        if self._codings:
            self._check_chunked(minor_version)
        if len(self._lengths) > 1:
            raise HttpSyntaxError(400, "the head has several Content-Length fields")
        if self._lengths and _LENGTH.fullmatch(self._lengths[0]) is None:
            raise HttpSyntaxError(400, "the Content-Length is not a number of up to 18 digits")

    def _check_chunked(self, minor_version: int) -> None:
        if self._lengths:
            raise HttpSyntaxError(400, "the head has both Content-Length and Transfer-Encoding")
        if minor_version == 0:
            raise HttpSyntaxError(400, "the head has Transfer-Encoding, which HTTP/1.0 does not have")
        if len(self._codings) > 1:
            raise HttpSyntaxError(400, "the head has several Transfer-Encoding fields")
        if self._codings[0].lower() != b"chunked":
            raise HttpSyntaxError(501, "the Transfer-Encoding is not 'chunked'; no other is supported")


def _tokens(value: bytes) -> list[bytes]:
    """Split a list of tokens, in lower case."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]
