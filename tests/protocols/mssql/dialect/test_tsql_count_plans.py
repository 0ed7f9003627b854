"""How T-SQL is counted: the query of a part, and why others have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.rules.row_count import Uncountable
from postern.inspection.sql.sql_parser import unknown
from postern.inspection.sql.sql_tokens import words_of
from postern.protocols.mssql.dialect import tsql_count_plans as tsql_count_plans_module
from postern.protocols.mssql.dialect.tsql_batches import only_batch, statements
from postern.protocols.mssql.dialect.tsql_count_plans import TsqlCountPlan, tsql_count_plans
from postern.protocols.mssql.dialect.tsql_settings import UNKNOWN, read_settings
from postern.protocols.mssql.dialect.tsql_side_effect_free import FoundTable

TOP = "SELECT COUNT_BIG(*) FROM (SELECT TOP (1000001) 1 AS [one] FROM"
END = ") AS [counted] OPTION (EXPAND VIEWS, MAXDOP 1)"


def plan_of(text: str) -> TsqlCountPlan:
    (plan,) = tsql_count_plans(text).parts
    return plan


def query_of(text: str) -> str:
    plan = plan_of(text)
    assert plan.why_not == ""
    return plan.query({name: FoundTable(name[0] or "dbo", name[1], ("id",)) for name in plan.tables})


COUNTED = {
    "DELETE t": f"{TOP} [dbo].[t] AS [t] {END}",
    "delete from hr.t with (rowlock, holdlock) where id = 1": f"{TOP} [hr].[t] AS [t] WHERE [id] = 1 {END}",
    "update t set a = (select 1 from u), b = 2 where t.name like N'a''b%' option (recompile)": (
        f"{TOP} [dbo].[t] AS [t] WHERE [t].[name] LIKE N'a''b%' {END}"
    ),
    "update top (5) t set a = 1 output deleted.a": f"{TOP.replace('1000001', '5')} [dbo].[t] AS [t] {END}",
    "delete top 2000000 from t": f"{TOP} [dbo].[t] AS [t] {END}",
    "delete from [a]]b] where [user] = @p /* x */ -- y": f"{TOP} [dbo].[a]]b] AS [a]]b] WHERE [user] = @p {END}",
    "delete from dbo.t where dbo.t.id in (1, 2)": f"{TOP} [dbo].[t] AS [t] WHERE [t].[id] IN ( 1 , 2 ) {END}",
    "delete from t where exists (select * from u where u.id = t.id)": (
        f"{TOP} [dbo].[t] AS [t] WHERE EXISTS ( SELECT 1 FROM [dbo].[u] AS [u] WHERE [u].[id] = [t].[id] ) {END}"
    ),
    "delete from t where cast(a as decimal(10, 2)) > 1 and datediff(day, b, getdate()) > 30": (
        f"{TOP} [dbo].[t] AS [t] WHERE CAST ( [a] AS DECIMAL(10, 2) ) > 1 AND DATEDIFF ( day , [b] , GETDATE ( ) )"
        f" > 30 {END}"
    ),
    "delete a from t a join u on u.id = a.id where u.n > 1": (
        f"{TOP} [dbo].[t] AS [postern target] WHERE EXISTS (SELECT 1 FROM (SELECT 1 AS [postern row],"
        " [postern target].[id] AS [id]) AS [a] JOIN [dbo].[u] AS [u] ON [u].[id] = [a].[id]"
        f" WHERE [a].[postern row] = 1 AND ( [u].[n] > 1 ) ) {END}"
    ),
    "with c (n) as (select id from u) delete from t where id in (select n from c)": (
        f"WITH [c] ([n]) AS ( SELECT [id] FROM [dbo].[u] AS [u] ) {TOP} [dbo].[t] AS [t] WHERE [id] IN"
        f" ( SELECT [n] FROM [c] AS [c] ) {END}"
    ),
    "delete from t where id in (select value from string_split(@ids, ',') s)": (
        f"{TOP} [dbo].[t] AS [t] WHERE [id] IN ( SELECT [value] FROM STRING_SPLIT ( @ids , ',' ) AS [s] ) {END}"
    ),
    "merge t using u on u.id = t.id when matched and u.n = 1 then delete when matched then update set n = 2;": (
        f"{TOP} ( SELECT 1 AS [one] FROM [dbo].[u] AS [u] INNER JOIN [dbo].[t] AS [t] ON ( [u].[id] = [t].[id] )"
        f" WHERE ( [u].[n] = 1 ) OR ( 1 = 1 ) ) AS [acted] {END}"
    ),
}


@pytest.mark.parametrize("text", COUNTED)
def test_count_query_has_the_condition_of_the_statement(text: str) -> None:
    assert query_of(text) == COUNTED[text]


def test_plan_says_what_the_statement_uses() -> None:
    plan = plan_of(
        "update hr.t set a = 1, t.b = @q, @v = c += 2 where [id] = @P and len(name) > (select max(n) from u)"
    )
    assert (plan.action, plan.target, plan.table) == ("UPDATE", ("hr", "t"), "hr.t")
    assert plan.tables == (("hr", "t"), ("", "u"))
    assert plan.sets == {"a", "b"}
    assert sorted(plan.columns or ()) == ["id", "n", "name"]
    assert plan.functions == {"LEN", "MAX"}
    assert plan.variables == ("@p",)
    assert plan_of("delete t where exists (select u.* from u)").columns is None
    assert not plan_of("delete A from t A").is_folded
    assert plan_of("delete A from t a").is_folded


QUOTES = "text in double quotes"
UNCOUNTED = {
    # Names that can be code of a user
    "delete t where dbo.f(id) = 1": "it calls dbo.f()",
    "delete t where f(id) = 1": "it calls f()",
    "delete t where [len](id) = 1": "it calls len()",
    "delete t where id in (select x from f(1) g)": "it calls f()",
    "delete t from t cross apply dbo.f(t.id) g": "it calls dbo.f()",
    "delete t where doc.value('(/a)[1]', 'int') = 1": "it calls doc.value()",
    "delete t where place.STDistance(@p) < 1": "it calls place.STDistance()",
    "delete t where hierarchyid::Parse('/1/') = id": "not supported for counting (::)",
    "delete t where cast(id as dbo.kind) = 1": "it converts to the type dbo",
    "delete t where cast(id as xml) is null": "it converts to the type xml",
    "delete t where convert(kind, id) = 1": "it converts to the type kind",
    # Other servers, files, and what has effects
    "delete from openquery(far, 'select 1')": "it reads from another server",
    "delete t where id in (select id from openrowset('x', 'y', 'z'))": "it reads from another server",
    "delete t from t join opendatasource('a', 'b').c.dbo.u u on 1 = 1": "it reads from another server",
    "delete from far.shop.dbo.t": "it names a database or another server",
    "delete from other.dbo.t": "it names a database or another server",
    "delete t where id in (select id from other..u)": "not supported for counting (.)",
    "delete t where id = next value for s": "not supported for counting (FOR)",
    "delete t where contains(name, 'x')": "it calls CONTAINS()",
    "delete t where id in (select id from changetable(changes t, 0) c)": "it calls changetable()",
    "delete t where id in (select id from openjson(@j))": "it calls openjson()",
    # What depends on the session, on chance, or on a setting that is not repeated
    "delete t where id = newid()": "it calls newid()",
    "delete t where rand() > 0.5": "it calls rand()",
    "delete t where owner = suser_sname()": "it calls suser_sname()",
    "delete t where owner = current_user": "not supported for counting (CURRENT_USER)",
    "delete t where owner = user": "not supported for counting (USER)",
    "delete t where id = @@spid": "@@spid, whose value depends on the session",
    "delete t where id = cast(session_context(N'id') as int)": "it calls session_context()",
    "delete t where format(born, 'd') = 'x'": "it calls format()",
    'delete "t"': QUOTES,
    'delete t where name = "x"': QUOTES,
    'delete t where name = ""': QUOTES,
    "delete t where id in (select top (@n) id from u)": "the number in its TOP is not a literal",
    "delete top (@n) from t": "the number in its TOP is not a literal",
    "delete top (10) percent from t": "PERCENT",
    "delete t where id in (select top 1 with ties id from u order by n)": "WITH TIES",
    "delete t with (readpast)": "READPAST skips rows",
    "delete t from t (readpast) where 1 = 1": "READPAST skips rows",
    "delete t from t for system_time as of '2020-01-01' where id = 1": "not supported for counting (FOR)",
    "delete t from t tablesample (10 percent)": "not supported for counting (TABLESAMPLE)",
    # What reads columns that are not seen
    "delete t where checksum(*) = 1": "not supported for counting (*)",
    "delete t where $identity = 1": "$identity",
    # Targets that are no table, or one that is not clear
    "delete #t": "#t is a temporary table of a session",
    "delete t where id in (select id from [#u])": "#u is a temporary table",
    "delete @t": "it uses a table variable",
    "delete t from t join @u u on u.id = t.id": "it uses a table variable",
    "with c as (select * from t) delete from c": "by a query of its WITH",
    "delete t where current of c": "at a cursor",
    "delete t from u": "its target is not a table of its FROM",
    "delete t from t a join t b on a.id = b.id": "it is unclear which table",
    "delete d from (select id from u) d join dbo.d x on x.id = d.id": "its target is not a table of its FROM",
    "delete t option (recompile) x": "not supported for counting (X)",
    "delete t option (recompile": "its end",
    "delete t from hr.t join dbo.t on 1 = 1": "it is unclear which table",
    "delete t where hr.u.id = 1": "it is unclear which table hr.u is",
    "delete t where exists (select 1 from u t where dbo.t.id = 1)": "it is unclear which table dbo.t is",
    "with t as (select 1 a) delete dbo.t where a in (select a from T)": "T may be a table, or a query of its WITH",
    "with c as (select 1 n union all select n + 1 from c) delete t where id in (select n from c)": "recursive",
    # Variables
    "update t set @p = id where @p = 1": "it uses a variable that it assigns",
    "declare @p int = 1; delete t where id = @p": "it uses a variable that earlier statements assign",
    "set @p = 1; delete t where id = @p": "it uses a variable that earlier statements assign",
    "select @p = max(id) from t; delete t where id = @p": "it uses a variable that earlier statements assign",
    # Grammar that is not read
    "delete t where id = 1 for xml auto": "not supported for counting (FOR)",
    "delete t where row_number() over (order by id) = 1": "it calls row_number()",
    "delete t where count(*) over (order by id) = 1": "it calls OVER()",
    "merge t using u on u.id = t.id when matched then delete when": "its end",
    "merge t using u join v on u.id = v.id when matched then delete;": "the ON of the MERGE is not understood",
    "delete": "its end",
}


@pytest.mark.parametrize("text", UNCOUNTED)
def test_attack_statement_that_may_run_code_or_mean_something_else_is_not_counted(text: str) -> None:
    plan = tsql_count_plans(text).parts[-1]
    assert UNCOUNTED[text] in plan.why_not


@pytest.mark.parametrize(
    "prefix",
    ["exec p; ", "use other; ", "set rowcount 5; ", "execute as user = 'x'; ", "commit; ", "truncate table u; ",
     "create table t (id int); ", "select 1 as a into t; ", "return; ", "insert t exec p; ", "p; ", "rollback; ",
     "set language german; ", "waitfor delay '1'; ", "throw 50000, 'x', 1; "],
)  # fmt: skip
def test_attack_statement_after_a_meaning_changing_one_is_not_counted(prefix: str) -> None:
    plans = tsql_count_plans(prefix + "delete t")
    assert plans.parts[-1].why_not == "earlier statements can change its meaning"
    assert plans.stirs
    behind = tsql_count_plans("delete t; " + prefix)
    assert behind.parts[0].why_not == ""


@pytest.mark.parametrize(
    "text",
    ["if 1 = 1 delete t", "while 1 = 1 delete t", "begin try delete t end try begin catch select 1 end catch",
     "if 1 = 0 select 1 else delete t", "goto x; delete t; x:", "begin delete t end"],
)  # fmt: skip
def test_attack_statement_that_runs_on_conditions_is_not_counted(text: str) -> None:
    assert "control flow" in tsql_count_plans(text).parts[-1].why_not


@pytest.mark.parametrize(
    ("text", "is_more"),
    [("set nocount on; delete t", False), ("begin tran; delete t", False),
     ("declare @x int; print 'a'; delete t", False), ("select 1; delete t", False),
     ("insert t values (1); delete t", True),
     ("delete t output deleted.id into u", True), ("delete t output deleted.id", False)],
)  # fmt: skip
def test_other_effects_of_a_text_are_noted(text: str, is_more: bool) -> None:
    plans = tsql_count_plans(text)
    assert (plans.parts[-1].why_not, plans.stirs, plans.more) == ("", False, is_more)


@pytest.mark.parametrize(
    "text", ["select 1", "exec p", "insert t select 1", "truncate table t", "update statistics t", ""]
)
def test_text_without_countable_parts_has_no_plan(text: str) -> None:
    assert tsql_count_plans(text).parts == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [("delete t where id = " + "1" * 10_000, "longer than"), ("delete t where a = 'x", "not closed"),
     ("delete t\ngo\ndelete u", "GO is between"), ("delete t where " + "(" * 3000 + "1 = 1" + ")" * 3000, "nested")],
)  # fmt: skip
def test_text_that_cannot_be_read_says_why(text: str, why: str) -> None:
    (plan,) = tsql_count_plans(text).parts
    assert why in plan.why_not


WORDS = words_of(
    """
    id name t u [a]]b] @p 1 0x1F 'x' N'y''z' $1.5 = <> + - * ( ) , . and or not in like is null between case when then
    else end exists select from where join left right on group by having order top union all values as cast convert len
    count max string_split over into exec execute insert update set ; -- /* */ # @@spid option with nolock readpast int
    cross apply distinct collate any some dbo openquery next value for begin commit merge using matched delete output if
    """
)
FORBIDDEN = words_of(
    "INSERT UPDATE DELETE MERGE EXEC EXECUTE INTO SET OPENQUERY BEGIN COMMIT OUTPUT DECLARE USE IF FOR"
)
STARTS = [
    "delete t where ",
    "delete t from t ",
    "update t set id = 1 where ",
    "merge t using ",
    "with c as (",
    "delete ",
]


@given(st.sampled_from(STARTS), st.lists(st.sampled_from(sorted(WORDS)), max_size=14))
def test_attack_count_query_of_any_text_is_one_query_that_only_reads(start: str, words: list[str]) -> None:
    for plan in tsql_count_plans(start + " ".join(words)).parts:
        if plan.why_not:
            continue
        try:
            query = plan.query({name: FoundTable("dbo", name[1], ("id",)) for name in plan.tables})
        except Uncountable:
            continue
        (tokens,) = statements(only_batch(query))
        assert FORBIDDEN.isdisjoint(token.key for token in tokens)
        assert tokens[0].key in ("SELECT", "WITH")


def test_attack_query_that_two_readers_understand_differently_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("delete t")
    for found in ((), (unknown("x"),), (unknown("x"), unknown("x"))):
        monkeypatch.setattr(tsql_count_plans_module, "judge_text", lambda *_, found=found: found)
        with pytest.raises(Uncountable, match="could not be verified"):
            plan.query({("", "t"): FoundTable("dbo", "t")})


SETTINGS = {
    ("set dateformat dmy", "set nocount on"): ["SET DATEFORMAT DMY"],
    ("set dateformat dmy", "set language N'German'; select 1"): ["SET DATEFORMAT DMY", "SET LANGUAGE N'German'"],
    ("set language us_english", "set dateformat dmy", "set language us_english"): [
        "SET DATEFORMAT DMY",
        "SET LANGUAGE N'us_english'",
    ],
    ("set ansi_nulls, ansi_padding off set datefirst 1",): [
        "SET ANSI_NULLS OFF",
        "SET ANSI_PADDING OFF",
        "SET DATEFIRST 1",
    ],
    ("set rowcount 10", "set rowcount 0"): [],
    ("set transaction isolation level snapshot", "set textsize 1; set statistics io on", "set fmtonly off"): [],
    ("update t set a = 1; select 1", "create procedure p as set dateformat dmy"): [],
    (
        "set ansi_nulls on set ansi_null_dflt_on on set ansi_warnings on set cursor_close_on_commit off set datefirst 7"
        " set dateformat mdy set implicit_transactions off set language us_english set textsize 2147483647"
        " set transaction isolation level read committed set xact_abort off",
    ): [
        "SET ANSI_NULLS ON",
        "SET ANSI_WARNINGS ON",
        "SET DATEFIRST 7",
        "SET DATEFORMAT MDY",
        "SET LANGUAGE N'us_english'",
    ],
    ("/* x */ set /* y */ quoted_identifier -- z\n off",): ["SET QUOTED_IDENTIFIER OFF"],
}


@pytest.mark.parametrize("texts", SETTINGS)
def test_options_of_a_session_are_repeated(texts: tuple[str, ...]) -> None:
    assert read_settings(texts) == SETTINGS[texts]


@pytest.mark.parametrize(
    "text",
    ["set dateformat @f", "if 1 = 1 set dateformat dmy", "select 1; set dateformat dmy", "return set dateformat dmy",
     "set noexec on", "set language N'x''y'", "set rowcount @n", "set datefirst 9", "set unknown on",
     "set dateformat xyz", "set ansi_nulls", "set dateformat 'dmy", "set fmtonly on select 1 set fmtonly off"],
)  # fmt: skip
def test_attack_unclear_option_of_a_session_prevents_the_count(text: str) -> None:
    with pytest.raises(Uncountable) as refused:
        read_settings([text])
    assert str(refused.value) == UNKNOWN


def test_attack_limit_of_rows_prevents_the_count() -> None:
    with pytest.raises(Uncountable, match="SET ROWCOUNT limits"):
        read_settings(["set rowcount 10"])
