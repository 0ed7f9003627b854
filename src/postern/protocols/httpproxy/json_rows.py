"""JSON as rows: the columns are the paths of its values, for rules about columns.

A path has the names of the fields around a value, without places in arrays: `user.email`. Names that are data, such as
numbers and identifiers, are `#`. Values of one path are strings, numbers, or others, and each kind is a column of its
own. Keys that are no names are searched too: they are the column `(key)` of their object.

Only tokens that rules change are encoded again; all other bytes stay.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from postern.interception.events import Change, Column, KindChange, Rows, Scalar, TextKind
from postern.protocols.http.content.json_names import DATA_NAME, KEYS, is_data
from postern.protocols.httpproxy.body_events import Finish
from postern.protocols.httpproxy.encoded_texts import decode_value, replace_value

MAX_COLUMNS: Final = 5_000
MAX_DEPTH: Final = 500
_MAX_PATHS: Final = 2 * MAX_COLUMNS  # of fields with and without values
_MAX_CHARACTERS: Final = 4 << 20  # … of all of them
_BLANK: Final = re.compile(rb"[ \t\r\n\x1e\xef\xbb\xbf]*+")
_NUMBER: Final = re.compile(rb"-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+")
_PLAIN: Final = re.compile(rb"[ !#-\[\]-~]*+")  # what a string has without escapes
_MAX_BIGINT: Final = 1 << 63

# Bytes that mean something in JSON
_QUOTE: Final = 0x22
_COMMA: Final = 0x2C
_MINUS: Final = 0x2D
_ZERO: Final = 0x30
_NINE: Final = 0x39
_COLON: Final = 0x3A
_BACKSLASH: Final = 0x5C
_OPEN_ARRAY: Final = 0x5B
_CLOSE_ARRAY: Final = 0x5D
_OPEN_OBJECT: Final = 0x7B
_CLOSE_OBJECT: Final = 0x7D
_SPACE: Final = 0x20
_TAB: Final = 0x09
_LINE_FEED: Final = 0x0A
_RETURN: Final = 0x0D
_RECORD: Final = 0x1E  # before each document of a sequence
_NEAR: Final = 48  # bytes of a string that are looked at one by one


class JsonError(ValueError):
    """The content is no JSON, or has too many different fields."""


class JsonColumn:
    """The values of one path and kind in a part of a document: `places` has the start and end of each in turn."""

    __slots__ = ("column", "part", "places")

    def __init__(self, path: str, kind: TextKind) -> None:
        self.column = Column(path, kind)
        self.part: i64 = -1  # of the body, to which the places belong
        self.places: list[int] = []


class JsonPath:
    """A path and its columns. `keys` are the columns of the keys that are data, `is_data` says that this path's are."""

    __slots__ = ("children", "is_data", "keys", "numbers", "others", "path", "texts")

    def __init__(self, path: str, *, is_data: bool) -> None:
        self.path = path
        self.is_data = is_data
        self.children: dict[bytes, JsonPath] = {}
        self.texts = JsonColumn(path, TextKind.TEXT)
        self.numbers = JsonColumn(path, TextKind.NUMBER)
        self.others = JsonColumn(path, TextKind.OPAQUE)
        self.keys = JsonColumn(_join(path, KEYS), TextKind.TEXT)


