"""Facts about answers that the words of a MySQL statement reveal."""

from __future__ import annotations

import pytest

from postern.protocols.mysql.dialect.mysql_statement_facts import chooses_insert_id, runs_code, sets_something, varies

CODE = [
    "begin not atomic declare v int; end",
    "BEGIN select 1; end",
    "declare v int; begin end",
    "if 1 then select 1; end if",
    "case 1 when 1 then select 1; end case",
    "while 0 do select 1; end while",
    "repeat select 1; until 1 end repeat",
    "loop select 1; end loop",
    "for r in (select 1) do select 1; end for",
    "a: begin not atomic end",
    "<<a>> begin end",
    "select 1; begin not atomic end",
    "/*!50000 begin not atomic end */",
    "/*M! call p() */",
    "call p()",
    "signal sqlstate '45000'",
    "resignal",
    "execute s",
    "execute immediate 'select 1'",
    "set statement max_statement_time = 1 for execute s",
    "prepare s from @v",
    "prepare s from concat('select ', 1)",
    "prepare s from 'select 1' 'x' @v",
    "set statement max_statement_time = 1 for prepare s from @v",
    "select '" + "x" * 70_000 + "'",
]
PLAIN = [
    "",
    "begin",
    "begin work",
    "begin; select 1",
    "select case a when 1 then 2 end, if(a, 1, 2), repeat('a', 2) from t",
    "prepare s from 'select nope'",
    'prepare s from "select nope"',
    "deallocate prepare s",
    "drop prepare s",
    "select 'call me', `execute` from t /* signal */",
    "selec nope",
    "select 'open",
    "insert into t values (1)",
    "set @v = 1",
]


@pytest.mark.parametrize(("text", "is_code"), [*[(one, True) for one in CODE], *[(one, False) for one in PLAIN]])
def test_statement_that_runs_code_is_recognised_by_its_words(text: str, is_code: bool) -> None:
    assert runs_code((text,)) is is_code
    assert runs_code(("select 1", text)) is is_code


@pytest.mark.parametrize(
    ("text", "may_vary"),
    [
        ("select upper(name), sum(salary) from people", False),
        ("select sum(salary) from people where id = ?", False),
        ("select upper(name) from people where id in (select person from orders where total > (1))", False),
        ("select s.u from (select upper(name) as u from people) s", False),
        ("with s as (select upper(name) as u from people) select u from s", False),
        ("select upper(name) from people union select extract(year from birthday) from people", False),
        ("select `select`, '(select' from people", False),
        ("update people set name = upper(name)", False),
        ("select @v", True),
        ("select upper(name) from people where id = @v", True),
        ("select repeat('a', @@div_precision_increment)", True),
        ("execute s using 1", True),
        ("execute immediate 'select 1'", True),
        ("call p()", True),
        ("begin not atomic select 1; end", True),
        ("select repeat('a', last_insert_id())", True),
        ("select (select 1)", True),
        ("select round(1.5, (select 1))", True),
        ("select round(1.5, ((select 1)))", True),
        ("select round(1.5, (values (1)))", True),
        ("select round(1.5, (table t))", True),
        ("select round(1.5, (with q as (select 1) select * from q))", True),
        ("select substring(a from (select 1)) from t", True),
        ("select a from t where true union select (select 1)", True),
        ("select s.c from (select round(1.5, (select 1)) as c) s", True),
        ("with s as (select round(1.5, (select 1)) as c) select c from s", True),
        ("insert into t values (1) returning (select 1)", True),
        ("values ((select 1))", True),
        ("select 1; select (select 1)", True),
        ("select 1 /*!50000 , (select 1) */", True),
        ("select '" + "x" * 70_000 + "'", True),
    ],
)
def test_description_can_vary_if_the_server_can_fold_a_constant(text: str, may_vary: bool) -> None:
    assert varies((text,)) is may_vary


@pytest.mark.parametrize(
    ("texts", "sets", "chooses"),
    [
        ((), True, False),
        (("select convert(a using nope)",), False, False),
        (("set session storage_engine = @c",), True, False),
        (("set statement x = 1 for select 1",), True, False),
        (("insert into t values (1)",), False, False),
        (("insert into t values (1)", "update t set a = LAST_INSERT_ID(5)"), True, True),
        (("execute s",), False, True),
    ],
)
def test_statements_that_set_variables_or_the_insert_id_are_recognised(
    texts: tuple[str, ...], sets: bool, chooses: bool
) -> None:
    assert sets_something(texts) is sets
    assert chooses_insert_id(texts) is chooses
