"""Client login and target login over in-memory streams, against each other and against hostile peers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from tests.support.protocols.memory_handshake import MemoryHandshake, pair

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mysql.login import mysql_auth as auth
from postern.protocols.mysql.login import mysql_ed25519 as ed25519
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.login.mysql_login import (
    ClientLogin,
    MysqlStartup,
    MysqlTargetGreeting,
    MysqlTargetLogin,
    connect,
    decoy,
)
from postern.protocols.mysql.wire import mysql_messages as m
from postern.services.identity.credentials import make_verifier

PASSWORD = "correct horse"
THREAD = (1 << 31) + 7
SALT = bytes(range(33, 53))
VERIFIER = make_verifier(Secret(PASSWORD))


@pytest.fixture(scope="module")
def key() -> auth.ExchangeKey:
    return auth.ExchangeKey()


@dataclass
class Gateway:
    """The gateway as a server, with the details that it received and the password digests."""

    verifier: Verifier = VERIFIER
    digests: auth.PasswordDigests = field(default_factory=auth.PasswordDigests)
    key: auth.ExchangeKey | None = None
    require_tls: bool = False
    known: bool = False
    startup: MysqlStartup | None = None
    error: PosternError | None = None

    async def serve(self, stream: MemoryHandshake) -> None:
        login = ClientLogin(stream, THREAD)
        try:
            self.startup = await login.greet(require_tls=self.require_tls)
            if self.known:
                login.let_in()
            else:
                found = self.key
                await login.authenticate(self.verifier, self.digests, None if found is None else lambda: found)
            login.welcome(m.AUTOCOMMIT | m.IN_TRANSACTION)
        except PosternError as error:
            self.error = error
            login.turn_away(m.ER_ACCESS_DENIED, "28000", error.message)


class TlsClient(MemoryHandshake):
    """A client that continues once the TLS handshake is complete."""

    async def start_tls(self) -> None:
        while not self.peer.encrypted:
            if self.peer.closed:
                raise ConnectionResetError("the peer closed the connection during the TLS handshake")
            await asyncio.sleep(0)
        self.encrypted = True


def linked(*, tls: bool = True) -> tuple[MemoryHandshake, MemoryHandshake]:
    """Return the connected client end and server end."""
    client, server = TlsClient(), MemoryHandshake(tls=tls)
    client.peer, server.peer = server, client
    return client, server


async def log_in(
    gateway: Gateway, password: str = PASSWORD, sslmode: str = "require", **others: object
) -> MysqlTargetGreeting:
    """Run the gateway's target login against the gateway's client login."""
    ours, theirs = linked(tls=sslmode != "disable")
    served = asyncio.create_task(gateway.serve(theirs))
    try:
        login = MysqlTargetLogin("ada", Secret(password), sslmode=sslmode, **others)  # type: ignore[arg-type]
        return await asyncio.wait_for(connect(ours, login), 60)
    finally:
        ours.close()
        with contextlib.suppress(ConnectionError):
            await served


async def test_full_password_is_requested_once_and_then_cached() -> None:
    gateway = Gateway()
    first = await log_in(gateway)
    second = await log_in(gateway)
    assert first == second == MysqlTargetGreeting("8.0.11-Postern", THREAD, False, m.AUTOCOMMIT | m.IN_TRANSACTION)
    assert gateway.digests.find(VERIFIER) == auth.double(PASSWORD.encode())


async def test_login_without_tls_encrypts_the_password(key: auth.ExchangeKey) -> None:
    gateway = Gateway(key=key)
    await log_in(gateway, sslmode="disable")
    assert gateway.startup is not None
    assert not gateway.startup.encrypted
    await log_in(gateway, sslmode="disable")


async def test_login_without_tls_and_key_is_denied() -> None:
    gateway = Gateway()
    with pytest.raises(TargetRefused, match="over TLS only"):
        await log_in(gateway, sslmode="disable")


async def test_startup_options_of_the_client_reach_the_gateway() -> None:
    gateway = Gateway()
    capabilities = g.OFFERED & ~g.FOUND_ROWS | g.COMPRESS
    await log_in(gateway, capabilities=capabilities, database="größe", attributes={b"_os": b"x"}, collation=8)
    assert gateway.startup == MysqlStartup(
        "ada", "größe", capabilities & ~g.COMPRESS, 8, {b"_os": b"x"}, encrypted=True
    )


@pytest.mark.parametrize("sslmode", ["require", "disable"])
async def test_login_with_a_wrong_password_is_denied(sslmode: str, key: auth.ExchangeKey) -> None:
    gateway = Gateway(key=key)
    for _ in range(2):
        with pytest.raises(TargetRefused, match="password is wrong") as refused:
            await log_in(gateway, "wrong", sslmode)
        assert refused.value.refuses_login
    assert gateway.digests.find(VERIFIER) is None
    await log_in(gateway, sslmode=sslmode)
    with pytest.raises(TargetRefused, match="password is wrong"):
        await log_in(gateway, "wrong", sslmode)


async def test_login_without_a_password_is_denied() -> None:
    with pytest.raises(TargetRefused, match="no password"):
        await log_in(Gateway(), "")


async def test_login_of_an_unknown_user_fails_like_a_wrong_password() -> None:
    with pytest.raises(TargetRefused, match="password is wrong"):
        await log_in(Gateway(decoy("nobody", b"secret")))


async def test_password_check_runs_outside_the_event_loop() -> None:
    ours, theirs = linked()
    gateway = Gateway()
    served = asyncio.create_task(gateway.serve(theirs))
    await connect(ours, MysqlTargetLogin("ada", Secret(PASSWORD), sslmode="require"))
    await served
    assert theirs.offloaded == 1


@pytest.mark.parametrize("password", ["", "anything"])
async def test_client_that_is_already_authenticated_logs_in_with_any_password(password: str) -> None:
    gateway = Gateway(known=True)
    assert (await log_in(gateway, password)).thread == THREAD


async def test_login_without_tls_is_denied_if_tls_is_required(key: auth.ExchangeKey) -> None:
    gateway = Gateway(require_tls=True, key=key)
    with pytest.raises(TargetRefused, match="only TLS connections"):
        await log_in(gateway, sslmode="disable")
    assert isinstance(gateway.error, Denied)


@pytest.mark.parametrize("collation", [1, 13, 28, 95, 248, 10, 35, 254])
async def test_attack_login_with_an_unsafe_character_set_is_denied(collation: int) -> None:
    gateway = Gateway()
    with pytest.raises(TargetRefused, match="utf8mb4"):
        await log_in(gateway, collation=collation)
    assert isinstance(gateway.error, Denied)


async def test_target_without_tls_is_unavailable_if_tls_is_required() -> None:
    ours, theirs = linked(tls=False)
    served = asyncio.create_task(Gateway().serve(theirs))
    with pytest.raises(Unavailable, match="offers no TLS"):
        await connect(ours, MysqlTargetLogin("ada", Secret(PASSWORD), sslmode="verify-full"))
    ours.close()
    with pytest.raises(ConnectionError):
        await served


async def test_client_with_a_different_plugin_is_switched_to_caching_sha2(key: auth.ExchangeKey) -> None:
    ours, client = pair()
    gateway = Gateway(key=key)
    gateway.digests.keep(VERIFIER, Secret(PASSWORD))
    served = asyncio.create_task(gateway.serve(ours))
    greeted = g.parse_greeting(await packet(client, 0))
    client.write(g.response(1, g.Response(b"ada", b"x" * 20, g.OFFERED, plugin=auth.NATIVE)))
    plugin, salt = g.parse_auth_switch(await packet(client, 2))
    assert plugin == auth.CACHING
    assert salt[:20] != greeted.salt
    client.write(m.packet(3, auth.caching(PASSWORD.encode(), salt[:20])))
    assert await packet(client, 4) == b"\x01\x03"
    assert (await packet(client, 5))[0] == m.OK
    await served


@pytest.mark.parametrize(
    "sent",
    {
        "another protocol": b"GET / HTTP/1.1\r\n\r\n",
        "a huge packet": b"\xff\xff\xff\x01",
        "out of order": b"\x00\x00\x00\x05",
        "an empty packet": b"\x00\x00\x00\x01",
        "an old client": m.packet(1, b"\x85\x24\x00\x00\x00old\0" + bytes(40)),
        "TLS twice": g.ssl_request(1, g.Response(b"u", b"", g.OFFERED))
        + g.ssl_request(2, g.Response(b"u", b"", g.OFFERED)),
    }.items(),
    ids=lambda item: item[0],
)
async def test_attack_malformed_login_of_a_client_is_a_protocol_violation(sent: tuple[str, bytes]) -> None:
    ours, client = pair()
    gateway = Gateway()
    client.write(sent[1])
    await asyncio.wait_for(gateway.serve(ours), 60)
    assert isinstance(gateway.error, ProtocolViolation)


def _answer(user: bytes = b"ada", proof: bytes = b"x" * 32, **more: Any) -> bytes:
    return g.response(1, g.Response(user, proof, g.OFFERED, plugin=auth.CACHING, **more))


@pytest.mark.parametrize(
    ("sent", "number"),
    [
        (b"\xff\xff\xff\x01", 2),  # a packet without end
        (b"\x00\x00\x00\x05", 6),  # out of order
        (b"\x00\x00\x00\xff", 0),
        (m.packet(1, b""), 2),
        (m.packet(1, b"\x85\x24\x00\x00\x00old\0" + bytes(40)), 2),
        (_answer(b""), 2),
        (_answer(b"\xff"), 2),
        (_answer(proof=b""), 2),
        (_answer(collation=28), 2),  # gbk
        (g.ssl_request(1, g.Response(b"u", b"", g.OFFERED)) + g.ssl_request(2, g.Response(b"u", b"", g.OFFERED)), 3),
        (_answer() + m.packet(3, b"wrong\0"), 4),
        (_answer() + b"\xff\xff\xff\x03", 4),
        (_answer() + b"\x00\x00\x00\x09", 10),
        (g.response(1, g.Response(b"u", b"", g.OFFERED, plugin=auth.NATIVE)) + m.packet(3, b""), 4),
    ],
    ids=str,
)
async def test_error_at_login_has_the_next_sequence_number(sent: bytes, number: int) -> None:
    ours, client = pair()
    gateway = Gateway()
    client.write(sent)
    await asyncio.wait_for(gateway.serve(ours), 60)
    assert gateway.error is not None
    said = m.MysqlPackets(1 << 20).feed(client.take())
    assert (said[-1].sequence, said[-1].payload[0]) == (number, m.ERR)


async def test_error_instead_of_the_greeting_has_sequence_number_zero() -> None:
    ours, client = pair()
    ClientLogin(ours, THREAD).turn_away(1040, "08004", "too many connections")
    assert m.MysqlPackets(1 << 20).feed(client.take())[0].sequence == 0


async def test_attack_user_name_that_is_not_utf8_is_denied() -> None:
    ours, client = pair()
    gateway = Gateway()
    client.write(g.response(1, g.Response(b"\xff\xfe", b"x" * 32, g.OFFERED, plugin=auth.CACHING)))
    await gateway.serve(ours)
    assert isinstance(gateway.error, Unauthenticated)


@pytest.mark.parametrize("sent", [b"\x02", b"x" * 256, b"secret\0", b""])
async def test_attack_password_not_encrypted_for_the_key_is_denied(sent: bytes, key: auth.ExchangeKey) -> None:
    ours, client = pair()
    gateway = Gateway(key=key)
    served = asyncio.create_task(gateway.serve(ours))
    await packet(client, 0)
    client.write(g.response(1, g.Response(b"ada", b"x" * 32, g.OFFERED, plugin=auth.CACHING)))
    assert await packet(client, 2) == b"\x01\x04"
    client.write(m.packet(3, sent))
    if sent == b"\x02":
        assert b"PUBLIC KEY" in await packet(client, 4)
        client.write(m.packet(5, sent))
    await served
    assert isinstance(gateway.error, Unauthenticated)


# Targets that do not mean well


async def packet(stream: MemoryHandshake, sequence: int) -> bytes:
    head = await stream.read(4)
    assert head[3] == sequence
    return await stream.read(int.from_bytes(head[:3], "little"))


Behaviour = Callable[[MemoryHandshake], Coroutine[None, None, None]]


async def connected(behave: Behaviour, sslmode: str = "disable") -> MysqlTargetGreeting:
    ours, theirs = linked()

    async def play() -> None:
        await behave(theirs)
        theirs.close()

    target = asyncio.create_task(play())
    try:
        return await asyncio.wait_for(connect(ours, MysqlTargetLogin("app", Secret(PASSWORD), sslmode=sslmode)), 60)
    finally:
        ours.close()
        with contextlib.suppress(ConnectionError):
            await target


def greets(plugin: str = auth.NATIVE, *said: bytes, capabilities: int = g.OFFERED) -> Behaviour:
    """Send a greeting, read the response, then send each payload and read the response between them."""

    async def behave(target: MemoryHandshake) -> None:
        target.write(g.greeting(g.Greeting("5.5.5-10.11.2-MariaDB", 7, SALT, capabilities, plugin)))
        await packet(target, 1)
        for at, data in enumerate(said):
            target.write(m.packet(2 * at + 2, data))
            if at + 1 < len(said):
                await packet(target, 2 * at + 3)

    return behave


OK = m.ok(0)[4:]


async def test_version_of_a_mariadb_target_is_read() -> None:
    found = await connected(greets(auth.NATIVE, OK, capabilities=g.OFFERED & ~g.LONG_PASSWORD))
    assert found == MysqlTargetGreeting("10.11.2-MariaDB", 7, True, m.AUTOCOMMIT)


async def test_target_login_follows_a_switch_to_ed25519() -> None:
    nonce = bytes(range(31)) + b"\0"  # which ends as other salts do

    async def behave(target: MemoryHandshake) -> None:
        target.write(g.greeting(g.Greeting("5.5.5-10.11.2-MariaDB", 7, SALT, g.OFFERED, auth.NATIVE)))
        await packet(target, 1)
        target.write(m.packet(2, b"\xfe" + auth.ED25519.encode() + b"\0" + nonce))
        signature = await packet(target, 3)
        Ed25519PublicKey.from_public_bytes(ed25519.public_key(PASSWORD.encode())).verify(signature, nonce)
        target.write(m.ok(4))

    assert (await connected(behave)).is_mariadb


async def test_target_login_follows_several_switches() -> None:
    switch = g.auth_switch(0, auth.CACHING, SALT)[4:]
    await connected(greets(auth.NATIVE, switch, g.auth_switch(0, auth.NATIVE, SALT)[4:], OK))


async def test_target_with_an_unknown_plugin_is_unavailable_by_name() -> None:
    switch = g.auth_switch(0, "authentication_kerberos_client", SALT)[4:]
    with pytest.raises(Unavailable, match="authentication_kerberos_client"):
        await connected(greets(auth.NATIVE, switch))


async def test_rejection_by_the_target_has_its_message_and_code() -> None:
    error = m.err(0, 1045, "28000", "Access denied for user 'app'")[4:]
    with pytest.raises(TargetRefused, match="Access denied") as refused:
        await connected(greets(auth.NATIVE, error))
    assert (refused.value.code, refused.value.refuses_login) == ("28000/1045", True)


async def test_error_instead_of_a_greeting_rejects_the_target_login() -> None:
    async def behave(target: MemoryHandshake) -> None:
        target.write(m.packet(0, b"\xff\x10\x04Too many connections"))

    with pytest.raises(TargetRefused, match="Too many connections"):
        await connected(behave)


async def test_attack_clear_text_password_is_not_sent_without_tls() -> None:
    with pytest.raises(Unavailable, match="clear text"):
        await connected(greets(auth.NATIVE, g.auth_switch(0, auth.CLEAR, b"")[4:]), "prefer")


async def test_clear_text_password_is_sent_over_tls() -> None:
    async def behave(target: MemoryHandshake) -> None:
        target.write(g.greeting(g.Greeting("8.0.36", 7, SALT, g.OFFERED | g.SSL, auth.CACHING)))
        assert g.is_ssl_request(await packet(target, 1))
        await target.start_tls()
        await packet(target, 2)
        target.write(m.packet(3, b"\xfe" + auth.CLEAR.encode() + b"\0"))
        assert await packet(target, 4) == PASSWORD.encode() + b"\0"
        target.write(m.ok(5))

    await connected(behave, "require")


@pytest.mark.parametrize(
    "said",
    {
        "an endless authentication": [g.auth_switch(0, auth.NATIVE, SALT)[4:]] * 20,
        "a short salt": [g.auth_switch(0, auth.NATIVE, b"short")[4:]],
        "a short nonce": [g.auth_switch(0, auth.ED25519, SALT)[4:]],
        "an unterminated salt": [b"\xfemysql_native_password"],
        "an old password": [b"\xfe"],
        "an empty packet": [b""],
        "more data for a plug-in that needs none": [b"\x01\x04"],
        "a result": [b"\x05hello"],
        "a malformed public key": [g.auth_switch(0, auth.CACHING, SALT)[4:], b"\x01\x04", b"\x01no key"],
        "no public key": [g.auth_switch(0, auth.CACHING, SALT)[4:], b"\x01\x04", OK],
        "a truncated OK": [b"\0\0"],
    }.items(),
    ids=lambda item: item[0],
)
async def test_attack_malformed_login_of_a_target_is_a_protocol_violation(said: tuple[str, list[bytes]]) -> None:
    with pytest.raises((ProtocolViolation, ConnectionError)) as caught:
        await connected(_forgiving(greets(auth.NATIVE, *said[1])))
    assert isinstance(caught.value, ProtocolViolation)


def _forgiving(behave: Behaviour) -> Behaviour:
    """Cancel the target if it waits for data after the gateway closed the connection."""

    async def forgiven(target: MemoryHandshake) -> None:
        task = asyncio.create_task(behave(target))
        await asyncio.wait([task], timeout=0.2)
        task.cancel()

    return forgiven


async def test_attack_target_without_required_capabilities_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="lacks capabilities"):
        await connected(_forgiving(greets(capabilities=g.OFFERED & ~g.MULTI_RESULTS)))


async def test_attack_bytes_between_greeting_and_tls_are_a_protocol_violation() -> None:
    async def behave(target: MemoryHandshake) -> None:
        target.write(g.greeting(g.Greeting("8", 7, SALT, g.OFFERED | g.SSL, auth.CACHING)) + b"stuffed")

    with pytest.raises(ProtocolViolation, match="between"):
        await connected(behave, "require")


async def test_attack_greeting_of_16_mib_is_a_protocol_violation() -> None:
    async def behave(target: MemoryHandshake) -> None:
        target.write(b"\xff\xff\xff\x00")

    with pytest.raises(ProtocolViolation, match="16777215 bytes"):
        await connected(behave)
