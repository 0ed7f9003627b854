"""Collations: the five bytes of a text's type, and the encoding that follows from them."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_UTF8: Final = 1 << 26
_IGNORE_CASE: Final = 1 << 20
_IGNORE_KANA_AND_WIDTH: Final = 3 << 22  # flags of most collations
_STYLE: Final = _IGNORE_CASE | _IGNORE_KANA_AND_WIDTH


class SqlCollation(NamedTuple):
    """A name as in `COLLATE name`, what stands on the wire, and the codec of Python."""

    name: str
    wire: bytes
    encoding: str


def _collation(name: str, lcid: int, sort: int, encoding: str, flags: int = _STYLE) -> SqlCollation:
    return SqlCollation(name, struct.pack("<IB", lcid | flags, sort), encoding)


DEFAULT: Final = _collation("SQL_Latin1_General_CP1_CI_AS", 0x0409, 52, "cp1252")
UTF8: Final = _collation("Latin1_General_100_CI_AS_SC_UTF8", 0x0409, 0, "utf-8", _STYLE | _UTF8)
COLLATIONS: Final = (
    DEFAULT,
    UTF8,
    _collation("Latin1_General_CI_AS", 0x0409, 0, "cp1252"),
    _collation("Cyrillic_General_CI_AS", 0x0419, 0, "cp1251"),
    _collation("Polish_CI_AS", 0x0415, 0, "cp1250"),
    _collation("Greek_CI_AS", 0x0408, 0, "cp1253"),
    _collation("Turkish_CI_AS", 0x041F, 0, "cp1254"),
    _collation("Hebrew_CI_AS", 0x040D, 0, "cp1255"),
    _collation("Arabic_CI_AS", 0x0401, 0, "cp1256"),
    _collation("Thai_CI_AS", 0x041E, 0, "cp874"),
    _collation("Japanese_CI_AS", 0x0411, 0, "cp932"),
    _collation("Chinese_PRC_CI_AS", 0x0804, 0, "cp936"),
    _collation("Korean_Wansung_CI_AS", 0x0412, 0, "cp949"),
)
BY_NAME: Final = {collation.name.lower(): collation for collation in COLLATIONS}
_BY_LCID: Final = {struct.unpack("<I", it.wire[:4])[0] & 0xFFFFF: it.encoding for it in COLLATIONS if it is not UTF8}


def encoding_of(wire: bytes) -> str:
    """Return the encoding of texts with these five bytes."""
    flags: int = struct.unpack("<I", wire[:4])[0]
    return "utf-8" if flags & _UTF8 else _BY_LCID.get(flags & 0xFFFFF, "cp1252")
