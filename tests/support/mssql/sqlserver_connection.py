"""One client's connection: PRELOGIN, TLS, login, then requests and answers."""

from __future__ import annotations

import re
import socket
import ssl
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.mssql import sqlserver_login as login
from tests.support.mssql import sqlserver_packets as packets
from tests.support.mssql import sqlserver_requests as requests
from tests.support.mssql import sqlserver_tokens as tokens
from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_events import SqlEvent
from tests.support.mssql.engine_queries import store_bulk
from tests.support.mssql.engine_runner import BatchRunner
from tests.support.mssql.engine_session import EngineSession, Interrupted
from tests.support.mssql.sqlserver_answers import AnswerWriter, TransactionState
from tests.support.mssql.sqlserver_collations import DEFAULT
from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_packets import TdsAnswer, TdsClosed, TdsMessage, TdsStream
from tests.support.mssql.sqlserver_requests import BadRequest, TdsInput
from tests.support.mssql.sqlserver_rpc import RpcCalls

_UTF8_SUPPORT: Final = 0x0A
_BULK: Final = re.compile(r"\s*INSERT\s+BULK\s+([^\s(]+).*", re.IGNORECASE | re.DOTALL)
OPTIONAL, REQUIRED, UNAVAILABLE = "optional", "required", "unavailable"


@dataclass
class SqlServerSettings:
    """How the server behaves. `routed` sends clients on to another host and port."""

    folder: Path
    users: dict[str, str]
    database: str = "shop"
    encryption: str = OPTIONAL
    tls: ssl.SSLContext | None = None
    strict_tls: ssl.SSLContext | None = None
    routed: tuple[str, int] | None = None
    newest: int = t.V74
    log: Path | None = None

    def note(self, line: str) -> None:
        """Write a line about what clients do, for tests to read."""
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(line + "\n")


