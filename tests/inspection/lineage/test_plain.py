"""Plain columns, which a statement passes through unchanged, and values that it computes."""

from __future__ import annotations

import pytest

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_session_lineage import MySqlSessionLineage
from postern.protocols.postgres.lineage.postgres_lineage import Lineage
from postern.protocols.postgres.lineage.postgres_session_lineage import SessionLineage

USERS = ("id", "email", "phone", "salary", "note")
PLAIN = {
    "select email from users": "users.email",
    "select (email) as x from users u where id = 1 order by upper(email)": "users.email",
    "select u.* from users u": "users.id; users.email; users.phone; users.salary; users.note",
    "select x from (select email as x from users) t": "users.email",
    "with t (x) as (select email from users) select x from t": "users.email",
    "select mail from v": "users.email v.mail",
    "select email from users group by email": "users.email",
    "select distinct email from users": "users.email",
    "select email from users union all select phone from users": "users.email | users.phone",
    "select email from users join orders using (email)": "orders.email | users.email",
    "select u.email from orders o left join users u on u.email = o.email": "users.email",
    "select loud from v": "v.loud",
    "delete from users returning email": "users.email",
}
COMPUTED = [
    "select upper(email) from users",
    "select coalesce(email, '') from users",
    "select concat(email, '') from users",
    "select min(email) from users",
    "select case when id = 1 then email end from users",
    "select (select email from users where id = 1)",
    "select email from users union all select 'guess@example.com'",
    "select 'guess@example.com' as email union select email from users",
    "select email from users union all select upper(email) from users",
    "select x from (values row('guess'), row('other')) t (x)",
    "select salary + 0 from users",
    "with recursive t (x) as (select email from users union all select substr(x, 2) from t) select x from t",
    "select 'guess' as email",
    "select nullif(email, '') from users",
    "select cast(email as char) from users",
]
POSTGRES = [
    "select u from users u",
    "select (u).email || '' from users u",
    "select array[email] from users",
    "select array_fill('a'::text, array[2], array[salary]) from users",
    "select email from users right join (values ('guess')) w (email) using (email)",
    "insert into users (email) values ('guess') returning email",
    "update users set email = 'guess' returning email",
    "select email::text from users",
]


def schema() -> TargetSchema:
    relations = [
        Relation("shop", "users", USERS, 100),
        Relation("shop", "orders", ("email", "total"), 101),
        Relation("shop", "v", ("mail", "loud"), 102, "select shop.users.email as mail, upper(shop.users.email) as loud"
                 " from shop.users"),
    ]  # fmt: skip
    return TargetSchema({(one.schema, one.name): one for one in relations}, search_path=("shop",))


def plain(lineage: SessionLineage | MySqlSessionLineage, text: str, width: int = 1) -> str:
    lineage.record_statement(text)
    found = lineage.of(text, tuple(Column("x", TextKind.TEXT) for _ in range(width)))
    assert found is not None
    assert None not in found
    return "; ".join(
        " | ".join(sorted(" ".join(sorted(f"{ref.table}.{ref.column}" for ref in names)) for names in origin.plain))
        for origin in found
        if origin is not None
    )


def sessions(known: TargetSchema) -> list[SessionLineage | MySqlSessionLineage]:
    return [SessionLineage(Lineage(), lambda: known), MySqlSessionLineage(MySqlLineage(), lambda: known)]


@pytest.mark.parametrize(("text", "columns"), PLAIN.items())
@pytest.mark.parametrize("engine", [0, 1], ids=["postgres", "mysql"])
def test_column_that_is_passed_through_unchanged_is_plain(engine: int, text: str, columns: str) -> None:
    assert plain(sessions(schema())[engine], text, columns.count(";") + 1) == columns


@pytest.mark.parametrize("text", COMPUTED)
@pytest.mark.parametrize("engine", [0, 1], ids=["postgres", "mysql"])
def test_value_that_a_statement_computes_is_not_plain(engine: int, text: str) -> None:
    if engine == 0:
        text = text.replace("row('", "('")
    assert plain(sessions(schema())[engine], text) == ""


@pytest.mark.parametrize("text", POSTGRES)
def test_value_that_a_postgres_statement_computes_is_not_plain(text: str) -> None:
    assert plain(sessions(schema())[0], text) == ""


def test_row_description_alone_identifies_a_plain_column() -> None:
    found = sessions(schema())[0].of(
        "no sql at all (", (Column("x", TextKind.TEXT, 100, 2), Column("x", TextKind.TEXT, 100, 0))
    )
    assert found is not None
    assert found[0] is not None
    assert found[1] is not None
    assert len(found[0].plain) == 1
    assert found[1].refs
    assert not found[1].plain


