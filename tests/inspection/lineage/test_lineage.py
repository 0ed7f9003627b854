from __future__ import annotations

import time
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.inspection.lineage import schemas
from tests.inspection.lineage.cases import CASES
from tests.support.promises import within

from postern.domain.targets.target_schema import ColumnRef, Function, TargetSchema
from postern.inspection.lineage.cached_lineage import MOST_TEXT
from postern.inspection.sql.postgres.postgres_tree import readings
from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import NO_DOUBTS, CatalogueDoubts
from postern.protocols.postgres.lineage.postgres_lineage_names import output_name

relation = partial(schemas.relation, schema="public")
target = partial(schemas.target, path=("public",))
USERS = relation("users", "id email name")
ORDERS = relation("orders", "id user_id note")
SHOP = target(USERS, ORDERS)


def lineage_of(text: str, schema: TargetSchema = SHOP) -> list[str | None] | None:
    return schemas.lineage_texts(Lineage(), text, schema)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("select email as x, upper(name), 1 from users", ["users.email", "users.name", ""]),
        ("select count(*) from users where email = 'x'", [""]),
        ("select note from orders order by user_id", ["orders.note"]),
        ("select o.note from orders o join users u on u.email = o.note", ["orders.note"]),
        ("select exists (select from users where email = 'x')", [""]),
        ("select ctid, tableoid, xmin from users", ["", "", ""]),
        ("select $1, $2 || email from users", ["", "users.email"]),
        ("explain select * from users", [""]),
        ("show server_version", [""]),
    ],
)
def test_lineage_contains_selected_columns_and_omits_filter_columns(text: str, sources: list[str]) -> None:
    assert lineage_of(text) == sources


@pytest.mark.parametrize(
    "text",
    [
        "update users set email = 'x'",
        "select email into copies from users",
        "create table copies as select * from users",
        "select 1; select email from users",
        "select from where",
        "declare c cursor for select email from users",
        "copy users from stdin",
        "",
        "select (row(1, email)).* from users",
        "select * from nowhere",
    ],
)
def test_lineage_is_none_without_one_answer_of_a_known_width(text: str) -> None:
    assert lineage_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "select query_to_xml('select * from users', true, true, '')",
        "select table_to_xml('users', true, true, '')",
        "select database_to_xml(true, true, '')",
        "select ts_stat('select to_tsvector(email) from users')",
        "select pg_read_file('base/1/1')",
        "select lo_get(1)",
        "select pg_catalog.query_to_xml('select 1', true, true, '')",
        "select nobody_knows(1)",
        "select my.upper('x')",
        "select 'a' <+++> 'b'",
        "select current_setting('my.own')",
        "select current_setting('my.' || 'own')",
        "select x from nowhere",
        "select other.users.email from users",
        "select u.nowhere from users u",
        "select (u).nowhere from users u",
        "select dblink.email from dblink('…', 'select email from users') as dblink(email text)",
        "select pg_temp.f()",
        "select email from pg_temp.users",
    ],
)
def test_attack_lineage_of_functions_that_can_read_other_data_is_unknown(text: str) -> None:
    assert lineage_of(text) in (None, [None])


def test_attack_lineage_through_a_user_function_named_like_a_builtin_is_unknown() -> None:
    schema = target(
        USERS, functions=(Function("public", "upper", harmless=True), Function("public", "+", harmless=True))
    )
    assert lineage_of("select upper(email), lower(email), 1 + 1 from users", schema) == [None, "users.email", None]
    assert lineage_of("select pg_catalog.upper(email) from users", schema) == ["users.email"]


def test_lineage_of_a_pure_c_function_is_that_of_its_arguments() -> None:
    schema = target(USERS, functions=(Function("ext", "unaccent", harmless=True, pure=True),))
    assert lineage_of("select unaccent(email), ext.unaccent(name) from users", schema) == ["users.email", "users.name"]


