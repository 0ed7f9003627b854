"""One query on a target connection that was opened for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from postern.protocols.gateway_queries import Query, QueryInSteps, Row
from postern.relay.relay_handshake import StreamHandshake


async def query_rows(stream: StreamHandshake, query: Query) -> AsyncIterator[Row]:
    """Yield each row as it arrives; `query.error` is set after the last. Raises ProtocolViolation and
    ConnectionError."""
    stream.write(query.start())
    steps = query if isinstance(query, QueryInSteps) else None
    while not query.finished:
        for row in query.feed(await stream.read(query.needs)):
            yield row
        if steps is not None and (request := steps.request()):
            stream.write(request)
