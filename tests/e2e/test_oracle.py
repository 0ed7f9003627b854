"""Unmodified clients of Oracle Database, through the gateway, to the Oracle server of tests."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import oracledb
import pytest
from tests.e2e.test_oracle_direct import ANSWERS, CLIENTS, LEVELS, NOT_TRIED, program, run
from tests.e2e.test_waiting_clients import person, waiting
from tests.support.certificates import issue
from tests.support.gateway import Gateway
from tests.support.oracle_gateway import ask_directly, ask_oracle, connect_oracle, oracle_connection, plain_dsn
from tests.support.oracledb.running_server import OracleTestServer, running_oracle
from tests.support.oracledb.server_session import ServerOptions
from tests.support.postgres import free_port
from tests.support.tcp_gateway import local_port

from postern.domain.identity.credential import Issued
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.sessions.results import Finished, ResultColumns, Row
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_task import TargetTaskKind
from postern.recording.recording_library import RecordingLibrary

PEOPLE = (
    "create table people (id number, name varchar2(40), card varchar2(20))",
    "insert into people values (1, 'Ann', '4111111111111111')",
    "insert into people values (2, 'Bob', null)",
    "create view names as select name as called from people",
    "comment on column people.card is 'Number of the card #pii'",
)


@pytest.fixture(scope="module")
def server() -> Iterator[OracleTestServer]:
    with running_oracle() as running:
        ask_directly(running, *PEOPLE)
        yield running
        assert running.failures == []


@pytest.fixture(scope="module")
def books(gateway: Gateway, server: OracleTestServer) -> Issued:
    """A credential of the connection `books`, which has no rule."""
    oracle_connection(gateway, "oracle-books", server)
    return gateway.credential("oracle-books")


@pytest.fixture
def client(gateway: Gateway, books: Issued) -> Iterator[oracledb.Connection]:
    connected = connect_oracle(gateway, books)
    yield connected
    connected.close()


def test_client_runs_statements(client: oracledb.Connection) -> None:
    for value in ("it's;--", "grüße", "x" * 5000):
        assert ask_oracle(client, "select :1, :2 from dual", value, 42) == [(value, 42)]
    assert ask_oracle(client, "select id, name from people order by id") == [(1, "Ann"), (2, "Bob")]


def test_client_logs_in_without_tls(gateway: Gateway, books: Issued) -> None:
    with connect_oracle(gateway, books, dsn=plain_dsn(gateway), ssl_context=None) as client:
        assert ask_oracle(client, "select 1 from dual") == [(1,)]


def run_script(gateway: Gateway, connection: str, text: str) -> Session:
    session = gateway.call(gateway.services.sessions.submit(gateway.admin, connection, text, source="127.0.0.1"))
    return gateway.finished(session.id)


SCRIPT = """
create table scripted (n number);
insert into scripted values (1);
begin
  insert into scripted values (2);
