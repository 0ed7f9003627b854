from __future__ import annotations

import pytest
from tests.inspection.lineage.test_lineage import ORDERS, relation, target

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

USERS = relation("users", "id email name", number=100)
VIEW = relation("v", "mail", number=101, definition="select public.users.email from public.users")


def session(*more: Relation, schema: TargetSchema | None = None) -> SessionLineage:
    known = schema or target(USERS, VIEW, ORDERS, *more)
    return SessionLineage(Lineage(), lambda: known)


def column(name: str = "x", table: int = 0, place: int = 0) -> Column:
    return Column(name, TextKind.TEXT, table, place)


def lineage_of(of: SessionLineage, text: str, *columns: Column) -> list[str | None] | None:
    found = of.of(text, columns)
    if found is None:
        return None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one.refs)) for one in found]


def test_row_description_gives_the_origin_of_a_plain_column() -> None:
    assert lineage_of(session(), "no sql at all (", column("email", 100, 2)) == ["users.email"]
    assert lineage_of(session(), "no sql at all (", column("mail", 101, 1)) == ["users.email v.mail"]
    assert lineage_of(session(), "no sql at all (", column("u", 100, 0)) == ["users.email users.id users.name"]
    assert lineage_of(session(), "no sql at all (", column("ctid", 100, -1)) == [""]


def test_column_of_a_table_outside_the_schema_snapshot_has_unknown_lineage() -> None:
    assert lineage_of(session(), "select email from users", column("email", 999, 2)) == [None]
    assert lineage_of(session(), "select email from users", column("email", 100, 99)) == [None]


def test_lineage_joins_the_sources_of_statement_and_row_description() -> None:
    assert lineage_of(session(), "select name from users", column("name", 100, 2)) == ["users.email users.name"]


def test_copy_without_a_row_description_has_the_columns_of_its_statement() -> None:
    assert lineage_of(session(), "copy (select email, 1 from users) to stdout") == ["users.email", ""]
    assert lineage_of(session(), "copy (select * from nowhere) to stdout") is None


def test_expanded_record_takes_the_columns_that_the_others_leave() -> None:
    text = "select id, (row(name, email)).*, 1 from users"
    some = "users.email users.name"
    assert lineage_of(session(), text, *[column()] * 5) == ["users.id", some, some, some, ""]
    assert lineage_of(session(), text, column()) == [None]


def test_lineage_is_unknown_if_the_column_count_differs_from_the_statement() -> None:
    assert lineage_of(session(), "select email from users", column(), column()) == [None, None]


def test_constants_have_known_lineage_without_a_schema_snapshot() -> None:
    nothing = SessionLineage(Lineage(), lambda: None)
    assert lineage_of(nothing, "select 1, email from users", column(), column()) == ["", None]


def test_lineage_follows_the_newest_schema_snapshot() -> None:
    known = [target(), target(USERS)]
    lineage = SessionLineage(Lineage(), lambda: known[0])
    assert lineage_of(lineage, "select email from users", column()) == [None]
    known.pop(0)
    assert lineage_of(lineage, "select email from users", column()) == ["users.email"]


def test_statement_in_a_batch_is_identified_by_the_columns_of_its_answer() -> None:
    text = "select 1 as a, 2 as b; select email as x from users; select name as y from users"
    assert lineage_of(session(), text, column("x")) == ["users.email"]
    assert lineage_of(session(), text, column("y")) == ["users.name"]
    assert lineage_of(session(), text, column("a"), column("b")) == ["", ""]
    both = "select email as x from users; select name as x from users"
    assert lineage_of(session(), both, column("x")) == ["users.email users.name"]


def test_fetch_and_execute_have_the_lineage_of_the_named_statement() -> None:
    of = session()
    of.record_statement("declare c cursor for select email from users")
    of.record_statement("prepare c as select name from users")
    assert lineage_of(of, "fetch 1 from c", column("email")) == ["users.email"]
    assert lineage_of(of, "execute c", column("name")) == ["users.name"]
    assert lineage_of(of, "fetch 1 from d", column("email")) == [None]


def test_attack_cursor_keeps_its_lineage_after_a_second_declaration_that_fails() -> None:
    of = session()
    of.record_statement("declare c cursor with hold for select email as x from users")
    of.record_statement("declare c cursor for select 'harmless' as x")  # fails: there is one of that name
    assert lineage_of(of, "fetch c", column("x")) == ["users.email"]


