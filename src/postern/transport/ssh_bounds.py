"""What one SSH connection may make this end keep, with clients as with targets. What is looked at is private to
asyncssh: tests fail when it moves."""

from __future__ import annotations

from typing import Any

EXCHANGE = 30.0  # seconds that a key exchange may take
MOST_UNSENT = 8 << 20  # bytes that wait for a transport which is full
MOST_DEFERRED = 5_000  # packets that wait for the end of a key exchange
MOST_REQUESTS = 100  # global requests behind one that takes time; the same of one channel's


def is_flooded(connection: Any) -> bool:
    """Whether the other side of a connection of asyncssh has sent more than can be kept for it."""
    return len(connection._deferred_packets) > MOST_DEFERRED or len(connection._global_request_queue) > MOST_REQUESTS
