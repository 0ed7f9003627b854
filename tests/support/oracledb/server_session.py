"""One connection to the test server: from packets to bytes, without sockets.

The order is CONNECT, PROTOCOL, DATA_TYPES, two calls of the login, then any number of calls; a client of 23ai can send
what lies between CONNECT and the second call of the login as one message.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.support.oracledb import listener_packets as packets
from tests.support.oracledb import server_calls as calls
from tests.support.oracledb.database import Database
from tests.support.oracledb.listener_packets import Packet
from tests.support.oracledb.native_services import NativeOptions, NativeServices, is_whole
from tests.support.oracledb.server_calls import CallReader, Layout, LogonCall
from tests.support.oracledb.server_logon import Challenge
from tests.support.oracledb.server_replies import (
    END_OF_RESPONSE,
    ORACLE_19,
    Completion,
    Dialogue,
    ServerLevel,
    completion_reply,
    data_types_reply,
    logon_reply,
    protocol_reply,
    status_reply,
    version_reply,
)
from tests.support.oracledb.sql_functions import now
from tests.support.oracledb.sql_translation import SqlError
from tests.support.oracledb.statement_calls import StatementCalls
from tests.support.oracledb.ttc_fields import BadMessage, FieldReader, Incomplete

SMALL_INTEGER, UNIVERSAL = 27, 1  # type of a signed byte; its form with a length in front
END_OF_RESPONSE_WANTED = 0x20  # bit of the clients' capability 40
COUNTED_TEXTS = 2  # flag of the clients that count texts whose length they have sent already
HIGHEST_TYPE = 1023
LONG_TEXTS = 4  # bit of the clients' run-time capability 6
LARGEST_MESSAGE = 64 << 20
CANCELLED = Completion(1013, "ORA-01013: user requested cancel of current operation\n")
DENIED = Completion(1017, "ORA-01017: invalid username/password; logon denied\n")


@dataclass(frozen=True)
class ServerOptions:
    """How the server answers. `users` has their passwords, by upper-cased name."""

    users: Mapping[str, str] = field(default_factory=lambda: {"POSTERN": "Secret_1"})
    services: tuple[str, ...] = ("ORCLPDB1",)
    level: ServerLevel = ORACLE_19
    sdu: int = 8192
    redirect: str = ""  # an address that the listener names in the place of its own
    native: NativeOptions | None = None  # native network encryption; None: the server has none
    breaks_on_errors: bool = False  # errors come after a break of the server, as real ones send some
    random: Callable[[int], bytes] = os.urandom
    clock: Callable[[], datetime.datetime] = now


class ServerSession:
    """Answers one client. `closed` is set once nothing more is to be read."""

    def __init__(self, database: Database, options: ServerOptions) -> None:
        self._database, self._options = database, options
        self._level = options.level
        self._step = self._connect
        self._message = bytearray()
        self._sdu, self._field_version = 8192, options.level.field_version
        self._user = ""
        self._sequence, self._version = 0, 0
        self._wants_ends = False
        self._compresses_scales, self._counts_texts = False, True
        self._longest_text = calls.LONGEST_TEXT
        self._ends_responses = False
        self._challenge: Challenge | None = None
        self._statements: StatementCalls | None = None
        self._awaits_descriptor = False
        self._native_flags = bytes(2)
        self._broken_by: Completion | None = None
        self.native: NativeServices | None = None
        self.large_packets = False
        self.closed = False
        self.descriptor, self.driver = "", ""  # how the client introduced itself

    def interrupt(self) -> None:
        """Stop what runs. Another thread may call this."""
        if self._statements is not None:
            self._statements.interrupt()

    def end(self) -> None:
        if self._statements is not None:
            self._statements.session.rollback()
            self._statements.session.close()
            self._statements = None

    def receive(self, packet: Packet) -> bytes:
        """Return the answer to a packet. Raises BadMessage."""
        if packet.kind == packets.MARKER:
            return self.marker(packet.body[-1])
        if packet.kind == packets.DATA:
            if not self._awaits_descriptor and int.from_bytes(packet.body[:2], "big") & packets.END_OF_FILE:
                self.closed = True
                return b""
            self._message += self._open(packet.body[2:])
            if len(self._message) > LARGEST_MESSAGE:
                raise BadMessage("a message of more than 64 MiB")
        elif packet.kind == packets.CONNECT:
            self._message[:] = packet.body
        else:
            raise BadMessage(f"a packet of type {packet.kind}")
        try:
            reply = self._step()
        except Incomplete:
            return b""
        except UnicodeDecodeError as error:
            raise BadMessage(f"a text that is not UTF-8: {error}") from error
        self._message.clear()
        return reply

    def marker(self, kind: int) -> bytes:
        """Answer a marker: a break is confirmed, and its reset ends with the error of the cancelled call."""
        if kind != packets.RESET:
            return packets.marker(packets.BREAK)
        if self._statements is not None:
            self._statements.stop.clear()
        self._message.clear()
        if self.native is not None:
            self.native.restart()
        error, self._broken_by = self._broken_by or CANCELLED, None
        return packets.marker(packets.RESET) + self._packets(completion_reply(error, self._dialogue()))

    def _packets(self, reply: bytes) -> bytes:
        if self._ends_responses:
            reply += bytes([END_OF_RESPONSE])
        return self._data(reply, self._ends_responses)

    def _data(self, reply: bytes, end_of_response: bool = False) -> bytes:
        room = self._sdu - (0 if self.native is None else self.native.overhead)
        return packets.data_packets(reply, room, end_of_response)

    def seal(self, reply: bytes) -> bytes:
        """Return a reply as it is sent. One that is sealed and then not sent would put the checksums out of step."""
        if self.native is None or not self.native.is_active:
            return reply
        sealed = []
        while reply:
            size = int.from_bytes(reply[:4], "big")
            packet, reply = reply[:size], reply[size:]
            if packet[4] == packets.DATA:
                body = packet[8:10] + self.native.seal(packet[10:])
                packet = packets.packet_bytes(packets.DATA, body, True)
            sealed.append(packet)
        return b"".join(sealed)

    def _open(self, body: bytes) -> bytes:
        if self.native is None or not self.native.is_active:
            return body
        return self.native.open(
            body, b"" if self._statements is None or self._challenge is None else self._challenge.key
        )

    def _dialogue(self) -> Dialogue:
        statements = self._statements
        transaction = statements is not None and statements.session.in_transaction
        return Dialogue(self._field_version, self._compresses_scales, transaction, self._sequence)

    def _connect(self) -> bytes:
        if not self._awaits_descriptor:
            connect = packets.read_connect(bytes(self._message))
            if connect.version < packets.LARGE_LENGTHS_SINCE:
                return self._refuse(12618)
            self._sdu = max(512, min(connect.sdu, self._options.sdu))
            self._version = min(connect.version, 319)
            self._native_flags = connect.native_flags
            if not connect.descriptor and connect.descriptor_length:
                self._awaits_descriptor = True
                self._descriptor_length = connect.descriptor_length
                return b""
            self.descriptor = connect.descriptor.decode(errors="replace")
        else:
            if len(self._message) < self._descriptor_length:
                raise Incomplete
            self.descriptor = self._message.decode(errors="replace")
        self._awaits_descriptor = False
        return self._answer_connect()

    def _refuse(self, code: int) -> bytes:
        self.closed = True
        return packets.refuse(code)

    def _answer_connect(self) -> bytes:
        wanted = self.descriptor.upper().replace(" ", "")
        if self._options.redirect:
            self.closed = True
            return packets.redirect(self._options.redirect, self.descriptor)
        names = self._options.services
        if not any(f"SERVICE_NAME={name.upper()})" in wanted or f"SID={name.upper()})" in wanted for name in names):
            return self._refuse(12505 if "(SID=" in wanted else 12514)
        self.large_packets = True
        self._step = self._protocol
        flags = packets.FAST_AUTH if self._level.has_fast_auth else 0
        if self._level.has_end_of_response and self._version >= 319:
            flags |= packets.HAS_END_OF_RESPONSE
        return packets.accept(self._version, self._sdu, flags, self._native_answer())

    def _native_answer(self) -> int:
        """Return the flags for native services, and prepare their negotiation if both sides have them."""
        options, client = self._options.native, self._native_flags
        if options is None:
            return packets.NO_NATIVE_SERVICES
        if client[0] & packets.NO_NATIVE_SERVICES or client[1] & packets.NO_NATIVE_LINKS:
            return packets.NATIVE_REQUIRED if options.is_required else packets.NO_NATIVE_SERVICES
        self.native = NativeServices(options, self._options.random)
        self._step = self._negotiate
        return packets.NATIVE_SERVICES | (packets.NATIVE_REQUIRED if options.is_required else 0)

    def _negotiate(self) -> bytes:
        """Answer the negotiation of native services, and take the client's public value."""
        native, message = self.native, bytes(self._message)
        assert native is not None
        if not is_whole(message):
            raise Incomplete
        if native.awaits_key:
            native.take_key(message)
            self._step = self._protocol
            return b""
        answer = native.answer(message)
        self.closed = bool(native.error)
        if not native.awaits_key:
            self._step = self._protocol
        return packets.data_packets(answer, self._sdu)

    def _protocol(self) -> bytes:
        reader = FieldReader(bytes(self._message))
        if reader.remaining() and self._message[0] == calls.FAST_AUTH:
            return self._fast_auth(reader)
        self._read_protocol(reader)
        self._step = self._data_types
        return self._data(protocol_reply(self._level))

    def _read_protocol(self, reader: FieldReader) -> None:
        if reader.byte() != calls.PROTOCOL:
            raise BadMessage("PROTOCOL expected")
        reader.until_zero()
        self.driver = reader.until_zero().decode(errors="replace")

    def _data_types(self) -> bytes:
        entries = self._read_data_types(FieldReader(bytes(self._message)))
        self._step = self._logon_one
        reply = self._data(data_types_reply(entries))
        self._ends_responses = self._level.has_end_of_response and self._wants_ends
        return reply

    def _read_data_types(self, reader: FieldReader) -> list[tuple[int, int, int]]:
        """Read the client's capabilities and types, and agree on a field version."""
        if reader.byte() != calls.DATA_TYPES:
            raise BadMessage("DATA_TYPES expected")
        reader.raw(4)
        self._counts_texts = bool(reader.byte() & COUNTED_TEXTS)
        capabilities = reader.raw(reader.byte())
        runtime = reader.raw(reader.byte())
        if len(capabilities) < 38 or len(runtime) < 2:
            raise BadMessage("the client's capabilities are too short")
        self._field_version = min(capabilities[7], self._level.field_version)
        if len(runtime) <= 6 or not runtime[6] & LONG_TEXTS:
            self._longest_text = calls.LONGEST_SHORT_TEXT
        if runtime[1] & 1:
            reader.raw(11)
            if capabilities[37] & 2:
                reader.raw(4)
        self._wants_ends = len(capabilities) > 40 and bool(capabilities[40] & END_OF_RESPONSE_WANTED)
        entries = read_types(reader)
        self._compresses_scales = any(number == SMALL_INTEGER and form == UNIVERSAL for number, _, form in entries)
        return entries

    def _fast_auth(self, reader: FieldReader) -> bytes:
        reader.raw(4)
        self._read_protocol(reader)
        reader.raw(5)
        logon_version = reader.byte()
        entries = self._read_data_types(reader)
        self._ends_responses = self._level.has_end_of_response and self._wants_ends
        _, call = CallReader(replace(self._layout(), field_version=logon_version), no_facts).read(reader)
        first = self._first_logon(call)
        return self._packets(protocol_reply(self._level) + data_types_reply(entries) + first)

    def _logon_one(self) -> bytes:
        _, call = self._reader().read(FieldReader(bytes(self._message)))
        return self._packets(self._first_logon(call))

    def _layout(self) -> Layout:
        return Layout(self._field_version, self._counts_texts, self._compresses_scales, self._longest_text)

    def _reader(self) -> CallReader:
        return CallReader(self._layout(), self._statements.facts if self._statements is not None else no_facts)

    def _first_logon(self, call: calls.Call) -> bytes:
        if not isinstance(call, LogonCall) or call.second:
            raise BadMessage("the first call of the login expected")
        self._user = call.user.strip('"').upper()
        password = self._options.users.get(self._user)
        secret = password if password is not None else self._options.random(16).hex()
        self._challenge = Challenge(secret.encode(), self._options.random(96))
        self._step = self._logon_two
        return logon_reply(self._challenge.first_reply()) + completion_reply(Completion(), self._dialogue())

    def _logon_two(self) -> bytes:
        _, call = self._reader().read(FieldReader(bytes(self._message)))
        challenge = self._challenge
        if not isinstance(call, LogonCall) or not call.second or challenge is None:
            raise BadMessage("the second call of the login expected")
        if not challenge.is_proved_by(call.pairs):
            self.closed = True
            return self._packets(completion_reply(DENIED, self._dialogue()))
        self._statements = StatementCalls(self._database, self._user)
        self._step = self._calls
        pairs = session_pairs(challenge.server_proof(), self._level, self._options.services[0])
        return self._packets(logon_reply(pairs) + completion_reply(Completion(), self._dialogue()))

    def _calls(self) -> bytes:
        """Run the piggybacks and the call of one message."""
        requests = self._read_calls()
        for request in requests[:-1]:
            self._piggyback(request)
        answer = self._answer(requests[-1])
        return packets.marker(packets.BREAK) if self._broken_by is not None else self._packets(answer)

    def _read_calls(self) -> list[calls.Call]:
        assert self._statements is not None
        facts, reader = self._statements.facts, self._reader()

        def all_sent(sql: str, cursor: int) -> calls.StatementFacts:
            return replace(facts(sql, cursor), unsent=frozenset())

        try:
            found = read_calls(bytes(self._message), reader)
        except BadMessage:
            # Some clients send a value for each variable behind RETURNING … INTO, others none.
            reader = CallReader(self._layout(), all_sent)
            found = read_calls(bytes(self._message), reader)
        self._sequence = reader.sequence
        return found

    def _piggyback(self, call: calls.Call) -> None:
        assert self._statements is not None
        if isinstance(call, calls.CloseCall):
            self._statements.close(call.cursors)
        elif isinstance(call, calls.LobCall):
            self._statements.large_objects.operate(call)

    def _answer(self, call: calls.Call) -> bytes:
        statements = self._statements
        assert statements is not None
        statements.dialogue = self._dialogue()
        try:
            match call:
                case calls.ExecuteCall():
                    reply, completion = statements.execute(call)
                case calls.FetchCall():
                    reply, completion = statements.fetch(call)
                case calls.LobCall():
                    reply, completion = statements.large_objects.operate(call), Completion()
                case calls.PlainCall():
                    return self._plain(call.function)
                case _:
                    raise BadMessage(f"{type(call).__name__} is not a call with a response")
        except SqlError as error:
            failed = Completion(error.code, f"{error}\n", position=error.position, rows=error.rows)
            self._broken_by = failed if self._options.breaks_on_errors else None
            return completion_reply(failed, self._dialogue())
        return reply + completion_reply(completion, self._dialogue())

    def _plain(self, function: int) -> bytes:
        statements = self._statements
        assert statements is not None
        match function:
            case calls.COMMIT:
                statements.session.commit()
            case calls.ROLLBACK:
                statements.session.rollback()
            case calls.VERSION:
                return version_reply(self._level, self._counts_texts) + status_reply(self._dialogue())
        return status_reply(self._dialogue())


