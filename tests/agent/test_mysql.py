"""Real MySQL targets reached by an order, with credentials that only the agent has."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.test_secrets import encoded, order
from tests.support.certificates import Issued, issue
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb
from tests.support.promises import PATIENT, wait_until, within

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.target_dialer import TargetDialer
from postern.errors import Denied, Unavailable
from postern.integrations.secrets.sources import Sources
from postern.protocols.gateway_queries import Row, TargetRefused
from postern.protocols.mysql.login.mysql_client_options import ClientOptions
from postern.protocols.mysql.queries.mysql_query import MysqlQuery
from postern.relay.orders import Order
from postern.relay.relay_target import Start, Target

PASSWORD = "größe';--"


@pytest.fixture(scope="module")
def issued() -> Issued:
    return issue("localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def server(issued: Issued) -> Iterator[MariaDbServer]:
    folder = Path(tempfile.mkdtemp(prefix="postern-tls-", dir="/tmp"))  # where its account may read
    folder.chmod(0o755)
    (folder / "cert.pem").write_bytes(issued.certificate)
    (folder / "key.pem").write_bytes(issued.key)
    options = (f"--ssl-cert={folder}/cert.pem", f"--ssl-key={folder}/key.pem", "--max-statement-time=0")
    for file in folder.iterdir():
        file.chmod(0o644)
    with running_mariadb(*options) as running:
        with running.connect() as connection, connection.cursor() as cursor:
            cursor.execute("create database shop")
            cursor.execute(f"create user app@'%' identified by '{PASSWORD.replace(chr(39), chr(39) * 2)}'")
            cursor.execute("grant all on shop.* to app@'%'")
            cursor.execute("create user tls@'%' identified by 'x' require ssl")
        yield running
    shutil.rmtree(folder)


def asked(server: MariaDbServer, secrets: Mapping[str, str] | None = None, start: Start | None = None) -> Order:
    values = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": "app", "PASS": PASSWORD, **(secrets or {})}
    kept = {f"envvar:{name}": encoded(value.encode()) for name, value in values.items() if value}
    return replace(order(kept, "mysql"), start=start or Start())


def reach(policy: LocalPolicy | None = None) -> TargetDialer:
    resolver = Resolver(Sources({}), SecretFiles({}))
    return TargetDialer(resolver) if policy is None else TargetDialer(resolver, policy)


async def ask(target: Target, statement: str) -> list[Row]:
    query = MysqlQuery(statement)
    target.stream.write(query.start())
    rows: list[Row] = []
    while not query.finished:
        rows += query.feed(await target.stream.read(query.needs))
    if query.error is not None:
        raise query.error
    return rows


async def one(target: Target, statement: str) -> Row:
    [row] = await ask(target, statement)
    return row


async def test_agent_logs_in_to_mysql_with_the_database_of_the_order(server: MariaDbServer) -> None:
    attributes = {b"program_name": b"mysqldump"}
    start = Start("shop", ClientOptions(attributes=attributes).texts())
    target = await reach().dial(asked(server, {"SSLMODE": "disable"}, start))
    assert await one(target, "select current_user(), database()") == ("app@%", "shop")
    assert await one(target, "select connection_id()") == (str(target.process),)
    assert "MariaDB" in target.parameters["version"]
    assert target.parameters["mariadb"] == "yes"
    target.stream.close()


@pytest.mark.parametrize(
    ("secrets", "database"), [({"DB": "shop"}, "shop"), ({}, None)], ids=["database", "no database"]
)
async def test_mysql_default_database_is_the_connections(
    server: MariaDbServer, secrets: Mapping[str, str], database: str | None
) -> None:
    target = await reach().dial(asked(server, secrets))
    assert await one(target, "select database()") == (database,)
    target.stream.close()


async def test_mysql_tls_follows_its_mode(server: MariaDbServer, issued: Issued) -> None:
    cipher = "select variable_value from information_schema.session_status where variable_name = 'ssl_cipher'"
    for secrets in (
        None,
        {"SSLMODE": "prefer"},
        {"SSLMODE": "require"},
        {"SSLMODE": "verify-ca", "SSLROOTCERT": issued.authority},
        {"SSLMODE": "verify-full", "SSLROOTCERT": issued.authority, "HOST": "localhost"},
    ):
        target = await reach().dial(asked(server, secrets))
        assert (await one(target, cipher))[0]
        target.stream.close()
    plain = await reach().dial(asked(server, {"SSLMODE": "disable"}))
    assert await one(plain, cipher) == ("",)
    plain.stream.close()
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await reach().dial(asked(server, {"SSLMODE": "verify-full", "SSLROOTCERT": issue("localhost").authority}))
    with pytest.raises(TargetRefused):
        await reach().dial(asked(server, {"SSLMODE": "disable", "USER": "tls", "PASS": "x"}))


@pytest.mark.parametrize(
    ("secrets", "start", "code"),
    [
        ({"PASS": "wrong"}, Start(), "28000/1045"),
        ({}, Start("none"), "42000/1044"),
        ({"USER": "nobody"}, Start(), "28000/1045"),
    ],
    ids=["the password is wrong", "no such database", "no such user"],
)
async def test_mysql_login_error_has_its_code(
    server: MariaDbServer, secrets: Mapping[str, str], start: Start, code: str
) -> None:
    with pytest.raises(TargetRefused) as caught:
        await reach().dial(asked(server, secrets, start))
    assert caught.value.code == code
    assert caught.value.refuses_login is (code == "28000/1045")


async def test_unreachable_mysql_target_is_unavailable(server: MariaDbServer) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await reach().dial(asked(server, {"PORT": "1"}))
    with pytest.raises(Unavailable, match="has no secret 'envvar:USER'"):
        await reach().dial(asked(server, {"USER": ""}))


async def test_cancelled_mysql_statement_leaves_the_connection_usable(server: MariaDbServer) -> None:
    agent, wanted = reach(), asked(server)
    target = await agent.dial(wanted)
    running = asyncio.create_task(ask(target, "select sleep(600)"))
    await asyncio.to_thread(_until_it_runs, server)
    await agent.cancel(wanted, target.process, b"")
    with pytest.raises(TargetRefused, match="interrupted"):
        await asyncio.wait_for(running, PATIENT)
    assert await one(target, "select 1") == ("1",)
    target.stream.close()


def _until_it_runs(server: MariaDbServer) -> None:
    running = "select 1 from information_schema.processlist where info like 'select sleep%'"
    with server.connect() as connection, connection.cursor() as cursor:
        wait_until(lambda: cursor.execute(running), within(20))


async def test_agent_policy_denies_a_mysql_target(server: MariaDbServer) -> None:
    policy = LocalPolicy(targets=("db.example:3306",))
    with pytest.raises(Denied):
        await reach(policy).dial(asked(server))
