"""Relaxed Extended JSON v2 of BSON documents, written from their bytes.

It is one line with the separators `", "` and `": "`. Repeated names and the order of fields stay as they are. The
format is MongoDB's specification "Extended JSON", which `bson.json_util` writes as well; that library cannot be used
here, because it writes dictionaries.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring
from typing import Final

from bson.decimal128 import Decimal128
from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.mongodb.wire.bson_documents import (
    ARRAY,
    BINARY,
    BOOLEAN,
    CODE,
    CODE_WITH_SCOPE,
    DATE,
    DB_POINTER,
    DECIMAL128,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    MAX_DEPTH,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT_ID,
    REGEX,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    BsonField,
    double_at,
    int32_at,
    int64_at,
    name_end,
    scope_of,
    value_end,
)

NO_LIMIT: Final = 1 << 62
# Characters that are recorded of a text that is too long.
BEGINNING: Final = 64 * 1024

_INFINITY: Final = float("inf")
_MANY: Final = 4096  # pieces of text that are joined: each is an object
_MAX_NAMES: Final = 1024  # names whose JSON is stored while a text is written
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MILLIS: Final = 253402300799999  # the end of the year 9999
_quote: Final = encode_basestring

# Fields of a command that its text leaves out or moves to its end.
_LEFT_OUT: Final = frozenset({b"lsid", b"$clusterTime", b"$db"})


class DocumentSequence:
    """A section of kind 1 of a message: documents from `pos` to `end` that are an array in the command."""

    __slots__ = ("end", "name", "pos")

    def __init__(self, name: bytes, pos: i64, end: i64) -> None:
        self.name = name
        self.pos: i64 = pos
        self.end: i64 = end


class _TextIsFull(Exception):
    """The text has more characters than allowed."""


class JsonWriter:
    """Writes documents as JSON. `errors` is what happens to strings that are not UTF-8: "strict" raises
    UnicodeDecodeError."""

    def __init__(self, errors: str = "strict", max_text: int = NO_LIMIT) -> None:
        self._parts: list[str] = []
        self._joined: list[str] = []
        self._errors = errors
        self._left: i64 = max_text
        self._names: dict[bytes, str] = {}

    @property
    def text(self) -> str:
        """Return what was written."""
        return "".join(self._joined) + "".join(self._parts)

    def write(self, text: str) -> None:
        parts = self._parts
        parts.append(text)
        self._left -= len(text)
        if self._left < 0:
            raise _TextIsFull
        if len(parts) >= _MANY:
            self._joined.append("".join(parts))
            parts.clear()

    def _text(self, data: bytes, pos: i64, end: i64) -> str:
        return _quote(data[pos:end].decode("utf-8", self._errors))

    def write_name(self, name: bytes) -> None:
        """Write a name and the colon after it."""
        text = self._names.get(name)
        if text is None:
            text = _quote(name.decode("utf-8", self._errors)) + ": "
            if len(self._names) < _MAX_NAMES:
                self._names[name] = text
        self.write(text)

    def write_document(self, data: bytes, pos: i64, end: i64, is_array: bool = False, depth: i64 = 1) -> None:
        """Write the document from `pos` to `end`. Raises ProtocolViolation if its bytes are not a document."""
        if depth > MAX_DEPTH:
            raise ProtocolViolation(f"a BSON document has more than {MAX_DEPTH} levels")
        if value_end(data, DOCUMENT, pos, end) != end:
            raise ProtocolViolation("the length of a BSON document is not valid")
        self.write("[" if is_array else "{")
        last: i64 = end - 1
        pos += 4
        first = True
        while pos < last:
            if not first:
                self.write(", ")
            first = False
            kind: i64 = data[pos]
            stop = name_end(data, pos + 1, last)
            if not is_array:
                self.write_name(data[pos + 1 : stop])
            pos = self.write_value(data, kind, stop + 1, last, depth)
        self.write("]" if is_array else "}")

    def write_value(self, data: bytes, kind: i64, pos: i64, last: i64, depth: i64 = 1) -> i64:
        """Write the value of that type at `pos`. Return where it ends."""
        end = value_end(data, kind, pos, last)
        if kind == STRING:
            self.write(self._text(data, pos + 4, end - 1))
        elif kind == INT32:
            self.write(str(int(int32_at(data, pos))))
        elif kind == DOCUMENT:
            self.write_document(data, pos, end, False, depth + 1)
        elif kind == ARRAY:
            self.write_document(data, pos, end, True, depth + 1)
        elif kind == INT64:
            self.write(str(int(int64_at(data, pos))))
        elif kind == DOUBLE:
            self.write(_double(double_at(data, pos)))
        elif kind == BOOLEAN:
            self.write("true" if data[pos] else "false")
        elif kind == NULL:
            self.write("null")
        elif kind == OBJECT_ID:
            self.write('{"$oid": "' + data[pos:end].hex() + '"}')
        elif kind == DATE:
            self.write(_date(int(int64_at(data, pos))))
        elif kind == BINARY:
            self.write(_binary(data, pos, end))
        else:
            self._write_rare(data, kind, pos, end, depth)
        return end

    def _write_rare(self, data: bytes, kind: i64, pos: i64, end: i64, depth: i64) -> None:
        if kind == DECIMAL128:
            self.write('{"$numberDecimal": "' + str(Decimal128.from_bid(data[pos:end])) + '"}')
        elif kind == TIMESTAMP:
            increment = int(int32_at(data, pos)) & 0xFFFFFFFF
            seconds = int(int32_at(data, pos + 4)) & 0xFFFFFFFF
            self.write(f'{{"$timestamp": {{"t": {seconds}, "i": {increment}}}}}')
        elif kind == REGEX:
            stop = name_end(data, pos, end)
            self.write('{"$regularExpression": {"pattern": ' + self._text(data, pos, stop))
            self.write(', "options": ' + self._text(data, stop + 1, end - 1) + "}}")
        elif kind == CODE:
            self.write('{"$code": ' + self._text(data, pos + 4, end - 1) + "}")
        elif kind == SYMBOL:
            self.write('{"$symbol": ' + self._text(data, pos + 4, end - 1) + "}")
        elif kind == CODE_WITH_SCOPE:
            scope = scope_of(data, pos, end)
            self.write('{"$code": ' + self._text(data, pos + 8, scope - 1) + ', "$scope": ')
            self.write_document(data, scope, end, False, depth + 1)
            self.write("}")
        elif kind == DB_POINTER:
            self.write('{"$dbPointer": {"$ref": ' + self._text(data, pos + 4, end - 13))
            self.write(', "$id": {"$oid": "' + data[end - 12 : end].hex() + '"}}}')
        elif kind == UNDEFINED:
            self.write('{"$undefined": true}')
        elif kind == MIN_KEY:
            self.write('{"$minKey": 1}')
        else:
            assert kind == MAX_KEY
            self.write('{"$maxKey": 1}')


def _double(number: float) -> str:
    if number != number:
        return '{"$numberDouble": "NaN"}'
    if number == _INFINITY:
        return '{"$numberDouble": "Infinity"}'
    if number == -_INFINITY:
        return '{"$numberDouble": "-Infinity"}'
    return repr(number)


def _date(millis: int) -> str:
    """Dates from 1970 to 9999 are texts, all others the number of milliseconds."""
    if millis < 0 or millis > _LAST_MILLIS:
        return f'{{"$date": {{"$numberLong": "{millis}"}}}}'
    moment = _EPOCH + timedelta(milliseconds=millis)
    fraction = millis % 1000
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f'{{"$date": "{text}.{fraction:03d}Z"}}' if fraction else f'{{"$date": "{text}Z"}}'


def _binary(data: bytes, pos: i64, end: i64) -> str:
    subtype: i64 = data[pos + 4]
    start: i64 = pos + 9 if subtype == 2 else pos + 5
    text = b64encode(data[start:end]).decode("ascii")
    return f'{{"$binary": {{"base64": "{text}", "subType": "{int(subtype):02x}"}}}}'


def write_json(document: bytes, errors: str = "strict") -> str:
    """Return the JSON of a whole document. Raises ProtocolViolation if its bytes are not one, and UnicodeDecodeError
    for strings that are not UTF-8 (see `errors` of `bytes.decode`)."""
    writer = JsonWriter(errors)
    writer.write_document(document, 0, len(document))
    return writer.text


def write_command(
    data: bytes,
    fields: list[BsonField],
    sequences: list[DocumentSequence],
    originating: str = "",
    *,
    errors: str = "strict",
    max_text: int = NO_LIMIT,
) -> tuple[str, bool]:
    """Return the text of a command, and whether it was cut because it has more than `max_text` characters.

    `fields` are those of its body. The documents of `sequences` are arrays after them, then comes `originatingCommand`,
    the text of the command that opened the cursor of a getMore, and at last `$db`.
    """
    writer = JsonWriter(errors, max_text)
    try:
        _write_command(writer, data, fields, sequences, originating)
    except _TextIsFull:
        return writer.text[:BEGINNING], True
    return writer.text, False


def _write_command(
    writer: JsonWriter,
    data: bytes,
    fields: list[BsonField],
    sequences: list[DocumentSequence],
    originating: str,
) -> None:
    separator = "{"
    database: BsonField | None = None
    is_get_more = bool(fields) and fields[0].name == b"getMore"
    for field in fields:
        if field.name in _LEFT_OUT:
            if field.name == b"$db":
                database = field
            continue
        writer.write(separator)
        separator = ", "
        writer.write_name(field.name)
        if is_get_more and field is fields[0] and field.kind == INT64:
            # As a bare number it would lose digits in readers that use doubles.
            writer.write(f'{{"$numberLong": "{int(int64_at(data, field.value))}"}}')
        else:
            writer.write_value(data, field.kind, field.value, field.end)
    for sequence in sequences:
        writer.write(separator)
        separator = ", "
        writer.write_name(sequence.name)
        _write_sequence(writer, data, sequence)
    if originating:
        writer.write(separator + '"originatingCommand": ' + originating)
        separator = ", "
    if database is not None:
        writer.write(separator)
        separator = ", "
        writer.write_name(b"$db")
        writer.write_value(data, database.kind, database.value, database.end)
    writer.write("{}" if separator == "{" else "}")


def _write_sequence(writer: JsonWriter, data: bytes, sequence: DocumentSequence) -> None:
    separator = "["
    pos = sequence.pos
    while pos < sequence.end:
        writer.write(separator)
        separator = ", "
        pos = writer.write_value(data, DOCUMENT, pos, sequence.end)
    writer.write("[]" if separator == "[" else "]")
