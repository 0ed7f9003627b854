"""Clean-up after a command: no process that it started stays behind, as far as that can be detected.

Its processes are those of its session and group, and those that left both but still have the session's id in their
environment, which children inherit. A process that cleared its environment *and* left the session cannot be recognised,
and stays; nor can a process of another user be ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

# Seconds after the start of the clean-up: first the terminal hangs up, then SIGTERM, then SIGKILL.
STAGES = ((0.0, signal.SIGHUP), (0.3, signal.SIGTERM), (1.0, signal.SIGKILL))
GIVE_UP = 5.0
_LOOK = 0.05  # seconds between two checks


async def end_all(leader: int, mark: bytes) -> None:
    """End the processes of the session that `leader` leads, and those with `mark` (`NAME=value`) in their environment;
    takes at most GIVE_UP seconds. The leader's own exit status must not have been collected yet: until then its process
    id cannot be reused."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    stages = list(STAGES)
    while process_ids := await asyncio.to_thread(processes, leader, mark):
        passed = loop.time() - began
        if passed > GIVE_UP:
            log.error("processes %s of a command could not be ended", sorted(process_ids))
            return
        while stages and stages[0][0] <= passed:
            _, number = stages.pop(0)
            _send(process_ids, number)
        if not stages:
            _send(process_ids, signal.SIGKILL)
        await asyncio.sleep(_LOOK)


def end_now(leader: int, mark: bytes) -> None:
    _send(processes(leader, mark), signal.SIGKILL)


def processes(leader: int, mark: bytes) -> set[int]:
    """Return the live processes. Blocks: it reads all of /proc."""
    if sys.platform != "linux":
        return _group(leader)
    process_ids: set[int] = set()
    own_pid, us = os.getpid(), os.getuid()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == own_pid:
            continue
        with suppress(OSError):
            # "pid (name) state ppid pgrp session …"; the name can contain anything
            state, _, group, session = (entry / "stat").read_bytes().rpartition(b")")[2].split(None, 4)[:4]
            if state in (b"Z", b"X"):
                continue
            if leader in (int(group), int(session)) or (entry.stat().st_uid == us and _has_mark(entry, mark)):
                process_ids.add(int(entry.name))
    return process_ids


def _has_mark(entry: Path, mark: bytes) -> bool:
    return mark in (entry / "environ").read_bytes().split(b"\0")


def _group(leader: int) -> set[int]:
    """Return the group if /proc is missing; it is gone when no process receives a signal."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return set()
    return {-leader}


def _send(process_ids: set[int], number: signal.Signals) -> None:
    for pid in process_ids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            if number is not signal.SIGKILL:
                os.kill(pid, signal.SIGCONT)  # a stopped process receives no signal
