"""HTTP clients at a gate in this process: real sockets, a real engine, and an application that is a coroutine.

The application gets frames as from a link, so neither an agent nor a wire of the product is part of it.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from tests.gateway.test_live import permit_of
from tests.support.promises import until

from postern.domain.identity.credential import Grant
from postern.domain.rules.permit import Permit
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.errors import PosternError
from postern.gateway.clients.listener import HandshakeRunner
from postern.gateway.clients.session_setup import SessionSetup
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.gateway.engine import Engine, Parts
from postern.gateway.gateway_protocols import GateParts
from postern.gateway.link_registry import LinkRegistry
from postern.interception.events import Event
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.listener.http_gate import HttpGate, HttpLocalPort
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.services.identity.credentials import make_verifier
from postern.store.signals import LocalSignals
from postern.transport.certificates import TlsFiles, ensure
from postern.transport.memory import MemoryTransport
from postern.transport.served_certificate import ServedCertificate

USER = "ann-shop-abcdef"
PASSWORD = "correct-horse_battery"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
AUTHORIZED = f"Authorization: {BASIC}\r\n".encode()


class AppExchange:
    """One request at the application."""

    def __init__(self, lane: Lane, number: int, head: RequestHead) -> None:
        self.number = number
        self.head = head
        self.trailers: Headers = ()
        self._lane = lane
        self.parts: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def read(self) -> bytes | None:
        part = await self.parts.get()
        self._lane.taken()
        return part

    async def body(self) -> bytes:
        whole = b""
        while (part := await self.read()) is not None:
            whole += part
        return whole

    async def respond(self, status: int = 200, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
        has_body = self.head.method != "HEAD" and status not in (204, 304)
        await self.begin(ResponseHead(status, headers, len(body), has_body))
        if has_body:
            await self.write(body)
        await self.end()

    async def begin(self, head: ResponseHead) -> None:
        await self._lane.send(f.response_frame(self.number, head))

    async def write(self, data: bytes) -> None:
        await self._lane.send(f.data_frames(f.RESPONSE_DATA, self.number, data))

    async def end(self, trailers: Headers = ()) -> None:
        await self._lane.send(f.end_frame(f.RESPONSE_END, self.number, trailers))

    async def fail(self, code: str, message: str) -> None:
        await self._lane.send(f.failed_frame(self.number, f.TargetFailure(code, message)))

    def break_off(self) -> None:
        self._lane.transport.close()


App = Callable[[AppExchange], Awaitable[None]]


class Lane(asyncio.Protocol):
    """The application's end of one link."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._reader = f.HttpFrameReader()
        self._current: AppExchange | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._waiting = 0
        self._is_paused = False
        self.lost = False
        self.transport = _Transport(self)
        self.stream = StreamHandshake()
        self.stream.connection_made(self.transport)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            if frame.kind == f.REQUEST:
                self._current = AppExchange(self, frame.exchange, f.read_request(frame.payload))
                task = asyncio.get_running_loop().create_task(self._run(self._current))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                continue
            assert self._current is not None
            if frame.kind == f.REQUEST_END:
                self._current.trailers = f.read_trailers(frame.payload)
            self._current.parts.put_nowait(frame.payload if frame.kind == f.REQUEST_DATA else None)
            self._waiting += 1
        if self._waiting > 8 and not self._is_paused:
            self._is_paused = True
            self._link().pause_writing()

    def taken(self) -> None:
        self._waiting -= 1
        if self._is_paused and self._waiting < 4 and not self.lost:
            self._is_paused = False
            self._link().resume_writing()

    async def _run(self, exchange: AppExchange) -> None:
        await self._app(exchange)

    async def send(self, data: bytes) -> None:
        await self._room.wait()
        if self.lost:
            raise ConnectionResetError
        self._link().data_received(data)

    def pause(self, paused: bool) -> None:
        (self._room.clear if paused else self._room.set)()

    def _link(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", self.transport.get_protocol())

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._room.set()
        for task in self._tasks:
            task.cancel()


class _Transport(MemoryTransport):
    def __init__(self, lane: Lane) -> None:
        super().__init__(lane)
        self._lane = lane
        self._reading = True

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False
        self._lane.pause(True)

    def resume_reading(self) -> None:
        self._reading = True
        self._lane.pause(False)


class Kept:
    """A recording."""

    size, truncated = 1, False

    def __init__(self) -> None:
        self.finished: list[str] = []

    def record(self, events: list[Event], micros: int) -> None: ...

    async def finish(self, reason: str, micros: int, *, soon: bool) -> None:
        self.finished.append(reason)


class HttpSite:
    """A gate whose application is `app`. `problem`: why nothing can be dialled; `denied`: why nobody is admitted."""

    def __init__(self, app: App, certificate: ServedCertificate | None = None, browser_login: Any = None) -> None:
        self.app = app
        self.signals = LocalSignals()
        self.lanes: list[Lane] = []
        self.ended: list[Any] = []
        self.opened: list[UUID] = []
        self.metadata: list[Any] = []
        self.verified = 0
        self.problem: PosternError | None = None
        self.denied: PosternError | None = None
        self.admitting = asyncio.Event()
        self.admitting.set()
        self.verifier = make_verifier(Secret(PASSWORD))
        self.credential_id = uuid4()
        self.revoked = False
        access = cast(
            "Any",
            SimpleNamespace(
                find_grant=self._find_grant,
                admit=self._admit,
                admit_principal=self._admit_principal,
                still_allowed=self._still_allowed,
                renew=self._renew,
            ),
        )
        self.links = LinkRegistry(access, self.signals, self._pipeline, idle_timeout=0)
        parts = Parts(self._pipeline, lambda *_: Kept(), lambda *_: HttpWire(HttpproxyDialect(1 << 20)))
        sessions = cast("Any", SimpleNamespace(open=self._open, close=self._close))
        self.engine = Engine("w1", sessions, cast("Any", self), self.links, parts, max_duration=3600)
        self.fronts = SessionSetup(access, self.engine, cast("Any", None))
        self.logins = HandshakeRunner(timeout=2, most=100, most_per_address=100)
        shown = cast("GateParts", SimpleNamespace(certificate=certificate, fronts=self.fronts, decoy_secret=b"x" * 32))
        self.gate = HttpGate(shown, "httpproxy", browser_login=browser_login)
        self.local = HttpLocalPort(self.fronts, "httpproxy")
        self.require_tls = False
        self.is_local = False

    def _pipeline(self, permit: Permit, view: SessionView) -> Pipeline:
        return Pipeline([], view)

    async def _find_grant(self, username: str) -> Grant | None:
        self.verified += 1
        if username != USER or self.revoked:
            return None
        permit = self._permit()
        return Grant(self.credential_id, USER, self.verifier, permit.principal, permit.connection, None, None)

    def _permit(self) -> Permit:
        permit = permit_of(None)
        connection = SimpleNamespace(
            id=uuid4(),
            org_id=uuid4(),
            name="shop",
            type="application",
            subtype="httpproxy",
            protocol="httpproxy",
            connection_tags={},
            issue_template_id=None,
        )
        from dataclasses import replace

        return replace(permit, connection=cast("Any", connection), policy=Policy(), credential_id=self.credential_id)

    async def _admit(self, grant: Grant, **_: Any) -> Permit:
        await self.admitting.wait()
        if self.denied is not None:
            raise self.denied
        return self._permit()

    async def _admit_principal(self, *_: Any, **__: Any) -> Permit:
        return await self._admit(cast("Any", None))

    async def _still_allowed(self, permit: Permit) -> str | None:
        return "this credential was revoked" if self.revoked else None

    async def _renew(self, permit: Permit) -> Permit:
        return permit

    async def _open(self, permit: Permit, *, session_id: UUID, metadata: Any, **_: Any) -> Any:
        self.opened.append(session_id)
        self.metadata.append(metadata)
        return SimpleNamespace(id=session_id, start_date=datetime.now(UTC))

    async def _close(self, session_id: UUID, **ended: Any) -> None:
        self.ended.append(ended["reason"])

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        if self.problem is not None:
            raise self.problem
        self.lanes.append(Lane(self.app))
        return Target(self.lanes[-1].stream, {"scheme": "http", "authority": "app.internal:8080"})

    async def cancel(self, permit: Permit, target: Target) -> None: ...

    def accept(self) -> asyncio.Protocol:
        stream = _Accepted()

        async def serve(stream: StreamHandshake) -> Awaitable[None] | None:
            if self.is_local:
                return await self.local.serve_tunnel(stream, self._tunnel_request())
            return await self.gate.native(stream, require_tls=self.require_tls)

        stream.accepted = lambda: self.logins.start(stream, serve, self.gate.reject)
        return stream

    def _tunnel_request(self) -> TunnelRequest:
        principal = self._permit().principal

        async def standing() -> Any:
            return principal

        return TunnelRequest(principal, "login:1", "shop", self.links.changes, standing)

    async def stopped(self) -> None:
        await self.links.stop(2)
        self.gate.close("the gateway is stopping")
        await self.engine.shared_sessions.stop(2)
        await self.logins.stop(2)


class _Accepted(StreamHandshake):
    accepted: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        start, self.accepted = self.accepted, None
        if start is not None:
            start()


@asynccontextmanager
async def http_site(
    app: App, *, tls: Path | None = None, browser_login: Any = None
) -> AsyncIterator[tuple[HttpSite, int]]:
    """A site that listens, and its port. `tls`: a folder for its certificate."""
    certificate = None
    if tls is not None:
        files: TlsFiles = ensure(tls, ["localhost", "127.0.0.1"])
        certificate = ServedCertificate(lambda: files)
    site = HttpSite(app, certificate, browser_login)
    server = await asyncio.get_running_loop().create_server(site.accept, "127.0.0.1", 0)
    try:
        yield site, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await site.stopped()


class Raw:
    """A client that writes HTTP by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Raw:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def get(self, path: str = "/", *, more: bytes = AUTHORIZED) -> bytes:
        await self.send(f"GET {path} HTTP/1.1\r\nHost: gate.example\r\n".encode() + more + b"\r\n")
        return await self.response()

    async def response(self) -> bytes:
        """Head and body of one response with a length, or in chunks."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        if b"content-length: " in lower:
            size = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head + await self.reader.readexactly(size)
        if b"transfer-encoding: chunked" in lower:
            return head + await self.reader.readuntil(b"0\r\n\r\n")
        return head

    async def rest(self) -> bytes:
        return await self.reader.read(-1)

    def close(self) -> None:
        self.writer.close()


async def ended(site: HttpSite, many: int) -> None:
    await until(lambda: len(site.ended) == many)
