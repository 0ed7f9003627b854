"""Reconstruction of the lines that a user types, as well as possible without the program's own view of them."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 8 * 1024  # bytes of a line that are stored; characters beyond are not evaluated
ENTER: Final = frozenset(b"\r\n")
INTERRUPT: Final = b"\x03"
ERASE_LINE: Final = b"\x15"  # Ctrl-U

_ERASE: Final = frozenset(b"\x08\x7f")
_ERASE_LINE: Final = frozenset(b"\x03\x15")  # Ctrl-C, Ctrl-U
_ERASE_WORD: Final = 0x17  # Ctrl-W
_ESCAPE: Final = 0x1B


class TypedLine:
    """The current line. Erased characters are removed; keys that move the cursor or recall a line are ignored."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._escape = 0  # 1: after ESC, 2: in an escape sequence
        self.truncated = False

    def type(self, data: bytes) -> None:
        """Process bytes without a line end."""
        for byte in data:
            if self._escape:
                self._go_on_escaped(byte)
            elif byte == _ESCAPE:
                self._escape = 1
            elif byte in _ERASE:
                self._erase()
            elif byte in _ERASE_LINE:
                self._text.clear()
            elif byte == _ERASE_WORD:
                del self._text[self._text.rstrip().rfind(b" ") + 1 :]
            elif byte >= 0x20 or byte == 0x09:
                if len(self._text) < LONGEST:
                    self._text.append(byte)
                else:
                    self.truncated = True

    def enter(self) -> tuple[str, bool]:
        """End the line. Return its text, and True if it was too long to be stored whole."""
        text, truncated = self._text.decode("utf-8", "surrogateescape"), self.truncated
        self._text.clear()
        self._escape = 0
        self.truncated = False
        return text, truncated

    def _erase(self) -> None:
        while self._text and self._text[-1] & 0xC0 == 0x80:  # remaining bytes of a UTF-8 character
            self._text.pop()
        if self._text:
            self._text.pop()

    def _go_on_escaped(self, byte: int) -> None:
        """Skip up to the end of a CSI or SS3 sequence (ECMA-48, 5.4)."""
        if self._escape == 1:
            self._escape = 2 if byte in b"[O" else 0
        elif 0x40 <= byte <= 0x7E:
            self._escape = 0
