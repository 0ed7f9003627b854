"""What Oracle's SQL says about its answers, besides lineage."""

from __future__ import annotations

import pytest

from postern.protocols.oracledb.dialect.oracle_statement_facts import OracleStatementFacts

FACTS = OracleStatementFacts()


@pytest.mark.parametrize(
    ("text", "runs_code"),
    [
        ("select a from t", False),
        ("update t set a = 1 returning b into :x", False),
        ("with c as (select 1 as a from dual) select a from c", False),
        ("commit", False),
        ("begin null; end;", True),
        ("<<a>> declare x number; begin null; end;", True),
        ("call p(1)", True),
        ("with function f return number is begin return 1; end; select f from dual", True),
        ("create procedure p is begin null; end;", True),
        ("select 'open", True),
        ("select 1 from dual " + "-- x\n" * 4000, True),
    ],
)
def test_descriptions_vary_only_if_a_text_runs_code(text: str, runs_code: bool) -> None:
    assert FACTS.varies([text]) is runs_code
    assert FACTS.varies(["select 1 from dual", text]) is runs_code
    assert not FACTS.chooses_insert_id([text])


@pytest.mark.parametrize(
    ("text", "spells"),
    [
        ("select a, count(*) from t", True),
        ("select * from t", False),
        ("select t.* from t", False),
        ("begin p; end;", False),
    ],
)
def test_names_are_spelled_unless_a_star_or_code_brings_them(text: str, spells: bool) -> None:
    assert FACTS.spells_names([text]) is spells


@pytest.mark.parametrize(
    ("message", "text", "trusted"),
    [
        (b'ORA-00942: table or view "HR"."X" does not exist', "select a from x", True),
        (b'ORA-00904: "X": invalid identifier', "select x from t", True),
        (b"ORA-00936: missing expression", "select from", True),
        (b"ORA-00942: table or view does not exist", "begin execute immediate :x; end;", False),
        (b"ORA-00942: x\nORA-20001: secret", "select a from x", False),
        (b"ORA-01722: invalid number", "select to_number(a) from t", False),
        (b"ORA-00001: unique constraint (HR.T) violated on columns (A = 5)", "insert into t values (1)", False),
        (b"something else", "select a from x", False),
        (b"", "select a from x", False),
    ],
)
def test_errors_about_names_of_a_text_quote_no_values(message: bytes, text: str, trusted: bool) -> None:
    assert FACTS.quotes_no_values({"message": message}, [text]) is trusted


def test_error_without_a_text_is_not_trusted() -> None:
    assert not FACTS.quotes_no_values({"message": b"ORA-00942: x"}, [])
    assert FACTS.is_in_own_words([b"ORA-00942: x"], ["message"], [])


@pytest.mark.parametrize(
    ("message", "text", "chosen"),
    [
        (b"ORA-20001: secret\nORA-06512: at line 1", "select f(1) from dual", True),
        (b"ORA-04088: error during execution\nORA-20999: secret", "update t set a = 1", True),
        (b"secret", "select a from t", True),
        (b"ORA-01403: no data found", "begin select a into :x from t; end;", True),
        (b"ORA-06550: line 1\nPLS-00201: identifier 'P' must be declared", "begin p; end;", False),
        (b"ORA-06550: line , column :", "begin raise e; end;", True),
        (b"ORA-01722: invalid number", "select to_number(a) from t", False),
        (b"ORA-02291: integrity constraint violated", "insert into t values (1)", False),
    ],
)
def test_message_is_of_code_if_code_can_have_chosen_it(message: bytes, text: str, chosen: bool) -> None:
    assert FACTS.is_in_own_words([message], ["message"], [text]) is chosen


def test_number_of_a_masked_error_is_the_same_for_all() -> None:
    assert FACTS.is_in_own_words([b"x", b"20123"], ["message", "errno"], ["select 1 from dual"])
    assert FACTS.replace_own_words(["message", "errno"], is_error=True) == [b"****", b"20000"]
