"""Values in requests of HTTP, each in the form that its place needs.

    GET /users/VALUE?name=VALUE     percent-encoded; no step to a parent folder
    X-Reason: VALUE                 as it is, on one line; beside other text also without , ; " and \\

    {"name": VALUE, "a": "b VALUE"} a text in JSON, or a part of one
    name=VALUE                      percent-encoded

So no value can add a part of a path, a parameter, a header, a field or a request. Anywhere else only letters, digits
and _ are allowed. The script is read as `.http` files are: requests are separated by lines that begin with ###.
"""

from __future__ import annotations

import json
import re
from typing import Final
from urllib.parse import quote, quote_plus, unquote

from postern.runbooks.scanners import Scanner, ScannerState
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault

_COMMENT: Final = re.compile(r"[ \t]*(?:#|//)")
_TARGET: Final = re.compile(r"\s*(?:[A-Z][A-Z-]{0,31}[ \t]+)?(/\S*)")
_HEADER: Final = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:(.*)", re.DOTALL)
_JSON: Final = re.compile(r"(?:application|text)/(?:[a-z0-9.-]+\+)?json|application/(?:(?:x-)?ndjson|jsonl)")
_FORM: Final = "application/x-www-form-urlencoded"
_SEPARATOR: Final = "###"
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
_DELIMITERS: Final = re.compile(r"[;,\"\\]")
_STEP: Final = re.compile(r"(?:^|[/\\])\.{1,2}(?:$|[/\\;?#])")
_SIGN: Final = re.compile(r'["\\]')
_WORD: Final = re.compile(r"[A-Za-z0-9_]*")
_DECODINGS: Final = 3
_LONGEST_LINE: Final = 100_000  # of a request line or a header

_MORE_FOLLOWS: Final = 'a value with , ; " or \\ must be the whole value of its header, and text follows it'
_NO_PLACE: Final = (
    "a value cannot be written here: use it within a path, which begins with a slash of the runbook's own, in a query, "
    "in the value of a header, or in a body of JSON or a form"
)


