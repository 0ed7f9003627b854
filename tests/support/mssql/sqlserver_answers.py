"""Events of the engine as tokens of an answer. The last DONE says that nothing follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.support.mssql import sqlserver_tokens as tokens
from tests.support.mssql.engine_events import (
    DatabaseChanged,
    ProcedureReturned,
    SqlEvent,
    SqlMessage,
    SqlResult,
    SqlRow,
    StatementRan,
    TransactionFinished,
    TransactionStarted,
)
from tests.support.mssql.sqlserver_errors import SqlError
from tests.support.mssql.sqlserver_packets import TdsAnswer
from tests.support.mssql.sqlserver_types import SqlColumn

_ROWS_BETWEEN_LOOKS: Final = 50  # at what the client sends meanwhile
_OTHER_COMMAND: Final = 0xFD
_NO_TRANSACTION: Final = bytes(8)


@dataclass
class TransactionState:
    """The descriptor of a session's transaction; zero without one."""

    descriptor: bytes = _NO_TRANSACTION
    _count: int = 0

    def begin(self) -> bytes:
        self._count += 1
        self.descriptor = self._count.to_bytes(4, "little") + b"\x01\0\0\0"
        return self.descriptor

    def end(self) -> bytes:
        old, self.descriptor = self.descriptor, _NO_TRANSACTION
        return old


@dataclass
class AnswerWriter:
    """Writes one answer. `done_token` is DONE in batches and DONEINPROC in procedures."""

    answer: TdsAnswer
    version: int
    transaction: TransactionState
    interrupted: Callable[[], bool]
    no_count: Callable[[], bool]
    done_token: int = tokens.DONE
    no_metadata: bool = False
    status: int | None = None  # that a procedure has returned
    failed: bool = False
    fatal: bool = False  # an error of a severity that ends the connection
    _waiting: tuple[int, int, int | None, int] | None = None
    _columns: list[SqlColumn] = field(default_factory=list)

    def write_all(self, events: Iterable[SqlEvent]) -> None:
        """Write events until the client interrupts them. Raises SqlError from where they come."""
        for count, event in enumerate(events):
            self._write(event)
            if count % _ROWS_BETWEEN_LOOKS == 0 and self.interrupted():
                return

    def _write(self, event: SqlEvent) -> None:
        if isinstance(event, SqlRow):
            try:
                self.answer.write(tokens.row(self._columns, event.values, self.version))
            except SqlError as error:
                self.message(error)
        elif isinstance(event, SqlResult):
            self._columns = list(event.columns)
            self.token(b"\x81\xff\xff" if self.no_metadata else tokens.columns(self._columns, self.version))
        elif isinstance(event, StatementRan):
            self._statement_ran(event)
        elif isinstance(event, ProcedureReturned):
            self.status = event.status
        elif isinstance(event, SqlMessage):
            self.message(event.error)
        elif isinstance(event, DatabaseChanged):
            self.token(tokens.text_change(1, event.new, event.old))
            self.message(SqlError(5701, f"Changed database context to '{event.new}'.", 0))
        elif isinstance(event, TransactionStarted):
            self.token(tokens.transaction_begun(self.transaction.begin()))
        elif isinstance(event, TransactionFinished):
            self.token(tokens.transaction_ended(self.transaction.end(), committed=event.committed))

    def _statement_ran(self, event: StatementRan) -> None:
        in_procedure = self.done_token == tokens.DONEINPROC
        if event.silent or (event.count is None and not event.failed and in_procedure):
            return
        count = None if self.no_count() and not self._columns else event.count
        self.done(self.done_token, tokens.ERROR if event.failed else 0, count, event.command)
        self._columns = []

    def message(self, error: SqlError) -> None:
        self.failed = self.failed or error.severity > 10
        self.fatal = self.fatal or error.severity >= 20
        self.token(tokens.message(error, self.version))

    def token(self, data: bytes) -> None:
        self._flush()
        self.answer.write(data)

    def done(self, token: int, status: int, count: int | None, command: int = _OTHER_COMMAND) -> None:
        """Write a DONE once it is known whether anything follows."""
        self._flush()
        self._waiting = token, status, count, command

    def _flush(self, more: int = tokens.MORE) -> None:
        if self._waiting is not None:
            token, status, count, command = self._waiting
            self._waiting = None
            if self.transaction.descriptor != _NO_TRANSACTION:
                status |= tokens.IN_TRANSACTION
            self.answer.write(tokens.done(token, status | more, count, self.version, command))

    def end(self, *, interrupted: bool = False) -> None:
        """End the answer. One that an attention has interrupted ends with an error."""
        if interrupted:
            self.done(tokens.DONE, tokens.ERROR, None)
        elif self._waiting is None:
            self.done(tokens.DONE, 0, None)
        self._flush(0)
        self.answer.end()
