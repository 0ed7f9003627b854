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


def lineage_of(of: MySqlSessionLineage, text: str, *columns: Column) -> list[str | None] | None:
    of.record_statement(text)
    found = of.of(text, columns)
    if found is None:
        return None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one.refs)) for one in found]


def test_lineage_joins_the_sources_of_statement_and_result_metadata() -> None:
    assert lineage_of(session(), "select name from users", column("name", "shop", "users", "email")) == [
        "users.email users.name"
    ]
    assert lineage_of(session(), "select mail from v", column("mail", "shop", "v", "mail")) == ["users.email v.mail"]
    assert lineage_of(session(), "select name from users", column("name", "", "users", "email")) == [
        "users.email users.name"
    ]


def test_attack_column_origin_reported_by_the_target_is_not_trusted_alone() -> None:
    """MariaDB reports the origin shop.orders.note here. It cannot be trusted if the statement cannot be parsed."""
    said = column("note", "shop", "orders", "note")
    assert lineage_of(session(), "select note from (select email as note from users) orders", said) == [
        "orders.note users.email"
    ]
    odd = "select note from (select email as note from users procedure analyse()) orders"
    assert lineage_of(session(), odd, said) == [None]


def test_lineage_is_unknown_if_the_column_count_differs_from_the_statement() -> None:
    assert lineage_of(session(), "select email from users", column(), column()) == [None, None]


def test_constants_have_known_lineage_without_a_schema_snapshot() -> None:
    nothing = MySqlSessionLineage(MySqlLineage(), lambda: None)
    assert lineage_of(nothing, "select 1, email from users", column("1"), column("email")) == ["", None]


def test_variable_keeps_the_lineage_of_every_value_that_it_can_hold() -> None:
    of = session()
    of.record_statement("set @x = 1, @Y = (select email from users)")
    assert lineage_of(of, "select @x, @y, @`Y`", column(), column(), column()) == ["", "users.email", "users.email"]
    of.record_statement("set @y = 'harmless'")  # it may have failed
    assert lineage_of(of, "select @y", column()) == ["users.email"]
    of.record_statement("select name into @x from users")
    assert lineage_of(of, "select @x", column()) == ["users.name"]
    of.record_statement("set @z = @x")
    assert lineage_of(of, "select @z, @never", column(), column()) == ["users.name", ""]


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
def test_attack_variable_is_unknown_after_a_statement_that_can_fill_it_indirectly(text: str) -> None:
    of = session()
    assert lineage_of(of, "select @x", column()) == [""]
    of.record_statement(text)
    assert lineage_of(of, "select @x", column()) == [None]


def test_attack_variable_that_carries_a_value_to_the_next_row_keeps_its_lineage() -> None:
    assert (
        lineage_of(session(), "select @a, @a := @b, @b := email from users", *[column("x")] * 3) == ["users.email"] * 3
    )


def test_execute_has_the_lineage_of_the_prepared_statement_of_its_name() -> None:
    of = session()
    of.record_statement("prepare s from 'select email from users'")
    assert lineage_of(of, "execute S", column("email")) == ["users.email"]
    of.record_statement("prepare s from 'select name from users'")
    assert lineage_of(of, "execute s", column("name")) == ["users.name"]
    assert lineage_of(of, "execute t", column("email")) == [None]


def test_prepare_from_a_variable_has_the_lineage_of_the_text_in_the_variable() -> None:
    of = session()
    of.record_statement("set @q = concat('select ', 'email', ' from users')")
    of.record_statement("prepare s from @q")
    assert lineage_of(of, "execute s", column("email")) == ["users.email"]
    of.record_statement("select note into @q from orders")
    of.record_statement("prepare t from @q")
    assert lineage_of(of, "execute t", column("x")) == [None]


def test_lineage_of_execute_includes_its_arguments() -> None:
    of = session()
    of.record_statement("set @e = (select email from users)")
    of.record_statement("prepare s from 'select concat(?, name) from users'")
    assert lineage_of(of, "execute s using @e", column("x")) == ["users.email users.name"]


