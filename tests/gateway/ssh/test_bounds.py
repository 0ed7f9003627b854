"""Authenticated clients that make the gateway buffer more and more, or wait forever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncssh
import pytest
from asyncssh.packet import Boolean, String, UInt32
from tests.support.promises import PATIENT, until
from tests.support.ssh_gate import PASSWORD, USER, Site, open_site

from postern.domain.targets.connection import Extra
from postern.protocols.ssh import ssh_transport
from postern.protocols.ssh.listener import ssh_channel_sessions as sessions
from postern.protocols.ssh.listener import ssh_gate as gate
from postern.protocols.ssh.listener import ssh_limits as bounds
from postern.protocols.ssh.listener.ssh_clients import ChannelClient
from postern.protocols.ssh.listener.ssh_limits import MOST_VARIABLES
from postern.protocols.ssh.listener.ssh_server import SshConnection
from postern.protocols.ssh.listener.ssh_visit import MOST_CHANNELS
from postern.protocols.ssh.ssh_transport import SMALLEST_PACKET
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import Start

GLOBAL_REQUEST, CHANNEL_OPEN, CHANNEL_DATA = 80, 90, 94


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as made:
        yield made


async def gone(conn: asyncssh.SSHClientConnection) -> None:
    await asyncio.wait_for(conn.wait_closed(), PATIENT)


def at_gateway(site: Site) -> SshConnection:
    (found,) = site.gate._connections
    return found


async def connected(site: Site) -> Any:
    conn = await site.connect(USER, password=PASSWORD)
    await until(lambda: site.gate._connections)
    return conn


def deaf(conn: Any) -> None:
    """It does nothing any more about what is not of a channel: key exchanges and keep-alives."""
    conn.process_packet = lambda *_: True


async def test_environment_variables_are_limited_in_number_and_size(site: Site) -> None:
    site.flow.decided.clear()
    async with await connected(site) as conn:
        given = {"LC_LONG": "x" * 100_000, **{f"LC_{number}": "x" for number in range(1_000)}}
        process = await conn.create_process("true", env=given)
        await asyncio.wait_for(site.flow.was_asked.wait(), PATIENT)
        (channel,) = at_gateway(site)._channels.values()
        assert len(channel._env) == MOST_VARIABLES
        assert b"LC_LONG" not in channel._env
        process._chan._send_request(b"env", String("LC_LATE"), String("x"))
        assert not await process._chan._make_request(b"unknown")
        assert len(channel._env) == MOST_VARIABLES
        site.flow.decided.set()


async def test_attack_waiting_one_byte_packets_are_merged(site: Site) -> None:
    """Each one took a hundred times its size, and reading all of them took quadratic time."""
    sent, hears = bytes(range(200)) * 50, asyncio.Event()

    async def act(client: ChannelClient, start: Start) -> None:
        await hears.wait()

    site.flow.act, site.flow.reads = act, len(m.START_FRAME) + 4_000
    async with await connected(site) as conn:
        process = await conn.create_process("true", encoding=None)
        await until(lambda: site.flow.started)
        for at in range(0, len(sent), 100):
            for byte in sent[at : at + 100]:
                process._chan.send_packet(CHANNEL_DATA, String(bytes((byte,))))
            await asyncio.sleep(0)
        (channel,), (transport,) = at_gateway(site)._channels.values(), at_gateway(site).visit.channels
        transport.pause_reading()
        arrived = channel._init_recv_window - len(sent)
        await until(lambda: channel._recv_window == arrived)
        assert len(channel._recv_buf) + len(transport._waiting) < 10
        transport.resume_reading()
        hears.set()
        await process.wait()


async def test_attack_channel_of_a_program_that_does_not_read_is_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "UNREAD", 0.1)

    async def act(client: ChannelClient, start: Start) -> None:
        await asyncio.wait((ends,))

    site.flow.act, ends = act, asyncio.get_running_loop().create_future()
    async with await connected(site) as conn:
        process = await conn.create_process("sleep", encoding=None)
        process.stdin.write(bytes(500_000))
        (channel,) = at_gateway(site)._channels.values()
        await until(lambda: channel._recv_buf)
        process.close()
        await until(lambda: not at_gateway(site).visit.channels)
        ends.set_result(None)
        assert (await conn.run("true")).exit_status == 0


async def test_attack_maximum_packet_size_too_small_for_data_is_rejected(site: Site) -> None:
    async with await connected(site) as conn:
        with pytest.raises((asyncssh.Error, OSError)):
            await conn.create_session(asyncssh.SSHClientSession, "true", max_pktsize=SMALLEST_PACKET - 1)
        await gone(conn)
    async with await connected(site) as conn:
        channel, _ = await conn.create_session(asyncssh.SSHClientSession, "true", max_pktsize=SMALLEST_PACKET)
        await channel.wait_closed()


async def test_unfinished_key_exchange_ends_the_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_transport, "EXCHANGE", 0.3)
    site.flow.decided.clear()
    conn = await connected(site)
    await conn.create_process("true")
    await asyncio.wait_for(site.flow.was_asked.wait(), PATIENT)
    visit = at_gateway(site).visit
    (channel,) = visit.channels
    deaf(conn)
    conn._send_kexinit()
    await until(lambda: channel._throttled)
    await gone(conn)
    assert not visit.channels


async def test_repeated_rekeying_works(site: Site) -> None:
    async with await connected(site) as conn:
        for _ in range(3):
            at_gateway(site)._rekey_bytes_sent = 1 << 40
            assert (await conn.run("true")).exit_status == 0
        assert not at_gateway(site).visit.is_full
        assert not at_gateway(site)._exchange.is_running


async def test_messages_queued_during_a_key_exchange_are_limited(site: Site) -> None:
    conn = await connected(site)
    deaf(conn)
    conn._send_kexinit()
    conn._kex_complete = True  # its own asyncssh would keep back what follows
    for _ in range(100):
        for _ in range(100):
            conn.send_packet(GLOBAL_REQUEST, String("unknown"), Boolean(True))
        await asyncio.sleep(0)
    await gone(conn)


async def test_requests_queued_after_a_waiting_one_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.flow.decided.clear()
    async with await connected(site) as conn:
        monkeypatch.setattr(SshConnection, "attach_x11_listener", lambda *_: asyncio.sleep(PATIENT))
        process = await conn.create_process("true")
        for _ in range(200):
            process._chan._send_request(b"x11-req", Boolean(False), String("x"), String("00"), UInt32(0))
        await gone(conn)


async def test_session_channel_without_a_request_is_closed_after_a_deadline(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "NOTHING_ASKED", 0.3)
    async with await connected(site) as conn:
        channel = asyncssh.channel.SSHClientChannel(conn, conn._loop, "strict", None, "strict", 1 << 20, 1 << 15)
        await channel._open(b"session")
        channel._session = asyncssh.SSHClientSession()
        assert at_gateway(site).visit.channels
        await until(lambda: not at_gateway(site).visit.channels)
        assert (await conn.run("true")).exit_status == 0


async def test_waiting_channels_count_against_the_channel_limit(site: Site) -> None:
    site.flow.decided.clear()
    site.flow.allowed = frozenset({Extra.FORWARD_LOCAL})
    async with await connected(site) as conn:
        opening = [asyncio.create_task(conn.open_connection("10.0.0.1", 80)) for _ in range(MOST_CHANNELS + 50)]
        await until(lambda: sum(one.done() for one in opening) == 50)
        for one in opening:
            if one.done():
                assert isinstance(one.exception(), asyncssh.ChannelOpenError)
        site.flow.decided.set()
        await asyncio.gather(*opening, return_exceptions=True)
        await until(lambda: not at_gateway(site).visit.channels)
    assert len(site.flow.started) == MOST_CHANNELS


async def test_nested_connections_per_connection_are_limited(site: Site) -> None:
    key = site.keys.add("ann")
    async with await site.connect("ann", client_keys=[key]) as conn:
        for _ in range(MOST_CHANNELS):
            await conn.open_connection("web-1", 22)
        with pytest.raises(asyncssh.ChannelOpenError):
            await conn.open_connection("web-1", 22)


async def test_nested_connections_per_user_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MOST_CONNECTIONS", 2)
    ann, bob = site.keys.add("ann"), site.keys.add("bob")
    async with (
        await site.connect("ann", client_keys=[ann]) as one,
        await site.connect("ann", client_keys=[ann]) as other,
        await site.connect("bob", client_keys=[bob]) as another,
    ):
        _, first = await one.open_connection("web-1", 22)
        await other.open_connection("web-1", 22)
        for conn in (one, other):
            with pytest.raises(asyncssh.ChannelOpenError, match="2 nested SSH connections"):
                await conn.open_connection("web-1", 22)
        await another.open_connection("web-1", 22)  # whose count is another one
        first.close()
        await until(lambda: site.gate._insiders.total() == 2)
        await other.open_connection("web-1", 22)
    await until(lambda: not site.gate._insiders)


async def test_attack_nested_connection_without_a_target_name_is_rejected(site: Site) -> None:
    """A nested connection without a target could nest further ones without end."""
    async with await site.connect("ann", client_keys=[site.keys.add("ann")]) as conn:
        for nowhere in ("", "web\0-1", "web\x1b[2J"):  # of which databases take some badly
            with pytest.raises(asyncssh.ChannelOpenError, match="no connection was named"):
                await conn.open_connection(nowhere, 22)


async def test_silent_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "KEEPALIVE", 0.1)
    monkeypatch.setattr(gate, "KEEPALIVES", 2)
    async with open_site() as site:
        conn = await connected(site)
        visit = at_gateway(site).visit
        site.flow.decided.clear()
        await conn.create_process("true")
        await until(lambda: visit.channels)
        deaf(conn)
        await gone(conn)
        await until(lambda: not visit.channels)


async def test_client_that_answers_keep_alives_but_does_not_read_is_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "KEEPALIVE", 0.1)
    monkeypatch.setattr(gate, "KEEPALIVES", 2)
    async with open_site() as site:
        site.flow.writes = 1 << 20
        async with await connected(site) as conn:
            channel, _ = await conn.create_session(asyncssh.SSHClientSession, "stalled", encoding=None, window=1_000)
            channel.pause_reading()
            (stalled,) = at_gateway(site).visit.channels
            await until(lambda: stalled._throttled)
            site.flow.writes = 0
            answered = 0

            def counted(*arguments: Any) -> None:
                nonlocal answered
                answered += 1

            monkeypatch.setattr(at_gateway(site).logger, "debug1", counted)
            await until(lambda: answered > 10)  # each keep-alive says so twice
            assert (await conn.run("true")).exit_status == 0
            assert stalled in at_gateway(site).visit.channels


async def test_x11_forwarding_request_is_denied(site: Site) -> None:
    async with await connected(site) as conn:
        site.flow.decided.clear()
        channel, _ = await conn.create_session(asyncssh.SSHClientSession, "true")
        wanted = (Boolean(False), String("MIT-MAGIC-COOKIE-1"), String("00" * 16), UInt32(0))
        assert await channel._make_request(b"x11-req", *wanted) is False
        assert await channel._make_request(b"auth-agent-req@openssh.com") is False
        site.flow.decided.set()
        await channel.wait_closed()
    (start,) = site.flow.started
    assert (start.terminal, start.environment) == (None, {})


@pytest.mark.parametrize(
    "change",
    [
        lambda name: "".join(chr(ord(one) + 0xFEE0) for one in name),
        lambda name: name + "\u00ad",
        lambda name: "\u2060" + name,
    ],
    ids=["full-width", "soft hyphen", "word joiner"],
)
async def test_user_name_that_equals_an_account_only_after_normalisation_is_rejected(
    site: Site, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]
) -> None:
    """asyncssh would use the normalised name, at either end."""
    normal = asyncssh.saslprep.saslprep
    assert normal(change(USER)) == USER
    given = change(USER)
    monkeypatch.setattr("asyncssh.connection.saslprep", lambda name: name if name == given else normal(name))
    with pytest.raises(asyncssh.IllegalUserName, match="look like others"):
        await site.connect(change(USER), password=PASSWORD)
    async with await site.connect(USER, password=PASSWORD):
        pass
