"""Remote port forwarding as an agent does it, with OpenSSH's server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncssh
import pytest
from tests.support import ssh_here
from tests.support.postgres import free_port
from tests.support.promises import PATIENT, until
from tests.support.ssh_channels import Running, Servers, secrets_of
from tests.support.ssh_here import PASSWORD, Seen, serving
from tests.support.sshds import Sshd, sshd

from postern.errors import Unavailable
from postern.protocols.ssh import ssh_listening as told
from postern.protocols.ssh.target import ssh_target_listening as listening
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("ssh")) as made:
        yield made


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    made = Servers()
    yield made
    await made.close()


class ListeningMessage:
    """A dialled listener; yields its messages one by one."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.said: list[Any] = []
        reader = m.TerminalFrameReader()
        received = running.reader.data_received

        def heard(data: bytes) -> None:
            self.said.extend(told.read_message(text) for kind, text in reader.feed(data) if kind == m.STDOUT)
            received(data)

        running.reader.data_received = heard  # type: ignore[method-assign]
        running.send(m.START_FRAME)

    async def next(self) -> Any:
        await self.running.until(lambda: self.said)
        return self.said.pop(0)


async def listens(servers: Servers, server: Sshd, at: str = "127.0.0.1:0", **how: Any) -> tuple[ListeningMessage, int]:
    found = ListeningMessage(await servers.dial(secrets_of(server), at, kind=ChannelKind.LISTEN, **how))
    first = await found.next()
    assert isinstance(first, told.ListeningMessage)
    return found, first.port


async def comes(
    listener: ListeningMessage, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, told.WaitingConnection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    came = await listener.next()
    assert isinstance(came, told.WaitingConnection)
    assert (came.host, came.port) == writer.get_extra_info("sockname")
    return reader, writer, came


async def take(servers: Servers, server: Sshd, number: str, **how: Any) -> Running:
    taken = await servers.dial(secrets_of(server), f"{number} a b", kind=ChannelKind.ACCEPT, **how)
    taken.send(m.START_FRAME)
    return taken


async def hung_up(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), PATIENT) == b""
    except ConnectionError:
        return True


async def test_waiting_connection_is_accepted_by_its_number(servers: Servers, server: Sshd) -> None:
    listener, port = await listens(servers, server)
    first, second = await comes(listener, port), await comes(listener, port)
    for number, (reader, writer, came) in enumerate((second, first)):
        taken = await take(servers, server, came.number)
        writer.write(b"%d up" % number)
        await taken.output(4)
        taken.send(m.frames(m.STDIN, b"%d down" % number), m.STDIN_END_FRAME)
        assert await asyncio.wait_for(reader.read(), PATIENT) == b"%d down" % number
        assert taken.text() == f"{number} up"
        writer.close()
        assert (await taken.ended()).code == 0


async def test_accepted_connection_passes_bytes_in_both_directions(servers: Servers, server: Sshd) -> None:
    listener, port = await listens(servers, server)
    reader, writer, came = await comes(listener, port)
    data = bytes(range(256)) * 20_000
    taken = await take(servers, server, came.number)
    writer.write(data)
    await taken.send_all(data[:65536], 80)
    taken.send(m.STDIN_END_FRAME)
    assert await asyncio.wait_for(reader.read(), PATIENT) == data[:65536] * 80
    writer.close()
    assert (await taken.ended()).code == 0
    assert taken.reader.size == len(data)


async def test_waiting_connection_is_accepted_once_and_by_its_own_login_only(servers: Servers, server: Sshd) -> None:
    listener, port = await listens(servers, server)
    reader, writer, came = await comes(listener, port)
    for how in ({"login": "another"}, {"user": "bob"}):
        assert (await (await take(servers, server, came.number, **how)).ended()).code == m.NOT_RUN
    assert (await (await take(servers, server, "99")).ended()).code == m.NOT_RUN
    taken = await take(servers, server, came.number)
    writer.write(b"here")
    await taken.output(4)
    again = await take(servers, server, came.number)
    assert (await again.ended()).code == m.NOT_RUN
    assert "the waiting connection was closed" in again.text(m.STDERR)
    taken.send(m.STDIN_END_FRAME)
    assert await hung_up(reader)
    writer.close()


