"""Somebody who uses the command line at a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

from tests.support.running import Gateway


class Sitting:
    """`postern` at a terminal of its own."""

    def __init__(self, gateway: Gateway, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        self.size(25, 95)
        self.before = termios.tcgetattr(self.ours)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "postern", *arguments],
            env={**gateway.environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""

    def size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def shows(self, text: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while text.encode() not in self.shown:
            ready, _, _ = select.select([self.ours], [], [], max(end - time.monotonic(), 0))
            assert ready, self.shown
            self.shown += os.read(self.ours, 65536)

    def reads(self, seconds: float) -> None:
        """What is shown meanwhile."""
        end = time.monotonic() + seconds
        while select.select([self.ours], [], [], max(end - time.monotonic(), 0))[0]:
            try:
                self.shown += os.read(self.ours, 65536)
            except OSError:  # the other end has gone
                return

    def leaves(self) -> int:
        code = self.process.wait(60)
        assert termios.tcgetattr(self.ours) == self.before
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
