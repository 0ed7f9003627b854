"""What the kernel tells of a process: its processor time, its memory, its children."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

_WHOLE_PROCESS = (
    2  # CPUCLOCK_SCHED of a process: what clock_getcpuclockid(3) answers, which Python has for threads only
)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads, ended ones included, as its own clock counts them: in nanoseconds."""
    return time.clock_gettime(~pid << 3 | _WHOLE_PROCESS)


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def child_with(parent: int, word: str) -> int:
    """The id of the child of `parent` that has `word` among its arguments. Raises RuntimeError without one."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            its_parent = int(_stat(int(entry.name))[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if its_parent == parent and word.encode() in arguments:
            return int(entry.name)
    raise RuntimeError(f"process {parent} has no child {word!r}")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold anything: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def used_seconds(pid: int) -> float:
    """User and system time of the process, and of its children that have ended, in steps of 10 ms."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def proportional_bytes(pid: int) -> int:
    """Its memory; a page that n processes share counts as an n-th. 0 if it has ended, or is hidden from this user."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024


def descendants(pid: int) -> Iterator[int]:
    """The children of a process, their children, and so on."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from descendants(child)
