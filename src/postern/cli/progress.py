"""Progress of long operations: a line at a terminal's standard error, and nothing elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

from postern.domain.text import one_line, printable

AFTER = 1.0  # seconds; shorter operations show no progress
_PAUSE = 0.1  # seconds between two updates
_PICTURES, _PLAIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
_UNITS = ("B", "kB", "MB", "GB", "TB")
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """A progress line, used as a context. After `after` seconds a line shows the elapsed time, the amount done, and
    `text`; it is erased at the end. A thread writes it, so the caller can block. Nothing is written with `quiet`, as
    for --json, nor if standard error is not a terminal that can erase a line."""

    def __init__(self, text: str, *, quiet: bool = False, after: float | None = None, unit: str = "") -> None:
        """`after` is `AFTER` when None; `unit` is the unit of the count, bytes when there is none."""
        self._text = text
        self._unit = unit
        self._after = AFTER if after is None else after
        self._note = ""
        self._count = 0
        self._began = time.monotonic()
        self._shown = False
        self._stream = sys.stderr
        self._ended = threading.Event()
        self._pen = threading.Lock()
        writes = not quiet and is_shown(self._stream)
        self._thread = threading.Thread(target=self._run, daemon=True) if writes else None

    def say(self, text: str, *, note: str = "") -> None:
        """Show this text from now on. A `note` stays on a line of its own, once the line is visible."""
        with self._pen:
            self._text, self._note = text, note or self._note

    def count(self, more: int) -> None:
        """Add to the amount that is done."""
        self._count += more

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Erase the line, so that later output begins in its place. Can be called more than once."""
        self._ended.set()
        with self._pen:
            if self._shown:
                self._shown = False
                self._write(_CLEAR)

    def _run(self) -> None:
        pictures = _pictures(self._stream)
        if self._ended.wait(max(0.0, self._began + self._after - time.monotonic())):
            return
        at = 0
        while True:
            with self._pen:
                if self._ended.is_set():
                    return
                self._shown = True
                note, self._note = self._note, ""
                if note:
                    self._write(_CLEAR + printable(note) + "\n")
                self._write(_CLEAR + self._line(pictures[at % len(pictures)]))
            at += 1
            if self._ended.wait(_PAUSE):
                return

    def _line(self, picture: str) -> str:
        """Cut the line to the terminal's width, since a wrapped line could not be erased."""
        done = f"{self._count:,} {self._unit}" if self._unit else _size(self._count)
        size = f", {done}" if self._count else ""
        width = shutil.get_terminal_size().columns - 1
        head = f"{picture} {format_elapsed(time.monotonic() - self._began)}{size}  "
        return (head + one_line(self._text))[:width]

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal has gone; the operation continues
            self._ended.set()


@contextmanager
def count_pieces(pieces: Iterable[bytes], text: str, *, quiet: bool = False) -> Iterator[Iterator[bytes]]:
    """Yield the pieces, and count their bytes."""
    with ProgressLine(text, quiet=quiet) as progress:
        yield _count_each(pieces, progress)


def _count_each(pieces: Iterable[bytes], progress: ProgressLine) -> Iterator[bytes]:
    for piece in pieces:
        progress.count(len(piece))
        yield piece


def is_shown(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def format_elapsed(seconds: float) -> str:
    """Return `12 s`, `3:05`, `1:02:03`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _size(count: int) -> str:
    """Return `512 B`, `1.5 MB`; powers of 1,000."""
    size = float(count)
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def _pictures(stream: TextIO) -> str:
    try:
        _PICTURES.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _PICTURES
