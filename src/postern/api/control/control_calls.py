"""Building blocks of all calls of the control service: authentication, addresses and errors."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import grpc

from postern.domain.secret import Secret
from postern.errors import (
    Conflict,
    Denied,
    Invalid,
    Malformed,
    NotFound,
    PosternError,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from postern.services.identity.logins.login_throttle import neighbourhood

Context = grpc.aio.ServicerContext[Any, Any]

# UNAUTHENTICATED, PERMISSION_DENIED, INVALID_ARGUMENT and ALREADY_EXISTS are final for clients; they retry after the
# others.
CODES = {
    Malformed: grpc.StatusCode.INVALID_ARGUMENT,
    Invalid: grpc.StatusCode.INVALID_ARGUMENT,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Denied: grpc.StatusCode.PERMISSION_DENIED,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Conflict: grpc.StatusCode.ALREADY_EXISTS,
    TooMany: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
}
FIRST_REPORT = 10.0  # seconds
_WRITING = 10.0  # seconds in which one order must be sent
_MAX_BEARER = 8 * 1024  # characters


def code_of(error: PosternError) -> grpc.StatusCode:
    if isinstance(error, Conflict) and error.retry_after is not None:
        return grpc.StatusCode.ABORTED
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def bearer_of(context: Context) -> Secret:
    """Raises Unauthenticated."""
    headers = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
    kind, _, text = str(headers[0]).partition(" ") if len(headers) == 1 else ("", "", "")
    if kind.lower() != "bearer" or not 0 < len(text) <= _MAX_BEARER:
        raise Unauthenticated("send the metadata `authorization: Bearer …`, once")
    return Secret(text)


def address_of(context: Context) -> str:
    """Return the peer's IP address; gRPC writes `ipv4:192.0.2.1:4711`, `ipv6:%5B2001:db8::1%5D:4711`."""
    host = unquote(context.peer()).partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return host


async def first_hello(context: Context) -> tuple[Any, UUID]:
    """Return the Hello that must come first, and the instance that it names. Raises Malformed for anything else,
    Unavailable if nothing arrives."""
    try:
        async with asyncio.timeout(FIRST_REPORT):
            report = await context.read()
    except TimeoutError:
        raise Unavailable(f"no report arrived for {FIRST_REPORT:.0f} s; send a Hello first") from None
    if report is grpc.aio.EOF or report.WhichOneof("report") != "hello":
        raise Malformed("the first report must be a Hello")
    try:
        return report.hello, UUID(report.hello.instance)
    except ValueError:
        raise Malformed("instance: must be a UUID") from None


async def write(context: Context, order: Any) -> None:
    """Disconnect a client that does not read for a while."""
    try:
        async with asyncio.timeout(_WRITING):
            await context.write(order)
    except TimeoutError:
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the client does not read its orders")


class Room:
    """A limit of calls that wait to be admitted, in total and for each address: slow strangers cannot block others."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def one(self, address: str) -> Iterator[None]:
        """Raises TooMany."""
        place = neighbourhood(address)
        if self._waiting.total() >= self._most or self._waiting[place] >= self._most_per_address:
            raise TooMany("too many clients are connecting; try again in a few seconds")
        self._waiting[place] += 1
        try:
            yield
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