def test_cursor_redeclared_with_other_columns_has_the_new_lineage() -> None:
    of = session()
    of.record_statement("declare c cursor for select id, email from users")
    of.record_statement("close c")
    of.record_statement("declare c cursor for select id, note from orders")
    assert lineage_of(of, "fetch c", column("id"), column("note")) == ["orders.id", "orders.note"]


def test_attack_cursors_beyond_the_tracked_number_have_unknown_lineage() -> None:
    of = session()
    for n in range(1_000):
        of.record_statement(f"declare c{n} cursor for select name as x from users")
    assert lineage_of(of, "fetch c0", column("x")) == ["users.name"]
    assert lineage_of(of, "fetch c999", column("x")) == [None]
    for n in range(100):
        of.record_statement(f"declare c0 cursor for select {n} || name as x from users")
        of.record_statement(f"declare c0 cursor for select email || {n}, id as x from users where id = {n}")
    assert lineage_of(of, "fetch c0", column("x")) in ([None], ["users.name"])


def test_attack_lineage_is_unknown_after_a_statement_that_can_replace_the_table() -> None:
    for text in (
        "create temp table orders as select email as note from users",
        "create temp view orders as select email as note from users",
        "select email as note into temp orders from users",
        "explain analyze create temp table orders as select email as note from users",
        "select 1; create table if not exists orders (note text)",
        "do $$ begin null; end $$",
        "create schema authorization current_user",
        "import foreign schema s from server x into public",
    ):
        of = session()
        assert lineage_of(of, "select upper(note) from orders", column()) == ["orders.note"]
        of.record_statement(text)
        assert lineage_of(of, "select upper(note) from orders", column()) == [None], text


def test_statements_about_other_tables_leave_lineage_known() -> None:
    of = session()
    of.record_statement("create temp table mine (x text)")
    of.record_statement("begin; set work_mem = '1MB'; insert into orders (note) values ('x'); commit")
    assert lineage_of(of, "select upper(note) from orders", column()) == ["orders.note"]


def test_attack_replaced_view_has_unknown_lineage() -> None:
    of = session()
    of.record_statement("create or replace view v as select name from users")
    assert lineage_of(of, "select mail from v", column("mail", 101, 1)) == [None]


def test_attack_lineage_is_unknown_after_more_temporary_tables_than_are_tracked() -> None:
    of = session()
    for n in range(300):
        of.record_statement(f"create temp table t{n} (x text)")
    assert lineage_of(of, "select upper(note) from orders", column()) == [None]


def test_attack_setting_has_unknown_lineage_after_set_config_assigned_it() -> None:
    of = session()
    assert lineage_of(of, "show application_name", column()) == [""]
    of.record_statement("select set_config('application_name', email, false) from users")
    assert lineage_of(of, "show application_name", column()) == [None]
    assert lineage_of(of, "show my.own", column()) == [None]
    spelled = session()
    spelled.record_statement(r"""select U&"set\005fconfig"('application_name', email, false) from users""")
    assert lineage_of(spelled, "show application_name", column()) == [None]


def test_attack_shadowed_table_has_unknown_lineage_after_a_search_path_change() -> None:
    mine = relation("orders", "id user_id note", schema="mine")
    for text in ("set search_path = mine", "set schema 'mine'", "set local role x", "discard all", "reset all"):
        of = session(mine)
        assert lineage_of(of, "select upper(note) from orders", column()) == ["orders.note"]
        of.record_statement(text)
        assert lineage_of(of, "select upper(note) from orders", column()) == [None], text


def test_column_has_its_own_tags_and_those_of_its_table() -> None:
    tagged = relation("t", "a b", tags=frozenset({"pii"}), column_tags={"a": frozenset({"secret"})})
    of = session(tagged)
    found = of.of("select a, b from t", (column(), column()))
    assert found is not None
    tags = [set().union(*(of.tags(ref) for ref in one.refs)) for one in found if one is not None]
    assert tags == [{"pii", "secret"}, {"pii"}]


def test_attack_postgres_text_with_a_backslash_has_the_lineage_of_both_readings() -> None:
    """If standard_conforming_strings is off, the first literal is a quote and the next column shows the e-mail."""
    text = "select '\\'', upper(email) from users --', 1"
    assert lineage_of(session(), text, column("?column?"), column("upper")) == ["", "users.email"]
    aliased = "select '\\'', upper(email) as \"?column?\" from users --', 1"
    assert lineage_of(session(), aliased, column("?column?"), column("?column?")) == ["", "users.email"]
    copied = f"copy ({text}\n) to stdout"
    assert lineage_of(session(), copied) in (None, ["", "users.email"])


