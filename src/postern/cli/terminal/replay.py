"""Replay of events in real time: how long to wait, and keys meanwhile."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
Wait = Callable[[float | None], str]

FORWARD = 10.0  # seconds that the forward key skips
KEYS = "space: pause · . or →: next · ]: 10 s forward · + and -: speed · q: end"
_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(slots=True)
class Pace:
    """`max_pause` is in seconds of the session's time."""

    speed: float = 1.0
    max_pause: float | None = None

    def faster(self) -> None:
        self.speed = next((speed for speed in _SPEEDS if speed > self.speed), self.speed)

    def slower(self) -> None:
        self.speed = next((speed for speed in reversed(_SPEEDS) if speed < self.speed), self.speed)


class Player(Generic[T]):
    """`wait` waits that many seconds for a key, or without a limit; it returns the key, or nothing on a timeout."""

    def __init__(self, pace: Pace, wait: Wait, show: Callable[[T], None], now: Callable[[], float]) -> None:
        self._pace = pace
        self._wait = wait
        self._show = show
        self._now = now
        self._skip_to = 0.0

    def play(self, events: Iterable[tuple[float, T]], seek: float = 0.0) -> bool:
        """Play `events` with their times, in seconds since the session's start. Events before `seek` are shown at once.
        Return False if a key ended it."""
        self._skip_to = at = seek
        for moment, event in events:
            if moment > self._skip_to:
                if not self._pause(moment - max(at, self._skip_to), moment):
                    return False
                at = moment
            self._show(event)
        return True

    def _pause(self, left: float, moment: float) -> bool:
        """Wait `left` seconds of the session's time."""
        pace = self._pace
        if pace.max_pause is not None:
            left = min(left, pace.max_pause)
        while left > 0:
            begun = self._now()
            key = self._wait(left / pace.speed)
            if not key:
                return True
            left -= (self._now() - begun) * pace.speed
            if key == " ":
                key = self._wait_while_paused()
            if key == "q":
                return False
            if key in (".", "\x1b[C"):
                return True
            if key == "]":
                self._skip_to = max(self._skip_to, moment - left + FORWARD)
                left -= FORWARD
            elif key == "+":
                pace.faster()
            elif key == "-":
                pace.slower()
        return True

    def _wait_while_paused(self) -> str:
        while True:
            key = self._wait(None)
            if key in (" ", "q", ".", "\x1b[C", "]"):
                return key


@contextmanager
def keyboard() -> Iterator[Wait]:
    """Yield keys of this terminal, one by one and without echo; without a terminal, only time passes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield _sleep
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def wait(seconds: float | None) -> str:
        ready, _, _ = select.select([fd], [], [], seconds)
        return os.read(fd, 16).decode(errors="replace") if ready else ""

    try:
        tty.setcbreak(fd, termios.TCSADRAIN)  # Ctrl-C keeps its meaning
        yield wait
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _sleep(seconds: float | None) -> str:
    if seconds is None:
        return "q"
    time.sleep(seconds)
    return ""
