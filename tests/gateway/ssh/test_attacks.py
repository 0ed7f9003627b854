"""Attacks that broke other SSH gateways and libraries, tried on this one: the 22 cases of the list, by number.

Not here, since nothing of the kind exists: 2 (an API that takes a bare public key for a login: keys are only found by
who has signed on this port), 17 and 18 (files: the gateway writes none, and makes no users). At whole servers: 13 and
15 (switches of a connection) and 19 (keys of targets) in tests/e2e/test_ssh.py, 20 at the target's side in
tests/agent. 4, 9 and 10, which are about certificates, are in test_certificates.py.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import asyncssh
import pytest
from asyncssh import auth
from tests.support.promises import PATIENT, until
from tests.support.ssh_gate import PASSWORD, USER, Site, open_site

from postern.domain.targets.connection import Extra
from postern.protocols.ssh.listener.ssh_clients import ChannelClient
from postern.protocols.ssh.listener.ssh_limits import LONGEST_PASSWORD, MOST_EARLY
from postern.protocols.ssh.listener.ssh_server import SshConnection, SshServer
from postern.protocols.ssh.listener.ssh_users import Proved, SshUser
from postern.protocols.ssh.listener.ssh_visit import SshClientState
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_target import Start

CHANNEL_OPEN, USERAUTH_REQUEST, USERAUTH_SUCCESS, KEXINIT, IGNORE = 90, 50, 52, 20, 2


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as made:
        yield made


def string(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">I", len(data)) + data


OPEN_SESSION = string("session") + struct.pack(">III", 0, 1 << 20, 1 << 15)


class Raw(asyncssh.SSHClient):
    """Acts when it is asked for its password: keys are exchanged by then, and nobody is authenticated."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._conn: Any = conn

    async def password_auth_requested(self) -> str | None:
        await self._act(self._conn)
        return None


async def attacked(site: Site, act: Any, username: str = USER) -> None:
    """It ends without anybody being let in."""
    with pytest.raises((asyncssh.Error, OSError)):
        await asyncio.wait_for(
            site.connect(username, client_factory=lambda: Raw(act), preferred_auth=["password"]), PATIENT
        )
    assert not site.flow.asked
    assert not site.flow.started


def unasked(conn: Any, kind: int, payload: bytes) -> None:
    """asyncssh's own client would keep it back."""
    conn._auth_complete = True
    conn.send_packet(kind, payload)


def by_key(user: str, key: bytes, signature: bytes | None, algorithm: str = "ssh-ed25519") -> bytes:
    signs = b"\0" if signature is None else b"\1"
    request = string(user) + string("ssh-connection") + string("publickey") + signs + string(algorithm) + string(key)
    return request + (b"" if signature is None else string(signature))


async def test_01_offered_key_without_a_signature_does_not_log_in(site: Site) -> None:
    key = site.keys.add("ann")

    async def offers(conn: Any) -> None:
        conn.send_packet(USERAUTH_REQUEST, by_key("ann#web-1", key.public_data, None))
        await until(lambda: site.keys.found)
        unasked(conn, CHANNEL_OPEN, OPEN_SESSION)
        await conn.wait_closed()

    await attacked(site, offers)
    assert site.keys.found == [key.get_fingerprint()]


def unproved(site: Site, username: str, peer: str = "::1") -> tuple[SshConnection, SshServer]:
    """A connection whose keys are exchanged, as asyncssh asks it about keys."""
    connection: Any = site.gate.connection(SshClientState(peer, 0))
    connection.connection_made(Mock(get_extra_info=lambda *_: None))
    connection._session_id = b"exchanged"
    server = connection.get_owner()
    server.begin_auth(username)
    return connection, server


def signature_of(key: asyncssh.SSHKey, message: bytes, algorithm: bytes = b"ssh-ed25519") -> bytes:
    return key.sign(string(b"exchanged") + message, algorithm)