def test_attack_lineage_follows_the_search_path_to_a_shadowing_table() -> None:
    mine = relation("users", "id email", schema="mine")
    schema = target(USERS, mine, path=("mine", "public"))
    found = Lineage().sources("select email, id from users", schema)
    assert found is not None
    assert found[0] == frozenset({ColumnRef("mine", "users", "email")})
    # Without a path, either may be meant.
    assert lineage_of("select upper(email) from users", target(USERS, mine, path=())) == [None]


def test_lineage_includes_the_columns_of_views_and_of_the_tables_behind_them() -> None:
    view = relation("v", "a b", definition="select public.users.email as x, upper(public.users.name) from public.users")
    nested = relation("w", "c", definition="select v.a || v.b from public.v")
    assert lineage_of("select * from w", target(USERS, view, nested)) == ["users.email users.name v.a v.b w.c"]


def test_attack_lineage_of_mutually_recursive_views_is_unknown() -> None:
    first = relation("v", "a", definition="select a from public.w")
    second = relation("w", "a", definition="select a from public.v")
    assert lineage_of("select a from v", target(first, second)) == [None]


def test_attack_lineage_of_deeply_nested_views_is_unknown_within_five_seconds() -> None:
    views = [
        relation(f"v{n}", "a", definition=f"select x.a || y.a from public.v{n - 1} x, public.v{n - 1} y")
        for n in range(1, 200)
    ]
    schema = target(relation("v0", "a"), *views)
    began = time.monotonic()
    assert lineage_of("select a from v20", schema) is not None
    assert lineage_of("select a from v199", schema) == [None]
    assert time.monotonic() - began < within(5)


def test_lineage_is_unknown_if_the_definition_of_a_view_does_not_fit_its_columns() -> None:
    assert lineage_of("select a, b from v", target(relation("v", "a b", definition="select 1"))) == [None, None]
    assert lineage_of("select a from v", target(relation("v", "a", definition="no query"))) == [None]


def test_lineage_of_a_partition_includes_its_parent_and_the_reverse() -> None:
    part = relation("users_1", "id email name", parents=(("public", "users"),))
    schema = target(USERS, part)
    assert lineage_of("select email from users_1", schema) == ["users.email users_1.email"]
    assert lineage_of("select email from users", schema) == ["users.email users_1.email"]


