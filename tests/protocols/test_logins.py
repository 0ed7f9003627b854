"""Client logins and target logins of every protocol fulfil the contracts of logins."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import asyncssh
import pytest
from tests.support.protocols import mongodb_login_test_messages as mongo
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols import oracledb_test_messages as om
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.login_contracts import Gate, LogIn, check_gate, check_log_in
from tests.support.ssh_gate import PASSWORD, USER, Site
from tests.support.waiting import somebody

from postern.domain.identity.credential import Grant
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.protocols.mongodb.login.mongodb_target_login import MongodbTargetConversation, MongodbTargetLogin
from postern.protocols.mongodb.mongodb_listener import MongodbGate
from postern.protocols.mssql.login import mssql_login as mssql
from postern.protocols.mssql.mssql_listener import MssqlGate
from postern.protocols.mssql.wire import mssql_packets as tds
from postern.protocols.mysql.login import mysql_auth as auth
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.login import mysql_login as mysql
from postern.protocols.mysql.mysql_listener import MysqlGate
from postern.protocols.mysql.wire import mysql_messages as mm
from postern.protocols.oracledb.login import oracle_login as oracle
from postern.protocols.oracledb.login import tns_connects as connects
from postern.protocols.oracledb.login.oracle_auth import OracleVerifier
from postern.protocols.oracledb.oracle_listener import OracleGate
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_negotiation as ttc
from postern.protocols.postgres.login import postgres_login as postgres
from postern.protocols.postgres.postgres_listener import PostgresGate
from postern.protocols.postgres.wire import postgres_messages as pm
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.credentials import make_verifier
from postern.store.signals import LocalSignals
from postern.transport.served_certificate import ServedCertificate

STRANGER = "eve-web_1-abc234"
VERIFIER = make_verifier(Secret(PASSWORD))
LOGIN_KEY = OracleVerifier.make(PASSWORD).dump()


class Doors:
    """A stand-in for `SessionSetup` that welcomes every authenticated client."""

    def __init__(self) -> None:
        links = SimpleNamespace(changes=0, cancel=lambda key: True)
        self.engine = SimpleNamespace(links=links, turned_away=lambda error: None)

    async def find_grant(self, username: str) -> Grant | None:
        if username != USER:
            return None
        return Grant(uuid4(), USER, VERIFIER, somebody(), cast(Any, None), None, None, LOGIN_KEY)

    async def by_credential(self, client: ClientSession, grant: Grant | None) -> object | None:
        if grant is None:
            client.turn_away(Unauthenticated("there is no such credential"))
            return None
        client.welcome(cast(Any, SimpleNamespace(parameters={"server_version": "17.0"}, process=7)))
        return grant


def postgres_gate() -> Gate:
    gate = PostgresGate(cast(SessionSetup, Doors()), LocalSignals(), decoy_secret=b"decoy")

    async def let_in(stream: StreamHandshake) -> bool:
        return await gate.native(stream, require_tls=False) is not None

    return let_in


def mysql_gate() -> Gate:
    gate = MysqlGate(cast(SessionSetup, Doors()), version=mysql.VERSION, decoy_secret=b"decoy")

    async def let_in(stream: StreamHandshake) -> bool:
        return await gate.native(stream, require_tls=False) is not None

    return let_in


def mongodb_gate() -> Gate:
    gate = MongodbGate(cast(SessionSetup, Doors()), version="7.0", decoy_secret=b"decoy")

    async def let_in(stream: StreamHandshake) -> bool:
        return await gate.native(stream, require_tls=False) is not None

    return let_in


def mssql_gate() -> Gate:
    gate = MssqlGate(cast(SessionSetup, Doors()), cast(ServedCertificate, None), decoy_secret=b"decoy")

    async def let_in(stream: StreamHandshake) -> bool:
        return await gate.native(stream, require_tls=False) is not None

    return let_in


def oracle_gate() -> Gate:
    gate = OracleGate(cast(SessionSetup, Doors()), decoy_secret=b"decoy")

    async def let_in(stream: StreamHandshake) -> bool:
        return await gate.native(stream, require_tls=False) is not None

    return let_in


def ssh_gate() -> Gate:
    site = Site()

    async def let_in(stream: StreamHandshake) -> bool:
        stays = await site.gate.native(stream, require_tls=False)
        if stays is not None:
            asyncio.ensure_future(stays)  # noqa: RUF006 - it ends with its client
        return stays is not None

    return let_in


async def postgres_log_in(stream: StreamHandshake, user: str, password: str) -> None:
    await postgres.connect(stream, postgres.PostgresTargetLogin(user, Secret(password), "shop", "disable"))


async def mysql_log_in(stream: StreamHandshake, user: str, password: str) -> None:
    await mysql.connect(stream, mysql.MysqlTargetLogin(user, Secret(password), sslmode="disable"))


async def mssql_log_in(stream: StreamHandshake, user: str, password: str) -> None:
    await mssql.connect(stream, mssql.MssqlTargetLogin(user, Secret(password), sslmode="disable"))


async def oracle_log_in(stream: StreamHandshake, user: str, password: str) -> None:
    await oracle.connect(stream, oracle.OracleTargetLogin("db", 1521, user, Secret(password), service="orders"))


async def mongodb_log_in(stream: StreamHandshake, user: str, password: str) -> None:
    conversation, login = MongodbTargetConversation(stream), MongodbTargetLogin(user, Secret(password))
    await conversation.authenticate(login, await conversation.hello(login), verified=False)


async def ssh_log_in(stream: StreamHandshake, user: str, password: str) -> None:
    class Below:
        async def create_connection(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
            inner = factory()
            inner.connection_made(stream.transport)
            early = stream.hand_over(inner)
            if early:
                inner.data_received(early)
            return stream.transport, inner

        def close(self) -> None:
            """The stream is not its own."""

    options: Mapping[str, Any] = {"known_hosts": None, "agent_path": None, "config": None, "client_keys": []}
    await asyncssh.connect("gateway", 22, tunnel=Below(), username=user, password=password, **options)


@dataclass(frozen=True)
class Login:
    gate: Callable[[], Gate]
    log_in: LogIn
    clients: Sequence[bytes]  # what none may begin with
    targets: Sequence[bytes] = ()
    bare: bool = True
    sends_password: bool = False


GREETING = g.greeting(g.Greeting("8.0.36", 7, bytes(range(33, 53)), g.OFFERED, auth.NATIVE))
ORACLE_CONNECT = connects.connect(b"(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=orders)))", 8192)
LOGINS: Mapping[str, Login] = {
    "postgres": Login(
        postgres_gate,
        postgres_log_in,
        [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            bytes(64),
            b"\xff" * 64,
            struct.pack("!II", 16, 3 << 16) + b"user\0abc",
            pm.startup({"user": USER}) + b"p\x7f\xff\xff\xff",
            pm.startup({"user": USER}) + pg.query("select 1"),
        ],
        [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            GREETING,
            b"R\0\0\0\x03",
            b"R\x7f\xff\xff\xff",
            pm.authentication(99),
            pg.ready(),
            pm.authentication(pm.AUTH_OK) + pg.data_row("1"),
            pg.error("there is no such database", "3D000", "FATAL"),
        ],
    ),
    "mysql": Login(
        mysql_gate,
        mysql_log_in,
        [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            bytes(64),
            b"\xff" * 64,
            mm.packet(1, b"\x01"),
            mm.packet(0, b"\x01"),
            mm.query(b"select 1"),
        ],
        [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\xff\xff\xff\0",
            mm.packet(0, b""),
            mm.packet(0, b"\x0a8.0"),
            mm.packet(1, b"\x0a8.0"),
            GREETING + mm.packet(2, b"\x05hello"),
            GREETING + mm.packet(3, b"\0"),
            mm.err(0, 1040, "08004", "Too many connections"),
        ],
    ),
    "mongodb": Login(
        mongodb_gate,
        mongodb_log_in,
        [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01",
            bytes(64),
            b"\xff" * 64,
            mongo.header(60, opcode=2012),
            mongo.header(48_000_000),
            mongo.command({"ping": 1}, flags=mongo.MORE_TO_COME),
            mongo.command({"ping": 1}, flags=1 << 4),
            mongo.command({"saslStart": 1, "mechanism": "SCRAM-SHA-1", "payload": b"n,,n=a,r=b"}),
            mongo.command({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=a=b,r=b"}),
            mongo.command({"saslContinue": 1, "conversationId": 1, "payload": b""}),
            mongo.command({"find": "customers"}) * 20,
            mongo.command({"hello": 1}) * 60,
        ],
        [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            GREETING + bytes(16),
            mongo.header(60, opcode=2012),
            mongo.header(48_000_000),
            mongo.answer({"ok": 0, "errmsg": "no", "code": 18}),
            mongo.answer({"ok": 1}),
            mongo.answer({"ok": 1, "maxWireVersion": 21}, to=2),
            mongo.answer({"ok": 1, "maxWireVersion": 21}) + mongo.answer({"ok": 1, "done": True}, to=2),
            mongo.answer({"ok": 1, "maxWireVersion": 21}) + mongo.command({"ping": 1}),
        ],
    ),
    "mssql": Login(
        mssql_gate,
        mssql_log_in,
        [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01",
            b"\x02\x01\x02\0\0\0\0\0",
            bytes(64),
            b"\xff" * 64,
            tds.packet(tds.PRELOGIN, b"\0\0\1"),
            tds.packet(tds.PRELOGIN, b"\0\0\1\0\1"),
            tds.packet(tds.PRELOGIN, b"\1\0\6\0\1\xff\7"),
            tds.packet(tds.PRELOGIN, b"\xff") + tds.packet(tds.BATCH, b""),
            tds.packet(tds.PRELOGIN, b"\xff") + tds.packet(tds.LOGIN, bytes(94)),
            tds.packet(tds.LOGIN, bytes(94)),
        ],
        [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            GREETING,
            tds.packet(tds.PRELOGIN, b"\xff"),
            tds.packet(tds.REPLY, b""),
            tds.packet(tds.REPLY, b"\xff") * 2,
            tds.packet(tds.REPLY, b"\xff")
            + ms.reply(ms.error(18456, "Login failed for user 'x'."), ms.done(error=True)),
            tds.packet(tds.REPLY, b"\xff") + ms.reply(b"\1"),
            tds.packet(tds.REPLY, b"\xff") + ms.reply(b"\xed\0\0"),
            tds.packet(tds.REPLY, b"\xff") + ms.reply(ms.done()),
        ],
        sends_password=True,
    ),
    "oracledb": Login(
        oracle_gate,
        oracle_log_in,
        [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01",
            bytes(64),
            b"\xff" * 64,
            tns.packet(tns.CONNECT, bytes(26), large=False),
            tns.packet(tns.DATA, b"\0\0x", large=False),
            ORACLE_CONNECT + om.data(b"\2"),
            ORACLE_CONNECT + om.data(ttc.client_protocol(b"x"), b"\2"),
            ORACLE_CONNECT + b"\x7f\xff\xff\xff\6\0\0\0",
            ORACLE_CONNECT + om.marker(1),
            ORACLE_CONNECT + om.END_OF_FILE,
        ],
        [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            GREETING,
            tns.packet(tns.ACCEPT, b"", large=False),
            connects.refuse(b"(DESCRIPTION=(ERR=12514))"),
            connects.accept(8192) + om.data(b"\2"),
            connects.accept(8192) + om.data(ttc.gateway_protocol(), b"\2"),
            connects.accept(8192) + om.data(ttc.gateway_protocol()) + om.data(b"\4"),
            tns.packet(tns.RESEND, b"", large=False) * 3,
        ],
    ),
    "ssh": Login(
        ssh_gate,
        ssh_log_in,
        [
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
            b"SSH-1.5-old\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n" + b"\xff" * 64,
            b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(64),
            b"x" * 100_000,
        ],
        bare=False,
    ),
}


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS.keys())
@pytest.mark.ci
async def test_client_login_of_each_protocol_fulfils_the_login_contract(login: Login) -> None:
    names: dict[str, Any] = {"user": USER, "stranger": STRANGER, "password": PASSWORD}
    await check_gate(
        login.gate, login.log_in, **names, garbage=login.clients, bare=login.bare, sends_password=login.sends_password
    )


@pytest.mark.parametrize("name", ["postgres", "mysql", "mongodb", "mssql", "oracledb"])
async def test_target_login_of_each_protocol_fulfils_the_login_contract(name: str) -> None:
    """SSH is not listed: asyncssh implements its target login."""
    login = LOGINS[name]
    await check_log_in(login.gate, login.log_in, user=USER, password=PASSWORD, garbage=login.targets)
