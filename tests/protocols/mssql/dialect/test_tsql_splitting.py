"""Where statements and batches of a script begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.inspection.sql.sql_tokens import UnreadableSql
from postern.protocols.mssql.dialect.tsql_splitting import MOST_REPEATS, batch_spans, split_tsql


def statements(script: str) -> list[str]:
    return [script[start:end] for start, end in split_tsql(script).spans]


def batches(script: str) -> list[tuple[str, int]]:
    return [(script[span.start : span.end], span.repeats) for span in batch_spans(script)]


@pytest.mark.parametrize(
    ("script", "spans"),
    [
        ("", []),
        (" ;; -- nothing\n", []),
        ("select 1", ["select 1"]),
        (" select 1 ; /* /* a */ */ select 'ü;' ;\n-- b\ndelete from t ", ["select 1", "select 'ü;'", "delete from t"]),
        ("select 1 delete from t where a = 1", ["select 1", "delete from t where a = 1"]),
        ("select 1\nGO\nselect 2", ["select 1", "select 2"]),
        ("create proc p as select 1; select 2\ngo\nselect 3", ["create proc p as select 1; select 2", "select 3"]),
        ("declare @a int; set @a = 1\nGO\nselect 1", ["declare @a int; set @a = 1", "select 1"]),
        ("if 1 = 1 select 1 else select 2", ["if 1 = 1 select 1 else select 2"]),
        ("begin tran update t set a = 1 commit", ["begin tran update t set a = 1 commit"]),
    ],
)
def test_statements_are_found_and_code_stays_together(script: str, spans: list[str]) -> None:
    assert statements(script) == spans
    assert split_tsql(script).problem is None


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("select 1", [("select 1", 1)]),
        ("select 1\nGO", [("select 1", 1)]),
        ("select 1\n  go 5 -- five times\nselect 2\r\nGo\r\n", [("select 1", 5), ("select 2", 1)]),
        ("GO\nGO\nselect 1 -- GO\nGO", [("select 1", 1)]),
        ("select 1\nGO 0\nselect 2", [("select 2", 1)]),
        ("select go from t", [("select go from t", 1)]),
    ],
)
def test_batches_end_at_go_and_can_be_repeated(script: str, found: list[tuple[str, int]]) -> None:
    assert batches(script) == found


@pytest.mark.parametrize(
    "script",
    ["select '\nGO\n'", "/*\nGO\n*/ select 1", "select 1\nGO; select 2", "select 'open", f"a\nGO {MOST_REPEATS + 1}"],
)
def test_script_with_an_ambiguous_or_excessive_go_is_unreadable(script: str) -> None:
    with pytest.raises(UnreadableSql):
        batch_spans(script)


@pytest.mark.parametrize(("script", "offset"), [("select 'ü', 'open", 12), ("select 1;\0", None)])
def test_script_that_cannot_be_parsed_is_one_statement_with_the_place_of_the_error(
    script: str, offset: int | None
) -> None:
    split = split_tsql(script)
    assert split.spans == ((0, len(script)),)
    assert split.problem is not None
    assert split.problem.offset == offset


@given(st.lists(st.sampled_from(["select 1", "delete from t", "update t set a = 'x;'"]), min_size=1, max_size=6))
def test_batches_joined_by_go_are_found_again(parts: list[str]) -> None:
    assert batches("\nGO\n".join(parts)) == [(part, 1) for part in parts]
    assert statements("\nGO\n".join(parts)) == parts
