"""Rules about a table, a schema or a function apply to every way to name it."""

from __future__ import annotations

import pytest

from postern.domain.rules.guarded_objects import parse_guarded
from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.sql.sql_parser import Parser
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

_TABLE: dict[type[Parser], str] = {
    PostgresParser: """
        select * from hr.salary
        select * from salary
        SELECT * FROM HR.SALARY
        select * from "hr"."salary"
        select * from "salary"
        select * from U&"\\0068r".U&"salar\\0079"
        select * from U&"h!0072".salary uescape '!'
        select * from db.hr.salary
        table only hr.salary
        copy hr.salary to stdout
        copy (select 1 from hr.salary) to stdout
        explain select * from hr.salary
        declare c cursor for select * from hr.salary
        prepare p as select * from hr.salary
        select 1 where exists (select from hr.salary)
        with a as (select * from hr.salary) select 1
        insert into notes select * from hr.salary
        update notes set a = b from hr.salary
        merge into notes using hr.salary s on true when matched then delete
        merge into hr.salary using notes n on true when matched then delete
        truncate notes, hr.salary
        lock hr.salary
        create table x (like hr.salary)
        create table x (a int references hr.salary)
        create table x partition of hr.salary default
        alter table hr.salary attach partition p default
        alter table hr.salary rename to x
        alter table hr.salary set schema x
        alter table t set schema hr
        create index on hr.salary (a)
        create trigger t before insert on hr.salary execute function f()
        create rule r as on insert to hr.salary do also select 1
        create policy p on hr.salary
        create statistics s on a, b from hr.salary
        create view v as select * from hr.salary
        create function f() returns int language sql as 'select a from hr.salary'
        comment on column hr.salary.a is 'x'
        drop trigger t on hr.salary
        grant select on hr.salary to x
        grant select on all tables in schema hr to x
        alter default privileges in schema hr grant select on tables to x
        alter default privileges grant select on tables to x
        create publication p for tables in schema hr
        alter publication p add tables in schema hr
        create publication p for all tables
        drop schema hr cascade
        alter schema hr rename to x
        reindex schema hr
        reindex database d
        import foreign schema a from server s into hr
        create extension e schema hr
        drop owned by x
        reassign owned by a to b
        vacuum
        analyze hr.salary
        select nextval('hr.salary')
        select nextval('"hr"."salary"'::regclass)
        select 'hr.salary'::regclass
        select most_common_vals from pg_stats
        select * from pg_catalog.pg_statistic
        alter sequence s owned by hr.salary.id
    """,
    MySqlParser: """
        select * from hr.salary
        select * from `hr`.`Salary`
        select * from HR . SALARY
        select * from salary
        select * from hr/**/./**/salary
        /*!50000 select * from hr.salary */
        show create table hr.salary
        show columns from salary from hr
        show columns in hr.salary
        show tables from hr
        use hr
        handler hr.salary open
        flush tables hr.salary
        rename table hr.salary to x
        alter table x rename hr.salary
        create trigger t before insert on hr.salary for each row set @a = 1
        create procedure p() begin delete from hr.salary; end
        create index i on hr.salary (a)
        drop index i on hr.salary
        grant select on hr.* to x
        drop database hr
        delete s from notes join hr.salary s
    """,
    TSqlParser: """
        select * from hr.salary
        select * from [HR].[Salary]
        select * from "hr"."salary"
        select * from salary
        select * from [salary ]
        select * from \uff53\uff41\uff4c\uff41\uff52\uff59
        select * from payroll.hr.salary
        select * from payroll..salary
        select * from server1.payroll.hr.salary
        drop table payroll..salary
        exec sp_rename 'hr.salary', 'x'
        exec sp_rename '[hr].[salary]', 'x'
        alter schema x transfer hr.salary
        grant select on object::hr.salary to x
        grant select on schema::hr to x
        create synonym s for hr.salary
        create trigger t on hr.salary after insert as select 1
        create procedure p as select * from hr.salary
        set identity_insert hr.salary on
        update s set a = 1 from hr.salary s
        select * into x from hr.salary
    """,
    OracleParser: """
        select * from hr.salary
        select * from "HR"."SALARY"
        select * from salary
        select * from hr.salary@remote
        comment on table hr.salary is 'x'
        comment on column hr.salary.a is 'x'
        create synonym s for hr.salary
        analyze table hr.salary compute statistics
        alter session set current_schema = hr
        alter table x exchange partition p with table hr.salary
        create trigger t before insert on hr.salary begin null; end;
        drop user hr cascade
        audit select on hr.salary
        flashback table hr.salary to before drop
    """,
}
_SPELLED = [(parser, line.strip()) for parser, lines in _TABLE.items() for line in lines.strip().splitlines()]


