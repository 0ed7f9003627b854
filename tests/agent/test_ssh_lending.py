"""The client's agent that is lent to what runs at a server, as an agent of ours does it: with servers that open it
unasked, and with OpenSSH's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from tests.agent.test_ssh_listening import ListeningMessage
from tests.support.promises import PATIENT, until
from tests.support.ssh_channels import Running, Servers, secrets_of
from tests.support.ssh_here import PASSWORD, serving
from tests.support.sshds import Sshd, sshd

from postern.protocols.ssh import ssh_listening as told
from postern.protocols.ssh.target import ssh_target_listening as listening
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind

Process = asyncssh.SSHServerProcess[bytes]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    made = Servers()
    yield made
    await made.close()


def here(port: int) -> dict[str, str]:
    return {"HOST": "127.0.0.1", "PORT": str(port), "USER": "root", "PASS": PASSWORD}


class Asker(asyncssh.SSHUNIXSession[bytes]):
    """The server's end of an agent that it opened."""

    def __init__(self) -> None:
        self.got = b""

    def connection_made(self, chan: Any) -> None:
        self.channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.got += data


async def opened(connection: Any, sessions: list[Asker]) -> bool:
    """Whether an agent channel could be opened to whoever logged in, asked for or not."""

    def made() -> Asker:
        sessions.append(Asker())
        return sessions[-1]

    try:
        await connection.create_agent_channel().open(made)
    except asyncssh.ChannelOpenError:
        return False
    return True


class Server:
    """Opens an agent whenever a test says so. `asked` has whether each program asked for one."""

    def __init__(self) -> None:
        self.connections: list[Any] = []
        self.asked: list[bool] = []
        self.sessions: list[Asker] = []

    async def program(self, process: Process) -> None:
        connection: Any = process.get_extra_info("connection")
        self.connections.append(connection)
        self.asked.append(connection._agent_listener is not None)
        process.stdout.write(b"on\n")
        await asyncio.sleep(PATIENT)

    async def opens(self, number: int = -1) -> bool:
        return await opened(self.connections[number], self.sessions)


@pytest.fixture
async def server() -> Server:
    return Server()


async def runs(servers: Servers, port: int, **how: Any) -> Running:
    running = await servers.dial(here(port), "x", **how)
    running.send(m.START_FRAME)
    await running.output(3)
    return running


async def lent(servers: Servers, port: int, **how: Any) -> ListeningMessage:
    found = ListeningMessage(await servers.dial(here(port), told.AGENT, kind=ChannelKind.LISTEN, **how))
    assert await found.next() == told.ListeningMessage(0)
    return found


async def test_a_server_that_nobody_lends_an_agent_to_opens_none(
    servers: Servers, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the client's nor one of this machine."""
    reached: list[bool] = []
    own = await asyncio.start_unix_server(lambda reader, writer: reached.append(True), tmp_path / "own")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "own"))
    async with serving(program=server.program) as port:
        await runs(servers, port)
        assert server.asked == [False]
        assert not await server.opens()
        await lent(servers, port, login="another")
        assert not await server.opens(), "what is lent over another login"
    own.close()
    assert not reached


async def test_who_asks_is_told_and_taken_by_number(servers: Servers, server: Server) -> None:
    async with serving(program=server.program) as port:
        listener = await lent(servers, port)
        await runs(servers, port)
        assert server.asked == [True]
        asking = asyncio.create_task(server.opens())
        came = await listener.next()
        assert came == told.WaitingConnection("1", "?", 0)
        taken = await servers.dial(here(port), f"{came.number} ?:0 {told.AGENT}", kind=ChannelKind.ACCEPT)
        taken.send(m.START_FRAME, m.frames(m.STDIN, b"answer"))
        assert await asyncio.wait_for(asking, PATIENT)
        await until(lambda: server.sessions[0].got == b"answer")
        server.sessions[0].channel.write(b"question")
        await taken.output(8)
        assert taken.text() == "question"


async def test_who_is_refused_or_comes_to_too_many_is_turned_away(
    servers: Servers, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "MOST_WAITING", 1)
    async with serving(program=server.program) as port:
        listener = await lent(servers, port)
        await runs(servers, port)
        first = asyncio.create_task(server.opens())
        came = await listener.next()
        assert not await server.opens()
        listener.running.send(m.frame(m.STDIN, told.refuse(came.number)))
        assert not await asyncio.wait_for(first, PATIENT)


async def test_what_was_lent_is_taken_back(servers: Servers, server: Server) -> None:
    async with serving(program=server.program) as port:
        listener = await lent(servers, port)
        await runs(servers, port)
        waits = asyncio.create_task(server.opens())
        await listener.next()
        listener.running.transport.close()
        assert not await asyncio.wait_for(waits, PATIENT)
        assert not await server.opens()
        await runs(servers, port)
        assert not await server.opens()


async def test_a_listener_that_is_lost_lends_nothing_over_what_comes_after_it(servers: Servers, server: Server) -> None:
    async with serving(program=server.program) as port:
        listener = await lent(servers, port)
        await runs(servers, port)
        server.connections[0].abort()
        assert (await listener.running.ended()).code == m.NOT_RUN
        await runs(servers, port)
        assert server.asked == [True, False]
        assert not await server.opens()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("ssh"), {"MaxSessions": "1"}) as made:
        yield made


async def test_it_is_lent_over_further_connections_of_one_login(servers: Servers, crowded: Sshd) -> None:
    listener = ListeningMessage(await servers.dial(secrets_of(crowded), told.AGENT, kind=ChannelKind.LISTEN))
    await listener.next()
    for number in ("1", "2"):
        running = await servers.dial(secrets_of(crowded), "ssh-add -l; sleep 60")
        running.send(m.START_FRAME)
        came = await listener.next()
        assert came.number == number
        listener.running.send(m.frame(m.STDIN, told.refuse(number)))
