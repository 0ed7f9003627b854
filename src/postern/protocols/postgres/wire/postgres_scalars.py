"""Conversion between cells of scalar types and plain text, in both formats; see `interception.events.Scalar`.

`read` raises ValueError for a value without a plain form (infinity, a year BC, a date in another style than ISO),
`write` for a text that is not valid for the type.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple
from uuid import UUID

from postern.interception.events import Scalar
from postern.protocols.postgres.wire import postgres_styles as styles
from postern.protocols.postgres.wire.postgres_styles import EMPTIES
from postern.protocols.postgres.wire.postgres_types import (
    BINARY,
    BYTEA,
    CIDR,
    INET,
    INT2,
    INT4,
    INT8,
    JSON,
    JSONB,
    MONEY,
    NUMERIC,
    decimal_of,
    packed_decimal,
)

_OID: Final = 26
_BPCHAR: Final = 1042
_TIMETZ: Final = 1266

SCALARS: Mapping[int, Scalar] = {
    **dict.fromkeys((19, 25, 142, 705, 1042, 1043, 1790), Scalar.TEXT),
    JSON: Scalar.JSON,
    JSONB: Scalar.JSON,
    INT2: Scalar.SMALLINT,
    INT4: Scalar.INTEGER,
    _OID: Scalar.INTEGER,
    INT8: Scalar.BIGINT,
    NUMERIC: Scalar.DECIMAL,
    700: Scalar.REAL,
    701: Scalar.DOUBLE,
    16: Scalar.BOOLEAN,
    1082: Scalar.DATE,
    1083: Scalar.TIME,
    1114: Scalar.TIMESTAMP,
    1184: Scalar.MOMENT,
    1186: Scalar.INTERVAL,
    2950: Scalar.UUID,
    BYTEA: Scalar.BYTES,
    INET: Scalar.ADDRESS,
    CIDR: Scalar.ADDRESS,
    _TIMETZ: Scalar.TIME,
    MONEY: Scalar.MONEY,
    829: Scalar.HARDWARE,
    774: Scalar.HARDWARE,
    **dict.fromkeys((1560, 1562), Scalar.BITS),
    **dict.fromkeys(EMPTIES, Scalar.EMPTY),
}

_EPOCH = datetime.fromisoformat("2000-01-01")  # without a zone: for timestamps, and for timestamps in UTC
_FIRST_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_TEXT_STAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_ZONE = re.compile(rb"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$")
_TEXT_TIME = re.compile(rb"\d\d:\d\d:\d\d(?:\.\d{1,6})?")
_WRAP: Final = 1 << 32
_WHOLE = re.compile(rb"-?\d+")
_DECIMAL = re.compile(rb"-?\d+(?:\.\d+)?")


class ScalarCodec(NamedTuple):
    """Conversion between a cell in one format and the plain text of its value. `like`, if present, is `write` in the
    style of an example cell, which is its first argument."""

    read: Callable[[bytes], bytes]
    write: Callable[[bytes], bytes]
    like: Callable[[bytes, bytes], bytes] | None = None

    @property
    def is_plain(self) -> bool:
        """Return True if every cell is the plain text of its value."""
        return self.read is _same and self.write is _same


def scalar_codec(oid: int, form: int) -> ScalarCodec | None:
    """Return the codec; None for a type whose values cannot be written here."""
    if oid in EMPTIES:
        return ScalarCodec(_same, _constant(EMPTIES[oid][form == BINARY]))
    if form == BINARY:
        return _BY_OID.get(oid) or _BINARY_BY.get(_scalar(oid))
    return _TEXT_BY_OID.get(oid) or _PLAIN.get(_scalar(oid))


def _scalar(oid: int) -> Scalar:
    return SCALARS.get(oid, Scalar.OTHER)


def _same(cell: bytes) -> bytes:
    return cell


def _matching(pattern: re.Pattern[bytes]) -> Callable[[bytes], bytes]:
    def check(cell: bytes) -> bytes:
        if pattern.fullmatch(cell) is None:
            raise ValueError("this has no plain form")
        return cell

    return check


def _whole(form: str) -> ScalarCodec:
    layout = struct.Struct("!" + form)

    def write(text: bytes) -> bytes:
        try:
            return layout.pack(int(text))
        except struct.error as error:
            raise ValueError("the number does not fit into its type") from error

    def read(cell: bytes) -> bytes:
        number: int = layout.unpack(cell)[0]
        return b"%d" % number

    return ScalarCodec(read, write)


def _float(form: str) -> tuple[ScalarCodec, ScalarCodec]:
    """Return the codecs of the text and the binary format. Both round a 4-byte number alike."""
    layout = struct.Struct("!" + form)

    def plain(number: float) -> bytes:
        return repr(layout.unpack(layout.pack(number))[0]).encode()

    def read(cell: bytes) -> bytes:
        return repr(layout.unpack(cell)[0]).encode()

    return ScalarCodec(lambda cell: plain(float(cell)), plain_float), ScalarCodec(
        read, lambda text: layout.pack(float(text))
    )


def plain_float(text: bytes) -> bytes:
    """Normalise a float as every reader does."""
    return repr(float(text)).encode()


def _date_read(cell: bytes) -> bytes:
    (days,) = struct.unpack("!i", cell)
    try:
        return date.fromordinal(_FIRST_DAY + days).isoformat().encode()
    except OverflowError as error:
        raise ValueError("a date beyond the calendar") from error


def _date_write(text: bytes) -> bytes:
    return struct.pack("!i", date.fromisoformat(text.decode()).toordinal() - _FIRST_DAY)


def _date_text(cell: bytes) -> bytes:
    return date.fromisoformat(cell.decode()).isoformat().encode()


def _time_read(cell: bytes) -> bytes:
    (micros,) = struct.unpack("!q", cell)
    if not 0 <= micros < 86_400_000_000:
        raise ValueError(f"{micros} microseconds are not a time of day")
    return (_EPOCH + timedelta(microseconds=micros)).time().isoformat().encode()


def _time_write(text: bytes) -> bytes:
    moment = datetime.combine(_EPOCH, time.fromisoformat(text.decode()))
    return struct.pack("!q", (moment - _EPOCH) // _MICROSECOND)


def _time_text(cell: bytes) -> bytes:
    if _TEXT_TIME.fullmatch(cell) is None:
        raise ValueError("a time in another style than ISO")
    return time.fromisoformat(_six_digits(cell.decode())).isoformat().encode()


def _stamp_read(cell: bytes) -> bytes:
    (micros,) = struct.unpack("!q", cell)
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ").encode()
    except OverflowError as error:
        raise ValueError("a time beyond the calendar") from error


def _stamp_write(text: bytes) -> bytes:
    return struct.pack("!q", (datetime.fromisoformat(text.decode()) - _EPOCH) // _MICROSECOND)


def _stamp_text(cell: bytes) -> bytes:
    if _TEXT_STAMP.fullmatch(cell) is None:
        raise ValueError("a time in another style than ISO")
    return datetime.fromisoformat(_six_digits(cell.decode())).isoformat(" ").encode()


def _six_digits(text: str) -> str:
    whole, point, part = text.partition(".")
    return f"{whole}.{part.ljust(6, '0')}" if point else text


def _moment_text(cell: bytes) -> bytes:
    zone = _ZONE.search(cell)
    if zone is None or _TEXT_STAMP.fullmatch(cell, 0, zone.start()) is None:
        raise ValueError("a time in another style than ISO")
    sign, hours, minutes, seconds = zone.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    local = datetime.fromisoformat(_six_digits(cell[: zone.start()].decode()))
    try:
        return (local - offset if sign == b"+" else local + offset).isoformat(" ").encode()
    except OverflowError as error:
        raise ValueError("a time beyond the calendar") from error


def _moment_write(text: bytes) -> bytes:
    return text + b"+00"


def _uuid_text(cell: bytes) -> bytes:
    return str(UUID(cell.decode())).encode()


def _bytea_text(cell: bytes) -> bytes:
    if not cell.startswith(b"\\x"):
        raise ValueError("bytes in another style than hexadecimal")
    return bytes.fromhex(cell[2:].decode())


def _address_text(cell: bytes) -> bytes:
    return str(ip_address(cell.partition(b"/")[0].decode())).encode()


def _cidr_write(text: bytes) -> bytes:
    address = ip_address(text.decode())
    return f"{address}/{address.max_prefixlen}".encode()


def _address_read(cell: bytes) -> bytes:
    return str(ip_address(cell[4:])).encode()


def _address_writer(is_cidr: int) -> Callable[[bytes], bytes]:
    def write(text: bytes) -> bytes:
        address = ip_address(text.decode())
        family = 2 if address.version == 4 else 3
        return bytes((family, address.max_prefixlen, is_cidr, len(address.packed))) + address.packed

    return write


def _jsonb_read(cell: bytes) -> bytes:
    if cell[:1] != b"\x01":
        raise ValueError("a document of another version")
    return cell[1:]


def _boolean_read(cell: bytes) -> bytes:
    return b"f" if cell == b"\0" else b"t"


def _boolean_write(text: bytes) -> bytes:
    return b"\1" if text == b"t" else b"\0"


def _decimal_read(cell: bytes) -> bytes:
    data = decimal_of(cell)
    if data is None:
        raise ValueError("not a number")
    return data


def _no_money(_text: bytes) -> bytes:
    raise ValueError("how money is written is not known without an example")


def _oid_text(cell: bytes) -> bytes:
    """Return an unsigned number as the signed one of the same bits: some hashes are negative."""
    number = int(cell)
    if not 0 <= number < _WRAP:
        raise ValueError("not a number of 4 bytes")
    return b"%d" % (number - _WRAP if number >= _WRAP // 2 else number)


def _oid_read(cell: bytes) -> bytes:
    (number,) = struct.unpack("!i", cell)
    return b"%d" % int(number)


def _oid_write(text: bytes) -> bytes:
    return struct.pack("!I", int(text) % _WRAP)


def _constant(value: bytes) -> Callable[[bytes], bytes]:
    return lambda _: value


_REAL, _BINARY_REAL = _float("f")
_DOUBLE, _BINARY_DOUBLE = _float("d")
# Trailing spaces of a character(n) have no meaning.
_PADDED = ScalarCodec(lambda cell: cell.rstrip(b" "), _same)
_WHOLE_TEXT = ScalarCodec(_matching(_WHOLE), _matching(_WHOLE))

_PLAIN: Mapping[Scalar, ScalarCodec] = {
    Scalar.TEXT: ScalarCodec(_same, _same),
    Scalar.JSON: ScalarCodec(_same, _same),
    Scalar.SMALLINT: _WHOLE_TEXT,
    Scalar.INTEGER: _WHOLE_TEXT,
    Scalar.BIGINT: _WHOLE_TEXT,
    Scalar.DECIMAL: ScalarCodec(_matching(_DECIMAL), _matching(_DECIMAL)),
    Scalar.REAL: _REAL,
    Scalar.DOUBLE: _DOUBLE,
    Scalar.BOOLEAN: ScalarCodec(_matching(re.compile(rb"[tf]")), _same),
    Scalar.DATE: ScalarCodec(_date_text, _same),
    Scalar.TIME: ScalarCodec(_time_text, _same),
    Scalar.TIMESTAMP: ScalarCodec(_stamp_text, _same),
    Scalar.MOMENT: ScalarCodec(_moment_text, _moment_write),
    Scalar.INTERVAL: ScalarCodec(styles.interval_of_text, styles.interval_text),
    Scalar.MONEY: ScalarCodec(styles.coins, _no_money, styles.money_like),
    Scalar.HARDWARE: ScalarCodec(styles.hardware_of_text, styles.hardware_text),
    Scalar.BITS: ScalarCodec(_matching(re.compile(rb"[01]*")), _same),
    Scalar.UUID: ScalarCodec(_uuid_text, _same),
    Scalar.BYTES: ScalarCodec(_bytea_text, lambda raw: b"\\x" + raw.hex().encode()),
    Scalar.ADDRESS: ScalarCodec(_address_text, _same),
}
_TEXT_BY_OID: Mapping[int, ScalarCodec] = {
    CIDR: ScalarCodec(_address_text, _cidr_write),
    _OID: ScalarCodec(_oid_text, lambda text: b"%d" % (int(text) % _WRAP)),
    _BPCHAR: _PADDED,
    _TIMETZ: ScalarCodec(lambda cell: _time_text(_ZONE.sub(b"", cell)), lambda text: text + b"+00"),
}
_BY_OID: Mapping[int, ScalarCodec] = {
    JSONB: ScalarCodec(_jsonb_read, lambda text: b"\x01" + text),
    _OID: ScalarCodec(_oid_read, _oid_write),
    _BPCHAR: _PADDED,
    _TIMETZ: ScalarCodec(lambda cell: _time_read(cell[:8]), lambda text: _time_write(text) + bytes(4)),
    INET: ScalarCodec(_address_read, _address_writer(0)),
    CIDR: ScalarCodec(_address_read, _address_writer(1)),
}
_BINARY_BY: Mapping[Scalar, ScalarCodec] = {
    Scalar.TEXT: ScalarCodec(_same, _same),
    Scalar.JSON: ScalarCodec(_same, _same),
    Scalar.SMALLINT: _whole("h"),
    Scalar.INTEGER: _whole("i"),
    Scalar.BIGINT: _whole("q"),
    Scalar.DECIMAL: ScalarCodec(_decimal_read, packed_decimal),
    Scalar.REAL: _BINARY_REAL,
    Scalar.DOUBLE: _BINARY_DOUBLE,
    Scalar.BOOLEAN: ScalarCodec(_boolean_read, _boolean_write),
    Scalar.DATE: ScalarCodec(_date_read, _date_write),
    Scalar.TIME: ScalarCodec(_time_read, _time_write),
    Scalar.TIMESTAMP: ScalarCodec(_stamp_read, _stamp_write),
    Scalar.MOMENT: ScalarCodec(_stamp_read, _stamp_write),
    Scalar.INTERVAL: ScalarCodec(styles.interval_of_bytes, styles.interval_bytes),
    Scalar.MONEY: _whole("q"),
    Scalar.HARDWARE: ScalarCodec(lambda cell: cell.hex().encode(), lambda text: bytes.fromhex(text.decode())),
    Scalar.BITS: ScalarCodec(styles.bits_of_bytes, styles.bits_bytes),
    Scalar.UUID: ScalarCodec(lambda cell: str(UUID(bytes=cell)).encode(), lambda text: UUID(text.decode()).bytes),
    Scalar.BYTES: ScalarCodec(_same, _same),
}
