"""Parsing of complete replies, for the gateway's own queries, for scripts and for recordings. The wire does not use
it.

The request is not known here, so the reply itself shows what it is:

    ok: 0                            an error
    cursor.firstBatch, .nextBatch    documents; a cursor whose id is not zero has more
    value and lastErrorObject        the document of findAndModify
    values                           those of distinct
    only numbers and times           the status of a write, or of a command without a result
    anything else                    one document: the reply, as of explain
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb.wire import bson_documents as b
from postern.protocols.mongodb.wire.bson_documents import BsonField

VALUES: Final = "values"
"""The name of the only column of distinct values."""

_ENVELOPE: Final = frozenset({b"ok", b"operationTime", b"$clusterTime"})
# Fields of replies that are a status and nothing else.
_STATUS: Final = frozenset(
    {
        *(*_ENVELOPE, b"n", b"nModified", b"nInserted", b"nMatched", b"nUpserted", b"nDeleted", b"nErrors"),
        *(b"nRemoved", b"nIndexesWas", b"numIndexesBefore", b"numIndexesAfter", b"createdCollectionAutomatically"),
        *(b"upserted", b"electionId", b"opTime", b"lastOp", b"$configTime", b"$topologyTime", b"$gleStats"),
        *(b"commitQuorum", b"note", b"ns", b"dropped", b"msg", b"info", b"writeErrors", b"writeConcernError"),
        *(b"retriedStmtId", b"retriedStmtIds", b"topologyVersion", b"recoveryToken", b"cursorsKilled"),
        *(b"cursorsNotFound", b"cursorsAlive", b"cursorsUnknown"),
    }
)
# Of these, the ones that are shown.
_SHOWN: Final = (
    *(b"n", b"nModified", b"nInserted", b"nMatched", b"nUpserted", b"nDeleted", b"nErrors", b"upserted", b"dropped"),
    *(b"nIndexesWas", b"numIndexesBefore", b"numIndexesAfter", b"note", b"msg", b"info", b"cursorsKilled"),
)


@dataclass(frozen=True, slots=True)
class ReplyFailure:
    """An error: its number and name, and its message. `about` is the part of the command that failed, if
    others did not."""

    code: int
    name: str
    message: str
    about: str = ""

    @property
    def code_text(self) -> str:
        return self.name or str(self.code)

    @property
    def text(self) -> str:
        number = f"{self.code} ({self.name})" if self.name else str(self.code)
        return f"{self.about + ': ' if self.about else ''}{number}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReplyBatch:
    """Documents, or values of distinct (`are_values`: each is a document whose only field has no name).

    `cursor` is the id to read on with, 0 if there is no more; `namespace` is that of the cursor. `continues`: it is not
    the first batch.
    """

    documents: tuple[bytes, ...]
    cursor: int = 0
    continues: bool = False
    are_values: bool = False
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply. `status` are the shown fields of one without documents, as the document that they make."""

    failures: tuple[ReplyFailure, ...] = ()
    batch: ReplyBatch | None = None
    status: bytes = b""


def parse_reply(document: bytes) -> ParsedReply:
    """Parse the document of a reply. Raises ProtocolViolation."""
    fields = b.read_fields(document, 0, len(document))
    named = {each.name: each for each in reversed(fields)}  # the first of each name
    ok = named.get(b"ok")
    if ok is None or b.number_at(document, ok) is None:
        raise ProtocolViolation("a reply does not say whether the command has succeeded")
    if b.number_at(document, ok) != 1:
        return ParsedReply((_failure(document, fields),))
    failures = tuple(_write_failures(document, named))
    batch = _batch(document, fields, named)
    status = b"" if batch is not None else _pick_fields(document, [named[name] for name in _SHOWN if name in named])
    return ParsedReply(failures, batch, status)


def _failure(document: bytes, fields: list[BsonField], about: str = "") -> ReplyFailure:
    code, name, message = 0, "", ""
    for each in fields:
        if each.name == b"code":
            code = b.integer_at(document, each) or 0
        elif each.name == b"codeName":
            name = _text(b.string_at(document, each))
        elif each.name == b"errmsg":
            message = _text(b.string_at(document, each))
    return ReplyFailure(code, name, message, about)


def _write_failures(document: bytes, named: dict[bytes, BsonField]) -> list[ReplyFailure]:
    failures: list[ReplyFailure] = []
    errors = named.get(b"writeErrors")
    if errors is not None and errors.kind == b.ARRAY:
        for item in b.read_fields(document, errors.value, errors.end):
            if item.kind != b.DOCUMENT:
                continue
            fields = b.read_fields(document, item.value, item.end)
            index = b.find_field(fields, b"index")
            number = None if index is None else b.integer_at(document, index)
            about = "writeErrors" if number is None else f"operation {number + 1}"
            failures.append(_failure(document, fields, about))
    concern = named.get(b"writeConcernError")
    if concern is not None and concern.kind == b.DOCUMENT:
        failures.append(_failure(document, b.read_fields(document, concern.value, concern.end), "write concern"))
    return failures


def _batch(document: bytes, fields: list[BsonField], named: dict[bytes, BsonField]) -> ReplyBatch | None:
    cursor = named.get(b"cursor")
    if cursor is not None and cursor.kind == b.DOCUMENT:
        batch = _cursor_batch(document, cursor)
        if batch is not None:
            return batch
    values = named.get(VALUES.encode())
    if values is not None and values.kind == b.ARRAY:
        items = b.read_fields(document, values.value, values.end)
        return ReplyBatch(tuple(single(document, item) for item in items), are_values=True)
    value = named.get(b"value")
    if value is not None and b"lastErrorObject" in named:
        return ReplyBatch((document[value.value : value.end],) if value.kind == b.DOCUMENT else ())
    if any(each.name not in _STATUS for each in fields):
        return ReplyBatch((_pick_fields(document, [each for each in fields if each.name not in _ENVELOPE]),))
    return None


def _cursor_batch(document: bytes, cursor: BsonField) -> ReplyBatch | None:
    inner = b.read_fields(document, cursor.value, cursor.end)
    batch, continues = b.find_field(inner, b"firstBatch"), False
    if batch is None:
        batch, continues = b.find_field(inner, b"nextBatch"), True
    if batch is None or batch.kind != b.ARRAY:
        return None
    number, namespace = b.find_field(inner, b"id"), b.find_field(inner, b"ns")
    items = b.read_fields(document, batch.value, batch.end)
    return ReplyBatch(
        tuple(document[item.value : item.end] for item in items if item.kind == b.DOCUMENT),
        0 if number is None else b.integer_at(document, number) or 0,
        continues,
        namespace="" if namespace is None else _text(b.string_at(document, namespace)),
    )


def single(document: bytes, item: BsonField) -> bytes:
    """Return a document with one value, whose name is empty."""
    return b.encode_document(b.element(item.kind, b"", document[item.value : item.end]))


def _pick_fields(document: bytes, fields: list[BsonField]) -> bytes:
    """Return the document of some fields."""
    return b.encode_document(*[document[each.start : each.end] for each in fields])


def _text(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "replace")


def make_target_refused(failure: ReplyFailure) -> TargetRefused:
    """Return an error reply to the gateway itself as an exception."""
    return TargetRefused(failure.message or "the target refused the command", failure.code_text)
