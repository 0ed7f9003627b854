"""What a program prints, in pieces that can be judged: whole lines, as long as lines end.

A value that is split over two reads must not pass in two halves. So what comes behind the last line end is kept until
the line goes on, until the program ends, or, at a terminal, until it was quiet for a moment. A line that does not end
is kept up to HOLD bytes; then it is cut where no value can be, if there is such a place.
"""

from __future__ import annotations

from typing import Final

from postern.interception.events import Channel, Output
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_rendering import TerminalLine, TerminalRow, is_plain, render

HOLD: Final = 8 * 1024  # bytes
_KEPT: Final = 256  # bytes behind a cut, so that what begins there is judged with what follows
_CLEAR: Final = 6  # bytes around a cut that hold no digit: numbers are written with blanks in them, too
_DIGITS: Final = frozenset(b"0123456789")
_BLANKS: Final = frozenset(b" \t\0")

_OVERWRITE: Final = b"\r\x1b[K"  # of a row that began in an earlier piece

CHANNELS: Final = {m.STDOUT: Channel.STDOUT, m.STDERR: Channel.STDERR}


class Printed(Output):
    """Bytes of one channel: lines, as a rule. `row` is the row of text that they begin in, which those behind them go
    on with, unless this `ends` it. Pieces of one channel are rendered in their order."""

    def __init__(self, exchange: int, kind: int, data: bytes, row: TerminalRow, *, ends: bool) -> None:
        self.exchange = exchange
        self.channel = CHANNELS[kind]
        self._kind = kind
        self._data = data
        self._row = row
        self._began = row  # as it was before this piece, once it is rendered
        self._ends = ends
        self._lines: list[TerminalLine] = []
        self._overwritten: list[int] = []  # lines of which `linear` is judged as well

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
        shown = "\n".join([line.shown for line in self._lines])
        self._overwritten = [place for place, line in enumerate(self._lines) if line.linear]
        texts = [shown, *[self._lines[place].linear for place in self._overwritten]]
        return [text.encode("utf-8", "surrogateescape") for text in texts]

    def replace_rendered_texts(self, texts: list[bytes]) -> None:
        if len(texts) != 1 + len(self._overwritten):
            raise ValueError(f"{len(texts)} texts given for {1 + len(self._overwritten)} of output")
        changed = {
            place
            for place, text in zip(self._overwritten, texts[1:], strict=True)
            if text != self._lines[place].linear.encode("utf-8", "surrogateescape")
        }
        self._data = _replaced(self._lines, texts[0], changed)
        self._row.become(TerminalRow())  # what follows stands behind a row that is not the program's any more

    def withheld(self) -> None:
        """The client does not get it: what follows goes on in the row before it."""
        if self._began is not self._row:
            self._row.become(self._began)

    def encode(self) -> bytes:
        return m.frames(self._kind, self._data)


def _replaced(lines: list[TerminalLine], shown: bytes, overwritten: set[int]) -> bytes:
    """The lines as they came, but for those of which the text is another one now: they are sent as text. `overwritten`
    are lines whose text is right only as they end."""
    texts: list[bytes] = []
    rest = shown
    for line in lines:
        count = line.shown.count("\n") + 1
        parts = rest.split(b"\n", count)
        texts.append(b"\n".join(parts[:count]))
        rest = parts[count] if len(parts) > count else b""
    if rest or shown.count(b"\n") != sum(line.shown.count("\n") + 1 for line in lines) - 1:
        return shown + lines[-1].end  # a value went over line ends
    made: list[bytes] = []
    for place, (line, text) in enumerate(zip(lines, texts, strict=True)):
        if place not in overwritten and text == line.shown.encode("utf-8", "surrogateescape"):
            made.append(line.data)
        else:
            text = text.replace(b"\n", line.end) if line.end else text
            made.append((_OVERWRITE if line.continues else b"") + text + line.end)
    return b"".join(made)


class Held:
    """One channel: what came and was not given yet, and the row of text that the cursor is in."""

    def __init__(self) -> None:
        self.data = b""
        self.row = TerminalRow()

    def take(self, data: bytes) -> bytes:
        """What can be judged now, `data` included."""
        whole = self.data + data if self.data else data
        end = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if len(whole) - end > HOLD:
            end = _cut(whole, end)
        self.data = whole[end:]
        return whole[:end]

    def rest(self) -> bytes:
        """All of it."""
        data, self.data = self.data, b""
        return data


def _cut(data: bytes, start: int) -> int:
    """Where a line that is too long is cut: behind the last blank that can stand in no number; or, in what has none,
    so late that at least `_KEPT` bytes stay."""
    last = len(data) - _KEPT
    for pos in range(last, max(start, last - HOLD // 2), -1):
        if data[pos - 1] in _BLANKS and _DIGITS.isdisjoint(data[max(pos - _CLEAR, 0) : pos + _CLEAR]):
            return pos
    return last


def said(text: str, *, terminal: bool) -> bytes:
    """A frame with words of the gateway's own."""
    end = "\r\n" if terminal else "\n"
    return m.frames(m.STDERR, f"postern: {text}{end}".encode("utf-8", "replace"))


def refused(refusal: Refuse, *, terminal: bool) -> bytes:
    text = f"{refusal.message}. {refusal.hint}" if refusal.hint else refusal.message
    return said(text, terminal=terminal)


def warned(warning: Warn, *, terminal: bool) -> bytes:
    text = f"{warning.message}. {warning.hint}" if warning.hint else warning.message
    return said(text, terminal=terminal)
