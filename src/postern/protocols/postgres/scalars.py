"""Between the cells of scalar types and plain text, in both formats: see `interception.events.Scalar`.

`read` raises ValueError for what has no plain form (infinity, a year before Christ, a date in another style than ISO),
`write` for what is no value of the type.
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
from postern.protocols.postgres.types import (
    BINARY,
    BYTEA,
    CIDR,
    INET,
    INT2,
    INT4,
    INT8,
    JSON,
    JSONB,
    NUMERIC,
    decimal_of,
    packed_decimal,
)

_OID: Final = 26
_MULTIRANGES = frozenset({4451, 4532, 4533, 4534, 4535, 4536})

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
    **dict.fromkeys((3904, 3906, 3908, 3910, 3912, 3926, *_MULTIRANGES), Scalar.RANGE),
}

_EPOCH = datetime.fromisoformat("2000-01-01")  # without a zone: of timestamps, and of moments in UTC
_FIRST_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_TEXT_STAMP = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_ZONE = re.compile(rb"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$")
_TEXT_TIME = re.compile(rb"\d\d:\d\d:\d\d(?:\.\d{1,6})?")
_WHOLE = re.compile(rb"-?\d+")
_DECIMAL = re.compile(rb"-?\d+(?:\.\d+)?")
_NO_TIME = b"00:00:00"


class Codec(NamedTuple):
    """Between a cell in one format and the plain text of its value."""

    read: Callable[[bytes], bytes]
    write: Callable[[bytes], bytes]


def scalar_codec(oid: int, form: int) -> Codec | None:
    """None for a type of which no value can be made here."""
    if form == BINARY:
        return _EMPTY_MULTIRANGE if oid in _MULTIRANGES else _BY_OID.get(oid) or _BINARY_BY.get(_scalar(oid))
    return _CIDR if oid == CIDR else _EMPTY_MULTIRANGE_TEXT if oid in _MULTIRANGES else _PLAIN.get(_scalar(oid))


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


def _whole(form: str) -> Codec:
    layout = struct.Struct("!" + form)

    def write(text: bytes) -> bytes:
        try:
            return layout.pack(int(text))
        except struct.error as error:
            raise ValueError("the number does not fit into its type") from error

    def read(cell: bytes) -> bytes:
        number: int = layout.unpack(cell)[0]
        return b"%d" % number

    return Codec(read, write)


def _float(form: str) -> tuple[Codec, Codec]:
    """The codecs of the text and the binary format: a number of 4 bytes is the same one in both."""
    layout = struct.Struct("!" + form)

    def plain(number: float) -> bytes:
        return repr(layout.unpack(layout.pack(number))[0]).encode()

    def read(cell: bytes) -> bytes:
        return repr(layout.unpack(cell)[0]).encode()

    return Codec(lambda cell: plain(float(cell)), plain_float), Codec(read, lambda text: layout.pack(float(text)))


def plain_float(text: bytes) -> bytes:
    """As every reader of a float takes it."""
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


def _interval_write(text: bytes) -> bytes:
    if text != _NO_TIME:
        raise ValueError("only the empty interval is made here")
    return bytes(16)


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
    found = decimal_of(cell)
    if found is None:
        raise ValueError("not a number")
    return found


def _constant(value: bytes) -> Callable[[bytes], bytes]:
    return lambda _: value


_CIDR = Codec(_address_text, _cidr_write)
_EMPTY_MULTIRANGE = Codec(_same, _constant(bytes(4)))
_EMPTY_MULTIRANGE_TEXT = Codec(_same, _constant(b"{}"))
_REAL, _BINARY_REAL = _float("f")
_DOUBLE, _BINARY_DOUBLE = _float("d")
_WHOLE_TEXT = Codec(_matching(_WHOLE), _matching(_WHOLE))

_PLAIN: Mapping[Scalar, Codec] = {
    Scalar.TEXT: Codec(_same, _same),
    Scalar.JSON: Codec(_same, _same),
    Scalar.SMALLINT: _WHOLE_TEXT,
    Scalar.INTEGER: _WHOLE_TEXT,
    Scalar.BIGINT: _WHOLE_TEXT,
    Scalar.DECIMAL: Codec(_matching(_DECIMAL), _matching(_DECIMAL)),
    Scalar.REAL: _REAL,
    Scalar.DOUBLE: _DOUBLE,
    Scalar.BOOLEAN: Codec(_matching(re.compile(rb"[tf]")), _same),
    Scalar.DATE: Codec(_date_text, _same),
    Scalar.TIME: Codec(_time_text, _same),
    Scalar.TIMESTAMP: Codec(_stamp_text, _same),
    Scalar.MOMENT: Codec(_moment_text, _moment_write),
    Scalar.INTERVAL: Codec(_same, _same),
    Scalar.UUID: Codec(_uuid_text, _same),
    Scalar.BYTES: Codec(_bytea_text, lambda raw: b"\\x" + raw.hex().encode()),
    Scalar.ADDRESS: Codec(_address_text, _same),
    Scalar.RANGE: Codec(_same, _constant(b"empty")),
}
_BY_OID: Mapping[int, Codec] = {
    JSONB: Codec(_jsonb_read, lambda text: b"\x01" + text),
    _OID: _whole("I"),
    INET: Codec(_address_read, _address_writer(0)),
    CIDR: Codec(_address_read, _address_writer(1)),
}
_BINARY_BY: Mapping[Scalar, Codec] = {
    Scalar.TEXT: Codec(_same, _same),
    Scalar.JSON: Codec(_same, _same),
    Scalar.SMALLINT: _whole("h"),
    Scalar.INTEGER: _whole("i"),
    Scalar.BIGINT: _whole("q"),
    Scalar.DECIMAL: Codec(_decimal_read, packed_decimal),
    Scalar.REAL: _BINARY_REAL,
    Scalar.DOUBLE: _BINARY_DOUBLE,
    Scalar.BOOLEAN: Codec(_boolean_read, _boolean_write),
    Scalar.DATE: Codec(_date_read, _date_write),
    Scalar.TIME: Codec(_time_read, _time_write),
    Scalar.TIMESTAMP: Codec(_stamp_read, _stamp_write),
    Scalar.MOMENT: Codec(_stamp_read, _stamp_write),
    Scalar.INTERVAL: Codec(_same, _interval_write),
    Scalar.UUID: Codec(lambda cell: str(UUID(bytes=cell)).encode(), lambda text: UUID(text.decode()).bytes),
    Scalar.BYTES: Codec(_same, _same),
    Scalar.RANGE: Codec(_same, _constant(b"\x01")),
}
