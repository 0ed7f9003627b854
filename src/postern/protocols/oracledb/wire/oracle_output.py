"""Answers outside of rows: errors, warnings, data of LOBs, and the errors by which the gateway refuses."""

from __future__ import annotations

import re
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import MAX_ROWS, Channel, Completed, Output
from postern.interception.verdicts import Refuse
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_lobs import as_text, from_text
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader, pack_clr, pack_number
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

_MAX_ERRORS: Final = 65_535
_PREFIX: Final = re.compile(r"[A-Z]{3,4}-\d{5}: ?")


class TtcError:
    """An ERROR message, which ends an answer; without an error if `number` is 0.

    `texts` are those of errors of single rows of an array of binds, and its own one last. `spans` tells where each
    begins and ends.
    """

    __slots__ = ("cursor", "number", "rows", "sequence", "spans", "status", "texts")

    def __init__(self) -> None:
        self.status = 0
        self.sequence = 0
        self.cursor = 0
        self.number = 0
        self.rows = 0
        self.texts: list[bytes] = []
        self.spans: list[tuple[int, int]] = []

    def add_text(self, reader: TtcReader) -> None:
        start = int(reader.pos)
        self.texts.append(reader.clr() or b"")
        self.spans.append((start, int(reader.pos)))


def read_error(reader: TtcReader, layout: TtcLayout) -> TtcError:
    """Read an ERROR after its type."""
    error = TtcError()
    error.status = reader.ub4()
    reader.ub2()  # sequence number
    reader.ub4()  # row
    for _ in range(3):  # error, and two about arrays
        reader.ub2()
    error.cursor = reader.ub2()
    reader.sb2()  # position
    reader.ub1()  # type of statement
    for _ in range(3):  # fatal, flags, options of the cursor
        reader.sb1(layout.packed_sb1)
    reader.ub1()
    reader.ub1()  # warnings
    reader.ub4()  # a row identifier
    reader.ub2()
    reader.ub1()
    reader.ub4()
    reader.ub2()
    reader.sb4()  # error of the operating system
    reader.ub1()
    error.sequence = reader.ub1()
    reader.ub2()
    reader.ub4()
    reader.skip_dlc()  # logical row identifier
    _read_row_errors(reader, error)
    error.number = reader.ub4()
    error.rows = reader.ub8()
    if error.number:
        error.add_text(reader)
    return error


def _read_row_errors(reader: TtcReader, error: TtcError) -> None:
    """Read the errors of single rows of an array of binds: their numbers, rows and texts."""
    for is_row in (False, True):
        count = reader.ub4() if is_row else reader.ub2()
        if count > _MAX_ERRORS:
            raise ProtocolViolation(f"the target reports {count} errors at once")
        if not count:
            continue
        in_chunks = reader.ub1() == 254
        for _ in range(count):
            if in_chunks:
                reader.ub4()
            if is_row:
                reader.ub4()
            else:
                reader.ub2()
        if in_chunks:
            reader.ub1()
    count = reader.ub2()
    if count:
        reader.ub1()
        for _ in range(count):
            reader.ub2()
            error.add_text(reader)
            reader.skip(2)


def encode_error(number: int, text: str, sequence: int, status: int = 0) -> bytes:
    """Encode an ERROR of the gateway's own; number 0 is the end of an answer without an error. `sequence` is that of
    the call, without which some clients do not accept the answer."""
    short = number if number < 1 << 16 else 0
    head = (pack_number(status), b"\0\0", pack_number(short), bytes(3))
    # position, type, fatal, flags, options, parameter, warning; the row identifier; and what follows up to the number
    middle = bytes(7) + bytes(5) + bytes((0, 0, sequence)) + bytes(2) + bytes(1) + bytes(3)
    end = pack_clr(text.encode()) if number else b""
    return b"".join([bytes((c.ERROR,)), *head, middle, pack_number(number), b"\0", end])


def refusal_text(number: int, message: str, hint: str = "") -> str:
    """Return the text of an error as clients show it."""
    return f"ORA-{number:05d}: {message}" + (f"\n{hint}" if hint else "") + "\n"


