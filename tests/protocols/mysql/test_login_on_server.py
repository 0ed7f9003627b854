"""Client login with PyMySQL, and target login at a real MariaDB server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pymysql
import pytest
from tests.support.certificates import issue
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import listening, running_mariadb, server_context

from postern.domain.secret import Secret
from postern.errors import PosternError
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mysql.login import mysql_auth as auth
from postern.protocols.mysql.login.mysql_login import ClientLogin, MysqlTargetGreeting, MysqlTargetLogin, connect
from postern.protocols.mysql.wire import mysql_messages as m
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.credentials import make_verifier

PASSWORD = "correct horse"
VERIFIER = make_verifier(Secret(PASSWORD))
THREAD = (1 << 31) + 7
PLUGIN = Path("/usr/lib/mysql/plugin/auth_ed25519.so")


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDbServer]:
    with running_mariadb() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("create database shop")
            cursor.execute("create user app@'%' identified by 'größe$'")
            cursor.execute("grant all on shop.* to app@'%'")
        yield server


async def log_in(server: MariaDbServer, login: MysqlTargetLogin) -> tuple[MysqlTargetGreeting, bytes]:
    """Return the server's greeting and its answer to a ping."""
    stream = StreamHandshake()
    await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", server.port)
    try:
        greeting = await connect(stream, login)
        stream.write(m.PING)
        return greeting, await stream.read(11)
    finally:
        stream.close()


async def test_target_login_with_a_password_succeeds_on_a_server(mariadb: MariaDbServer) -> None:
    greeting, pong = await log_in(mariadb, MysqlTargetLogin("app", Secret("größe$"), "shop", attributes={b"_os": b"x"}))
    assert greeting.is_mariadb
    assert "MariaDB" in greeting.version
    assert greeting.thread > 0
    assert greeting.status & m.AUTOCOMMIT
    assert pong == m.ok(1)


async def test_target_login_with_an_empty_password_succeeds_on_a_server(mariadb: MariaDbServer) -> None:
    assert (await log_in(mariadb, MysqlTargetLogin("root", Secret(""))))[1] == m.ok(1)


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (MysqlTargetLogin("app", Secret("wrong")), "28000/1045"),
        (MysqlTargetLogin("nobody", Secret("")), "28000/1045"),
        (MysqlTargetLogin("app", Secret("größe$"), "another"), "42000/1044"),
    ],
    ids=["wrong password", "unknown user", "unknown database"],
)
async def test_target_login_reports_the_error_code_of_a_server(
    mariadb: MariaDbServer, login: MysqlTargetLogin, said: str
) -> None:
    with pytest.raises(TargetRefused) as refused:
        await log_in(mariadb, login)
    assert refused.value.code == said


async def test_collation_unknown_to_a_server_falls_back_to_utf8mb4(mariadb: MariaDbServer) -> None:
    stream = StreamHandshake()
    await asyncio.get_running_loop().create_connection(lambda: stream, "127.0.0.1", mariadb.port)
    await connect(stream, MysqlTargetLogin("root", Secret(""), collation=255))
    stream.write(m.query("select hex('é')".encode() + b", @@character_set_client"))
    reader, found = m.MysqlPackets(10_000), list[m.Packet]()
    while len(found) < 6:
        found += reader.feed(await stream.read(1))
    stream.close()
    assert m.parse_text_row(found[4].payload, 2) == (b"C3A9", b"utf8mb4")


@pytest.mark.skipif(not PLUGIN.exists(), reason="the plug-in of Debian's mariadb-server is not installed")
async def test_target_login_with_ed25519_succeeds_on_a_server(mariadb: MariaDbServer) -> None:
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("install soname 'auth_ed25519'")
        cursor.execute("create user signer@'%' identified via ed25519 using password('schlüssel, lang genug')")
    greeting, pong = await log_in(mariadb, MysqlTargetLogin("signer", Secret("schlüssel, lang genug")))
    assert greeting.is_mariadb
    assert pong == m.ok(1)
    with pytest.raises(TargetRefused, match="Access denied"):
        await log_in(mariadb, MysqlTargetLogin("signer", Secret("another")))


@lru_cache(maxsize=1)
def exchange_key() -> auth.ExchangeKey:
    return auth.ExchangeKey()


class Served:
    """The gateway's client login: accepts one password, then answers pings until the client quits."""

    def __init__(self, *, require_tls: bool = False) -> None:
        self.digests = auth.PasswordDigests()
        self.users: list[str] = []
        self.require_tls = require_tls

    async def __call__(self, stream: StreamHandshake) -> None:
        login = ClientLogin(stream, THREAD)
        try:
            startup = await login.greet(require_tls=self.require_tls)
            self.users.append(startup.user)
            await login.authenticate(VERIFIER, self.digests, exchange_key)
        except PosternError as error:
            login.turn_away(m.ER_ACCESS_DENIED, "28000", error.message)
            return
        login.welcome()
        while (await stream.read(int.from_bytes((await stream.read(4))[:3], "little")))[0] != m.COM_QUIT:
            stream.write(m.ok(1))


def visit(port: int, password: str, **options: object) -> int:
    """Log in with PyMySQL and return the connection id."""
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="ada", password=password, autocommit=True, connect_timeout=60, **options
    )
    connection.ping()
    found: int = connection.thread_id()
    connection.close()
    return found


@pytest.mark.parametrize("tls", [True, False], ids=["TLS", "no TLS"])
async def test_pymysql_logs_in_twice_and_its_password_digest_is_cached(tls: bool, tmp_path: Path) -> None:
    issued = issue("127.0.0.1")
    served = Served()
    options: dict[str, object] = {}
    if tls:
        (tmp_path / "authority.pem").write_text(issued.authority)
        options["ssl"] = {"ca": str(tmp_path / "authority.pem"), "check_hostname": False}
    async with listening(served, server_context(issued, tmp_path)) as port:
        for _ in range(2):
            assert await asyncio.to_thread(visit, port, PASSWORD, **options) == THREAD
    assert served.users == ["ada", "ada"]
    assert served.digests.find(VERIFIER) is not None


async def test_pymysql_receives_the_reason_of_a_denied_login(tmp_path: Path) -> None:
    context: ssl.SSLContext = server_context(issue("127.0.0.1"), tmp_path)
    async with listening(Served(), context) as port:
        with pytest.raises(pymysql.err.OperationalError, match="password is wrong") as refused:
            await asyncio.to_thread(visit, port, "wrong")
        assert refused.value.args[0] == m.ER_ACCESS_DENIED
    async with listening(Served(require_tls=True), context) as port:
        with pytest.raises(pymysql.err.OperationalError, match="only TLS connections"):
            await asyncio.to_thread(visit, port, PASSWORD, ssl_disabled=True)