def test_backslash_without_ambiguity_leaves_lineage_known() -> None:
    text = "select email from users where name like '50\\%'"
    assert lineage_of(session(), text, column("email")) == ["users.email"]


def test_attack_cursor_over_an_ambiguous_text_has_the_lineage_of_both_readings() -> None:
    of = session()
    of.record_statement("declare c cursor for select '\\'', upper(email) from users --', 1")
    assert lineage_of(of, "fetch c", column("?column?"), column("upper")) == ["", "users.email"]


def test_lineage_follows_a_chain_of_150_operators() -> None:
    text = "select email || " + " || ".join(["name"] * 150) + " from users"
    assert lineage_of(session(), text, column()) == ["users.email users.name"]


def test_repeated_statement_is_read_with_the_current_session_state() -> None:
    of = session()
    for _ in range(2):
        of.record_statement("select email from users")
        assert lineage_of(of, "select email from users", column("email")) == ["users.email"]
    of.record_statement("create temp table users (email text)")
    of.record_statement("select email from users")
    assert lineage_of(of, "select email from users", column("email")) == [None]


@pytest.mark.parametrize(
    "text",
    [
        "select email from users",
        "insert into orders (note) select email from users",
        "update orders set note = email from users",
        "update a_table_before_pg_settings set x = 1",
        "delete from orders using users",
        "merge into orders using users on true when matched then delete",
        "select upper(email), now() from users",
        "select set_config('application_name', 'nightly', false)",
        "set work_mem = '1MB'",
        "create temp table mine as select email from users",
        "explain analyze update orders set note = email from users",
        "begin; savepoint s; rollback to s; commit",
    ],
)
def test_ordinary_statement_leaves_settings_names_and_cursors_known(text: str) -> None:
    of = session()
    of.record_statement("declare c cursor for select email from users")
    of.record_statement(text)
    assert lineage_of(of, "show application_name", column()) == [""]
    assert lineage_of(of, "select upper(note) from orders", column()) == ["orders.note"]
    assert lineage_of(of, "fetch c", column("email")) == ["users.email"]


@pytest.mark.parametrize(
    "text",
    [
        "update pg_settings set setting = email from users",
        "update pg_catalog.pg_settings set setting = email from users where pg_settings.name = 'application_name'",
        "with w as (update pg_settings set setting = email from users returning 1) select * from w",
        "select pg_catalog.set_config('application_name', email, false) from users",
        "select set_config('application_name', email::varchar::text, false) from users",
        "explain analyze select set_config('application_name', email, false) from users",
        "do $$ begin null; end $$",
        "call p()",
        "select leak()",
    ],
)
def test_attack_setting_is_unknown_after_a_statement_that_can_copy_a_value_into_it(text: str) -> None:
    of = session()
    assert lineage_of(of, "show application_name", column()) == [""]
    of.record_statement(text)
    assert lineage_of(of, "show application_name", column()) == [None]


def test_attack_batch_that_replaces_its_own_table_has_unknown_lineage() -> None:
    """Lineage uses the session state after the batch, not the state when it was sent."""
    of = session()
    text = "create temp table users as select note as email from orders; select email from users"
    of.record_statement(text)
    assert lineage_of(of, text, column("email")) == [None]


def test_lineage_cursors_and_settings_are_unknown_after_a_gap() -> None:
    of = session()
    text = "select email from users"
    of.record_statement("declare c cursor for select email from users")
    of.record_statement(text)
    assert lineage_of(of, text, column("email")) == ["users.email"]
    of.record_gap()
    assert lineage_of(of, text, column("email")) == [None]
    assert lineage_of(of, "fetch c", column("email")) == [None]
    assert lineage_of(of, "show application_name", column()) == [None]


@pytest.mark.parametrize("follows", ["the same", "another snapshot", "doubts"])
def test_statement_is_read_again_only_after_a_new_snapshot_or_doubts(follows: str) -> None:
    known = [target(USERS), target(USERS, ORDERS)]
    of = SessionLineage(Lineage(), lambda: known[0])
    text = "select email from users"
    assert of.unread(text) is not None
    of.record_statement(text)
    if follows == "another snapshot":
        known.pop(0)
    elif follows == "doubts":
        of.record_gap()
    assert (of.unread(text) is None) == (follows == "the same")
    assert of.unread("select name from users") is not None