def read_calls(message: bytes, call_reader: CallReader) -> list[calls.Call]:
    """Read piggybacks and the call behind them. Raises Incomplete and BadMessage."""
    reader = FieldReader(message)
    found: list[calls.Call] = []
    is_piggyback = True
    while is_piggyback:
        is_piggyback, call = call_reader.read(reader)
        found.append(call)
    if reader.remaining():
        raise BadMessage(f"{reader.remaining()} bytes behind a call of type {type(found[-1]).__name__}")
    return found


def no_facts(_sql: str, _cursor: int) -> calls.StatementFacts:
    return calls.StatementFacts()


def read_types(reader: FieldReader) -> list[tuple[int, int, int]]:
    """Read the types that a client offers. Some clients put the national character set in front."""
    entries = []
    number = reader.uint16()
    if number > HIGHEST_TYPE:
        number = reader.uint16()
    while number:
        converted = reader.uint16()
        representation = 0
        if converted:
            representation = reader.uint16()
            reader.raw(2)
        entries.append((number, converted, representation))
        number = reader.uint16()
    return entries


def session_pairs(proof: str, level: ServerLevel, service: str) -> list[tuple[str, str, int]]:
    values = {
        "AUTH_VERSION_STRING": f"- {level.banner}",
        "AUTH_VERSION_SQL": "25",
        "AUTH_XACTION_TRAITS": "3",
        "AUTH_VERSION_NO": str(level.number),
        "AUTH_VERSION_STATUS": "0",
        "AUTH_CAPABILITY_TABLE": "",
        "AUTH_LAST_LOGIN": "",
        "AUTH_DBNAME": service,
        "AUTH_SESSION_ID": "101",
        "AUTH_SERIAL_NUM": "7",
        "AUTH_INSTANCE_NO": "1",
        "AUTH_INSTANCENAME": "orcl",
        "AUTH_NLS_LXLAN": "AMERICAN",
        "AUTH_NLS_LXCTERRITORY": "AMERICA",
        "AUTH_MAX_OPEN_CURSORS": "300",
        "AUTH_MAX_IDEN_LENGTH": "128",
        "AUTH_SC_SERVICE_NAME": service,
        "AUTH_SC_DBUNIQUE_NAME": "orcl",
        "AUTH_SC_DB_DOMAIN": "",
        "AUTH_SVR_RESPONSE": proof,
    }
    return [(key, value, 0) for key, value in values.items()]
