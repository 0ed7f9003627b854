"""File descriptors of this process: how many there may be, how many are open, and whether there is room for more work.

Each client needs several: its socket, its target's, its recording. A process that runs out of them fails at whatever
comes next, which may be the recording of a session that runs. So new work is refused while a reserve is still free.
"""

from __future__ import annotations

import os
import resource
import time

from postern.errors import TooMany

# Kept free for what runs (segments of recordings, the store, log files) and for clients that are told why they cannot
# come in. It is larger than a listener's backlog: that many clients can be accepted before one of them is looked at.
RESERVE = 2048
PER_SESSION = 4  # beyond its client's socket: the target's, a recording, and what one of them needs for a moment
# A client that is let in must not be refused after its login: its recording and its socket at an agent in this process
# are open by the time that PER_SESSION is asked for once more.
PER_CLIENT = PER_SESSION + 2
MOST = 1 << 20  # containers may have limits of billions, and some tables grow with the limit
INHERITED = "POSTERN_SOFT_DESCRIPTORS"  # the soft limit from before it was raised, for programs that are not ours
_COUNT_EVERY = 0.1  # seconds, where counting takes a look at each descriptor

_FOLDER = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"


def raise_limit() -> None:
    """Raise the soft limit of this process to its hard limit, and remember the old one for other programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.environ.setdefault(INHERITED, str(soft))
    new_limit = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= new_limit:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
    except (OSError, ValueError):
        return  # macOS has a further limit of its own


def inherited_limit() -> int:
    """Return the soft limit that programs which are not ours get: some still call `select`, which ends at 1,024."""
    value = os.environ.get(INHERITED, "")
    return int(value) if value.isdecimal() else limit()


def limit() -> int:
    """Return how many descriptors this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if soft == resource.RLIM_INFINITY else soft


def count_open() -> int:
    """Return how many are open now."""
    try:
        # Since Linux 6.2 the size of this folder is the answer; before, it is 0.
        return os.stat(_FOLDER).st_size if _SIZED else len(os.listdir(_FOLDER)) - 1
    except OSError:  # not even a descriptor to look with is left
        return limit()


def _is_sized() -> bool:
    try:
        size = os.stat(_FOLDER).st_size
        return _FOLDER.startswith("/proc") and abs(size - len(os.listdir(_FOLDER))) <= 1
    except OSError:
        return False


_SIZED = _is_sized()


def no_room() -> TooMany:
    return TooMany(
        "the gateway accepts no more clients now: it is at its limit of open files; try again later, or ask an "
        "administrator to raise that limit"
    )


class Descriptors:
    """Whether this process has room for new work. Without a `reserve` it is 2,048, or a quarter of a
    limit below 8,192."""

    def __init__(self, reserve: int | None = None) -> None:
        self._reserve = reserve
        self._counted = 0
        self._counted_at = float("-inf")
        self.refused = 0

    @property
    def reserve(self) -> int:
        return self._reserve_of(limit())

    def _reserve_of(self, most: int) -> int:
        return min(RESERVE, most // 4) if self._reserve is None else self._reserve

    def has_room(self, needed: int) -> bool:
        """Return whether `needed` more can be opened without touching the reserve. A refusal is counted."""
        most = limit()
        if self._count() + needed <= most - self._reserve_of(most):
            return True
        self.refused += 1
        return False

    def require(self, needed: int) -> None:
        """Raise TooMany unless there is room."""
        if not self.has_room(needed):
            raise no_room()

    def _count(self) -> int:
        now = time.monotonic()
        if _SIZED or now - self._counted_at > _COUNT_EVERY:
            self._counted, self._counted_at = count_open(), now
        return self._counted
