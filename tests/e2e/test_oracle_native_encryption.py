"""Targets of Oracle with native encryption: real drivers agree with the server of tests, and clients reach it through
the gateway."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import oracledb
import pytest
from tests.e2e.test_oracle_direct import DRIVERS, LEVELS, run
from tests.support.clients import need
from tests.support.gateway import Gateway
from tests.support.installed_tools import installed_tool
from tests.support.oracle_gateway import ask_directly, ask_oracle, connect_oracle, oracle_connection
from tests.support.oracledb.native_services import (
    ACCEPTED,
    ORACLE_19,
    ORACLE_19_RENEWED,
    ORACLE_23,
    REJECTED,
    REQUIRED,
    NativeOptions,
)
from tests.support.oracledb.running_server import OracleTestServer, running_oracle
from tests.support.oracledb.server_session import ServerOptions

from postern.domain.rules.masking import InfoType, Strategy, TypeGroup

ALGORITHMS = [
    *[(encryption, checksum) for encryption in ("AES256", "AES192", "AES128") for checksum in ("SHA256", "SHA384")],
    ("AES256", "SHA512"),
    ("AES128", ""),
    ("", "SHA512"),
]
VERSIONS = {"old": ORACLE_19, "19c": ORACLE_19_RENEWED, "23ai": ORACLE_23}
TASKS = {"java": "POSTERN 100000 942 942 942 6", "go": "POSTERN 100000 942 942 942 true 6"}


def native(encryption: str = "AES256", checksum: str = "SHA256", version: int = ORACLE_23) -> NativeOptions:
    """Return settings with these algorithms alone; an empty one is rejected."""
    return NativeOptions(
        REQUIRED if encryption else REJECTED,
        (encryption,) if encryption else (),
        REQUIRED if checksum else REJECTED,
        (checksum,) if checksum else (),
        version,
    )


@functools.cache
def program(client: str, folder: Path) -> tuple[str, ...]:
    """Return how a driver's program is started. Builds it."""
    if client == "go":
        run([need("go", "golang-go"), "build", "-o", str(folder / "native-go"), "./native"], DRIVERS / "oracle_go")
        return (str(folder / "native-go"),)
    jar = installed_tool("oracle-jdbc") / "ojdbc11.jar"
    source = DRIVERS / "oracle_java" / "OracleNative.java"
    run([need("javac", "default-jdk-headless"), "-cp", str(jar), "-d", str(folder), str(source)], folder)
    return need("java", "default-jdk-headless"), "-cp", f"{folder}:{jar}", "OracleNative"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
@pytest.mark.parametrize("client", ["java", "go"])
def test_driver_agrees_with_the_server_of_tests(client: str, version: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [
            stack.enter_context(running_oracle(ServerOptions(native=native(*pair, version), breaks_on_errors=True)))
            for pair in ALGORITHMS
        ]
        first = servers[0]
        places = [f"127.0.0.1:{server.port}" for server in servers]
        # The driver accepts what the server requires, as one of the two services is rejected by some of these.
        words = [first.service, first.user, first.password, ACCEPTED, *places]
        shown = run([*program(client, tmp_path), *words], tmp_path).splitlines()
        assert [server.failures for server in servers] == [[]] * len(servers)
    names = [f"{encryption} {checksum} " if client == "java" else "" for encryption, checksum in ALGORITHMS]
    assert shown == [name + TASKS[client] for name in names]


@pytest.fixture(scope="module")
def server() -> Iterator[OracleTestServer]:
    with running_oracle(ServerOptions(native=native())) as running:
        yield running
        assert running.failures == []


@pytest.fixture(scope="module")
def encrypted(gateway: Gateway, server: OracleTestServer) -> str:
    """The connection `oracle-native`, with a table."""
    oracle_connection(gateway, "oracle-native", server, secret={"NATIVE_ENCRYPTION": "require"})
    with connect_oracle(gateway, gateway.credential("oracle-native")) as client:
        ask_oracle(client, "create table people (id number, name varchar2(40), note clob)")
        ask_oracle(client, "insert into people values (1, 'Ann', :1)", "é" * 100_000)
        client.commit()
    return "oracle-native"


@pytest.fixture
def client(gateway: Gateway, encrypted: str) -> Iterator[oracledb.Connection]:
    with connect_oracle(gateway, gateway.credential(encrypted)) as connected:
        yield connected


@pytest.mark.parametrize("level", ["19c", "23ai"])
@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS)
def test_client_reaches_a_target_that_requires_encryption(gateway: Gateway, level: str, version: int) -> None:
    name = f"oracle-native-{level}-{version:x}"
    options = ServerOptions(level=LEVELS[level], native=native(version=version), breaks_on_errors=True)
    seen: list[bytes] = []
    with running_oracle(options) as running:
        running.taps.append(lambda _, data: seen.append(data))
        oracle_connection(gateway, name, running)
        with connect_oracle(gateway, gateway.credential(name)) as connected:
            for _ in range(3):
                with pytest.raises(oracledb.DatabaseError, match="ORA-00942"):
                    ask_oracle(connected, "select * from missing")
                assert ask_oracle(connected, "select 'an answer' from dual") == [("an answer",)]
        assert running.failures == []
    assert b"an answer" not in b"".join(seen)
    assert b"AUTH_SESSKEY" not in b"".join(seen)


