"""A recorded session as an HTTP archive (HAR 1.2), written in pieces and in constant memory.

Entries are in the order in which their exchanges ended. What the recording does not have is missing here too: the
values of secret headers, the rest of long bodies, and the host of the target, instead of which the connection is named.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from postern.errors import ProtocolViolation
from postern.interception.events import ClientOutput, Completed, Event, Note, Operation, Refusal
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import Headers, ResponseHead
from postern.protocols.http.recorded.recorded_responses import RecordedBody, status_line

_LONGEST: Final = 1 << 20  # bytes of a body
_MOST: Final = 500  # entries that have not ended
_MOST_MESSAGES: Final = 10_000
_MESSAGE: Final = "WEBSOCKET "


class _Entry:
    """One exchange, as far as it was read."""

    def __init__(self, micros: int, text: str) -> None:
        self.micros = micros
        self.text = text
        self.head: ResponseHead | None = None
        self.body: list[bytes] = []
        self.size = 0
        self.first = micros  # when the response began
        self.last = micros
        self.comment = ""
        self.is_refused = False
        self.messages: list[dict[str, Any]] = []

    def take(self, data: bytes) -> None:
        if self.size < _LONGEST:
            self.body.append(data[: _LONGEST - self.size])
        self.size += len(data)


def write_archive(records: Iterable[tuple[int, object]], start: datetime, connection: str) -> Iterator[bytes]:
    """Yield the archive. Records are (microseconds since the start, event)."""
    creator = {"name": "Postern", "version": "1"}
    begin = json.dumps({"version": "1.2", "creator": creator, "pages": []})
    yield b'{"log": ' + begin[:-1].encode() + b', "entries": ['
    is_first = True
    for entry in _Entries().read(records):
        yield (b"\n" if is_first else b",\n") + json.dumps(_write(entry, start, connection)).encode()
        is_first = False
    yield b"\n]}}\n"


class _Entries:
    def __init__(self) -> None:
        self._open: dict[int, _Entry] = {}

    def read(self, records: Iterable[tuple[int, object]]) -> Iterator[_Entry]:
        for micros, event in records:
            if isinstance(event, Operation):
                yield from self._begin(micros, event)
            elif isinstance(event, ClientOutput):
                yield from self._answer(micros, event.data)
            elif isinstance(event, Completed | Refusal | Note):
                yield from self._note(micros, event)
        yield from self._open.values()

    def _begin(self, micros: int, event: Operation) -> Iterator[_Entry]:
        entry = self._open.get(event.exchange)
        if entry is not None and event.text.startswith(_MESSAGE):
            if len(entry.messages) < _MOST_MESSAGES:
                content = event.text.partition("\n\n")[2]
                entry.messages.append({"type": "send", "time": micros / 1e6, "opcode": 1, "data": content})
            return
        while len(self._open) >= _MOST:
            yield self._open.pop(next(iter(self._open)))
        self._open[event.exchange] = _Entry(micros, event.text)

    def _answer(self, micros: int, data: bytes) -> Iterator[_Entry]:
        try:
            frames = f.HttpFrameReader().feed(data)  # a record has whole frames
            for frame in frames:
                entry = self._open.get(frame.exchange)
                if entry is None:
                    continue
                entry.last = micros
                if frame.kind == f.RESPONSE:
                    entry.head, entry.first = f.read_response(frame.payload), micros
                elif frame.kind == f.RESPONSE_DATA:
                    entry.take(frame.payload)
                elif frame.kind == f.FAILED:
                    entry.comment = f.read_failure(frame.payload).message
                elif entry.is_refused:
                    yield self._open.pop(frame.exchange)
        except ProtocolViolation:
            return

    def _note(self, micros: int, event: Event) -> Iterator[_Entry]:
        if isinstance(event, Refusal) and event.exchange in self._open:
            entry = self._open[event.exchange]
            entry.is_refused = True
            entry.comment = f"refused by {event.rule}: {event.message}"
        elif isinstance(event, Completed) and event.exchange in self._open:
            entry = self._open.pop(event.exchange)
            entry.last = max(entry.last, micros)
            entry.comment = entry.comment or (event.error if entry.head is None else "")
            yield entry


def _write(entry: _Entry, start: datetime, connection: str) -> dict[str, Any]:
    wait = (entry.first - entry.micros) / 1000
    receive = (entry.last - entry.first) / 1000
    written: dict[str, Any] = {
        "startedDateTime": (start + timedelta(microseconds=entry.micros)).isoformat(),
        "time": wait + receive,
        "request": _write_request(entry.text, connection),
        "response": _write_response(entry),
        "cache": {},
        "timings": {"send": 0, "wait": wait, "receive": receive},
    }
    if entry.comment:
        written["comment"] = entry.comment
    if entry.messages:
        written["_webSocketMessages"] = entry.messages
    return written


def _write_request(text: str, connection: str) -> dict[str, Any]:
    head, _, body = text.partition("\n\n")
    lines = head.split("\n")
    method, _, target = lines[0].partition(" ")
    headers = [tuple(line.split(": ", 1)) for line in lines[1:] if ": " in line]
    query = parse_qsl(target.partition("?")[2], keep_blank_values=True)
    request: dict[str, Any] = {
        "method": method,
        "url": f"https://{quote(connection)}{target}",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "queryString": [{"name": name, "value": value} for name, value in query],
        "headersSize": -1,
        "bodySize": len(body.encode("utf-8", "replace")),
    }
    if body:
        kind = next((value for name, value in headers if name.lower() == "content-type"), "")
        request["postData"] = {"mimeType": kind, "text": body}
    return request


def _write_response(entry: _Entry) -> dict[str, Any]:
    head = entry.head
    headers: Headers = () if head is None else head.headers
    texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    return {
        "status": 0 if head is None else head.status,
        "statusText": "" if head is None else status_line(head).partition(" ")[2],
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in texts],
        "content": _write_content(entry),
        "redirectURL": next((value for name, value in texts if name == "location"), ""),
        "headersSize": -1,
        "bodySize": entry.size,
    }


def _write_content(entry: _Entry) -> dict[str, Any]:
    body = RecordedBody(entry.head)
    data = b"".join(entry.body)
    text = body.feed(data)
    content: dict[str, Any] = {"size": entry.size, "mimeType": body.type.type}
    if body.is_text:
        content["text"] = text.decode("utf-8", "replace")
    else:
        content |= {"text": base64.b64encode(data).decode(), "encoding": "base64"}
    if entry.size > _LONGEST:
        content["comment"] = f"only the first {_LONGEST} bytes"
    return content