end;
/
select n from scripted order by n;
"""


def test_script_runs_statement_by_statement_and_commits(
    gateway: Gateway, books: Issued, server: OracleTestServer
) -> None:
    session = run_script(gateway, "oracle-books", SCRIPT)
    assert session.exit_code == 0
    assert gateway.operations(session.id)[2].startswith("begin")
    assert "N\n1\n2\n(2 rows selected)\n" in gateway.text(session.id)
    assert ask_directly(server, "select count(*) from scripted") == [(2,)]


def test_script_ends_with_its_first_error_and_changes_nothing(
    gateway: Gateway, books: Issued, server: OracleTestServer
) -> None:
    ask_directly(server, "create table failed (n number)")
    session = run_script(gateway, "oracle-books", "insert into failed values (1); select * from nothing_here; commit")
    assert session.exit_code == 1
    assert "ORA-00942" in gateway.text(session.id)
    assert ask_directly(server, "select count(*) from failed") == [(0,)]


def test_script_with_a_denied_statement_stops_there(
    gateway: Gateway, ruled: Connection, server: OracleTestServer
) -> None:
    session = run_script(gateway, ruled.name, "insert into people values (9, 'x', null); drop table people;")
    assert (session.exit_code, session.metrics["refused"]) == (1, 1)
    assert ask_directly(server, "select count(*) from people") == [(2,)]


def test_results_of_a_script_are_values(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "oracle-valued", server)
    rule = {"name": "oracle values", "columns": ("people.card",), "connection_ids": (str(connection.id),)}
    gateway.masking_rule(rule)
    statements = "select id, card, null as c from people where id = 1; update people set id = id; commit"
    session = run_script(gateway, "oracle-valued", statements)
    columns, row, *ends = gateway.services.sessions.results(session)
    assert isinstance(columns, ResultColumns)
    assert isinstance(row, Row)
    assert (columns.names, columns.types) == (("ID", "CARD", "C"), ("NUMBER", "VARCHAR2(80)", "VARCHAR2(4)"))
    assert row.cells == ("1", "****", None)
    assert columns.masks[1] is not None
    assert [end.tag for end in ends if isinstance(end, Finished)] == [
        "1 row selected",
        "2 rows updated",
        "Commit complete.",
    ]


def test_preview_judges_each_statement_of_a_script(gateway: Gateway, ruled: Connection) -> None:
    script = "select 1 from dual; drop table people; begin null; end;"
    previews = gateway.services.script_previews
    previewed = gateway.call(
        previews.preview(gateway.admin, ruled.name, script, database=None, parameters={}, source="127.0.0.1")
    )
    assert previewed.result["outcome"] == "deny"
    assert [part["outcome"] for part in previewed.result["statements"]] == ["allow", "deny", "allow"]


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        (TargetTaskKind.TEST, {}, {"success": True}),
        (TargetTaskKind.DATABASES, {}, {"databases": ["ORCLPDB1"]}),
        (
            TargetTaskKind.COLUMNS,
            {"table": "PEOPLE"},
            {
                "columns": [
                    {"name": "ID", "type": "NUMBER", "nullable": True},
                    {"name": "NAME", "type": "VARCHAR2(40)", "nullable": True},
                    {"name": "CARD", "type": "VARCHAR2(20)", "nullable": True},
                ]
            },
        ),
    ],
)
def test_catalogue_of_the_target_is_read(
    gateway: Gateway, books: Issued, kind: TargetTaskKind, arguments: dict[str, str], expected: dict[str, object]
) -> None:
    tasks = gateway.services.target_tasks
    answer = gateway.call(tasks.ask(gateway.admin, "oracle-books", kind, arguments, source="127.0.0.1"))
    assert answer.result == expected


def test_whole_schema_has_tables_and_views(gateway: Gateway, books: Issued) -> None:
    tasks = gateway.services.target_tasks
    answer = gateway.call(tasks.ask(gateway.admin, "oracle-books", TargetTaskKind.SCHEMA, {}, source="127.0.0.1"))
    (schema,) = answer.result["schemas"]
    kinds = {table["name"]: (table["kind"], len(table["columns"])) for table in schema["tables"]}
    assert schema["name"] == "POSTERN"
    assert (kinds["PEOPLE"], kinds["NAMES"]) == (("table", 3), ("view", 1))


def test_client_of_a_local_port_needs_no_credential(gateway: Gateway, books: Issued) -> None:
    with local_port(gateway, "oracle-books", protocol="oracledb") as local:
        dsn = f"127.0.0.1:{local.port}/ORCLPDB1"
        with oracledb.connect(user="anyone", password="postern", dsn=dsn) as client:
            assert ask_oracle(client, "select name from people where id = 1") == [("Ann",)]
        with pytest.raises(oracledb.DatabaseError, match="the password of this local port is 'postern'"):
            oracledb.connect(user="anyone", password="other", dsn=dsn)


def test_cancelled_statement_that_is_held_does_not_run(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "watched", server)
    rule = Rule(RuleType.PATTERN_MATCH, (), "delete", "four eyes", action=Action.REVIEW)
    fields = {"name": "oracle eyes", "input": (rule,), "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    ann = person(gateway, "oracle-ann@example.com", "dev")
    # Without TLS: Python's SSL sockets do not send in one thread while another one reads.
    with connect_oracle(gateway, gateway.credential("watched", principal=ann), dsn=plain_dsn(gateway)) as client:
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ask_oracle, client, "delete from people")
            waiting(gateway, ann)
            client.cancel()
            with pytest.raises(oracledb.DatabaseError, match="ORA-01013"):
                running.result(60)
        assert ask_oracle(client, "select count(*) from people") == [(2,)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("oracle-clients")


@functools.cache
def answers(client: str, level: str, gateway: Gateway, folder: Path) -> dict[str, str]:
    """Return what a client's program prints through the gateway, by task."""
    name = f"tasks-{client}-{level}"
    with running_oracle(ServerOptions(level=LEVELS[level])) as server:
        oracle_connection(gateway, name, server)
        issued = gateway.credential(name)
        login = (issued.credential.username, issued.password.reveal())
        place = ["127.0.0.1", str(gateway.settings.oracledb_port), server.service, *login]
        shown = run([*program(client, folder), *place], folder)
        assert server.failures == []
    return dict(line.split(" ", 1) for line in shown.splitlines())


