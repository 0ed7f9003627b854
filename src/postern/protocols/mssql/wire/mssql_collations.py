"""The code page of a collation (MS-TDS 2.2.5.1.2): five bytes with a language, flags, and the number of a sort order.

Texts of CHAR, VARCHAR and TEXT are in the code page of their column's collation. A collation of SQL Server 7 and before
has a sort order, whose number decides. Others have the code page of their language, or UTF-8. A language that has no
code page can only have Unicode columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

SIZE: Final = 5
_UTF8: Final = 1 << 26
_LANGUAGE: Final = 0xFFFF

# Keeps each byte as it is. Patterns look for characters that are the same in all code pages.
UNKNOWN: Final = "latin-1"

UTF8_COLLATION: Final = bytes.fromhex("0904d00400")  # Latin1_General, with the flag of UTF-8
LATIN: Final = bytes.fromhex("0904d00034")  # SQL_Latin1_General_CP1_CI_AS, the default of servers


def _ranges(*pairs: tuple[int, int, str]) -> dict[int, str]:
    return {number: codec for first, last, codec in pairs for number in range(first, last + 1)}


# By sort order
_BY_SORT: Final = _ranges(
    *((30, 35, "cp437"), (40, 49, "cp850"), (50, 54, "cp1252"), (55, 61, "cp850"), (71, 72, "cp1252")),
    *((80, 98, "cp1250"), (104, 108, "cp1251"), (112, 124, "cp1253"), (128, 130, "cp1254"), (136, 138, "cp1255")),
    *((144, 146, "cp1256"), (152, 160, "cp1257"), (183, 186, "cp1252"), (192, 193, "cp932"), (194, 195, "cp949")),
    *((196, 197, "cp950"), (198, 199, "gbk"), (200, 200, "cp932"), (201, 201, "cp949"), (202, 202, "cp950")),
    *((203, 203, "gbk"), (204, 206, "cp874"), (210, 217, "cp1252")),
)

# By primary language: the lower ten bits of its number
_BY_LANGUAGE: Final = {
    **dict.fromkeys((0x05, 0x0E, 0x15, 0x18, 0x1A, 0x1B, 0x1C, 0x24, 0x42), "cp1250"),
    **dict.fromkeys((0x02, 0x19, 0x22, 0x23, 0x28, 0x2F, 0x3F, 0x40, 0x44, 0x50, 0x6D, 0x85), "cp1251"),
    **dict.fromkeys((0x1F, 0x2C, 0x43), "cp1254"),
    **dict.fromkeys((0x01, 0x20, 0x29, 0x80, 0x8C), "cp1256"),
    **dict.fromkeys((0x25, 0x26, 0x27), "cp1257"),
    **dict.fromkeys((0x2B, 0x37, 0x39, 0x3A, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x4B, 0x4C, 0x4D, 0x4E), UNKNOWN),
    **dict.fromkeys((0x4F, 0x51, 0x53, 0x54, 0x57, 0x5A, 0x61, 0x63, 0x65, 0x81), UNKNOWN),
    0x08: "cp1253",
    0x0D: "cp1255",
    0x11: "cp932",
    0x12: "cp949",
    0x1E: "cp874",
    0x2A: "cp1258",
    0x04: "gbk",
}
# Languages that are written in two scripts
_BY_PLACE: Final = {
    **dict.fromkeys((0x0404, 0x0C04, 0x1404), "cp950"),
    **dict.fromkeys((0x0C1A, 0x1C1A, 0x201A, 0x082C, 0x0843), "cp1251"),
}


@lru_cache(maxsize=256)
def codec_of(collation: bytes) -> str:
    """Return Python's codec of the code page; UNKNOWN where there is none."""
    word = int.from_bytes(collation[:4], "little")
    if word & _UTF8:
        return "utf-8"
    if collation[4]:
        return _BY_SORT.get(collation[4], UNKNOWN)
    place = word & _LANGUAGE
    return _BY_PLACE.get(place) or _BY_LANGUAGE.get(place & 0x3FF, "cp1252")
