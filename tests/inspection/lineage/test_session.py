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


def told(of: SessionLineage, text: str, *columns: Column) -> list[str | None] | None:
    found = of.of(text, columns)
    if found is None:
        return None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one.refs)) for one in found]


def test_the_description_of_an_answer_tells_where_a_plain_column_is_from() -> None:
    assert told(session(), "no sql at all (", column("email", 100, 2)) == ["users.email"]
    assert told(session(), "no sql at all (", column("mail", 101, 1)) == ["users.email v.mail"]
    assert told(session(), "no sql at all (", column("u", 100, 0)) == ["users.email users.id users.name"]
    assert told(session(), "no sql at all (", column("ctid", 100, -1)) == [""]


def test_a_table_that_is_not_known_is_unknown_whatever_the_statement_says() -> None:
    assert told(session(), "select email from users", column("email", 999, 2)) == [None]
    assert told(session(), "select email from users", column("email", 100, 99)) == [None]


def test_both_words_count() -> None:
    assert told(session(), "select name from users", column("name", 100, 2)) == ["users.email users.name"]


def test_without_a_description_there_are_as_many_as_the_statement_has() -> None:
    assert told(session(), "copy (select email, 1 from users) to stdout") == ["users.email", ""]
    assert told(session(), "copy (select * from nowhere) to stdout") is None


def test_columns_that_cannot_be_counted_take_what_is_left() -> None:
    text = "select id, (row(name, email)).*, 1 from users"
    some = "users.email users.name"
    assert told(session(), text, *[column()] * 5) == ["users.id", some, some, some, ""]
    assert told(session(), text, column()) == [None]


def test_another_number_of_columns_is_unknown() -> None:
    assert told(session(), "select email from users", column(), column()) == [None, None]


def test_without_a_snapshot_constants_are_known() -> None:
    nothing = SessionLineage(Lineage(), lambda: None)
    assert told(nothing, "select 1, email from users", column(), column()) == ["", None]


def test_another_snapshot_takes_the_place_of_an_old_one() -> None:
    known = [target(), target(USERS)]
    lineage = SessionLineage(Lineage(), lambda: known[0])
    assert told(lineage, "select email from users", column()) == [None]
    known.pop(0)
    assert told(lineage, "select email from users", column()) == ["users.email"]


def test_a_text_of_several_statements_is_known_by_the_columns_of_each() -> None:
    text = "select 1 as a, 2 as b; select email as x from users; select name as y from users"
    assert told(session(), text, column("x")) == ["users.email"]
    assert told(session(), text, column("y")) == ["users.name"]
    assert told(session(), text, column("a"), column("b")) == ["", ""]
    both = "select email as x from users; select name as x from users"
    assert told(session(), both, column("x")) == ["users.email users.name"]


def test_cursors_and_prepared_statements_are_known_by_their_names() -> None:
    of = session()
    of.record_statement("declare c cursor for select email from users")
    of.record_statement("prepare c as select name from users")
    assert told(of, "fetch 1 from c", column("email")) == ["users.email"]
    assert told(of, "execute c", column("name")) == ["users.name"]
    assert told(of, "fetch 1 from d", column("email")) == [None]


def test_attack_a_cursor_that_is_declared_again_in_vain() -> None:
    of = session()
    of.record_statement("declare c cursor with hold for select email as x from users")
    of.record_statement("declare c cursor for select 'harmless' as x")  # fails: there is one of that name
    assert told(of, "fetch c", column("x")) == ["users.email"]


def test_a_cursor_of_that_name_with_other_columns_is_another() -> None:
    of = session()
    of.record_statement("declare c cursor for select id, email from users")
    of.record_statement("close c")
    of.record_statement("declare c cursor for select id, note from orders")
    assert told(of, "fetch c", column("id"), column("note")) == ["orders.id", "orders.note"]


def test_attack_more_cursors_than_are_kept() -> None:
    of = session()
    for n in range(1_000):
        of.record_statement(f"declare c{n} cursor for select name as x from users")
    assert told(of, "fetch c0", column("x")) == ["users.name"]
    assert told(of, "fetch c999", column("x")) == [None]
    for n in range(100):
        of.record_statement(f"declare c0 cursor for select {n} || name as x from users")
        of.record_statement(f"declare c0 cursor for select email || {n}, id as x from users where id = {n}")
    assert told(of, "fetch c0", column("x")) in ([None], ["users.name"])


def test_attack_a_temporary_table_shadows_one_that_is_known() -> None:
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
        assert told(of, "select upper(note) from orders", column()) == ["orders.note"]
        of.record_statement(text)
        assert told(of, "select upper(note) from orders", column()) == [None], text


def test_what_a_session_changes_elsewhere_leaves_the_rest_known() -> None:
    of = session()
    of.record_statement("create temp table mine (x text)")
    of.record_statement("begin; set work_mem = '1MB'; insert into orders (note) values ('x'); commit")
    assert told(of, "select upper(note) from orders", column()) == ["orders.note"]


