"""Responses outside of rows: messages of the server, refusals (our own errors), and values that procedures return."""

from __future__ import annotations

from typing import Final

from postern.interception.events import Change, Channel, Column, Fill, Output
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_output_variables import output_column
from postern.protocols.mssql.wire.mssql_response_queue import MssqlPendingResponse
from postern.protocols.mssql.wire.mssql_tokens import MessageToken
from postern.protocols.mssql.wire.mssql_types import MssqlType
from postern.protocols.mssql.wire.mssql_value_forms import encode_content
from postern.protocols.mssql.wire.mssql_values import cell_change, fill_value, plain

REFUSED_NUMBER: Final = k.UNKNOWN_ERROR
REFUSED_SEVERITY: Final = 16
FATAL_SEVERITY: Final = 20  # clients close the connection
_MAX_NUMBER: Final = 1 << 31
_MAX_SHORT: Final = 1 << 16
_MAX_BYTE: Final = 1 << 8


def refusal_tokens(refusal: Refuse, wide: bool) -> bytes:
    """Encode an error for a refusal, and the end of the response."""
    text = f"{refusal.message}. {refusal.hint}" if refusal.hint else refusal.message
    return error_tokens(text, wide)


def error_tokens(text: str, wide: bool, number: int = REFUSED_NUMBER, severity: int = REFUSED_SEVERITY) -> bytes:
    return k.encode_message(k.ERROR, number, severity, text, wide) + k.encode_done(k.DONE_ERROR, wide)


def warning_token(warning: Warn, wide: bool) -> bytes:
    """Encode a warning, as PRINT is."""
    text = f"{warning.message}. {warning.hint}" if warning.hint else warning.message
    return k.encode_message(k.INFO, 0, 0, text, wide)


class MssqlOutput(Output):
    """One token of the response that is judged. `is_changed`: it has to be encoded again."""

    def __init__(self, exchange: int, channel: Channel) -> None:
        self.exchange = exchange
        self.channel = channel
        self.is_changed = False

    def encode(self) -> bytes:
        raise NotImplementedError


class ServerMessage(MssqlOutput):
    """ERROR or INFO, whose text can quote data. Statements can choose each of its fields: THROW, RAISERROR, PRINT."""

    def __init__(self, exchange: int, token: MessageToken, wide: bool) -> None:
        super().__init__(exchange, Channel.ERROR if token.code == k.ERROR else Channel.NOTICE)
        self._token = token
        self._wide = wide
        self.number = token.number
        self.severity = token.severity
        self.state = token.state
        self.procedure = token.procedure
        self.line = token.line
        self.text = token.text

    @property
    def labels(self) -> tuple[str, ...]:
        return ("errno", "severity", "state", "procedure", "line", "message")

    def texts(self) -> list[bytes]:
        numbers = (self.number, self.severity, self.state, self.line)
        number, severity, state, line = [b"%d" % each for each in numbers]
        texts = [text.encode("utf-8", "replace") for text in (self.procedure, self.text)]
        return [number, severity, state, texts[0], line, texts[1]]

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != len(self.labels):
            raise ValueError(f"{len(texts)} texts given for a message that holds {len(self.labels)}")
        self.number = _number(texts[0], REFUSED_NUMBER, _MAX_NUMBER)
        self.severity = _number(texts[1], REFUSED_SEVERITY, _MAX_BYTE)
        self.state = _number(texts[2], 1, _MAX_BYTE)
        self.procedure = texts[3].decode("utf-8", "replace")
        self.line = _number(texts[4], 1, _MAX_NUMBER if self._wide else _MAX_SHORT)
        self.text = texts[5].decode("utf-8", "replace")
        self.is_changed = True

    def encode(self) -> bytes:
        token = self._token
        return k.encode_message(
            token.code,
            self.number,
            self.severity,
            self.text,
            self._wide,
            state=self.state,
            server=token.server,
            procedure=self.procedure,
            line=self.line,
        )