@pytest.mark.parametrize("task", ANSWERS)
@pytest.mark.parametrize("level", ["19c", pytest.param("23ai", marks=pytest.mark.slow)])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_gets_the_answer_of_each_task(gateway: Gateway, client: str, level: str, task: str, built: Path) -> None:
    if (client, task) not in NOT_TRIED:
        assert answers(client, level, gateway, built)[task] == ANSWERS[task]


@pytest.fixture(scope="module")
def ruled(gateway: Gateway, server: OracleTestServer) -> Connection:
    """The connection `oracle-ruled`: DROP TABLE is denied, and `top-secret` is withheld."""
    connection = oracle_connection(gateway, "oracle-ruled", server)
    gateway.guardrail("oracle-no-drop", connection, deny=r"(?i)drop\s+table", deny_output="top-secret")
    return connection


@pytest.fixture
def ruled_client(gateway: Gateway, ruled: Connection) -> Iterator[oracledb.Connection]:
    connected = connect_oracle(gateway, gateway.credential(ruled.name))
    yield connected
    connected.close()


def test_denied_statement_is_an_error_and_the_connection_stays(
    ruled_client: oracledb.Connection, server: OracleTestServer
) -> None:
    with pytest.raises(oracledb.DatabaseError, match="oracle-no-drop") as raised:
        ask_oracle(ruled_client, "drop table people")
    assert raised.value.args[0].full_code == "ORA-01031"
    with pytest.raises(oracledb.DatabaseError, match="oracle-no-drop"):
        ask_oracle(ruled_client, "begin execute immediate 'drop table people'; end;")
    assert ask_oracle(ruled_client, "select 1 from dual") == [(1,)]
    assert ask_directly(server, "select count(*) from people") == [(2,)]


@pytest.mark.parametrize(
    "statement",
    ["select 'top-' || 'secret' as a from dual", "begin raise_application_error(-20001, 'the top-' || 'secret'); end;"],
)
def test_withheld_answer_is_an_error_and_the_connection_stays(
    ruled_client: oracledb.Connection, statement: str
) -> None:
    with pytest.raises(oracledb.DatabaseError, match="oracle-no-drop"):
        ask_oracle(ruled_client, statement)
    assert ask_oracle(ruled_client, "select 1 from dual") == [(1,)]


def test_withheld_output_bind_is_an_error(ruled_client: oracledb.Connection) -> None:
    with ruled_client.cursor() as cursor:
        shown = cursor.var(str)
        with pytest.raises(oracledb.DatabaseError, match="oracle-no-drop"):
            cursor.execute("begin :1 := 'top-' || 'secret'; end;", [shown])
        assert shown.getvalue() is None


def test_column_is_masked_wherever_the_statement_takes_it(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "oracle-masked", server)
    rule = {"name": "oracle names", "columns": ("people.name",), "connection_ids": (str(connection.id),)}
    gateway.masking_rule(rule)
    with connect_oracle(gateway, gateway.credential("oracle-masked")) as client:
        assert ask_oracle(client, "select id, name from people order by id") == [(1, "****"), (2, "****")]
        assert ask_oracle(client, "select p.name || 'x' as y from people p") == [("****",), ("****",)]
        assert ask_oracle(client, "select count(*) from people") == [(2,)]
        assert ask_oracle(client, "select called from names") == [("****",), ("****",)]
        with client.cursor() as cursor:
            shown = cursor.var(str)
            cursor.execute("begin select name into :1 from people where id = 1; end;", [shown])
            assert shown.getvalue() == "****"
            cursor.execute("update people set card = 'x' where id = 1 returning name, id into :1, :2", [shown, shown])
            assert shown.getvalue() != ["Ann"]
            many = ", ".join(f"people {letter}" for letter in "abcdefghi")
            cursor.execute(f"select a.id, a.name from {many}")
            assert {name for _, name in cursor.fetchall()} == {"****"}
            rows = cursor.var(oracledb.CURSOR)  # a block can choose the names of its columns by values
            with pytest.raises(oracledb.DatabaseError, match="depend on values that are masked"):
                cursor.execute("begin open :1 for select id, name from people; end;", [rows])


