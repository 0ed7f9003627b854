"""Recent log lines of a process, in two files of bounded size: `<process>.jsonl` and its predecessor.

Only their owner can read them. Lines that cannot be written are dropped: a full disk must not stop a gateway whose log
goes to standard error first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path

SIZE = 1024 * 1024  # bytes of one file; a process has two
MAX_LINE = 16 * 1024  # bytes; longer ones, such as tracebacks, are replaced by a note
SUFFIX, FORMER = ".jsonl", ".1.jsonl"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class BoundedFile(logging.Handler):
    """Log handler for these files. `process` must be a plain word, because it names the file."""

    def __init__(self, folder: Path, process: str) -> None:
        super().__init__()
        if not _NAME.fullmatch(process):
            raise ValueError(f"{process!r} cannot name a file")
        self._path = folder / f"{process}{SUFFIX}"
        self._former = folder / f"{process}{FORMER}"
        self._descriptor = -1
        self._size = 0
        with contextlib.suppress(OSError):
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
            self._open()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="replace") + b"\n"
            if len(line) > MAX_LINE:
                line = self._shorten(record) + b"\n"
            if self._size + len(line) > SIZE:
                self._rotate()
            if self._descriptor >= 0:
                self._size += os.write(self._descriptor, line)
        except OSError:
            return
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._close_descriptor()
        super().close()

    def _shorten(self, record: logging.LogRecord) -> bytes:
        """Return a note in place of a line that is too long."""
        note = f"a line of {record.name} was too long for this file; standard error has it"
        short = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, note, None, None)
        return self.format(short).encode(errors="replace")

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        self._close_descriptor()
        with contextlib.suppress(FileNotFoundError):
            self._path.replace(self._former)
        self._open()

    def _close_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
