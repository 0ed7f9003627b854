"""Ways around a strict column rule, each tried by a client that can send any statement: hidden values reach it in no
message."""

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

from postern.domain.rules.masking import Strategy, Strictness, TypeGroup

SECRETS = (b"lovelace", b"83412")
HIDDEN = "select upper(name) as x from sitters"
SHOWN = "select upper(note) as x from sitters"
FOUND = (TypeGroup("CONTACT", ("EMAIL_ADDRESS",)),)  # types to look for, which change nothing of strictness
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
    gateway.masking_rule(
        {"name": "sitting", "columns": columns, "groups": FOUND, "connection_ids": (str(connection.id),)}
    )
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
        query(f"prepare s as {SHOWN}"),
        query("deallocate s"),
        parse("s", HIDDEN) + SYNC,
        query("execute s"),
    ],
    "declared by DECLARE, then bound by Bind, fetched by FETCH": [*BEFORE, HIDDEN_PORTAL, query("fetch all from c")],
    "a portal is fetched by a prepared FETCH": [
        *BEFORE,
        HIDDEN_PORTAL + parse("f", "fetch all from c") + bind("", "f") + execute("") + SYNC,
    ],
    "a portal is fetched through a portal": [
        *BEFORE,
        query(f"declare z cursor for {SHOWN}"),
        query("close z"),
        parse("s", HIDDEN) + bind("c", "s") + parse("f", "fetch all from c") + bind("z", "f") + SYNC,
        query("fetch all from z"),
    ],
    "a portal is named by the numbers of its letters": [*BEFORE, HIDDEN_PORTAL, query(r'fetch all from U&"\0063"')],
    "names differ beyond the length at which they are cut": [
        parse(LONG + "A", SHOWN) + SYNC,
        close(LONG + "B") + SYNC,
        parse(LONG + "B", HIDDEN) + SYNC,
        bind("", LONG + "A") + execute("") + SYNC,
    ],
    "a cursor is opened by a block of code": [
        *BEFORE,
        query(f"do $$ declare c refcursor := 'c'; begin open c for execute '{HIDDEN}'; end $$"),
        query("fetch all from c"),
    ],
    "a setting that is reported": [query("select set_config('application_name', name, false) from sitters")],
    "a setting that is shown": [
        query("select set_config('application_name', name, false) from sitters"),
        query("show application_name"),
    ],
    "a numeric setting": [
        query("select set_config('lock_timeout', salary::text, false) from sitters"),
        query("show lock_timeout"),
        query("select current_setting('lock_timeout')"),
    ],
    "a time zone": [
        query("select set_config('TimeZone', '<' || name || '>1', false) from sitters"),
        query("show timezone"),
    ],
    "a time zone that is spelled": [
        query("select set_config('TimeZone', '<' || name || '>1', false) from sitters"),
        query("select to_char(now(), 'TZ')"),
        query("select timeofday()"),
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
        query("select lo_create(salary) from sitters"),
        query("select oid from pg_largeobject_metadata"),
        query("select lo_unlink(salary) from sitters"),
    ],
    "keys of a document": [query("select json_build_object(name, 1) from sitters")],
    "keys of an aggregate": [query("select jsonb_object_agg(name, salary) from sitters")],
    "keys within a document": [query("select doc || jsonb_build_object('x', json_build_object(name, 1)) from sitters")],
    "keys of a text that is cast": [query("""select ('{"' || name || '": 1}')::json from sitters""")],
    "a plan with a function that was called": [query("explain select * from sitters where note = fixed_sitter()")],
    "a plan of a prepared statement": [
        query("prepare p as select * from sitters where note = fixed_sitter()"),
        query("explain execute p"),
    ],
    "a plan of a view": [query("explain select * from sat")],
    "a user-defined function": [query("select sitter()")],
    "a row as text": [query("select textin(record_out(sitters)) from sitters")],
    "an expression that nests too deep to follow": [query(f"select {'upper(' * 300}name{')' * 300} from sitters")],
    "statistics of the columns": [query("analyze sitters"), query("table pg_stats")],
    "a notice": [query("do $$ begin raise notice '%', (select name from sitters); end $$")],
}