def test_attack_line_of_a_block_and_number_of_an_error_do_not_show_a_masked_column(
    gateway: Gateway, server: OracleTestServer
) -> None:
    connection = oracle_connection(gateway, "oracle-lines", server)
    rule = {"name": "oracle lines", "columns": ("people.name",), "connection_ids": (str(connection.id),)}
    gateway.masking_rule(rule)
    with connect_oracle(gateway, gateway.credential("oracle-lines")) as client, client.cursor() as cursor:
        cursor.callproc("dbms_output.enable")
        line, status = cursor.var(str), cursor.var(int)
        cursor.execute("begin dbms_output.put_line('a'); end;")
        cursor.execute("begin dbms_output.get_line(:1, :2); end;", [line, status])
        assert line.getvalue() == "a"
        with pytest.raises(oracledb.DatabaseError) as raised:
            cursor.execute("begin raise_application_error(-20123, 'Ann'); end;")
        assert raised.value.args[0].full_code == "ORA-20000"
        assert "Ann" not in str(raised.value)


def test_rows_of_later_fetches_are_masked(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "oracle-fetched", server)
    rule = {"name": "oracle fetches", "columns": ("people.name",), "connection_ids": (str(connection.id),)}
    gateway.masking_rule(rule)
    with connect_oracle(gateway, gateway.credential("oracle-fetched")) as client, client.cursor() as cursor:
        cursor.prefetchrows = cursor.arraysize = 1
        for _ in range(3):  # the statement is executed again by its cursor
            assert cursor.execute("select name from people").fetchall() == [("****",), ("****",)]
            assert cursor.execute("select id from people order by id").fetchall() == [(1,), (2,)]
        rows = cursor.var(oracledb.DB_TYPE_CURSOR)
        cursor.execute("begin open :1 for select id, 'x' as x from people order by id; end;", [rows])
        assert rows.getvalue().fetchall() == [(1, "x"), (2, "x")]
        with pytest.raises(oracledb.DatabaseError, match="depend on values that are masked"):
            cursor.execute("begin open :1 for select id, name from people; end;", [rows])
        assert cursor.execute("select 1 from dual").fetchall() == [(1,)]


def test_column_is_masked_by_the_tag_of_its_comment(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "oracle-tagged", server)
    gateway.masking_rule({"name": "oracle tags", "columns": ("tag:pii",), "connection_ids": (str(connection.id),)})
    with connect_oracle(gateway, gateway.credential("oracle-tagged")) as client:
        assert ask_oracle(client, "select name, card from people where id = 1") == [("Ann", "****")]


def test_wrong_password_and_unknown_user_are_refused_alike(gateway: Gateway, books: Issued) -> None:
    for wrong in ({"password": "wrong"}, {"user": "nobody"}, {"user": "eve-books-abc234"}):
        with pytest.raises(oracledb.DatabaseError, match=r"ORA-01017: the user name or password is wrong"):
            connect_oracle(gateway, books, **wrong)


def test_user_name_is_found_in_upper_case_and_in_quotes(gateway: Gateway, books: Issued) -> None:
    user = books.credential.username
    for written in (user.upper(), f'"{user}"'):
        connect_oracle(gateway, books, user=written).close()


def test_credential_without_a_key_for_the_login_is_refused(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "oracle-changed", server, secret={"PORT": "1"})
    gateway.call(gateway.services.connections.update(gateway.admin, "oracle-changed", {"subtype": "mysql"}))
    issued = gateway.credential("oracle-changed")
    changes = {"subtype": "oracledb", "secret": dict(connection.secret)}
    gateway.call(gateway.services.connections.update(gateway.admin, "oracle-changed", changes))
    with pytest.raises(oracledb.DatabaseError, match="ORA-01017"):
        connect_oracle(gateway, issued)


