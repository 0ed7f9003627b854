"""The client's half of the wire: requests, one by one.

    message complete? ──┬── hello ──▶ answered by the gateway
        │               ├── never allowed, or read differently by servers ──▶ request that is refused
        │               └── any other command ──▶ request to evaluate
        └── larger than `max_message` ──▶ dropped, then a request that is refused

The target gets the bytes that were evaluated. A message whose flags or fields the target must not see is encoded
anew; all others are slices of the read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import RUN, Operation
from postern.interception.verdicts import Refuse
from postern.protocols.framing import Intake
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.bson_documents import (
    ARRAY,
    BOOLEAN,
    DOCUMENT,
    STRING,
    BsonField,
    find_field,
    find_repeated,
    int32_at,
    integer_at,
    packed32,
    read_fields,
    string_at,
    without_fields,
)
from postern.protocols.mongodb.wire.bson_json import write_command
from postern.protocols.mongodb.wire.mongodb_commands import HELLO, NEVER, NO_CURSOR, SEQUENCES, MongodbCommand
from postern.protocols.mongodb.wire.mongodb_cursors import MAX_TEXT, Cursors
from postern.protocols.mongodb.wire.mongodb_response_queue import (
    ANSWERED,
    ENDS_TRANSACTION,
    FORWARDED,
    IN_TRANSACTION,
    SILENT,
    MongodbPendingReply,
    MongodbResponseQueue,
)
from postern.protocols.wire_base import Wants

MAX_FIELDS: Final = 1000  # of a command; servers know some fifty
MAX_KILLED: Final = 100_000  # cursors of one killCursors

# Bytes of an oversized message that are read: enough for its command, and recorded as evidence.
BEGINNING: Final = 64 * 1024

_OPTIONAL_FLAGS: Final = 0xFFFF0000
_RETRY_NUMBER: Final = frozenset({b"txnNumber"})
_ENDS: Final = frozenset({b"commitTransaction", b"abortTransaction"})
_NOT_NAMES: Final = frozenset({b"lsid", b"originatingCommand"})


class MongodbFrontend:
    """The client's half of the wire. `poll` returns a command to evaluate. `hello` answers a hello by its document;
    `is_standalone`: the target cannot retry writes."""

    def __init__(
        self,
        ledger: MongodbResponseQueue,
        wants: Wants,
        max_message: int,
        hello: Callable[[bytes], bytes],
        cursors: Cursors,
        *,
        is_standalone: bool,
    ) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.undecided: MongodbCommand | None = None  # the command that is evaluated or held
        self._hello = hello
        self._cursors = cursors
        self._is_standalone = is_standalone
        self._intake = Intake()
        self._dropping: i64 = 0  # remaining bytes of a message that is dropped
        self._refusing: MongodbCommand | None = None  # the command that is being dropped, and refused afterwards

    @property
    def position(self) -> str:
        buf, at = self._intake.buf, int(self._intake.pos)
        where = f"message of {int(int32_at(buf, at))} bytes " if len(buf) - at >= m.HEAD else ""
        return f"{where}at byte {self._intake.first + at}"

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def poll(self) -> MongodbCommand | None:
        intake = self._intake
        while True:
            buf = intake.buf
            pos: i64 = intake.pos
            available: i64 = len(buf) - pos
            if self._dropping:
                if not available:
                    return None
                size: i64 = min(self._dropping, available)
                self._dropping -= size
                intake.pos = pos + size
                continue
            if self._refusing is not None:
                command, self._refusing = self._refusing, None
                return command
            if available < m.HEAD:
                return None
            size = m.read_size(buf, pos)
            m.check_kind(buf, pos)
            if size > self.max_message:
                needed: i64 = min(size, BEGINNING)
                if available < needed:
                    intake.wait(needed)
                    return None
                self._drop(buf[pos : pos + needed], size)
                continue
            if available < size:
                intake.wait(size)
                return None
            # A message that breaks the protocol stays the current position, for the log.
            result = self._handle(buf[pos : pos + size])
            intake.pos = pos + size
            if result is not None:
                self.undecided = result
                return result

    def _handle(self, raw: bytes) -> MongodbCommand | None:
        """Process a whole message. Return a command to evaluate, or None for one that the gateway answers."""
        message = m.parse_message(raw)
        fields = read_fields(raw, message.pos, message.end, MAX_FIELDS)
        silent = bool(message.flags & m.MORE_TO_COME)
        name = fields[0].name if fields else b""
        if name in HELLO and not message.sequences and find_repeated(fields) is None:
            if not silent:
                slot = MongodbPendingReply(ANSWERED, message.request_id, 0, name)
                slot.data = m.encode_reply(message.request_id, self._hello(raw[message.pos : message.end]))
                self.ledger.owe(slot)
            return None
        slot = MongodbPendingReply(
            SILENT if silent else FORWARDED, message.request_id, self.ledger.next_exchange(), name
        )
        command = MongodbCommand(raw, slot)
        command.silent = silent
        self._check(command, message, fields)
        removed = _RETRY_NUMBER if self._is_standalone and find_field(fields, b"autocommit") is None else _NOTHING
        if message.flags & _OPTIONAL_FLAGS or (removed and find_field(fields, b"txnNumber") is not None):
            command.raw = _encode_without(raw, message, fields, removed)
            fields = [field for field in fields if field.name not in removed]
        originating = ""
        if name == b"getMore":
            cursor = integer_at(raw, fields[0])
            slot.cursor = 0 if cursor is None else cursor
            slot.opened = self.ledger.opened.get(slot.cursor, slot.exchange)
            slot.text = originating = "" if cursor is None else self._cursors.find(cursor)
        self._note_transaction(slot, raw, fields)
        shown = (
            fields if name not in NEVER else [field for field in fields if field is fields[0] or field.name == b"$db"]
        )
        try:
            text, truncated = write_command(raw, shown, message.sequences, originating, max_text=self.max_message)
        except UnicodeDecodeError:
            text, truncated = write_command(
                raw, shown, message.sequences, originating, errors="replace", max_text=self.max_message
            )
            _refuse(command, m.FAILED_TO_PARSE, "a text of this command is not valid UTF-8", "Encode it as UTF-8.")
        if name not in NO_CURSOR and not truncated and len(text) <= MAX_TEXT:
            slot.text = text
        if name == b"distinct":
            key = find_field(fields, b"key")
            slot.key = (None if key is None else string_at(raw, key)) or b""
        elif name == b"killCursors":
            command.killed = _read_killed(raw, fields)
        self._add_operation(command, text, truncated)
        return command

    def _add_operation(self, command: MongodbCommand, text: str, truncated: bool) -> None:
        pending, pipelined = command.pending, bool(self.ledger.slots)
        continues = pending.opened if pending.opened != pending.exchange else 0
        command.operations.append(
            Operation(pending.exchange, text, RUN, (), truncated, pipelined=pipelined, continues=continues)
        )

    def _check(self, command: MongodbCommand, message: m.OpMessage, fields: list[BsonField]) -> None:
        """Refuse what is never allowed, and what another reader could read differently."""
        name = command.pending.name
        if not name or name.startswith(b"$") or name in _NOT_NAMES:
            _refuse(command, m.COMMAND_NOT_FOUND, "the first field of a message must be the name of its command")
            return
        repeated = find_repeated(fields)
        if repeated is not None:
            shown = repeated.decode("utf-8", "replace")[:64]
            _refuse(command, m.FAILED_TO_PARSE, f"the field {shown!r} occurs more than once in this command")
            return
        names = {field.name for field in fields}
        for sequence in message.sequences:
            if sequence.name not in SEQUENCES:
                _refuse(command, m.FAILED_TO_PARSE, "a section of this message has a name that no command uses")
                return
            if sequence.name in names:
                shown = sequence.name.decode("ascii")
                _refuse(command, m.FAILED_TO_PARSE, f"the field {shown!r} occurs more than once in this command")
                return
            names.add(sequence.name)
        database = find_field(fields, b"$db")
        if database is None or database.kind != STRING or database.end - database.value < 6:
            _refuse(command, m.FAILED_TO_PARSE, "a command must name its database in the field '$db', as a string")
        elif name in NEVER:
            _refuse(command, m.UNAUTHORIZED, NEVER[name], "Open a new connection with the other credential.")
        elif name == b"getMore" and b"originatingCommand" in names:
            _refuse(command, m.FAILED_TO_PARSE, "the field 'originatingCommand' of getMore is reserved for Postern")

    def _note_transaction(self, slot: MongodbPendingReply, raw: bytes, fields: list[BsonField]) -> None:
        autocommit = find_field(fields, b"autocommit")
        session = find_field(fields, b"lsid")
        if session is None or session.kind != DOCUMENT:
            return
        if autocommit is None or autocommit.kind != BOOLEAN or raw[autocommit.value]:
            return
        slot.session = raw[session.value : session.end]
        slot.transaction = ENDS_TRANSACTION if slot.name in _ENDS else IN_TRANSACTION

    def _drop(self, beginning: bytes, size: i64) -> None:
        """Drop a message that is too large to be evaluated, and refuse its command afterwards."""
        silent = bool(m.read_flags(beginning, 0) & m.MORE_TO_COME)
        slot = MongodbPendingReply(
            SILENT if silent else FORWARDED, int(int32_at(beginning, 4)), self.ledger.next_exchange()
        )
        command = MongodbCommand(b"", slot)
        command.silent = silent
        text = _read_beginning(beginning, slot) or f"message of {int(size)} bytes"
        self._add_operation(command, text, truncated=True)
        _refuse(
            command,
            m.TOO_LARGE,
            f"a message of more than {self.max_message} bytes is too large to be evaluated",
            "Send less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
            "size",
        )
        self._refusing = command
        self.undecided = command
        self._dropping = size


_NOTHING: Final[frozenset[bytes]] = frozenset()


def _refuse(
    command: MongodbCommand, code: tuple[int, str], message: str, hint: str = "", rule: str = "protocol"
) -> None:
    if command.forced is None:
        command.forced = Refuse(rule, message, hint)
        command.code = code


def _encode_without(raw: bytes, message: m.OpMessage, fields: list[BsonField], removed: frozenset[bytes]) -> bytes:
    """Return the message without these fields, without optional flags, and without its checksum."""
    body = without_fields(raw, message.pos, message.end, fields, removed)
    end = len(raw) - 4 if message.flags & m.CHECKSUM_PRESENT else len(raw)
    rest = raw[m.HEAD + 4 : message.pos] + body + raw[message.end : end]
    flags = int(message.flags & m.MORE_TO_COME)
    return packed32(m.HEAD + 4 + len(rest)) + raw[4 : m.HEAD] + flags.to_bytes(4, "little") + rest


def _read_killed(raw: bytes, fields: list[BsonField]) -> list[int]:
    """Return the cursors that a killCursors ends."""
    cursors = find_field(fields, b"cursors")
    if cursors is None or cursors.kind != ARRAY:
        return []
    numbers = [integer_at(raw, field) for field in read_fields(raw, cursors.value, cursors.end, MAX_KILLED)]
    return [number for number in numbers if number is not None]


def _read_beginning(beginning: bytes, slot: MongodbPendingReply) -> str:
    """Return as much of a command's text as the beginning of its message shows: its body, or nothing. Its documents
    are usually in sections of their own, after the body."""
    start: i64 = m.HEAD + 5
    if len(beginning) < start + 5 or beginning[m.HEAD + 4] != 0:
        return ""
    end: i64 = start + int32_at(beginning, start)
    if end > len(beginning):
        return ""
    try:
        fields = read_fields(beginning, start, end, MAX_FIELDS)
        text, _ = write_command(beginning, fields, [], errors="replace", max_text=BEGINNING)
    except ProtocolViolation:
        return ""
    if fields:
        slot.name = fields[0].name
    return text
