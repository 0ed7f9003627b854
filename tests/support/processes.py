"""What the kernel says of a process that runs: its children, and what it holds. Linux only."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


def descendants(parent: int) -> list[int]:
    """Of all generations; those that end meanwhile may be missing."""
    found = []
    for task in _entries(Path(f"/proc/{parent}/task")):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += [int(child), *descendants(int(child))]
    return found


def code() -> dict[str, str]:
    """What a process needs in its environment to run the same code as the tests: nothing where that is installed."""
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def words(pid: int) -> list[str]:
    """Its command line; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def open_files(pid: int) -> int:
    """Without those of the store on SQLite: as many as its threads had to do with, up to a bound."""
    return len([name for name in file_names(pid) if "/postern.db" not in name])


def file_names(pid: int) -> list[str]:
    """What its open files are."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return sorted(found)


def resident(pid: int) -> int:
    """Bytes of memory that it holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(pid: int) -> int:
    """The most bytes of memory that it has held since it began, or since `forget_peak`."""
    return _status(pid, "VmHWM") * 1024


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Holding:
    """What can leak of a process."""

    files: int
    threads: int
    children: int
    resident: int  # bytes

    @classmethod
    def of(cls, pid: int) -> Holding:
        return cls(open_files(pid), _status(pid, "Threads"), len(descendants(pid)), resident(pid))

    def __str__(self) -> str:
        return f"{self.files} files, {self.threads} threads, {self.resident / (1 << 20):.1f} MiB"


def _status(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None, name
    return int(found.group(1))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
