"""Origins of the columns of one text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.promises import within

from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import MOST_TEXT
from postern.inspection.lineage.scope import Out
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage


def relation(name: str, columns: str, schema: str = "dbo", **more: object) -> Relation:
    return Relation(schema, name, tuple(columns.split()), **more)  # type: ignore[arg-type]


def target(
    *relations: Relation, functions: tuple[Function, ...] = (), path: tuple[str, ...] = ("dbo",)
) -> TargetSchema:
    return TargetSchema(
        {(one.schema, one.name): one for one in relations},
        {(one.schema, one.name): one for one in functions},
        path,
        database="shop",
    )


USERS = relation("users", "id email name")
ORDERS = relation("orders", "id user_id note")
STAFF = relation("staff", "id salary", "hr")
SHOP = target(USERS, ORDERS, STAFF)


def text_of(out: Out) -> str:
    sources = "?" if out.sources is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in out.sources))
    return f"*{sources}" if out.many else sources


def answers(text: str, schema: TargetSchema = SHOP) -> list[list[str]] | None:
    """Return the sources of each column of each answer: `?` if unknown, with `*` for any number of columns."""
    read = TSqlLineage().read(text, schema)
    return None if read is None else [[text_of(out) for out in outs] for outs in read.answers]


def origins_of_file() -> list[tuple[str, list[str]]]:
    """Return the texts of the file, and the sources of each column of their only answer."""
    lines = Path(__file__).with_name("tsql_origins.txt").read_text().splitlines()
    parts = [line.split("  =>  ") for line in lines]
    return [(text, [column.strip("- ") for column in columns.split(" | ")]) for text, columns in parts]


@pytest.mark.parametrize(("text", "columns"), origins_of_file())
def test_columns_have_the_origins_of_what_they_show(text: str, columns: list[str]) -> None:
    assert answers(text) == [columns]


@pytest.mark.parametrize(
    "text",
    [
        "select dbo.leak(email) from users",
        "select email from other.dbo.users",
        "select email from srv.shop.dbo.users",
        "select nobody_knows from users",
        "select u.email from users",
        "select error_message()",
        "select text from sys.dm_exec_sql_text(0x)",
        "select name from sys.dm_exec_sessions",
        "select a from openquery(srv, 'x') q",
        "select a from dbo.rows_of(1)",
        "select email from #never_created",
        "select email from ##everybodys",
        "exec dbo.p",
        "exec ('select 1') at srv",
        "exec (@unknown)",
        "select email from users for browse",
        "dbcc show_statistics (users, ix)",
        "readtext users.email @p 0 9",
        "waitfor (receive * from q)",
        "select {fn upper(email)} from users",
        "select email from [users",
        "select email from users where (",
        "insert orders (note) output inserted.nobody_knows select 'x'",
        "update v set a = 1 output inserted.a from (select id as a from users) v",
        "execute as user = 'x'; select salary from staff, users; select nothing from staff2",
    ],
)
def test_column_that_cannot_be_resolved_is_unknown(text: str) -> None:
    found = answers(text)
    assert found is None or any("?" in column for columns in found for column in columns)


@pytest.mark.parametrize(
    "spelled", ["users", "Users", "[USERS]", "dbo.users", "SHOP.[dbo].users", "shop..users", "[users ]", '"users"']
)
def test_table_names_are_resolved_in_any_case_and_quoting(spelled: str) -> None:  # fmt: skip
    assert answers(f"select EMAIL, [Name ] from {spelled}") == [["users.email", "users.name"]]


def test_name_without_a_schema_is_looked_up_in_that_of_the_login_and_in_dbo() -> None:
    schema = target(USERS, relation("users", "id secret", "hr"), relation("only", "a", "app"), path=("hr",))
    assert answers("select secret from users", schema) == [["users.secret"]]
    assert answers("select email from dbo.users", schema) == [["users.email"]]
    assert answers("select a from only", schema) == [["only.a"]]
    both = target(relation("t", "a", "x"), relation("t", "a", "y"))
    assert answers("select a from t", both) == [["?"]]


def test_cte_is_seen_by_itself_and_later_ones_only() -> None:
    text = "with a as (select note from orders), orders as (select email as note from users) select note from a"
    assert answers(text) == [["orders.note"]]


def test_name_of_a_cte_in_other_letters_may_be_a_table_of_that_name() -> None:
    assert answers("with Users as (select note as email from orders) select email from Users") == [["orders.note"]]
    found = answers("with Users as (select note as email from orders) select email from users")
    assert found == [["orders.note users.email users.id users.name"]]


def test_views_synonyms_and_computed_columns_are_followed() -> None:
    schema = target(
        USERS,
        relation("v", "mail n", definition="create view dbo.v as select email, upper(name) from users where id > 0"),
        relation("w", "a b", definition="-- x\nCREATE VIEW w (a, b)\nWITH SCHEMABINDING AS SELECT mail, n FROM dbo.v"),
        relation("y", "a", definition="create view y as select mail from v with check option"),
        relation("s", "id email name", definition="select * from [dbo].[users]"),
        relation("odd", "a", definition="create view odd as select {x}"),
        relation("itself", "a", definition="create view itself as select a from itself"),
        relation("less", "a b", definition="create view less as select email from users"),
        relation("hidden", "a", "app", definition="create view app.hidden as select email from users"),
        relation("users", "email", "app"),
        relation("t", "a b c", generated={"c": "(upper([a])+[b])"}),
    )  # fmt: skip
    assert answers("select mail, n from v", schema) == [["users.email v.mail", "users.name v.n"]]
    assert answers("select a from w", schema) == [["users.email v.mail w.a"]]
    assert answers("select a from y", schema) == [["users.email v.mail y.a"]]
    assert answers("select name from s", schema) == [["s.name users.name"]]
    assert answers("select a from odd; select a from itself; select a from less", schema) == [["?"]] * 3
    assert answers("select a from app.hidden", schema) == [["hidden.a users.email"]]
    read = TSqlLineage().read("select a from app.hidden", schema)
    assert read is not None
    assert {ref.schema for ref in read.answers[0][0].sources or ()} == {"app"}
    assert answers("select c, a from t", schema) == [["t.a t.b t.c", "t.a"]]


def test_function_that_the_target_declares_pure_has_the_sources_of_its_arguments() -> None:
    functions = (Function("dbo", "shout", harmless=True, pure=True), Function("dbo", "leak", harmless=True))
    schema = target(USERS, functions=functions)
    assert answers("select dbo.shout(email), dbo.leak(email) from users", schema) == [["users.email", "?"]]


@pytest.mark.parametrize(
    "value", ["upper(email)", "email + ''", "case when email like 'a%' then 1 else 0 end", "max(email)", "len(email)"]
)
def test_attack_value_that_a_text_computes_is_not_plain(value: str) -> None:
    """Masked as it is, equal values would stay equal, and with them the answers to a question about each row."""
    read = TSqlLineage().read(f"select {value} as x, email, (email) as y from users", SHOP)
    assert read is not None
    assert [bool(out.plain) for out in read.answers[0]] == [False, True, True]


def test_each_answer_of_a_batch_has_its_own_columns() -> None:
    text = "set nocount on select email from users select note, id from orders; if @x = 1 select 1 else exec dbo.p"
    assert answers(text) == [["users.email"], ["orders.note", "orders.id"], [""], ["*?"]]


def test_conditions_count_in_loops_only() -> None:
    once = "declare @n int = 0; if exists (select 1 from users where email like 'a%') set @n = 1; select @n"
    assert answers(once) == [[""]]
    loop = once.replace("if ", "while @n < 1 and ")
    assert answers(loop) == [["users.email"]] or answers(loop) == [[""], ["users.email"]]


def test_attack_large_or_deep_text_is_read_within_ten_seconds() -> None:
    for text in (
        "select '" + "x" * MOST_TEXT + "'",
        "select " + "(" * 5_000 + "email" + ")" * 5_000 + " from users",
        "select " + "upper(" * 2_000 + "email" + ")" * 2_000 + " from users",
        "select * from " + ",".join(["users"] * 3_000),
        "with " + ",".join(f"t{n} as (select * from t{max(n - 1, 0)})" for n in range(300)) + " select * from t299",
        "select " + " + ".join(["email"] * 8_000) + " from users",
        "select 1 while 1 = 1 " * 1_000,
        "declare @a int " + "set @a = @a + 1 " * 3_000 + "while 1 = 1 select @a",
        "exec ('" + "select email from users " * 2_000 + "')",
        "select email into #t from users " + "select * into #u from #t, users " * 300,
    ):
        start = time.process_time()
        TSqlLineage().read(text, SHOP)
        assert time.process_time() - start < within(10)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_lineage_of_arbitrary_text_does_not_raise(text: str) -> None:
    TSqlLineage().read(text, SHOP)
    TSqlLineage().read(f"select {text} from users", SHOP)


_TEXTS = (
    "declare @t table (a int, b as a); insert @t (a) output inserted.a select id from users; select * from @t",
    "merge #t as t using users u on t.a = u.id when matched then update set a = 1 output inserted.a into @x (a);",
    "exec sp_executesql N'select @a from users', N'@a int output', @a = @b output",
    "with c (a) as (select 1 union all select a + 1 from c) update c set a = 2 from c join users u on 1 = 1",
    "declare c cursor for select email from users for read only; fetch next from c into @a, @b",
)


@settings(deadline=None)
@given(st.sampled_from(_TEXTS), st.integers(0, 120), st.text("()',;@#.[]\"= asfromwhere", max_size=6))
def test_lineage_of_a_damaged_text_does_not_raise(text: str, place: int, put: str) -> None:
    TSqlLineage().read(text[:place] + put + text[place:], SHOP)
