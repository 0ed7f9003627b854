from __future__ import annotations

import time
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.inspection.lineage import schemas
from tests.inspection.lineage.mysql_world import CASES
from tests.support.promises import within

from postern.domain.targets.target_schema import Function, TargetSchema
from postern.inspection.lineage.cached_lineage import MOST_TEXT
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage

relation = partial(schemas.relation, schema="shop")
target = partial(schemas.target, path=("shop",))
USERS = relation("users", "id email name")
ORDERS = relation("orders", "id user_id note")
SHOP = target(USERS, ORDERS)


def lineage_of(text: str, schema: TargetSchema = SHOP) -> list[str | None] | None:
    return schemas.lineage_texts(MySqlLineage(), text, schema)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("select email as x, upper(name), 1 from users", ["users.email", "users.name", ""]),
        ("select count(*) from users where email = 'x'", [""]),
        ("select note from orders order by user_id", ["orders.note"]),
        ("select o.note from orders o join users u on u.email = o.note", ["orders.note"]),
        ("select exists (select 1 from users where email = 'x')", [""]),
        ("select ?, concat(?, email) from users", ["", "users.email"]),
        ("select @@version, current_user, now(), @x", ["", "", "", ""]),
        ("table users", ["users.id", "users.email", "users.name"]),
        ("values row(1, 'a'), row(2, 'b')", ["", ""]),
        ("select jt.* from users, json_table(email, '$[*]' columns (a int path '$')) jt where id = 1", None),
        ("select id, l.x from users u, lateral (select concat(u.name, '!') as x) as l", ["users.id", "users.name"]),
        ("select email member of ('[1]'), info->>'$.k' from users", ["users.email", None]),
    ],
)
def test_mysql_lineage_contains_selected_columns_and_omits_filter_columns(text: str, sources: list[str] | None) -> None:
    assert lineage_of(text) == sources


@pytest.mark.parametrize(
    "text",
    [
        "update users set email = 'x'",
        "select email into outfile '/tmp/x' from users",
        "select email into @x from users",
        "create table copies as select * from users",
        "select 1; select email from users",
        "select from where",
        "",
        "select * from nowhere",
        "select * from users procedure analyse()",
        "show warnings",
        "explain format=json select * from users where email = 'x'",
        "load data local infile 'x' into table users",
    ],
)
def test_mysql_lineage_is_none_without_one_answer_of_a_known_width(text: str) -> None:
    assert lineage_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "select leak() from users",
        "select shop.upper(email) from users",
        "select `upper`(email) from users",
        "select load_file('/var/lib/mysql/x') from users",
        "select nobody_knows from users",
        "select _rowid from users",
        "select u.email from users",
        "select query from (select info as query from information_schema.processlist) p",
        "select variable_value from performance_schema.user_variables_by_thread",
        "select histogram from information_schema.column_statistics",
        "select min_value from mysql.column_stats",
        "select trace from information_schema.optimizer_trace",
        "select statement_analysis.query from sys.statement_analysis",
        "select word from information_schema.innodb_ft_index_table",
        "select {fn upper(email)} from users",
    ],
)
def test_mysql_lineage_of_functions_and_names_that_cannot_be_resolved_is_unknown(text: str) -> None:
    assert lineage_of(text) in (None, [None])


@pytest.mark.parametrize("spelled", ["users", "Users", "`USERS`", "shop.users", "SHOP.`users`", "shop . users"])
def test_table_names_are_resolved_in_any_case_and_quoting(spelled: str) -> None:
    assert lineage_of(f"select EMAIL, `Name` from {spelled}") == ["users.email", "users.name"]


def test_exact_spelling_of_a_name_wins_over_one_of_another_case() -> None:
    schema = target(relation("Users", "id secret"), USERS)
    assert lineage_of("select secret from Users", schema) == ["Users.secret"]
    assert lineage_of("select secret from USERS", schema) == [None]
    cte = "with Users as (select note as email from orders) select email from users"
    assert lineage_of(cte) == ["orders.note users.email users.id users.name"]
    assert lineage_of(cte.replace("users", "Users")) == ["orders.note"]
    aliases = "select (select U.email from orders u where u.id = U.id) from users U"
    assert lineage_of(aliases) == ["orders.id users.email users.id"]


def test_attack_name_with_an_accented_letter_matches_the_name_without_accent() -> None:
    inner = "(select (select email from (select name as `émail` from users) x) from users)"
    assert lineage_of(f"select {inner}") == ["users.email users.name"]


def test_table_is_resolved_in_the_named_or_current_database() -> None:
    schema = target(USERS, relation("users", "id email secret", schema="hr"))
    assert lineage_of("select secret from hr.users", schema) == ["users.secret"]
    assert lineage_of("select secret from users", schema) == [None]
    assert lineage_of("select email from users", target(USERS, relation("users", "email", schema="hr"), path=())) == [
        None
    ]
    assert lineage_of("select email from users", target(USERS, path=())) == ["users.email"]