class JsonWalker:
    """Reader of one body. It remembers where it is between two parts of a document, which are cut after commas."""

    def __init__(self) -> None:
        self._root = JsonPath("", is_data=False)
        self._stack: list[JsonPath] = []  # the path of the values in each open bracket
        self._objects: list[bool] = []  # … and whether it is an object
        self._paths: dict[str, JsonPath] = {}
        self._characters = 0
        self._known = 0  # children of all paths
        self._part: i64 = 0
        self._found: list[JsonColumn] = []
        self._columns: tuple[Column, ...] = ()
        # Places in the last part of what becomes a row: documents, and elements of an array that is one.
        self.document_starts: list[int] = []
        self.element_starts: list[int] = []

    def walk(self, data: bytes) -> JsonTokens:
        """Return the values of the next part. Raises JsonError."""
        self._begin_part()
        stack, objects = self._stack, self._objects
        blank = _BLANK.match(data)
        pos: i64 = 0 if blank is None else blank.end()
        end: i64 = len(data)
        path = stack[-1] if stack else self._root
        is_object = objects[-1] if objects else False
        while True:
            pos = _skip_between(data, pos, end)
            if pos >= end:
                break
            sign: i64 = data[pos]
            if sign == _CLOSE_OBJECT or sign == _CLOSE_ARRAY:  # noqa: SIM109
                if not stack or objects[-1] is not (sign == _CLOSE_OBJECT):
                    raise _invalid()
                stack.pop()
                objects.pop()
                path = stack[-1] if stack else self._root
                is_object = objects[-1] if objects else False
                pos += 1
                continue
            child = path
            if is_object:
                if sign != _QUOTE:
                    raise _invalid()
                start: i64 = pos
                pos = _string_end(data, pos, end)
                child = self._find_child(path, data, start, pos)
                pos = _skip_blanks(data, pos, end)
                if pos >= end or data[pos] != _COLON:
                    raise _invalid()
                pos = _skip_blanks(data, pos + 1, end)
                if pos >= end:
                    raise _invalid()
                sign = data[pos]
            elif not stack:
                self.document_starts.append(int(pos))
            elif len(stack) == 1:
                self.element_starts.append(int(pos))
            start = pos
            if sign == _QUOTE:
                pos = _string_end(data, pos, end)
                self._add(child.texts, start, pos)
            elif sign == _OPEN_OBJECT or sign == _OPEN_ARRAY:  # noqa: SIM109
                if len(stack) >= MAX_DEPTH:
                    raise JsonError("it is nested too deeply")
                path = child
                is_object = sign == _OPEN_OBJECT
                stack.append(path)
                objects.append(is_object)
                pos += 1
            elif sign == _MINUS or _ZERO <= sign <= _NINE:
                pos = _number_end(data, pos, end)
                self._add(child.numbers, start, pos)
            else:
                pos = _word_end(data, pos)
                self._add(child.others, start, pos)
        return self._tokens(data)

    def _begin_part(self) -> None:
        self._part += 1
        self._found = []
        self.document_starts = []
        self.element_starts = []
        if len(self._paths) > MAX_COLUMNS:  # only those that are open are needed
            self._paths = {each.path: each for each in self._stack}
            self._characters = self._known = 0
            for each in [self._root, *self._stack]:
                each.children = {}

    def _tokens(self, data: bytes) -> JsonTokens:
        columns = tuple([each.column for each in self._found])
        if columns != self._columns:  # decisions about columns are found by this object
            self._columns = columns
        return JsonTokens(data, self._columns, [each.places for each in self._found])

    def _add(self, column: JsonColumn, start: i64, end: i64) -> None:
        if column.part != self._part:
            if len(self._found) >= MAX_COLUMNS:
                raise _too_many()
            column.part = self._part
            column.places = []
            self._found.append(column)
        places = column.places
        places.append(int(start))
        places.append(int(end))

    def _find_child(self, path: JsonPath, data: bytes, start: i64, stop: i64) -> JsonPath:
        """Return the path of a field, and note its key if that can be data."""
        key = data[start:stop]
        child = path.children.get(key)
        if child is None:
            name = _unescape(key).decode("utf-8", "replace")
            has_data = is_data(name)
            child = self._path_of(_join(path.path, DATA_NAME if has_data else name), is_data=has_data)
            if self._known < MAX_COLUMNS:
                self._known += 1
                path.children[key] = child
        if child.is_data:
            self._add(path.keys, start, stop)
        return child

    def _path_of(self, path: str, *, is_data: bool) -> JsonPath:
        known = self._paths.get(path)
        if known is None:
            self._characters += len(path)
            if len(self._paths) >= _MAX_PATHS or self._characters > _MAX_CHARACTERS:
                raise _too_many()
            known = self._paths[path] = JsonPath(path, is_data=is_data)
        return known


def _skip_between(data: bytes, pos: i64, end: i64) -> i64:
    """Return the place of the next value, key or bracket."""
    while pos < end:
        sign: i64 = data[pos]
        if sign > _COMMA or not (sign == _SPACE or sign == _COMMA or _is_rare(sign)):  # noqa: SIM109
            break
        pos += 1
    return pos


def _is_rare(sign: i64) -> bool:
    return sign in (_LINE_FEED, _RETURN, _TAB, _RECORD)


def _skip_blanks(data: bytes, pos: i64, end: i64) -> i64:
    while pos < end:
        sign: i64 = data[pos]
        if sign > _SPACE or not (sign == _SPACE or sign == _LINE_FEED or sign == _RETURN or sign == _TAB):  # noqa: SIM109
            break
        pos += 1
    return pos


def _string_end(data: bytes, start: i64, end: i64) -> i64:
    """Return the place after the string that starts here. Raises JsonError if it does not end."""
    pos: i64 = start + 1
    near: i64 = pos + _NEAR
    if near > end:
        near = end
    while pos < near:
        sign: i64 = data[pos]
        if sign == _QUOTE:
            return pos + 1
        pos += 2 if sign == _BACKSLASH else 1
    while True:
        pos = data.find(b'"', pos)
        if pos < 0:
            raise _invalid()
        before: i64 = pos - 1
        while data[before] == _BACKSLASH:
            before -= 1
        if (pos - before) & 1:  # an even number of backslashes
            return pos + 1
        pos += 1