def test_transactions_commit_and_roll_back(
    gateway: Gateway, client: oracledb.Connection, server: OracleTestServer
) -> None:
    ask_directly(server, "create table moved (n number)")
    ask_oracle(client, "insert into moved values (1)")
    client.rollback()
    with client.cursor() as cursor:
        cursor.executemany("insert into moved values (:1)", [[2], [3]])
    client.commit()
    assert ask_directly(server, "select n from moved order by n") == [(2,), (3,)]


def test_large_objects_pass_and_are_recorded(gateway: Gateway, server: OracleTestServer) -> None:
    ask_directly(server, "create table notes (id number, note clob)")
    oracle_connection(gateway, "oracle-large", server)
    with connect_oracle(gateway, gateway.credential("oracle-large")) as client:
        ask_oracle(client, "insert into notes values (1, :1)", "é" * 100_000)
        with client.cursor() as cursor:
            (lob,) = cursor.execute("select note from notes").fetchone()
            assert lob.read() == "é" * 100_000
        client.commit()
    assert "é" * 1000 in gateway.text(gateway.newest_finished("oracle-large").id)


def test_large_objects_are_masked_by_their_column(gateway: Gateway, server: OracleTestServer) -> None:
    ask_directly(server, "create table files (id number, open_note clob, closed_note clob, picture blob)")
    ask_directly(server, "insert into files values (1, 'shown', 'hidden', hextoraw('AB01'))")
    connection = oracle_connection(gateway, "oracle-files", server)
    rule = {"name": "oracle files", "columns": ("files.closed_note",), "connection_ids": (str(connection.id),)}
    gateway.masking_rule(rule)
    with connect_oracle(gateway, gateway.credential("oracle-files")) as client, client.cursor() as cursor:
        cursor.execute("select open_note, closed_note, picture from files")
        shown, hidden, picture = cursor.fetchone()
        assert (shown.read(), shown.size(), shown.read(2, 3)) == ("shown", 5, "how")
        assert picture.read() == b"\xab\x01"
        assert hidden is None
        cursor.execute("select closed_note as open_note, open_note as other from files")
        assert [value is None for value in cursor.fetchone()] == [True, False]
        assert shown.read() == "shown"
        own = client.createlob(oracledb.DB_TYPE_CLOB)
        own.write("of the client")
        with pytest.raises(oracledb.DatabaseError, match="ORA-01031"):
            own.read()
        cursor.execute("insert into files (id, open_note) values (2, :1)", [own])


def test_session_records_client_and_statements(gateway: Gateway, server: OracleTestServer) -> None:
    oracle_connection(gateway, "oracle-seen", server)
    with connect_oracle(gateway, gateway.credential("oracle-seen"), program="payroll") as client:
        ask_oracle(client, "select 'recorded ' || :1 as a, 5 as b from dual", 1)
        with client.cursor() as cursor:
            cursor.prefetchrows = cursor.arraysize = 1
            assert cursor.execute("select id from people order by id").fetchall() == [(1,), (2,)]
            shown = cursor.var(str)
            cursor.execute("begin :1 := 'returned'; end;", [shown])
        with pytest.raises(oracledb.DatabaseError):
            ask_oracle(client, "select * from nothing_here")
    session = gateway.newest_finished("oracle-seen")
    assert session.metadata["application_name"] == "payroll"
    assert session.metadata["client_tls"] == "yes"
    text = gateway.text(session.id)
    assert "A\tB\nrecorded 1\t5\n(1 row selected)\n" in text
    fetched = "select id from people order by id"
    assert f"{fetched}ID\n1\n2\n" in text
    rows = {exchange.statement: exchange.rows for exchange in RecordingLibrary(gateway.home, {}).exchanges(session)}
    assert rows[fetched] == 2
    assert gateway.operations(session.id).count(fetched) == 1
    assert "(2 rows selected)\n" in text
    assert "OUT1\nreturned\n" in text
    assert "ORA-00942: table or view does not exist" in text


