"""Ways around a strict rule about columns, each tried by a client that may ask whatever it likes: the values that the
rule hides reach it in no message."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
from tests.support import wire
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import PATIENT

from postern.domain.masking import Strategy, Strictness
from postern.services.masking_rules import MaskingRuleFields

SECRETS = (b"lovelace", b"83412")
HIDDEN = "select upper(name) as x from sitters"
SHOWN = "select upper(note) as x from sitters"
LONG = "x" * 63  # PostgreSQL cuts names there


@pytest.fixture(scope="module")
def hidden(gateway: Gateway, target: PostgresServer, direct: psycopg.Connection) -> Iterator[str]:
    """The URL of a connection with such a rule."""
    direct.execute("drop table if exists sitters cascade; drop function if exists sitter, fixed_sitter")
    direct.execute("create table sitters (id int, name text, salary int, note text, doc jsonb)")
    direct.execute("""insert into sitters values (1, 'Lovelace', 83412, 'none', '{"k": "Lovelace"}')""")
    direct.execute("create function sitter() returns text language sql as 'select name from sitters'")
    direct.execute(
        "create function fixed_sitter() returns text immutable language plpgsql as "
        "'begin return (select name from sitters); end'"
    )
    direct.execute("create view sat as select * from sitters where note = fixed_sitter()")
    connection = gateway.connection("sitting", target)
    columns = ("sitters.name", "sitters.salary", "sitters.doc")
    gateway.masking_rule(MaskingRuleFields("sitting", columns=columns, connection_ids=(str(connection.id),)))
    yield gateway.url("sitting")
    direct.execute("drop table sitters cascade; drop function sitter, fixed_sitter")


def query(text: str) -> bytes:
    return wire.message(b"Q", text.encode() + b"\0")


def parse(name: str, text: str) -> bytes:
    return wire.message(b"P", name.encode() + b"\0" + text.encode() + b"\0\0\0")


def bind(portal: str, statement: str) -> bytes:
    return wire.message(b"B", portal.encode() + b"\0" + statement.encode() + b"\0", struct.pack("!HHH", 0, 0, 0))


def execute(portal: str) -> bytes:
    return wire.message(b"E", portal.encode() + b"\0" + bytes(4))


def close(name: str) -> bytes:
    return wire.message(b"C", b"S" + name.encode() + b"\0")


SYNC = wire.message(b"S")
BEFORE = [query("begin"), query(f"declare c cursor for {SHOWN}"), query("close c")]
HIDDEN_PORTAL = parse("s", HIDDEN) + bind("c", "s") + SYNC

CONVERSATIONS: dict[str, list[bytes]] = {
    "a name is prepared twice before the first answer": [
        parse("s", HIDDEN) + SYNC + parse("s", SHOWN) + SYNC + bind("", "s") + execute("") + SYNC
    ],
    "prepared by PREPARE, then by Parse, run by EXECUTE": [
        query(f"prepare s as {SHOWN}"), query("deallocate s"), parse("s", HIDDEN) + SYNC, query("execute s"),
    ],
    "declared by DECLARE, then bound by Bind, fetched by FETCH": [*BEFORE, HIDDEN_PORTAL, query("fetch all from c")],
    "a portal is fetched by a prepared FETCH": [
        *BEFORE, HIDDEN_PORTAL + parse("f", "fetch all from c") + bind("", "f") + execute("") + SYNC,
    ],
    "a portal is fetched through a portal": [
        *BEFORE, query(f"declare z cursor for {SHOWN}"), query("close z"),
        parse("s", HIDDEN) + bind("c", "s") + parse("f", "fetch all from c") + bind("z", "f") + SYNC,
        query("fetch all from z"),
    ],
    "a portal is named by the numbers of its letters": [*BEFORE, HIDDEN_PORTAL, query(r'fetch all from U&"\0063"')],
    "names differ beyond the length at which they are cut": [
        parse(LONG + "A", SHOWN) + SYNC, close(LONG + "B") + SYNC, parse(LONG + "B", HIDDEN) + SYNC,
        bind("", LONG + "A") + execute("") + SYNC,
    ],
    "a cursor is opened by a block of code": [
        *BEFORE,
        query(f"do $$ declare c refcursor := 'c'; begin open c for execute '{HIDDEN}'; end $$"),
        query("fetch all from c"),
    ],
    "a setting that is reported": [query("select set_config('application_name', name, false) from sitters")],
    "a setting that is shown": [
        query("select set_config('application_name', name, false) from sitters"), query("show application_name"),
    ],
    "a setting that takes numbers": [
        query("select set_config('lock_timeout', salary::text, false) from sitters"), query("show lock_timeout"),
        query("select current_setting('lock_timeout')"),
    ],
    "a time zone": [
        query("select set_config('TimeZone', '<' || name || '>1', false) from sitters"), query("show timezone"),
    ],
    "a time zone that is spelled": [
        query("select set_config('TimeZone', '<' || name || '>1', false) from sitters"),
        query("select to_char(now(), 'TZ')"), query("select timeofday()"),
    ],
    "an operator that does not exist": [query("select name::regoper from sitters")],
    "a setting that a block of code writes": [
        query("do $$ begin execute 'set lock_timeout to ' || (select salary from sitters); end $$"),
        query("show lock_timeout"),
    ],
    "a setting that is written as a row": [
        query("update pg_settings set setting = (select salary::text from sitters) where name = 'lock_timeout'"),
        query("show lock_timeout"),
    ],
    "a notification": [query("listen c"), query("select pg_notify('c', name) from sitters"), query("select 1")],
    "a lock": [query("select pg_advisory_lock(salary) from sitters"), query("select classid, objid from pg_locks")],
    "a large object's number": [
        query("select lo_create(salary) from sitters"), query("select oid from pg_largeobject_metadata"),
        query("select lo_unlink(salary) from sitters"),
    ],
    "keys of a document": [query("select json_build_object(name, 1) from sitters")],
    "keys of an aggregate": [query("select jsonb_object_agg(name, salary) from sitters")],
    "keys within a document": [query("select doc || jsonb_build_object('x', json_build_object(name, 1)) from sitters")],
    "keys of a text that is cast": [query("""select ('{"' || name || '": 1}')::json from sitters""")],
    "a plan with a function that was called": [query("explain select * from sitters where note = fixed_sitter()")],
    "a plan of a prepared statement": [
        query("prepare p as select * from sitters where note = fixed_sitter()"), query("explain execute p"),
    ],
    "a plan of a view": [query("explain select * from sat")],
}  # fmt: skip


def log_in(url: str) -> socket.socket:
    parts = urlsplit(url)
    stream = wire.connect(parts.port or 0)
    wire.log_in(stream, unquote(parts.username or ""), unquote(parts.password or ""), database="postgres")
    return stream


def said(url: str, steps: list[bytes]) -> bytes:
    """All that comes back, whole messages; each step is sent when the one before has been answered."""
    with log_in(url) as stream:
        found = b""
        for step in steps:
            stream.sendall(step)
            for _ in range(1 if step[:1] in b"QF" else step.count(SYNC)):
                tag = b""
                while tag != b"Z":
                    tag, body = wire.read_message(stream)
                    found += wire.message(tag, body)
    return found


@pytest.mark.parametrize("steps", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_attack_on_hidden_columns(hidden: str, direct: psycopg.Connection, steps: list[bytes]) -> None:
    found = said(hidden, steps).lower()
    assert not [secret for secret in SECRETS if secret in found]


def test_attack_a_function_that_is_called_by_its_number(hidden: str, direct: psycopg.Connection) -> None:
    number = direct.execute("select 'sitter'::regproc::oid::int").fetchone()
    assert number is not None
    call = wire.message(b"F", struct.pack("!IHHHH", number[0], 1, 0, 0, 0))
    found = said(hidden, [call, query("select note from sitters")])
    assert b"lovelace" not in found.lower()
    assert wire.tags(found).startswith("EZ")
    assert b"none" in found


@pytest.mark.parametrize("strategy", [one for one in Strategy if one is not Strategy.NULL])
def test_keys_of_a_column_and_names_of_columns_stay(
    gateway: Gateway, target: PostgresServer, hidden: str, strategy: Strategy
) -> None:
    connection = gateway.connection(f"keys-{strategy}", target)
    gateway.masking_rule(
        MaskingRuleFields(f"keys-{strategy}", columns=("sitters.name", "sitters.doc"), strategy=strategy,
                          connection_ids=(str(connection.id),))
    )  # fmt: skip
    with psycopg.connect(gateway.url(f"keys-{strategy}")) as client:
        asked = "select doc, row_to_json(s), json_build_object(name, id) from sitters s"
        doc, row, made = client.execute(asked).fetchall()[0]
    assert list(doc) == ["k"]
    assert list(row) == ["id", "name", "salary", "note", "doc"]
    assert "Lovelace" not in str([doc, row, made])


def test_best_effort_tells_notifications_and_settings_and_marks_them(gateway: Gateway, target: PostgresServer) -> None:
    connection = gateway.connection("lenient", target)
    gateway.masking_rule(
        MaskingRuleFields("lenient", columns=("sitters.name",), strictness=Strictness.BEST_EFFORT,
                          connection_ids=(str(connection.id),))
    )  # fmt: skip
    with psycopg.connect(gateway.url("lenient"), autocommit=True) as client:
        client.execute("listen c")
        client.execute("select pg_notify('c', 'told')")
        assert [notice.payload for notice in client.notifies(timeout=PATIENT, stop_after=1)] == ["told"]
    assert gateway.newest_finished("lenient").metrics["data_masking"]["err_count"] >= 1


def test_settings_that_the_statement_itself_says_are_reported(hidden: str) -> None:
    with psycopg.connect(hidden, autocommit=True) as client:
        for text in ("set application_name to 'nightly job'", "select set_config('application_name', 'other', false)"):
            client.execute(text)
            assert client.info.parameter_status("application_name") in ("nightly job", "other")
        for zone in ("Europe/Berlin", "Etc/GMT+5", "UTC"):
            client.execute(f"set timezone to '{zone}'")
            assert client.info.parameter_status("TimeZone") != "****"