def test_handler_read_has_the_lineage_of_the_table_that_was_opened() -> None:
    of = session()
    of.record_statement("handler users open as h")
    assert lineage_of(of, "handler h read first", column("id"), column("email"), column("name")) == [
        "users.id",
        "users.email",
        "users.name",
    ]
    assert lineage_of(of, "handler g read first", column("id")) == [None]


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
def test_attack_lineage_is_unknown_after_a_statement_that_can_replace_the_table(text: str) -> None:
    of = session()
    assert lineage_of(of, "select upper(note) from orders", column("upper(note)")) == ["orders.note"]
    of.record_statement(text)
    assert lineage_of(of, "select upper(note) from orders", column("upper(note)")) == [None]


def test_statements_about_other_tables_leave_lineage_known() -> None:
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
    assert lineage_of(of, "select upper(note) from orders", column("x")) == ["orders.note"]


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
    assert lineage_of(of, "select @x, @@group_concat_max_len", column(), column()) == ["", ""]
    assert lineage_of(of, "select upper(note) from orders", column("x")) == ["orders.note"]


@pytest.mark.parametrize("name", ["get_lock", "sleep", "benchmark"])
def test_attack_variables_are_unknown_after_a_user_function_named_like_a_harmless_builtin(name: str) -> None:
    own = target(USERS, ORDERS, functions=(Function("shop", name, harmless=False),))
    for schema, text in (
        (own, f"select {name}('a', 1)"),
        (own, f"select shop.{name}('a', 1)"),
        (None, f"select x.{name}(1)"),
    ):
        of = session(schema=schema)
        assert lineage_of(of, "select @x", column()) == [""]
        of.record_statement(text)
        assert lineage_of(of, "select @x", column()) == [None], text


def test_lineage_is_unknown_after_a_gap_in_the_recorded_statements() -> None:
    of = session()
    text = "select email from users"
    assert lineage_of(of, text, column("email")) == ["users.email"]
    of.record_gap()
    found = of.of(text, (column("email"),))
    assert found == (None,)


def test_tables_are_resolved_in_the_default_and_in_the_used_database() -> None:
    of = session()
    of.record_statement("use hr")
    assert lineage_of(of, "select secret from users", column("secret")) == ["users.secret"]
    assert lineage_of(of, "select * from users", column("id"), column("secret")) == ["users.id", "users.secret"]
    assert lineage_of(of, "select email from users", column("email")) == ["users.email"]


def test_attack_lineage_is_unknown_after_more_use_statements_than_are_tracked() -> None:
    of = session()
    for n in range(20):
        of.record_statement(f"use d{n}")
    assert lineage_of(of, "select secret from users", column("secret")) == [None]
    assert lineage_of(of, "select note from orders", column("note")) == ["orders.note"]  # there is one only


def test_attack_explain_formats_that_quote_values_have_unknown_lineage() -> None:
    of = session()
    plan = "explain select * from users where email = 'x'"
    assert lineage_of(of, plan, *[column()] * 10) == [""] * 10
    assert lineage_of(of, plan, column("EXPLAIN")) == [None]
    assert lineage_of(of, "explain format=json select * from users", column("EXPLAIN")) == [None]
    assert lineage_of(of, "explain format=traditional select * from users", *[column()] * 12) == [""] * 12
    assert lineage_of(of, "explain analyze select * from users", column("EXPLAIN")) == [None]


def test_attack_show_statements_that_quote_values_have_unknown_lineage() -> None:
    said = ("show warnings", "show errors limit 1", "show count(*) warnings", "show count(*) errors")
    for text in (*said, "show engine innodb status", "show full processlist"):
        assert lineage_of(session(), text, column("Message")) == [None], text
    for text in ("show tables", "show full columns from users", "show create table users", "describe users"):
        assert lineage_of(session(), text, column("Field"), column("b")) == ["", ""], text


def test_attack_setting_has_unknown_lineage_after_a_query_assigned_it() -> None:
    of = session()
    assert lineage_of(of, "select @@group_concat_max_len", column()) == [""]
    of.record_statement("set group_concat_max_len = (select id from users)")
    assert lineage_of(of, "select @@group_concat_max_len", column()) == [None]
    assert lineage_of(of, "show variables", column(), column()) == [None, None]


