"""Clients of Oracle as people use them, unmodified, with the Oracle server for tests: each task has the same answer.

It shows that the server speaks the protocol as four independent clients read it, so that tests of the gateway can use
it as their target. Each program of `drivers/oracle_*` prints one line for each task.
"""

from __future__ import annotations

import functools
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import oracledb
import pytest
from tests.support.certificates import issue
from tests.support.clients import clean_environment, need
from tests.support.installed_tools import installed_tool
from tests.support.mongodb_drivers import node
from tests.support.oracledb.running_server import OracleTestServer, running_oracle
from tests.support.oracledb.server_replies import ORACLE_12, ORACLE_19, ORACLE_23, ServerLevel
from tests.support.oracledb.server_session import ServerOptions

DRIVERS = Path(__file__).parent / "drivers"
LEVELS = {"12c": ORACLE_12, "19c": ORACLE_19, "23ai": ORACLE_23}
ANSWERS = {
    "user": "POSTERN",
    "types": "1 1234567.25 Zoë 1990-02-03 04:05:06.000 2024-01-02 03:04:05.678 00ff10 1.5 Ærø",
    "nulls": "2 -0.5 null null null null null null",
    "lobs": "60000 True 76800 True",
    "array": "1000",
    "rows": "1000 499500 143",
    "transaction": "990 1000",
    "errors": "942 1 1400 904",
    "block": "42",
    "returning": "5100",
    "sequence": "5100",
    "cursor": "0=name 0 1=name 0 2=name 0",
    "output": "printed by a block",
    "cancelled": "True 6",
    "denied": "1017",
    "refused": "True",
}
NOT_TRIED = {("java", "returning")}  # JDBC reports no returned row: what it expects is not known yet
CLIENTS = ("python", *(pytest.param(name, marks=pytest.mark.slow) for name in ("node", "java", "go")))


def run(command: list[str], folder: Path) -> str:
    environment = clean_environment(TZ="UTC", LANG="C.UTF-8")
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=600, env=environment)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    return done.stdout.decode()


@functools.cache
def program(client: str, folder: Path) -> tuple[str, ...]:
    """Return how a client's program is started. Builds it, if it has to be built."""
    source = DRIVERS / f"oracle_{client}"
    match client:
        case "python":
            return sys.executable, str(source / "oracle_tasks.py")
        case "node":
            return node(), str(source / "oracle_tasks.mjs"), str(installed_tool("oracle-node"))
        case "go":
            run([need("go", "golang-go"), "build", "-o", str(folder / "oracle-go"), "."], source)
            return (str(folder / "oracle-go"),)
    jar = installed_tool("oracle-jdbc") / "ojdbc11.jar"
    compiled = ["-cp", str(jar), "-d", str(folder), str(source / "OracleTasks.java")]
    run([need("javac", "default-jdk-headless"), *compiled], folder)
    quiet = f"-Djava.util.logging.config.file={os.devnull}"
    return need("java", "default-jdk-headless"), quiet, "-cp", f"{folder}:{jar}", "OracleTasks"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oracle-clients")


@functools.cache
def answers(client: str, level: str, folder: Path) -> dict[str, str]:
    """Return what a client prints, by task. The server must have understood all that it sent."""
    with running_oracle(ServerOptions(level=LEVELS[level])) as server:
        place = ["127.0.0.1", str(server.port), server.service, server.user, server.password]
        shown = run([*program(client, folder), *place], folder)
        assert server.failures == []
    return dict(line.split(" ", 1) for line in shown.splitlines())


