"""The window of an SSH channel (RFC 4254, 5.2) as a bound of what waits here while nobody reads.

asyncssh grants all of a window anew whenever it hands over a packet and less than half is left, whatever else waits: a
reader that pauses every few packets, since it is slower than its sender, would have it hold more and more. So as long
as something waits, packets are handed over and nothing is granted.
"""

from __future__ import annotations

from typing import Any


def bound(channel: Any) -> None:
    """A channel of asyncssh, for bytes. What is looked at is private to asyncssh: tests fail when it moves."""
    deliver = channel._deliver_data

    def delivered(data: bytes, datatype: int | None) -> None:
        session = channel._session
        if channel._recv_buf and session is not None:
            session.data_received(data, datatype)
        else:
            deliver(data, datatype)

    channel._deliver_data = delivered
