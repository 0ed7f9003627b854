"""The service ProxyManager: command lines of people attend, and open local ports when they are told to."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from uuid import UUID

import grpc

from postern.api.control.control_calls import Context, Room, address_of, bearer_of, code_of, first_report, write
from postern.domain.secret import Secret
from postern.domain.targets.control import HEARTBEAT, SILENCE
from postern.domain.text import one_line
from postern.errors import Denied, Malformed, PosternError, Unauthenticated
from postern.services.identity.logins.authentication import Authentication
from postern.services.targets.proxy_managers import Attached, ProxyManagers, ProxyOrder, ProxyOutcome
from postern.transport.control import control_pb2 as messages
from postern.transport.control.control_pb2_grpc import ProxyManagerServicer

log = logging.getLogger(__name__)

_MOST_REPORTS = 50  # between two heart-beats of ours
_MAX_FAILURE = 300  # characters
_AGAIN = 3  # heart-beats between two looks whether the token still holds


class ProxyManager(ProxyManagerServicer):
    def __init__(self, proxies: ProxyManagers, authentication: Authentication, room: Room, *, tunnel_url: str) -> None:
        self._proxies = proxies
        self._authentication = authentication
        self._room = room
        self._tunnel_url = tunnel_url

    async def Attend(  # noqa: N802 - the proto's name
        self, _requests: object, context: Context
    ) -> None:
        try:
            token, address = bearer_of(context), address_of(context)
            with self._room.one(address):
                attached = await self._attached(context, token, address)
        except PosternError as error:
            await context.abort(code_of(error), error.message)
        heard = _Heard()
        reading = asyncio.create_task(self._read(context, attached, heard))
        try:
            welcome = messages.ProxyWelcome(tunnel_url=self._tunnel_url)
            await write(context, messages.ProxyOrder(welcome=welcome))
            await self._attend(context, attached, heard, token, address)
        finally:
            self._proxies.leave(attached)
            reading.cancel()

    async def _attached(self, context: Context, token: Secret, address: str) -> Attached:
        """Raises Unauthenticated, Denied, Malformed, TooMany, Unavailable."""
        hello = (await first_report(context)).hello
        try:
            instance = UUID(hello.instance)
        except ValueError:
            raise Malformed("instance: must be a UUID") from None
        caller = await self._authentication.caller(token, address=address)
        return self._proxies.attach(caller.principal, instance)

    async def _attend(self, context: Context, attached: Attached, heard: _Heard, token: Secret, address: str) -> None:
        clock = asyncio.get_running_loop().time
        replaced = asyncio.create_task(attached.replaced.wait())
        beats, beat_at = 0, clock()
        try:
            while not heard.left:
                ordered = asyncio.create_task(attached.orders.get())
                waited: set[asyncio.Future[Any]] = {ordered, replaced, heard.ended}
                remaining = max(0.0, beat_at + HEARTBEAT - clock())
                done, _ = await asyncio.wait(waited, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
                if ordered in done:
                    await write(context, _message(ordered.result()))
                else:
                    ordered.cancel()
                if replaced in done:
                    await context.abort(grpc.StatusCode.ALREADY_EXISTS, "a newer proxy manager of yours took its place")
                if heard.reports > _MOST_REPORTS:
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "more is reported than there is to say")
                if clock() - heard.at > SILENCE:
                    await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"nothing was heard for {SILENCE:.0f} s")
                if clock() >= beat_at + HEARTBEAT:
                    await write(context, messages.ProxyOrder(heart_beat=messages.HeartBeat()))
                    beat_at, heard.reports, beats = clock(), 0, beats + 1
                    if beats % _AGAIN == 0:
                        await self._check(context, token, address)
        finally:
            replaced.cancel()

    async def _check(self, context: Context, token: Secret, address: str) -> None:
        try:
            await self._authentication.caller(token, address=address)
        except (Unauthenticated, Denied) as error:
            await context.abort(code_of(error), error.message)
        except PosternError as error:  # the store does not answer: the next look does it
            log.warning("whether a proxy manager's token holds is not known: %s", error)

    async def _read(self, context: Context, attached: Attached, heard: _Heard) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while heard.reports <= _MOST_REPORTS and (report := await context.read()) is not grpc.aio.EOF:
                heard.at = clock()
                heard.reports += 1
                if report.WhichOneof("report") == "answer":
                    self._answered(attached, report.answer)
            heard.left = heard.reports <= _MOST_REPORTS
        except grpc.aio.BaseError as error:  # the call has ended meanwhile
            log.debug("no more reports of a proxy manager: %s", error)
            heard.left = True
        if not heard.ended.done():
            heard.ended.set_result(None)

    def _answered(self, attached: Attached, answer: messages.ProxyAnswer) -> None:
        try:
            order_id = UUID(answer.order_id)
        except ValueError:
            return
        failure = one_line(answer.failure[:_MAX_FAILURE])
        self._proxies.answered(attached, order_id, ProxyOutcome(failure, min(answer.port, 65_535)))


class _Heard:
    """What is known of the other side."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.at = loop.time()
        self.reports = 0
        self.left = False
        self.ended: asyncio.Future[None] = loop.create_future()


def _message(order: ProxyOrder) -> messages.ProxyOrder:
    if order.connection is None:
        return messages.ProxyOrder(disconnect=messages.DisconnectOrder(order_id=str(order.id)))
    return messages.ProxyOrder(
        connect=messages.ConnectOrder(
            order_id=str(order.id), connection=order.connection, port=order.port, access_seconds=order.seconds
        )
    )