def test_lineage_of_a_generated_column_includes_its_source_columns() -> None:
    people = relation("people", "first loud", generated={"loud": "(upper(first) || '!'::text)"})
    assert lineage_of("select loud from people", target(people)) == ["people.first people.loud"]
    assert lineage_of("copy people to stdout", target(people)) == ["people.first"]


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("update users set name = email returning id, name, email",
         ["users.id", "users.email users.name", "users.email"]),
        ("update users set name = note from orders returning name, note", ["orders.note users.name", "orders.note"]),
        ("update users set name = 'x' returning email, 1", ["users.email", ""]),
        ("update nowhere set x = 1 returning x, 1", [None, ""]),
        ("update nowhere set x = 1 returning x, y", [None, None]),
        ("insert into users (name) select note from orders returning id, name", ["users.id", "orders.note users.name"]),
        ("insert into nowhere (name) select note from orders returning name, 1", [None, ""]),
        ("delete from users using orders returning email, note", ["users.email", "orders.note"]),
        ("with w as (update users set name = email returning *) select id, name from w",
         ["users.id", "users.email users.name"]),
        ("merge into users u using orders o on true when not matched then insert (name) values (note) returning u.name",
         ["orders.note users.name"]),
        ("merge into users using orders on true when not matched then insert values (1, note) returning email, name",
         ["orders.note users.email", "users.name"]),
        ("merge into users u using orders o on true when matched then update set name = note returning email, name",
         ["users.email", "orders.note users.name"]),
        ("insert into users values (1) on conflict (id) do update set name = excluded.email returning name",
         ["users.email users.name"]),
        # A MERGE gives the source's columns first, each other statement the target's.
        ("merge into users using orders on true when matched then delete returning *",
         ["orders.id", "orders.user_id", "orders.note", "users.id", "users.email", "users.name"]),
        ("update users set id = 1 from orders returning *",
         ["users.id", "users.email", "users.name", "orders.id", "orders.user_id", "orders.note"]),
        ("delete from users using orders returning *",
         ["users.id", "users.email", "users.name", "orders.id", "orders.user_id", "orders.note"]),
        # A generated column and a view's column may be computed from each column that is written.
        ("update people set first = email from users returning first, loud, age",
         ["people.first users.email", "people.first people.loud users.email", "people.age"]),
        ("update names set first = email from users returning first, age",
         ["names.first people.first users.email", "names.age people.age users.email"]),
    ],
)  # fmt: skip
def test_lineage_of_returning_includes_the_column_and_the_written_value(text: str, sources: list[str | None]) -> None:
    people = relation("people", "first loud age", generated={"loud": "(upper(first) || '!'::text)"})
    names = relation("names", "first age", definition="select p.first, p.age from public.people p")
    assert lineage_of(text, target(USERS, ORDERS, people, names)) == sources


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("select lower from users, lower(email)", ["users.email"]),
        ("select x from users, lower(email) x", ["users.email"]),
        ("select x.y from users, lower(email) as x(y)", ["users.email"]),
        ("select * from lower('x'), upper('y')", ["", ""]),
        ("select key, value from users, jsonb_each_text(to_jsonb(email))", ["users.email", "users.email"]),
        ("select a, b from users, jsonb_to_record(to_jsonb(email)) as r(a text, b text)", ["users.email"] * 2),
        ("select ordinality, unnest from users, unnest(array[email]) with ordinality", ["", "users.email"]),
        ("select n, x from users, unnest(array[email]) with ordinality as t(x, n)", ["users.email"] * 2),
        ("select a, b from users, rows from (lower(email), upper(name)) as t(a, b)", ["users.email", "users.name"]),
        ("select lower, upper from users, rows from (lower(email), upper(name))", ["users.email", "users.name"]),
        ("select coalesce from users, coalesce(email, name)", ["users.email users.name"]),
    ],
)  # fmt: skip
def test_lineage_follows_columns_of_functions_in_from(text: str, sources: list[str | None]) -> None:
    assert lineage_of(text) == sources


@pytest.mark.parametrize(
    ("join", "sources"),
    [
        ("users join orders on users.id = user_id", ["users.email", "orders.note"]),
        ("users inner join orders on true", ["users.email", "orders.note"]),
        ("users cross join orders", ["users.email", "orders.note"]),
        ("users left join orders on true", ["users.email", "orders.note"]),
        ("users left outer join orders on true", ["users.email", "orders.note"]),
        ("users right join orders on true", ["users.email", "orders.note"]),
        ("users full join orders using (id)", ["users.email", "orders.note"]),
        ("users natural join orders", ["users.email", "orders.note"]),
        ("users join orders using (id) as both_of", ["users.email", "orders.note"]),
        ("(users join orders on true) as x", ["users.email", "orders.note"]),
        ("users join lateral (select email as note) x on true", ["users.email", "users.email"]),
    ],
)
def test_lineage_knows_the_columns_of_both_sides_of_a_join(join: str, sources: list[str]) -> None:
    assert lineage_of(f"select email, note from {join}") == sources