# Each puts together what a rule hides, and is asked of rows that differ in nothing but that.
COMPUTED = [
    "upper(name)",
    "name || ''",
    "length(name)",
    "ascii(substr(name, 1, 1))",
    "-2147483648 + ascii(substr(name, 1, 1))",
    "('-9223372036854775'::numeric * 1000 + salary)",
    "date '3000-01-01' + salary",
    "timestamp '3000-01-01' + salary * interval '1 day'",
    "('3000-01-01'::date + salary)::timestamptz",
    "salary + 0.5",
    "salary::real",
    "salary::float8 - 9007199254740992",
    "salary::money",
    "nullif(get_bit(name::bytea, 3), 0)",
    "nullif(salary, 83412)",
    "case when salary > 50000 then 1 end",
    "(select 1 from (values (1)) t (id) where t.id = s.id and s.salary > 50000)",
    "exists (select 1 from (values (1)) t (id) where t.id = s.id and s.salary > 50000)",
    "(select count(*) from (values (1)) t (id) where t.id = s.id and s.salary > 50000)",
    "array(select 1 from (values (1)) t (id) where t.id = s.id and s.salary > 50000)",
    "(with w as (select 1 as x where s.salary > 50000) select x from w)",
    "(select x from (select 1 as x limit s.salary % 2) w)",
    "salary > 50000",
    "array_fill('a'::text, array[2], array[coalesce(salary, 3)])",
    "array_fill(1, array[coalesce(salary % 7, 3)])",
    "array[array[salary], array[1]]",
    "string_to_array(name, 'l')",
    "to_jsonb(array_fill(1, array[coalesce(salary % 7, 3)]))",
    "to_json(name)",
    "jsonb_build_object('a', nullif(salary, 83412))",
    "case when salary > 50000 then '1'::jsonb else '\"a\"'::jsonb end",
    "json_build_object(coalesce(name, ''), 1)",
    "row(name, salary)",
    "row(nullif(salary, 83412))",
    "int4range(salary, null)",
    "box(point(salary, 1), point(2, 3))",
    "salary::bit(17)",
    "('0.0.0.0'::inet + salary)",
    "('0.0.0.0'::inet + salary)::cidr",
    "lpad('', 12, name)::bytea",
    "md5(name)::uuid",
    "make_interval(secs => salary)",
    "make_time(salary % 24, 0, 0)",
    "to_tsvector('simple', name)",
    "name::name",
    "(salary % 100)::int2",
    "name is null",
    "coalesce(doc ->> 'none', doc ->> 'k')",
    "doc -> 'k'",
    "count(nullif(salary, 83412)) over (partition by id)",
    "count(*) filter (where salary > 50000) over (partition by id)",
    "rank() over (order by name)",
    "max(name) over (partition by id)",
    "array_agg(name) over (partition by id)",
]


@pytest.fixture(scope="module", params=Strategy)
def walkers(
    request: pytest.FixtureRequest, gateway: Gateway, target: PostgresServer, direct: psycopg.Connection
) -> Iterator[str]:
    """The URL of a connection that masks by one strategy. The rows of the table differ in nothing but hidden values."""
    direct.execute("drop table if exists walkers")
    direct.execute("create table walkers (id int, name text, salary int, note text, doc jsonb)")
    direct.execute("""insert into walkers values (1, 'Lovelace', 83412, 'none', '{"k": "Lovelace"}'),
                   (1, 'Doe', 7, 'none', '{"k": [1]}'), (1, null, null, 'none', null)""")
    name = f"walking-{request.param}"
    connection = gateway.connection(name, target)
    rule = {
        "name": name,
        "columns": ("walkers.name", "walkers.salary", "walkers.doc"),
        "strategy": request.param,
        "groups": (TypeGroup("CONTACT", ("EMAIL_ADDRESS",)),),
        "connection_ids": (str(connection.id),),
    }
    gateway.masking_rule(rule)
    yield gateway.url(name)
    direct.execute("drop table walkers")


def cells(client: psycopg.Connection, statement: str, *, binary: bool) -> set[bytes | None]:
    """What the rows of the first column are, as the wire has them."""
    with client.cursor(binary=binary) as cursor:
        cursor.execute(statement)
        result = cursor.pgresult
        assert result is not None
        return {result.get_value(row, 0) for row in range(result.ntuples)}


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_attack_computed_value_is_one_constant(walkers: str, binary: bool) -> None:
    """Attack: compute something whose value, shape or absence tells one row from another."""
    with psycopg.connect(walkers, autocommit=True) as client:
        found = {value: cells(client, f"select {value} from walkers s", binary=binary) for value in COMPUTED}
        assert {value: len(one) for value, one in found.items()} == dict.fromkeys(COMPUTED, 1)
        copied = f"copy (select {', '.join(COMPUTED)} from walkers s) to stdout"
        with client.cursor().copy(copied + " binary" * binary) as rows:
            assert len({tuple(row) for row in rows.rows()}) == 1


