"""A log file that all processes of a gateway append to, rotated by size: FILE, FILE.1 (newest), FILE.2 and so on.

Each line is one write in append mode, which the kernel does as a whole, so lines of processes do not mix. The process
whose line does not fit any more locks the file and renames it; the others notice before their next line that the path
leads elsewhere, and open it again. So tools that move the file away (logrotate) need no signal.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from postern.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class LogFile:
    """`size` in bytes, which a line of each process can exceed; `count` is the number of earlier files that are
    kept."""

    path: Path
    size: int
    count: int


class LogFileHandler(logging.Handler):
    """Log handler for the file. Lines that cannot be written go to standard error."""

    def __init__(self, file: LogFile) -> None:
        """Raises Misconfigured if the file cannot be opened."""
        super().__init__()
        self._path = file.path.absolute()
        self._size = file.size
        self._count = file.count
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise Misconfigured(
                f"POSTERN_LOG_FILE: {self._path} cannot be written: {error.strerror}; its folder must exist, and this "
                "user must be allowed to create files in it",
                field="log_file",
            ) from None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        try:
            self._write(line.encode(errors="replace") + b"\n")
        except OSError:
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - the last place that is left

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _write(self, line: bytes) -> None:
        self._follow()
        status = os.fstat(self._descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size and status.st_size + len(line) > self._size:
            self._rotate(len(line))
        while line:
            line = line[os.write(self._descriptor, line) :]

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, 0o640)

    def _follow(self) -> None:
        """Open the file again if another process has moved it."""
        if not self._is_current():
            former, self._descriptor = self._descriptor, self._open()
            os.close(former)

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def _rotate(self, need: int) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            if self._is_current() and os.fstat(self._descriptor).st_size + need > self._size:
                for number in range(self._count, 0, -1):
                    source = self._path_of(number - 1) if number > 1 else self._path
                    if source.exists():
                        source.replace(self._path_of(number))
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._follow()

    def _path_of(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
