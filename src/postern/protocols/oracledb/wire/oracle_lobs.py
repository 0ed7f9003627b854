"""Large objects: where the locator of each came from, and the data that comes with it or is read by it.

A client reads a large object by a locator that an answer had. The gateway remembers the column of each, so that rules
about columns decide about its data as they do about a value in a row. A locator that was not in an answer, or not in
one of the last, has no known column.

Which values a locator stands for can change only for a temporary large object: code of the target writes to it, or the
target frees it and uses the locator again. So temporary ones are forgotten when another statement runs, and any locator
that is bound is.
"""

from __future__ import annotations

from typing import Final

from postern.interception.events import Change, Column, Rows, TextKind
from postern.interception.verdicts import Refuse
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader, pack_clr, pack_number
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn

MAX_LOCATORS: Final = 16_384
_LENGTH: Final = 40  # bytes of a locator, where several come in a row
_ABSTRACT, _TEMPORARY = 0x40, 0x01  # flags of a locator
_VARIABLE_CHARSET, _LITTLE_ENDIAN = 0x80, 0x40

HIDDEN: Final = Refuse(
    "masking",
    "this large object is masked as a whole: its column is masked, or a value in it becomes NULL",
    "Select the other columns.",
)


def codec_of_lob(locator: bytes) -> str:
    """Return Python's name of the encoding of a LOB's data; empty for one that has none."""
    if len(locator) < 8 or locator[4] & 1:
        return ""
    if not locator[6] & _VARIABLE_CHARSET:
        return "utf-8"
    return "utf-16-le" if locator[7] & _LITTLE_ENDIAN else "utf-16-be"


def _is_temporary(locator: bytes) -> bool:
    return len(locator) < 8 or bool(locator[4] & _ABSTRACT or locator[7] & _TEMPORARY)


class LobOrigin:
    """The column of a locator: its place in a result with these columns. `text` is the statement, `began` the exchange
    that it ran in."""

    __slots__ = ("began", "columns", "place", "text")

    def __init__(self, text: str, began: int, columns: tuple[Column, ...], place: int) -> None:
        self.text = text
        self.began = began
        self.place = place
        column = columns[place]
        self.columns = (*columns[:place], Column(column.name, TextKind.TEXT), *columns[place + 1 :])


class OracleLocators:
    """The locators that the client has got, the oldest of which are forgotten."""

    __slots__ = ("_stored", "_temporary")

    def __init__(self) -> None:
        self._stored: dict[bytes, LobOrigin] = {}
        self._temporary: dict[bytes, LobOrigin] = {}

    def _of_kind(self, locator: bytes) -> dict[bytes, LobOrigin]:
        return self._temporary if _is_temporary(locator) else self._stored

    def find(self, locator: bytes) -> LobOrigin | None:
        return self._of_kind(locator).get(locator)

    def store(self, locator: bytes, origin: LobOrigin) -> None:
        """The target sent a locator. What it stood for before is void."""
        origins = self._of_kind(locator)
        origins.pop(locator, None)
        origins[locator] = origin
        if len(origins) > MAX_LOCATORS:
            del origins[next(iter(origins))]

    def replace(self, old: bytes, new: bytes) -> None:
        """The target returned a locator for the one that it was sent."""
        origin = self.find(old)
        if origin is not None:
            self.store(new, origin)
        else:
            self._of_kind(new).pop(new, None)

    def forget(self, locators: bytes) -> None:
        """Forget a locator, or several in a row."""
        for locator in (locators, *[locators[at : at + _LENGTH] for at in range(0, len(locators), _LENGTH)]):
            self._of_kind(locator).pop(locator, None)

    def forget_temporary(self) -> None:
        self._temporary.clear()


class LobChunks:
    """Data of a LOB that arrives in chunks, each after its length. It is collected, or passes as it arrives. `left` are
    the bytes of a chunk that have not arrived, and `size` those of all chunks."""

    __slots__ = ("_parts", "is_open", "left", "size")

    def __init__(self) -> None:
        self.is_open = False
        self.left = 0
        self.size = 0
        self._parts: list[bytes] | None = None

    @property
    def is_collected(self) -> bool:
        return self._parts is not None

    def open(self, *, is_collected: bool) -> None:
        self.is_open = True
        self.left = 0
        self.size = 0
        self._parts = [] if is_collected else None

    def begin(self, size: int) -> None:
        """Begin a chunk."""
        self.left = size
        self.size += size

    def collect(self, part: bytes) -> None:
        if self._parts is not None:
            self._parts.append(part)

    def discard(self) -> None:
        """Stop to collect: the rest is not wanted."""
        self._parts = None

    def close(self) -> bytes | None:
        """Return the data if it was collected."""
        self.is_open = False
        parts, self._parts = self._parts, None
        return None if parts is None else b"".join(parts)


