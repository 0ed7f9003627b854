"""A proxy manager's side of the control service: it waits for orders to open a port for a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from postern.client.client_control import Service, Speech, stay
from postern.domain.secret import Secret
from postern.transport.control import control_pb2 as messages


@dataclass(frozen=True, slots=True)
class ProxyWelcome:
    tunnel_url: str


@dataclass(frozen=True, slots=True)
class ConnectOrder:
    """Answer an order by `done`: with the port, or with the reason why it could not be opened."""

    connection: str
    port: int
    seconds: int
    done: Callable[[int, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class DisconnectOrder:
    done: Callable[[int, str], Awaitable[None]]


ProxyOrder = ProxyWelcome | ConnectOrder | DisconnectOrder


async def attend_as_proxy(
    service: Service, bearer: Callable[[], Secret], instance: UUID, version: str
) -> AsyncIterator[ProxyOrder]:
    """Yield the orders for a proxy manager, like `client_control.attend`. `bearer` returns the token of a stream."""
    hello = messages.ProxyReport(hello=messages.ProxyHello(instance=str(instance), version=version))
    beat = messages.ProxyReport(heart_beat=messages.HeartBeat())
    speech = Speech("/postern.control.v1.ProxyManager/Attend", hello, beat, messages.ProxyOrder)

    def answering(order_id: str) -> Callable[[int, str], Awaitable[None]]:
        async def send_outcome(port: int, failure: str = "") -> None:
            answer = messages.ProxyAnswer(order_id=order_id, port=port, failure=failure)
            await speech.more.put(messages.ProxyReport(answer=answer))

        return send_outcome

    async for order in stay(service, bearer, speech):
        match order.WhichOneof("order"):
            case "welcome":
                yield ProxyWelcome(order.welcome.tunnel_url)
            case "connect":
                connect_order = order.connect
                yield ConnectOrder(
                    connect_order.connection,
                    connect_order.port,
                    connect_order.access_seconds,
                    answering(connect_order.order_id),
                )
            case "disconnect":
                yield DisconnectOrder(answering(order.disconnect.order_id))
