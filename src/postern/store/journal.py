"""Readers of the files in which the processes of this machine keep their last log lines (logs/rotation.py).

A process `p` has `p.jsonl` and, once that was full, `p.1.jsonl` before it. A line's id is
`<timestamp>/<process>/<offset>`; the offset in its file tells lines of one timestamp apart.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from postern.domain.server_log import LogFilter, LogLine

MAX_READ = 256 * 1024  # bytes of one process that a follower takes at once
MAX_MISSED = 1_000  # lines that a follower is given of what came while it was away
_SUFFIX, _FORMER = ".jsonl", ".1.jsonl"
_OWN = ("timestamp", "level", "process", "logger", "event")


class FileJournal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def last(self, criteria: LogFilter, limit: int) -> list[LogLine]:
        """Return lines, oldest first."""
        lines: list[LogLine] = []
        for process in _processes(self._folder):
            if criteria.process in (None, process):
                lines += self._last_of(process, criteria, limit)
        return sorted(heapq.nlargest(limit, lines, key=_key), key=_key)

    def follow(self, after: str | None) -> FileFollower:
        return FileFollower(self._folder, after)

    def _last_of(self, process: str, criteria: LogFilter, limit: int) -> list[LogLine]:
        """Return the newest lines of one process that fit, newest first; of the former file only what is still
        missing."""
        lines: list[LogLine] = []
        for suffix in (_SUFFIX, _FORMER):
            content = _content(self._folder / f"{process}{suffix}")
            end = len(content)
            while end > 0 and len(lines) < limit:
                begin = content.rfind(b"\n", 0, end - 1) + 1
                line = _line_of(content[begin:end], process, begin)
                if line is not None and criteria.fits(line):
                    lines.append(line)
                end = begin
        return lines


@dataclass(slots=True)
class _Place:
    """The position in a file; its `inode` shows whether another file took its name."""

    inode: int
    offset: int


class FileFollower:
    """Follower of log files. A slow reader delays no writer; it misses lines that are overwritten."""

    def __init__(self, folder: Path, after: str | None) -> None:
        self._folder = folder
        self._places: dict[str, _Place] = {}
        for process in _processes(folder):
            self._places[process] = _end_of(folder / f"{process}{_SUFFIX}")
        self._missed = self._since(after) if after is not None else []

    def read(self) -> Sequence[LogLine]:
        """Return new lines, by time."""
        lines, self._missed = self._missed, []
        for process in _processes(self._folder):
            lines += self._new(process)
        return sorted(lines, key=_key)

    def _new(self, process: str) -> list[LogLine]:
        path = self._folder / f"{process}{_SUFFIX}"
        place = self._places.setdefault(process, _Place(0, 0))
        now = _end_of(path)
        lines: list[LogLine] = []
        if now.inode != place.inode:  # a new file took the place of the one that was read: first the rest of that
            former = self._folder / f"{process}{_FORMER}"
            if _end_of(former).inode == place.inode:
                lines += _take(former, place, process)
                if place.offset < _end_of(former).offset:
                    return lines  # the rest of it next time
            place = self._places[process] = _Place(now.inode, 0)
        return lines + _take(path, place, process)

    def _since(self, after: str) -> list[LogLine]:
        """Return the newest lines after that id, up to where following begins."""
        begin = _key_of(after)
        lines: list[LogLine] = []
        for process, place in self._places.items():
            former = _content(self._folder / f"{process}{_FORMER}")
            present = _content(self._folder / f"{process}{_SUFFIX}")[: place.offset]
            for content in (former, present):
                lines += [line for line in _lines(content, 0, process) if _key(line) > begin]
        return heapq.nlargest(MAX_MISSED, lines, key=_key)


def _processes(folder: Path) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX) and name.count(".") == 1)


def _end_of(path: Path) -> _Place:
    try:
        result = path.stat()
    except FileNotFoundError:
        return _Place(0, 0)
    return _Place(result.st_ino, result.st_size)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _take(path: Path, place: _Place, process: str) -> list[LogLine]:
    """Return whole lines from `place` on, and move it."""
    try:
        with path.open("rb") as stream:
            stream.seek(place.offset)
            content = stream.read(MAX_READ)
    except FileNotFoundError:
        return []
    whole = content[: content.rfind(b"\n") + 1]
    lines = list(_lines(whole, place.offset, process))
    place.offset += len(whole)
    return lines


def _lines(content: bytes, offset: int, process: str) -> Iterator[LogLine]:
    """Yield the readable lines; `offset` is the position of `content` in its file."""
    begin = 0
    while (end := content.find(b"\n", begin) + 1) > 0:
        line = _line_of(content[begin:end], process, offset + begin)
        if line is not None:
            yield line
        begin = end


def _line_of(raw: bytes, process: str, offset: int) -> LogLine | None:
    if not raw.endswith(b"\n"):
        return None  # it is being written
    try:
        values = json.loads(raw)
        moment, level, logger, message = (str(values[name]) for name in ("timestamp", "level", "logger", "event"))
        at = datetime.fromisoformat(moment).astimezone(UTC)
    except (ValueError, KeyError, TypeError):
        return None  # cut off by a full disk, or no line of ours
    more = {name: value for name, value in values.items() if name not in _OWN}
    return LogLine(f"{moment}/{process}/{offset}", at, level, process, logger, message, more)


def _key(line: LogLine) -> tuple[str, str, int]:
    return _key_of(line.id)


def _key_of(text: str) -> tuple[str, str, int]:
    """Return the sort key of an id. Ids come back from clients: an invalid one sorts before all lines."""
    moment, _, rest = text.partition("/")
    process, _, offset = rest.partition("/")
    return moment, process, int(offset) if offset.isascii() and offset.isdecimal() and len(offset) < 20 else 0