class HttpRequests(Scanner):
    """Scanner of requests, which writes values. `is_shown`: the script is only displayed, and nothing is rejected."""

    def __init__(self, budget: StepBudget, *, is_shown: bool = False) -> None:
        super().__init__(budget)
        self._is_shown = is_shown
        self._is_whole = True
        self._begin_request()

    def _begin_request(self) -> None:
        self._reads = self._read_request_line
        self._line = ""  # as far as it was read; of a body its first characters
        self._types: list[str] = []
        self._must_end_header = False  # the last value can be mistaken for parts of a header that has more
        self._pending: list[str] = []  # of a body: what can still be a line that separates requests
        self._first = ""  # the first character of the body
        self._is_in_text = False  # of JSON

    @property
    def state(self) -> ScannerState:
        return ScannerState.CODE

    def prefix(self, quote: str) -> str:
        return ""

    def is_whole(self) -> bool:
        self._settle_body()
        return self._is_whole and not self._is_in_text and not self.is_lost

    def _read(self, text: str, at: int) -> None:
        for number, piece in enumerate(text.split("\n")):
            if number:
                self._count()
                self._reads("\n")
            if piece:
                self._reads(piece)

    # Lines

    def _read_request_line(self, text: str) -> None:
        if text != "\n":
            self._add_to_line(text)
            return
        line, self._line = self._line, ""
        if line.strip() and not _COMMENT.match(line):
            self._reads = self._read_header

    def _read_header(self, text: str) -> None:
        if text != "\n":
            if self._must_end_header and text.strip():
                raise Fault(_MORE_FOLLOWS)
            self._add_to_line(text)
            return
        line, self._line, self._must_end_header = self._line, "", False
        header = _HEADER.fullmatch(line)
        if line.startswith(_SEPARATOR):
            self._begin_request()
        elif not line.strip():
            self._reads = self._read_body
        elif header is not None and not _COMMENT.match(line) and header[1].lower() == "content-type":
            self._types.append(header[2].partition(";")[0].strip().lower())

    def _add_to_line(self, text: str) -> None:
        self._line += text
        if len(self._line) > _LONGEST_LINE:
            raise Fault(f"a line before the body is longer than {_LONGEST_LINE:,} characters")

    def _read_body(self, text: str) -> None:
        if text != "\n":
            self._line = (self._line + text)[: len(_SEPARATOR)]
            self._pending.append(text)
        elif self._line == _SEPARATOR:
            self._is_whole = self._is_whole and not self._is_in_text
            self._begin_request()
        else:
            self._pending.append(text)
            self._settle_body()
            self._line = ""

    def _settle_body(self) -> None:
        """Read what is certainly a part of the body."""
        text = "".join(self._pending)
        self._pending.clear()
        self._first = self._first or text.lstrip()[:1]
        at = 0
        if self.skips and text:
            self.skips, at = False, 1
        while (sign := _SIGN.search(text, at)) is not None:
            at = sign.end()
            if sign[0] == '"':
                self._is_in_text = not self._is_in_text
            elif self._is_in_text:
                self.skips = at == len(text)
                at += 1

    # Values

    def write_value(self, value: str) -> str:
        """Return the value as it is written here, and read that. Raises Fault if it cannot be written."""
        text = self._encode(value)
        must_end = self._must_end_header
        self._must_end_header = False
        self.read(text)
        self._must_end_header = must_end
        return text

    def _encode(self, value: str) -> str:
        if self._reads == self._read_body:
            return self._encode_in_body(value)
        if _COMMENT.match(self._line):
            return quote(value, safe="")
        if self._reads == self._read_header:
            return self._encode_in_header(value)
        target = _TARGET.fullmatch(self._line)
        if target is None:
            raise Fault(_NO_PLACE)
        if "?" not in target[1]:
            _check_segment(target[1].rpartition("/")[2], value)
        return quote(value, safe="*" if self._is_shown else "")

    def _encode_in_header(self, value: str) -> str:
        header = _HEADER.fullmatch(self._line)
        if header is None:
            raise Fault(_NO_PLACE)
        if _CONTROLS.search(value):
            raise Fault("a header has one line, and no control characters")
        if self._must_end_header and value.strip():
            raise Fault(_MORE_FOLLOWS)
        has_delimiters = _DELIMITERS.search(value) is not None
        self._must_end_header = self._must_end_header or has_delimiters
        if has_delimiters and (header[2].strip() or header[1].lower() == "cookie"):
            raise Fault('a value with , ; " or \\ must be the whole value of its header, and text is before it')
        return value

    def _encode_in_body(self, value: str) -> str:
        self._settle_body()
        if self._types == [_FORM]:
            return quote_plus(value, safe="*" if self._is_shown else "")
        if self._is_json():
            if self.skips:
                raise Fault("this follows a backslash, which would change the value's first character")
            text = json.dumps(value).replace("#", "\\u0023")  # never the beginning of a line that separates requests
            return text[1:-1] if self._is_in_text else text
        if not self._is_shown and not _WORD.fullmatch(value):
            raise Fault(
                "this is in a body that is neither JSON nor a form, where only letters, digits and _ are allowed: "
                "write a header such as Content-Type: application/json"
            )
        return value

    def _is_json(self) -> bool:
        if not self._types:
            return self._first in ("{", "[")
        return len(self._types) == 1 and _JSON.fullmatch(self._types[0]) is not None


def _check_segment(before: str, value: str) -> None:
    """Check that a value is not read as a step in the path, also by servers that decode it more often than once."""
    if _CONTROLS.search(value):
        raise Fault("a path has no control characters")
    text = value
    for _ in range(_DECODINGS if value else 0):
        if _STEP.search(before + text):
            raise Fault("a path would have a step to a different folder: . and .. are not allowed between slashes")
        text = unquote(text)
