"""A question to a target that was dialled for it alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

from postern.protocols.gateway_queries import Query, Row
from postern.relay.relay_handshake import StreamHandshake


async def answered(stream: StreamHandshake, query: Query) -> AsyncIterator[Row]:
    """Each row as it comes; `query.error` is told behind the last. Raises ProtocolViolation and ConnectionError."""
    stream.write(query.start())
    while not query.finished:
        for row in query.feed(await stream.read(query.needs)):
            yield row