def test_attack_a_view_that_was_replaced() -> None:
    of = session()
    of.record_statement("create or replace view v as select name from users")
    assert told(of, "select mail from v", column("mail", 101, 1)) == [None]


def test_attack_more_names_than_are_kept() -> None:
    of = session()
    for n in range(300):
        of.record_statement(f"create temp table t{n} (x text)")
    assert told(of, "select upper(note) from orders", column()) == [None]


def test_attack_a_setting_that_carries_a_value() -> None:
    of = session()
    assert told(of, "show application_name", column()) == [""]
    of.record_statement("select set_config('application_name', email, false) from users")
    assert told(of, "show application_name", column()) == [None]
    assert told(of, "show my.own", column()) == [None]
    spelled = session()
    spelled.record_statement(r"""select U&"set\005fconfig"('application_name', email, false) from users""")
    assert told(spelled, "show application_name", column()) == [None]


def test_attack_a_path_that_was_changed() -> None:
    mine = relation("orders", "id user_id note", schema="mine")
    for text in ("set search_path = mine", "set schema 'mine'", "set local role x", "discard all", "reset all"):
        of = session(mine)
        assert told(of, "select upper(note) from orders", column()) == ["orders.note"]
        of.record_statement(text)
        assert told(of, "select upper(note) from orders", column()) == [None], text


def test_tags_of_a_column_are_its_own_and_those_of_its_table() -> None:
    tagged = relation("t", "a b", tags=frozenset({"pii"}), column_tags={"a": frozenset({"secret"})})
    of = session(tagged)
    found = of.of("select a, b from t", (column(), column()))
    assert found is not None
    tags = [set().union(*(of.tags(ref) for ref in one.refs)) for one in found if one is not None]
    assert tags == [{"pii", "secret"}, {"pii"}]


def test_attack_a_backslash_that_ends_a_text_in_one_way_and_not_in_the_other() -> None:
    """Where standard_conforming_strings is off, the first text is a quote, and what follows shows the e-mail."""
    text = "select '\\'', upper(email) from users --', 1"
    assert told(session(), text, column("?column?"), column("upper")) == ["", "users.email"]
    aliased = "select '\\'', upper(email) as \"?column?\" from users --', 1"
    assert told(session(), aliased, column("?column?"), column("?column?")) == ["", "users.email"]
    copied = f"copy ({text}\n) to stdout"
    assert told(session(), copied) in (None, ["", "users.email"])


def test_a_backslash_that_means_the_same_in_both_ways_costs_nothing() -> None:
    text = "select email from users where name like '50\\%'"
    assert told(session(), text, column("email")) == ["users.email"]


def test_attack_a_cursor_over_a_text_that_is_read_in_two_ways() -> None:
    of = session()
    of.record_statement("declare c cursor for select '\\'', upper(email) from users --', 1")
    assert told(of, "fetch c", column("?column?"), column("upper")) == ["", "users.email"]


def test_long_chains_of_operators_are_followed() -> None:
    text = "select email || " + " || ".join(["name"] * 150) + " from users"
    assert told(session(), text, column()) == ["users.email users.name"]


def test_a_statement_that_comes_again_is_read_by_what_has_happened_since() -> None:
    of = session()
    for _ in range(2):
        of.record_statement("select email from users")
        assert told(of, "select email from users", column("email")) == ["users.email"]
    of.record_statement("create temp table users (email text)")
    of.record_statement("select email from users")
    assert told(of, "select email from users", column("email")) == [None]


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
    assert told(of, "show application_name", column()) == [""]
    assert told(of, "select upper(note) from orders", column()) == ["orders.note"]
    assert told(of, "fetch c", column("email")) == ["users.email"]


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
def test_attack_statement_that_may_copy_a_value_into_a_setting(text: str) -> None:
    of = session()
    assert told(of, "show application_name", column()) == [""]
    of.record_statement(text)
    assert told(of, "show application_name", column()) == [None]


def test_attack_statement_that_changes_what_its_own_names_mean() -> None:
    """The answer is read by what the session knows after the text, not by what it knew when the text was sent."""
    of = session()
    text = "create temp table users as select note as email from orders; select email from users"
    of.record_statement(text)
    assert told(of, text, column("email")) == [None]


def test_missed_statements_make_what_was_just_read_unknown() -> None:
    of = session()
    text = "select email from users"
    of.record_statement("declare c cursor for select email from users")
    of.record_statement(text)
    assert told(of, text, column("email")) == ["users.email"]
    of.record_gap()
    assert told(of, text, column("email")) == [None]
    assert told(of, "fetch c", column("email")) == [None]
    assert told(of, "show application_name", column()) == [None]


@pytest.mark.parametrize("follows", ["the same", "another snapshot", "doubts"])
def test_only_an_unchanged_session_answers_without_reading_again(follows: str) -> None:
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
