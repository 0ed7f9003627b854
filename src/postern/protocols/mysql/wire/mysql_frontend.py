"""The client's half of the wire: commands, one by one, and files that the target requested.

                     ┌── needs no evaluation ──▶ forward, with a pending response if there is one
    (between) ── command complete? ── needs evaluation ──▶ request to evaluate
        │            └── never allowed ──▶ request that is refused
        ├── command larger than `max_message` ──▶ values stream if no rule needs them, others are refused
        └── the target reads a file ──▶ its packets stream, up to an empty one

A command is one payload, which can span several packets (`mysql_messages`). Its first packet has the sequence id 0; any
other id ends the link, as it does at servers.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import RUN, Operation, Phase
from postern.interception.verdicts import Refuse
from postern.protocols.framing import Intake
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_bind_values import parameters, read_execute_types, with_types
from postern.protocols.mysql.wire.mysql_charsets import may_speak, sets_unread
from postern.protocols.mysql.wire.mysql_commands import (
    FIRST_OWN,
    KILL,
    NEVER,
    PLAIN,
    REPLICATION,
    Command,
    quote_identifier,
)
from postern.protocols.mysql.wire.mysql_response_queue import (
    EXECUTE,
    FETCH,
    FIELDS,
    PREPARE,
    QUERY,
    SIMPLE,
    MysqlPendingResponse,
    MysqlResponseQueue,
    MysqlStatement,
)
from postern.protocols.refusal_texts import text_of
from postern.protocols.wire_base import Wants

# Bytes of an oversized command's head: enough for its numbers, and recorded as evidence when it is refused.
HEAD: Final = 64 * 1024

_CURSORS: Final = 0x07  # flags of an EXECUTE that request a cursor


class MysqlFrontend:
    """The client's half of the wire. `poll` returns bytes to forward, or a command to evaluate."""

    def __init__(self, ledger: MysqlResponseQueue, wants: Wants, max_message: int, user: str) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.user = user
        self.terminated = False
        self._intake = Intake()
        self._at: i64 = 0  # start of the packet in the buffer that is read
        self._passing: i64 = 0  # remaining bytes of a packet that streams
        self._dropping: i64 = 0  # remaining bytes of a packet that is dropped
        self._goes_on = False  # the payload continues in the next packet
        self._drops_on = False
        self._file_goes_on = False
        self._sequence: i64 = 0  # of the next packet of that payload
        self._streaming: MysqlPendingResponse | None = None  # the EXECUTE whose values stream
        self._refusing: Command | None = None  # the command that is being dropped, and refused afterwards

    @property
    def midway(self) -> bool:
        """Return True if a command was forwarded in part."""
        return self._passing > 0 or self._goes_on

    @property
    def position(self) -> str:
        buf, at = self._intake.buf, int(self._at)
        where = f"packet number {buf[at + 3]} of {m.uint24(buf, at)} bytes " if len(buf) - at >= m.HEAD else ""
        if len(buf) - at > m.HEAD and not (self._goes_on or self._drops_on or self.ledger.file_wanted):
            where = f"command {buf[at + m.HEAD]:#04x} in {where}"
        return f"{where}at byte {self._intake.first + at}"

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def poll(self) -> bytes | Command | None:
        intake = self._intake
        while True:
            buf = intake.buf
            pos: i64 = intake.pos
            available: i64 = len(buf) - pos
            if self._passing or self._dropping:
                if not available:
                    return None
                data = self._stream()
                if data:
                    return data
                continue
            if self._refusing is not None and not self._drops_on:
                # The sequence id of its error follows all its packets.
                command, self._refusing = self._refusing, None
                command.slot.first = int(self._sequence)
                return command
            if self.terminated:
                intake.pos = len(buf)
                return None
            if available < m.HEAD:
                return None
            self._at = pos
            size = m.uint24(buf, pos)
            sequence: i64 = buf[pos + 3]
            if self._goes_on or self._drops_on:
                self._follow(size, sequence)
                continue
            if self.ledger.file_wanted:
                return self._of_file(size)
            if sequence != 0 or size == 0:
                raise ProtocolViolation(f"the client sent a packet of {size} bytes with number {sequence} as a command")
            if available < m.HEAD + 1:
                return None
            whole = self._whole(buf, pos, available)
            if whole < 0:
                return None
            if whole > self.max_message:
                output = self._handle_oversized(buf[pos + m.HEAD], size)
            else:
                if available < whole:
                    intake.wait(whole)
                    return None
                intake.pos = pos + whole
                output = self._command(buf[pos : pos + whole], size)
            if output:
                return output

    def _whole(self, buf: bytes, pos: i64, available: i64) -> i64:
        """Return the size of the command with all its packets, or more than can be buffered; -1 if unknown until more
        arrives."""
        whole: i64 = 0
        number: i64 = 0
        while True:
            if available < whole + m.HEAD:
                self._intake.wait(whole + m.HEAD)
                return -1
            size = m.uint24(buf, pos + whole)
            sequence: i64 = buf[pos + whole + 3]
            if sequence != number & 0xFF:
                raise ProtocolViolation("the client sent the packets of a command out of order")
            whole += m.HEAD + size
            number += 1
            if size != m.MAX_PAYLOAD or whole > self.max_message:
                return whole

    def _follow(self, size: i64, sequence: i64) -> None:
        """Start the next packet of a payload that streams or is dropped."""
        if sequence != self._sequence & 0xFF:
            raise ProtocolViolation("the client sent the packets of a command out of order")
        self._sequence += 1
        if self._streaming is not None:
            self._streaming.first = int(self._sequence)
        if self._goes_on:
            self._passing = m.HEAD + size
            self._goes_on = size == m.MAX_PAYLOAD
        else:
            self._dropping = m.HEAD + size
            self._drops_on = size == m.MAX_PAYLOAD

    def _stream(self) -> bytes:
        """Return the arrived part of a packet that streams; nothing of one that is dropped."""
        intake = self._intake
        start: i64 = intake.pos
        if self._dropping:
            count: i64 = min(self._dropping, len(intake.buf) - start)
            self._dropping -= count
            intake.pos = start + count
            return b""
        count = min(self._passing, len(intake.buf) - start)
        self._passing -= count
        intake.pos = start + count
        return intake.buf[start : start + count]

    def _of_file(self, size: i64) -> bytes:
        """Process a packet of a file that the target reads; an empty one ends the file."""
        intake = self._intake
        start: i64 = intake.pos
        if not size and not self._file_goes_on:
            self.ledger.file_wanted = False
        self._file_goes_on = size == m.MAX_PAYLOAD
        sequence: i64 = (intake.buf[start + 3] - self.ledger.shift) & 0xFF
        self.ledger.behind_file = int(sequence) + 1
        head = intake.buf[start : start + 3] + int(sequence).to_bytes(1, "little")
        intake.pos = start + m.HEAD
        self._passing = size
        return head + self._stream() if size else head

    def _handle_oversized(self, code: int, size: i64) -> bytes | Command | None:
        """Handle a command that is too large to be buffered: its values stream if no rule needs them."""
        intake = self._intake
        needed: i64 = min(m.HEAD + size, HEAD)
        if len(intake.buf) - intake.pos < needed:
            intake.wait(needed)
            return None
        head = intake.buf[intake.pos + m.HEAD : intake.pos + needed]
        goes_on = size == m.MAX_PAYLOAD
        self._sequence = 1
        statement = self._find_statement(head) if code in (m.COM_STMT_EXECUTE, m.COM_STMT_SEND_LONG_DATA) else None
        if statement is not None and (code == m.COM_STMT_SEND_LONG_DATA or self._may_stream(statement, head)):
            statement.truncated = True
            self._passing = m.HEAD + size
            self._goes_on = goes_on
            self._streaming = None
            if code == m.COM_STMT_EXECUTE:
                self._streaming = self._execute_slot(statement, head)
                self._store_types(statement, self._streaming, read_execute_types(head, statement))
                self.ledger.owe(self._streaming)
            return self._stream()
        self._dropping = m.HEAD + size
        self._drops_on = goes_on
        self._streaming = None
        if code == m.COM_STMT_SEND_LONG_DATA:
            return None
        command = Command(code, b"", MysqlPendingResponse(QUERY, self.ledger.next_exchange()))
        text = statement.text if statement is not None else text_of(head[1:], self.ledger.encoding)
        self._asks(command, text, truncated=True)
        command.dead = (m.ER_NET_PACKET_TOO_LARGE, "08S01")
        command.forced = Refuse(
            "size",
            f"a command of more than {self.max_message} bytes is too large to be evaluated",
            "Send less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT.",
        )
        self._refusing = command
        return None

    def _may_stream(self, statement: MysqlStatement, head: bytes) -> bool:
        """Return True if no rule needs its values, and the types are known or not needed."""
        tells = 3 * statement.count + 16 <= len(head)
        return not self.wants.operations and tells and (statement.sure or bool(read_execute_types(head, statement)))

    def _command(self, raw: bytes, size: i64) -> bytes | Command | None:
        """Process a complete command. Return bytes to forward, a request to evaluate, or None."""
        payload = raw[m.HEAD :] if size != m.MAX_PAYLOAD else m.MysqlPackets(len(raw)).feed(raw)[0].payload
        command = self._handle_command(raw, payload)
        if size == m.MAX_PAYLOAD and isinstance(command, Command):
            command.slot.first = m.packets_of(len(payload))
        return command

    def _handle_command(self, raw: bytes, payload: bytes) -> bytes | Command | None:
        code = payload[0]
        if code == m.COM_QUERY:
            return self._query(raw, payload)
        if code == m.COM_STMT_EXECUTE:
            return self._execute(raw, payload)
        if code == m.COM_STMT_PREPARE:
            return self._prepare(raw, payload)
        if code in PLAIN:
            if len(payload) > 3:
                raise ProtocolViolation(f"the client sent a command {code:#04x} of {len(payload)} bytes")
            self.ledger.owe(MysqlPendingResponse(PLAIN[code]))
            return raw
        if m.COM_STMT_SEND_LONG_DATA <= code <= m.COM_STMT_RESET or code == m.COM_STMT_FETCH:
            return self._of_statement(raw, payload)
        return self._other(raw, payload)

    def _query(self, raw: bytes, payload: bytes) -> Command:
        text = text_of(payload[1:], self.ledger.encoding)
        command = Command(m.COM_QUERY, raw, MysqlPendingResponse(QUERY, self.ledger.next_exchange()))
        self._asks(command, text)
        match = KILL.fullmatch(text)
        if match is not None:
            command.owner = int(match[2]) if FIRST_OWN <= int(match[2]) < 1 << 32 else 0
            command.stops_query = (match[1] or "").upper() == "QUERY"
        if may_speak(payload):
            command.forced = self._speaks(command.slot, text)
        self.ledger.spoken.forget(text)
        return command

    def _speaks(self, slot: MysqlPendingResponse, text: str) -> Refuse | None:
        """Track the character set that a statement sets for later ones; refuse a disallowed one."""
        unread = sets_unread(text)
        if unread:
            return Refuse(
                "client encoding",
                f"in the character set {unread}, the connection's rules can be bypassed, so this statement was denied",
                "Use utf8mb4 (SET NAMES utf8mb4), or a single-byte character set.",
            )
        spoken = self.ledger.spoken
        slot.charset = spoken.set_by(text)
        slot.several = ";" in text
        slot.keeps = spoken.keeps(text)
        return None

    def _prepare(self, raw: bytes, payload: bytes) -> Command:
        text = text_of(payload[1:], self.ledger.encoding)
        statement = MysqlStatement(text)
        statement.speaks = may_speak(payload)
        command = Command(
            m.COM_STMT_PREPARE, raw, MysqlPendingResponse(PREPARE, self.ledger.next_exchange(), statement)
        )
        self._asks(command, text, Phase.PREPARE)
        if statement.speaks:
            # It is not set before it runs.
            command.forced = self._speaks(MysqlPendingResponse(PREPARE), text)
        return command

    def _find_statement(self, payload: bytes) -> MysqlStatement | None:
        """Return the statement whose number is at the start of a command."""
        if len(payload) < 5:
            raise ProtocolViolation("a command does not name a prepared statement")
        return self.ledger.statements.get(int(m.uint32(payload, 1)))

    def _execute_slot(self, statement: MysqlStatement, payload: bytes) -> MysqlPendingResponse:
        slot = MysqlPendingResponse(EXECUTE, self.ledger.next_exchange(), statement)
        slot.cursor = len(payload) > 5 and bool(payload[5] & _CURSORS)
        if statement.speaks:
            self._speaks(slot, statement.text)
        if self.ledger.spoken.kept:
            self.ledger.spoken.forget(statement.text)
        statement.began = slot.exchange
        return slot

    def _execute(self, raw: bytes, payload: bytes) -> Command:
        statement = self._find_statement(payload)
        if statement is None:
            return self._unknown(raw, payload)
        slot = self._execute_slot(statement, payload)
        types = read_execute_types(payload, statement)
        self._store_types(statement, slot, types)
        values = parameters(payload, statement, bool(types))
        if statement.count and not types and not statement.sure:
            raw = m.packet(0, with_types(payload, statement))
            if m.packets_of(len(payload)) != m.packets_of(len(raw) - m.HEAD):
                raise ProtocolViolation("a prepared statement has values of 16 MiB without types")
        command = Command(m.COM_STMT_EXECUTE, raw, slot)
        self._asks(command, statement.text, RUN, values or (), statement.types, statement.truncated)
        if values is None:
            command.forced = Refuse(
                "protocol",
                "servers interpret the type of a bind value differently, so this statement was denied",
                "Send the value as a number, text or bytes.",
            )
        return command

    def _store_types(self, statement: MysqlStatement, slot: MysqlPendingResponse, types: tuple[int, ...]) -> None:
        """Store the types in an EXECUTE for later ones, as the client intends. The target may not have them: the
        EXECUTE was refused, or failed because of long data (MariaDB: a value that is too long, or of no parameter).
        Until that is certain, an EXECUTE that is evaluated by types is sent with them."""
        if types and not (statement.sure and types == statement.types):
            statement.types = types
            statement.sure = False
        slot.types = statement.types

    def _unknown(self, raw: bytes, payload: bytes) -> Command:
        number = m.uint32(payload, 1)
        command = Command(payload[0], b"", MysqlPendingResponse(SIMPLE, self.ledger.next_exchange()))
        self._asks(command, f"prepared statement {number}")
        command.dead = (m.ER_UNKNOWN_STATEMENT, "HY000")
        command.forced = Refuse(
            "protocol",
            f"there is no prepared statement with the number {number}",
            "Prepare it first, and wait for the response.",
        )
        return command

    def _of_statement(self, raw: bytes, payload: bytes) -> bytes | Command | None:
        """Process the commands of a prepared statement that need no evaluation."""
        code = payload[0]
        statement = self._find_statement(payload)
        if statement is None:
            # Servers ignore those without a response as well.
            return None if code in (m.COM_STMT_CLOSE, m.COM_STMT_SEND_LONG_DATA) else self._unknown(raw, payload)
        ledger = self.ledger
        if code == m.COM_STMT_SEND_LONG_DATA:
            self._long_data(statement, payload)
        elif code == m.COM_STMT_CLOSE:
            ledger.forget(statement.id)
        elif code == m.COM_STMT_RESET:
            ledger.forget_long(statement)
            ledger.owe(MysqlPendingResponse(SIMPLE))
        else:
            slot = MysqlPendingResponse(FETCH, ledger.next_exchange(), statement)
            slot.began = statement.began or slot.exchange
            ledger.owe(slot)
        return raw

    def _long_data(self, statement: MysqlStatement, payload: bytes) -> None:
        """Store a part of a value. Beyond the limit it is not stored, and the values are marked as incomplete."""
        if len(payload) < 7:
            raise ProtocolViolation("a long data packet does not name a parameter")
        place = int(m.uint16(payload, 5))
        if place >= statement.count:
            return
        data = self.ledger.ahead(statement, place, self.max_message)
        if data is None or self.ledger.held + len(payload) > self.max_message:
            statement.truncated = True
        elif self.wants.operations:
            data += payload[7:]
            self.ledger.held += len(payload) - 7

    def _other(self, raw: bytes, payload: bytes) -> bytes | Command | None:
        code = payload[0]
        ledger = self.ledger
        if code == m.COM_QUIT:
            self.terminated = True
            return raw
        command = Command(code, raw, MysqlPendingResponse(SIMPLE, ledger.next_exchange()))
        if code == m.COM_INIT_DB:
            self._asks(command, f"USE {quote_identifier(text_of(payload[1:], ledger.encoding))}")
        elif code == m.COM_FIELD_LIST:
            command.slot.kind = FIELDS
            table = payload[1:].split(b"\0")[0]
            self._asks(command, f"SHOW COLUMNS FROM {quote_identifier(text_of(table, ledger.encoding))}")
        elif code == m.COM_PROCESS_INFO:
            command.slot.kind = QUERY
            self._asks(command, "SHOW FULL PROCESSLIST")
        elif code == m.COM_PROCESS_KILL and len(payload) == 5:
            thread = int(m.uint32(payload, 1))
            command.owner = thread if thread >= FIRST_OWN else 0
            self._asks(command, f"KILL {thread}")
        elif code == m.COM_RESET_CONNECTION and len(payload) == 1:
            return self._reset(raw)
        elif code == m.COM_CHANGE_USER:
            return self._change_user(command, payload)
        else:
            self._never(command, code)
        return command

    def _reset(self, raw: bytes) -> bytes:
        slot = MysqlPendingResponse(SIMPLE)
        slot.resets = True
        self.ledger.owe(slot)
        # From here on the number may be reused for another statement.
        self.ledger.forget_statements()
        return raw

    def _change_user(self, command: Command, payload: bytes) -> Command:
        """Convert a change to the same user, with which poolers start a fresh session, to a reset and a change of the
        database. The password was verified at this client's login."""
        end = len(payload)
        user, pos = m.read_cstring(payload, 1, end)
        if pos >= end:
            raise ProtocolViolation("a change of user is truncated")
        size: i64 = payload[pos]
        proof = size > 1
        database, pos = m.read_cstring(payload, pos + 1 + size, end)
        # Before the plug-in's name is the collation; a reset leaves it as it was at login.
        plugin = payload[pos + 2 :].split(b"\0")[0]
        name = text_of(database, "utf-8")
        self._asks(command, f"USE {quote_identifier(name)}" if name else "RESET CONNECTION")
        if user.decode("utf-8", "surrogateescape") != self.user:
            command.dead = (m.ER_ACCESS_DENIED, "28000")
            command.forced = Refuse(
                "protocol",
                "Postern does not support changing the user of an open connection",
                "Open a new connection with the connection credential of that user.",
            )
        if proof and plugin == b"caching_sha2_password":
            command.slot.data = g.auth_more(1, b"\x03")
            command.slot.shift = 1
        reset = m.command(m.COM_RESET_CONNECTION)
        command.raw = reset + m.command(m.COM_INIT_DB, database) if name else reset
        return command

    def _never(self, command: Command, code: int) -> None:
        text = NEVER.get(code, f"command {code:#04x} is not supported by Postern")
        if code in REPLICATION:
            text = "replication is not supported by Postern"
        self._asks(command, f"command {code:#04x}")
        command.dead = (m.ER_UNKNOWN_COMMAND, "08S01")
        command.forced = Refuse("protocol", text)

    def _asks(
        self,
        command: Command,
        text: str,
        phase: Phase = RUN,
        values: tuple[bytes | None, ...] = (),
        types: tuple[int, ...] = (),
        truncated: bool = False,
    ) -> None:
        ledger = self.ledger
        command.operations.append(
            Operation(
                command.slot.exchange,
                text,
                phase,
                values,
                truncated,
                ledger.unread,
                pipelined=bool(ledger.slots),
                unsure=(),
                types=types,
                encoding=ledger.encoding,
            )
        )
