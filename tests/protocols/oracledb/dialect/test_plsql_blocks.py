"""The statements, expressions, calls and texts of PL/SQL blocks."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bypass import cases_oracle
from tests.bypass.cases import effects_of
from tests.support.promises import within

from postern.domain.rules.statement import Effect
from postern.inspection.sql.sql_tokens import UnreadableSql, render
from postern.protocols.oracledb.dialect.oracle_parser import OracleParser
from postern.protocols.oracledb.dialect.oracle_tokens import tokens_of_text
from postern.protocols.oracledb.dialect.plsql_blocks import PartKind, parts_of_block

PARSER = OracleParser()
_CASES: dict[str, Callable[[str], str]] = {"as it is": str, "upper": str.upper, "swapped": str.swapcase}


def parts(text: str, kind: PartKind) -> list[str]:
    return [render(part.tokens, '"', '"') for part in parts_of_block(tokens_of_text(text)) if part.kind is kind]


BLOCK = """
<<outer>>
declare
  pragma autonomous_transaction;
  cursor c (i in number := 1) return t%rowtype is select a, b from t where id = i;
  type l is table of number index by pls_integer;
  subtype short is varchar2(9) not null;
  v short := upper('x');
  k constant varchar2(99) := 'delete from ' || 't';
  bad exception;
  pragma exception_init(bad, -20001);
  procedure p (x in out nocopy number default 2);
  procedure p (x in out nocopy number default 2) is
    y number;
  begin
    update t set a = x;
    return;
  end p;
begin
  select a, b into v, :w from t where id = 1;
  insert into t values (1) returning id into v;
  for r in c(2) loop p(r.a); end loop;
  for i in reverse 1 .. 9 loop continue when i = 2; end loop;
  while v is not null loop exit outer when c%notfound; end loop;
  case v when 'a' then null; else raise bad; end case;
  v := case when v = 'b' then 'c' else 'd' end;
  execute immediate k using in v returning into :w;
  open c; fetch c bulk collect into v limit 10; close c;
  open :rc for select 1 from dual;
  forall i in 1 .. 3 save exceptions delete from t where a = i;
  <<inner>> begin savepoint s; exception when bad or no_data_found then rollback to s; when others then null; end inner;
  goto done;
  <<done>>
  null;