async def test_rejected_or_unaccepted_connection_is_closed(
    servers: Servers, server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, port = await listens(servers, server)
    reader, writer, came = await comes(listener, port)
    listener.running.send(m.frame(m.STDIN, told.refuse("12345")), m.frame(m.STDIN, told.refuse(came.number)))
    assert await hung_up(reader)
    writer.close()
    monkeypatch.setattr(listening, "PATIENCE", 0.2)
    reader, writer, came = await comes(listener, port)
    assert await hung_up(reader)
    writer.close()
    assert (await (await take(servers, server, came.number)).ended()).code == m.NOT_RUN


async def test_waiting_connections_are_limited(servers: Servers, server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "MOST_WAITING", 2)
    listener, port = await listens(servers, server)
    waiting = [await comes(listener, port) for _ in range(2)]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await hung_up(reader)
    writer.close()
    for _, one, _ in waiting:
        one.close()
    assert not listener.said


async def test_closed_listener_closes_waiting_connections_and_keeps_accepted_ones(
    servers: Servers, server: Sshd
) -> None:
    listener, port = await listens(servers, server)
    _, taken_writer, came = await comes(listener, port)
    taken = await take(servers, server, came.number)
    waits_reader, waits_writer, _ = await comes(listener, port)
    listener.running.transport.close()
    assert await hung_up(waits_reader)

    async def refused() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return True
        writer.close()
        return False

    await until(refused)
    taken_writer.write(b"stays")
    await taken.output(5)
    for writer in (taken_writer, waits_writer):
        writer.close()


async def test_lost_connection_to_the_server_ends_the_listener(servers: Servers, server: Sshd) -> None:
    listener, _ = await listens(servers, server)
    for shared in servers.targets._logins._held.values():
        shared.task.result()._connection.abort()  # type: ignore[union-attr]
    assert (await listener.running.ended()).code == m.NOT_RUN
    assert "the connection to the target was lost" in listener.running.text(m.STDERR)


async def test_server_without_remote_forwarding_ends_the_listener_with_a_message(
    servers: Servers, tmp_path: Any
) -> None:
    with sshd(tmp_path, {"AllowTcpForwarding": "local"}) as narrow:
        listener = ListeningMessage(await servers.dial(secrets_of(narrow), "127.0.0.1:0", kind=ChannelKind.LISTEN))
        assert (await listener.running.ended()).code == m.NOT_RUN
        assert "does not allow listening" in listener.running.text(m.STDERR)


async def test_invalid_listening_address_is_unavailable(servers: Servers, server: Sshd) -> None:
    for what in ("nowhere", "host:65536", "ho\nst:1", "x" * 300 + ":1", "host:-1"):
        with pytest.raises(Unavailable):
            await servers.dial(secrets_of(server), what, kind=ChannelKind.LISTEN)


async def test_malformed_message_ends_the_listener(servers: Servers, server: Sshd) -> None:
    for frame in (m.frame(m.STDIN, b"refuse x"), m.resize(1, 1), m.START_FRAME):
        listener, _ = await listens(servers, server, f"127.0.0.1:{free_port()}")
        listener.running.send(frame)
        await until(lambda running=listener.running: running.reader.lost)  # type: ignore[misc]


async def test_connection_that_arrives_with_the_servers_answer_is_reported(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[asyncio.Task[Any]] = []

    class Hurries(Seen):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            self._conn = conn

        def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener:
            opened = self._conn.create_connection(asyncssh.SSHTCPSession, listen_host, listen_port, "10.0.0.9", 5)
            tasks.append(asyncio.get_running_loop().create_task(opened))
            return asyncssh.SSHListener()

    monkeypatch.setattr(ssh_here, "Seen", Hurries)
    async with serving() as port:
        secrets = {"HOST": "127.0.0.1", "PORT": str(port), "USER": "root", "PASS": PASSWORD}
        listener = ListeningMessage(await servers.dial(secrets, "localhost:80", kind=ChannelKind.LISTEN))
        assert await listener.next() == told.ListeningMessage(80)
        assert await listener.next() == told.WaitingConnection("1", "10.0.0.9", 5)
        listener.running.send(m.frame(m.STDIN, told.refuse("1")))
        with pytest.raises(asyncssh.ChannelOpenError):
            await tasks[0]