async def test_03_only_the_key_that_signed_logs_in(site: Site) -> None:
    anns, bobs = site.keys.add("ann"), site.keys.add("bob")
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    connection, server = unproved(site, "x#web-1")

    async def shown(key: asyncssh.SSHKey, signed_by: asyncssh.SSHKey | None) -> tuple[bool, Proved | None]:
        message, signature = (b"", b"") if signed_by is None else (b"it", signature_of(signed_by, b"it"))
        taken = await connection.validate_public_key("x#web-1", key.public_data, message, signature)
        return taken, server.proved

    assert await shown(anns, None) == (True, None)
    taken, proved = await shown(bobs, bobs)
    assert taken
    assert isinstance(proved, SshUser)
    assert proved.principal.email == "bob@example.com"
    assert await shown(anns, None) == (True, None)
    assert await shown(stranger, stranger) == (False, None)
    assert await shown(anns, bobs) == (False, None)
    with pytest.raises(asyncssh.DisconnectError):
        server.auth_completed()
    connection.abort()


async def test_05_no_channel_opens_before_authentication(site: Site) -> None:
    async def opens(conn: Any) -> None:
        unasked(conn, CHANNEL_OPEN, OPEN_SESSION)
        await conn.wait_closed()

    await attacked(site, opens)


async def test_06_client_cannot_declare_itself_authenticated(site: Site) -> None:
    async def says(conn: Any) -> None:
        conn.send_packet(USERAUTH_SUCCESS)
        unasked(conn, CHANNEL_OPEN, OPEN_SESSION)
        await conn.wait_closed()

    await attacked(site, says)


def packet(payload: bytes) -> bytes:
    """Unencrypted, RFC 4253 section 6."""
    padding = 8 - (5 + len(payload)) % 8
    padding += 8 if padding < 4 else 0
    return struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)


