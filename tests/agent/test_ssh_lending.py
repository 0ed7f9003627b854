"""Agent forwarding to programs at a server, as an agent does it: with OpenSSH, and with servers that open unrequested
channels."""

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
    """The server's end of an agent channel that it opened."""

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
    """Opens an agent channel when a test says so. `asked` records whether each program requested one."""

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


async def test_server_without_agent_forwarding_cannot_open_an_agent_channel(
    servers: Servers, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches neither the client's agent nor one of this machine."""
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


async def test_agent_request_is_reported_and_accepted_by_number(servers: Servers, server: Server) -> None:
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


async def test_agent_request_that_is_rejected_or_over_the_limit_is_closed(
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


async def test_closed_agent_forwarding_rejects_further_requests(servers: Servers, server: Server) -> None:
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


async def test_lost_agent_forwarding_does_not_apply_to_the_next_connection(servers: Servers, server: Server) -> None:
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


async def test_agent_is_forwarded_over_further_connections_of_one_login(servers: Servers, crowded: Sshd) -> None:
    listener = ListeningMessage(await servers.dial(secrets_of(crowded), told.AGENT, kind=ChannelKind.LISTEN))
    await listener.next()
    for number in ("1", "2"):
        running = await servers.dial(secrets_of(crowded), "ssh-add -l; sleep 60")
        running.send(m.START_FRAME)
        came = await listener.next()
        assert came.number == number
        listener.running.send(m.frame(m.STDIN, told.refuse(number)))
