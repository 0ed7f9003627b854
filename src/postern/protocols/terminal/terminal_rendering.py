r"""The text that a terminal displays for a program's output.

Rules search text, and a program can print a word that no search finds in its bytes. `pass\x1b[0mword` is "password" in
another colour. `pas\0sword` and `pasX\bsword` look the same on every terminal, and so does `sword\rpas\x1b[3Csword`. So
output is evaluated twice: as bytes, and as the rows of text that a terminal makes of them.

A row is a list of cells and a cursor. Escape sequences and invisible characters are dropped. Whatever moves the cursor
within a row (CR, BS, tabs, the CSI sequences for columns, erasing, inserting) acts on the cells. Whatever leaves the
row ends it. The width of the terminal is not known here, so rows do not wrap. Where cells are overwritten or erased,
the text in its order of arrival is evaluated as well.

Output that a program encodes itself cannot be evaluated: base64, compression, encryption, one letter per line.

Sequences: ECMA-48, and xterm's control sequences.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_WIDEST: Final = 2 * 1024  # cells of a row; the cursor stays within
_PENDING: Final = 4 * 1024  # characters of an incomplete sequence; a longer one is dropped
_TAB: Final = 8
_GAP: Final = 64  # spaces between texts that are stored: a jump far to the right takes few bytes

# Characters without a cell: soft hyphen, joiners, direction marks, variation selectors, tags.
_FORMATS: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e01ef"
)
_COMBINING: Final = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# Bytes that are not UTF-8 and that 8-bit terminals read as controls. Surrogates are escaped for `re`: compiled code has
# no literals of them.
_RAW: Final = r"\udc80-\udc9f"

# Ordinary text, apart from letters beyond ASCII and line ends with a CR. Deleting these is the fastest check for
# anything else.
_ORDINARY: Final = bytes([9, 10, *range(0x20, 0x7F)])
_SPECIAL: Final = re.compile(rf"[\x80-\x9f{_FORMATS}{_COMBINING}\udc80-\udcff]")
# Strings to the terminal (OSC, DCS, SOS, PM, APC) up to their end, other escapes, and single characters.
_STRING: Final = r"\x1b[\]PX^_][^\x07\x18\x1a\x1b\x9c]*(?:[\x07\x18\x1a\x9c]|\x1b\\|(?=\x1b))"  # ESC ends it, too
_CSI: Final = r"(?:\x1b\[|\x9b)([\x00-\x17\x19\x1c-\x1f0-?]*)[ -/]*(?:([@-~])|[\x18\x1a])"
_ESCAPE: Final = r"\x1b[ -/]*([0-OQ-WYZ\\`-~])"
_DROPPED: Final = f"[{_FORMATS}{_RAW}]"
_TOKEN: Final = re.compile(
    rf"([^\x00-\x08\x0b-\x1f\t\n\x7f-\x9f{_FORMATS}{_RAW}]+)|{_CSI}|{_STRING}|{_ESCAPE}|([\x00-\x1f\x7f-\x9f])|{_DROPPED}"
)
# Sequences that do not move characters: colours, modes, strings, charsets, invisible characters.
_INVISIBLE: Final = re.compile(
    rf"\x1b\[[0-9;:]*m|{_STRING}|\x1b[()*+][0-9A-Za-z]|[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]|{_DROPPED}"
)
_MOVING: Final = re.compile(r"[\x08\x0b\x0c\x1b\x7f-\x9f]|\r(?!\n)")
# Characters of no cell and of two.
_UNEVEN: Final = re.compile(
    f"[{_COMBINING}\u1100-\u115f\u231a-\u27bf\u2b1b-\u2b55\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3"
    "\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\U00016fe0-\U0003fffd]"
)
_PARTIAL: Final = r"[\udcc2-\udcf4][\udc80-\udcbf]{0,2}"  # an incomplete character
_OPEN: Final = re.compile(
    rf"(?:{_PARTIAL}|\x1b(?:\[[\x00-\x17\x19\x1c-\x1f0-?]*[ -/]*|[\]PX^_][^\x07\x18\x1a\x1b\x9c]*|[ -/]*)|\x9b[0-?]*)\Z"
)
_GAPS: Final = re.compile(f" {{{_GAP + 1},}}")
_COMBINED: Final = re.compile(f"[{_COMBINING}]")
_MARKED: Final = re.compile(f"([ -~])[{_COMBINING}]+")


class TerminalRow:
    """The row with the cursor. It continues after a piece of output that does not end with a line end."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.cursor = 0
        self.pending = ""  # an escape sequence that continues in the next piece
        self.inserts = False
        self.saved = 0
        self.addressed = ""  # the row of the last absolute address

    def copy(self) -> TerminalRow:
        other = TerminalRow()
        other.become(self)
        return other

    def become(self, other: TerminalRow) -> None:
        self.cells = other.cells[:]
        self.cursor = other.cursor
        self.pending = other.pending
        self.inserts = other.inserts
        self.saved = other.saved
        self.addressed = other.addressed

    @property
    def is_fresh(self) -> bool:
        return not self.cells and not self.pending and not self.cursor and not self.inserts

    @property
    def text(self) -> str:
        return "".join(self.cells)


