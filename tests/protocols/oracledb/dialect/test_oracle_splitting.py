"""Where the statements of a script begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.oracledb.dialect.oracle_splitting import split_oracle


def statements(script: str) -> list[str]:
    return [script[start:end] for start, end in split_oracle(script).spans]


BLOCK = "begin\n  delete from t; -- x\nend;"
WITH = "with function f return number is begin return 1; end; select f from dual"


@pytest.mark.parametrize(
    ("script", "spans"),
    [
        ("", []),
        (" ;; -- nothing\n/\n", []),
        ("select 1 from dual", ["select 1 from dual"]),
        (" commit ; /* ; */ select 'ü;' from dual ;\n-- b\n", ["commit", "select 'ü;' from dual"]),
        ("select q'[;']' from dual; commit;", ["select q'[;']' from dual", "commit"]),
        ("select 4\n/ 2 from dual\n/\ncommit", ["select 4\n/ 2 from dual", "commit"]),
        (BLOCK, [BLOCK]),
        (f"select 1 from dual;\n{BLOCK}\n/\ncommit;\n", ["select 1 from dual", BLOCK, "commit"]),
        (f"declare x number; {BLOCK}\n/", [f"declare x number; {BLOCK}"]),
        (f"<<a>> {BLOCK}", [f"<<a>> {BLOCK}"]),
        (
            f"create or replace procedure p is {BLOCK}\n/\ncommit",
            [f"create or replace procedure p is {BLOCK}", "commit"],
        ),
        (f"create trigger x before insert on t {BLOCK}", [f"create trigger x before insert on t {BLOCK}"]),
        (f"{WITH}\n/\ncommit", [WITH, "commit"]),
        ("create table begin_ (a number); drop table x", ["create table begin_ (a number)", "drop table x"]),
    ],
)
def test_statements_end_at_semicolons_and_code_at_a_slash(script: str, spans: list[str]) -> None:
    assert statements(script) == spans
    assert split_oracle(script).problem is None


@pytest.mark.parametrize(
    ("script", "offset"), [("select 'ü', 'open", 12), ("select 1;\0", None), ("select 1 -- \f x", 9)]
)
def test_script_that_cannot_be_parsed_is_one_statement_with_the_place_of_the_error(
    script: str, offset: int | None
) -> None:
    split = split_oracle(script)
    assert split.spans == ((0, len(script)),)
    assert split.problem is not None
    assert split.problem.offset == offset


@given(
    st.lists(st.sampled_from(["select 1 from dual", "delete from t", "update t set a = 'x;'"]), min_size=1, max_size=6)
)
def test_statements_joined_by_semicolons_or_slashes_are_found_again(parts: list[str]) -> None:
    assert statements(";\n".join(parts)) == parts
    assert statements("\n/\n".join(parts)) == parts
