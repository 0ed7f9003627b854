"""What a child process owes its supervisor: to die with it, and to say when it is ready; and what a process that has
secrets owes itself.

Linux sends a chosen signal to a child whose parent is gone (`PR_SET_PDEATHSIG`), so that even
`kill -9` of the supervisor leaves nothing behind. On other systems this module does nothing of that kind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

READY_FD = "POSTERN_READY_FD"  # names the pipe on which a supervisor waits for one line
PARENT_PID = "POSTERN_PARENT_PID"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
# Loaded before any fork: between fork and exec a child must not load libraries.
_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def die_with_parent(parent: int | None = None, by: signal.Signals = signal.SIGTERM) -> None:
    """Asks the kernel for signal `by` when the process that started us ends.

    `parent` is that process's id; None takes it from the environment a supervisor gave us, and does
    nothing when there is none. Exits at once when the parent is gone already.
    """
    if parent is None:
        parent = int(os.environ.get(PARENT_PID, "0"))
    if parent == 0 or _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, int(by), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def hide_from_own_user() -> None:
    """Where Linux has it: other processes of this user, what we start among them, can neither read this process's
    environment and memory nor trace it. There are no core dumps of it, either."""
    if _prctl is not None:
        _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def dying_with_us(by: signal.Signals) -> Callable[[], None]:
    """For `subprocess`'s `preexec_fn`, where the child is not our code. Runs after `user=` took effect, as it
    must: a change of user clears the wish. Use it from a process's main thread and where no other thread runs."""
    us = os.getpid()
    return lambda: die_with_parent(us, by)


def announce_ready() -> None:
    """Tells the supervisor that this process serves now. Does nothing without one, or when said already."""
    descriptor = os.environ.pop(READY_FD, None)
    if descriptor is None:
        return
    try:
        os.write(int(descriptor), b"ready\n")
        os.close(int(descriptor))
    except OSError:
        return  # the supervisor does not listen any more; its end is told to us by a signal
