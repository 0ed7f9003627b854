"""Scripts of HTTP requests, as `.http` files have them.

    # a comment
    GET /users?name=Al
    Accept: application/json

    ###
    POST /users
    Content-Type: application/json

    {"name": "Al"}

A line that begins with `###` separates requests. Only the path is written: requests go to the connection's target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from postern.errors import Invalid

_SEPARATOR: Final = re.compile(r"^###.*$", re.MULTILINE)
_COMMENT: Final = re.compile(r"[ \t]*(?:#|//)")
_REQUEST: Final = re.compile(r"(?:([A-Z][A-Z-]{0,31})[ \t]+)?(\S+)(?:[ \t]+HTTP/[0-9.]+)?[ \t]*")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
MOST_REQUESTS: Final = 1000


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a script."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class WrittenRequest:
    """The places of a request's parts in a script. Headers are places of names and of values."""

    start: int
    end: int
    method: str
    target: TextSpan
    headers: tuple[tuple[str, TextSpan], ...]
    body: TextSpan


class HttpFileError(Invalid):
    """The script is no sequence of requests. `offset` is the place."""

    def __init__(self, message: str, offset: int, line: int) -> None:
        super().__init__(f"script: line {line}: {message}", field="script")
        self.offset = offset
        self.reason = message


def read_requests(text: str) -> list[WrittenRequest]:
    """Return the requests in order. Raises HttpFileError."""
    requests: list[WrittenRequest] = []
    for start, end in _parts(text):
        request = _Part(text, start, end).read()
        if request is not None:
            requests.append(request)
        if len(requests) > MOST_REQUESTS:
            raise HttpFileError(f"it has more than {MOST_REQUESTS} requests", start, text.count("\n", 0, start) + 1)
    return requests


def _parts(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SEPARATOR.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


class _Part:
    """One request's part of a script."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text = text
        self._at = start
        self._end = end

    def read(self) -> WrittenRequest | None:
        line = self._skip_to_request()
        if line is None:
            return None
        match = _REQUEST.fullmatch(line.of(self._text))
        if match is None:
            raise self._error("this is not a request; write METHOD /path, such as GET /users", line.start)
        target = TextSpan(line.start + match.start(2), line.start + match.end(2))
        written = target.of(self._text)
        if not written.startswith("/") and written != "*":
            raise self._error("write the path alone, beginning with /; the connection chooses the host", target.start)
        headers = self._headers()
        body = self._body()
        end = body.end if body.end > body.start else max([line.end, *(value.end for _, value in headers)])
        return WrittenRequest(line.start, end, match.group(1) or "GET", target, headers, body)

    def _skip_to_request(self) -> TextSpan | None:
        while self._at < self._end:
            line = self._line()
            content = line.of(self._text)
            if content.strip() and not _COMMENT.match(content):
                indent = len(content) - len(content.lstrip())
                return TextSpan(line.start + indent, line.start + len(content.rstrip()))
        return None

    def _headers(self) -> tuple[tuple[str, TextSpan], ...]:
        headers: list[tuple[str, TextSpan]] = []
        while self._at < self._end:
            line = self._line()
            content = line.of(self._text)
            if not content.strip():
                break
            if _COMMENT.match(content):
                continue
            name, colon, value = content.partition(":")
            if not colon or not _NAME.fullmatch(name.strip()):
                raise self._error("this is not a header; write Name: value, and a blank line before a body", line.start)
            start = line.start + len(name) + 1 + len(value) - len(value.lstrip())
            headers.append((name.strip().lower(), TextSpan(start, max(start, line.start + len(content.rstrip())))))
        return tuple(headers)

    def _body(self) -> TextSpan:
        content = self._text[self._at : self._end]
        return TextSpan(self._at, self._at + len(content.rstrip()))

    def _line(self) -> TextSpan:
        start = self._at
        end = self._text.find("\n", start, self._end)
        self._at = self._end if end < 0 else end + 1
        return TextSpan(start, self._end if end < 0 else end)

    def _error(self, message: str, offset: int) -> HttpFileError:
        return HttpFileError(message, offset, self._text.count("\n", 0, offset) + 1)
