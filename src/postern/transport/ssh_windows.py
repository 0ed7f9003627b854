"""What a channel of SSH (RFC 4254, section 5) may cost whoever sends and receives on it, which is not its bytes alone.

what waits while nobody reads       at most a window. asyncssh grants all of one anew whenever it hands over a packet
                                    and less than half is left, whatever else waits: a reader that pauses every few
                                    packets would have it hold more and more. So as long as something waits, packets are
                                    handed over and nothing is granted
packets of a byte that wait         put together, since each takes a hundred times its byte; of two kinds in turns, at
                                    most MOST_PIECES. asyncssh keeps a list, of which to take the first takes its length
packets that the other side allows  of SMALLEST_PACKET at least: all that there is to send is cut into them at once

What is looked at is private to asyncssh: tests fail when it moves.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import asyncssh
from asyncssh.constants import MSG_CHANNEL_OPEN, MSG_CHANNEL_OPEN_CONFIRMATION

from postern.domain.identity.ssh_wire import Reader

TOGETHER = 32 * 1024  # bytes of pieces that become one
MOST_PIECES = 200_000
SMALLEST_PACKET = 256  # bytes; OpenSSH has 32768, small devices a few hundred


class Waiting(deque[tuple[bytes, Any]]):
    """Stands for asyncssh's list of what was received and its kind. Raises ProtocolError for too many pieces."""

    def append(self, piece: tuple[bytes, Any], /) -> None:
        data, kind = piece
        if self and self[-1][1] == kind and len(self[-1][0]) + len(data) <= TOGETHER:
            self[-1] = (self[-1][0] + data, kind)
        elif len(self) >= MOST_PIECES:
            raise asyncssh.ProtocolError("too many small packets of one channel")
        else:
            super().append(piece)

    def pop(self, index: int = 0, /) -> tuple[bytes, Any]:
        """The first one, which is all that asyncssh asks for."""
        return self.popleft()


def bound(channel: Any) -> None:
    """A channel of asyncssh, for bytes, before anything was received."""
    deliver = channel._deliver_data

    def delivered(data: bytes, datatype: int | None) -> None:
        session = channel._session
        if channel._recv_buf and session is not None:
            session.data_received(data, datatype)
        else:
            deliver(data, datatype)

    channel._deliver_data = delivered
    channel._recv_buf = Waiting(channel._recv_buf)


def check_opened(kind: int, packet: Any) -> None:
    """Of each packet that comes for a connection or a channel. Raises ProtocolError where one is opened, or agreed to,
    with packets that are too small."""
    if kind not in (MSG_CHANNEL_OPEN, MSG_CHANNEL_OPEN_CONFIRMATION):
        return
    reader = Reader(packet.get_remaining_payload())
    try:
        reader.string() if kind == MSG_CHANNEL_OPEN else reader.uint32()
        _, _, size = reader.uint32(), reader.uint32(), reader.uint32()
    except ValueError:
        return  # which asyncssh says itself
    if size < SMALLEST_PACKET:
        raise asyncssh.ProtocolError(f"a channel of packets of {size} bytes; {SMALLEST_PACKET} are the least")
