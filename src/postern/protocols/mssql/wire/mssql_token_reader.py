"""Reading of a server's messages, token by token, for the gateway's own queries, for logins and for recordings. The
wire does not use it.

    TokenReader(wide).feed(payload) ─▶ [ResultColumns, ResultRow, ResultRow, DoneToken, …]

Payloads are those of packets, in order (`TdsPackets`); tokens can span several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_types import Truncated
from postern.protocols.mssql.wire.mssql_value_forms import content
from postern.protocols.mssql.wire.mssql_values import plain


@dataclass(frozen=True, slots=True)
class ResultDescription:
    """A result begins. Its columns are empty if the server did not describe them."""

    columns: tuple[k.MssqlColumn, ...]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row; each cell is a value without lengths, None for NULL."""

    columns: tuple[k.MssqlColumn, ...]
    cells: tuple[bytes | None, ...]

    def texts(self) -> tuple[bytes | None, ...]:
        """Return the cells as text in UTF-8; binary types are their bytes. Raises ProtocolViolation."""
        return tuple(
            [
                None if cell is None else plain(column.type, cell)
                for column, cell in zip(self.columns, self.cells, strict=True)
            ]
        )


@dataclass(frozen=True, slots=True)
class ReturnStatus:
    """The number that a procedure returned."""

    number: int


@dataclass(frozen=True, slots=True)
class OtherToken:
    """Any other token, whole."""

    code: int
    data: bytes


Token = (
    ResultDescription
    | ResultRow
    | ReturnStatus
    | OtherToken
    | k.DoneToken
    | k.MessageToken
    | k.EnvironmentToken
    | k.ReturnValue
    | k.LoginAck
)

MAX_TOKEN: Final = 32 << 20


class TokenReader:
    """The reader: `feed` takes payloads in pieces of any size. `wide`: the layout of TDS 7.2 and later.

    A token of more than `most` bytes is a violation.
    """

    def __init__(self, wide: bool = True, *, most: int = MAX_TOKEN) -> None:
        self.wide = wide
        self._most = most
        self._buffer = bytearray()
        self._need = 1
        self.columns: tuple[k.MssqlColumn, ...] = ()
        self._forms: list[int] = []

    @property
    def rest(self) -> bytes:
        """Return the incomplete token, as far as it has arrived."""
        return bytes(self._buffer)

    def set_columns(self, columns: tuple[k.MssqlColumn, ...]) -> None:
        """Use these columns for rows that follow without a description."""
        self.columns = columns
        self._forms = [column.type.form for column in columns]

    def feed(self, payload: bytes) -> list[Token]:
        """Return the tokens that are complete now. Raises ProtocolViolation."""
        self._buffer += payload
        if len(self._buffer) < self._need:
            return []
        buf = bytes(self._buffer)
        tokens: list[Token] = []
        pos = 0
        while pos < len(buf):
            token, after = self._read(buf, pos)
            if after < 0:
                self._need = -after - pos
                if self._need > self._most:
                    raise ProtocolViolation(f"a token is larger than {self._most} bytes")
                break
            if token is not None:
                tokens.append(token)
            pos = after
        else:
            self._need = 1
        del self._buffer[:pos]
        return tokens

    def _read(self, buf: bytes, pos: int) -> tuple[Token | None, int]:
        code = buf[pos]
        end = len(buf)
        if code == k.COLMETADATA:
            try:
                columns, after = k.read_columns(buf, pos + 1, end, self.wide)
            except Truncated as more:
                return None, -more.need
            if columns is not None:
                self.set_columns(tuple(columns))
            return ResultDescription(tuple(columns or ())), int(after)
        if code in (k.ROW, k.NBCROW):
            row_after = int(k.row_end(buf, pos, end, self._forms))
            return (self._row(buf, pos), row_after) if row_after > 0 else (None, row_after)
        after = k.token_end(buf, pos, end, self.wide)
        return (self._other(buf, pos, int(after)), int(after)) if after > 0 else (None, int(after))

    def _row(self, buf: bytes, pos: int) -> ResultRow:
        starts: list[int] = []
        k.row_starts(buf, pos, self._forms, starts)
        cells: list[bytes | None] = []
        for at, form in enumerate(self._forms):
            start, stop = starts[2 * at], starts[2 * at + 1]
            cells.append(None if start < 0 else content(buf, start, stop, form))
        return ResultRow(self.columns, tuple(cells))

    def _other(self, buf: bytes, pos: int, after: int) -> Token:
        code = buf[pos]
        if code >= k.DONE:
            return k.parse_done(buf, pos, after)
        if code in (k.ERROR, k.INFO):
            return k.parse_message(buf, pos, after)
        if code == k.ENVCHANGE:
            return k.parse_environment(buf, pos, after)
        if code == k.RETURNVALUE:
            return k.parse_return_value(buf, pos, after, self.wide)
        if code == k.LOGINACK:
            return k.parse_login_ack(buf, pos, after)
        if code == k.RETURNSTATUS:
            return ReturnStatus(int.from_bytes(buf[pos + 1 : after], "little", signed=True))
        return OtherToken(code, buf[pos:after])