class TerminalLine:
    """A line of output. `data` is its bytes, `shown` its final text on a terminal. `linear` has the characters in their
    order of arrival, if some were overwritten or erased. `continues` is True for a row that began before."""

    def __init__(self, data: bytes, shown: str, linear: str, *, continues: bool) -> None:
        self.data = data
        self.shown = shown
        self.linear = linear
        self.continues = continues

    @property
    def end(self) -> bytes:
        """Return the line end, as it came."""
        return b"\r\n" if self.data.endswith(b"\r\n") else b"\n" if self.data.endswith(b"\n") else b""


def is_plain(data: bytes, row: TerminalRow) -> bool:
    """Return True if a terminal displays exactly these bytes."""
    if not row.is_fresh:
        return False
    others = data.translate(None, _ORDINARY)
    if not others:
        return True
    returns = others.count(b"\r")
    if returns:
        if returns != data.count(b"\r\n"):
            return False
        others = others.replace(b"\r", b"")
    if others and min(others) < 0x80:
        return False
    return not others or _SPECIAL.search(others.decode("utf-8", "surrogateescape")) is None


def render(data: bytes, row: TerminalRow) -> list[TerminalLine]:
    """Return the lines of `data`, which begins in `row`. Updates `row` to the state after it."""
    lines: list[TerminalLine] = []
    for part in data.splitlines(keepends=True) if b"\r" not in data else _split(data):
        continues = not row.is_fresh
        text = (row.pending.encode("utf-8", "surrogateescape") + part).decode("utf-8", "surrogateescape")
        row.pending = ""
        end = text[-1:] if text.endswith("\n") else ""
        unfinished = _OPEN.search(text, 0, len(text) - len(end))
        if unfinished is not None and not (end and ord(unfinished[0][0]) >= 0xDC00):
            row.pending = text[unfinished.start() : unfinished.end()][:_PENDING]
            text = text[: unfinished.start()] + end
        lines.append(_line(part, text, row, continues=continues))
    return lines


