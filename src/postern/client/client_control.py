"""The client of the control service: it reconnects after every network failure, as long as it runs."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import ssl
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
from google.protobuf.message import Message

from postern.domain.identity.validity import refused_for_its_dates
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey
from postern.domain.targets.control import HEARTBEAT, SILENCE, AgentOrder, Drain, Welcome, WorkersChanged
from postern.domain.targets.declaration import Declaration
from postern.domain.text import one_line
from postern.errors import Conflict, Denied, Invalid, Malformed, PosternError, Unauthenticated, Unavailable
from postern.transport.control import control_pb2 as messages

log = logging.getLogger(__name__)

FIRST_RETRY, LAST_RETRY = 1.0, 30.0  # seconds
_STAYED = 30.0  # seconds after which a stream counts as stable: the next retry is soon
_WELCOME = 10.0  # seconds from dialling to the welcome
_WRITING = 10.0
_FINAL: Mapping[grpc.StatusCode, type[PosternError]] = {
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: Denied,
    grpc.StatusCode.INVALID_ARGUMENT: Malformed,
    grpc.StatusCode.ALREADY_EXISTS: Conflict,  # a different client of this user took its place, or the name is taken
}
_MAX_HELLO = 60 * 1024  # bytes; the gateway accepts 64 KiB
_OPTIONS = (
    ("grpc.max_receive_message_length", 1024 * 1024),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.enable_retries", 0),
)
_Call = grpc.aio.StreamStreamCall[Any, Any]


@dataclass(slots=True)
class _Backoff:
    """Exponential delays with jitter, so that many agents that lost one gateway do not reconnect at the same
    time."""

    delay: float = FIRST_RETRY

    def next(self) -> float:
        delay = self.delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self.delay = min(self.delay * 2, LAST_RETRY)
        return delay

    def reset(self) -> None:
        self.delay = FIRST_RETRY


async def attend(
    key: AgentKey, facts: Mapping[str, str], instance: UUID, declaration: Declaration | None = None
) -> AsyncIterator[AgentOrder]:
    """Yield orders: a Welcome at each connection, then changes. Runs without end, but raises Unauthenticated if the key
    is rejected for good, and Invalid, Malformed or Conflict if the declaration is. Other failures are logged, and
    retried.

    `facts` are those of domain.agent.FACTS; `instance` identifies this run of the process. `declaration` is the
    connection of an agent in an application's container, None for all other agents.
    """
    hello = messages.AgentReport(hello=messages.Hello(name=key.name, instance=str(instance), facts=dict(facts)))
    if declaration is not None:
        hello.hello.declaration.CopyFrom(_message(declaration))
    if hello.ByteSize() > _MAX_HELLO:
        raise Invalid(f"the declaration has more than {_MAX_HELLO} bytes; put a long command in a script file")
    beat = messages.AgentReport(heart_beat=messages.HeartBeat())
    service = Service(key.host, key.port, key.authority)
    method = "/postern.control.v1.Control/Attend"
    async for order in stay(service, lambda: key.secret, Speech(method, hello, beat, messages.AgentOrder)):
        match order.WhichOneof("order"):
            case "welcome":
                welcome = order.welcome
                yield Welcome(UUID(welcome.agent_id), welcome.tunnel_url, _workers(welcome.worker_ids))
            case "workers_changed":
                yield WorkersChanged(_workers(order.workers_changed.worker_ids))
            case "drain":
                yield Drain(one_line(order.drain.reason))
            case "revoked":
                raise Unauthenticated(f"the gateway rejects this key: {one_line(order.revoked.reason)}")


@dataclass(frozen=True, slots=True)
class Service:
    """The address of the control service. `authority` is the DER form of the CA to trust, None for public ones."""

    host: str
    port: int
    authority: bytes | None


@dataclass(frozen=True, slots=True)
class Speech:
    """A service of the proto: its method, the first message, the message every HEARTBEAT, the handler of answers; and
    `more`, messages that are sent as soon as they exist."""

    method: str
    hello: Message
    beat: Message
    heard: type[Message]
    more: asyncio.Queue[Message] = field(default_factory=lambda: asyncio.Queue(16))


async def stay(service: Service, bearer: Callable[[], Secret], speech: Speech) -> AsyncIterator[Any]:
    """Yield answers, over as many streams as necessary. `bearer` returns the token for each of them.

    Raises Unauthenticated, Denied, Malformed or Conflict if the service rejects the client for good.
    """
    clock, backoff = asyncio.get_running_loop().time, _Backoff()
    while True:
        since = clock()
        try:
            given = bearer()
            async with _attending(service, given, speech) as orders:
                async for order in orders:
                    yield order
        except grpc.aio.AioRpcError as error:
            why = _explain_error(error, service)
            if error.code() in _FINAL and bearer() == given:
                raise _FINAL[error.code()](why) from None
        except Unavailable as error:
            why = error.message
        if clock() - since >= _STAYED:
            backoff.reset()
        delay = backoff.next()
        log.warning(
            "the control service of %s:%d is unavailable: %s; retrying in %.1f s",
            service.host,
            service.port,
            why,
            delay,
        )
        await asyncio.sleep(delay)


@asynccontextmanager
async def _attending(service: Service, bearer: Secret, speech: Speech) -> AsyncIterator[AsyncIterator[Message]]:
    """Run one stream, as long as it lasts."""
    host = f"[{service.host}]" if ":" in service.host else service.host
    credentials = grpc.ssl_channel_credentials(_roots(service.authority))
    async with grpc.aio.secure_channel(f"{host}:{service.port}", credentials, options=_OPTIONS) as channel:
        method: grpc.aio.StreamStreamMultiCallable[Any, Any] = channel.stream_stream(
            speech.method, lambda message: message.SerializeToString(), speech.heard.FromString
        )
        call = method(metadata=(("authorization", f"Bearer {bearer.reveal()}"),))
        saying: asyncio.Task[None] | None = None
        try:
            first = await _await_welcome(call, speech.hello)
            saying = asyncio.create_task(_say(call, speech))
            yield _read_orders(call, first)
        finally:
            call.cancel()
            if saying is not None:
                saying.cancel()
                await asyncio.gather(saying, return_exceptions=True)


async def _await_welcome(call: _Call, hello: Message) -> Message:
    try:
        async with asyncio.timeout(_WELCOME):
            await call.write(hello)
            return await _read(call)
    except TimeoutError:
        raise Unavailable(f"no answer arrived within {_WELCOME:.0f} s") from None
    except asyncio.InvalidStateError:  # the call ended before it was written to
        raise await _failure(call) from None


async def _read_orders(call: _Call, first: Message) -> AsyncIterator[Message]:
    """Read until the stream ends. Raises AioRpcError, Unavailable after SILENCE."""
    order = first
    while True:
        yield order
        try:
            async with asyncio.timeout(SILENCE):
                order = await _read(call)
        except TimeoutError:
            raise Unavailable(f"nothing arrived for {SILENCE:.0f} s") from None


async def _read(call: _Call) -> Message:
    """Raises AioRpcError when the stream has ended, also without an error."""
    order = await call.read()
    if order is grpc.aio.EOF:
        raise await _failure(call)
    assert isinstance(order, Message)
    return order


async def _failure(call: _Call) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
    )


async def _say(call: _Call, speech: Speech) -> None:
    """Write until the stream ends; its reader gets the reason. gRPC accepts one message at a time."""
    clock = asyncio.get_running_loop().time
    due = clock() + HEARTBEAT
    try:
        while True:
            try:
                async with asyncio.timeout_at(due):
                    said = await speech.more.get()
            except TimeoutError:
                said, due = speech.beat, clock() + HEARTBEAT
            async with asyncio.timeout(_WRITING):
                await call.write(said)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return
    except TimeoutError:
        call.cancel()


def _message(declaration: Declaration) -> messages.Declaration:
    return messages.Declaration(
        name=declaration.name,
        type=declaration.type,
        subtype=declaration.subtype,
        command=declaration.command,
        reviewers=declaration.reviewers,
        redact_types=declaration.redact_types,
        connection_tags=dict(declaration.connection_tags),
        default_database=declaration.default_database,
    )


def _workers(texts: Any) -> frozenset[UUID]:
    return frozenset(UUID(text) for text in texts)


def _explain_error(error: grpc.aio.AioRpcError, service: Service) -> str:
    """Describe the error, in plain words instead of gRPC's own."""
    details = one_line(error.details() or "the gateway gave no reason")
    if dates := refused_for_its_dates(details, datetime.now(UTC)):
        return dates
    if "CERTIFICATE_VERIFY_FAILED" in details:
        issuer = "a public authority" if service.authority is None else "the authority in the key"
        return (
            f"its certificate is not issued by {issuer}, so it could be a different machine; if the gateway "
            "has a new certificate authority, ask an administrator for a new key"
        )
    if "Hostname Verification Check failed" in details or "is not in peer certificate" in details:
        return f"its certificate is not valid for the name {service.host}; set POSTERN_PUBLIC_HOST at the gateway"
    if error.code() is grpc.StatusCode.OK:
        return "the gateway ended the stream"
    return details


def _roots(authority: bytes | None) -> bytes | None:
    """Return the PEM of the trusted certificates; None is gRPC's own list of public authorities, if this system has
    none."""
    if authority is not None:
        text = "\n".join(textwrap.wrap(base64.b64encode(authority).decode(), 64))
        return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode()
    system = ssl.get_default_verify_paths().cafile
    return Path(system).read_bytes() if system else None
