"""The cursors of one session: what each number stands for.

A client sends the text of a statement once. The target answers with the number of a cursor, by which the client
executes it again, fetches rows and closes it. Other numbers come out of answers: those of REF CURSORs, implicit results
and cursors in columns. An unknown number is refused, so whatever runs has been judged by its text.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.statement_forms import StatementForm
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn

MAX_CURSORS: Final = 16_384
MAX_TEXTS: Final = 64 << 20  # characters of statements
MAX_LAST_ROW: Final = 4_096  # bytes


class OracleCursor:
    """A statement at the target.

    `began` is the exchange of its last execution. `columns` describe its rows as they come: the target's description,
    or what the client defined instead. `last_row` has the values of the last row as they are on the wire, if they are
    not too large. `is_nested`: it came out of an answer, and its rows belong to the statement that opened it.
    """

    __slots__ = (
        "began",
        "binds",
        "columns",
        "described",
        "directions",
        "form",
        "is_nested",
        "last_row",
        "number",
        "text",
    )

    def __init__(self, text: str, form: StatementForm) -> None:
        self.text = text
        self.form = form
        self.number = 0
        self.began = 0
        self.binds: tuple[OracleColumn, ...] = ()
        self.columns: tuple[OracleColumn, ...] = ()
        self.described: tuple[OracleColumn, ...] = ()
        self.directions: tuple[int, ...] = ()
        self.last_row: tuple[bytes, ...] = ()
        self.is_nested = False

    def define(self, defines: tuple[OracleColumn, ...]) -> None:
        """The client has chosen the types of the columns of the rows to come. Raises ProtocolViolation."""
        if self.described and len(defines) != len(self.described):
            raise ProtocolViolation("the client defines other columns than the result has")
        for place, define in enumerate(defines):
            if self.described:
                define.name = self.described[place].name
                define.type_name = self.described[place].type_name
                define.form = define.form or self.described[place].form
                define.is_null = define.is_null or self.described[place].is_null
        self.columns = defines

    def describe(self, columns: tuple[OracleColumn, ...]) -> None:
        """The target has described the rows to come.

        A column that has become a LOB since the client's last execution comes as LONG, as the client expects a text.
        """
        for old, new in zip(self.columns, columns, strict=False):
            if new.type == c.CLOB and old.type in (c.VARCHAR, c.CHAR, c.LONG):
                new.type = c.LONG
            elif new.type == c.BLOB and old.type in (c.RAW, c.LONG_RAW):
                new.type = c.LONG_RAW
        self.described = self.columns = columns

    def keep_last(self, row: tuple[bytes, ...]) -> None:
        self.last_row = row if sum([len(value) for value in row]) <= MAX_LAST_ROW else ()

    @property
    def size(self) -> int:
        return len(self.text) + 64


class OracleCursors:
    """The cursors that the target has, by number."""

    __slots__ = ("_cursors", "_size")

    def __init__(self) -> None:
        self._cursors: dict[int, OracleCursor] = {}
        self._size = 0

    def find(self, number: int) -> OracleCursor | None:
        return self._cursors.get(number)

    def store(self, number: int, cursor: OracleCursor) -> None:
        """The target gave that cursor this number."""
        if self._cursors.get(number) is cursor:
            return
        self.forget(number)
        self._size += cursor.size
        if len(self._cursors) >= MAX_CURSORS or self._size > MAX_TEXTS:
            raise ProtocolViolation("the session has more open cursors than the gateway can follow")
        cursor.number = number
        self._cursors[number] = cursor

    def forget(self, number: int) -> None:
        cursor = self._cursors.pop(number, None)
        if cursor is not None:
            self._size -= cursor.size