def _split(data: bytes) -> list[bytes]:
    """Split at line feeds only."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _line(data: bytes, text: str, row: TerminalRow, *, continues: bool) -> TerminalLine:
    plain = _INVISIBLE.sub("", text)
    if row.is_fresh and plain.endswith("\n") and _MOVING.search(plain) is None:
        return TerminalLine(data, _compose_marks(plain.rstrip("\r\n")), "", continues=continues)
    painter = _Painter(row)
    painter.paint(text)
    rows = painter.rows
    if not data.endswith(b"\n"):
        rows = [*rows, _narrow_gaps(row.text)]
    linear = "".join(painter.linear) if painter.is_lossy else ""
    return TerminalLine(data, _compose_marks("\n".join(rows)), _compose_marks(linear), continues=continues)


def _compose_marks(text: str) -> str:
    """Compose a combining mark with its letter if such a character exists; otherwise drop it, so that it does not hide
    an ASCII letter."""
    if text.isascii() or _COMBINED.search(text) is None:
        return text
    return _MARKED.sub(r"\1", unicodedata.normalize("NFC", text))


class _Painter:
    """Applies output to a row. `rows` are the finished ones."""

    def __init__(self, row: TerminalRow) -> None:
        self._row = row
        self.rows: list[str] = []
        self.linear: list[str] = []
        self.is_lossy = False

    def paint(self, text: str) -> None:
        for match in _TOKEN.finditer(text):
            plain, parameters, final, escape, control = match.groups()
            if plain is not None:
                self._write(plain)
            elif control is not None:
                self._control(control)
            elif final is not None:
                for sign in parameters:
                    if sign < " ":
                        self._control(sign)
                self._sequence(final, parameters)
            elif escape is not None:
                self._escape(escape)

    def _write(self, text: str) -> None:
        self.linear.append(text)
        if not text.isascii() and _UNEVEN.search(text) is not None:
            for character in text:
                self._write_wide(character)
            return
        row = self._row
        cells = row.cells
        start, end = row.cursor, row.cursor + len(text)
        if start > len(cells):
            cells.extend(" " * (start - len(cells)))
        if row.inserts:
            cells[start:start] = list(text)
        elif start == len(cells):
            cells.extend(text)
        else:
            self._overwrite(start, text)
        row.cursor = min(end, _WIDEST)
        if len(cells) > _WIDEST:
            del cells[_WIDEST:]

    def _overwrite(self, start: int, text: str) -> None:
        cells = self._row.cells
        before = "".join(cells[start : start + len(text)])
        if "_" in text or "_" in before:
            for place, character in enumerate(text, start):
                self._put(place, character)
            return
        if before != text[: len(before)] and before.strip():
            self.is_lossy = True
        cells[start : start + len(text)] = list(text)

    def _write_wide(self, character: str) -> None:
        row = self._row
        if _COMBINED.match(character) is not None:
            place = row.cursor - 1
            if 0 <= place < len(row.cells):
                row.cells[place] += character
            return
        wide = unicodedata.east_asian_width(character) in ("W", "F")
        cells = row.cells
        if row.cursor > len(cells):
            cells.extend(" " * (row.cursor - len(cells)))
        if row.inserts:
            cells.insert(row.cursor, character)
        else:
            self._put(row.cursor, character)
        row.cursor = min(row.cursor + 1, _WIDEST)
        if wide and row.cursor < _WIDEST:
            if row.inserts:
                cells.insert(row.cursor, "")
            else:
                self._put(row.cursor, "")
            row.cursor += 1
        del cells[_WIDEST:]

    def _put(self, place: int, character: str) -> None:
        cells = self._row.cells
        if place >= len(cells):
            cells.append(character)
            return
        before = cells[place]
        if character == "_" and before.strip():
            return  # underlined by overstriking, as in manual pages
        if before.strip() and before not in ("_", character):
            self.is_lossy = True
        cells[place] = character

    def _control(self, sign: str) -> None:
        row = self._row
        if sign == "\r":
            self.linear.append("\r")
            row.cursor = 0
        elif sign == "\b":
            row.cursor = max(row.cursor - 1, 0)
        elif sign == "\t":
            self.linear.append("\t")
            self._tab()
        elif sign == "\n":
            self._end_row(0)
        elif sign in "\v\f\x84\x85\x8d":
            self._end_row(0 if sign == "\x85" else row.cursor)

    def _tab(self) -> None:
        """Move to the next tab stop. New cells hold the tab, so that a rule sees it."""
        row = self._row
        end = min(row.cursor - row.cursor % _TAB + _TAB, _WIDEST)
        if row.cursor >= len(row.cells):
            row.cells.extend(" " * (row.cursor - len(row.cells)))
            row.cells.append("\t")
            row.cells.extend([""] * (end - len(row.cells)))
        row.cursor = end

    def _end_row(self, cursor: int) -> None:
        row = self._row
        if row.cells:
            self.rows.append(_narrow_gaps(row.text))
        row.cells.clear()
        row.cursor = cursor
        row.addressed = ""

    def _escape(self, sign: str) -> None:
        row = self._row
        if sign == "7":
            row.saved = row.cursor
        elif sign == "8":
            row.cursor = row.saved
        elif sign in "DM":
            self._end_row(row.cursor)
        elif sign in "Ec":
            self._end_row(0)

    def _sequence(self, final: str, parameters: str) -> None:
        row = self._row
        plain_parameters = "".join([sign for sign in parameters if sign >= " "])
        count = _number(plain_parameters)
        if final == "m":
            return
        if final in "Ca":
            row.cursor = min(row.cursor + count, _WIDEST)
        elif final == "D":
            row.cursor = max(row.cursor - count, 0)
        elif final in "G`":
            row.cursor = min(count - 1, _WIDEST)
        elif final in "Hf":
            self._address(plain_parameters)
        elif final in "ABEFdeLMSTkJ":
            self._end_row(0 if final in "EF" else row.cursor)
        elif final == "K":
            self._erase(plain_parameters)
        elif final == "P":
            self._lose(row.cells[row.cursor : row.cursor + count])
            del row.cells[row.cursor : row.cursor + count]
        elif final == "X":
            self._blank(row.cursor, row.cursor + count)
        elif final == "@":
            if row.cursor < len(row.cells):
                row.cells[row.cursor : row.cursor] = [" "] * min(count, _WIDEST)
                del row.cells[_WIDEST:]
        elif final == "b":
            if 0 < row.cursor <= len(row.cells):
                self._write(row.cells[row.cursor - 1] * min(count, _WIDEST))
        elif final == "I":
            row.cursor = min((row.cursor // _TAB + count) * _TAB, _WIDEST)
        elif final == "Z":
            row.cursor = max((row.cursor + _TAB - 1) // _TAB - count, 0) * _TAB
        elif final in "hl" and plain_parameters == "4":
            row.inserts = final == "h"
        elif final == "s":
            row.saved = row.cursor
        elif final == "u":
            row.cursor = row.saved

    def _address(self, parameters: str) -> None:
        """Handle an absolute address: it ends the row, unless it is the row of the last one."""
        row = self._row
        line, _, column = parameters.partition(";")
        if row.addressed != (line or "1"):
            self._end_row(0)
            row.addressed = line or "1"
        row.cursor = _number(column) - 1

    def _erase(self, parameters: str) -> None:
        row = self._row
        parameters = parameters.lstrip("?")
        if parameters in ("", "0"):
            self._lose(row.cells[row.cursor :])
            del row.cells[row.cursor :]
        elif parameters == "1":
            self._blank(0, row.cursor + 1)
        elif parameters == "2":
            self._lose(row.cells)
            row.cells.clear()

    def _blank(self, start: int, end: int) -> None:
        cells = self._row.cells
        end = min(end, len(cells))
        if start < end:
            self._lose(cells[start:end])
            cells[start:end] = [" "] * (end - start)

    def _lose(self, cells: list[str]) -> None:
        self.is_lossy = self.is_lossy or bool("".join(cells).strip())


def _number(parameters: str) -> int:
    """Return the first parameter, at least 1."""
    digits = parameters.partition(";")[0]
    if not (digits.isascii() and digits.isdigit()):
        return 1
    return min(max(int(digits[-5:] if len(digits) < 6 else "99999"), 1), _WIDEST)


def _narrow_gaps(text: str) -> str:
    return _GAPS.sub(" " * _GAP, text) if len(text) > _GAP else text
