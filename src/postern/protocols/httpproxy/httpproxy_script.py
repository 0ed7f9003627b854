"""The client that `exec` uses to send requests. Without I/O.

Requests are sent one after another. The first response with a status of 400 or more ends the script. Redirects are not
followed: a response says where it leads.

Parameters become part of a request in the form that their place needs: percent-encoded in the path, the query and
forms, JSON in a JSON body, and as they are in headers, where they cannot contain control characters. So no value can
add a parameter, a header or a request.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus

from postern.domain.sessions.script_parameters import BoundScript, Placeholder
from postern.errors import Invalid
from postern.protocols.gateway_queries import ScriptRequest
from postern.protocols.http import http_frames as f
from postern.protocols.http.content.content_types import BodyKind, parse_content_type
from postern.protocols.http.http_heads import HOP_BY_HOP, Headers, RequestHead
from postern.protocols.httpproxy.http_file import TextSpan, WrittenRequest, read_requests
from postern.protocols.httpproxy.request_texts import BodyText, request_text

_Encode = Callable[[Placeholder], str]
_FORBIDDEN: Final = HOP_BY_HOP | {b"host", b"content-length"}
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
_TARGET: Final = re.compile(r"[!-~]+")
_FAILS: Final = 400


class HttpproxyScript:
    """One script. A script that cannot be read, or has no request, is Invalid at `start`."""

    def __init__(self, script: BoundScript | str) -> None:
        self._script = BoundScript(script) if isinstance(script, str) else script
        self._frames = f.HttpFrameReader()
        self._waiting: deque[ScriptRequest] = deque()
        self._status = 0
        self._read: list[ScriptRequest] | None = None
        self.failed = False
        self.finished = False

    @property
    def leaves(self) -> bool:
        """True once it is finished: the protocol has no message for the end."""
        return self.finished

    def use_database(self, name: str | None) -> None:
        """Read the script: there is no database. Raises Invalid."""
        self.requests()

    def requests(self) -> list[ScriptRequest]:
        """Return the requests with their places. Raises Invalid."""
        if self._read is None:
            written = read_requests(self._script.text)
            self._read = [self._encode(number, request) for number, request in enumerate(written, 1)]
        return self._read

    def exit_code(self) -> int:
        """Return 0 if every request was answered with a status below 400, else 1."""
        return int(self.failed or not self.finished)

    def start(self) -> bytes:
        """Return the first request. Raises Invalid."""
        self._waiting.extend(self.requests())
        if not self._waiting:
            raise Invalid("script: it has no request; write one such as GET /users", field="script")
        return self._waiting.popleft().data

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next."""
        sent = b""
        for frame in self._frames.feed(data):
            if self.finished:
                break
            if frame.kind == f.RESPONSE:
                self._status = f.read_response(frame.payload).status
            elif frame.kind == f.FAILED:
                self.failed = self.finished = True
            elif frame.kind == f.RESPONSE_END:
                self.failed = self._status >= _FAILS
                self.finished = self.failed or not self._waiting
                if not self.finished:
                    sent += self._waiting.popleft().data
        return sent

    def _encode(self, number: int, request: WrittenRequest) -> ScriptRequest:
        target = self._fill(request.target, _encode_target)
        if not _TARGET.fullmatch(target):
            raise Invalid("script: a path is written in ASCII without blanks; encode others as %20", field="script")
        headers = self._headers(request)
        kind = _kind_of(headers, request.body.of(self._script.text))
        text = self._fill(request.body, _ENCODINGS.get(kind, _reject))
        body = text.encode("utf-8", "replace")
        if body and b"content-type" not in dict(headers):
            media = b"application/json" if kind is BodyKind.JSON else b"text/plain; charset=utf-8"
            headers = (*headers, (b"content-type", media))
        head = RequestHead(request.method, target, "", headers, len(body))
        frames = f.request_frame(number, head) + f.data_frames(f.REQUEST_DATA, number, body)
        shown = request_text(head, BodyText(text, kind))
        return ScriptRequest(request.start, request.end, frames + f.end_frame(f.REQUEST_END, number), shown)

    def _headers(self, request: WrittenRequest) -> Headers:
        headers: list[tuple[bytes, bytes]] = []
        for name, place in request.headers:
            key = name.encode("ascii")
            if key in _FORBIDDEN:
                raise Invalid(f"script: the header {name!r} is set by the gateway; remove it", field="script")
            value = self._fill(place, _encode_header)
            if _CONTROLS.search(value.replace("\t", " ")):
                raise Invalid(f"script: the header {name!r} has a control character", field="script")
            headers.append((key, value.encode("utf-8", "replace")))
        return tuple(headers)

    def _fill(self, place: TextSpan, encode: _Encode) -> str:
        """Return a part of the script with the values of its placeholders."""
        text = self._script.text
        parts: list[str] = []
        at = place.start
        for each in self._script.placeholders:
            if place.start <= each.start and each.end <= place.end:
                parts += (text[at : each.start], encode(each))
                at = each.end
        return "".join((*parts, text[at : place.end]))


def _encode_target(place: Placeholder) -> str:
    """Encode a value for a path or a query. A segment of dots would be read as a step in the path."""
    text = place.value or ""
    if text.strip(".") == "" and text:
        raise Invalid(f"parameters: the value of {place.name!r} consists of dots", field="parameters")
    return quote(text, safe="")


def _encode_header(place: Placeholder) -> str:
    if _CONTROLS.search(place.value or ""):
        raise Invalid(f"parameters: the value of {place.name!r} has a control character", field="parameters")
    return place.value or ""


def _reject(place: Placeholder) -> str:
    raise Invalid(
        f"parameters: {place.name!r} is in a body that is neither JSON nor a form, where values cannot be encoded",
        field="parameters",
    )


def _encode_json(place: Placeholder) -> str:
    return json.dumps(place.typed)


def _encode_form(place: Placeholder) -> str:
    return quote_plus(place.value or "")


_ENCODINGS: Final = {BodyKind.JSON: _encode_json, BodyKind.JSON_LINES: _encode_json, BodyKind.FORM: _encode_form}


def _kind_of(headers: Headers, body: str) -> BodyKind:
    """Return the kind of a body by its type, or by its beginning if it has none."""
    declared = dict(headers).get(b"content-type")
    if declared is not None:
        return parse_content_type(declared.decode("latin-1")).kind
    return BodyKind.JSON if body.lstrip()[:1] in ("{", "[") else BodyKind.TEXT
