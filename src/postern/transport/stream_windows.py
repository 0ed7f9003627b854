"""The size of a stream's window: as many bytes in flight as the path holds, where there is memory for it.

    a stream begins with WINDOW ──▶ half of it is read in less than two round trips: doubled, up to WIDEST
                                ◀── half of it takes longer than SLOW: less by what was just read, down to WINDOW

A stream whose peer waits for credit moves one window per round trip, however wide the path is. Credit cannot be taken
back, so a wider window must be earned by bytes that were read as they came; bytes that waited for their reader do not
count. The part of windows beyond WINDOW comes from a reserve of the tunnel, and that from one of the process. So peers
that earn wide windows and readers that then stop cannot hold more than the reserves.

The idea is that of QUIC's receivers. The round trip is the shortest of the tunnel, so that bytes which queue before a
slow process do not look like a long path. Compiled (decision 0007).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

WINDOW: Final = 1 << 20  # bytes that either side can send before its first credit
WIDEST: Final = 16 << 20  # bytes: 100 MB/s at a round trip of 100 ms
TUNNEL: Final = 64 << 20  # bytes beyond WINDOW of all windows of one tunnel
PROCESS: Final = 256 << 20  # the same for all tunnels that share a reserve
SLOW: Final = 2.0  # seconds
LONGEST: Final = 1.0  # seconds; a longer round trip counts as this: a late answer earns nothing
_SHORTEST: Final = 1e-6
_TRIPS: Final = 3  # initial measurements, one after the other: the first is distorted by the start of a tunnel
_NEVER: Final = -1e9

_time: Final = struct.Struct(">d")
_pack: Final = _time.pack
_unpack: Final = _time.unpack


class Reserve:
    """A reserve of `size` bytes, which never exceeds that of `within`.

    A user gets no more than what is left for the others then, so latecomers find something.
    """

    def __init__(self, size: int, within: Reserve | None = None) -> None:
        self.size = size
        self.free = size
        self._within = within

    def take(self, size: int, whole: int) -> bool:
        """Return True and take `size` bytes if they are available for a user that then has `whole` of them."""
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
    """The shared state of the windows of one tunnel. `now` is a clock in seconds, with a resolution below 1 ms."""

    def __init__(self, reserve: Reserve, now: Callable[[], float]) -> None:
        self.reserve = reserve
        self.now = now
        self.trip = 0.0  # seconds: the shortest round trip; 0: none yet, and no window grows
        self.used = False  # a window was renewed since this was last set to False
        self._asked = b""
        self._left = _TRIPS

    def ask(self) -> bytes:
        """Return the payload of a PING whose PONG measures a round trip, unless a later PING is sent before."""
        self._asked = _pack(self.now())
        return self._asked

    def receive_pong(self, payload: bytes) -> bool:
        """Handle a PONG. Return True if another PING should follow at once."""
        if not payload or payload != self._asked:
            return False
        self._asked = b""
        trip = min(max(self.now() - float(_unpack(payload)[0]), _SHORTEST), LONGEST)
        if self.trip == 0.0 or trip < self.trip:
            self.trip = trip
        self._left -= 1
        return self._left > 0


class StreamWindow:
    """The window of one stream. `size` is the maximum in flight and buffered; `part` is the number of read bytes that
    is worth a CREDIT."""

    def __init__(self, windows: Windows) -> None:
        self.size = WINDOW
        self.part = WINDOW // 4
        self.waited = False  # set when bytes have to wait for their reader
        self._windows = windows
        self._taken = 0  # since `_since`
        self._since = _NEVER

    def renew(self, consumed: int, waiting: bool) -> int:
        """Return how many bytes of credit to send for `consumed` bytes. `waiting`: others wait for their reader."""
        self._windows.used = True
        self._taken += consumed
        if waiting:
            self.waited = True
        if self._taken * 2 < self.size:
            return consumed
        now = self._windows.now()
        elapsed = now - self._since
        waited = self.waited
        self._since = now
        self._taken = 0
        self.waited = False
        if elapsed > SLOW:
            less = min(consumed, self.size - WINDOW)
            self._resize(self.size - less)
            return consumed - less
        more = min(self.size, WIDEST - self.size)
        if waited or more == 0 or elapsed >= 2 * self._windows.trip:
            return consumed
        if not self._windows.reserve.take(more, self.size + more - WINDOW):
            return consumed
        self.size += more
        self.part = self.size // 4
        return consumed + more

    def close(self) -> None:
        """Release the share: nothing is or will be buffered."""
        self._resize(WINDOW)

    def _resize(self, size: int) -> None:
        if size != self.size:
            self._windows.reserve.give_back(self.size - size)
            self.size = size
            self.part = size // 4