@dataclass
class TdsConnection:
    settings: SqlServerSettings
    connection: socket.socket
    number: int
    stream: TdsStream = field(init=False)
    version: int = t.V74
    transaction: TransactionState = field(default_factory=TransactionState)
    _bulk: str = ""

    def __post_init__(self) -> None:
        self.stream = TdsStream(self.connection)

    def serve(self) -> None:
        """Serve the client until it is gone."""
        try:
            said = self._log_in()
            if said is not None:
                self._serve(said)
        except (TdsClosed, OSError) as error:
            self.settings.note(f"{self.number} closed: {error}")
        except BadRequest as error:
            self.settings.note(f"{self.number} bad request: {error}")
        finally:
            self.connection.close()

    # -- Login -------------------------------------------------------------------------------------------------------

    def _log_in(self) -> login.TdsLogin | None:
        stream, settings = self.stream, self.settings
        strict = stream.peek() == 0x16
        if strict:
            if settings.strict_tls is None:
                raise TdsClosed("TLS first, without a certificate")
            stream.start_tls(settings.strict_tls, in_packets=False)
        message = stream.read_message()
        if message.kind != packets.PRELOGIN:
            raise BadRequest(f"a connection begins with a packet of type {message.kind}")
        options = login.read_prelogin(message.body)
        asked = options.get(login.ENCRYPTION, b"\x02")[0] & 0x0F
        answer = login.NOT_SUPPORTED if strict else self._encryption(asked)
        self._answer(login.write_prelogin(options, answer))
        encrypted = not strict and login.NOT_SUPPORTED not in (asked, answer)
        if encrypted:
            assert settings.tls is not None
            stream.start_tls(settings.tls, in_packets=True)
        elif answer == login.REQUIRED:
            raise TdsClosed("the client cannot encrypt")
        only_login = asked == answer == login.OFF
        message = stream.read_message(first_packet_encrypted=encrypted and only_login)
        if encrypted and only_login:
            stream.stop_tls()
        if message.kind != packets.LOGIN7:
            raise BadRequest(f"a packet of type {message.kind} where LOGIN7 was due")
        said = login.read_login(message.body)
        names = {login.OFF: "login", login.NOT_SUPPORTED: "none"}
        how = "strict" if strict else names.get(answer, "all") if encrypted else "none"
        settings.note(
            f"{self.number} login user={said.user} tds={said.version:08x} encryption={how} packet={said.packet_size}"
        )
        self.version = said.version if said.version in (t.V80,) else min(said.version, settings.newest)
        return said if self._accept(said) else None

    def _encryption(self, asked: int) -> int:
        """Answer what the client asks of encryption (MS-TDS 2.2.6.5)."""
        mode = self.settings.encryption if self.settings.tls is not None else UNAVAILABLE
        if mode == UNAVAILABLE:
            return login.NOT_SUPPORTED
        if mode == REQUIRED:
            return login.ON if asked in (login.ON, login.REQUIRED) else login.REQUIRED
        return {login.OFF: login.OFF, login.NOT_SUPPORTED: login.NOT_SUPPORTED}.get(asked, login.ON)

    def _answer(self, data: bytes) -> None:
        answer = TdsAnswer(self.stream, spid=self.number)
        answer.write(data)
        answer.end()

    def _accept(self, said: login.TdsLogin) -> bool:
        error = None
        if said.integrated:
            error = SqlError(18452, "Login failed. The login is from an untrusted domain.", 14)
        elif self.settings.users.get(said.user) != said.password:
            error = SqlError(18456, f"Login failed for user '{said.user}'.", 14)
        database = said.database or self.settings.database
        if error is None and not (self.settings.folder / f"{database}.db").exists():
            text = f'Cannot open database "{database}" requested by the login. The login failed.'
            error = SqlError(4060, text, 11)
        if error is not None:
            refused = tokens.message(error, self.version) + tokens.done(
                tokens.DONE, tokens.ERROR, None, self.version, 0
            )
            self._answer(refused)
            return False
        self._answer(self._welcome(said, database))
        return True

    def _welcome(self, said: login.TdsLogin, database: str) -> bytes:
        version = self.version
        size = min(max(said.packet_size or 4096, 512), 32767)
        parts = [
            tokens.text_change(1, database, "master"),
            tokens.message(SqlError(5701, f"Changed database context to '{database}'.", 0, 2), version),
            tokens.collation_change(DEFAULT),
            tokens.text_change(2, "us_english", ""),
            tokens.message(SqlError(5703, "Changed language setting to us_english.", 0), version),
            tokens.login_ack(version),
            tokens.text_change(4, str(size), "4096"),
        ]
        if self.settings.routed is not None:
            parts.append(tokens.routing(*self.settings.routed))
        if _UTF8_SUPPORT in said.features:
            parts.append(tokens.features({_UTF8_SUPPORT: b"\x01"}))
        self.stream_size = size
        return b"".join(parts) + tokens.done(tokens.DONE, 0, None, version, 0)

    # -- Requests ----------------------------------------------------------------------------------------------------

    def _serve(self, said: login.TdsLogin) -> None:
        self.stream.packet_size = self.stream_size
        database = said.database or self.settings.database
        session = EngineSession(self.settings.folder, said.user, database, self.stream.attention_came)
        session.globals["spid"] = self.number
        try:
            calls = RpcCalls(session)
            while True:
                self._request(self.stream.read_message(), session, calls, database)
        finally:
            session.close()

    def _request(self, message: TdsMessage, session: EngineSession, calls: RpcCalls, database: str) -> None:
        writer = AnswerWriter(
            TdsAnswer(self.stream, spid=self.number),
            self.version,
            self.transaction,
            self.stream.attention_came,
            lambda: session.options.get("NOCOUNT", False),
        )
        if message.kind == packets.ATTENTION:
            self._acknowledge_attention()
            return
        if message.status & packets.IGNORE:
            writer.done(tokens.DONE, tokens.ERROR, None)
            writer.end()
            return
        if message.status & (packets.RESET | packets.RESET_KEEPING_TRANSACTION):
            self._reset(message, session, calls, database, writer)
        try:
            self._dispatch(message, session, calls, writer)
        except SqlError as error:
            writer.message(error)
            writer.done(tokens.DONE, tokens.ERROR, None)
        except Interrupted:
            pass
        except (TdsClosed, BadRequest):
            raise
        except Exception as error:  # of the test server, which its fixture reports
            traceback.print_exc()
            writer.message(SqlError(50_001, f"the test server has failed: {error!r}"))
            writer.done(tokens.DONE, tokens.ERROR, None)
        attention, self.stream.attention_waits = self.stream.attention_waits, False
        writer.end(interrupted=attention)
        if attention:
            self._acknowledge_attention()
        if writer.fatal:
            raise TdsClosed("an error has ended the connection")

    def _acknowledge_attention(self) -> None:
        """Send DONE_ATTN as a message of its own, as SQL Server does: some drivers wait for one."""
        self.settings.note(f"{self.number} attention")
        self._answer(tokens.done(tokens.DONE, tokens.ATTENTION, None, self.version))

    def _reset(
        self, message: TdsMessage, session: EngineSession, calls: RpcCalls, database: str, writer: AnswerWriter
    ) -> None:
        if message.status & packets.RESET and session.globals["trancount"]:
            writer.write_all(BatchRunner(session).roll_back())
        if not session.globals["trancount"]:
            session.reset(database)
        calls.reset()
        writer.token(tokens.session_reset())
        self.settings.note(f"{self.number} reset")

    def _dispatch(self, message: TdsMessage, session: EngineSession, calls: RpcCalls, writer: AnswerWriter) -> None:
        source = TdsInput(message.body)
        if message.kind == packets.BULK:
            names, rows = requests.read_bulk_rows(source, self.version)
            writer.write_all(store_bulk(session, self._bulk, names, rows))
            return
        descriptor = requests.read_headers(source, self.version)
        if descriptor is not None and descriptor != self.transaction.descriptor:
            text = "New request is not allowed to start because it should come with valid transaction descriptor."
            raise SqlError(3989, text)
        if message.kind == packets.BATCH:
            self._batch(requests.read_batch(source), session, writer)
        elif message.kind == packets.RPC:
            for call in requests.read_calls(source, self.version):
                text = next((each.value for each in call.parameters if isinstance(each.value, str)), "")
                self.settings.note(f"{self.number} rpc {call.name} {text[:2000]!r}")
                calls.run(call, writer)
        elif message.kind == packets.TRANSACTION:
            writer.write_all(self._transaction(requests.read_transaction(source), session))
        else:
            raise BadRequest(f"a request of type {message.kind}")

    def _batch(self, text: str, session: EngineSession, writer: AnswerWriter) -> None:
        self.settings.note(f"{self.number} batch {text[:2000]!r}")
        bulk = _BULK.fullmatch(text)
        if bulk is not None:
            self._bulk = bulk.group(1)
            writer.done(tokens.DONE, 0, None)
            return
        writer.write_all(BatchRunner(session).run(text))

    def _transaction(self, request: requests.TransactionRequest, session: EngineSession) -> Iterator[SqlEvent]:
        self.settings.note(f"{self.number} transaction {request.kind}")
        runner = BatchRunner(session)
        if request.kind == requests.BEGIN:
            yield from runner.begin()
        elif request.kind == requests.SAVE:
            yield from runner.save("SAVE TRAN " + request.name)
        elif request.kind == requests.COMMIT:
            yield from runner.commit()
        else:
            yield from runner.roll_back("ROLLBACK TRAN " + request.name)
        if request.begins:
            yield from runner.begin()
