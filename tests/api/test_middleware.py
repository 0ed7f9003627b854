"""Answers that break off."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.support.promises import until

from postern.api.middleware import Envelope
from postern.transport.http_bounds import HttpLimits, bounded_http


async def too_short(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"100")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"not so much"})


@pytest.mark.filterwarnings("ignore")
async def test_a_client_does_not_wait_for_the_rest_of_an_answer() -> None:
    class Application:
        state = type("State", (), {"meters": None})()

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await Envelope(too_short)({**scope, "app": self}, receive, send)

    config = uvicorn.Config(
        Application(), port=0, http=bounded_http(HttpLimits()), lifespan="off", ws="none", log_config=None
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(60):
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.read()).endswith(b"not so much")  # up to the end of the connection
        writer.close()
    server.should_exit = True
    await serving