def test_attack_warning_and_error_counts_have_unknown_lineage() -> None:
    of = session()
    assert lineage_of(of, "select @@warning_count, @@session.error_count, 1", *[column()] * 3) == [None, None, ""]
    of.record_statement("set @k = @@warning_count")
    assert lineage_of(of, "select @k", column()) == [None]


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
def test_attack_session_byte_counters_have_unknown_lineage(text: str, is_calm: bool) -> None:
    assert lineage_of(session(), text, column("Variable_name"), column("Value")) == ["", "" if is_calm else None]


def test_attack_session_status_tables_have_unknown_lineage() -> None:
    for table in ("information_schema.session_status", "performance_schema.session_status"):
        assert lineage_of(session(), f"select variable_value from {table}", column()) == [None], table


def test_attack_last_insert_id_has_the_lineage_of_the_column_that_set_it() -> None:
    of = session()
    of.record_statement("update orders set user_id = last_insert_id(user_id)")
    assert lineage_of(of, "select last_insert_id(), @@identity", column(), column()) == ["orders.user_id"] * 2


def test_variables_and_tables_have_unknown_lineage_after_a_gap() -> None:
    of = session()
    of.record_gap()
    assert lineage_of(of, "select @x, 1", column(), column("1")) == [None, ""]
    assert lineage_of(of, "select email from users", column("email")) == [None]


def test_attack_mysql_text_with_a_backslash_has_the_lineage_of_both_readings() -> None:
    text = "select 'a\\', upper(email), 'b' from users -- '"
    assert lineage_of(session(), text, column("a\\"), column("x"), column("b")) == ["", "users.email", ""]


def test_attack_double_quoted_text_has_the_lineage_of_a_column_name() -> None:
    assert lineage_of(session(), 'select "email" as x from users', column("x")) == ["users.email"]


def test_variables_are_unknown_after_a_view_that_calls_a_user_function() -> None:
    calling = relation("w", "id", definition="select `shop`.`leak`() AS `id`")
    schema = target(USERS, ORDERS, calling, functions=(Function("shop", "leak", harmless=False),))
    of = session(schema=schema)
    of.record_statement("select note from orders")
    assert lineage_of(of, "select @x", column()) == [""]
    of.record_statement("select 1 from w")
    assert lineage_of(of, "select @x", column()) == [None]


def test_column_has_its_own_tags_and_those_of_its_table() -> None:
    tagged = relation("t", "a b", tags=frozenset({"pii"}), column_tags={"a": frozenset({"secret"})})
    of = session(tagged)
    found = of.of("select a, b from t", (column("a"), column("b")))
    assert found is not None
    tags = [set().union(*(of.tags(ref) for ref in one.refs)) for one in found if one is not None]
    assert tags == [{"pii", "secret"}, {"pii"}]


def test_statement_in_a_batch_is_identified_by_the_columns_of_its_answer() -> None:
    text = "select 1 as a, 2 as b; select email as x from users; select name as y from users"
    assert lineage_of(session(), text, column("x")) == ["users.email"]
    assert lineage_of(session(), text, column("Y")) == ["users.name"]
    both = "select email as x from users; select name as x from users"
    assert lineage_of(session(), both, column("x")) == ["users.email users.name"]


@pytest.mark.parametrize(
    "setting", ["set collation_connection = swe7_swedish_ci", "set collation_connection = @x", "set character set utf8"]
)
def test_attack_prepared_text_has_unknown_lineage_after_a_character_set_change(setting: str) -> None:
    """MariaDB 10.11 shows the e-mail address here: SWE7 has no backtick, so each becomes a question mark."""
    of = session()
    of.record_statement(setting)
    of.record_statement("prepare p from 'select `, (select email from users limit 1), `'")
    assert lineage_of(of, "execute p using @x, @x", column(), column(), column()) == [None] * 3


def test_attack_prepared_text_with_a_gbk_introducer_has_unknown_lineage() -> None:
    of = session()
    of.record_statement("prepare p from _gbk'select 1 `\u4f60`, `, (select email from users limit 1) `\u4f60`'")
    assert lineage_of(of, "execute p", column(), column()) == [None, None]