end outer;
"""


def test_parts_of_a_block_are_its_statements_expressions_calls_and_texts() -> None:
    assert parts(BLOCK, PartKind.SQL) == [
        "select a , b from t where id = i",
        "update t set a = x",
        "select a , b from t where id = 1",
        "insert into t values ( 1 ) RETURNING id",
        "select 1 from dual",
        "delete from t where a = i",
        "savepoint s",
        "rollback to s",
    ]
    assert parts(BLOCK, PartKind.CALL) == ["p ( r . a )"]
    assert parts(BLOCK, PartKind.TEXT) == ["k"]
    expressions = parts(BLOCK, PartKind.EXPRESSION)
    assert {"upper ( 'x' )", "v is not null", "c % notfound", "i = 2", "2", ":w"} <= set(expressions)


def test_block_is_judged_by_the_statements_in_it() -> None:
    found = PARSER.parse(BLOCK)
    assert [statement.tag for statement in found][:1] == ["BEGIN"]
    assert effects_of(found) == {Effect.SESSION, Effect.READ, Effect.WRITE}
    assert [s.tag for s in found if s.without_where] == ["UPDATE", "DELETE"]


@pytest.mark.parametrize(
    "text",
    [
        "begin",
        "begin end;",
        "begin null end;",
        "begin null; end",
        "begin null; end; x",
        "begin if 1 = 1 then null; end;",
        "begin loop null; end;",
        "begin case when 1 then null; end;",
        "begin for in 1 .. 2 loop null; end loop; end;",
        "begin for i in 1 loop; end;",
        "declare x; begin null; end;",
        "declare 1 number; begin null; end;",
        "declare pragma odd; begin null; end;",
        "declare type r is record (a number := f); begin null; end;",
        "declare procedure p is external name x; begin null; end;",
        "declare function f return number is language c; begin null; end;",
        "declare procedure p is begin null; begin null; end;",
        "begin ;; end;",
        "begin x y z; end;",
        "begin select a into b into c from t; end;",
        "begin delete from t returning a into b where c = 1; end;",
        "begin pragma odd; end;",
        "begin forall i in 1 .. 2; end;",
        "begin raise a.b; end;",
        "begin " * 99 + "null; " + "end; " * 99,
    ],
)
def test_block_that_is_not_understood_is_unreadable_and_of_unknown_effect(text: str) -> None:
    try:
        kinds = [part.kind for part in parts_of_block(tokens_of_text(text))]
    except UnreadableSql:
        kinds = []
    statements = PARSER.parse(text)
    is_rejected_by_the_server = not kinds and text == "begin end;"
    assert is_rejected_by_the_server or Effect.UNKNOWN in effects_of(statements)
    assert all(statement.reason for statement in statements if Effect.UNKNOWN in statement.effects)


_BLOCKS = [case.text for case in cases_oracle.CASES if case.group == "blocks" and len(case.text) < 500] + [BLOCK]
_PUT = st.sampled_from(
    ["'", '"', ";", "(", ")", ":=", "..", "<<", "%", "@", ".", "/", "q'[", "end", "begin", "select f", "--"]
)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(_BLOCKS), st.integers(0, 200), _PUT)
def test_parsing_of_a_damaged_block_does_not_raise_and_yields_effects(text: str, place: int, put: str) -> None:
    for statement in PARSER.parse(text[:place] + put + text[place:]):
        assert statement.effects
        assert bool(statement.reason) or Effect.UNKNOWN not in statement.effects


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_comments_blanks_and_case_do_not_change_the_judgement_of_a_block(data: st.DataObject) -> None:
    plain = [text for text in _BLOCKS if not set(text) & set("'\"/:@$\\") and "--" not in text and "\n" not in text]
    text = data.draw(st.sampled_from(plain))
    blanks = st.sampled_from([" ", "\n", "\t", "/**/", " /* ; end; drop table x */ ", " -- '\n", "\r\n"])
    other = "".join(data.draw(blanks) if sign == " " else sign for sign in text)
    other = _CASES[data.draw(st.sampled_from(list(_CASES)))](other)
    before, after = PARSER.parse(text), PARSER.parse(other)
    assert [each.effects for each in after] == [each.effects for each in before]
    assert [each.without_where for each in after] == [each.without_where for each in before]


_AROUND = (
    "begin {} end;",
    "declare x number; begin {} null; end;",
    "<<a>> begin null; {} end a;",
    "begin null; exception when others then {} end;",
    "if 1 = 1 then {} end if;",
    "if 1 = 0 then null; elsif 2 = 2 then {} else null; end if;",
    "if 1 = 0 then null; else {} end if;",
    "case 1 when 1 then {} else null; end case;",
    "case when 1 = 0 then null; else {} end case;",
    "loop {} exit when 1 = 1; end loop;",
    "while 1 = 1 loop {} exit; end loop;",
    "for i in reverse 1 .. 2 loop {} end loop;",
    "for r in (select case when 1 = 1 then 2 end as a from dual) loop {} end loop;",
    "declare procedure p is begin {} end; begin p; end;",
    "declare function f (a number) return number is begin {} return a; end f; begin null; end;",
    "begin :x := case when 1 = 1 then 'begin' else 'end;' end; {} end;",
    "begin :x := q'[end; /*]'; {} :y := '*/'; end;",
    "begin /* end; */ {} -- end;\n null; end;",
)
_HIDDEN = {
    "delete from t;": Effect.WRITE,
    "execute immediate 'drop table t';": Effect.DDL,
    "utl_file.fremove('a', 'b');": Effect.ADMIN,
    "secret_procedure;": Effect.UNKNOWN,
    "execute immediate :t;": Effect.UNKNOWN,
    "execute immediate 'begin execute immediate ''grant dba to x''; end;';": Effect.GRANT,
}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_AROUND), min_size=1, max_size=6), st.sampled_from(list(_HIDDEN)))
def test_attack_statement_in_any_nesting_of_a_block_is_found(around: list[str], hidden: str) -> None:
    text = hidden
    for outer in around:
        text = outer.replace("{}", text)
    found = effects_of(PARSER.parse(f"begin {text} end;"))
    assert _HIDDEN[hidden] in found
    assert found <= {_HIDDEN[hidden], Effect.SESSION, Effect.READ}


def test_attack_large_or_deep_block_is_read_within_ten_seconds() -> None:
    for text in (
        "begin " + "delete from t; " * 3_000 + "end;",
        "declare " + "".join(f"a{n} number := a{n - 1}; " for n in range(9_000)) + "begin null; end;",
        "begin " * 3_000 + "null; " + "end; " * 3_000,
        "begin :x := " + "(" * 5_000 + "1" + ")" * 5_000 + "; end;",
        "begin " + "if 1 = 1 then " * 2_000 + "null; " + "end if; " * 2_000 + "end;",
        "begin execute immediate '" + "begin null; end; " * 2_000 + "'; end;",
        "declare type l is table of number; a l; begin :x := " + " + ".join(["a(1)"] * 3_000) + "; end;",
    ):
        start = time.process_time()
        PARSER.parse(text)
        assert time.process_time() - start < within(10)
