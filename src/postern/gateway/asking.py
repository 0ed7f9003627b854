"""A question to a target that was dialled for it alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from postern.errors import ProtocolViolation
from postern.protocols.postgres.query import MAX_MESSAGE, Query, Row
from postern.relay.handshake import StreamHandshake


async def answered(stream: StreamHandshake, query: Query) -> AsyncIterator[Row]:
    """Each row as it comes; `query.error` is told behind the last. Raises ProtocolViolation and ConnectionError."""
    stream.write(query.start())
    while not query.finished:
        head = await stream.read(5)
        size = int.from_bytes(head[1:], "big") - 4
        if not 0 <= size < MAX_MESSAGE:
            raise ProtocolViolation("the target broke its protocol")
        for row in query.feed(head + await stream.read(size)):
            yield row
