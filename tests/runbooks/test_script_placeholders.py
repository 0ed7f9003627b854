"""Placeholders of scripts: what is one, in each dialect, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.script_placeholders import MAX_PLACEHOLDERS, find_placeholders
from postern.runbooks.template_errors import Fault

POSTGRES, MYSQL = ScriptSyntax.DOLLAR_QUOTES, ScriptSyntax.BACKSLASH_ESCAPES


def names(script: str, syntax: ScriptSyntax) -> list[str]:
    places = find_placeholders(script, syntax)
    assert all(script[place.start : place.end] == f":{place.name}" for place in places)
    return [place.name for place in places]


@pytest.mark.parametrize("syntax", [POSTGRES, MYSQL])
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("select :a", ["a"]),
        ("select :a, :b ,:a", ["a", "b", "a"]),
        ("where id=:id and x>:x_1", ["id", "x_1"]),
        ("in (:a,:b)", ["a", "b"]),
        ("select ':a', \":b\" , :c", ["c"]),
        ("select 'it''s :a' , :b", ["b"]),
        ("-- :a\nselect :b -- :c", ["b"]),
        ("/* :a */ select :b", ["b"]),
        ("select a -- it's\n, :b", ["b"]),
        ("select '12:30', :t", ["t"]),
        ("set @x := :v", ["v"]),
        ("select 1", []),
        ("", []),
    ],
)
def test_placeholders_are_found_in_code_only(syntax: ScriptSyntax, script: str, found: list[str]) -> None:
    assert names(script, syntax) == found


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("select :a::int, b::text", ["a"]),
        ("select a::date - :days::int", ["days"]),
        ("select x[1:n], x[i:j], (y)[f(1):m]", []),
        ("select x[:a]", ["a"]),
        ("select $$ :a $$, $tag$ :b $$ :c $tag$, :d", ["d"]),
        ("select E'\\':a', :b", ["b"]),
        ("select '\\', :a", ["a"]),
        ("select :e'x'", None),
        ("select :name, 'a\\':b'", None),
        ("/* a /* :b */ :c */ select :d", ["d"]),
        ("select f(a := 1, b => :b)", ["b"]),
        ("select j->':a', j #> '{b,:c}', j ?| array[:d]", ["d"]),
        ("select :größe", ["größe"]),
    ],
)
def test_placeholders_of_postgresql(script: str, found: list[str] | None) -> None:
    if found is None:
        with pytest.raises(Fault):
            find_placeholders(script, POSTGRES)
    else:
        assert names(script, POSTGRES) == found


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("select `:a`, :b # :c\n, :d", ["b", "d"]),
        ("select 'it\\'s :a', :b", ["b"]),
        ("select a--:b", ["b"]),
        ("select j->'$.:a', j->>\"$.b\", :c", ["c"]),
    ],
)
def test_placeholders_of_mysql(script: str, found: list[str]) -> None:
    assert names(script, MYSQL) == found


@pytest.mark.parametrize(
    ("script", "syntax", "reason"),
    [
        ("select :a, 'open", POSTGRES, "not closed"),
        ("select :a /* open", MYSQL, None),
        ("select $$ open, :a", POSTGRES, "not closed"),
        ("\\copy t from x\n select :a\\g :b", POSTGRES, "command of the database client"),
        ("copy t from stdin;\n1\t:a", POSTGRES, "COPY … FROM STDIN"),
        ("select :a; copy t from stdin", POSTGRES, "COPY … FROM STDIN"),
        ("/*!50000 select :a */", MYSQL, "some servers run"),
        ("select :a'x'", MYSQL, "a quote follows"),
        ("select " + ":a," * (MAX_PLACEHOLDERS + 1), MYSQL, "more than 10,000"),
    ],
)
def test_script_whose_code_is_uncertain_is_rejected(script: str, syntax: ScriptSyntax, reason: str | None) -> None:
    if reason is None:  # a comment that is not closed hides nothing that runs
        assert names(script, syntax) == ["a"]
        return
    with pytest.raises(Fault, match=reason):
        find_placeholders(script, syntax)


@given(st.text(alphabet=":a1'\"$-/*\n \\`[]E", max_size=60), st.sampled_from([POSTGRES, MYSQL]))
def test_any_script_has_placeholders_in_order_or_a_fault(script: str, syntax: ScriptSyntax) -> None:
    try:
        places = find_placeholders(script, syntax)
    except Fault:
        return
    ends = [0, *(place.end for place in places)]
    assert all(place.start >= end for place, end in zip(places, ends, strict=False))
    assert all(script[place.start : place.end] == f":{place.name}" for place in places)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("db.c.find({a: :a, b:[:b,:c], 'd'::d, e: F(:e)})", ["a", "b", "c", "d", "e"]),
        ("db.c.find({a :null, b\n:true, 'c' /* x */ :d})", []),
        ("db.c.find({a: ':b', c: \":d\", e: `:f`, g: /: :h/ })", []),
        ("db.c.find({a: 1 /* , :b */, c: /* d */ :d}) // : :e", ["d"]),
        ("db.c.find({a: /[/: :b]/, c: :c})", ["c"]),
        ("{a:                                        /: :b/, c: :c}", ["c"]),
        ("// a\r{a: :a}", ["a"]),
        ("{a: :größe}", ["größe"]),
        ("use x; :a", []),
    ],
)
def test_placeholder_of_a_literal_stands_where_a_value_does(script: str, found: list[str]) -> None:
    assert names(script, ScriptSyntax.JAVASCRIPT) == found


@pytest.mark.parametrize("script", ["{a: ':b", "{a: :b, c: /x", "{a: :a} /*", "{a: `${:b"])
def test_literal_that_is_not_closed_has_no_certain_placeholders(script: str) -> None:
    if script.endswith("/*"):  # a comment cannot hide a quote
        assert names(script, ScriptSyntax.JAVASCRIPT) == ["a"]
        return
    with pytest.raises(Fault, match="not closed"):
        find_placeholders(script, ScriptSyntax.JAVASCRIPT)
