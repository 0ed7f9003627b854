"""Progress: one line of a terminal, wiped at the end, and nothing anywhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from postern.cli import progress as progress_module
from postern.cli.progress import ProgressLine, count_pieces, format_elapsed


class Screen:
    """What a terminal was sent."""

    def __init__(self, columns: int) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        self.stream = open(theirs, "w", encoding="utf-8")  # noqa: SIM115 - closed below
        self.text = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        found = b""
        while True:
            try:
                found += os.read(self.ours, 65536)
            except OSError:  # the other end has gone
                return
            self.text = found.decode(errors="ignore")

    def shows(self, wanted: str) -> None:
        until(lambda: wanted in self.text, lambda: self.text)

    def lines(self) -> list[str]:
        """As they stand at the end: what was wiped is gone."""
        return [line.rpartition("\r\x1b[K")[2] for line in self.text.replace("\r\n", "\n").split("\n")]

    def close(self) -> None:
        self.stream.close()
        self._reader.join(60)
        os.close(self.ours)


def until(condition: Callable[[], bool], told: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, told()
        time.sleep(0.01)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    made = Screen(60)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=made.stream))  # pytest puts its own back
    yield made
    made.close()


def test_a_line_that_is_wiped_at_the_end(screen: Screen) -> None:
    with ProgressLine("waiting for something", after=0.05) as progress:
        screen.shows(" s  waiting for something")
        progress.say("running", note="postern: session 7")
        screen.shows(" s  running")
        progress.count(1_500_000)
        screen.shows(" s, 1.5 MB  running")
    screen.stream.write("the end\n")
    screen.stream.flush()
    screen.shows("the end\r\n")
    assert screen.lines() == ["postern: session 7", "the end", ""]


def test_what_is_done_soon_shows_nothing(screen: Screen) -> None:
    with ProgressLine("waiting", after=3600) as progress:
        progress.say("running", note="postern: session 7")
    with ProgressLine("waiting", quiet=True, after=0):
        time.sleep(0.3)
    assert screen.text == ""


def test_a_line_is_never_wider_than_the_terminal_nor_steers_it(screen: Screen) -> None:
    with ProgressLine("\x1b[2J" + "wide " * 50, after=0, unit="rows") as progress:
        progress.count(12345)
        screen.shows("12,345 rows")
    until(lambda: screen.text.endswith("\x1b[K"), lambda: screen.text)
    for line in screen.text.split("\r\x1b[K"):
        assert len(line) < 60
        assert "\x1b" not in line


def test_nothing_is_written_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with ProgressLine("waiting", after=0):
        time.sleep(0.3)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_written_to_a_terminal_that_cannot_take_it_back(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with ProgressLine("waiting", after=0):
        time.sleep(0.3)
    assert screen.text == ""


def test_bytes_are_counted_as_they_come(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postern.cli.progress.AFTER", 0)

    def pieces() -> Iterator[bytes]:
        yield b"x" * 999
        screen.shows("999 B  reading")
        yield b"x" * 1_000_001
        screen.shows("1.0 MB  reading")

    with count_pieces(pieces(), "reading") as told:
        assert sum(map(len, told)) == 1_001_000


def test_a_terminal_that_goes_away_ends_nothing(screen: Screen) -> None:
    with ProgressLine("waiting", after=0) as progress:
        screen.shows("waiting")
        screen.stream.close()
        time.sleep(0.3)
        progress.say("still here")
    assert re.search("waiting", screen.text)


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0 s"), (59.9, "59 s"), (185, "3:05"), (3723, "1:02:03")])
def test_elapsed(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text