def test_target_without_the_login_is_an_error_that_names_no_secret(gateway: Gateway, server: OracleTestServer) -> None:
    oracle_connection(gateway, "oracle-locked", server, secret={"PASS": "wrong"})
    with pytest.raises(oracledb.DatabaseError, match="did not accept the gateway's own login"):
        connect_oracle(gateway, gateway.credential("oracle-locked"))


def test_unknown_service_is_the_targets_own_error(gateway: Gateway, books: Issued) -> None:
    with pytest.raises(oracledb.DatabaseError, match="ORA-12514"):
        connect_oracle(gateway, books, dsn=plain_dsn(gateway).replace("ORCLPDB1", "NOWHERE"), ssl_context=None)


def test_database_is_named_by_its_sid(gateway: Gateway, server: OracleTestServer) -> None:
    oracle_connection(gateway, "oracle-by-sid", server, secret={"DB": "", "SID": server.service})
    for names in ({"sid": server.service}, {"service_name": server.service}, {}):
        place = {"dsn": None, "ssl_context": None, "host": "127.0.0.1", "port": gateway.settings.oracledb_port}
        with connect_oracle(gateway, gateway.credential("oracle-by-sid"), **place, **names) as client:
            assert ask_oracle(client, "select 1 from dual") == [(1,)]


def test_login_to_another_database_counts_as_a_statement(gateway: Gateway, server: OracleTestServer) -> None:
    connection = oracle_connection(gateway, "oracle-elsewhere", server)
    gateway.guardrail("oracle-own-only", connection, deny="^CONNECT TO SID")
    issued = gateway.credential("oracle-elsewhere")
    place = {"dsn": None, "ssl_context": None, "host": "127.0.0.1", "port": gateway.settings.oracledb_port}
    with connect_oracle(gateway, issued, **place, service_name=server.service.lower()) as client:
        assert ask_oracle(client, "select 1 from dual") == [(1,)]
    assert "CONNECT" not in " ".join(gateway.operations(gateway.newest_finished("oracle-elsewhere").id))
    with connect_oracle(gateway, issued, **place, sid=server.service) as client:
        for _ in range(2):
            with pytest.raises(oracledb.DatabaseError, match="oracle-own-only"):
                ask_oracle(client, "select 1 from dual")
    recorded = gateway.operations(gateway.newest_finished("oracle-elsewhere").id)
    assert recorded[0] == f'CONNECT TO SID "{server.service}"'


def test_redirect_is_followed_by_the_agent(gateway: Gateway, server: OracleTestServer) -> None:
    address = f"(ADDRESS=(PROTOCOL=tcp)(HOST=127.0.0.1)(PORT={server.port}))"
    with running_oracle(ServerOptions(redirect=address)) as listener:
        oracle_connection(gateway, "oracle-redirected", listener)
        with connect_oracle(gateway, gateway.credential("oracle-redirected")) as client:
            assert ask_oracle(client, "select count(*) from people") == [(2,)]


def test_endless_redirects_are_an_error(gateway: Gateway) -> None:
    port = free_port()
    address = f"(ADDRESS=(PROTOCOL=tcp)(HOST=127.0.0.1)(PORT={port}))"
    with running_oracle(ServerOptions(redirect=address), port=port) as listener:
        oracle_connection(gateway, "oracle-circle", listener)
        with pytest.raises(oracledb.DatabaseError, match="redirects to another listener"):
            connect_oracle(gateway, gateway.credential("oracle-circle"))


def test_target_with_tls_is_verified(gateway: Gateway, tmp_path: Path) -> None:
    issued = issue("localhost")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(issued.certificate)
    key.write_bytes(issued.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with running_oracle(tls=context) as server:
        secret = {"HOST": "localhost", "SSLMODE": "verify-full"}
        oracle_connection(gateway, "oracle-tls", server, secret={**secret, "SSLROOTCERT": issued.authority})
        with connect_oracle(gateway, gateway.credential("oracle-tls")) as client:
            assert ask_oracle(client, "select 1 from dual") == [(1,)]
        oracle_connection(gateway, "oracle-untrusted", server, secret=secret)
        with pytest.raises(oracledb.DatabaseError, match="TLS handshake failed"):
            connect_oracle(gateway, gateway.credential("oracle-untrusted"))
