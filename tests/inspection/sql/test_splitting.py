"""Where statements of a script begin and end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.inspection.sql.postgres.postgres_splitting import split_postgres
from postern.inspection.sql.script_spans import ScriptSpans
from postern.protocols.mysql.dialect.mysql_splitting import split_mysql

SPLITS = {"postgres": split_postgres, "mysql": split_mysql}


def texts(script: str, split: ScriptSpans) -> list[str]:
    return [script[start:end] for start, end in split.spans]


@pytest.mark.parametrize("dialect", SPLITS)
@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", []),
        (" ;; -- nothing\n", []),
        ("select 1", ["select 1"]),
        (" select 1 ; /* a */ select 'ü;' ;\n-- b\ndelete from t ", ["select 1", "select 'ü;'", "delete from t"]),
        ("select 'größe', 'x'; select 2", ["select 'größe', 'x'", "select 2"]),
    ],
)
def test_statements_are_found_without_blanks_and_comments(dialect: str, script: str, statements: list[str]) -> None:
    split = SPLITS[dialect](script)
    assert (texts(script, split), split.problem) == (statements, None)


def test_semicolons_in_functions_do_not_split() -> None:
    script = "create function f() returns int begin atomic select 1; select 2; end; select $$;$$"
    assert len(split_postgres(script).spans) == 2
    script = "create procedure p() begin select 1; select 2; end"
    assert texts(script, split_mysql(script)) == [script]


def test_comments_that_servers_run_belong_to_their_statement() -> None:
    script = "select 1; /*!50000 delete from t */; select 2"
    assert texts(script, split_mysql(script)) == ["select 1", "/*!50000 delete from t */", "select 2"]


@pytest.mark.parametrize(
    ("dialect", "script", "offset"),
    [
        ("postgres", "-- é\nselect é from 'x y' selec", 19),
        ("postgres", "select 1; select 'open", 17),
        ("postgres", "select 1;\0", None),
        ("mysql", "select 'ü', 'open", 12),
        ("mysql", "select 1;\0", None),
    ],
)
def test_script_that_cannot_be_parsed_is_one_statement_with_the_place_of_the_error(
    dialect: str, script: str, offset: int | None
) -> None:
    split = SPLITS[dialect](script)
    assert texts(script, split) == [script.strip()]
    assert split.problem is not None
    assert split.problem.offset == offset
    assert split.problem.message


@given(st.text(alphabet="select 1;'\"$-/*!\n\\`()é\U0001f600\0", max_size=60), st.sampled_from([*SPLITS]))
def test_any_text_has_places_in_order(script: str, dialect: str) -> None:
    split = SPLITS[dialect](script)
    at = 0
    for start, end in split.spans:
        assert at <= start < end <= len(script)
        assert script[start:end] == script[start:end].strip()
        at = end
    assert split.problem is None or split.problem.offset is None or 0 <= split.problem.offset <= len(script)