class LobValue:
    """A value of a row that is a LOB: `data` is the beginning of it, which came with the locator; None without."""

    __slots__ = ("_end", "_start", "_value", "codec", "data", "locator")

    def __init__(self, value: bytes, column: OracleColumn) -> None:
        reader = TtcReader(value)
        self._value = value
        self._start = self._end = 0
        self.data: bytes | None = None
        self.locator = b""
        if reader.ub4():
            if column.type in (c.JSON, c.VECTOR):
                reader.ub8()
                reader.ub4()
                reader.skip_clr()
            elif column.has_lob_size and column.type != c.BFILE:
                self._read_beginning(reader, column)
            self.locator = reader.clr() or b""
        self.codec = codec_of_lob(self.locator)

    def _read_beginning(self, reader: TtcReader, column: OracleColumn) -> None:
        reader.ub8()
        reader.ub4()
        if not column.prefetch:
            return
        if column.type == c.CLOB:
            if reader.ub1():
                reader.ub2()
            reader.ub1()
        self._start = int(reader.pos)
        self.data = reader.clr() or b""
        self._end = int(reader.pos)

    @property
    def text(self) -> bytes | None:
        """Return the beginning as text: in UTF-8, or as it is for a BLOB."""
        return None if self.data is None else as_text(self.data, self.codec)

    def with_text(self, text: bytes) -> bytes:
        """Return the value with another beginning. Its size covers that: clients expect the whole if they have it."""
        assert self.data is not None
        data = from_text(text, self.codec)
        reader = TtcReader(self._value)
        indicator = reader.ub4()
        size = reader.ub8()
        after_size = int(reader.pos)
        size = max(size - _length(self.data, self.codec), 0) + _length(data, self.codec)
        head = pack_number(indicator) + pack_number(size) + self._value[after_size : self._start]
        return head + pack_clr(data) + self._value[self._end :]


def _length(data: bytes, codec: str) -> int:
    """Return the length in the units of a LOB: characters of UTF-16, or bytes without an encoding."""
    return len(data if not codec else from_text(as_text(data, codec), "utf-16-be")) // (2 if codec else 1)


def as_text(data: bytes, codec: str) -> bytes:
    """Return data of a LOB as interceptors see it: in UTF-8, or as it is without an encoding."""
    return data if codec in ("", "utf-8") else data.decode(codec, "replace").encode("utf-8", "replace")


def from_text(text: bytes, codec: str) -> bytes:
    return text if codec in ("", "utf-8") else text.decode("utf-8", "replace").encode(codec, "replace")


class LobRows(Rows):
    """Data of a LOB, or its length, as a part of a row of the result that its locator came from. The row has been
    counted. It cannot be changed as a whole: a client chooses the part that it reads."""

    def __init__(self, exchange: int, origin: LobOrigin, data: bytes, codec: str, *, is_length: bool = False) -> None:
        """`is_length`: `data` is the length as text, and nothing is sent for it."""
        self.exchange = exchange
        self.columns = origin.columns
        self.count = 1
        self.is_hidden = False
        self._origin = origin
        self._codec = codec
        self._data = data
        self.is_length = is_length

    @property
    def began(self) -> int:
        return self._origin.began

    @property
    def counted(self) -> int:
        return 0

    def texts(self, column: int) -> list[bytes]:
        return [as_text(self._data, self._codec)] if column == self._origin.place else []

    def replace(self, column: int, texts: list[bytes]) -> None:
        if column == self._origin.place and texts[0] != as_text(self._data, self._codec):
            self._data = from_text(texts[0], self._codec)

    def change(self, column: int, by: Change) -> tuple[int, int]:
        if column != self._origin.place:
            return 0, 0
        self.is_hidden = True
        return 1, len(self._data)

    def encode(self) -> bytes:
        return bytes((c.LOB_DATA,)) + pack_clr(self._data)