def is_hit(parser: Parser, spelled: str, text: str, target: TargetSchema | None = None) -> bool:
    """Whether a rule about `spelled` matches the text or cannot decide."""
    rule = parse_guarded(spelled, "objects")
    return any(
        Effect.UNKNOWN in one.effects or any(rule.hit_by(touched, target) is not False for touched in one.objects)
        for one in parser.parse(text, target)
    )


@pytest.mark.parametrize(("parser", "text"), _SPELLED, ids=[f"{one.__name__}: {text}" for one, text in _SPELLED])
def test_table_rule_and_schema_rule_match_every_spelling_of_the_table(parser: type[Parser], text: str) -> None:
    assert is_hit(parser(), "hr.salary", text)
    assert is_hit(parser(), "hr.*", text)


@pytest.mark.parametrize("parser", [PostgresParser, MySqlParser, TSqlParser, OracleParser])
def test_table_rule_does_not_match_other_tables(parser: type[Parser]) -> None:
    for text in (
        "select salary from hr.bonuses",
        "select s.salary from app.salary s",
        "with salary as (select 1 as a from app.t) select a from salary",
        "update app.t set salary = 1 where id = 2",
        "create table app.t (salary int)",
        "select 'hr.salary' from app.t",
        "insert into app.salary values (1)",
    ):
        assert not is_hit(parser(), "hr.salary", text), text


@pytest.mark.parametrize(
    "text",
    ["drop type hr.t", "create type hr.t as enum ('a')", "drop index hr.i", "alter domain hr.d drop not null",
     "create aggregate hr.a (int) (sfunc = f, stype = int)", "drop function hr.f", "alter extension e set schema hr",
     "create domain hr.d as int", "create sequence hr.s", "comment on type hr.t is 'x'", "select hr.f()",
     "grant execute on all functions in schema hr to x", "alter type hr.t set schema x"],
)  # fmt: skip
def test_schema_rule_matches_every_kind_of_object_in_the_schema(text: str) -> None:
    assert is_hit(PostgresParser(), "hr", text)


def _family() -> TargetSchema:
    relations = [
        Relation("hr", "salary", ("a",)),
        Relation("archive", "salary_2024", ("a",), parents=(("hr", "salary"),)),
        Relation("archive", "salary_2024_may", ("a",), parents=(("archive", "salary_2024"),)),
        Relation("archive", "salary_2025", ("a",), parents=(("hr", "salary"),)),
        Relation("app", "pay", ("a",), definition=" SELECT a FROM hr.salary;"),
        Relation("app", "pay_of_pay", ("a",), definition=" SELECT a FROM app.pay;"),
        Relation("app", "other", ("a",)),
    ]
    return TargetSchema(relations={(one.schema, one.name): one for one in relations})


@pytest.mark.parametrize(
    ("rule", "text", "hit"),
    [
        ("hr.salary", "select * from archive.salary_2024_may", True),
        ("hr.salary", "delete from archive.salary_2025 where a = 1", True),
        ("archive.salary_2024", "select * from hr.salary", True),
        ("archive.salary_2024", "select * from archive.salary_2024_may", True),
        ("archive.salary_2024", "select * from archive.salary_2025", False),
        ("hr.salary", "select * from app.pay", True),
        ("hr.salary", "select * from pay_of_pay", True),
        ("archive.salary_2025", "select * from app.pay_of_pay", True),
        ("hr.salary", "select * from app.other", False),
    ],
)
def test_table_rule_matches_partitions_child_tables_and_views(rule: str, text: str, hit: bool) -> None:
    assert is_hit(PostgresParser(), rule, text, _family()) is hit