def test_lineage_follows_views_and_is_unknown_for_unreadable_views() -> None:
    definition = "select `shop`.`users`.`email` AS `mail`,ucase(`shop`.`users`.`name`) AS `n` from `shop`.`users`"
    schema = target(
        USERS,
        relation("v", "mail n", definition=definition),
        relation("vv", "m", definition="select `shop`.`v`.`mail` AS `m` from `shop`.`v`"),
        relation("odd", "a", definition="a view whose definition is not shown"),
        relation("itself", "a", definition="select `shop`.`itself`.`a` AS `a` from `shop`.`itself`"),
        relation("less", "a b", definition="select `shop`.`users`.`email` AS `a` from `shop`.`users`"),
    )
    assert lineage_of("select * from v", schema) == ["users.email v.mail", "users.name v.n"]
    assert lineage_of("select m from vv w", schema) == ["users.email v.mail vv.m"]
    assert lineage_of("select a from odd", schema) == [None]
    assert lineage_of("select a from itself", schema) == [None]
    assert lineage_of("select a, b from less", schema) == [None, None]


def test_lineage_of_generated_columns_includes_hidden_columns() -> None:
    schema = target(relation("t", "a b c", generated={"b": "concat(`a`,`c`)"}, hidden=frozenset({"c"})))
    assert lineage_of("select * from t", schema) == ["t.a", "t.a t.b t.c"]
    assert lineage_of("select c from t", schema) == ["t.c"]
    assert lineage_of("select x.y from (select * from t) x(y, z)", schema) == ["t.a"]


def test_lineage_through_a_user_function_named_like_a_builtin_is_unknown() -> None:
    schema = target(USERS, functions=(Function("shop", "Count", harmless=True),))
    assert lineage_of("select count(email), upper(email) from users", schema) == [None, "users.email"]


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("select 'a\\'', upper(email), 'b' from users", ["", "users.email", ""]),
        ("select \"email\", 'x' from users", ["users.email", ""]),
    ],
)
def test_ambiguous_text_has_a_reading_that_contains_the_column(text: str, sources: list[str]) -> None:
    reads = MySqlLineage().read(text, SHOP)
    assert reads is not None
    answers = [[one for out in read.outs or () for one in [out.sources]] for read in reads]
    shown = [
        ["unknown" if one is None else " ".join(f"{r.table}.{r.column}" for r in one) for one in each]
        for each in answers
    ]
    assert any("users.email" in each for each in shown)


def test_versioned_comment_is_read_both_as_sql_and_as_a_comment() -> None:
    reads = MySqlLineage().read("select name /*!80000 , email */ from users", SHOP)
    assert reads is not None
    assert sorted(len(read.outs or ()) for read in reads) == [1, 2]


def test_attack_large_or_deep_mysql_statement_is_read_within_ten_seconds() -> None:
    for text in (
        "select '" + "x" * MOST_TEXT + "'",
        "select " + "(" * 5_000 + "email" + ")" * 5_000 + " from users",
        "select " + "upper(" * 2_000 + "email" + ")" * 2_000 + " from users",
        "select " + "not " * 3_000 + "email from users",
        "select * from " + ",".join(["users"] * 3_000),
        "with recursive " + ",".join(f"t{n} as (select * from t{n + 1})" for n in range(400)) + " select * from t0",
        "select " + " + ".join(["email"] * 10_000) + " from users",
        "select @a" + "".join(f", @v{n} := @v{n + 1}" for n in range(200)) + " from users",
    ):
        start = time.process_time()
        MySqlLineage().read(text, SHOP)
        assert time.process_time() - start < within(10)


@given(st.text(max_size=60))
def test_mysql_lineage_of_arbitrary_text_does_not_raise(text: str) -> None:
    MySqlLineage().read(text, SHOP)
    MySqlLineage().read(f"select {text} from users", SHOP)


@given(st.sampled_from(CASES), st.integers(0, 200), st.text(max_size=4))
def test_mysql_lineage_of_a_damaged_statement_does_not_raise(case: tuple[str, ...], place: int, put: str) -> None:
    text = case[-1]
    MySqlLineage().read(text[:place] + put + text[place:], SHOP)


@pytest.mark.parametrize(
    "join",
    [
        "users join orders on users.id = user_id",
        "users inner join orders on true",
        "users cross join orders",
        "users straight_join orders",
        "users left join orders on true",
        "users left outer join orders on true",
        "users right join orders on true",
        "users right outer join orders on true",
        "users natural join orders",
        "users natural left join orders",
        "users join orders using (id)",
        "(users join orders on true)",
        "users join (orders join users u on true) on true",
    ],
)
def test_mysql_lineage_knows_the_columns_of_both_sides_of_a_join(join: str) -> None:
    assert lineage_of(f"select orders.note, users.email from {join}") == ["orders.note", "users.email"]


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("select email from users union select note from orders", ["orders.note users.email"]),
        ("select email, 1 from users union all select note, id from orders", ["orders.note users.email", "orders.id"]),
        ("select email from users except select note from orders", ["orders.note users.email"]),
        # The server refuses these.
        ("select email from users union select note, id from orders", None),
        ("select email, id from users union select note from orders", None),
    ],
)
def test_lineage_of_a_set_operation_includes_both_sides(text: str, sources: list[str] | None) -> None:
    assert lineage_of(text) == sources
