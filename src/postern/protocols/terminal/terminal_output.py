"""The output of a program, in pieces that rules can evaluate: whole lines, as long as lines end.

A value that is split over two reads must not pass in two halves. So the bytes after the last line end are buffered
until the line continues, the program ends, or a terminal was quiet for a short time. A line that does not end is
buffered up to HOLD bytes. Then it is cut, if possible at a place that cannot be inside a value.
"""

from __future__ import annotations

from typing import Final

from postern.interception.events import Channel, Output
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_rendering import TerminalLine, TerminalRow, is_plain, render

HOLD: Final = 8 * 1024  # bytes
_KEPT: Final = 256  # bytes buffered after a cut, so that a value there is evaluated with what follows
_CLEAR: Final = 6  # bytes around a cut without digits, because numbers can contain spaces
_DIGITS: Final = frozenset(b"0123456789")
_BLANKS: Final = frozenset(b" \t\0")

_OVERWRITE: Final = b"\r\x1b[K"  # for a row that began in an earlier piece

CHANNELS: Final = {m.STDOUT: Channel.STDOUT, m.STDERR: Channel.STDERR}


class ProgramOutput(Output):
    """Bytes of one channel, usually whole lines.

    `row` is the terminal row in which they begin. The next piece continues that row, unless this one `ends` it. Pieces
    of one channel are rendered in their order.
    """

    def __init__(self, exchange: int, kind: int, data: bytes, row: TerminalRow, *, ends: bool) -> None:
        self.exchange = exchange
        self.channel = CHANNELS[kind]
        self._kind = kind
        self._data = data
        self._row = row
        self._began = row  # the row before this piece, once it is rendered
        self._ends = ends
        self._lines: list[TerminalLine] = []
        self._overwritten: list[int] = []  # indexes of lines whose `linear` text is evaluated as well

    def texts(self) -> list[bytes]:
        return [self._data]

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != 1:
            raise ValueError(f"{len(texts)} texts given for one piece of output")
        self._data = texts[0]

    def rendered_texts(self) -> list[bytes]:
        if self._began is self._row:
            if is_plain(self._data, self._row):
                return []
            self._began = self._row.copy()
        else:
            self._row.become(self._began)
        self._lines = render(self._data, self._row)
        if self._ends:
            self._row.become(TerminalRow())
        final_text = "\n".join([line.shown for line in self._lines])
        self._overwritten = [place for place, line in enumerate(self._lines) if line.linear]
        texts = [final_text, *[self._lines[place].linear for place in self._overwritten]]
        return [text.encode("utf-8", "surrogateescape") for text in texts]

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        if len(texts) != 1 + len(self._overwritten):
            raise ValueError(f"{len(texts)} texts given for {1 + len(self._overwritten)} of output")
        changed = {
            place
            for place, text in zip(self._overwritten, texts[1:], strict=True)
            if text != self._lines[place].linear.encode("utf-8", "surrogateescape")
        }
        self._data = _apply_changes(self._lines, texts[0], changed)
        self._row.become(TerminalRow())  # what follows is after a row that is not the program's any more

    def withheld(self) -> None:
        """Drop this piece: what follows continues in the row before it."""
        if self._began is not self._row:
            self._row.become(self._began)

    def encode(self) -> bytes:
        return m.frames(self._kind, self._data)


def _apply_changes(lines: list[TerminalLine], final_text: bytes, overwritten: set[int]) -> bytes:
    """Return the lines with their changes. An unchanged line keeps its bytes; a changed line is sent as plain text.
    `overwritten` are indexes of lines whose text is correct only in its final state."""
    texts: list[bytes] = []
    rest = final_text
    for line in lines:
        count = line.shown.count("\n") + 1
        parts = rest.split(b"\n", count)
        texts.append(b"\n".join(parts[:count]))
        rest = parts[count] if len(parts) > count else b""
    if rest or final_text.count(b"\n") != sum(line.shown.count("\n") + 1 for line in lines) - 1:
        return final_text + lines[-1].end  # a replaced value spans line ends
    pieces: list[bytes] = []
    for place, (line, text) in enumerate(zip(lines, texts, strict=True)):
        if place not in overwritten and text == line.shown.encode("utf-8", "surrogateescape"):
            pieces.append(line.data)
        else:
            text = text.replace(b"\n", line.end) if line.end else text
            pieces.append((_OVERWRITE if line.continues else b"") + text + line.end)
    return b"".join(pieces)


class OutputBuffer:
    """The buffer of one channel, and the terminal row that the cursor is in."""

    def __init__(self) -> None:
        self.data = b""
        self.row = TerminalRow()

    def take(self, data: bytes) -> bytes:
        """Add `data`, and return what can be evaluated now."""
        whole = self.data + data if self.data else data
        end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if len(whole) - end > HOLD:
            end = _cut(whole, end)
        self.data = whole[end:]
        return whole[:end]

    def rest(self) -> bytes:
        """Return everything that is buffered."""
        data, self.data = self.data, b""
        return data


def _cut(data: bytes, start: int) -> int:
    """Return where to cut a line that is too long: after the last space that cannot be in a number, or else as late as
    possible with `_KEPT` bytes left."""
    last = len(data) - _KEPT
    for pos in range(last, max(start, last - HOLD // 2), -1):
        if data[pos - 1] in _BLANKS and _DIGITS.isdisjoint(data[max(pos - _CLEAR, 0) : pos + _CLEAR]):
            return pos
    return last


def gateway_message(text: str, *, terminal: bool) -> bytes:
    """Encode a message of the gateway as a frame. At a terminal the cursor can be anywhere in a line."""
    line = f"\r\npostern: {text}\r\n" if terminal else f"postern: {text}\n"
    return m.frames(m.STDERR, line.encode("utf-8", "replace"))


def refusal_message(refusal: Refuse, *, terminal: bool) -> bytes:
    text = f"{refusal.message}. {refusal.hint}" if refusal.hint else refusal.message
    return gateway_message(text, terminal=terminal)


def warning_message(warning: Warn, *, terminal: bool) -> bytes:
    text = f"{warning.message}. {warning.hint}" if warning.hint else warning.message
    return gateway_message(text, terminal=terminal)
