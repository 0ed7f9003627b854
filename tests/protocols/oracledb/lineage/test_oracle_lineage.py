"""Origins of the columns of one text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.promises import within

from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import MOST_TEXT
from postern.inspection.lineage.scope import Out
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage


def relation(name: str, columns: str, schema: str = "SHOP", **more: object) -> Relation:
    return Relation(schema, name, tuple(columns.split()), **more)  # type: ignore[arg-type]


def target(
    *relations: Relation, functions: tuple[Function, ...] = (), path: tuple[str, ...] = ("SHOP",)
) -> TargetSchema:
    return TargetSchema(
        {(one.schema, one.name): one for one in relations}, {(one.schema, one.name): one for one in functions}, path
    )


USERS = relation("USERS", "ID EMAIL NAME")
ORDERS = relation("ORDERS", "ID USER_ID NOTE")
STAFF = relation("STAFF", "ID SALARY", "HR")
SHOP = target(USERS, ORDERS, STAFF)


def text_of(out: Out) -> str:
    sources = "?" if out.sources is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in out.sources))
    return f"*{sources}".lower() if out.many else sources.lower()


def answers(text: str, schema: TargetSchema = SHOP) -> list[list[str]] | None:
    """Return the sources of each column of each answer: `?` if unknown, with `*` for any number of columns."""
    read = OracleLineage().read(text, schema)
    return None if read is None else [[text_of(out) for out in outs] for outs in read.answers]


def origins_of_file() -> list[tuple[str, list[str]]]:
    """Return the texts of the file, and the sources of each column of their only answer."""
    lines = Path(__file__).with_name("oracle_origins.txt").read_text().splitlines()
    parts = [line.split("  =>  ") for line in lines]
    return [(text, [column.replace("-", "").strip() for column in columns.split(" | ")]) for text, columns in parts]


@pytest.mark.parametrize(("text", "columns"), origins_of_file())
def test_columns_have_the_origins_of_what_they_show(text: str, columns: list[str]) -> None:
    assert answers(text) == [columns]


@pytest.mark.parametrize(
    "text",
    [
        "select leak(email) from users",
        "select app.leak(email) from users",
        "select leak from users",
        "select leak from dual",
        "select app.leak from users",
        "select cast(leak as number) from users",
        "select json_object('a' value leak) from users",
        "select email from users@remote",
        "select nobody_knows from users",
        'select "email" from users',
        'select EMAIL from "users"',
        "select email from other.users",
        "select deref(x) from users",
        "select value(u) from users u",
        "select score(1) from users where contains(email, 'a', 1) > 0",
        "select sql_text from v$sql",
        "select * from user_tab_histograms",
        "select column_value from table(f(1))",
        "select * from table(app.f)",
        "select email from users model dimension by (id) measures (email) rules (email[1] = leak(1))",
        "select email from users model dimension by (id) measures (email) rules (email[1] = nobody_knows)",
        "select email from users model dimension by (id) measures (email) rules (email[1] = case 1 when 1 then 2 end)",
        "select email from users model reference r on (select id, name from users) dimension by (id) measures (name) "
        "dimension by (id) measures (email) rules ()",
        "select a from users match_recognize (order by id measures leak(x.email) as a pattern (x) define x as 1 = 1)",
        "select a from users match_recognize (order by id measures x.other as a pattern (x) define x as 1 = 1)",
        "select a from users match_recognize (measures x.email as a order by id pattern (x) define x as 1 = 1)",
        "with c (a) as (select 1 from dual union all select leak(a) from c) search depth first by a set o select o "
        "from c",
        "with c (a) as (select 1 from dual) cycle a set o to f() default 0 select o from c",
        "select xmlquery('fn:collection(\"oradb:/SHOP/USERS\")' returning content) from dual",
        "select x from xmltable('ora:view(\"USERS\")' columns x path 'x')",
        "select x from json_table('{}', '$' columns (x path '$' default (select email from users) on error))",
        "select dbms_xmlgen.getxml('select email from users') from dual",
        "select count(*) over (order by id rows between id preceding and current row) from users",
        "with function f return number is begin return 1; end; select f from dual",
        "select {fn upper(email)} from users",
        "select email from users where (",
        "merge into users u using orders o on (u.id = o.id) when matched then update set id = 1 return name into :a",
        "update (select id, email from users) set id = 1 returning email into :a",
        "begin p; end;",
        "begin :a := leak; end;",
        "begin :a := app.v; end;",
        "begin :a := sqlerrm; end;",
        "begin execute immediate :t; end;",
        "begin :a := dbms_sql.open_cursor; end;",
        "begin select leak into :a from users; end;",
        "begin merge into users u using orders o on (u.id = o.id) when matched then update set name = 'x'; end;",
        "begin insert all into users (id) values (1) select email from users; end;",
        "begin null",
        "call p(:a)",
        "call dbms_lob.read(:1)",
        "call dbms_lob.getlength(:1)",
    ],
)  # fmt: skip
def test_column_that_cannot_be_resolved_is_unknown(text: str) -> None:
    found = answers(text)
    assert found is None or any("?" in column for columns in found for column in columns)


@pytest.mark.parametrize(
    "spelled", ["users", "Users", '"USERS"', "shop.users", 'SHOP."USERS"', "users u", "users shop"]
)
def test_table_names_are_resolved_in_any_case_and_quoting(spelled: str) -> None:
    assert answers(f'select EMAIL, "NAME" from {spelled}') == [["users.email", "users.name"]]


def test_name_without_a_schema_is_looked_up_in_that_of_the_login_and_among_public_synonyms() -> None:
    schema = target(
        USERS,
        relation("USERS", "ID SECRET", "HR"),
        relation("ONLY", "A", "APP"),
        relation("PEOPLE", "ID SECRET", "PUBLIC", definition='select * from "HR"."USERS"'),
        path=("HR",),
    )
    assert answers("select secret from users", schema) == [["users.secret"]]
    assert answers("select email from shop.users", schema) == [["users.email"]]
    assert answers("select secret from people", schema) == [["people.secret users.secret"]]
    assert answers("select a from only", schema) == [["?"]]


def test_cte_without_a_list_of_columns_is_not_seen_by_itself() -> None:
    text = "with orders as (select note || 'x' as note from orders) select note from orders"
    assert answers(text) == [["orders.note"]]


def test_views_synonyms_and_virtual_columns_are_followed() -> None:
    schema = target(
        USERS,
        relation("V", "MAIL N", definition="select email, upper(name) from users where id > 0 with check option"),
        relation("W", "A B", definition='-- x\nCREATE OR REPLACE VIEW w (a, b) AS SELECT mail, n FROM "SHOP".v'),
        relation("S", "ID EMAIL NAME", definition='select * from "SHOP"."USERS"'),
        relation("ODD", "A", definition="select {x}"),
        relation("ITSELF", "A", definition="select a from itself"),
        relation("LESS", "A B", definition="select email from users"),
        relation("HIDDEN", "A", "APP", definition="select email from users"),
        relation("USERS", "EMAIL", "APP"),
        relation("T", "A B C", generated={"C": 'UPPER("A")||"B"'}),
        relation("I", "A B", hidden=frozenset({"B"})),
    )
    assert answers("select mail, n from v", schema) == [["users.email v.mail", "users.name v.n"]]
    assert answers("select a from w", schema) == [["users.email v.mail w.a"]]
    assert answers("select name from s", schema) == [["s.name users.name"]]
    for name in ("odd", "itself", "less"):
        assert answers(f"select a from {name}", schema) == [["?"]]
    read = OracleLineage().read("select a from app.hidden", schema)
    assert read is not None
    assert {ref.schema for ref in read.answers[0][0].sources or ()} == {"APP"}
    assert answers("select c, a from t", schema) == [["t.a t.b t.c", "t.a"]]
    assert answers("select * from i", schema) == [["i.a"]]


def test_function_that_the_target_declares_pure_has_the_sources_of_its_arguments() -> None:
    functions = (Function("SHOP", "SHOUT", harmless=True, pure=True), Function("SHOP", "LEAK", harmless=True))
    schema = target(USERS, functions=functions)
    text = "select shop.shout(email), shout(name), shop.leak(email), leak(1) from users"
    assert answers(text, schema) == [["users.email", "users.name", "?", "?"]]


@pytest.mark.parametrize(
    "value", ["upper(email)", "email || ''", "case when email like 'a%' then 1 else 0 end", "max(email)"]
)
def test_attack_value_that_a_text_computes_is_not_plain(value: str) -> None:
    """Masked as it is, equal values would stay equal, and with them the answers to a question about each row."""
    read = OracleLineage().read(f"select {value} as x, email, (email) as y from users", SHOP)
    assert read is not None
    assert [bool(out.plain) for out in read.answers[0]] == [False, True, True]


def test_attack_large_or_deep_text_is_read_within_ten_seconds() -> None:
    for text in (
        "select '" + "x" * MOST_TEXT + "' from dual",
        "select " + "(" * 5_000 + "email" + ")" * 5_000 + " from users",
        "select " + "upper(" * 2_000 + "email" + ")" * 2_000 + " from users",
        "select " + "json_object('a' value " * 50 + "email" + ")" * 50 + " from users",
        "select * from " + ",".join(["users"] * 3_000),
        "with " + ",".join(f"t{n} as (select * from t{max(n - 1, 0)})" for n in range(300)) + " select * from t299",
        "select " + " || ".join(["email"] * 8_000) + " from users",
        "begin " + "select email into :a from users; " * 500 + "end;",
        "begin execute immediate '" + "begin null; end; " * 2_000 + "'; end;",
        "select u" + ".a" * 8_000 + " from users u",
        "select xmlforest(" + ",".join(["email"] * 5_000) + ") from users",
    ):
        start = time.process_time()
        OracleLineage().read(text, SHOP)
        assert time.process_time() - start < within(10)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_lineage_of_arbitrary_text_does_not_raise(text: str) -> None:
    OracleLineage().read(text, SHOP)
    OracleLineage().read(f"select {text} from users", SHOP)
    OracleLineage().read(f"begin {text} end;", SHOP)


_CASES: dict[str, Callable[[str], str]] = {"as it is": str, "upper": str.upper, "swapped": str.swapcase}
_TEXTS = [text for text, _ in origins_of_file()]


@settings(deadline=None)
@given(st.sampled_from(_TEXTS), st.integers(0, 120), st.text("()',;@:.[]\"= asfromwhere", max_size=6))
def test_lineage_of_a_damaged_text_does_not_raise(text: str, place: int, put: str) -> None:
    OracleLineage().read(text[:place] + put + text[place:], SHOP)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_comments_blanks_and_case_do_not_change_the_origins(data: st.DataObject) -> None:
    plain = [text for text in _TEXTS if not set(text) & set("'\":/$") and "--" not in text]
    text = data.draw(st.sampled_from(plain))
    blanks = st.sampled_from([" ", "\n", "\t", "/**/", " /* ; ' */ ", " -- '\n", "\r\n"])
    other = "".join(data.draw(blanks) if sign == " " else sign for sign in text)
    other = _CASES[data.draw(st.sampled_from(list(_CASES)))](other)
    assert answers(other) == answers(text)
