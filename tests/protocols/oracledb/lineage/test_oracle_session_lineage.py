"""Origins of a session's answers: what earlier texts have changed, and which answer a column belongs to."""

from __future__ import annotations

import pytest
from tests.protocols.oracledb.lineage.test_oracle_lineage import ORDERS, SHOP, STAFF, USERS, relation, target

from postern.domain.targets.target_schema import ColumnRef, TargetSchema
from postern.inspection.lineage.cached_lineage import MOST_TEXT
from postern.interception.events import Column, TextKind
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_session_lineage import OracleSessionLineage


def session(*texts: str, schema: TargetSchema | None = SHOP) -> OracleSessionLineage:
    lineage = OracleSessionLineage(OracleLineage(), lambda: schema)
    for text in texts:
        lineage.record_statement(text)
    return lineage


def origins(of: OracleSessionLineage, text: str, *names: str) -> list[str | None] | None:
    of.record_statement(text)
    found = of.of(text, [Column(name, TextKind.TEXT) for name in names])
    if found is None:
        return None
    return [
        None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}".lower() for ref in one.refs))
        for one in found
    ]


def test_columns_of_a_query_are_identified_by_their_number() -> None:
    assert origins(session(), "select email, upper(note) from users, orders", "EMAIL", "UPPER(NOTE)") == [
        "users.email",
        "orders.note",
    ]
    assert origins(session(), "select email from users", "A", "B") == [None, None]
    assert session().of("select email from users", ()) is not None


def test_returned_values_are_identified_by_the_number_of_their_variable() -> None:
    text = "update users set name = 'x' where id < 3 returning email, id into :a, :b"
    assert origins(session(), text, "OUT1", "OUT2") == ["users.email", "users.id"]
    # Each variable has a value for each row.
    assert origins(session(), text, "OUT1", "OUT1", "OUT2", "OUT2")[:3] == ["users.email", "users.email", "users.id"]  # type: ignore[index]
    assert origins(session(), text, "OUT3", "X", "OUT0") == [None, None, None]


def test_all_that_a_block_returns_may_be_of_all_that_it_reads() -> None:
    text = "begin select count(*) into :n from users where name = 'x'; open :c for select note from orders; end;"
    for names in (("OUT1",), ("OUT1", "OUT2"), ("NOTE", "X", "Y")):
        assert origins(session(), text, *names) == ["orders.note users.name"] * len(names)


def test_rows_of_a_cursor_in_a_column_may_be_of_the_whole_query() -> None:
    text = "select id, cursor(select email from users) as c from orders"
    assert origins(session(), text, "ID", "C") == ["orders.id users.email"] * 2
    assert origins(session(), text, "EMAIL") == ["orders.id users.email"]


@pytest.mark.parametrize(
    "text",
    [
        "create or replace view orders as select email as note from users",
        "create synonym orders for users",
        "alter table orders rename column note to x",
        "create table orders as select email as note from users",
        "drop table orders",
        "rename users to orders",
        "rename orders to x",
        "flashback table orders to before drop",
        "begin execute immediate 'drop table orders'; end;",
        "begin execute immediate :t; end;",
        "begin execute immediate 'begin execute immediate ''drop table orders''; end;'; end;",
        "begin dbms_x",
        "begin dbms_session.set_nls('nls_date_format', :x); end;",
        "begin sys.anything; end;",
        "select 'open",
        "odd statement",
        "alter session set container = x",
        "alter session set edition = x",
        "alter session set current_schema = elsewhere",
        "with function f return number is begin return 1; end; select f from dual",
    ],
)
def test_attack_lineage_is_unknown_after_a_text_that_can_replace_the_table(text: str) -> None:
    assert origins(session(), "select note from orders", "NOTE") == ["orders.note"]
    assert origins(session(text), "select note from orders", "NOTE") == [None]


