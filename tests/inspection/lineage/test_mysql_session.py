from __future__ import annotations

import pytest
from tests.inspection.lineage.test_mysql_lineage import ORDERS, USERS, relation, target

from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage

VIEW = relation("v", "mail", definition="select `shop`.`users`.`email` AS `mail` from `shop`.`users`")
OTHER = relation("users", "id secret", schema="hr")


def session(*more: Relation, schema: TargetSchema | None = None) -> MySqlSessionLineage:
    known = schema or target(USERS, VIEW, ORDERS, OTHER, *more)
    return MySqlSessionLineage(MySqlLineage(), lambda: known)


def column(name: str = "x", schema: str = "", table: str = "", of: str = "") -> Column:
    return Column(name, TextKind.TEXT, origin=(schema, table, of))


def told(of: MySqlSessionLineage, text: str, *columns: Column) -> list[str | None] | None:
    of.record_statement(text)
    found = of.of(text, columns)
    if found is None:
        return None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one.refs)) for one in found]


def test_both_words_count() -> None:
    assert told(session(), "select name from users", column("name", "shop", "users", "email")) == [
        "users.email users.name"
    ]
    assert told(session(), "select mail from v", column("mail", "shop", "v", "mail")) == ["users.email v.mail"]
    assert told(session(), "select name from users", column("name", "", "users", "email")) == ["users.email users.name"]


def test_attack_the_targets_word_is_an_alias() -> None:
    """MariaDB says shop.orders.note of this, and so it cannot be believed where the statement is not understood."""
    said = column("note", "shop", "orders", "note")
    assert told(session(), "select note from (select email as note from users) orders", said) == [
        "orders.note users.email"
    ]
    odd = "select note from (select email as note from users procedure analyse()) orders"
    assert told(session(), odd, said) == [None]


def test_another_number_of_columns_is_unknown() -> None:
    assert told(session(), "select email from users", column(), column()) == [None, None]


def test_without_a_snapshot_constants_are_known() -> None:
    nothing = MySqlSessionLineage(MySqlLineage(), lambda: None)
    assert told(nothing, "select 1, email from users", column("1"), column("email")) == ["", None]


def test_variables_are_followed_and_keep_what_they_may_hold() -> None:
    of = session()
    of.record_statement("set @x = 1, @Y = (select email from users)")
    assert told(of, "select @x, @y, @`Y`", column(), column(), column()) == ["", "users.email", "users.email"]
    of.record_statement("set @y = 'harmless'")  # it may have failed
    assert told(of, "select @y", column()) == ["users.email"]
    of.record_statement("select name into @x from users")
    assert told(of, "select @x", column()) == ["users.name"]
    of.record_statement("set @z = @x")
    assert told(of, "select @z, @never", column(), column()) == ["users.name", ""]


@pytest.mark.parametrize(
    "text",
    [
        "call p()",
        "select leak()",
        "update orders set note = leak()",
        "begin not atomic set @x = (select email from users); end",
        "get diagnostics condition 1 @x = message_text",
        "load data local infile 'x' into table orders (@x, note)",
        "prepare s from concat('select email', @what); execute s",
        "execute never_prepared",
        "select email into @x from users where (",
        "do leak()",
        "set @y = leak()",
        "show tables where (select @x := max(email) from users) > ''",
        "create temporary table mine as select @x := email from users",
    ],
)
def test_attack_a_variable_that_somebody_else_fills(text: str) -> None:
    of = session()
    assert told(of, "select @x", column()) == [""]
    of.record_statement(text)
    assert told(of, "select @x", column()) == [None]


def test_attack_a_variable_that_a_row_hands_to_the_next() -> None:
    assert told(session(), "select @a, @a := @b, @b := email from users", *[column("x")] * 3) == ["users.email"] * 3


def test_prepared_statements_are_known_by_their_names() -> None:
    of = session()
    of.record_statement("prepare s from 'select email from users'")
    assert told(of, "execute S", column("email")) == ["users.email"]
    of.record_statement("prepare s from 'select name from users'")
    assert told(of, "execute s", column("name")) == ["users.name"]
    assert told(of, "execute t", column("email")) == [None]


def test_what_a_variable_holds_is_what_is_prepared() -> None:
    of = session()
    of.record_statement("set @q = concat('select ', 'email', ' from users')")
    of.record_statement("prepare s from @q")
    assert told(of, "execute s", column("email")) == ["users.email"]
    of.record_statement("select note into @q from orders")
    of.record_statement("prepare t from @q")
    assert told(of, "execute t", column("x")) == [None]


def test_what_is_given_to_a_prepared_statement_shows() -> None:
    of = session()
    of.record_statement("set @e = (select email from users)")
    of.record_statement("prepare s from 'select concat(?, name) from users'")
    assert told(of, "execute s using @e", column("x")) == ["users.email users.name"]


