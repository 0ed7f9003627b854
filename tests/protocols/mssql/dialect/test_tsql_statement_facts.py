"""What T-SQL says about its answers, besides lineage."""

from __future__ import annotations

import pytest

from postern.protocols.mssql.dialect.tsql_statement_facts import TSqlStatementFacts

FACTS = TSqlStatementFacts()


@pytest.mark.parametrize(
    ("text", "runs_code"),
    [
        ("select a from t", False),
        ("update t set a = 1", False),
        ("declare @a int = 1 if @a = 1 begin select 1 end", False),
        ("with c as (select 1 as a) select a from c", False),
        ("sp_help t", False),
        ("begin tran; commit", False),
        ("exec ('select 1')", True),
        ("exec sp_executesql N'select 1'", True),
        ("p 1", True),
        ("insert t exec p", True),
        ("create procedure p as select 1", True),
        ("select 'open", True),
        ("select 1 " + "-- x\n" * 4000, True),
    ],
)
def test_descriptions_vary_only_if_a_text_runs_code(text: str, runs_code: bool) -> None:
    assert FACTS.varies([text]) is runs_code
    assert FACTS.varies(["select 1", text]) is runs_code
    assert not FACTS.chooses_insert_id([text])


@pytest.mark.parametrize(
    ("text", "spells"),
    [("select a, count(*) from t", True), ("select * from t", False), ("select t.* from t", False), ("exec p", False)],
)
def test_names_are_spelled_unless_a_star_or_code_brings_them(text: str, spells: bool) -> None:
    assert FACTS.spells_names([text]) is spells


@pytest.mark.parametrize(
    ("number", "text", "trusted"),
    [
        (b"208", "select a from nowhere", True),
        (b"207", "select x from t", True),
        (b"102", "select from", True),
        (b"102", "exec (@a)", False),
        (b"245", "select cast(a as int) from t", False),
        (b"2627", "insert t values (1)", False),
        (b"x", "select a from nowhere", False),
    ],
)
def test_errors_about_names_of_a_text_quote_no_values(number: bytes, text: str, trusted: bool) -> None:
    assert FACTS.quotes_no_values({"errno": number, "message": b"x"}, [text]) is trusted


def test_error_without_a_text_is_not_trusted() -> None:
    assert not FACTS.quotes_no_values({"errno": b"208"}, [])


@pytest.mark.parametrize(
    ("number", "text", "chosen"),
    [
        (b"0", "print 'step 1'", False),
        (b"0", "print @a", True),
        (b"0", "print 'a' + @a", True),
        (b"50000", "raiserror('x', 16, 1)", False),
        (b"50000", "raiserror(@a, 16, 1)", True),
        (b"13001", "raiserror(13001, 16, 1, @a)", True),
        (b"51000", "throw 51000, 'x', 1", False),
        (b"51000", "throw @n, 'x', 1", True),
        (b"8134", "begin try select 1 / 0 end try begin catch throw; end catch", True),
        (b"50000", "insert t values (1)", True),
        (b"2627", "insert t values (1)", False),
        (b"8134", "select 1 / 0", False),
        (b"0", "exec p", True),
        (b"50000", "raiserror('x', 16, @state)", True),
        (b"50000", "raiserror('x', @severity, 1)", True),
        (b"51000", "throw 51000, 'x', @state", True),
        (b"0", "while @i < 9 begin if @i > 3 print 'one' else print 'zero' set @i += 1 end", True),
        (b"50000", "again: if @i > 3 raiserror('one', 10, 1) goto again", True),
        (b"8134", "while @i < 9 begin select 1 / 0 set @i += 1 end", False),
    ],
)
def test_message_is_a_texts_own_if_it_can_have_made_it_from_values(number: bytes, text: str, chosen: bool) -> None:
    assert FACTS.is_in_own_words([number, b"x"], ["errno", "message"], [text]) is chosen


LABELS = ("errno", "severity", "state", "procedure", "line", "message")


@pytest.mark.parametrize(("is_error", "severity"), [(True, b"16"), (False, b"0")])
def test_message_of_a_text_becomes_a_users_error_without_anything_that_it_chose(
    is_error: bool, severity: bytes
) -> None:
    replaced = FACTS.replace_own_words(LABELS, is_error=is_error)
    assert replaced == [b"50000", severity, b"1", b"", b"1", b"****"]
