"""What the kernel tells of a process: its processor time, its memory, its children."""

from __future__ import annotations

import resource
import time
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
