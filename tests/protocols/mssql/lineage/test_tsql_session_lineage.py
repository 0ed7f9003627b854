"""Origins of a session's answers: what earlier texts have changed, and which answer a column belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocols.mssql.lineage.test_tsql_lineage import ORDERS, SHOP, STAFF, USERS, relation, target

from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
from postern.protocols.mssql.lineage.tsql_session_lineage import TSqlSessionLineage
from postern.protocols.mssql.wire.mssql_output_variables import OF_A_PROCEDURE, VARIABLE


def session(*texts: str, schema: TargetSchema | None = SHOP) -> TSqlSessionLineage:
    lineage = TSqlSessionLineage(TSqlLineage(), lambda: schema)
    for text in texts:
        lineage.record_statement(text)
    return lineage


def origins(of: TSqlSessionLineage, text: str, *names: str) -> list[str | None] | None:
    of.record_statement(text)
    found = of.of(text, [Column(name, TextKind.TEXT) for name in names])
    if found is None:
        return None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one.refs)) for one in found]


def test_temporary_tables_are_known_in_later_texts() -> None:
    of = session("select email, id into #t from users")
    assert origins(of, "select * from #T", "email", "id") == ["users.email", "users.id"]
    of.record_statement("insert #t (id) select user_id from orders")
    assert origins(of, "select id from #t", "id") == ["orders.user_id users.id"]
    assert origins(of, "select id from tempdb..#t", "id") == ["orders.user_id users.id"]
    of.record_statement("drop table #t; select note as email, 1 as id into #t from orders")
    assert origins(of, "select email from #t", "email") == ["orders.note users.email"]


def test_variables_end_with_their_batch() -> None:
    of = session("declare @v nvarchar(9); select @v = email from users")
    assert origins(of, "select @v as v", "v") == [""]  # a parameter, whose value is the client's


def variables(of: TSqlSessionLineage, text: str, *names: str) -> list[str | None]:
    """The origins of output parameters, by their names without @."""
    of.record_statement(text)
    found = of.of(text, [Column(name, TextKind.TEXT, position=VARIABLE) for name in names])
    assert found is not None
    return [None if one is None else " ".join(sorted(f"{ref.table}.{ref.column}" for ref in one.refs)) for one in found]


def test_output_parameters_have_the_origins_of_what_was_assigned() -> None:
    text = "select @a = email, @B = 1 from users"
    assert variables(session(), text, "A", "b", "never") == ["users.email", "", ""]
    assert variables(session(), "exec dbo.p @a output", "a") == [None]
    assert variables(session(), "select 'open", "a") == [None]
    text = "select @a = email, @b = note from users, orders"
    assert variables(session(), text, "", "b") == ["orders.note users.email", "orders.note"]
    assert session().of(text, [Column("a", TextKind.TEXT, position=OF_A_PROCEDURE)]) == (None,)


def test_attack_variable_in_letters_that_some_servers_ignore_can_be_any() -> None:
    assert variables(session(), "select @\uff41 = email from users", "a", "b") == ["users.email", ""]
    assert variables(session(), "select @a\u0640 = email from users", "a", "b") == ["users.email", "users.email"]


@pytest.mark.parametrize(
    "text",
    [
        "declare @v nvarchar(9) select @v = email from users\nGO\nselect @v as v",
        "declare @v nvarchar(9) select @v = email from users\r\n go \r\nselect @v as v",
        "exec ('declare @v nvarchar(9) select @v = email from users\nGO\nselect @v as v')",
        "GO\nselect 1 as v",
    ],
)
def test_attack_line_with_go_ends_no_batch_for_a_server(text: str) -> None:
    """It is an alias there, or the name of a procedure: variables go on."""
    assert origins(session(), text, "v") == [None]


def test_output_of_a_delete_without_from_is_known() -> None:
    assert origins(session(), "delete users output deleted.email where id = 1", "email") == ["users.email"]


def test_go_at_the_end_is_an_alias_at_most() -> None:
    assert origins(session(), "select email from users\nGO\n", "email") == ["users.email"]
    assert origins(session(), "select email from users\nGO 5", "email") == [None]


def test_column_that_the_server_adds_to_rows_of_a_cursor_is_left_out() -> None:
    of = session("select email from users")
    email, status = Column("email", TextKind.TEXT), Column("ROWSTAT", TextKind.NUMBER)
    added = replace(status, position=-1)
    assert of.of("select email from users", [email, status]) == (None, None)
    first, last = of.of("select email from users", [email, added]) or ()
    assert first is not None
    assert {ref.column for ref in first.refs} == {"email"}
    assert last == first.__class__(frozenset())
    assert of.of("exec p", [email, added]) == (None, Origin())


def test_answer_is_identified_by_number_and_names_of_its_columns() -> None:
    text = "select email from users; select note, id from orders; select upper(name) from users"
    of = session()
    assert origins(of, text, "email") == ["users.email"]
    assert origins(of, text, "note", "id") == ["orders.note", "orders.id"]
    assert origins(of, text, "") == ["users.name"]
    assert origins(of, text, "a", "b", "c") == [None, None, None]


def test_attack_answer_of_a_trigger_does_not_have_the_origins_of_another_answer() -> None:
    of = session()
    assert origins(of, "update orders set note = 'x'; select 1 as one", "secret") == [None]
    assert origins(of, "update orders set note = 'x'; select 1 as one", "one") == [""]


def test_attack_name_that_ends_with_blanks_is_not_taken_for_another_answer() -> None:
    assert origins(session(), "select email as [x ] from users; select 1 + 1", "x ") == ["users.email"]
    assert origins(session(), "select $rowguid from users; select 1 + 1", "id") == [None]


@pytest.mark.parametrize(
    "text",
    [
        "exec dbo.fill",
        "exec (@sql)",
        "exec sp_rename 'tempdb..#t.id', 'email'",
        "insert #t exec dbo.p",
        "bulk insert #t from 'x'",
        "select 'open",
        "alter table #t add x int default dbo.f()",
    ],
)
def test_attack_temporary_table_is_unknown_after_code_that_can_change_it(text: str) -> None:
    of = session("select 1 as id, 'x' as email into #t", text)
    assert origins(of, "select email from #t", "email") == [None]


@pytest.mark.parametrize(
    "text",
    [
        "create view orders as select email as note from users",
        "create synonym orders for users",
        "alter table orders add x int",
        "select email as note into orders from users",
        "exec sp_rename 'users', 'orders'",
        "exec ('drop table orders')",
        "create or alter view orders as select 1 as note",
        "select from where (",
        "use other",
        "exec sp_MSforeachtable 'create view orders as select email as note from users'",
    ],
)
def test_attack_lineage_is_unknown_after_a_text_that_can_replace_the_table(text: str) -> None:
    of = session()
    assert origins(of, "select note from orders", "note") == ["orders.note"]
    assert origins(session(text), "select note from orders", "note") == [None]


@pytest.mark.parametrize(
    "text",
    [
        "set nocount on; begin tran; commit",
        "use shop",
        "insert orders (note) values ('x')",
        "create table #x (a int); drop table #x; create index i on orders (note)",
        "exec sp_executesql N'select 1'",
        "exec sp_help 'orders'",
        "print 'x'; raiserror('x', 10, 1) with nowait",
        "grant select on orders to x",
        "update statistics orders",
        "declare @t table (a int); insert @t values (1)",
        "set identity_insert orders on",
        "if object_id('tempdb..#x') is not null drop table #x",
        "begin try select 1 end try begin catch throw; end catch",
        "waitfor delay '00:00:01'",
        "truncate table orders",
        "set showplan_all off set statistics xml, profile off",
    ],
)
def test_ordinary_texts_leave_tables_settings_and_temporary_tables_known(text: str) -> None:
    of = session("select email into #t from users", text)
    assert origins(of, "select note from orders", "note") == ["orders.note"]
    assert origins(of, "select email from #t", "email") == ["users.email"]
    assert origins(of, "select context_info() as c, error_number() as n", "c", "n") == ["", ""]


def test_names_of_the_snapshots_database_stay_known_after_use() -> None:
    of = session("use other")
    assert origins(of, "select email from shop.dbo.users", "email") == ["users.email"]
    assert origins(of, "select email from users", "email") == [None]


@pytest.mark.parametrize("name", ["other.sys.sp_executesql", "other..sp_executesql", "[master].dbo.sp_executesql"])
def test_attack_text_that_runs_in_another_database_is_unknown(name: str) -> None:
    query = "N'select note from orders'"
    assert origins(session(), f"exec {name} {query}", "note") == [None]
    assert origins(session(), f"exec shop.sys.sp_executesql {query}", "note") == ["orders.note"]
    prepares = name.replace("executesql", "prepexec")
    assert origins(session(), f"declare @h int exec {prepares} @h output, null, {query}", "note") == [None]


def test_attack_default_schema_is_unknown_as_another_user() -> None:
    both = target(USERS, relation("users", "id email", "app"), STAFF)
    for text in ("execute as user = 'x'", "alter user x with default_schema = app"):
        of = session(text, schema=both)
        assert origins(of, "select email from users", "email") == [None]
        assert origins(of, "select email from dbo.users", "email") == ["users.email"]


def test_cursors_are_known_unless_they_read_temporary_tables() -> None:
    of = session("declare c cursor for select email from users; open c")
    assert origins(of, "fetch next from C", "email") == ["users.email"]
    of = session("select 'x' as a into #t; declare c cursor for select a from #t; open c")
    of.record_statement("insert #t select email from users")
    assert origins(of, "fetch next from c", "a") == [None]


@pytest.mark.parametrize("text", ["set statistics xml on", "set showplan_all on", "set statistics io, xml on"])
def test_attack_plans_and_everything_else_are_unknown_after_they_were_requested(text: str) -> None:
    of = session(text)
    assert origins(of, "select note from orders", "note") == [None]


def test_lineage_is_unknown_after_a_gap_and_without_a_catalogue() -> None:
    of = session()
    of.record_gap()
    assert origins(of, "select email from users", "email") == [None]
    assert origins(session(schema=None), "select 1 as a, email from users", "a", "email") == ["", None]


def test_temporary_table_that_is_created_again_can_have_what_both_have() -> None:
    of = session("select email as a into #t from users")
    of.record_statement("select note as a into #t from orders")  # after a reset for another user of a pool
    assert origins(of, "select a from #t", "a") == ["orders.note users.email"]


def test_text_that_is_being_read_elsewhere_is_read_once() -> None:
    lineage = TSqlLineage()
    of = TSqlSessionLineage(lineage, lambda: SHOP)
    text = "select email into #t from users; select * from #t"
    unread = of.unread(text)
    assert unread is not None
    unread.keep(unread.task())
    assert of.unread(text) is None
    of.record_statement(text)
    assert of.unread(text) is None  # its own effects do not change what it means
    assert of.unread("select note from orders") is not None


def test_column_has_its_own_tags_and_those_of_its_table() -> None:
    tagged = relation("t", "a b", tags=frozenset({"pii"}), column_tags={"a": frozenset({"secret"})})
    of = session(schema=target(tagged, ORDERS))
    found = of.of("select a, b from t", [Column("a", TextKind.TEXT), Column("b", TextKind.TEXT)])
    assert found is not None
    tags = [set().union(*(of.tags(ref) for ref in one.refs)) for one in found if one is not None]
    assert tags == [{"pii", "secret"}, {"pii"}]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [
                "select email as a, 1 as b into #t from users",
                "insert #t (b) select name from users",
                "update #t set a = 'x'",
                "drop table #t",
                "create table #t (a nvarchar(9), b nvarchar(9))",
                "declare c cursor for select a from #t",
                "exec dbo.p",
                "use other",
            ]
        ),
        max_size=8,
    ),
    st.data(),
)
def test_more_texts_never_take_sources_away(texts: list[str], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(texts)))
    few = session(*texts[:cut]).of("select a from #t", [Column("a", TextKind.TEXT)])
    many = session(*texts).of("select a from #t", [Column("a", TextKind.TEXT)])
    assert few is not None
    assert many is not None
    known = few[0]
    if known is not None and many[0] is not None:
        assert known.refs <= many[0].refs
