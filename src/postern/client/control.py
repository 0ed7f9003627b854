"""An agent's side of the control service: it attends for as long as it lives, whatever the network does."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import ssl
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc

from postern.domain.agent import AgentKey
from postern.domain.control import HEARTBEAT, SILENCE, AgentOrder, Drain, Welcome, WorkersChanged
from postern.domain.text import one_line
from postern.errors import Unauthenticated, Unavailable
from postern.transport.control import control_pb2 as messages
from postern.transport.control.control_pb2_grpc import ControlStub

log = logging.getLogger(__name__)

FIRST_RETRY, LAST_RETRY = 1.0, 30.0  # seconds
_STAYED = 30.0  # seconds after which a stream counts as a good one: the next retry is soon
_WELCOME = 10.0  # seconds from dialling to being welcomed
_WRITING = 10.0
_FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT)
_OPTIONS = (
    ("grpc.max_receive_message_length", 1024 * 1024),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.enable_retries", 0),
)
_Call = Any  # grpc.aio.StreamStreamCall; what a stub without types gives


@dataclass(slots=True)
class _Backoff:
    """Exponential, with jitter: many agents that lost one gateway do not come back in step."""

    delay: float = FIRST_RETRY

    def next(self) -> float:
        delay = self.delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self.delay = min(self.delay * 2, LAST_RETRY)
        return delay

    def reset(self) -> None:
        self.delay = FIRST_RETRY


async def attend(key: AgentKey, facts: Mapping[str, str], instance: UUID) -> AsyncIterator[AgentOrder]:
    """Orders as they come: a Welcome each time that it is let in, then what changes. Without end, but for: raises
    Unauthenticated when the key is refused for good. What else goes wrong is logged, and tried again.

    `facts` are those of domain.agent.FACTS; `instance` is one of this life of the process.
    """
    clock, backoff = asyncio.get_running_loop().time, _Backoff()
    while True:
        since = clock()
        try:
            async with _attending(key, facts, instance) as orders:
                async for order in orders:
                    yield order
            why = "the gateway ended the stream"
        except grpc.aio.AioRpcError as error:
            why = _explained(error, key)
            if error.code() in _FINAL:
                raise Unauthenticated(why) from None
        except Unavailable as error:
            why = error.message
        if clock() - since >= _STAYED:
            backoff.reset()
        delay = backoff.next()
        log.warning("the control service of %s:%d is away: %s; next try in %.1f s", key.host, key.port, why, delay)
        await asyncio.sleep(delay)


@asynccontextmanager
async def _attending(
    key: AgentKey, facts: Mapping[str, str], instance: UUID
) -> AsyncIterator[AsyncIterator[AgentOrder]]:
    """One stream, for as long as it lasts."""
    host = f"[{key.host}]" if ":" in key.host else key.host
    credentials = grpc.ssl_channel_credentials(_roots(key.authority))
    async with grpc.aio.secure_channel(f"{host}:{key.port}", credentials, options=_OPTIONS) as channel:
        bearer = (("authorization", f"Bearer {key.secret.reveal()}"),)
        call = ControlStub(channel).Attend(metadata=bearer)  # type: ignore[no-untyped-call]
        beating: asyncio.Task[None] | None = None
        try:
            hello = messages.Hello(name=key.name, instance=str(instance), facts=dict(facts))
            first = await _welcomed(call, hello)
            beating = asyncio.create_task(_beat(call))
            yield _orders(call, first)
        finally:
            call.cancel()
            if beating is not None:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)


async def _welcomed(call: _Call, hello: messages.Hello) -> messages.AgentOrder:
    try:
        async with asyncio.timeout(_WELCOME):
            await call.write(messages.AgentReport(hello=hello))
            return await _read(call)
    except TimeoutError:
        raise Unavailable(f"nothing was answered within {_WELCOME:.0f} s") from None
    except asyncio.InvalidStateError:  # the call ended before it was written to
        raise await _failure(call) from None


async def _orders(call: _Call, first: messages.AgentOrder) -> AsyncIterator[AgentOrder]:
    """Until the stream ends. Raises AioRpcError, Unavailable after SILENCE, Unauthenticated when told so."""
    order = first
    while True:
        match order.WhichOneof("order"):
            case "welcome":
                welcome = order.welcome
                yield Welcome(UUID(welcome.agent_id), welcome.tunnel_url, _workers(welcome.worker_ids))
            case "workers_changed":
                yield WorkersChanged(_workers(order.workers_changed.worker_ids))
            case "drain":
                yield Drain(one_line(order.drain.reason))
            case "revoked":
                raise Unauthenticated(f"the gateway takes this key no more: {one_line(order.revoked.reason)}")
        try:
            async with asyncio.timeout(SILENCE):
                order = await _read(call)
        except TimeoutError:
            raise Unavailable(f"nothing was heard for {SILENCE:.0f} s") from None


async def _read(call: _Call) -> messages.AgentOrder:
    """Raises AioRpcError when the stream ended, also where it ended well."""
    order = await call.read()
    if order is grpc.aio.EOF:
        raise await _failure(call)
    assert isinstance(order, messages.AgentOrder)
    return order


async def _failure(call: _Call) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
    )


async def _beat(call: _Call) -> None:
    """Until the stream ends; who reads it finds out why."""
    beat = messages.AgentReport(heart_beat=messages.HeartBeat())
    try:
        while True:
            await asyncio.sleep(HEARTBEAT)
            async with asyncio.timeout(_WRITING):
                await call.write(beat)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return
    except TimeoutError:
        call.cancel()


def _workers(texts: Any) -> frozenset[UUID]:
    return frozenset(UUID(text) for text in texts)


def _explained(error: grpc.aio.AioRpcError, key: AgentKey) -> str:
    """In words, where gRPC's own are for those who wrote it."""
    details = one_line(error.details() or "no reason was given")
    if "CERTIFICATE_VERIFY_FAILED" in details:
        issuer = "a public authority" if key.authority is None else "the authority that the key names"
        return (
            f"its certificate is not one by {issuer}, so it may be somebody else; if the gateway has a new "
            "certificate authority, ask an administrator for a new key"
        )
    if "Hostname Verification Check failed" in details or "is not in peer certificate" in details:
        return f"its certificate is not for the name {key.host}; set POSTERN_PUBLIC_HOST at the gateway"
    if error.code() is grpc.StatusCode.OK:
        return "the gateway ended the stream"
    return details


def _roots(authority: bytes | None) -> bytes | None:
    """PEM of what is trusted; None is gRPC's own list of public authorities, where this system has none."""
    if authority is not None:
        text = "\n".join(textwrap.wrap(base64.b64encode(authority).decode(), 64))
        return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n".encode()
    system = ssl.get_default_verify_paths().cafile
    return Path(system).read_bytes() if system else None
