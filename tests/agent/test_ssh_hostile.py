"""SSH servers that break the protocol or stop responding."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import Boolean, String
from tests.support.promises import PATIENT, until
from tests.support.ssh_channels import Running, Servers
from tests.support.ssh_here import PASSWORD, serving

from postern.protocols.ssh import ssh_transport
from postern.protocols.ssh.target import ssh_target_login as login
from postern.protocols.ssh.target import ssh_target_login as stream
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import ChannelKind

pytestmark = pytest.mark.ci

Process = asyncssh.SSHServerProcess[bytes]
Program = Callable[[Process], Awaitable[None]]


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    made = Servers()
    yield made
    await made.close()


async def begun(servers: Servers, port: int, **how: Any) -> Running:
    secrets = {"HOST": "127.0.0.1", "PORT": str(port), "USER": "root", "PASS": PASSWORD}
    running = await servers.dial(secrets, "x", **how)
    running.send(m.START_FRAME)
    return running


def connection_of(process: Process) -> Any:
    return process.get_extra_info("connection")


async def test_data_over_the_window_ends_the_connection(servers: Servers) -> None:
    async def floods(process: Process) -> None:
        channel: Any = process.channel
        channel._send_window = 1 << 40
        for _ in range(3000):
            channel.write(b"x" * 32_000)
            await asyncio.sleep(0)

    async with serving(program=floods) as port:
        running = await begun(servers, port)
        running.transport.pause_reading()
        await until(lambda: running.transport._over)
        assert sum(map(len, running.transport._ends)) <= login.WINDOW + 100_000
        running.transport.resume_reading()
        assert (await running.ended()).code == m.ENDED
        assert running.text(m.STDERR) == "postern: the connection to the target was lost: Window exceeded\n"
        assert running.reader.size <= login.WINDOW


async def test_attack_one_byte_packets_are_merged(servers: Servers) -> None:
    async def prints(process: Process) -> None:
        for at in range(20_000):
            process.channel.write(bytes((at % 251,)))
            if at % 100 == 0:
                await asyncio.sleep(0)
        process.exit(0)

    async with serving(program=prints) as port:
        running = await begun(servers, port)
        running.transport.pause_reading()
        await until(lambda: running.transport._exit is not None)
        held: Any = running.transport._channel._recv_buf
        assert len(held) < 20
        running.transport.resume_reading()
        assert (await running.ended()).code == 0
        assert bytes(running.reader.output[m.STDOUT]) == bytes(at % 251 for at in range(20_000))


async def test_attack_alternating_small_packets_are_limited(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_transport, "MAX_PIECES", 100)

    async def alternates(process: Process) -> None:
        for _ in range(1_000):
            process.stdout.write(b"o")
            process.stderr.write(b"e")
        await asyncio.sleep(PATIENT)

    async with serving(program=alternates) as port:
        running = await begun(servers, port)
        running.transport.pause_reading()
        await until(lambda: running.transport._over)
        running.transport.resume_reading()
        assert (await running.ended()).code == m.ENDED
        assert "too many small packets on one channel" in running.text(m.STDERR)


async def test_attack_maximum_packet_size_too_small_for_data_is_rejected(servers: Servers) -> None:
    async def waits(process: Process) -> None:
        await asyncio.sleep(PATIENT)

    async with serving(program=waits, max_pktsize=ssh_transport.SMALLEST_PACKET - 1) as port:
        running = await begun(servers, port)
        assert (await running.ended()).code == m.NOT_RUN
        assert "did not open this channel" in running.text(m.STDERR)


async def test_large_window_of_a_server_that_does_not_read_stalls_the_input(servers: Servers) -> None:
    stopped = asyncio.Event()

    async def reads_nothing(process: Process) -> None:
        connection_of(process)._transport.pause_reading()
        stopped.set()
        await asyncio.sleep(PATIENT)

    async with serving(program=reads_nothing, window=1 << 31) as port:
        running, other = await begun(servers, port), await begun(servers, port)
        await stopped.wait()
        sent = 0
        while not running.reader.full:
            running.send(m.frames(m.STDIN, b"x" * 65_536))
            sent += 65_536
            assert sent < 64 << 20  # what the kernel takes, and no more
            await asyncio.sleep(0)
        await other.until(lambda: other.reader.full)
        (shared,) = servers.targets._logins._held.values()
        connection: Any = shared.task.result()._connection
        assert connection._transport.get_write_buffer_size() <= 1 << 20
        connection.abort()
        assert (await running.ended()).code == m.ENDED


async def test_unread_answers_to_requests_end_the_connection(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_transport, "MAX_UNSENT", 1 << 17)

    async def asks(process: Process) -> None:
        connection = connection_of(process)
        sock = connection._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)  # or the kernel takes megabytes of answers first
        connection._transport.pause_reading()
        while connection._transport is not None:
            for _ in range(1000):
                connection._send_global_request(b"what", want_reply=True)
            await asyncio.sleep(0.001)

    async with serving(program=asks) as port:
        running = await begun(servers, port)
        assert (await running.ended()).code == m.ENDED


async def test_attack_queued_host_key_requests_end_the_connection(servers: Servers) -> None:
    """Each host key request is answered in its own step, so that many arrive per answer."""

    async def asks(process: Process) -> None:
        connection = connection_of(process)
        while connection._transport is not None:
            for _ in range(1_000):
                connection._send_global_request(b"hostkeys-00@openssh.com")
            await asyncio.sleep(0.001)

    async with serving(program=asks) as port:
        running = await begun(servers, port)
        assert (await running.ended()).code == m.ENDED


async def test_silent_server_is_detected(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "KEEPALIVE", 0.05)

    async def is_silent(process: Process) -> None:
        connection_of(process)._transport.pause_reading()
        await asyncio.sleep(PATIENT)

    async with serving(program=is_silent) as port:
        running = await begun(servers, port)
        assert (await running.ended()).code == m.ENDED
        assert "Server not responding to keepalive" in running.text(m.STDERR)


async def test_channel_that_is_never_opened_times_out(servers: Servers) -> None:
    async def loses(process: Process) -> None:
        raise AssertionError("it was not to run")

    class Never(asyncssh.SSHServerSession[bytes]):
        def exec_requested(self, command: str) -> bool:
            return True

    async def slow() -> Never:
        await asyncio.sleep(PATIENT)
        return Never()

    async with serving(program=loses, session=slow) as port:
        running = await begun(servers, port, timeout=3)
        assert running.reader.full  # until it is open
        assert (await running.ended()).code == m.NOT_RUN
        assert running.text(m.STDERR) == "postern: the target did not open this channel within 3 seconds\n"


async def test_error_text_of_a_server_is_escaped_and_cut(servers: Servers) -> None:
    def session() -> Any:
        raise asyncssh.ChannelOpenError(2, "no \x1b[2J\r\nway" + "x" * 1000)

    async with serving(session=session) as port:
        running = await begun(servers, port)
        assert (await running.ended()).code == m.NOT_RUN
        said = running.text(m.STDERR)
        assert said.startswith("postern: the target did not open this channel: no \\x1b[2J\\r\\nwayx")
        assert len(said) < 300


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("TERM", m.Exit(143, "TERM")),
        ("SEGV", m.Exit(139, "SEGV")),
        ("OURS@example.com", m.Exit(255, "OURS@example.com")),
        ("x\x1b[2J", m.Exit(255, "unknown")),
        ("A" * 100, m.Exit(255, "unknown")),
        ("", m.Exit(255, "unknown")),
    ],
)
async def test_exit_signal_of_any_name_is_reported(servers: Servers, name: str, ended: m.Exit) -> None:
    async def dies(process: Process) -> None:
        process.exit_with_signal(name)

    async with serving(program=dies) as port:
        assert await (await begun(servers, port)).ended() == ended


async def test_channel_closed_without_an_exit_status_is_reported_as_ended(servers: Servers) -> None:
    async def closes(process: Process) -> None:
        process.stdout.write(b"all")
        process.close()

    async with serving(program=closes) as port:
        running = await begun(servers, port)
        assert await running.ended() == m.Exit(m.ENDED, "")
        assert running.text() == "all"
        assert running.text(m.STDERR) == ""


@pytest.mark.parametrize("paused", [False, True])
async def test_server_that_disconnects_right_after_the_exit_loses_no_output(servers: Servers, paused: bool) -> None:
    """Switches and routers do this."""

    async def hangs_up(process: Process) -> None:
        process.stdout.write(b"x" * 300_000)
        process.stderr.write(b"warning")
        process.exit(7)
        connection_of(process).disconnect(11, "bye")

    async with serving(program=hangs_up) as port:
        running = await begun(servers, port)
        if paused:
            running.transport.pause_reading()
            await until(lambda: running.transport._over)
            assert running.reader.kinds == []
            running.transport.resume_reading()
        assert await running.ended() == m.Exit(7, "")
        assert running.reader.size == 300_000
        assert running.text(m.STDERR) == "warning"


async def test_server_that_disconnects_early_is_reported(servers: Servers) -> None:
    async def hangs_up(process: Process) -> None:
        process.stdout.write(b"x" * 10_000)
        connection_of(process)._transport.close()
        await asyncio.sleep(PATIENT)

    async with serving(program=hangs_up) as port:
        running = await begun(servers, port)
        assert await running.ended() == m.Exit(m.ENDED, "")
        assert running.reader.size == 10_000
        assert running.text(m.STDERR) == "postern: the connection to the target was lost: Connection lost\n"


async def test_server_cannot_open_channels_to_the_agent(servers: Servers) -> None:
    """Neither for an agent, nor for X11, nor for forwarded connections."""

    async def tries(process: Process) -> None:
        connection = connection_of(process)
        for channel in (
            connection.create_agent_connection(asyncssh.SSHUNIXSession),
            connection.create_x11_connection(asyncssh.SSHTCPSession),
            connection.create_connection(asyncssh.SSHTCPSession, "127.0.0.1", 22),
        ):
            try:
                await channel
            except asyncssh.ChannelOpenError:
                process.stdout.write(b"refused\n")
            else:
                process.stdout.write(b"opened\n")
        process.exit(0)

    async with serving(program=tries) as port:
        running = await begun(servers, port)
        assert (await running.ended()).code == 0
        assert running.text() == "refused\n" * 3


async def test_broken_forwarded_connection_ends_its_channel(servers: Servers) -> None:
    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"half")
        await reader.readexactly(1)
        writer.transport.abort()

    listening = await asyncio.start_server(breaks, "127.0.0.1", 0)
    there = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    secrets = {"HOST": "127.0.0.1", "USER": "root", "PASS": PASSWORD}
    async with serving(forwards=True) as port:
        running = await servers.dial({**secrets, "PORT": str(port)}, there, kind=ChannelKind.FORWARD)
        running.send(m.START_FRAME)
        await running.output(4)
        while not running.reader.lost:  # what is written to it is answered with an end, some time
            running.send(m.frame(m.STDIN, b"x"))
            await asyncio.sleep(0.01)
        assert await running.ended() == m.Exit(0, "")
        assert running.text() == "half"
    listening.close()


async def repeats(process: Process) -> None:
    process.stdout.write(b"begun\n")
    while data := await process.stdin.read(65536):
        process.stdout.write(data)
    process.exit(0)


def login_of(servers: Servers) -> Any:
    (shared,) = servers.targets._logins._held.values()
    return shared.task.result()._connection


async def test_rekeying_during_a_transfer_leaves_the_data_unchanged(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncssh, "connect", partial(asyncssh.connect, rekey_bytes=1 << 20))
    exchanged = 0
    sent = stream.TargetStream._begin_exchange

    def counted(self: stream.TargetStream) -> None:
        nonlocal exchanged
        exchanged += 1
        sent(self)

    monkeypatch.setattr(stream.TargetStream, "_begin_exchange", counted)
    async with serving(program=repeats, rekey_bytes=1 << 20) as port:
        running = await begun(servers, port)
        data = bytes(range(256)) * 256
        await running.send_all(data, 200)
        running.send(m.STDIN_END_FRAME)
        assert (await running.ended()).code == 0
        assert running.reader.digest.digest() == hashlib.sha256(b"begun\n" + data * 200).digest()
    assert exchanged > 10


async def test_unfinished_key_exchange_ends_the_connection(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "KEEPALIVE", 1_000)  # which would end it too

    async def stalls(process: Process) -> None:
        connection_of(process).process_packet = lambda *_: True
        process.stdout.write(b"begun\n")
        await process.stdin.read()

    async with serving(program=stalls) as port:
        running = await begun(servers, port)
        await running.output(6)
        monkeypatch.setattr(ssh_transport, "EXCHANGE", 0.5)
        login_of(servers)._rekey_bytes_sent = 1 << 40
        running.send(m.frames(m.STDIN, b"x"))
        await running.until(lambda: running.reader.full)
        assert (await running.ended()).code == m.ENDED


async def test_requests_during_a_key_exchange_are_limited(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "KEEPALIVE", 1_000)
    monkeypatch.setattr(ssh_transport, "EXCHANGE", 1_000)

    async def floods(process: Process) -> None:
        connection = connection_of(process)
        connection.process_packet = lambda *_: True
        process.stdout.write(b"begun\n")
        await process.stdin.read(1)
        for _ in range(100):
            for _ in range(100):
                connection.send_packet(80, String("unknown"), Boolean(True))
            await asyncio.sleep(0)
        await process.stdin.read()

    async with serving(program=floods) as port:
        running = await begun(servers, port)
        await running.output(6)
        running.send(m.frames(m.STDIN, b"x"))
        await asyncio.sleep(0)
        login_of(servers)._rekey_bytes_sent = 1 << 40
        running.send(m.frames(m.STDIN, b"y"))
        assert (await running.ended()).code == m.ENDED