@pytest.mark.parametrize(
    "text",
    [
        "commit",
        "alter session set nls_date_format = 'YYYY'",
        "alter session set current_schema = hr",
        "insert into orders (note) values ('x')",
        "create index i on orders (note)",
        "create table x (a number)",
        "grant select on orders to x",
        "comment on table orders is 'x'",
        "truncate table orders",
        "select leak(1) from dual",
        "select not understood at all from orders",
        "begin p; end;",
        "call dbms_lob.read(:1)",
        "CALL DBMS_LOB.WRITE(:1)",
        "begin dbms_lob.createtemporary(:1, true); dbms_output.enable; end;",
        "begin execute immediate 'truncate table orders'; end;",
        "explain plan for select * from orders",
        "lock table orders in exclusive mode",
    ],
)
def test_lineage_stays_after_a_text_that_cannot_replace_the_table(text: str) -> None:
    assert origins(session(text), "select note from orders", "NOTE") == ["orders.note"]


def test_name_is_looked_up_in_each_schema_that_the_session_may_have_chosen() -> None:
    schema = target(USERS, ORDERS, STAFF, relation("ORDERS", "NOTE", "HR"), relation("ONLY", "A", "HR"))
    of = session("alter session set current_schema = hr", schema=schema)
    assert origins(of, "select note from orders", "NOTE") == [None]
    assert origins(of, "select a from only", "A") == ["only.a"]
    assert origins(of, "select email from users", "EMAIL") == ["users.email"]
    assert origins(of, "select note from shop.orders", "NOTE") == ["orders.note"]


LINE = "begin dbms_output.get_line(:a, :b); end;"
CONTEXT = "select sys_context('userenv', 'client_info') from dual"


@pytest.mark.parametrize("shows", [LINE, CONTEXT, "begin dbms_application_info.read_module(:a, :b); end;"])
@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("begin dbms_output.put_line('x'); end;", ""),
        ("begin for r in (select note from orders) loop dbms_output.put_line(r.note); end loop; end;", "orders.note"),
        ("declare v number; begin select id into v from users; dbms_application_info.set_action(v); end;", "users.id"),
        ("select email from users", ""),
        ("select leak(1) from users", None),
        ("select leak from users where leak(1) = 2", None),
        ("update users set name = 'x' where id = 1", None),
        ("begin insert into orders (id) values (1); end;", None),
        ("begin p; end;", None),
        ("call p(1)", None),
        ("select not understood at all from orders", None),
    ],
)  # fmt: skip
def test_session_shows_what_code_has_left_in_it(text: str, held: str | None, shows: str) -> None:
    assert origins(session(text), shows, "OUT1") == [held]


def test_function_in_a_view_may_leave_anything_in_the_session() -> None:
    view = relation("V", "A", definition="select id from orders where speak(id) = 1")
    schema = target(USERS, ORDERS, view)
    of = session("select a from v", schema=schema)
    assert origins(of, LINE, "OUT1") == [None]


def test_after_a_gap_nothing_is_known() -> None:
    of = session()
    of.record_gap()
    assert origins(of, "select note from orders", "NOTE") == [None]
    assert origins(of, LINE, "OUT1") == [None]
    assert origins(session(schema=None), "select note from orders", "NOTE") == [None]


def test_text_is_read_once_and_elsewhere_if_it_is_long() -> None:
    of = session()
    text = "select " + ", ".join(["email"] * 50) + " from users"
    unread = of.unread(text)
    assert unread is not None
    unread.keep(unread.task())
    assert of.unread(text) is None
    of.record_statement(text)
    assert of.unread(text) is None
    assert of.unread("x" * (MOST_TEXT + 1)) is None


def test_tags_are_those_of_the_relation_and_of_the_column() -> None:
    tagged = relation("T", "A B", tags=frozenset({"pii"}), column_tags={"A": frozenset({"email"})})
    of = session(schema=target(tagged))
    assert of.tags(ColumnRef("SHOP", "T", "A")) == {"pii", "email"}
    assert of.tags(ColumnRef("SHOP", "T", "B")) == {"pii"}
    assert of.tags(ColumnRef("SHOP", "X", "B")) == frozenset()