def test_handlers_are_known_by_their_names() -> None:
    of = session()
    of.record_statement("handler users open as h")
    assert told(of, "handler h read first", column("id"), column("email"), column("name")) == [
        "users.id",
        "users.email",
        "users.name",
    ]
    assert told(of, "handler g read first", column("id")) == [None]


@pytest.mark.parametrize(
    "text",
    [
        "create temporary table orders as select email as note from users",
        "create or replace view orders as select email as note from users",
        "create table if not exists `Orders` (note text)",
        "alter table users rename to orders",
        "rename table users to orders",
        "alter table users rename orders",
        "alter table users rename as orders",
        "alter table users rename = orders",
        "alter table users rename to shop.orders",
        "rename table orders to o2, users to orders",
        "drop table orders",
        "select 1; create temporary table orders (note text)",
        "begin not atomic create temporary table orders (note text); end",
        "no sql at all (",
    ],
)
def test_attack_a_temporary_table_shadows_one_that_is_known(text: str) -> None:
    of = session()
    assert told(of, "select upper(note) from orders", column("upper(note)")) == ["orders.note"]
    of.record_statement(text)
    assert told(of, "select upper(note) from orders", column("upper(note)")) == [None]


def test_what_a_session_changes_elsewhere_leaves_the_rest_known() -> None:
    of = session()
    for text in (
        "create temporary table mine (x text)",
        "start transaction",
        "set autocommit = 0, names utf8mb4",
        "set @@session.time_zone = '+00:00'",
        "insert into orders (note) values ('x')",
        "create index i on users (email)",
        "lock tables users read",
        "analyze table users",
        "flush tables",
        "commit",
    ):
        of.record_statement(text)
    assert told(of, "select upper(note) from orders", column("x")) == ["orders.note"]


@pytest.mark.parametrize(
    "text",
    [
        "select get_lock('a', 1), release_lock('a'), is_free_lock('a'), release_all_locks()",
        "do sleep(0)",
        "do get_lock('a', 1)",
        "select benchmark(10, md5('x')), @y",
        "set @y = get_lock('a', 1)",
        "update users set email = 'x' where get_lock('a', 1)",
        "select email into @y from users",
        "insert into orders (note) select email from users",
        "set session sql_mode = 'ansi'",
        "handler users open",
        "rename table users to elsewhere",
        "alter table users rename elsewhere",
        "alter table users rename to elsewhere, add column x int",
        "alter table users rename as elsewhere",
        "alter table users rename column name to title",
    ],
)
def test_ordinary_statement_leaves_variables_settings_and_names_known(text: str) -> None:
    of = session()
    of.record_statement(text)
    assert told(of, "select @x, @@group_concat_max_len", column(), column()) == ["", ""]
    assert told(of, "select upper(note) from orders", column("x")) == ["orders.note"]


@pytest.mark.parametrize("name", ["get_lock", "sleep", "benchmark"])
def test_attack_function_with_the_name_of_one_that_changes_nothing(name: str) -> None:
    own = target(USERS, ORDERS, functions=(Function("shop", name, harmless=False),))
    for schema, text in (
        (own, f"select {name}('a', 1)"),
        (own, f"select shop.{name}('a', 1)"),
        (None, f"select x.{name}(1)"),
    ):
        of = session(schema=schema)
        assert told(of, "select @x", column()) == [""]
        of.record_statement(text)
        assert told(of, "select @x", column()) == [None], text


def test_missed_statements_make_what_was_just_read_unknown() -> None:
    of = session()
    text = "select email from users"
    assert told(of, text, column("email")) == ["users.email"]
    of.record_gap()
    found = of.of(text, (column("email"),))
    assert found == (None,)


def test_a_database_that_is_used_counts_besides_the_first() -> None:
    of = session()
    of.record_statement("use hr")
    assert told(of, "select secret from users", column("secret")) == ["users.secret"]
    assert told(of, "select * from users", column("id"), column("secret")) == ["users.id", "users.secret"]
    assert told(of, "select email from users", column("email")) == ["users.email"]


def test_attack_more_databases_than_are_kept() -> None:
    of = session()
    for n in range(20):
        of.record_statement(f"use d{n}")
    assert told(of, "select secret from users", column("secret")) == [None]
    assert told(of, "select note from orders", column("note")) == ["orders.note"]  # there is one only


def test_attack_a_plan_that_quotes_what_it_has_read() -> None:
    of = session()
    plan = "explain select * from users where email = 'x'"
    assert told(of, plan, *[column()] * 10) == [""] * 10
    assert told(of, plan, column("EXPLAIN")) == [None]
    assert told(of, "explain format=json select * from users", column("EXPLAIN")) == [None]
    assert told(of, "explain format=traditional select * from users", *[column()] * 12) == [""] * 12
    assert told(of, "explain analyze select * from users", column("EXPLAIN")) == [None]