@pytest.mark.parametrize("task", ANSWERS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_gets_the_answer_of_each_task(client: str, level: str, task: str, built: Path) -> None:
    if (client, task) not in NOT_TRIED:
        assert answers(client, level, built)[task] == ANSWERS[task]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[OracleTestServer]:
    level: ServerLevel = getattr(request, "param", ORACLE_19)
    with running_oracle(ServerOptions(level=level)) as running:
        yield running
        assert running.failures == []


def connected(server: OracleTestServer) -> oracledb.Connection:
    return oracledb.connect(user=server.user, password=server.password, dsn=server.easy_connect)


def test_client_logs_in_through_tls(tmp_path: Path) -> None:
    issued = issue("localhost")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(issued.certificate)
    key.write_bytes(issued.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with running_oracle(tls=context) as server:
        connection = oracledb.connect(
            user=server.user,
            password=server.password,
            dsn=f"tcps://localhost:{server.port}/{server.service}",
            ssl_context=ssl.create_default_context(cadata=issued.authority),
        )
        assert connection.cursor().execute("select 'secret' from dual").fetchone() == ("secret",)
        connection.close()


def test_client_follows_a_redirect(server: OracleTestServer) -> None:
    address = f"(ADDRESS=(PROTOCOL=tcp)(HOST=127.0.0.1)(PORT={server.port}))"
    with running_oracle(ServerOptions(redirect=address)) as listener:
        connection = connected(listener)
        assert connection.cursor().execute("select 1 from dual").fetchone() == (1,)
        connection.close()
        assert listener.failures == []


def test_long_descriptor_arrives_in_a_packet_of_its_own(server: OracleTestServer) -> None:
    connection = oracledb.connect(
        user=server.user, password=server.password, dsn=server.easy_connect, program="p" * 300
    )
    connection.close()
    assert "p" * 300 in server.descriptors[0]


@pytest.mark.parametrize("server", [ORACLE_12, ORACLE_19, ORACLE_23], indirect=True, ids=LEVELS)
def test_errors_of_rows_and_counts_of_array_dml(server: OracleTestServer) -> None:
    connection = connected(server)
    cursor = connection.cursor()
    cursor.execute("create table batches (id number primary key, name varchar2(10) not null)")
    cursor.executemany(
        "insert into batches values (:1, :2)", [(1, "a"), (1, "b"), (2, None), (3, "c")], batcherrors=True
    )
    assert [(error.offset, error.code) for error in cursor.getbatcherrors()] == [(1, 1), (2, 1400)]
    cursor.executemany("update batches set name = 'd' where id <= :1", [(1,), (3,), (0,)], arraydmlrowcounts=True)
    assert cursor.getarraydmlrowcounts() == [1, 2, 0]
    connection.close()


def test_statement_is_executed_again_by_its_cursor(server: OracleTestServer) -> None:
    connection = connected(server)
    cursor = connection.cursor()
    cursor.execute("create table again (id number primary key, note clob)")
    for number in range(5):
        cursor.execute("insert into again values (:1, :2)", [number, f"note {number}"])
    for number in range(5):
        cursor.execute("select id, note from again where id = :1", [number])
        (row,) = cursor.fetchall()
        assert (row[0], row[1].read()) == (number, f"note {number}")
    doubled = cursor.var(int)
    for number in range(3):
        cursor.execute("begin :doubled := :number * 2; end;", doubled=doubled, number=number)
        assert doubled.getvalue() == number * 2
    connection.close()


def test_sessions_see_each_others_rows_once_committed(server: OracleTestServer) -> None:
    one, other = connected(server), connected(server)
    one.cursor().execute("create table shared (id number)")
    one.cursor().execute("insert into shared values (1)")
    count = "select count(*) from shared"
    assert other.cursor().execute(count).fetchone() == (0,)
    assert one.transaction_in_progress
    one.commit()
    assert other.cursor().execute(count).fetchone() == (1,)
    one.close()
    other.close()


def test_query_is_described_without_rows(server: OracleTestServer) -> None:
    connection = connected(server)
    cursor = connection.cursor()
    cursor.execute("create table described (id number(7,2) not null, at timestamp(3), text varchar2(30))")
    cursor.parse("select id, at, text, count(*) over () total from described")
    description = cursor.description or []
    assert [(column[0], column[1].name) for column in description] == [
        ("ID", "DB_TYPE_NUMBER"),
        ("AT", "DB_TYPE_TIMESTAMP"),
        ("TEXT", "DB_TYPE_VARCHAR"),
        ("TOTAL", "DB_TYPE_NUMBER"),
    ]
    assert description[0][4:6] == (7, 2)
    connection.close()