def refusal_error(refusal: Refuse, sequence: int, status: int) -> bytes:
    """Encode the error for a refusal: that of a missing privilege. It does not end the connection."""
    text = refusal_text(c.INSUFFICIENT_PRIVILEGES, refusal.message, refusal.hint)
    return encode_error(c.INSUFFICIENT_PRIVILEGES, text, sequence, status)


class OracleErrorText(Output):
    """An ERROR with texts, which can quote data. `_refusal` is what is sent instead of it, if anything is."""

    def __init__(self, exchange: int, data: bytes, error: TtcError) -> None:
        """`data` is the whole message; the places in `error` are within it."""
        self.exchange = exchange
        self.channel = Channel.ERROR
        self._data = data
        self._error = error
        self._texts = error.texts
        self._number = error.number
        self._refusal = b""

    @property
    def labels(self) -> tuple[str, ...]:
        return (*["message"] * len(self._texts), "errno")

    def texts(self) -> list[bytes]:
        return [*self._texts, b"%d" % self._number]

    def replace(self, texts: list[bytes]) -> None:
        """Replace the texts, and the number: code of the target can have chosen both."""
        if len(texts) != len(self._texts) + 1:
            raise ValueError(f"{len(texts)} texts given for an error that holds {len(self._texts) + 1}")
        *self._texts, number = texts
        if number != b"%d" % self._error.number:
            self._number = int(number)
            text = refusal_text(self._number, self._texts[-1].decode("utf-8", "replace"))
            self._refusal = encode_error(self._number, text, self._error.sequence, self._error.status)

    def become(self, refusal: Refuse) -> None:
        self._texts = [refusal.message.encode()] * len(self._texts)
        self._number = c.INSUFFICIENT_PRIVILEGES
        self._refusal = refusal_error(refusal, self._error.sequence, self._error.status)

    def make_completed_event(self, tag: str) -> Completed:
        """Return the completion of the exchange with the text as the client gets it."""
        number = self._number
        if not number:
            return Completed(self.exchange, tag, min(self._error.rows, MAX_ROWS))
        text = self._texts[-1].decode("utf-8", "replace").rstrip()
        return Completed(self.exchange, tag, None, f"ORA-{number:05d}", _PREFIX.sub("", text, count=1))

    def encode(self) -> bytes:
        if self._refusal:
            return self._refusal
        if self._texts == self._error.texts:
            return self._data
        out: list[bytes] = []
        copied = 0
        for (start, end), text in zip(self._error.spans, self._texts, strict=True):
            out += [self._data[copied:start], pack_clr(text)]
            copied = end
        return b"".join([*out, self._data[copied:]])


class OracleWarning(Output):
    """A WARNING, such as that a password expires or a procedure does not compile."""

    def __init__(self, exchange: int, number: int, flags: int, text: bytes, *, is_counted: bool) -> None:
        self._is_counted = is_counted
        self.exchange = exchange
        self.channel = Channel.NOTICE
        self._number = number
        self._flags = flags
        self._text = text

    @property
    def labels(self) -> tuple[str, ...]:
        return ("message",)

    def texts(self) -> list[bytes]:
        return [self._text]

    def replace(self, texts: list[bytes]) -> None:
        (self._text,) = texts

    def become(self, refusal: Refuse) -> None:
        self._text = refusal.message.encode()

    def encode(self) -> bytes:
        text = self._text or b" "
        numbers = (self._number, len(text), self._flags)
        encoded = pack_clr(text) if self._is_counted else text
        return bytes((c.WARNING,)) + b"".join([pack_number(number) for number in numbers]) + encoded


class LobText(Output):
    """Data of a LOB that the client has read. `codec` is that of a CLOB; a BLOB has none, and is shown as it is."""

    def __init__(self, exchange: int, data: bytes, codec: str, *, is_length: bool = False) -> None:
        """`is_length`: `data` is the length as text, and nothing is sent for it."""
        self.exchange = exchange
        self.channel = Channel.COPY
        self.is_length = is_length
        self._data = data
        self._codec = codec

    @property
    def has_columns(self) -> bool:
        return True

    def texts(self) -> list[bytes]:
        return [as_text(self._data, self._codec)]

    def replace(self, texts: list[bytes]) -> None:
        (text,) = texts
        if text != as_text(self._data, self._codec):
            self._data = from_text(text, self._codec)

    def encode(self) -> bytes:
        return bytes((c.LOB_DATA,)) + pack_clr(self._data)
