"""Commands of the gateway itself, sent as a client. Without I/O.

The command is a text in Extended JSON with its `$db`. A value is bound where the text has `{"$parameter": 1}`: it takes
the place of that document in the parsed command, so it can never be anything but a text or null.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

import bson
from bson.errors import BSONError

from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.mongodb.queries.mongodb_requests import encode_command
from postern.protocols.mongodb.queries.mongodb_shell_errors import ShellError
from postern.protocols.mongodb.queries.mongodb_shell_options import Document
from postern.protocols.mongodb.queries.mongodb_shell_statements import read_document
from postern.protocols.mongodb.queries.mongodb_shell_values import Value
from postern.protocols.mongodb.recorded.mongodb_cells import json_of
from postern.protocols.mongodb.recorded.mongodb_reading import ParsedReply, make_target_refused, parse_reply
from postern.protocols.mongodb.recorded.mongodb_stream import MongodbReplies

MAX_REPLY: Final = 17 << 20  # bytes: a reply is one document
PARAMETER: Final = "$parameter"


class MongodbQuery:
    """One command: send `start()` to the target, then `feed` its reply, until `finished`.

    Each row has one cell: a document in relaxed Extended JSON. Of a cursor these are the documents of the first batch;
    a reply without a cursor is one row. `error` is the target's error, or None. The stream is ready for another query
    afterwards.
    """

    def __init__(self, statement: str, values: Sequence[str | None] = ()) -> None:
        self._statement = statement
        self._values = values
        self._replies = MongodbReplies(MAX_REPLY)
        self.finished = False
        self.error: TargetRefused | None = None

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next: the rest of a message, or of its header."""
        return self._replies.needs

    def start(self) -> bytes:
        """Return the message to send. Raises ProtocolViolation if the number of values does not match."""
        return _encode_query(1, bound_command(self._statement, self._values))

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows of the reply once it is complete. Raises ProtocolViolation."""
        rows: list[Row] = []
        for document in self._replies.feed(data):
            if self.finished:
                raise ProtocolViolation("the target sent a reply to no command")
            reply = parse_reply(document)
            self.finished = True
            if reply.failures:
                self.error = make_target_refused(reply.failures[0])
            elif reply.batch is not None:
                rows += [(json_of(each),) for each in reply.batch.documents]
            else:
                rows.append((json_of(reply.status),))
        return rows


Answer = ParsedReply | TargetRefused
Steps = Generator[Document, Answer, None]
"""Yields commands and receives the answer to each."""


class MongodbQueryInSteps:
    """Several commands, each of which can depend on the replies before it. `steps` adds rows to `rows`.

    An answer is an error where the target has refused: `steps` decides whether it goes on, or raises it.
    """

    def __init__(self, steps: Steps, rows: list[Row]) -> None:
        self._steps = steps
        self._rows = rows
        self._replies = MongodbReplies(MAX_REPLY)
        self._number = 0
        self._next = b""
        self.finished = False
        self.error: TargetRefused | None = None

    @property
    def needs(self) -> int:
        """Return the number of bytes that `feed` takes next."""
        return self._replies.needs

    def start(self) -> bytes:
        """Return the first message to send."""
        self._advance(None)
        return self.request()

    def request(self) -> bytes:
        """Return the next message to send, once; empty while a reply is incomplete."""
        sent, self._next = self._next, b""
        return sent

    def feed(self, data: bytes) -> list[Row]:
        """Return the rows that are complete now. Raises ProtocolViolation."""
        for document in self._replies.feed(data):
            if self.finished:
                raise ProtocolViolation("the target sent a reply to no command")
            reply = parse_reply(document)
            self._advance(make_target_refused(reply.failures[0]) if reply.failures else reply)
        rows = self._rows.copy()
        self._rows.clear()
        return rows

    def _advance(self, answer: Answer | None) -> None:
        self._number += 1
        try:
            command = next(self._steps) if answer is None else self._steps.send(answer)
        except StopIteration:
            self.finished = True
        except TargetRefused as refused:
            self.error, self.finished = refused, True
        else:
            self._next = _encode_query(self._number, command)


def decode_document(document: bytes) -> Mapping[str, Any]:
    """Return a document as a dictionary. Raises ProtocolViolation."""
    try:
        return bson.decode(document, _OPTIONS)
    except (BSONError, ValueError, OverflowError):
        raise ProtocolViolation("the target's response to a catalogue query is not valid") from None


_OPTIONS: Final = bson.CodecOptions(
    document_class=dict,
    unicode_decode_error_handler="replace",
    datetime_conversion=bson.DatetimeConversion.DATETIME_MS,
)


def bound_command(statement: str, values: Sequence[str | None]) -> Document:
    """Return a command with its values. Raises ProtocolViolation."""
    try:
        command = read_document(statement)
    except ShellError as error:
        raise ProtocolViolation(f"a query is not valid: {error.message}") from None
    used: set[int] = set()
    bound = {name: _bind(value, values, used) for name, value in command.items()}
    if used != set(range(1, len(values) + 1)):
        raise ProtocolViolation(f"a query has {len(used)} placeholders for {len(values)} values")
    return bound


def _bind(value: Value, values: Sequence[str | None], used: set[int]) -> Value:
    if isinstance(value, list):
        return [_bind(item, values, used) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {PARAMETER}:
        number = value[PARAMETER]
        if not isinstance(number, int) or not 1 <= number <= len(values):
            raise ProtocolViolation(f"a query has no value number {number!r}")
        used.add(number)
        return values[number - 1]
    return {name: _bind(item, values, used) for name, item in value.items()}


def _encode_query(number: int, command: Document) -> bytes:
    try:
        return encode_command(number, command)
    except ValueError as error:
        raise ProtocolViolation(f"a query is not valid: {error}") from None