# By the server's rules (FigureColname). None stands for an expression whose name is not followed here.
NAMES = [
    ("email", "email"),
    ("upper(email)", "upper"),
    ("email::text", "email"),
    ("(email || '')::text", "text"),
    ("(email || '')::varchar::text", None),
    ("case when true then email end", "case"),
    ("case when true then 1 else email end", "email"),
    ("case when true then 1 else (email || '')::text end", None),
    ("(case when true then email end)::text", None),
    ("coalesce(email, name)", "coalesce"),
    ("nullif(email, name)", "nullif"),
    ("greatest(email, name)", None),
    ("array[email]", "array"),
    ("(array[email])[1]", "array"),
    ("row(email)", "row"),
    ("(select email)", "email"),
    ("(select upper(email) as x)", "x"),
    ("exists (select email)", "exists"),
    ("array(select email)", "array"),
    ("email in (select name)", "?column?"),
    ('email collate "C"', "email"),
    ("(users).email", "email"),
    ("(users).*", "users"),
    ("grouping(email)", "grouping"),
    ("xmlserialize(content xmlelement(name a, email) as text)", "xmlserialize"),
    ("email || ''", "?column?"),
    ("email is null", "?column?"),
    ("not true", "?column?"),
    ("email is not true", "?column?"),
    ("'x'", "?column?"),
    ("$1", "?column?"),
    ("trim(email)", "btrim"),
    ("email as x", "x"),
]


@pytest.mark.parametrize(("expression", "name"), NAMES)
def test_output_column_name_is_that_of_the_server(expression: str, name: str | None) -> None:
    (statement,) = next(iter(readings(f"select {expression} from users")))
    assert output_name(statement["SelectStmt"]["targetList"][0]["ResTarget"]) == name


def test_attack_column_of_an_unknown_name_is_a_source_of_every_name() -> None:
    text = "select text from (select (email || '')::varchar::text from users) x"
    assert lineage_of(text) == ["users.email"]
    assert lineage_of("select x.anything from (select greatest(email, name) from users) x") == [
        "users.email users.name"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "select (email).leak from users",
        "select (row(email)).leak from users",
        "select ((u).email).leak from users u",
        "select (array[email])[1].leak from users",
        "select u.leak from users u",
        "select (u).leak from users u",
    ],
)
def test_attack_field_access_that_can_be_a_function_call_is_unknown(text: str) -> None:
    """The server reads `(value).leak` as `leak(value)` if the value has no such field."""
    own = target(USERS, functions=(Function("public", "leak", harmless=False),))
    for schema, doubts in (
        (own, NO_DOUBTS),
        (SHOP, CatalogueDoubts(names=frozenset({"leak"}))),
        (SHOP, CatalogueDoubts(everything=True)),
    ):
        found = Lineage().read(text, schema, doubts)
        assert found is not None
        assert found[0].outs is not None
        assert [out.sources for out in found[0].outs] == [None], (schema is own, doubts)


def test_lineage_of_a_field_that_no_function_is_named_like_is_that_of_its_value() -> None:
    own = target(USERS, functions=(Function("public", "leak", harmless=False),))
    assert lineage_of("select (email).city, (u).email, ((u).email).city from users u", own) == ["users.email"] * 3


@pytest.mark.parametrize("name", ["current_setting", "pg_catalog.current_setting"])
def test_current_setting_has_no_sources_unless_a_user_function_shadows_it(name: str) -> None:
    text = f"select {name}('application_name')"
    own = target(USERS, functions=(Function("public", "current_setting", harmless=False),))
    assert lineage_of(text) == [""]
    assert lineage_of(text, own) == [None]


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("select email from users where id = 1", False),  # read before
        ("select email from users where id = 2", False),  # of the same shape
        ("select name from users where id = 1", True),
        ("select email from users -- " + "x" * MOST_TEXT, False),  # too long: never read
        ("select 'a\0'", False),
    ],
)
def test_only_a_statement_of_a_new_shape_must_be_read(text: str, is_read: bool) -> None:
    lineage = Lineage()
    lineage.read("select email from users where id = 1", SHOP)
    assert (lineage.unread(text, SHOP) is not None) == is_read
    assert lineage.unread("select email from users where id = 1", SHOP, CatalogueDoubts(everything=True)) is not None


