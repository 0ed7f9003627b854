"""One reply of the target: what it says of its request, the data and errors in it, and how it is encoded again.

A reply is cut into an envelope, which passes, and two kinds of parts. Data becomes `DocumentRows`. Errors, which quote
values, become `MongodbErrors`. A reply can have both; they are judged one after the other, and the client is sent the
whole message after the last one.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Channel, Completed, Output, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.bson_documents import (
    ARRAY,
    DOCUMENT,
    NULL,
    STRING,
    BsonField,
    count_elements,
    element,
    encode_document,
    find_field,
    integer_at,
    name_end,
    number_at,
    read_fields,
    string_at,
    string_value,
    value_end,
)
from postern.protocols.mongodb.wire.bson_json import JsonWriter
from postern.protocols.mongodb.wire.mongodb_commands import (
    CURSOR_ENVELOPE,
    ENVELOPE,
    HARMLESS,
    NOT_IN_ROWS,
    WRITES,
    is_error_field,
)
from postern.protocols.mongodb.wire.mongodb_response_queue import MongodbPendingReply
from postern.protocols.mongodb.wire.mongodb_rows import DataSegment, DocumentPaths, DocumentRows, Patches

_MESSAGE: Final = "message"
_DETAIL: Final = "detail"
_HIDDEN: Final = b"****"
_PLAIN_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z_0-9]{0,63}")
_BATCHES: Final = frozenset({b"firstBatch", b"nextBatch"})
_FIND_AND_MODIFY: Final = frozenset({b"findAndModify", b"findandmodify"})
# Fields of errors that quote nothing.
_QUOTES_NOTHING: Final = frozenset({*ENVELOPE, b"index", b"idx"})
# Returns the results of its operations, and their errors, as documents of a cursor.
_BULK_WRITE: Final = b"bulkWrite"
_ERROR_TEXTS: Final = frozenset({b"errmsg", b"keyValue", b"errInfo"})
_MORE_RESULTS: Final = '{"bulkWrite": '  # the beginning of the text that a getMore of that cursor has


class ReplyFacts:
    """What a reply says of its request.

    `rows` is the number of documents that it returns or has changed, -1 if it says none. `cursor` is the cursor that
    stays open, or 0, and `namespace` its collection; `has_cursor`: the reply has one.
    """

    __slots__ = ("code", "cursor", "error", "has_cursor", "namespace", "rows", "succeeded")

    def __init__(self) -> None:
        self.succeeded = True
        self.code = ""
        self.error = ""
        self.rows: i64 = -1
        self.cursor = 0
        self.has_cursor = False
        self.namespace = b""


class ErrorPart:
    """A text of an error in a reply: an error message, or a document that quotes values, as JSON."""

    __slots__ = ("chain", "field", "is_changed", "label", "text")

    def __init__(self, label: str, field: BsonField, chain: list[int], text: bytes) -> None:
        self.label = label
        self.field = field
        self.chain = chain
        self.text = text
        self.is_changed = False


class MongodbErrors(Output):
    """The errors of a reply. Their labels are message (`errmsg`) and detail (`keyValue`, `errInfo`, …). A changed
    detail loses all its values."""

    def __init__(self, exchange: int, parts: list[ErrorPart]) -> None:
        self.exchange = exchange
        self.channel = Channel.ERROR
        self.parts = parts

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple([part.label for part in self.parts])

    def texts(self) -> list[bytes]:
        return [part.text for part in self.parts]

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != len(self.parts):
            raise ValueError(f"{len(texts)} texts given for errors that hold {len(self.parts)}")
        for part, text in zip(self.parts, texts, strict=True):
            if text != part.text:
                part.text = text
                part.is_changed = True

    def add_patches(self, data: bytes, patches: Patches) -> None:
        """Add what changes in the message."""
        for part in self.parts:
            if not part.is_changed:
                continue
            field = part.field
            if field.kind == STRING:
                patches.add(field.value, field.end, string_value(part.text), part.chain)
            elif field.kind == DOCUMENT:
                patches.add(field.value, field.end, _hide_values(data, field), part.chain)
            elif field.kind == ARRAY:
                patches.add(field.value, field.end, encode_document(), part.chain)
            else:
                patches.add(field.start, field.start + 1, NULL.to_bytes(1, "little"), part.chain)
                patches.add(field.value, field.end, b"", part.chain)


def _hide_values(data: bytes, field: BsonField) -> bytes:
    """Return a document with the same fields, whose values are hidden."""
    fields = read_fields(data, field.value, field.end)
    hidden = string_value(_HIDDEN)
    return encode_document(
        *[element(STRING, inner.name, hidden) for inner in fields if _PLAIN_NAME.fullmatch(inner.name) is not None]
    )


class MongodbReply:
    """A whole reply, and the events that are judged before the client is sent it."""

    def __init__(self, data: bytes, slot: MongodbPendingReply) -> None:
        self.data = data
        self.slot = slot
        self.message = m.parse_reply(data)
        self.fields = read_fields(data, self.message.pos, self.message.end)
        self.facts = read_facts(data, self.fields)
        self.errors: MongodbErrors | None = None
        self.rows: DocumentRows | None = None
        self._pending: list[Rows | Output] = []  # events that are not judged yet, the next one last
        self._refusal: bytes = b""
        self._refused_by = ""

    def inspect(self, paths: DocumentPaths, *, wants_rows: bool, wants_output: bool) -> bool:
        """Find the events to judge. Return whether there are some. Raises ProtocolViolation and TooManyFields."""
        if wants_rows and self.facts.succeeded:
            segments = _Places(self.data, self.slot, paths).read(self.fields, int(self.message.pos))
            if segments:
                self.rows = DocumentRows(self.slot.exchange, self.data, segments, paths, self.slot.opened)
                self._pending.append(self.rows)
        if wants_output:
            parts = self._read_errors()
            if parts:
                self.errors = MongodbErrors(self.slot.exchange, parts)
                self._pending.append(self.errors)
        return bool(self._pending)

    def next_event(self) -> Rows | Output | None:
        """Return the next event to judge."""
        return self._pending.pop() if self._pending else None

    def render(self) -> bytes:
        """Return the message for the client after the last event was judged, and nothing before."""
        if self._pending:
            return b""
        if self._refusal:
            return self._refusal
        patches = Patches()
        if self.errors is not None:
            self.errors.add_patches(self.data, patches)
        if self.rows is not None:
            self.rows.add_patches(patches)
        if patches.is_empty:
            return self.data
        return m.without_checksum(patches.apply(self.data))

    def refuse(self, refusal: Refuse) -> bytes:
        """Return the error that the client is sent instead."""
        self._pending.clear()
        self._refused_by = refusal.message
        self._refusal = m.encode_reply(
            self.slot.request_id, m.error_document(refusal.message, m.UNAUTHORIZED, refusal.hint)
        )
        return self._refusal

    @property
    def is_refused(self) -> bool:
        return bool(self._refusal)

    def make_completed_event(self) -> Completed:
        """Return the completion event, with the current texts of errors."""
        facts = self.facts
        if self._refusal:
            return Completed(self.slot.exchange, self.slot.tag, None, str(m.UNAUTHORIZED[0]), self._refused_by)
        if facts.code and self.errors is not None:
            messages = [part.text for part in self.errors.parts if part.label == _MESSAGE]
            facts.error = messages[0].decode("utf-8", "replace") if messages else ""
        return make_completed_event(self.slot, facts)

    # Errors

    def _read_errors(self) -> list[ErrorPart]:
        parts: list[ErrorPart] = []
        chain = [0, int(self.message.pos)]
        if not self.facts.succeeded:
            self._add_error(self.fields, chain, parts)
            return parts
        for field in self.fields:
            if is_error_field(field.name):
                self._add_errors(field, chain, parts)
            elif field.name == b"cursor" and field.kind == DOCUMENT and _has_results(self.slot):
                self._add_failed_results(field, [*chain, int(field.value)], parts)
        return parts

    def _add_failed_results(self, cursor: BsonField, chain: list[int], parts: list[ErrorPart]) -> None:
        for batch in read_fields(self.data, cursor.value, cursor.end):
            if batch.name not in _BATCHES or batch.kind != ARRAY:
                continue
            for result in read_fields(self.data, batch.value, batch.end):
                if result.kind == DOCUMENT and _is_failed(self.data, result.value, result.end):
                    inner = read_fields(self.data, result.value, result.end)
                    self._add_error(inner, [*chain, int(batch.value), int(result.value)], parts)

    def _add_errors(self, field: BsonField, chain: list[int], parts: list[ErrorPart]) -> None:
        """Add the texts of a document that describes an error, or of an array of them."""
        if field.kind == DOCUMENT:
            inner = read_fields(self.data, field.value, field.end)
            self._add_error(inner, [*chain, int(field.value)], parts)
        elif field.kind == ARRAY:
            for item in read_fields(self.data, field.value, field.end):
                self._add_errors(item, [*chain, int(field.value)], parts)
        else:
            self._add_detail(field, chain, parts)

    def _add_error(self, fields: list[BsonField], chain: list[int], parts: list[ErrorPart]) -> None:
        for field in fields:
            if field.name == b"errmsg" and field.kind == STRING:
                text = string_at(self.data, field)
                assert text is not None
                parts.append(ErrorPart(_MESSAGE, field, chain, text))
            elif is_error_field(field.name):
                self._add_errors(field, chain, parts)
            elif field.name not in _QUOTES_NOTHING:
                self._add_detail(field, chain, parts)

    def _add_detail(self, field: BsonField, chain: list[int], parts: list[ErrorPart]) -> None:
        writer = JsonWriter("replace")
        writer.write_value(self.data, field.kind, field.value, field.end)
        parts.append(ErrorPart(_DETAIL, field, chain, writer.text.encode()))


def _has_results(slot: MongodbPendingReply) -> bool:
    return slot.name == _BULK_WRITE or (slot.name == b"getMore" and slot.text.startswith(_MORE_RESULTS))


def _is_failed(data: bytes, pos: i64, end: i64) -> bool:
    """Return whether the result of one operation is an error."""
    return any(field.name in _ERROR_TEXTS for field in read_fields(data, pos, end))


def make_completed_event(slot: MongodbPendingReply, facts: ReplyFacts) -> Completed:
    """Return the completion event of a request."""
    rows = int(facts.rows) if facts.rows >= 0 else None
    return Completed(slot.exchange, slot.tag, rows, facts.code, facts.error)


class _Places:
    """Finds the data in a reply."""

    def __init__(self, data: bytes, slot: MongodbPendingReply, paths: DocumentPaths) -> None:
        paths.begin()
        self._data = data
        self._slot = slot
        self._paths = paths
        self._segments: list[DataSegment] = []
        self._row = 0

    def read(self, fields: list[BsonField], body: int) -> list[DataSegment]:
        """Return the data of a reply whose body is at `body`."""
        name = self._slot.name
        if name in HARMLESS:
            return []
        chain = [0, body]
        harmless = NOT_IN_ROWS
        has_places = name in WRITES
        for field in fields:
            if self._add_place(field, chain):
                has_places = True
        if has_places:
            harmless = ENVELOPE
        self._add_rest(fields, chain, harmless)
        return self._segments

    def _add_place(self, field: BsonField, chain: list[int]) -> bool:
        """Add the data of a field that is a place of data. Return whether it is one."""
        name = self._slot.name
        inner = [*chain, int(field.value)]
        root = self._paths.root
        if field.name == b"cursor" and field.kind == DOCUMENT:
            return self._add_cursor(field, inner)
        if field.name == b"values" and field.kind == ARRAY and name == b"distinct":
            node = self._paths.node_of(self._slot.key) if self._slot.key else root
            for value in read_fields(self._data, field.value, field.end):
                self._add(DataSegment(value.start, value.end, node, self._row, inner, is_array=True))
                self._row += 1
            return True
        if field.name == b"upserted" and field.kind == ARRAY and name == b"update":
            for item in read_fields(self._data, field.value, field.end):
                self._add_upserted(item, [*inner, int(item.value)])
            return True
        if name in _FIND_AND_MODIFY:
            if field.name == b"value" and field.kind == DOCUMENT:
                self._add(DataSegment(field.value + 4, field.end - 1, root, self._row, inner))
                self._row += 1
                return True
            if field.name == b"lastErrorObject" and field.kind == DOCUMENT:
                upserted = find_field(read_fields(self._data, field.value, field.end), b"upserted")
                if upserted is not None:
                    self._add_identifier(upserted, inner)
                return True
            return field.name == b"value"
        return False

    def _add_upserted(self, item: BsonField, chain: list[int]) -> None:
        if item.kind != DOCUMENT:
            return
        identifier = find_field(read_fields(self._data, item.value, item.end), b"_id")
        if identifier is not None:
            self._add_identifier(identifier, chain)

    def _add_identifier(self, field: BsonField, chain: list[int]) -> None:
        """Add the identifier of a document that a command has inserted, whatever its field is called in the reply."""
        node = self._paths.child(self._paths.root, b"_id")
        self._add(DataSegment(field.start, field.end, node, self._row, chain, is_array=True))
        self._row += 1

    def _add_cursor(self, cursor: BsonField, chain: list[int]) -> bool:
        fields = read_fields(self._data, cursor.value, cursor.end)
        if not any(field.name in _BATCHES for field in fields):
            return False
        for field in fields:
            if field.name in _BATCHES and field.kind == ARRAY:
                self._add_batch(field, [*chain, int(field.value)])
        token = find_field(fields, b"postBatchResumeToken")
        if token is not None:
            self._add_identifier(token, chain)  # that of the last event, which has the key of its document
        self._add_rest(fields, chain, _CURSOR_FIELDS)
        return True

    def _add_batch(self, batch: BsonField, chain: list[int]) -> None:
        data = self._data
        root = self._paths.root
        has_results = _has_results(self._slot)
        pos: i64 = batch.value + 4
        last: i64 = batch.end - 1
        while pos < last:
            if data[pos] != DOCUMENT:
                raise ProtocolViolation("a batch of the target has a value that is not a document")
            start = name_end(data, pos + 1, last) + 1
            pos = value_end(data, DOCUMENT, start, last)
            if not (has_results and _is_failed(data, start, pos)):
                self._segments.append(DataSegment(start + 4, pos - 1, root, self._row, chain, own=start))
            self._row += 1

    def _add_rest(self, fields: list[BsonField], chain: list[int], harmless: frozenset[bytes]) -> None:
        """Add fields that are neither places of data nor harmless, as one more row."""
        has_some = False
        for field in fields:
            if field.name in harmless or is_error_field(field.name) or self._is_place(field):
                continue
            self._add(DataSegment(field.start, field.end, self._paths.root, self._row, chain))
            has_some = True
        if has_some:
            self._row += 1

    def _is_place(self, field: BsonField) -> bool:
        name = self._slot.name
        if field.name == b"cursor":
            return field.kind == DOCUMENT and any(
                inner.name in _BATCHES for inner in read_fields(self._data, field.value, field.end)
            )
        if field.name == b"values":
            return field.kind == ARRAY and name == b"distinct"
        if field.name == b"upserted":
            return field.kind == ARRAY and name == b"update"
        if name in _FIND_AND_MODIFY:
            return field.name == b"lastErrorObject" or (field.name == b"value" and field.kind in (DOCUMENT, NULL))
        return False

    def _add(self, segment: DataSegment) -> None:
        self._segments.append(segment)


_CURSOR_FIELDS: Final = CURSOR_ENVELOPE | _BATCHES


def read_facts(data: bytes, fields: list[BsonField]) -> ReplyFacts:
    """Read what a reply says of its request."""
    facts = ReplyFacts()
    number = find_field(fields, b"ok")
    facts.succeeded = number is None or number_at(data, number) == 1.0
    if not facts.succeeded:
        _read_error(data, fields, facts)
    for field in fields:
        name = field.name
        if name == b"n":
            count = integer_at(data, field)
            if count is not None and 0 <= count < 1 << 62 and facts.rows < 0:
                facts.rows = count
        elif name == b"cursor" and field.kind == DOCUMENT:
            _read_cursor(data, field, facts)
        elif name == b"values" and field.kind == ARRAY:
            facts.rows = count_elements(data, field.value, field.end)
        elif name == b"lastErrorObject" and field.kind == DOCUMENT:
            count_field = find_field(read_fields(data, field.value, field.end), b"n")
            count = None if count_field is None else integer_at(data, count_field)
            if count is not None and 0 <= count < 1 << 62:
                facts.rows = count
        elif is_error_field(name) and facts.succeeded and not facts.code:
            error = field
            if field.kind == ARRAY:
                items = read_fields(data, field.value, field.end)
                if not items:
                    continue
                error = items[0]
            if error.kind == DOCUMENT:
                _read_error(data, read_fields(data, error.value, error.end), facts)
    return facts


def _read_error(data: bytes, fields: list[BsonField], facts: ReplyFacts) -> None:
    code = find_field(fields, b"code")
    number = None if code is None else integer_at(data, code)
    facts.code = str(m.UNKNOWN_ERROR[0] if number is None else number)
    message = find_field(fields, b"errmsg")
    text = None if message is None else string_at(data, message)
    facts.error = (text or b"").decode("utf-8", "replace")


def _read_cursor(data: bytes, field: BsonField, facts: ReplyFacts) -> None:
    for inner in read_fields(data, field.value, field.end):
        if inner.name == b"id":
            number = integer_at(data, inner)
            facts.cursor = number or 0
            facts.has_cursor = True
        elif inner.name == b"ns":
            facts.namespace = string_at(data, inner) or b""
        elif inner.name in _BATCHES and inner.kind == ARRAY:
            facts.rows = count_elements(data, inner.value, inner.end)