def _number(text: bytes, default: int, limit: int) -> int:
    """Return a number below a limit; the default for any other text, such as a mask."""
    number = int(text) if text.isdigit() and len(text) < 11 else limit
    return number if number < limit else default


class ReturnedValue(MssqlOutput):
    """An output parameter, or the value of a function. `head` is all of the token before the value."""

    def __init__(self, exchange: int, column: Column, head: bytes, kind: MssqlType, value: bytes | None) -> None:
        super().__init__(exchange, Channel.FUNCTION)
        self._columns = (column,)
        self._head = head
        self._type = kind
        self._value = value

    @property
    def has_columns(self) -> bool:
        return True

    @property
    def columns(self) -> tuple[Column, ...]:
        return self._columns

    def texts(self) -> list[bytes]:
        return [] if self._value is None else [plain(self._type, self._value)]

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != len(self.texts()):
            raise ValueError(f"{len(texts)} texts given for a value that holds {len(self.texts())}")
        if self._value is None or texts == self.texts():
            return
        self._value = cell_change(self._type, lambda _scalar, _value: texts[0])(self._value)
        self.is_changed = True

    def change_value(self, column: int, by: Change) -> int:
        old = self._value
        if isinstance(by, Fill):
            self._value = fill_value(self._type, by)
        elif old is not None:
            self._value = cell_change(self._type, by)(old)
        self.is_changed = True
        return 0 if old is None else len(old)

    def encode(self) -> bytes:
        return self._head + encode_content(self._type, self._value)


class ReturnedStatus(MssqlOutput):
    """The number that a procedure returned, other than 0. If it is one `of_a_text`, that is the number of an error."""

    def __init__(self, exchange: int, number: int, *, of_a_text: bool) -> None:
        super().__init__(exchange, Channel.ERROR if of_a_text else Channel.FUNCTION)
        self._number = number
        self._of_a_text = of_a_text

    @property
    def has_columns(self) -> bool:
        return not self._of_a_text

    @property
    def labels(self) -> tuple[str, ...]:
        return ("errno",) if self._of_a_text else ()

    def texts(self) -> list[bytes]:
        return [b"%d" % self._number]

    def replace(self, texts: list[bytes]) -> None:
        (text,) = texts
        if text != b"%d" % self._number:
            digits = text.lstrip(b"-")
            number = int(text) if digits.isdigit() and len(digits) < 11 else 0
            self._number = number if -_MAX_NUMBER <= number < _MAX_NUMBER else 0
            self.is_changed = True

    def encode(self) -> bytes:
        return bytes((k.RETURNSTATUS,)) + self._number.to_bytes(4, "little", signed=True)


def return_value_of(response: MssqlPendingResponse, buf: bytes, pos: int, end: int, wide: bool) -> ReturnedValue:
    """Return a RETURNVALUE as an event."""
    name, kind, start = k.read_return_value_type(buf, pos, end, wide)
    kind.is_nullable = kind.form < 0
    column = output_column(response, buf, pos, name, kind, wide)
    returned = k.parse_return_value(buf, pos, end, wide)
    return ReturnedValue(response.exchange, column, buf[pos : int(start)], kind, returned.value)


def is_own_output(response: MssqlPendingResponse, buf: bytes, pos: int, end: int, wide: bool) -> bool:
    """Return whether a RETURNVALUE can be a handle or the like: a number, and not at the place of a variable.

    A server that leaves the handle out, as after an error, would otherwise have a variable taken for it.
    """
    _, kind, _ = k.read_return_value_type(buf, pos, end, wide)
    place = int(t.uint16(buf, pos + 1)) if wide else -1
    return kind.code in (t.INTN, t.INT4) and place not in (response.variables or {})


def handle_number(buf: bytes, pos: int, end: int, wide: bool) -> int | None:
    """Return the handle in a RETURNVALUE; None if it is NULL or no number, as after an error."""
    returned = k.parse_return_value(buf, pos, end, wide)
    if returned.value is None or returned.type.code not in (t.INTN, t.INT4):
        return None
    return int(plain(returned.type, returned.value))
