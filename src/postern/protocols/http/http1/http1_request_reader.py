"""Reads the requests of one client connection.

A request's target becomes its origin form, its `Host` the authority. Both must be unambiguous: an absolute URL with
another host than `Host` names is refused, and so is a request without `Host`, also in HTTP/1.0.
"""

from __future__ import annotations

import re
from typing import Final

from postern.protocols.http.http1.http1_events import DEFAULT_LIMITS, BodyData, BodyEnd, Http1Limits
from postern.protocols.http.http1.http1_fields import ControlFields, read_fields
from postern.protocols.http.http1.http1_reader import HEAD, Http1Event, Http1Reader
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.http_syntax import (
    UPGRADE,
    HttpSyntaxError,
    check_authority,
    check_method,
    check_target,
    split_absolute,
)

Http1RequestEvent = RequestHead | BodyData | BodyEnd

_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0")
# Other versions of HTTP, and encryption, by other means than those of the listener.
_REFUSED_UPGRADES: Final = (b"h2c", b"http/", b"tls/")


class Http1RequestReader(Http1Reader):
    """Reader of requests. The attributes describe the request whose head was returned last:

    - `keep_alive`: the connection stays open after its response, as far as the client is concerned.
    - `minor_version`: 1, or 0 for HTTP/1.0.
    - `expects_continue`: the client waits for 100 before it sends the body.
    """

    def __init__(self, limits: Http1Limits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self.expects_continue = False
        self._line: tuple[str, str] | None = None  # method and target of a head whose fields are missing
        self._skips_empty_line = True

    def next_event(self) -> Http1RequestEvent | None:
        """Return the next event of the current request, or None if bytes are missing or the request has ended. Raises
        HttpSyntaxError."""
        event = self._step()
        assert not isinstance(event, ResponseHead)
        return event

    def next_request(self) -> None:
        """Read the next request. The current one must have ended, and `keep_alive` must be true. Raises ValueError."""
        if not self.is_done or not self.keep_alive:
            raise ValueError("the request has not ended, or is the last one of its connection")
        self.expects_continue = False
        self._skips_empty_line = True
        self._state = HEAD

    def _next_head(self) -> Http1Event | None:
        if self._line is None:
            self._line = self._read_line()
            if self._line is None:
                return None
        block = self._take_block(self.limits.head, "head")
        if block is None:
            return None
        method, target = self._line
        self._line = None
        return self._head(method, target, ControlFields(read_fields(block, self.limits.fields)))

    def _read_line(self) -> tuple[str, str] | None:
        if self._skips_empty_line and not self._skip_empty_line():
            return None
        line = self._take_line(self.limits.first_line, 414, "the request")
        if line is None:
            return None
        match = _LINE.fullmatch(line)
        if match is None:
            raise HttpSyntaxError(400, "the request line is not a method, a target of visible ASCII, and a version")
        if line[-8:] not in _VERSIONS:
            raise HttpSyntaxError(505, "the request's version is neither HTTP/1.1 nor HTTP/1.0")
        self.minor_version = line[-1] - 48
        method = match.group(1).decode()
        check_method(method)
        return method, match.group(2).decode()

    def _skip_empty_line(self) -> bool:
        """Skip one CR LF, which some clients send after a body. Return whether that is decided."""
        begin = self._buffer[self._at : self._at + 2]
        if begin == b"" or begin == b"\r":
            return False
        if begin == b"\r\n":
            self._at += 2
        self._skips_empty_line = False
        return True

    def _head(self, method: str, target: str, fields: ControlFields) -> RequestHead:
        fields.check_framing(self.minor_version)
        absolute, target = split_absolute(method, target)
        target = check_target(method, target)
        authority = _authority(fields.hosts, absolute)
        length = None if fields.is_chunked else fields.content_length or 0
        if method == "HEAD" and length != 0:
            raise HttpSyntaxError(400, "a HEAD request has a body")
        self.expects_continue = self._expectation(fields.expectations, length)
        self.keep_alive = fields.keeps_alive(self.minor_version)
        upgrade = _upgrade(fields.upgrades) if self.minor_version == 1 else ""
        self._begin_body(length)
        return RequestHead(method, target, authority, fields.headers, length, upgrade)

    def _expectation(self, expectations: list[bytes], length: int | None) -> bool:
        if not expectations or self.minor_version == 0:
            return False
        if len(expectations) > 1 or expectations[0].lower() != b"100-continue":
            raise HttpSyntaxError(417, "the request expects something else than 100-continue")
        return length != 0


def _authority(hosts: list[bytes], absolute: str) -> str:
    if len(hosts) != 1:
        raise HttpSyntaxError(400, f"the request has {'several Host fields' if hosts else 'no Host field'}")
    authority = check_authority(hosts[0].decode("latin-1"))
    if absolute and absolute != authority:
        raise HttpSyntaxError(400, "the request's URL and its Host field name different hosts")
    return authority


def _upgrade(protocols: list[bytes]) -> str:
    """Return the protocol to change to, or nothing: of several, WebSocket."""
    if b"websocket" in protocols:
        return "websocket"
    if len(protocols) != 1 or protocols[0].startswith(_REFUSED_UPGRADES):
        return ""
    if UPGRADE.fullmatch(protocols[0]) is None:
        raise HttpSyntaxError(400, "the Upgrade field is not the name of a protocol")
    return protocols[0].decode("latin-1")
