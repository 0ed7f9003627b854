"""How long a login may take, and whose time that is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable

import pytest

from postern.gateway.listener import Logins, Places
from postern.relay.handshake import StreamHandshake

SOON = 0.05  # seconds


@pytest.mark.parametrize("known", [True, False])
async def test_the_deadline_is_the_clients_own(known: bool) -> None:
    """A client that has done its part is not cut off because its target takes longer than clients may."""
    logins, served = Logins(timeout=SOON, most=10, most_per_address=10), asyncio.Event()
    ours, theirs = socket.socketpair()
    with theirs:
        stream = StreamHandshake()
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=ours)

        async def serve(stream: StreamHandshake) -> Awaitable[None] | None:
            if known:
                stream.on_known()
            await asyncio.sleep(SOON * 4)
            served.set()
            return None

        logins.start(stream, serve)
        theirs.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
    assert served.is_set() is known
    await logins.stop(1)


def test_attack_all_places_taken_from_the_addresses_of_one_subscriber() -> None:
    places = Places(most=10, most_per_address=2)
    taken = [places.take(f"2001:db8:1:2::{number:x}") for number in range(10)]
    assert taken == [True] * 2 + [False] * 8
    assert places.take("2001:db8:1:3::1")
    assert places.take("192.0.2.1")
    assert places.take("::ffff:192.0.2.1")
    assert not places.take("192.0.2.1")
    places.leave("2001:db8:1:2::0")
    assert places.take("2001:db8:1:2::ffff")