@pytest.mark.parametrize("engine", [0, 1], ids=["postgres", "mysql"])
@pytest.mark.parametrize(
    ("text", "refs"),
    [
        ("select count(email) from users", ""),
        ("select count(distinct email) from users group by phone", ""),
        ("select count(*) from users where email like 'a%'", ""),
        ("select count(mail) from v", ""),
        ("select count(nullif(email, 'a')) from users", "email"),
        ("select count(distinct upper(email)) from users", "email"),
        ("select count(loud) from v", "email loud"),
        ("select count(x) from (select nullif(email, 'a') as x from users) t", "email"),
        ("select count(email) over (partition by phone) from users", "phone"),
        ("select sum(salary) from users", "salary"),
    ],
)
def test_count_of_a_plain_column_has_no_sources(engine: int, text: str, refs: str) -> None:
    of = sessions(schema())[engine]
    of.record_statement(text)
    found = of.of(text, (Column("x", TextKind.TEXT),))
    assert found is not None
    assert found[0] is not None
    assert " ".join(sorted(ref.column for ref in found[0].refs)) == refs


CORRELATED = {
    "exists (select 1 from orders o where o.email = u.phone)": "email phone",
    "exists (select 1 where u.phone > 'a')": "phone",
    "(select 1 from orders o where o.total = 1 and u.phone > 'a')": "phone total",
    "(select count(*) from orders o where u.phone > 'a')": "phone",
    "(select count(*) from orders o join v on u.phone > 'a')": "phone",
    "(select count(*) from orders o left join (v join users w on u.phone > 'a') on o.total = 1)": "phone total",
    "(select o.total from orders o order by u.phone > 'a', total limit 1)": "phone total",
    "(select sum(o.total) from orders o group by u.phone having u.note > 'a')": "note phone total",
    "(with w as (select 1 as x from orders where u.phone > 'a') select x from w)": "phone",
    "(select x from (select 1 as x where exists (select 1 where u.phone > 'a')) t)": "phone",
    "(select 1 where u.phone > 'a' union all select 2 where u.note > 'a')": "note phone",
    "(select count(*) from orders o where o.total = 1)": "",
    "exists (select 1 from orders o where o.total = 1)": "",
    "(select max(o.total) from orders o where o.email > 'a')": "total",
}
POSTGRES_CORRELATED = {
    "(select count(*) from generate_series(1, u.salary))": "salary",
    "array(select 1 where u.phone > 'a')": "phone",
    "(select x from (select 1 as x limit u.salary % 2) t)": "salary",
    "(select 1 limit u.salary % 2)": "salary",
    "(select x from (select 1 as x union all select 2) t order by x limit u.salary % 2)": "salary",
    "(select distinct on (u.phone) 1)": "phone",
    "(select count(*) from orders group by grouping sets ((), (u.phone)) limit 1)": "phone",
    "(select 1 from orders cross join lateral (select 1 where u.phone > 'a') t)": "phone",
    "json_array(select 1 where u.phone > 'a')": "phone",
    "1 in (select 1 where u.phone > 'a')": "phone",
}


def _refs(of: SessionLineage | MySqlSessionLineage, text: str) -> str:
    of.record_statement(text)
    found = of.of(text, (Column("x", TextKind.TEXT),))
    assert found is not None
    assert found[0] is not None
    assert not found[0].plain
    return " ".join(sorted({ref.column for ref in found[0].refs}))


@pytest.mark.parametrize("engine", [0, 1], ids=["postgres", "mysql"])
@pytest.mark.parametrize(("value", "refs"), CORRELATED.items())
def test_filter_in_a_correlated_subquery_is_a_source(engine: int, value: str, refs: str) -> None:
    """Attack: 240 of `exists (select 1 where get_bit(u.email, …) = 1)` reveal every e-mail address in one statement."""
    assert _refs(sessions(schema())[engine], f"select {value} as x from users u") == refs


@pytest.mark.parametrize(("value", "refs"), POSTGRES_CORRELATED.items())
def test_filter_in_a_correlated_postgres_subquery_is_a_source(value: str, refs: str) -> None:
    assert _refs(sessions(schema())[0], f"select {value} as x from users u") == refs


def test_columns_after_a_function_of_unknown_width_have_the_sources_of_all_functions() -> None:
    """Attack: `rows from` two functions with an unknown number of columns."""
    text = "select * from rows from (unnest(array['a']), unnest(array[(select email from users)])) as r (a, b)"
    found = sessions(schema())[0].of(text, (Column("a", TextKind.TEXT), Column("b", TextKind.TEXT)))
    assert found is not None
    assert ["email" in str(one.refs) for one in found if one is not None] == [True, True]