def test_lineage_of_400_columns_is_known() -> None:
    columns = [f"c{number}" for number in range(400)]
    schema = target(relation("wide", " ".join(columns)))
    for text in (
        "select * from wide",
        f"select {', '.join(columns)} from wide",
        f"select {', '.join(columns)} from wide w",
    ):
        assert lineage_of(text, schema) == [f"wide.{column}" for column in columns]


def test_lineage_of_catalogue_columns_that_quote_table_data_is_unknown() -> None:
    stats = relation("pg_stats", "tablename most_common_vals", schema="pg_catalog")
    activity = relation("pg_stat_activity", "pid query", schema="pg_catalog")
    schema = target(stats, activity)
    assert lineage_of("select tablename, most_common_vals from pg_stats", schema) == [None, None]
    assert lineage_of("select pid, query from pg_stat_activity", schema) == ["pg_stat_activity.pid", None]


@pytest.mark.parametrize(
    "text",
    [
        "select " + "(" * 5_000 + "email" + ")" * 5_000 + " from users",
        "select " + "upper(" * 5_000 + "email" + ")" * 5_000 + " from users",
        "select " + " || ".join(["email"] * 5_000) + " from users",
        "select " + "case when true then " * 1_500 + "email" + " end" * 1_500 + " from users",
        "select " + "not " * 15_000 + "true",
        "select " + "- " * 30_000 + "1",
        " union all ".join(["select email from users"] * 2_500),
        "select * from " + "(select * from " * 1_500 + "users" + ") x" * 1_500,
        "with "
        + ", ".join(f"c{n} as (select * from c{n - 1}, c{n - 1} x)" for n in range(1, 40))
        + " select * from c39",
        "with recursive " + "a as (select 1 union all (with recursive " * 12 + "b as (select 1)" + " select 1))" * 12,
        "select " + ", ".join(["u.*"] * 3_000) + " from users u" + ", users" * 3_000,
        "select " + ", ".join(["email"] * 1_600) + " from users" + ", lateral (select users.*) l" * 800,
        "select 1 from users" + ", lateral (select users.* from users x) l" * 1_500,
        "select email from users -- " + "x" * MOST_TEXT,
        "select 'a\0', email from users",
        "select '\udcff' from users",
    ],
)
def test_attack_deep_or_wide_statement_neither_raises_nor_takes_over_five_seconds(text: str) -> None:
    began = time.monotonic()
    Lineage().sources(text, SHOP)
    assert time.monotonic() - began < within(5)


@given(
    st.text(max_size=200)
    | st.sampled_from([case[-1] for case in CASES]).flatmap(lambda text: st.permutations(text.split()).map(" ".join))
)
def test_lineage_of_arbitrary_text_does_not_raise(text: str) -> None:
    Lineage().sources(text, SHOP)


def test_lineage_is_cached_per_statement_and_schema() -> None:
    lineage = Lineage()
    text = "select email from users"
    assert lineage.read(text, SHOP) is lineage.read(text, SHOP)
    other = target(relation("users", "email", schema="hr"), path=("hr",))
    assert lineage.sources(text, other) == (frozenset({ColumnRef("hr", "users", "email")}),)
    for n in range(3_000):
        lineage.read(f"select {n}", SHOP)
    assert lineage.read(text, SHOP) is not None


def test_statements_that_differ_only_in_values_are_read_once() -> None:
    lineage = Lineage()
    first = lineage.read("select email from users where id = 1 limit 5", SHOP)
    assert lineage.read("select email from users where id = 4711 limit 10", SHOP) is first
    assert lineage.read("select name from users where id = 4711 limit 10", SHOP) != first


def test_attack_literal_that_looks_like_a_call_raises_no_doubts_in_the_shared_cache() -> None:
    lineage = Lineage()
    found = lineage.read("select email from users where name = 'set_config'", SHOP)
    assert found is not None
    assert found[0].doubts == NO_DOUBTS
    assert lineage.read("select email from users where name = 'ann'", SHOP) is found
