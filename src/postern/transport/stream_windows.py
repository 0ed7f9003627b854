"""How much a peer may have on its way on one stream: as much as the path holds, where there is memory for it.

    a stream begins with WINDOW ──▶ half of it is taken in less than two round trips: twice as much, up to WIDEST
                                ◀── half of it takes longer than SLOW: less by what was just taken, down to WINDOW

A stream whose peer waits for credit moves one window in a round trip, however wide the path is. What the peer has
been given cannot be taken back, so a wider window has to be earned by bytes that were taken as they came: those that
waited for their reader do not count. What windows have beyond WINDOW comes from a reserve for the tunnel, and that
from one for the process; peers that earn wide windows and readers that stop then cannot hold more than the reserves.

The idea is that of QUIC's receivers; the round trip is the shortest that the tunnel has seen, so that bytes which
queue in front of a slow process do not look like a long path. Compiled (decision 0007).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

WINDOW: Final = 1 << 20  # bytes that either side may send before it hears of any taken
WIDEST: Final = 16 << 20  # bytes: 100 MB/s where a round trip takes 100 ms
TUNNEL: Final = 64 << 20  # bytes that the windows of one tunnel may have beyond WINDOW each
PROCESS: Final = 256 << 20  # the same of all tunnels that share a reserve
SLOW: Final = 2.0  # seconds
LONGEST: Final = 1.0  # seconds of a round trip that is believed: a peer that answers late earns nothing by it
_SHORTEST: Final = 1e-6
_TRIPS: Final = 3  # measured to begin with, one after the other: the first waits for all that a new tunnel causes
_NEVER: Final = -1e9

_time: Final = struct.Struct(">d")
_pack: Final = _time.pack
_unpack: Final = _time.unpack


class Reserve:
    """`size` bytes, and never more than those of `within`.

    Nobody gets more than what is left for the others then: who comes late finds something.
    """

    def __init__(self, size: int, within: Reserve | None = None) -> None:
        self.size = size
        self.free = size
        self._within = within

    def take(self, size: int, whole: int) -> bool:
        """Whether `size` bytes are to be had, for somebody who then has `whole` of them."""
        if whole > self.free - size:
            return False
        if self._within is not None and not self._within.take(size, self.size - self.free + size):
            return False
        self.free -= size
        return True

    def give_back(self, size: int) -> None:
        self.free += size
        if self._within is not None:
            self._within.give_back(size)


class Windows:
    """What the windows of one tunnel share. `now` is a clock, in seconds; it must know less than a ms."""

    def __init__(self, reserve: Reserve, now: Callable[[], float]) -> None:
        self.reserve = reserve
        self.now = now
        self.trip = 0.0  # seconds: the shortest round trip seen; 0: none yet, and no window grows
        self.used = False  # a window was renewed since somebody set this to False
        self._asked = b""
        self._left = _TRIPS

    def ask(self) -> bytes:
        """The payload of a PING whose PONG tells a round trip, unless it is sent after the next one."""
        self._asked = _pack(self.now())
        return self._asked

    def answered(self, payload: bytes) -> bool:
        """A PONG with this payload came. Whether another PING should follow at once."""
        if not payload or payload != self._asked:
            return False
        self._asked = b""
        trip = min(max(self.now() - float(_unpack(payload)[0]), _SHORTEST), LONGEST)
        if self.trip == 0.0 or trip < self.trip:
            self.trip = trip
        self._left -= 1
        return self._left > 0


class StreamWindow:
    """Of one stream. `size` is what may be on its way and held; `part`, what must be taken to be worth a CREDIT."""

    def __init__(self, windows: Windows) -> None:
        self.size = WINDOW
        self.part = WINDOW // 4
        self.waited = False  # set when bytes have to wait for their reader
        self._windows = windows
        self._taken = 0  # since `_since`
        self._since = _NEVER

    def renew(self, taken: int, waiting: bool) -> int:
        """How many bytes to give the peer for `taken`. `waiting`: others wait for their reader."""
        self._windows.used = True
        self._taken += taken
        if waiting:
            self.waited = True
        if self._taken * 2 < self.size:
            return taken
        now = self._windows.now()
        elapsed = now - self._since
        waited = self.waited
        self._since = now
        self._taken = 0
        self.waited = False
        if elapsed > SLOW:
            less = min(taken, self.size - WINDOW)
            self._resize(self.size - less)
            return taken - less
        more = min(self.size, WIDEST - self.size)
        if waited or more == 0 or elapsed >= 2 * self._windows.trip:
            return taken
        if not self._windows.reserve.take(more, self.size + more - WINDOW):
            return taken
        self.size += more
        self.part = self.size // 4
        return taken + more

    def close(self) -> None:
        """Nothing is held, or will be: its share is the others'."""
        self._resize(WINDOW)

    def _resize(self, size: int) -> None:
        if size != self.size:
            self._windows.reserve.give_back(self.size - size)
            self.size = size
            self.part = size // 4
