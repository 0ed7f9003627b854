"""Services of a supervisor's child process: it ends with the supervisor, reports when it is ready, and sends
heartbeats. Also protection of processes with secrets.

Linux sends a chosen signal to a child whose parent has ended (`PR_SET_PDEATHSIG`), so that even `kill -9` of the
supervisor leaves nothing behind. Other systems have no such signal.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

READY_FD = "POSTERN_READY_FD"  # names the pipe on which a supervisor waits for one line, then for heartbeats
HEARTBEAT_EVERY = 1.0  # seconds
# Makes a process write the stack of each of its threads to standard error. SIGABRT would do that, too, but it leaves a
# core file with every secret if the machine allows core files.
DUMP_STACKS = signal.SIGUSR2
PARENT_PID = "POSTERN_PARENT_PID"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
# Loaded before any fork: between fork and exec a child must not load libraries.
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def die_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGTERM) -> None:
    """Request the signal `by` from the kernel when this process's parent ends.

    `parent` is that process's id; None takes it from the environment that a supervisor set, and does nothing if there
    is none. Exits at once if the parent has ended already.
    """
    if parent is None:
        parent = int(os.environ.get(PARENT_PID, "0"))
    if parent == 0 or _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def can_adopt() -> bool:
    return _prctl is not None


def adopt_orphans(adopts: bool) -> None:
    """Say whether descendants of this process whose parent ends become its children from now on, on Linux. They must
    be waited for then, so that this is on only while such a process is expected."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def hide_from_own_user() -> None:
    """Protect this process, on Linux: other processes of this user, also its children, can neither read its environment
    and memory nor trace it, and it leaves no core dumps."""
    if _prctl is not None:
        _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def dying_with_us(by: signal.Signals) -> Callable[[], None]:
    """Return a function for `subprocess`'s `preexec_fn`, for a child that does not run our code. It runs after `user=`
    took effect, as it must: a change of user clears the request. Use it from a process's main thread and while no other
    thread runs."""
    us = os.getpid()
    return lambda: die_with_parent(us, by)


def release_memory() -> None:
    """Give this process's free memory back to the system. glibc keeps what threads have freed, which after a burst of
    work is everything that the burst used. Does nothing with other C libraries."""
    if _trim is not None:
        _trim(0)


def announce_ready(loop: AbstractEventLoop | None = None) -> None:
    """Report to the supervisor that this process serves now. Does nothing without a supervisor, or when called again.

    With `loop`, that event loop sends heartbeats from now on: the supervisor replaces a process whose loop hangs.
    """
    descriptor = os.environ.pop(READY_FD, None)
    if descriptor is None:
        return
    release_memory()  # what the start needed
    pipe = int(descriptor)
    try:
        os.write(pipe, b"ready\n")
    except OSError:  # the supervisor has ended; a signal tells this process so
        loop = None
    if loop is None:
        os.close(pipe)
        return
    faulthandler.register(DUMP_STACKS, all_threads=True, chain=False)
    os.set_blocking(pipe, False)
    loop.call_later(HEARTBEAT_EVERY, _send_heartbeats, loop, pipe)


def _send_heartbeats(loop: AbstractEventLoop, pipe: int) -> None:
    try:
        os.write(pipe, b".")
    except BlockingIOError:
        pass  # the supervisor is stopped, and the pipe is full of heartbeats
    except OSError:
        os.close(pipe)
        return
    loop.call_later(HEARTBEAT_EVERY, _send_heartbeats, loop, pipe)