def test_counts_groups_and_plain_columns_stay_useful(walkers: str) -> None:
    with psycopg.connect(walkers, autocommit=True) as client:
        counted = client.execute("select note, count(name), count(distinct salary) from walkers group by note")
        assert counted.fetchall() == [("none", 2, 2)]
        names = [row[0] for row in client.execute("select name from walkers order by name nulls last").fetchall()]
    assert names[2] is None
    assert "Doe" not in names


def test_attack_chosen_values_are_never_hashed(
    gateway: Gateway, target: PostgresServer, hidden: str, direct: psycopg.Connection
) -> None:
    """Attack: have chosen values hashed, to compare them with hashes of the column."""
    connection = gateway.connection("hashing", target)
    columns = ("sitters.name", "sitters.salary")
    gateway.masking_rule(
        {"name": "hashing", "columns": columns, "strategy": Strategy.HASH, "connection_ids": (str(connection.id),)}
    )
    with psycopg.connect(gateway.url("hashing"), autocommit=True) as client:
        hashes = cells(client, "select salary from sitters", binary=False)
        assert hashes
        assert b"83412" not in hashes
        for guesses in (
            "select g + 0 * salary from sitters, generate_series(83410, 83415) g",
            "select salary from sitters union all select g from generate_series(83410, 83415) g",
            "select salary from sitters right join (values (83412)) v (salary) using (salary)",
            "insert into sitters (id, salary) values (9, 83412) returning salary",
            "update sitters set salary = 83412 where id = 9 returning salary",
        ):
            assert cells(client, guesses, binary=False) == {b"0"}, guesses
    direct.execute("delete from sitters where id = 9")


def notices(url: str, body: str) -> list[bytes]:
    """What a block of code says for each row of the table, with `r` as the row."""
    block = f"do $$ declare r record; begin for r in select * from walkers loop {body}; end loop; end $$"
    tags: list[bytes] = []
    with log_in(url) as stream:
        stream.sendall(query(block))
        tag = b""
        while tag != b"Z":
            tag, message = wire.read_message(stream)
            if tag in b"NE":
                tags.append(message)
    return tags


@pytest.mark.parametrize(
    "body",
    [
        "raise notice '%', r.name",
        "raise notice '' using errcode = 'ZA' || lpad((coalesce(r.salary, 0) % 1000)::text, 3, '0')",
        "raise notice '' using detail = r.name",
        "raise notice '' using hint = coalesce(r.name, '')",
        "raise notice '' using column = r.name, constraint = r.name",
        "raise notice '' using datatype = r.name, table = r.name, schema = r.name",
        "if r.salary > 50000 then raise notice '' using detail = 'x'; else raise notice '' using hint = 'x'; end if",
        "if r.salary > 50000 then raise warning ''; else raise info ''; end if",
        "if r.salary > 50000 then raise notice ''; else raise notice ''; end if",
        "begin execute repeat(' ', coalesce(r.salary, 0) % 100) || 'x'; exception when others then"
        " raise notice '%', sqlstate; end",
    ],
)
def test_attack_notices_raised_with_masked_values_are_all_the_same(walkers: str, body: str) -> None:
    """Attack: let a masked value choose a field of a notice; RAISE can set all of them."""
    body = body.replace("r.name", "coalesce(r.name, '')") if "using" in body else body
    found = notices(walkers, body)
    assert len(found) == 3
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "raise exception '' using errcode = 'ZA' || lpad((r.salary % 1000)::text, 3, '0')",
        "raise exception '' using detail = r.name",
        "execute repeat(' ', r.salary % 100) || 'x'",
        "if r.salary > 50000 then perform 1 / 0; else perform 'x'::int; end if",
    ],
)
def test_attack_errors_raised_with_masked_values_are_all_the_same(walkers: str, statement: str) -> None:
    found = {tuple(notices(walkers, f"if r.name = '{name}' then {statement}; end if")) for name in ("Lovelace", "Doe")}
    assert len(found) == 1
    assert len(found.pop()) == 1


LETTERS = "/* " + " ".join("abcdefghijklmnopqrstuvwxyzL0123456789") + " */ "