@pytest.mark.parametrize(("encryption", "checksum"), ALGORITHMS)
def test_client_is_served_with_each_algorithm(gateway: Gateway, encryption: str, checksum: str) -> None:
    name = f"oracle-native-{encryption or 'no'}-{checksum or 'no'}".lower()
    with running_oracle(ServerOptions(native=native(encryption, checksum))) as running:
        oracle_connection(gateway, name, running)
        with connect_oracle(gateway, gateway.credential(name)) as connected:
            assert ask_oracle(connected, "select 1 from dual") == [(1,)]
            with pytest.raises(oracledb.DatabaseError, match="ORA-00942"):
                ask_oracle(connected, "select * from missing")
            assert ask_oracle(connected, "select :1 from dual", "x" * 30_000) == [("x" * 30_000,)]
        assert running.failures == []


def test_large_objects_and_many_rows_pass(client: oracledb.Connection) -> None:
    with client.cursor() as cursor:
        (lob,) = cursor.execute("select note from people").fetchone()
        assert lob.read() == "é" * 100_000
        cursor.execute("create table numbered (id number, text varchar2(400))")
        cursor.executemany("insert into numbered values (:1, :2)", [[n, "t" * 400] for n in range(2000)])
        assert sum(row[0] for row in cursor.execute("select id, text from numbered")) == 1999 * 1000
    client.commit()


def test_statement_is_cancelled_again_and_again(client: oracledb.Connection) -> None:
    for _ in range(3):
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(ask_oracle, client, "begin dbms_session.sleep(30); end;")
            time.sleep(1)  # the driver does not take a cancellation while it sends
            client.cancel()
            with pytest.raises(oracledb.DatabaseError, match="ORA-01013"):
                running.result(60)
        assert ask_oracle(client, "select 6 from dual") == [(6,)]


def test_column_is_masked_and_recorded_so(gateway: Gateway, server: OracleTestServer, encrypted: str) -> None:
    connection = oracle_connection(gateway, "oracle-native-masked", server)
    rule = {"name": "oracle native", "columns": ("people.name",), "connection_ids": (str(connection.id),)}
    gateway.masking_rule(rule)
    with connect_oracle(gateway, gateway.credential("oracle-native-masked")) as connected:
        assert ask_oracle(connected, "select id, name from people") == [(1, "****")]
    text = gateway.text(gateway.newest_finished("oracle-native-masked").id)
    assert "1\t****" in text
    assert "Ann" not in text


