"""A filter that makes recorded terminal output safe for the terminal of the viewer.

Some output of a program is not for display. It asks the terminal to *answer*, and the answer arrives as typed input
(DSR, DA, DECRQSS, window reports, OSC 4/10/52 queries); it affects things *outside* of the screen (the clipboard, the
title, a printer, files); or it changes the meaning of later *keys* (mouse reports, bracketed paste, keypad modes). So
only output passes that is known to change just the screen: printable text, line controls, colours (SGR), cursor
movements, erasing, scrolling, and a few modes of the screen. Everything else is discarded as a whole, wherever the
input is split. Decision 0026.

The parser is that of a VT500 (vt100.net/emu/dec_ansi_parser): ESC restarts it in any state; CAN and SUB end a sequence;
controls within a sequence act at once. 8-bit controls (U+0080 to U+009F) are read as their 7-bit forms.
"""

from __future__ import annotations

import re
from typing import Final

from postern.domain.text import BIDI

_GROUND, _ESCAPE, _INTERMEDIATE, _CSI, _STRING = range(5)

_LINE_CONTROLS: Final = frozenset("\b\t\n\v\f\r\x0e\x0f")
_ESCAPES: Final = frozenset("78DEMH")  # save and restore the cursor, index, next line, reverse index, set a tab stop
_CHARSETS: Final = frozenset("()*+")
_CHARSET_NAMES: Final = frozenset("0AB")
_FINALS: Final = frozenset("@ABCDEFGHIJKLMPSTXZ`abdefgmr")
_CSI_FINAL: Final = re.compile(r"[@-~]")
_PARAMETERS: Final = re.compile(r"[0-9;:]{0,128}")
_SCREEN_MODES: Final = frozenset({"5", "6", "7", "12", "25", "47", "1047", "1048", "1049", "2026"})
_LARGEST = 9_999  # maximum of a number in a sequence: more repetitions would keep a terminal busy
_LONGEST = 160  # characters of a sequence that are parsed
_BIDI = re.compile(rf"[{BIDI}]")

# Resets the screen: attributes, cursor, wrapping, origin, margins, character sets, the other screen.
RESTORE: Final = "\x1b[0m\x1b[?25h\x1b[?7h\x1b[?6l\x1b[?5l\x1b[?2026l\x1b[r\x1b(B\x0f\x1b[4l\x1b[?1049l"


class ScreenFilter:
    """A sans-IO filter: feed it text that is split anywhere; it returns what can be shown."""

    def __init__(self) -> None:
        self._state = _GROUND
        self._sequence = ""
        self._ends_by_st = False  # an ESC within a string

    def feed(self, text: str) -> str:
        characters: list[str] = []
        for character in text:
            if self._state == _GROUND and character >= " " and not "\x7f" <= character <= "\x9f":
                characters.append(character)
            else:
                characters.append(self._take(character))
        return _BIDI.sub("\ufffd", "".join(characters))

    def _take(self, character: str) -> str:
        if self._state == _STRING:
            return self._take_string(character)
        if character == "\x1b":
            self._begin(_ESCAPE)
            return ""
        if character in "\x18\x1a":
            self._begin(_GROUND)
            return ""
        if "\x80" <= character <= "\x9f":
            self._begin(_ESCAPE)
            return self._take_escape(chr(ord(character) - 0x40))
        if character < " " or character == "\x7f":  # also in the middle of a sequence
            return character if character in _LINE_CONTROLS else ""
        if self._state == _ESCAPE:
            return self._take_escape(character)
        if self._state == _INTERMEDIATE:
            return self._take_charset(character)
        if self._state == _CSI:
            return self._take_csi(character)
        return character

    def _begin(self, state: int) -> None:
        self._state, self._sequence, self._ends_by_st = state, "", False

    def _take_string(self, character: str) -> str:
        """Discard everything up to BEL or ST."""
        if self._ends_by_st:
            self._begin(_ESCAPE)
            return "" if self._back_from_st(character) else self._take(character)
        if character in "\x07\x18\x1a\x9c":
            self._begin(_GROUND)
        elif character == "\x1b":
            self._ends_by_st = True
        return ""

    def _back_from_st(self, character: str) -> bool:
        if character == "\\":
            self._begin(_GROUND)
            return True
        return False

    def _take_escape(self, character: str) -> str:
        self._begin(_GROUND)
        if character == "[":
            self._begin(_CSI)
        elif character in "]PX^_k":  # OSC, DCS, SOS, PM, APC, and the title of screen
            self._begin(_STRING)
        elif " " <= character <= "/":
            self._state, self._sequence = _INTERMEDIATE, character
        elif character == "c":  # a full reset would change more than the screen
            return "\x1b[0m\x1b[r\x1b[2J\x1b[H"
        elif character in _ESCAPES:
            return f"\x1b{character}"
        return ""

    def _take_charset(self, character: str) -> str:
        if " " <= character <= "/":
            self._sequence = "  "  # two intermediates select no sequence that passes
            return ""
        sequence = self._sequence
        self._begin(_GROUND)
        if sequence in _CHARSETS and character in _CHARSET_NAMES:
            return f"\x1b{sequence}{character}"
        return ""

    def _take_csi(self, character: str) -> str:
        if not _CSI_FINAL.match(character):
            if len(self._sequence) <= _LONGEST:
                self._sequence += character
            return ""
        parameters = self._sequence
        self._begin(_GROUND)
        return _filter_sequence(parameters, character)


def _filter_sequence(parameters: str, final: str) -> str:
    """Return the sequence if it can pass, else nothing."""
    if parameters.startswith("?"):
        return _filter_private_sequence(parameters[1:], final)
    if not _PARAMETERS.fullmatch(parameters) or not _is_small(parameters):
        return ""
    if final in "su" and not parameters:  # save and restore the cursor
        return f"\x1b[{final}"
    if final in _FINALS or (final in "hl" and parameters == "4"):  # insert mode
        return f"\x1b[{parameters}{final}"
    return ""


def _filter_private_sequence(parameters: str, final: str) -> str:
    if final in "JK" and parameters in ("", "0", "1", "2"):
        return f"\x1b[?{parameters}{final}"
    if final in "hl" and len(parameters) <= _LONGEST:
        modes = [mode for mode in parameters.split(";") if mode in _SCREEN_MODES]
        if modes:
            return f"\x1b[?{';'.join(modes)}{final}"
    return ""


def _is_small(parameters: str) -> bool:
    return all(len(number) <= 4 or int(number) <= _LARGEST for number in re.split("[;:]", parameters) if number)
