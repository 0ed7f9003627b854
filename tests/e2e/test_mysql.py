"""Unmodified MySQL clients, through the gateway, to a real MariaDB: they get the server's own answers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncmy
import mysql.connector
import pymysql
import pytest
import sqlalchemy
from pymysql.constants import CLIENT
from tests.e2e.test_waiting_clients import person
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql import running_mariadb
from tests.support.mysql_gateway import ask, connect, login, mysql_connection, run, set_up
from tests.support.postgres import free_port
from tests.support.promises import wait_until

from postern.domain.identity.credential import Issued
from postern.domain.secret import Secret
from postern.protocols.clients import NativeCredential
from postern.protocols.mysql.mysql_client import mysql_line
from postern.wiring import tls


@pytest.fixture
def client(gateway: Gateway, shop: Issued) -> Iterator[Any]:
    with connect(gateway, shop) as connected:
        yield connected


def program(gateway: Gateway, issued: Issued, *arguments: str, name: str = "mysql", text: str = "") -> Any:
    """A program of MySQL's or MariaDB's, by its options; what it printed, and its exit code."""
    given = login(gateway, issued)
    options = [f"--{option}={given[option]}" for option in ("host", "port", "user", "password")]
    command = [need(name), "--no-defaults", *options, "--protocol=tcp", *arguments]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=120, env=clean_environment(), check=False
    )


def running_on(server: MariaDbServer, mark: str) -> int:
    found = run(server, "select count(*) from information_schema.processlist where info like %s", f"%'{mark}'%sleep%")
    return int(found[0][0])


# Clients


def test_pymysql_runs_statements_and_gets_the_servers_errors(client: Any) -> None:
    assert ask(client, "select 'grüße 🦊', null, 42, %s", "it's;--") == [("grüße 🦊", None, 42, "it's;--")]
    assert ask(client, "select database(), current_user()") == [("shop", "app@%")]
    client.ping(reconnect=False)
    with pytest.raises(pymysql.err.ProgrammingError, match="doesn't exist"):
        ask(client, "select * from nothing_here")
    client.select_db("mysql")
    assert ask(client, "select database()") == [("mysql",)]


def test_several_statements_of_one_message_return_all_results(client: Any) -> None:
    with client.cursor() as cursor:
        cursor.execute("select 1; select 2, 3; do 1")
        assert cursor.fetchall() == ((1,),)
        assert cursor.nextset()
        assert cursor.fetchall() == ((2, 3),)
        assert cursor.nextset()
        assert not cursor.nextset()


@pytest.mark.parametrize("number", [(1 << 63) - 1, 1 << 63, (1 << 64) - 2])
def test_insert_id_of_64_bits_passes_unchanged(gateway: Gateway, shop: Issued, client: Any, number: int) -> None:
    ask(client, "create or replace table large_ids (id bigint unsigned auto_increment primary key)")
    with client.cursor() as cursor:
        cursor.execute("insert into large_ids values (%s)", (number,))
        assert cursor.lastrowid == number
    ask(client, f"alter table large_ids auto_increment = {number}")
    done = program(gateway, shop, "shop", "--execute", "insert into large_ids values (null); select last_insert_id()")
    assert done.returncode in (0, 1)  # the last number of all is out of range for the server itself
    assert "Malformed" not in done.stderr
    assert "broke the protocol" not in done.stderr
    assert ask(client, "select 1") == [(1,)]


def test_transactions_commit_and_roll_back(client: Any, maria: MariaDbServer) -> None:
    ask(client, "create or replace table moved (n int) engine=innodb")
    client.autocommit(False)
    ask(client, "insert into moved values (1)")
    assert run(maria, "select count(*) from shop.moved") == [(0,)]
    client.rollback()
    ask(client, "insert into moved values (2)")
    client.commit()
    assert run(maria, "select n from shop.moved") == [(2,)]


async def test_asyncmy_runs_statements(gateway: Gateway, shop: Issued) -> None:
    connection = await asyncmy.connect(**login(gateway, shop, database="shop"))
    async with connection.cursor() as cursor:
        await cursor.execute("select %s, seq from seq_1_to_3", ("ü",))
        assert list(await cursor.fetchall()) == [("ü", 1), ("ü", 2), ("ü", 3)]
    await connection.ensure_closed()


def test_mysql_connector_runs_prepared_statements(gateway: Gateway, shop: Issued) -> None:
    own: dict[str, Any] = {
        "use_pure": True,
        "autocommit": True,
        "connection_timeout": 60,
        "collation": "utf8mb4_general_ci",  # its default is unknown to MariaDB
    }
    with mysql.connector.connect(**login(gateway, shop, **own)) as connection:
        with connection.cursor(prepared=True) as cursor:
            statement = "select ? + 1, concat(?, 'ü'), cast(? as decimal(10,2)), date '2026-11-22', null"
            for number in (1, 2):
                cursor.execute(statement, (number, "a", "1.50"))
                [row] = cursor.fetchall()
                assert [str(cell) for cell in row] == [str(number + 1), "aü", "1.50", "2026-11-22", "None"]
        with connection.cursor() as cursor:
            cursor.execute("select 1")
            assert cursor.fetchall() == [(1,)]
    session = gateway.newest_finished("shop")
    assert "2026-11-22" in gateway.text(session.id)


def test_sqlalchemy_reflects_and_uses_a_schema(gateway: Gateway, shop: Issued, client: Any) -> None:
    ask(client, "create or replace table parents (id int primary key, name varchar(20) not null)")
    ask(client, "create or replace table children (id int primary key, parent int references parents (id))")
    given = login(gateway, shop)
    url = sqlalchemy.URL.create(
        "mysql+pymysql", given["user"], given["password"], given["host"], given["port"], "shop", {"charset": "utf8mb4"}
    )
    engine = sqlalchemy.create_engine(url)
    try:
        found = sqlalchemy.MetaData()
        found.reflect(engine, only=["parents", "children"])
        assert [column.name for column in found.tables["parents"].columns] == ["id", "name"]
        assert not found.tables["parents"].columns["name"].nullable
        assert len(found.tables["children"].foreign_keys) == 1
        with engine.begin() as connection:
            connection.execute(found.tables["parents"].insert(), [{"id": 1, "name": "ü"}, {"id": 2, "name": "b"}])
            assert connection.execute(sqlalchemy.select(found.tables["parents"].c.name)).scalars().all() == ["ü", "b"]
    finally:
        engine.dispose()
    ask(client, "drop table children, parents")


def test_mysql_command_line_prints_the_servers_answers(gateway: Gateway, shop: Issued) -> None:
    done = program(gateway, shop, "--batch", "-e", "select 'grüße', null; show databases like 'sho%'; select nope")
    assert done.stdout == "grüße\tNULL\ngrüße\tNULL\nDatabase (sho%)\nshop\n"
    assert "ERROR 1054 (42S22) at line 1: Unknown column 'nope'" in done.stderr
    assert done.returncode == 1


def test_printed_mysql_command_works_as_pasted(gateway: Gateway, shop: Issued) -> None:
    need("mysql")
    authority = tls.authority(gateway.settings)
    port = gateway.settings.mysql_port
    user = shop.credential.username
    line = mysql_line(NativeCredential(user, shop.password, "localhost", port, "shop", authority))
    encrypted = "show status like 'Ssl_cipher'"
    done = subprocess.run(
        f'{line} -N -e "{encrypted}"; {line} -N -e "\\s" | grep -i ssl',
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Cipher in use is TLS" in done.stdout, done.stderr
    assert gateway.newest_finished("shop").metadata["client_tls"] == "yes"
    wrong = mysql_line(NativeCredential("x", Secret("y"), "127.0.0.2", port, "", authority))
    refused = subprocess.run(f"{wrong} -e 's'", shell=True, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1


def test_dump_through_the_gateway_restores_the_same_database(
    gateway: Gateway, shop: Issued, maria: MariaDbServer
) -> None:
    run(maria, "create or replace database dumped")
    run(maria, "create or replace database restored")
    run(maria, "create table dumped.t (id int primary key, t text, b longblob, d datetime(6), j json, x double)")
    run(
        maria,
        "insert into dumped.t select seq, concat('grüße \\\\ '' \\n', seq), unhex(sha2(seq, 512)), now(6),"
        " json_object('n', seq), seq / 7 from shop.seq_1_to_2000",
    )
    run(maria, "create view dumped.v as select id from dumped.t")
    dumped = program(gateway, shop, "--single-transaction", "--hex-blob", "dumped", name="mysqldump")
    assert dumped.returncode == 0, dumped.stderr
    restored = program(gateway, shop, "restored", text=dumped.stdout)
    assert restored.returncode == 0, restored.stderr
    assert run(maria, "checksum table dumped.t")[0][1] == run(maria, "checksum table restored.t")[0][1]
    assert run(maria, "select count(*) from restored.v") == [(2000,)]


@pytest.mark.huge
def test_dump_of_500_mb_is_restored_through_a_pipe(gateway: Gateway, shop: Issued, maria: MariaDbServer) -> None:
    run(maria, "create or replace database dumped")
    run(maria, "create or replace database restored")
    run(maria, "create table dumped.big (id int primary key, t longtext) engine=aria")
    run(maria, "insert into dumped.big select seq, repeat(sha2(seq, 512), 800) from shop.seq_1_to_5120")
    given = login(gateway, shop)
    options = [f"--{option}={given[option]}" for option in ("host", "port", "user", "password")]
    environment = clean_environment()
    dump = [need("mysqldump"), "--no-defaults", *options, "--quick", "dumped"]
    with subprocess.Popen(dump, stdout=subprocess.PIPE, env=environment) as dumping:
        restore = [need("mysql"), "--no-defaults", *options, "restored"]
        restoring = subprocess.run(restore, stdin=dumping.stdout, timeout=1800, env=environment, check=False)
    assert (dumping.returncode, restoring.returncode) == (0, 0)
    assert run(maria, "checksum table dumped.big")[0][1] == run(maria, "checksum table restored.big")[0][1]
    assert run(maria, "select sum(length(t)) from restored.big")[0][0] >= 500_000_000


def test_rows_and_statements_of_several_packets_pass_unchanged(client: Any) -> None:
    size = 20 << 20
    assert ask(client, f"select length('{'x' * size}')") == [(size,)]
    [(text,)] = ask(client, f"select repeat('y', {size})")
    assert text == "y" * size
    assert ask(client, "select 1") == [(1,)]


# Who is let in


@pytest.mark.parametrize("user", ["issued", "unknown"])
def test_wrong_password_and_unknown_user_get_the_same_error(gateway: Gateway, shop: Issued, user: str) -> None:
    given = {"password": "wrong"} | ({} if user == "issued" else {"user": "nobody-knows-this"})
    with pytest.raises(pymysql.err.OperationalError, match="the user name or password is wrong") as caught:
        connect(gateway, shop, **given)
    assert caught.value.args[0] == 1045


def test_second_login_works_and_wrong_or_revoked_passwords_are_rejected(gateway: Gateway, shop: Issued) -> None:
    issued = gateway.credential("shop")
    for _ in range(2):
        with connect(gateway, issued) as client:
            assert ask(client, "select 1") == [(1,)]
    with pytest.raises(pymysql.err.OperationalError):
        connect(gateway, issued, password="wrong")
    gateway.call(gateway.services.credentials.revoke(gateway.admin, "shop", issued.credential.id))
    with pytest.raises(pymysql.err.OperationalError, match="revoked") as caught:
        connect(gateway, issued)
    assert caught.value.args[0] == 1045


def test_credential_of_a_connection_of_another_subtype_is_rejected(gateway: Gateway, shop: Issued) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="is of subtype 'postgres', not 'mysql'"):
        connect(gateway, gateway.credential("target"))


@pytest.mark.parametrize(
    ("secret", "code", "said"),
    [
        ({"PASS": "wrong"}, 1105, "the target did not accept the gateway's own login"),
        ({"PORT": "unused"}, 1105, "cannot be reached"),
        ({"DB": "nothing_here"}, 1049, "Unknown database 'nothing_here'"),
        ({"SSLMODE": "require"}, 1105, "the target offers no TLS"),
    ],
    ids=["wrong target password", "target unreachable", "no such database", "no TLS"],
)
def test_failed_target_login_is_reported_to_the_client(
    gateway: Gateway, maria: MariaDbServer, secret: dict[str, str], code: int, said: str
) -> None:
    name = f"broken-{next(iter(secret)).lower()}"
    secret = {key: str(free_port()) if value == "unused" else value for key, value in secret.items()}
    mysql_connection(gateway, name, secret={"PORT": str(maria.port), **secret})
    with pytest.raises(pymysql.err.OperationalError, match=said) as caught:
        connect(gateway, gateway.credential(name))
    assert caught.value.args[0] == code
    assert gateway.newest_finished(name).metadata["end_reason"] == "failed"


def test_connection_closed_by_the_target_is_a_lost_connection(
    gateway: Gateway, maria: MariaDbServer, client: Any
) -> None:
    [(thread,)] = ask(client, "select connection_id()")
    run(maria, f"kill connection {thread}")
    with pytest.raises(pymysql.err.OperationalError) as caught:
        ask(client, "select 1")
    assert caught.value.args[0] in (1927, 2006, 2013)
    assert gateway.newest_finished("shop").metadata["end_reason"] == "target_closed"


LOST = {2006, 2013, 2055}  # of client libraries: gone away, lost connection


def lost_in_pymysql(gateway: Gateway, issued: Issued, statement: str, die: Callable[[], None]) -> int:
    with connect(gateway, issued) as client:
        if not statement:
            die()
        with pytest.raises(pymysql.err.OperationalError) as caught:
            ask(client, statement or "select 1")
        return int(caught.value.args[0])


def lost_in_oracles_connector(gateway: Gateway, issued: Issued, statement: str, die: Callable[[], None]) -> int:
    own = {"use_pure": True, "collation": "utf8mb4_general_ci", "connection_timeout": 60}
    connection = mysql.connector.connect(**login(gateway, issued, **own))
    if not statement:
        die()
    with pytest.raises(mysql.connector.Error) as caught:
        connection.cmd_query(statement or "select 1")
    return int(caught.value.errno)


def lost_in_the_command_line(gateway: Gateway, issued: Issued, statement: str, die: Callable[[], None]) -> int:
    """Its answer to a target that goes between two statements is to connect again: here that fails as well."""
    done = program(gateway, issued, "--skip-reconnect", text=statement or "select 1;\nsystem sleep 4\nselect 2;\n")
    found = re.search(r"ERROR (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


CLIENTS = [
    lost_in_pymysql,
    pytest.param(lost_in_oracles_connector, marks=pytest.mark.slow),
    pytest.param(lost_in_the_command_line, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("statement", ["select 'dies', sleep(60)", ""], ids=["while it runs", "idle"])
@pytest.mark.parametrize("client", CLIENTS)
def test_target_that_dies_is_a_lost_connection_to_clients(
    gateway: Gateway, statement: str, client: Callable[..., int]
) -> None:
    with running_mariadb() as server, ThreadPoolExecutor(1) as pool:
        set_up(server)
        name = f"dies-{client.__name__}-{len(statement)}".replace("_", "-")
        mysql_connection(gateway, name, server)
        issued = gateway.credential(name)

        def die() -> None:
            os.kill(server.pid, signal.SIGKILL)
            wait_until(lambda: not server.running)
            time.sleep(0.5)  # until the gateway and the client have heard of it

        def die_soon() -> None:
            wait_until(lambda: running_on(server, "dies") if statement else server.running)
            time.sleep(1.0)
            die()

        from_outside = bool(statement) or client is lost_in_the_command_line
        dying = pool.submit(die_soon) if from_outside else None
        assert client(gateway, issued, statement, die) in LOST
        if dying is not None:
            dying.result(60)
    assert gateway.newest_finished(name).metadata["end_reason"] == "target_closed"


@pytest.mark.parametrize("count", [65_535, 65_536, 70_000])
def test_statement_with_too_many_placeholders_gets_the_servers_error(
    gateway: Gateway, shop: Issued, count: int
) -> None:
    own = {"use_pure": True, "collation": "utf8mb4_general_ci", "connection_timeout": 60}
    with mysql.connector.connect(**login(gateway, shop, **own)) as connection:
        with connection.cursor(prepared=True) as cursor:
            text, values = f"select 1 in ({','.join('?' * count)})", [1] * count
            if count < 65_536:
                cursor.execute(text, values)
                assert cursor.fetchall() == [(1,)]
            else:
                with pytest.raises(mysql.connector.Error) as caught:
                    cursor.execute(text, values)
                assert caught.value.errno == 1390
        with connection.cursor() as cursor:
            cursor.execute("select 7")
            assert cursor.fetchall() == [(7,)]


# What is stopped


def sleep(client: Any, mark: str) -> Any:
    return ask(client, f"select '{mark}', sleep(120)")


def interrupted(work: Callable[[], Any]) -> bool:
    """As MariaDB answers what was killed."""
    with pytest.raises(pymysql.err.OperationalError) as caught:
        work()
    return bool(caught.value.args[0] == 1317)


def test_kill_query_cancels_only_the_named_connections_statement(
    gateway: Gateway, shop: Issued, maria: MariaDbServer, client: Any
) -> None:
    with connect(gateway, shop) as other, connect(gateway, shop) as third, ThreadPoolExecutor(2) as pool:
        mine, theirs = pool.submit(sleep, client, "mine"), pool.submit(sleep, other, "other")
        wait_until(lambda: running_on(maria, "mine") and running_on(maria, "other"))
        assert client.thread_id() >= 1 << 31
        ask(third, f"kill query {client.thread_id()}")
        assert interrupted(lambda: mine.result(60))
        assert running_on(maria, "other") == 1
        assert ask(client, "select 1") == [(1,)]
        ask(third, f"kill {other.thread_id()}")
        with pytest.raises(pymysql.err.OperationalError):
            theirs.result(60)
        wait_until(lambda: not running_on(maria, "other"))


@pytest.mark.parametrize("told_by", ["login", "connection_id()"])
@pytest.mark.parametrize("by_command", [False, True], ids=["statement", "COM_PROCESS_KILL"])
def test_client_is_killed_by_either_connection_id(
    gateway: Gateway, shop: Issued, maria: MariaDbServer, told_by: str, by_command: bool
) -> None:
    """The gateway's id is sent before the target is known; `connection_id()` is the target's."""
    with connect(gateway, shop) as client, connect(gateway, shop) as other:
        [(target_id,)] = ask(client, "select connection_id()")
        thread = client.thread_id() if told_by == "login" else target_id
        if by_command:
            other._execute_command(0x0C, thread.to_bytes(4, "little"))
            other._read_ok_packet()
        else:
            ask(other, f"kill {thread}")
        listed = f"select count(*) from information_schema.processlist where id = {target_id}"
        wait_until(lambda: run(maria, listed) == [(0,)])
        with pytest.raises(pymysql.err.OperationalError):
            ask(client, "select 1")


def test_user_cannot_kill_the_query_of_another_user(
    gateway: Gateway, shop: Issued, maria: MariaDbServer, client: Any
) -> None:
    somebody = person(gateway, "eve@example.com", "admin")
    with (
        connect(gateway, gateway.credential("shop", principal=somebody)) as eve,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(sleep, client, "guarded")
        wait_until(lambda: running_on(maria, "guarded"))
        for statement in ("kill query", "kill"):
            ask(eve, f"{statement} {client.thread_id()}")
        time.sleep(0.5)
        assert running_on(maria, "guarded") == 1
        with connect(gateway, shop) as own:
            ask(own, f"kill query {client.thread_id()}")
        assert interrupted(lambda: running.result(60))


def test_kill_sent_to_another_worker_cancels_the_query(
    gateway: Gateway, shop: Issued, maria: MariaDbServer, client: Any
) -> None:
    """Each worker has its own port here, to control which one gets the statement."""
    port = free_port()
    second = gateway.add_worker("my-second", postgres_port=free_port(), mysql_port=port, tunnel_port=free_port())
    try:
        with connect(gateway, shop, port=port) as other, ThreadPoolExecutor(1) as pool:
            running = pool.submit(sleep, client, "elsewhere")
            wait_until(lambda: running_on(maria, "elsewhere"))
            ask(other, f"kill query {client.thread_id()}")
            assert interrupted(lambda: running.result(60))
    finally:
        second.stop()


def test_ctrl_c_in_the_mysql_command_line_cancels_the_statement(
    gateway: Gateway, shop: Issued, maria: MariaDbServer
) -> None:
    given = login(gateway, shop)
    options = [f"--{option}={given[option]}" for option in ("host", "port", "user", "password")]
    command = [need("mysql"), "--no-defaults", *options, "-e", "select 'pressed', sleep(120)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
    wait_until(lambda: running_on(maria, "pressed"))
    process.send_signal(2)
    wait_until(lambda: not running_on(maria, "pressed"))
    printed, said = process.communicate(timeout=60)
    assert b"query killed" in printed
    assert b"ERROR 1317" in said  # by the statement's own end, not by that of the connection
    gateway.all_closed(connection="shop")
    asked = [text for session in gateway.sessions(connection="shop") for text in gateway.operations(session.id)]
    assert any(text.upper().startswith("KILL QUERY ") for text in asked)


def test_disconnected_clients_statement_is_cancelled(gateway: Gateway, shop: Issued, maria: MariaDbServer) -> None:
    client = connect(gateway, shop)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(sleep, client, "left")
        wait_until(lambda: running_on(maria, "left"))
        client._sock.shutdown(2)
        with pytest.raises(pymysql.err.Error):
            running.result(60)
    wait_until(lambda: not running_on(maria, "left"))


def test_load_data_local_is_denied_and_the_connection_continues(gateway: Gateway, shop: Issued, client: Any) -> None:
    ask(client, "create or replace table loaded (t text)")
    flags = CLIENT.MULTI_STATEMENTS | CLIENT.LOCAL_FILES
    with connect(gateway, shop, local_infile=True, client_flag=flags) as willing:
        with pytest.raises(pymysql.err.Error):
            ask(willing, "load data local infile '/etc/hostname' into table loaded")
        assert ask(willing, "select count(*) from loaded") == [(0,)]


def test_load_data_local_works_if_the_gateway_allows_it(
    gateway: Gateway, shop: Issued, client: Any, tmp_path: Path
) -> None:
    ask(client, "create or replace table loaded (t text)")
    (tmp_path / "words").write_text("".join(f"word {number}\n" for number in range(1000)))
    port, flags = free_port(), CLIENT.MULTI_STATEMENTS | CLIENT.LOCAL_FILES
    ports = {"postgres_port": free_port(), "tunnel_port": free_port(), "ssh_port": free_port(), "mysql_port": port}
    second = gateway.add_worker("my-files", mysql_local_files=True, **ports)
    try:
        with connect(gateway, shop, port=port, local_infile=True, client_flag=flags) as willing:
            ask(willing, f"load data local infile '{tmp_path}/words' into table loaded")
            assert ask(willing, "select count(*), max(length(t)) from loaded") == [(1000, 8)]
    finally:
        second.stop()