def test_attack_messages_quote_values() -> None:
    said = ("show warnings", "show errors limit 1", "show count(*) warnings", "show count(*) errors")
    for text in (*said, "show engine innodb status", "show full processlist"):
        assert told(session(), text, column("Message")) == [None], text
    for text in ("show tables", "show full columns from users", "show create table users", "describe users"):
        assert told(session(), text, column("Field"), column("b")) == ["", ""], text


def test_attack_a_setting_that_carries_a_value() -> None:
    of = session()
    assert told(of, "select @@group_concat_max_len", column()) == [""]
    of.record_statement("set group_concat_max_len = (select id from users)")
    assert told(of, "select @@group_concat_max_len", column()) == [None]
    assert told(of, "show variables", column(), column()) == [None, None]


def test_attack_counts_of_warnings_tell_what_went_wrong_with_values() -> None:
    of = session()
    assert told(of, "select @@warning_count, @@session.error_count, 1", *[column()] * 3) == [None, None, ""]
    of.record_statement("set @k = @@warning_count")
    assert told(of, "select @k", column()) == [None]


@pytest.mark.parametrize(
    ("text", "is_calm"),
    [
        ("show status", False),
        ("show session status like 'bytes_sent'", False),
        ("show local status like 'b%'", False),
        ("show status like '%'", False),
        ("show status like concat('threads')", False),
        ("show status where variable_name = 'Bytes_sent'", False),
        ("show session status like 'Ssl_cipher'", True),
        ("show status like 'Threads%'", True),
        ("show global status", True),
    ],
)
def test_attack_counters_of_the_session_tell_lengths_of_values(text: str, is_calm: bool) -> None:
    assert told(session(), text, column("Variable_name"), column("Value")) == ["", "" if is_calm else None]


def test_attack_tables_of_counters_tell_lengths_of_values() -> None:
    for table in ("information_schema.session_status", "performance_schema.session_status"):
        assert told(session(), f"select variable_value from {table}", column()) == [None], table


def test_attack_an_id_that_is_kept() -> None:
    of = session()
    of.record_statement("update orders set user_id = last_insert_id(user_id)")
    assert told(of, "select last_insert_id(), @@identity", column(), column()) == ["orders.user_id"] * 2


def test_what_was_missed_may_have_done_anything() -> None:
    of = session()
    of.record_gap()
    assert told(of, "select @x, 1", column(), column("1")) == [None, ""]
    assert told(of, "select email from users", column("email")) == [None]


def test_attack_a_backslash_that_ends_a_text_in_one_way_and_not_in_the_other() -> None:
    text = "select 'a\\', upper(email), 'b' from users -- '"
    assert told(session(), text, column("a\\"), column("x"), column("b")) == ["", "users.email", ""]


def test_attack_a_quote_that_is_a_name_in_one_mode() -> None:
    assert told(session(), 'select "email" as x from users', column("x")) == ["users.email"]


def test_a_view_that_calls_code_may_fill_variables() -> None:
    calling = relation("w", "id", definition="select `shop`.`leak`() AS `id`")
    schema = target(USERS, ORDERS, calling, functions=(Function("shop", "leak", harmless=False),))
    of = session(schema=schema)
    of.record_statement("select note from orders")
    assert told(of, "select @x", column()) == [""]
    of.record_statement("select 1 from w")
    assert told(of, "select @x", column()) == [None]


def test_tags_of_a_column_are_its_own_and_those_of_its_table() -> None:
    tagged = relation("t", "a b", tags=frozenset({"pii"}), column_tags={"a": frozenset({"secret"})})
    of = session(tagged)
    found = of.of("select a, b from t", (column("a"), column("b")))
    assert found is not None
    tags = [set().union(*(of.tags(ref) for ref in one.refs)) for one in found if one is not None]
    assert tags == [{"pii", "secret"}, {"pii"}]


def test_a_text_of_several_statements_is_known_by_the_columns_of_each() -> None:
    text = "select 1 as a, 2 as b; select email as x from users; select name as y from users"
    assert told(session(), text, column("x")) == ["users.email"]
    assert told(session(), text, column("Y")) == ["users.name"]
    both = "select email as x from users; select name as x from users"
    assert told(session(), both, column("x")) == ["users.email users.name"]


@pytest.mark.parametrize(
    "setting", ["set collation_connection = swe7_swedish_ci", "set collation_connection = @x", "set character set utf8"]
)
def test_attack_a_name_that_is_code_in_another_character_set(setting: str) -> None:
    """MariaDB 10.11 shows the e-mail address here: SWE7 has no backtick, and prepares a question mark for each."""
    of = session()
    of.record_statement(setting)
    of.record_statement("prepare p from 'select `, (select email from users limit 1), `'")
    assert told(of, "execute p using @x, @x", column(), column(), column()) == [None] * 3


def test_attack_a_name_that_ends_elsewhere_in_another_character_set() -> None:
    of = session()
    of.record_statement("prepare p from _gbk'select 1 `\u4f60`, `, (select email from users limit 1) `\u4f60`'")
    assert told(of, "execute p", column(), column()) == [None, None]
