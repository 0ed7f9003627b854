"""Character encodings of bodies. Rules search ASCII bytes, so what does not contain these is decoded first."""

from __future__ import annotations

import codecs
from typing import Final

# ASCII characters are single bytes in these, and no byte below 128 is a part of another character.
_AS_IS: Final = frozenset(
    {
        *("utf-8", "ascii", "iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6"),
        *("iso8859-7", "iso8859-8", "iso8859-9", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15"),
        *("iso8859-16", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
        *("koi8-r", "koi8-u", "euc_jp", "euc_kr", "gb2312", "utf-8-sig"),
    }
)
_DECODED: Final = frozenset(
    {
        *("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
        *("shift_jis", "cp932", "gbk", "gb18030", "big5", "iso2022_jp", "cp949"),
    }
)
# With the longer marks first, since one begins like another.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class CharsetError(ValueError):
    """The content's encoding is not known, or the content is not in it."""


def codec_of(charset: str, beginning: bytes, *, is_json: bool = False) -> str:
    """Return the Python codec that content must be decoded by, or nothing if its bytes can be searched as they are.

    A byte order mark counts more than the charset, as in browsers. Raises CharsetError.
    """
    for mark, name in _MARKS:
        if beginning.startswith(mark):
            return name
    if is_json and b"\0" in beginning[:4]:
        return _json_codec(beginning)
    if not charset:
        return ""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        raise CharsetError(f"its charset {charset!r} is not known") from None
    if name in _AS_IS:
        return ""
    if name not in _DECODED:
        raise CharsetError(f"its charset {charset!r} cannot be inspected")
    return name


def _json_codec(beginning: bytes) -> str:
    """Return the encoding of a document whose first character is ASCII (RFC 4627, 3)."""
    nulls = bytes(byte == 0 for byte in beginning[:4].ljust(4, b"x"))
    patterns = {b"\1\1\1\0": "utf-32-be", b"\0\1\1\1": "utf-32-le"}
    return patterns.get(nulls, "utf-16-be" if nulls[0] else "utf-16-le")


class Transcoder:
    """Converts pieces of content from a codec to UTF-8. Raises CharsetError."""

    def __init__(self, codec: str) -> None:
        self._decoder = codecs.getincrementaldecoder(codec)("strict")

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        try:
            return self._decoder.decode(data, final).lstrip("\ufeff").encode("utf-8")
        except UnicodeError:
            raise CharsetError("its content is not in its charset") from None
