"""TLS that begins in the middle of a login, on the event loop that gateways run on."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import uvloop
from tests.support.certificates import issue
from tests.support.mysql import server_context
from tests.support.promises import within

from postern.relay.handshake import StreamHandshake


async def _encrypted(context: ssl.SSLContext, authority: str, early: int) -> bool:
    """A client whose first `early` bytes of TLS are read before TLS begins here; the others come at that moment."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    stream = StreamHandshake(context)
    await loop.connect_accepted_socket(lambda: stream, ours)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cadata=authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    theirs.send(b"x" + hello[:early])
    assert await stream.read(1) == b"x"

    async def finish() -> None:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                incoming.write(await loop.sock_recv(theirs, 65536))
        await loop.sock_sendall(theirs, outgoing.read())

    async with asyncio.timeout(within(20)):
        finishing = asyncio.create_task(finish())
        theirs.send(hello[early:])
        await stream.start_tls()
        await finishing
        client.write(b"hello")
        await loop.sock_sendall(theirs, outgoing.read())
        answer = await stream.read(5)
    stream.close()
    theirs.close()
    return answer == b"hello"


@pytest.mark.parametrize("early", [0, 1, 100, 10_000], ids=["none", "a byte", "a part", "all of them"])
def test_no_byte_of_tls_is_lost_whenever_it_comes(tmp_path: Path, early: int) -> None:
    issued = issue("localhost")
    assert uvloop.run(_encrypted(server_context(issued, tmp_path), issued.authority, early))