@pytest.mark.parametrize(
    "value",
    [
        "decode(substr(name, 1, 1) || '!', 'hex')",
        "substr(name, 1, 1)::int",
        "(substr(name, 1, 1))::regclass",
        "substr(name, 1, 1)::regrole",
        "substr(name, 1, 1)::regtype",
        "substr(name, 1, 1)::regnamespace",
        "substr(name, 1, 1)::date",
        "substr(name, 2, 1)::json",
        "substr(name, 1, 1)::uuid",
        "get_byte('a'::bytea, salary % 10 + 3)",
        "to_number(name, 'x' || name)",
        "now() at time zone substr(name, 2, 1)",
        "date_trunc(substr(name, 2, 1), now())",
        "current_setting(substr(name, 2, 1))",
        "encode('a', substr(name, 2, 1))",
        "convert_from('a', substr(name, 2, 1))",
        "('(' || name)::tsquery",
        "('$.' || name || '?')::jsonpath",
        "currval(substr(name, 2, 1))",
        "regexp_replace('a', 'a', 'b', substr(name, 2, 1))",
        "('{' || name)::int[]",
        "nextval('s' || (salary % 10))",
        "has_table_privilege('pg_class', substr(name, 2, 1))",
    ],
)
def test_attack_error_never_repeats_a_letter_of_a_masked_value(walkers: str, value: str) -> None:
    """Attack: list all letters in the statement, and read the one that an error repeats."""
    found: set[tuple[str | None, ...]] = set()
    with psycopg.connect(walkers, autocommit=True) as client:
        for name in ("Lovelace", "Doe"):
            with pytest.raises(psycopg.Error) as caught:
                client.execute(f"{LETTERS}select {value} from walkers where name = '{name}'").fetchall()
            told = caught.value.diag
            found.add((told.message_primary, told.message_detail, told.message_hint, told.context))
    assert len(found) == 1, found


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
def test_attack_hidden_column_is_not_shown_by_any_message_sequence(
    hidden: str, direct: psycopg.Connection, steps: list[bytes]
) -> None:
    found = said(hidden, steps).lower()
    assert not [secret for secret in SECRETS if secret in found]


def test_attack_function_called_by_its_oid_shows_no_masked_value(hidden: str, direct: psycopg.Connection) -> None:
    number = direct.execute("select 'sitter'::regproc::oid::int").fetchone()
    assert number is not None
    call = wire.message(b"F", struct.pack("!IHHHH", number[0], 1, 0, 0, 0))
    found = said(hidden, [call, query("select note from sitters")])
    assert b"lovelace" not in found.lower()
    assert wire.tags(found).startswith("EZ")
    assert b"none" in found


@pytest.mark.parametrize("strategy", [one for one in Strategy if one is not Strategy.NULL])
def test_masked_json_column_keeps_its_keys_and_a_composed_document_is_a_constant(
    gateway: Gateway, target: PostgresServer, hidden: str, strategy: Strategy
) -> None:
    connection = gateway.connection(f"keys-{strategy}", target)
    gateway.masking_rule(
        {
            "name": f"keys-{strategy}",
            "columns": ("sitters.name", "sitters.doc"),
            "strategy": strategy,
            "connection_ids": (str(connection.id),),
        }
    )
    with psycopg.connect(gateway.url(f"keys-{strategy}")) as client:
        asked = "select doc, row_to_json(s), json_build_object(name, id) from sitters s"
        doc, row, made = client.execute(asked).fetchall()[0]
    assert list(doc) == ["k"]
    assert row == made == "****"
    assert "Lovelace" not in str(doc)


def test_best_effort_rule_passes_notifications_and_counts_them(gateway: Gateway, target: PostgresServer) -> None:
    connection = gateway.connection("lenient", target)
    gateway.masking_rule(
        {
            "name": "lenient",
            "columns": ("sitters.name",),
            "strictness": Strictness.BEST_EFFORT,
            "connection_ids": (str(connection.id),),
        }
    )
    with psycopg.connect(gateway.url("lenient"), autocommit=True) as client:
        client.execute("listen c")
        client.execute("select pg_notify('c', 'told')")
        assert [notice.payload for notice in client.notifies(timeout=PATIENT, stop_after=1)] == ["told"]
    assert gateway.newest_finished("lenient").metrics["data_masking"]["err_count"] >= 1


def test_settings_named_in_the_statement_are_reported_to_the_client(hidden: str) -> None:
    with psycopg.connect(hidden, autocommit=True) as client:
        for text in ("set application_name to 'nightly job'", "select set_config('application_name', 'other', false)"):
            client.execute(text)
            assert client.info.parameter_status("application_name") in ("nightly job", "other")
        for zone in ("Europe/Berlin", "Etc/GMT+5", "UTC"):
            client.execute(f"set timezone to '{zone}'")
            assert client.info.parameter_status("TimeZone") != "****"
