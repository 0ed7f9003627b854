"""A client of the agent's HTTP links: it writes request frames, and collects the frames of responses."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID, uuid4

from tests.support.certificates import Issued

from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.protocols.http import http_frames as m
from postern.protocols.http.http_frames import HttpFrame, TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead
from postern.protocols.http.target.http_target_link import HttpTargetLink
from postern.protocols.http.target.http_targets import HttpTargets
from postern.relay.orders import Order
from postern.relay.relay_target import Start, Target

TIMEOUT = 20.0  # seconds


def http_order(*, session_id: UUID | None = None, timeout: float = 10.0) -> Order:
    return Order(
        session_id=session_id or uuid4(),
        user_id="ada",
        user_email="ada@example.com",
        verb=Verb.CONNECT,
        connection_id=UUID(int=1),
        connection="wiki",
        type=ConnectionType.APPLICATION,
        subtype="httpproxy",
        command=(),
        secret={},
        start=Start(),
        timeout=timeout,
    )


async def until(is_so: Callable[[], object]) -> None:
    """Wait until it is so, in another thread."""
    async with asyncio.timeout(TIMEOUT):
        while not is_so():  # noqa: ASYNC110 - no event: it happens in a thread
            await asyncio.sleep(0.01)


def tls_server(issued: Issued, *alpn: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(issued.certificate + issued.key)
        file.flush()
        context.load_cert_chain(file.name)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def resolved(secrets: Mapping[str, str]) -> ResolvedSecrets:
    return ResolvedSecrets({name: Secret(value) for name, value in secrets.items()}, {})


@dataclass
class HttpAnswer:
    """What came of an exchange. `failure` replaces the rest, or follows a part of it."""

    head: ResponseHead | None = None
    body: bytes = b""
    trailers: Headers = ()
    failure: TargetFailure | None = None

    @property
    def status(self) -> int:
        return self.head.status if self.head is not None else 0

    @property
    def failed(self) -> str:
        """The failure's code and text."""
        return f"{self.failure.code}: {self.failure.message}" if self.failure is not None else ""


@dataclass
class LinkClient(asyncio.Protocol):
    target: Target
    frames: list[HttpFrame] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    writable: asyncio.Event = field(default_factory=asyncio.Event)
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    received: int = 0
    number: int = 0

    def __post_init__(self) -> None:
        self._reader = m.HttpFrameReader()
        self.link = cast("HttpTargetLink", self.target.stream.transport)
        self.writable.set()
        self.target.stream.hand_over(self)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.frames += self._reader.feed(data)
        self.arrived.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set()
        self.arrived.set()

    # Requests

    def begin(self, head: RequestHead) -> int:
        self.number += 1
        self.link.write(m.request_frame(self.number, head))
        return self.number

    def send(self, data: bytes) -> None:
        self.link.write(m.data_frames(m.REQUEST_DATA, self.number, data))

    def end(self, trailers: Headers = ()) -> None:
        self.link.write(m.end_frame(m.REQUEST_END, self.number, trailers))

    async def frame(self) -> HttpFrame:
        """The next frame. Raises ConnectionResetError when there is no other."""
        async with asyncio.timeout(TIMEOUT):
            while not self.frames:
                if self.lost.is_set():
                    raise ConnectionResetError("the link was closed")
                self.arrived.clear()
                await self.arrived.wait()
        return self.frames.pop(0)

    async def answer(self) -> HttpAnswer:
        """The answer to the current exchange."""
        answer, parts = HttpAnswer(), []
        while True:
            frame = await self.frame()
            assert frame.exchange == self.number
            if frame.kind == m.RESPONSE:
                assert answer.head is None
                answer.head = m.read_response(frame.payload)
            elif frame.kind == m.RESPONSE_DATA:
                parts.append(frame.payload)
            elif frame.kind == m.RESPONSE_END:
                answer.trailers = m.read_trailers(frame.payload)
                break
            else:
                assert frame.kind == m.FAILED
                answer.failure = m.read_failure(frame.payload)
                break
        answer.body = b"".join(parts)
        return answer

    async def exchange(self, head: RequestHead, body: bytes = b"", trailers: Headers = ()) -> HttpAnswer:
        """Send a whole request, and return its answer."""
        self.begin(head)
        if body:
            self.send(body)
        self.end(trailers)
        return await self.answer()

    async def get(self, path: str = "/", *headers: tuple[bytes, bytes]) -> HttpAnswer:
        return await self.exchange(RequestHead("GET", path, "client.example", headers))

    async def post(self, path: str, body: bytes, *headers: tuple[bytes, bytes], chunked: bool = False) -> HttpAnswer:
        head = RequestHead("POST", path, "client.example", headers, None if chunked else len(body))
        return await self.exchange(head, body)


async def dial_link(
    secrets: Mapping[str, str], targets: HttpTargets | None = None, *, order: Order | None = None,
    policy: LocalPolicy = ANYTHING,
) -> LinkClient:  # fmt: skip
    targets = targets or HttpTargets(policy)
    return LinkClient(await targets.dial(order or http_order(), resolved(secrets)))


@asynccontextmanager
async def link_to(
    secrets: Mapping[str, str], targets: HttpTargets | None = None, *, order: Order | None = None,
    policy: LocalPolicy = ANYTHING,
) -> AsyncIterator[LinkClient]:  # fmt: skip
    client = await dial_link(secrets, targets, order=order, policy=policy)
    try:
        yield client
    finally:
        client.link.close()
        async with asyncio.timeout(TIMEOUT):
            await client.lost.wait()
        client.target.release()