def _number_end(data: bytes, start: i64, end: i64) -> i64:
    """Return the place after the number that starts here. Raises JsonError."""
    pos: i64 = start + 1
    while pos < end and _ZERO <= data[pos] <= _NINE:
        pos += 1
    if data[start] != _MINUS and (pos >= end or data[pos] == _COMMA or data[pos] == _CLOSE_OBJECT):
        return pos  # most are whole
    match = _NUMBER.match(data, start)
    if match is None:
        raise _invalid()
    return match.end()


def _word_end(data: bytes, start: i64) -> i64:
    """Return the place after the constant that starts here. Raises JsonError."""
    word = data[start : start + 4]
    if word == b"true" or word == b"null":
        return start + 4
    if data[start : start + 5] == b"false":
        return start + 5
    raise _invalid()


def _invalid() -> JsonError:
    return JsonError("it is not valid JSON")


def _too_many() -> JsonError:
    return JsonError("it has too many different fields to be inspected")


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


class JsonTokens:
    """Values of a part of a document, by column: the start and end of each in turn."""

    def __init__(self, data: bytes, columns: tuple[Column, ...], places: list[list[int]]) -> None:
        self.data = data
        self.columns = columns
        self.places = places


class JsonRows(Rows):
    """A part of a document as rows. `frames_of` encodes it."""

    def __init__(self, exchange: int, tokens: JsonTokens, starts: list[int], frames_of: Finish) -> None:
        self.exchange = exchange
        self.columns = tokens.columns
        self.count = max(len(starts), 1)
        self._starts = starts  # of rows
        self._last = -1  # the column that was changed last …
        self._last_changed: list[int] = []  # … and the places of what changed in it
        self._data = tokens.data
        self._places = tokens.places
        self._changed: dict[int, bytes] = {}  # by its start, what replaces a token
        self._ends: dict[int, int] = {}  # … and where that ends
        self._frames_of = frames_of

    def texts(self, column: int) -> list[bytes]:
        kind = self.columns[column].kind
        if kind is TextKind.OPAQUE:
            return []
        tokens = self._tokens(column)
        if kind is TextKind.NUMBER:
            return [token for token in tokens if token != b"null"]
        return [_read(token) for token in tokens if token != b"null"]

    def replace(self, column: int, texts: list[bytes]) -> None:
        kind = self.columns[column].kind
        if kind is TextKind.OPAQUE:
            return
        self._begin_change(column)
        places = self._places[column]
        at = taken = 0
        for token in self._tokens(column):
            if token != b"null":
                text = texts[taken]
                taken += 1
                if kind is TextKind.NUMBER:
                    if text != token:
                        self._put(places, at, _number(text))
                elif text != _read(token):
                    self._put(places, at, _escape(replace_value(_unescape(token), text)))
            at += 2

    def change(self, column: int, by: Change) -> tuple[int, int]:
        self._begin_change(column)
        if self.columns[column].kind is TextKind.TEXT and isinstance(by, KindChange):
            return self._change_texts(column, by.of(Scalar.TEXT))
        places = self._places[column]
        count = size = at = 0
        for token in self._tokens(column):
            new = _change(token, by)
            if self._is_key(column) and not new.startswith(b'"'):
                new = b'""'
            if new != token:
                self._put(places, at, new)
            if token != b"null":
                count += 1
                size += len(token)
            at += 2
        return count, size

    def _change_texts(self, column: int, by: Callable[[bytes], bytes | None]) -> tuple[int, int]:
        """Change strings, as `change` does."""
        places = self._places[column]
        null = b'""' if self._is_key(column) else b"null"
        count = size = at = 0
        for token in self._tokens(column):
            if token != b"null":
                text = _read(token)
                new = by(text)
                if new is None:
                    self._put(places, at, null)
                elif new != text:
                    self._put(places, at, _escape(new))
                elif b"\\" in token:  # its spelling would tell that it is not a replacement
                    self._put(places, at, _escape(_unescape(token)))
                count += 1
                size += len(token)
            at += 2
        return count, size

    def encode(self) -> bytes:
        if not self._changed:
            return self._frames_of(self._data)
        data = self._data
        parts: list[bytes] = []
        at = 0
        for start in sorted(self._changed):
            parts.append(data[at:start])
            parts.append(self._changed[start])
            at = self._ends[start]
        parts.append(data[at:])
        return self._frames_of(b"".join(parts))

    def _tokens(self, column: int) -> list[bytes]:
        """Return the tokens of a column as they are now."""
        data = self._data
        places = self._places[column]
        changed = self._changed
        tokens: list[bytes] = []
        pos: i64 = 0
        end: i64 = len(places)
        while pos < end:
            start = places[pos]
            new = changed.get(start) if changed else None
            tokens.append(data[start : places[pos + 1]] if new is None else new)
            pos += 2
        return tokens

    def _put(self, places: list[int], at: int, token: bytes) -> None:
        start = places[at]
        self._changed[start] = token
        self._ends[start] = places[at + 1]
        self._last_changed.append(start)

    def _begin_change(self, column: int) -> None:
        self._last = column
        self._last_changed = []

    def find_changed_rows(self, column: int) -> bytes:
        if column != self._last:
            return super().find_changed_rows(column)
        return rows_at(self._last_changed, self._starts)

    def recorded_names(self, columns: tuple[int, ...]) -> tuple[str, ...]:
        """Return the paths of columns, by which tables of results find the fields that show them."""
        return tuple(dict.fromkeys([self.columns[column].name for column in columns]))

    def _is_key(self, column: int) -> bool:
        return self.columns[column].name.endswith(KEYS)


