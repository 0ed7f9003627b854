"""The kinds of statements, and binds that only come back."""

from __future__ import annotations

import pytest

from postern.protocols.oracledb.wire.statement_forms import form_of


@pytest.mark.parametrize(
    ("text", "word", "returned"),
    [
        ("select 1 from dual", "SELECT", 0),
        ("  /* update */ -- x\n (SELECT 1 from dual)", "SELECT", 0),
        ("with a as (select 1) select * from a", "WITH", 0),
        ("<<outer>> begin null; end;", "BEGIN", 0),
        ("insert into t values (:1) returning id into :2", "INSERT", 1),
        ("update t set a = :a where b = :b return a, b into :c, :d", "UPDATE", 2),
        ('delete from t returning id into :"My Bind" ', "DELETE", 1),
        ("insert into t values ('returning x into :1')", "INSERT", 0),
        ("insert into t values (q'[it's returning x into :1]')", "INSERT", 0),
        ('insert into "returning" values (:into)', "INSERT", 0),
        ("insert into t select a from b -- returning x into :y", "INSERT", 0),
        ("insert into t values (:1) returning id into :2 log errors into e", "INSERT", -1),
        ("insert into t values (:1) returning id into :2 :3", "INSERT", -1),
        ("begin insert into t values (1) returning id into :1; end;", "BEGIN", 0),
        ("", "", 0),
        ("'unterminated", "", 0),
    ],
)
def test_forms(text: str, word: str, returned: int) -> None:
    form = form_of(text)
    assert (form.word if word else "", form.returned) == (word, returned)