# Each type that the server of tests has: its declaration, a value, and the text of that value in a recording.
TYPES = {
    "VARCHAR2": ("varchar2(40)", "'ann@example.com'", "ann@example.com"),
    "NVARCHAR2": ("nvarchar2(40)", "'ann@example.com'", "ann@example.com"),
    "CHAR": ("char(15)", "'ann@example.com'", "ann@example.com"),
    "NCHAR": ("nchar(15)", "'ann@example.com'", "ann@example.com"),
    "LONG": ("long", "'ann@example.com'", "ann@example.com"),
    "CLOB": ("clob", "'ann@example.com'", "ann@example.com"),
    "NCLOB": ("nclob", "'ann@example.com'", "ann@example.com"),
    "BLOB": ("blob", "hextoraw('AB01CD02')", "AB01CD02"),
    "RAW": ("raw(8)", "hextoraw('AB01CD02')", "AB01CD02"),
    "NUMBER": ("number(12, 2)", "7654321.25", "7654321.25"),
    "INTEGER": ("integer", "7654321", "7654321"),
    "FLOAT": ("float", "7654321.5", "7654321.5"),
    "BINARY_FLOAT": ("binary_float", "7654321.5", "7654321.5"),
    "BINARY_DOUBLE": ("binary_double", "7654321.125", "7654321.125"),
    "DATE": ("date", "to_date('1990-02-03', 'YYYY-MM-DD')", "1990-02-03"),
    "TIMESTAMP": ("timestamp", "timestamp '1990-02-03 04:05:06.789'", "1990-02-03 04:05:06.789"),
    "TIMESTAMP_TZ": ("timestamp with time zone", "timestamp '1990-02-03 04:05:06.789'", "1990-02-03 04:05:06.789"),
    "TIMESTAMP_LTZ": (
        "timestamp with local time zone",
        "timestamp '1990-02-03 04:05:06.789'",
        "1990-02-03 04:05:06.789",
    ),
}
# What a rule is about: each column by its name, or e-mail addresses wherever they are.
ABOUT: dict[str, dict[str, Any]] = {
    "columns": {"columns": tuple(f"typed.c_{name}" for name in TYPES)},
    "values": {"groups": (TypeGroup("CONTACT", (InfoType.EMAIL_ADDRESS,)),)},
}


@pytest.fixture(scope="module")
def typed(gateway: Gateway, server: OracleTestServer, encrypted: str) -> Iterator[dict[str, OracleTestServer]]:
    """The encrypted server and one without encryption, with the same table of every type."""
    create = f"create table typed ({', '.join([f'c_{name} {kind}' for name, (kind, _, _) in TYPES.items()])})"
    insert = f"insert into typed values ({', '.join([value for _, value, _ in TYPES.values()])})"
    with connect_oracle(gateway, gateway.credential(encrypted)) as client:
        ask_oracle(client, create)
        ask_oracle(client, insert)
        client.commit()
    with running_oracle() as plain:
        ask_directly(plain, create, insert)
        yield {"encrypted": server, "plain": plain}


@pytest.mark.parametrize("lobs", ["locators", "values"])
@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize("strategy", Strategy)
def test_every_type_is_masked_as_without_encryption(
    gateway: Gateway, typed: dict[str, OracleTestServer], strategy: Strategy, about: str, lobs: str
) -> None:
    names = {kind: f"oracle-typed-{kind}-{strategy}-{about}-{lobs}" for kind in typed}
    ids = tuple(str(oracle_connection(gateway, name, typed[kind]).id) for kind, name in names.items())
    gateway.masking_rule({"name": names["plain"], "strategy": strategy, "connection_ids": ids, **ABOUT[about]})
    seen: dict[str, tuple[dict[str, object], str]] = {}
    for kind, name in names.items():
        with connect_oracle(gateway, gateway.credential(name)) as connected:
            values = {column: value_of(connected, column, fetch_lobs=lobs == "locators") for column in TYPES}
        seen[kind] = values, gateway.text(gateway.newest_finished(name).id)
    assert seen["encrypted"] == seen["plain"]
    text = seen["encrypted"][1]
    for column, (_, _, value) in TYPES.items():
        answer = text.split(f"select c_{column} from typed")[1].split("(1 row selected)")[0]
        is_shown = about == "values" and value != "ann@example.com" and (column != "BLOB" or lobs == "values")
        assert (value in answer) == is_shown, answer


def value_of(connected: oracledb.Connection, column: str, *, fetch_lobs: bool) -> object:
    """Return the value of the one row, or the code of the error."""
    with connected.cursor() as cursor:
        ((value,),) = cursor.execute(f"select c_{column} from typed", fetch_lobs=fetch_lobs).fetchall()
        try:
            return value.read() if isinstance(value, oracledb.LOB) else value
        except oracledb.DatabaseError as error:
            return error.args[0].full_code