async def raw(site: Site, *data: bytes) -> bytes:
    """All that the gateway says to a client that says this, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        writer.write(b"".join(data))
        return await asyncio.wait_for(reader.read(), PATIENT)
    except ConnectionError:
        return b""
    finally:
        writer.close()


VERSION = b"SSH-2.0-attacker\r\n"


@pytest.mark.parametrize(
    "payload",
    [
        bytes((USERAUTH_REQUEST,)) + string(USER) + string("ssh-connection") + string("none"),
        bytes((CHANNEL_OPEN,)) + OPEN_SESSION,
        bytes((5,)) + string("ssh-userauth"),
        bytes((21,)),
    ],
    ids=["authentication", "channel", "service", "new keys"],
)
async def test_07_no_request_is_accepted_before_the_key_exchange(site: Site, payload: bytes) -> None:
    said = await raw(site, VERSION, packet(payload))
    assert said.startswith(b"SSH-2.0-Postern\r\n")
    assert not site.flow.asked


async def test_08_key_exchange_is_strict(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(VERSION)
    await reader.readline()
    length, padding = struct.unpack(">IB", await reader.readexactly(5))
    offer = (await reader.readexactly(length - 1))[: length - 1 - padding]
    assert offer[0] == KEXINIT
    lists, at = [], 17
    for _ in range(8):
        (size,) = struct.unpack_from(">I", offer, at)
        lists.append(offer[at + 4 : at + 4 + size].decode().split(","))
        at += 4 + size
    assert "kex-strict-s-v00@openssh.com" in lists[0]
    assert not [name for name in lists[0] if "sha1" in name or name.startswith("rsa") or "group18" in name]
    assert not [cipher for cipher in lists[2] + lists[3] if "chacha20" in cipher or "cbc" in cipher]
    assert lists[6] == lists[7] == ["none"]
    strict = (
        offer[:17]
        + string("curve25519-sha256,kex-strict-c-v00@openssh.com")
        + offer[17 + 4 + len(",".join(lists[0])) :]
    )
    writer.write(packet(strict) + packet(bytes((IGNORE,)) + string("")))
    assert b"trict" in await asyncio.wait_for(reader.read(), PATIENT)
    writer.close()


async def test_11_invalid_signature_is_rejected(site: Site) -> None:
    key, other = site.keys.add("ann"), asyncssh.generate_private_key("ssh-ed25519")

    async def signs(conn: Any) -> None:
        for signature in (
            other.sign(b"something else", b"ssh-ed25519"),
            b"",
            string("ssh-ed25519") + string(bytes(64)),
        ):
            conn.send_packet(USERAUTH_REQUEST, by_key("ann#web-1", key.public_data, signature))
            await asyncio.sleep(0.05)
        unasked(conn, CHANNEL_OPEN, OPEN_SESSION)
        await conn.wait_closed()

    await attacked(site, signs)


async def test_12_excessive_packet_length_is_rejected_at_once(site: Site) -> None:
    await raw(site, VERSION, struct.pack(">I", 0xFFFFFFFF) + bytes(60))
    await raw(site, b"SSH-2.0-" + b"x" * 100_000)


async def test_13_14_no_forwarding_starts_before_or_without_admission(site: Site) -> None:
    site.flow.decided.clear()
    site.flow.allowed = frozenset({Extra.FORWARD_LOCAL})
    async with await site.connect(USER, password=PASSWORD) as conn:
        opening = asyncio.create_task(conn.open_connection("10.0.0.1", 80))
        await asyncio.wait_for(site.flow.was_asked.wait(), PATIENT)
        assert not opening.done()
        assert not site.flow.started
        site.flow.decided.set()
        await opening
        site.flow.allowed = frozenset()
        with pytest.raises(asyncssh.ChannelOpenError) as refused:
            await conn.open_connection("10.0.0.1", 80)
        assert "disabled" in refused.value.reason
        with pytest.raises(asyncssh.ChannelOpenError):
            await conn.open_unix_connection("/run/docker.sock")
        with pytest.raises(asyncssh.ChannelListenError):
            await conn.forward_remote_port("", 0, "localhost", 1)
    assert [start.channel.what for start in site.flow.started if start.channel] == ["10.0.0.1:80"]


async def test_15_unknown_subsystem_and_disabled_file_transfer_are_denied(site: Site) -> None:
    site.flow.allowed = frozenset()
    async with await site.connect(USER, password=PASSWORD) as conn:
        with pytest.raises(asyncssh.ChannelOpenError):
            await conn.create_process(subsystem="netconf")
        for wanted in ({"subsystem": "sftp"}, {"command": "scp -t /tmp"}, {"command": "rsync --server . /"}):
            assert (await conn.run(**wanted)).exit_status == m.ENDED  # type: ignore[arg-type]
    assert not site.flow.started


async def test_16_environment_variables_that_load_code_are_dropped(site: Site) -> None:
    given = {"LD_PRELOAD": "/tmp/x.so", "DYLD_INSERT_LIBRARIES": "x", "LC_ALL": "C", "LANG": "C", "SHOWN": "1"}
    async with await site.connect(USER, password=PASSWORD) as conn:
        await conn.run("true", env=given)
        site.flow.subtype, site.flow.protocol = "", "terminal"
        site.flow.engine.links.changes += 1
        await conn.run("true", env=given)
    server, command = site.flow.started
    assert set(server.environment) == {"LC_ALL", "LANG"}
    assert set(command.environment) == {"LC_ALL", "LANG", "SHOWN"}


async def test_attack_environment_variable_with_shell_code_is_dropped(site: Site) -> None:
    given = {
        "LC_ALL": "de_DE.UTF-8",
        "LC_1": "rm -rf /",
        "LC_2": "$(id)",
        "LC_3": "/bin/sh",
        "LANG": "C\nid",
        "LC_4": "x" * 65,
    }
    async with await site.connect(USER, password=PASSWORD) as conn:
        await conn.run('eval "$LC_1"', env=given)
    (server,) = site.flow.started
    assert server.environment == {"LC_ALL": "de_DE.UTF-8"}


async def test_attack_control_characters_in_the_client_version_are_escaped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: ChannelClient, start: Start) -> None:
        told.append(client.metadata["ssh_client"])

    told: list[str] = []
    site.flow.act = act
    monkeypatch.setattr("asyncssh.connection._validate_version", lambda _: b"x\x1b]0;root\x07\0")
    async with await site.connect(USER, password=PASSWORD) as conn:
        await conn.run("true")
    assert told == ["SSH-2.0-x\\x1b]0;root\\x07\\x00"]


async def test_20_agent_forwarding_request_is_denied(site: Site) -> None:
    async with await site.connect(USER, password=PASSWORD) as conn:
        channel, _ = await conn.create_session(asyncssh.SSHClientSession, "true")
        taken: Any = channel
        for request in (b"auth-agent-req@openssh.com",):
            assert await taken._make_request(request) is not True


async def test_21_user_and_connection_names_are_never_interpreted(site: Site) -> None:
    key = site.keys.add("ann")
    name = "ann#web-1; rm -rf $(HOME)`id`"
    async with await site.connect(name, client_keys=[key]) as conn:
        await conn.run("true")
    assert site.flow.asked == [("ann@example.com", "web-1; rm -rf $(HOME)`id`")]


async def test_22_early_data_is_neither_lost_nor_reordered(site: Site) -> None:
    site.flow.decided.clear()
    data = bytes(range(256)) * 1_000
    site.flow.reads = 200_000
    async with await site.connect(USER, password=PASSWORD) as conn:
        process = await conn.create_process("cat", encoding=None)
        process.stdin.write(data)
        process.stdin.write_eof()
        await asyncio.wait_for(site.flow.was_asked.wait(), PATIENT)
        await asyncio.sleep(0.1)
        site.flow.decided.set()
        await asyncio.wait_for(process.wait(), PATIENT)
    frames = m.TerminalFrameReader().feed(site.flow.heard)
    passed = b"".join(payload for kind, payload in frames if kind == m.STDIN)
    assert frames[0] == (m.START, b"")
    assert passed == data[: len(passed)]
    assert len(passed) > 150_000


async def test_password_attempts_per_connection_are_limited(site: Site) -> None:
    tried = 0

    class Guesses(asyncssh.SSHClient):
        def password_auth_requested(self) -> str:
            nonlocal tried
            tried += 1
            return f"guess {tried}"

    with pytest.raises(asyncssh.DisconnectError):
        await site.connect(USER, client_factory=Guesses, preferred_auth=["password"])
    assert tried == 7
    assert not site.flow.asked


async def test_attack_key_exchanges_before_a_login_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began, count = asyncssh.SSHServerConnection._send_kexinit, 0

    def counted(connection: Any) -> None:
        nonlocal count
        count += 1
        began(connection)

    monkeypatch.setattr(asyncssh.SSHServerConnection, "_send_kexinit", counted)

    async def exchanges(conn: Any) -> None:
        for _ in range(3 * MOST_EARLY):
            conn._send_kexinit()
            conn._kexinit_sent = True
            await until(lambda: conn._kex_complete or conn.is_closed())

    await attacked(site, exchanges)
    assert count == MOST_EARLY


async def test_attack_overlong_password_is_not_normalised(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Normalisation by asyncssh takes quadratic time in the number of combining characters."""
    prepared: Any = vars(auth)["saslprep"]
    lengths: list[int] = []

    def counted(text: str) -> str:
        lengths.append(len(text))
        return str(prepared(text[:100]))

    monkeypatch.setattr(auth, "saslprep", counted)
    change, long = struct.pack("?", True), "a" + "\u0300\u0316" * 30_000
    for password in (long, "x" * LONGEST_PASSWORD):
        for more in (b"\0" + string(password), change + string("x") + string(password)):

            async def says(conn: Any, more: bytes = more) -> None:
                request = string(USER) + string("ssh-connection") + string("password") + more
                conn.send_packet(USERAUTH_REQUEST, request)
                await conn.wait_closed()

            await attacked(site, says)
    assert all(length < LONGEST_PASSWORD for length in lengths)
