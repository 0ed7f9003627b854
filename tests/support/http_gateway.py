"""HTTP connections of a test's gateway, and an application behind them that a real server runs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from tests.support.gateway import Gateway
from tests.support.postgres import free_port
from tests.support.promises import wait_until

from postern.domain.identity.credential import Issued
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType, Toggle

BLOCK = 1 << 16


def http_connection(
    gateway: Gateway, name: str, url: str, *, secret: dict[str, str] | None = None, **more: Any
) -> Connection:
    """A connection to an application on this machine."""
    values = {"REMOTE_URL": url, **(secret or {})}
    fields: dict[str, Any] = {
        "name": name,
        "type": ConnectionType.APPLICATION,
        "subtype": "httpproxy",
        "agent_id": gateway._agent.id,
        "access_mode_connect": Toggle.ENABLED,
        "access_mode_exec": Toggle.ENABLED,
        "secret": {f"envvar:{key}": Secret(base64.b64encode(value.encode()).decode()) for key, value in values.items()},
        **more,
    }
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


def login_of(issued: Issued) -> tuple[str, str]:
    return issued.credential.username, issued.password.reveal()


class WebApp:
    """The application. `seen` are the heads of its requests, `made` the names that it was asked to make."""

    def __init__(self) -> None:
        self.port = free_port()
        self.seen: list[dict[str, str]] = []
        self.made: list[str] = []
        self.disconnects = 0
        routes = [
            Route("/echo", self.echo, methods=["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]),
            Route("/say", self.say),
            Route("/make/{name}", self.make, methods=["POST"]),
            Route("/size", self.size, methods=["POST", "PUT"]),
            Route("/large/{blocks:int}", self.large),
            Route("/events", self.events),
            Route("/slow", self.slow),
            Route("/redirect", self.redirect),
            Route("/cookie", self.cookie),
            Route("/broken", self.broken),
            WebSocketRoute("/ws", self.websocket),
        ]
        self._app = Starlette(routes=routes)
        options: dict[str, Any] = {"log_level": "error", "ws": "websockets-sansio", "lifespan": "off"}
        config = uvicorn.Config(self._app, host="127.0.0.1", port=self.port, **options)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def echo(self, request: Request) -> Response:
        self.seen.append(dict(request.headers))
        body = await request.body()
        answer = {
            "method": request.method,
            "path": request.url.path,
            "query": request.url.query,
            "headers": dict(request.headers),
            "body": body.decode("latin-1"),
        }
        return JSONResponse(answer)

    async def say(self, request: Request) -> Response:
        return PlainTextResponse("".join([value for _, value in request.query_params.multi_items()]))

    async def make(self, request: Request) -> Response:
        self.made.append(request.path_params["name"])
        return PlainTextResponse("made")

    async def size(self, request: Request) -> Response:
        digest, size = hashlib.sha256(), 0
        async for part in request.stream():
            digest.update(part)
            size += len(part)
        return JSONResponse({"size": size, "sha256": digest.hexdigest()})

    async def large(self, request: Request) -> Response:
        async def blocks() -> AsyncIterator[bytes]:
            for number in range(request.path_params["blocks"]):
                yield bytes((number % 251,)) * BLOCK

        return StreamingResponse(blocks(), media_type="application/octet-stream")

    async def events(self, request: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            try:
                for number in range(1000):
                    yield f"data: {number}\n\n".encode()
                    await asyncio.sleep(0.05)
            finally:
                self.disconnects += 1

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def slow(self, request: Request) -> Response:
        await asyncio.sleep(float(request.query_params.get("seconds", "1")))
        return Response("slow")

    async def redirect(self, request: Request) -> Response:
        return RedirectResponse(f"{self.url}/echo?redirected=1")

    async def cookie(self, request: Request) -> Response:
        response = JSONResponse(dict(request.cookies))
        response.set_cookie("own", "1", domain="127.0.0.1")
        return response

    async def broken(self, request: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            yield b"begun"
            await asyncio.sleep(0.05)
            raise RuntimeError("the application breaks")

        return StreamingResponse(stream(), media_type="text/plain")

    async def websocket(self, socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text.upper())

    def start(self) -> None:
        self._thread.start()
        wait_until(lambda: self._server.started or None)

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)


@contextmanager
def web_app() -> Iterator[WebApp]:
    app = WebApp()
    app.start()
    try:
        yield app
    finally:
        app.stop()
