"""What a program prints, in pieces that can be judged: whole lines, as long as lines end.

A value that is split over two reads must not pass in two halves. So what comes behind the last line end is kept until
the line goes on, until the program ends, or, at a terminal, until it was quiet for a moment. A line that does not end
is kept up to HOLD bytes; then it is cut where no value can be, if there is such a place.
"""

from __future__ import annotations

from typing import Final

from postern.interception.events import Channel, Output
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.terminal import messages as m

HOLD: Final = 8 * 1024  # bytes
_KEPT: Final = 256  # bytes behind a cut, so that what begins there is judged with what follows
_CLEAR: Final = 6  # bytes around a cut that hold no digit: numbers are written with blanks in them, too
_DIGITS: Final = frozenset(b"0123456789")
_BLANKS: Final = frozenset(b" \t\0")

CHANNELS: Final = {m.STDOUT: Channel.STDOUT, m.STDERR: Channel.STDERR}


class Printed(Output):
    """Bytes of one channel: lines, as a rule."""

    def __init__(self, exchange: int, kind: int, data: bytes) -> None:
        self.exchange = exchange
        self.channel = CHANNELS[kind]
        self._kind = kind
        self._data = data

    def texts(self) -> list[bytes]:
        return [self._data]

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != 1:
            raise ValueError(f"{len(texts)} texts given for one piece of output")
        self._data = texts[0]

    def encode(self) -> bytes:
        return m.frames(self._kind, self._data)


class Held:
    """One channel: what came and was not given yet."""

    def __init__(self) -> None:
        self.data = b""

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
