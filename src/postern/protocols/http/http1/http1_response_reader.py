"""Reads the responses of one connection to a target.

What a response's body is depends on its request. So `begin` names the request before the response is read. A response
that was not asked for ends the connection: its bytes would pass as the answer to the next request.
"""

from __future__ import annotations

import re
from typing import Final

from postern.protocols.http.http1.http1_events import DEFAULT_LIMITS, BodyData, BodyEnd, Http1Limits
from postern.protocols.http.http1.http1_fields import ControlFields, read_fields
from postern.protocols.http.http1.http1_reader import (
    DONE,
    ENDED,
    HEAD,
    RAW,
    UNTIL_CLOSE,
    Http1Event,
    Http1Reader,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.http_syntax import UPGRADE, HttpSyntaxError

Http1ResponseEvent = ResponseHead | BodyData | BodyEnd

# Some servers leave out the reason and the space before it.
_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_BAD_GATEWAY: Final = 502
_INTERIM: Final = 256  # bytes that an interim response counts besides its fields
_WITHOUT_BODY: Final = (204, 304)


class Http1ResponseReader(Http1Reader):
    """Reader of responses. The attributes describe the current response:

    - `keep_alive`: the connection can be used for another request. It is read after the response's end.
    - `may_continue`: the target answered 100: it wants the body.
    - `upgraded_to`: the protocol that 101 names, in lower case.
    """

    def __init__(self, limits: Http1Limits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self.may_continue = False
        self.upgraded_to = ""
        self._state = DONE
        self._method = ""
        self._upgrades = False
        self._status = 0  # of a head whose fields are missing
        self._interim = 0  # bytes of interim responses

    def begin(self, method: str, *, upgrade: bool = False) -> None:
        """Expect the response to a request that was sent, perhaps one that asks for an upgrade. Raises HttpSyntaxError
        if the target sent bytes ahead of it, ValueError if the last response has not ended."""
        if not self.is_done or not self.keep_alive:
            raise ValueError("the last response has not ended, or was the last one of its connection")
        if self.waiting:
            raise self._fail(HttpSyntaxError(_BAD_GATEWAY, "the target sent a response before the request"))
        self._method = method
        self._upgrades = upgrade
        self.may_continue = False
        self._interim = 0
        self._state = HEAD

    def next_event(self) -> Http1ResponseEvent | None:
        """Return the next event of the response, or None if bytes are missing or the response has ended. Raises
        HttpSyntaxError."""
        event = self._step()
        assert not isinstance(event, RequestHead)
        return event

    def end_of_stream(self) -> None:
        """Note that the target closed the connection: a body that ends so has ended. Raises HttpSyntaxError if the
        response is not complete."""
        self.keep_alive = False
        if self._state == UNTIL_CLOSE:
            self._begin_body(self.waiting)
        elif self._state < ENDED:
            raise self._fail(HttpSyntaxError(_BAD_GATEWAY, "the target closed the connection within its response"))

    def _fail(self, error: HttpSyntaxError) -> HttpSyntaxError:
        return super()._fail(HttpSyntaxError(_BAD_GATEWAY, f"the target's response is not valid: {error.message}"))

    def _end(self, end: BodyEnd) -> BodyEnd:
        if self.waiting:  # more than the response; nothing that follows can be trusted
            self.keep_alive = False
        return super()._end(end)

    def _next_head(self) -> Http1Event | None:
        while True:
            if not self._status:
                self._status = self._read_line()
                if not self._status:
                    return None
            begin = self._at
            block = self._take_block(self.limits.head - self._interim, "heads")
            if block is None:
                return None
            fields = ControlFields(read_fields(block, self.limits.fields))
            status, self._status = self._status, 0
            if status >= 200:
                return self._head(status, fields)
            if status == 101:
                return self._switch(fields)
            self._interim += self._at - begin + _INTERIM
            if self._interim > self.limits.head:
                raise HttpSyntaxError(400, f"its interim responses exceed {self.limits.head} bytes")
            self.may_continue = self.may_continue or status == 100

    def _read_line(self) -> int:
        line = self._take_line(self.limits.first_line, 400, "the response")
        if line is None:
            return 0
        match = _LINE.fullmatch(line)
        if match is None:
            raise HttpSyntaxError(400, "its status line is not one of HTTP/1.1 or HTTP/1.0")
        self.minor_version = int(match.group(1))
        return int(match.group(2))

    def _head(self, status: int, fields: ControlFields) -> ResponseHead:
        fields.check_framing(self.minor_version)
        self.keep_alive = fields.keeps_alive(self.minor_version)
        length = fields.content_length
        if self._method == "HEAD" or status in _WITHOUT_BODY:
            return self._head_alone(status, fields, length)
        if fields.is_chunked or length is not None:
            self._begin_body(length)
        else:
            self.keep_alive = False
            self._state = UNTIL_CLOSE
        return ResponseHead(status, fields.headers, length, True)

    def _head_alone(self, status: int, fields: ControlFields, length: int | None) -> ResponseHead:
        if status == 204:
            if fields.is_chunked or length:  # a body that must not be there can still come
                self.keep_alive = False
            length = None
        elif status == 304 and fields.is_chunked:
            self.keep_alive = False
        self._state = ENDED
        return ResponseHead(status, fields.headers, length, False)

    def _switch(self, fields: ControlFields) -> ResponseHead:
        protocols = fields.upgrades
        if not self._upgrades:
            raise HttpSyntaxError(400, "it changes to another protocol, which the request did not ask for")
        if len(protocols) != 1 or UPGRADE.fullmatch(protocols[0]) is None:
            raise HttpSyntaxError(400, "it changes to another protocol, but does not name one")
        self.upgraded_to = protocols[0].decode("latin-1")
        self.keep_alive = False
        self._state = RAW
        return ResponseHead(101, fields.headers, None, False)
