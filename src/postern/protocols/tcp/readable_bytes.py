"""Bytes of an unknown protocol as readable text: text as it is, anything else as a hex dump.

    TEXT ──a byte that is not text──▶ HEX        HEX ──a row of text only──▶ TEXT

A hex dump has rows of 16 bytes, and begins a new line. UTF-8 and the control characters tab, line feed and carriage
return are text. The result does not depend on how the bytes are cut.
"""

from __future__ import annotations

import re
from typing import Final

_ROW: Final = 16  # bytes
_CHARACTER: Final = (
    rb"[\t\n\r\x20-\x7e]++|\xc2[\xa0-\xbf]|[\xc3-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_TEXT: Final = re.compile(rb"(?:" + _CHARACTER + rb")++")
# The beginning of a character whose other bytes have not come yet.
_INCOMPLETE: Final = re.compile(rb"[\xc2-\xf4]|[\xe0-\xf4][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{2}")
_DOTS: Final = bytes(byte if 0x20 <= byte < 0x7F else 0x2E for byte in range(256))


class ReadableBytes:
    """A `Renderer`: all text is output."""

    def __init__(self) -> None:
        self._is_hex = False
        self._at_line_start = True
        self._held = b""  # part of a row, or of a character

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        if self._held:
            data = self._held + data
            self._held = b""
        parts: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._is_hex:
                row = data[at : at + _ROW]
                if len(row) < _ROW:
                    self._held = row
                    break
                parts.append(_hex_row(row))
                at += _ROW
                self._is_hex = _TEXT.fullmatch(row) is None
                continue
            text = _TEXT.match(data, at)
            if text is not None:
                parts.append(text.group())
                at = text.end()
                self._at_line_start = data[at - 1] == 0x0A
            elif _INCOMPLETE.fullmatch(data, at):
                self._held = data[at:]
                break
            else:
                self._begin_hex(parts)
        return [("o", b"".join(parts))] if parts else []

    def rest(self) -> list[tuple[str, bytes]]:
        """Return what was held back. The next bytes begin a new text."""
        parts: list[bytes] = []
        if self._held:
            if not self._is_hex:
                self._begin_hex(parts)
            parts.append(_hex_row(self._held))
        self._held, self._is_hex, self._at_line_start = b"", False, True
        return [("o", b"".join(parts))] if parts else []

    def _begin_hex(self, parts: list[bytes]) -> None:
        if not self._at_line_start:
            parts.append(b"\n")
        self._is_hex = self._at_line_start = True


def _hex_row(row: bytes) -> bytes:
    return b"%-47s  |%s|\n" % (row.hex(" ").encode(), row.translate(_DOTS))


def readable(data: bytes) -> str:
    """Return bytes as readable text."""
    renderer = ReadableBytes()
    return b"".join(text for _, text in renderer.feed(data) + renderer.rest()).decode()