def _change(token: bytes, by: Change) -> bytes:
    """Return the replacement of a token, as a token."""
    if token == b"null":
        return token
    if token.startswith(b'"'):
        text = _read(token)
        new = by(Scalar.TEXT, text)
        return b"null" if new is None else _escape(_unescape(token) if new == text else new)
    if token in (b"true", b"false"):
        new = by(Scalar.BOOLEAN, token[:1])
        return b"null" if new is None else b"true" if new == b"t" else b"false"
    new = by(_scalar_of(token), token)
    return b"null" if new is None else _number(new)


def _scalar_of(number: bytes) -> Scalar:
    if not number.lstrip(b"-").isdigit():
        return Scalar.DECIMAL if b"e" not in number.lower() else Scalar.DOUBLE
    return Scalar.BIGINT if len(number) < 19 and abs(int(number)) < _MAX_BIGINT else Scalar.DECIMAL


def _number(text: bytes) -> bytes:
    """Return a number as JSON writes it, without leading zeros; null if it is none."""
    try:
        return str(int(text)).encode() if text.lstrip(b"-").isdigit() else json.dumps(float(text)).encode()
    except (ValueError, OverflowError):
        return b"null"


def _unescape(token: bytes) -> bytes:
    if b"\\" not in token:
        return token[1:-1]
    try:
        return str(json.loads(token.decode("utf-8", "surrogateescape"), strict=False)).encode("utf-8", "surrogatepass")
    except (ValueError, UnicodeError):
        return token[1:-1]


def _read(token: bytes) -> bytes:
    """Return what a string means, also if it has references of HTML or escapes of URLs."""
    text = _unescape(token)
    return decode_value(text) if b"&" in text or b"%" in text else text


def _escape(text: bytes) -> bytes:
    if _PLAIN.fullmatch(text) is not None:
        return b'"' + text + b'"'
    return json.dumps(text.decode("utf-8", "replace")).encode()


MakeRows = Callable[[int, bytes, Finish], JsonRows]


def rows_at(places: list[int], starts: list[int]) -> bytes:
    """Return the rows in which these places are: a bit for each, lowest first. `starts` are those of all rows."""
    rows = bytearray((max(len(starts), 1) + 7) // 8)
    for place in places:
        row = max(bisect_right(starts, place) - 1, 0)
        rows[row >> 3] |= 1 << (row & 7)
    return bytes(rows)


def find_changed_cells(old: JsonTokens, new: JsonTokens, starts: list[int]) -> list[tuple[bytes, tuple[int, ...]]]:
    """Return the rows that differ, each with the columns in which they do; nothing if the documents have other fields.

    `starts` are the places of rows in the new document.
    """
    if [column.name for column in old.columns] != [column.name for column in new.columns]:
        return []
    columns_of: dict[bytes, list[int]] = {}
    for number in range(len(new.columns)):
        before, after = old.places[number], new.places[number]
        if len(before) != len(after):
            return []
        changed = [
            after[at]
            for at in range(0, len(after), 2)
            if old.data[before[at] : before[at + 1]] != new.data[after[at] : after[at + 1]]
        ]
        if changed:
            columns_of.setdefault(rows_at(changed, starts), []).append(number)
    return [(rows, tuple(columns)) for rows, columns in columns_of.items()]


def rows_maker(*, are_lines: bool = False) -> MakeRows:
    """Return a function that makes rows of the next part of one body. `are_lines`: each document is a row."""
    walker = JsonWalker()

    def make(exchange: int, data: bytes, frames_of: Finish) -> JsonRows:
        tokens = walker.walk(data)
        starts = walker.document_starts if are_lines else walker.element_starts
        return JsonRows(exchange, tokens, starts, frames_of)

    return make