def test_script_runs(gateway: Gateway, encrypted: str) -> None:
    script = "select name from people"
    session = gateway.call(gateway.services.sessions.submit(gateway.admin, encrypted, script, source="127.0.0.1"))
    assert gateway.finished(session.id).exit_code == 0
    assert "NAME\nAnn\n" in gateway.text(session.id)


def test_redirect_leads_to_an_encrypted_session(gateway: Gateway, server: OracleTestServer, encrypted: str) -> None:
    address = f"(ADDRESS=(PROTOCOL=tcp)(HOST=127.0.0.1)(PORT={server.port}))"
    with running_oracle(ServerOptions(redirect=address)) as listener:
        oracle_connection(gateway, "oracle-native-redirected", listener, secret={"NATIVE_ENCRYPTION": "require"})
        with connect_oracle(gateway, gateway.credential("oracle-native-redirected")) as connected:
            assert ask_oracle(connected, "select name from people") == [("Ann",)]


REFUSED = {
    "absent": (None, {"NATIVE_ENCRYPTION": "require"}, "NATIVE_ENCRYPTION is require"),
    "disabled": (native(), {"NATIVE_ENCRYPTION": "disable"}, "NATIVE_ENCRYPTION is disable"),
    "weak": (native("RC4_256"), {}, "SQLNET.ENCRYPTION_TYPES_SERVER"),
    "misspelt": (native(), {"NATIVE_ENCRYPTION": "yes"}, "must be one of prefer, require, disable"),
}


@pytest.mark.parametrize(("options", "secret", "text"), REFUSED.values(), ids=REFUSED)
def test_login_is_refused_with_advice(
    gateway: Gateway, options: NativeOptions | None, secret: dict[str, str], text: str, request: pytest.FixtureRequest
) -> None:
    name = f"oracle-native-refused-{request.node.callspec.id}"
    with running_oracle(ServerOptions(native=options)) as running:
        oracle_connection(gateway, name, running, secret=secret)
        with pytest.raises(oracledb.DatabaseError, match=text):
            connect_oracle(gateway, gateway.credential(name))


def test_attack_changed_packet_ends_the_session_with_an_error(gateway: Gateway) -> None:
    def change(reply: bytes) -> bytes:
        place = len(reply) // 2
        return reply[:place] + bytes([reply[place] ^ 1]) + reply[place + 1 :]

    with running_oracle(ServerOptions(native=native())) as running:
        oracle_connection(gateway, "oracle-native-changed", running)
        connected = connect_oracle(gateway, gateway.credential("oracle-native-changed"))
        assert ask_oracle(connected, "select 1 from dual") == [(1,)]
        running.change = change
        with pytest.raises(oracledb.DatabaseError, match="native encryption failed") as raised:
            ask_oracle(connected, "select 'top ' || 'secret' from dual")
        assert "top secret" not in str(raised.value)
    session = gateway.newest_finished("oracle-native-changed")
    assert "top secret" not in gateway.text(session.id)


def test_target_that_stops_in_the_negotiation_is_given_up(gateway: Gateway) -> None:
    with running_oracle(ServerOptions(native=native())) as running:
        running.change = lambda reply: b"" if b"\xde\xad\xbe\xef" in reply else reply
        oracle_connection(gateway, "oracle-native-silent", running)
        with pytest.raises(oracledb.DatabaseError, match="did not answer within"):
            connect_oracle(gateway, gateway.credential("oracle-native-silent"))


def test_session_is_killed(gateway: Gateway, client: oracledb.Connection, encrypted: str) -> None:
    session = gateway.newest(encrypted)
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    with pytest.raises(oracledb.DatabaseError):
        ask_oracle(client, "select 1 from dual")
    assert gateway.finished(session.id)


@pytest.mark.slow
def test_driver_that_requires_encryption_of_the_gateway_gets_an_error(
    gateway: Gateway, encrypted: str, tmp_path: Path
) -> None:
    """Oracle's own driver does. go-ora does not notice that it was not negotiated."""
    issued = gateway.credential(encrypted)
    login = [issued.credential.username, issued.password.reveal()]
    place = f"127.0.0.1:{gateway.settings.oracledb_port}"
    shown = run([*program("java", tmp_path), "ORCLPDB1", *login, REQUIRED, place], tmp_path)
    assert "encryption / checksumming required by client but disabled by server" in shown
