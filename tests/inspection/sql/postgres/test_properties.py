"""Properties of the PostgreSQL parser for any text."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.bypass.cases import Truth, effects_of
from tests.bypass.cases_postgres import CASES, SCHEMA
from tests.bypass.ordinary_postgres import ORDINARY

from postern.domain.rules.statement import Statement
from postern.inspection.sql.postgres.postgres_lexing import depth
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

PARSER = PostgresParser()
TEXTS = sorted({case.text for case in CASES if case.truth is not Truth.REJECTED} | {one.text for one in ORDINARY})
# A second reading of a backslash may go on into whatever follows, a comment to the end of its line.
JOINABLE = [text for text in TEXTS if "\\" not in text and "--" not in text and text.strip("; ")]
SPACES = st.sampled_from([" ", "\n", "\t", "\r\n", "\f", "/* x */", "/* /* ; drop */ */", "-- '\n", " /**/ "])
PIECES = st.sampled_from(
    [
        *"'\"$;()[]\\,.*/-+:=!@#%&|~^<>? \n\tx1\0\udc80",
        *("--", "/*", "*/", "$$", "$a$", "E'", "U&'", "::", "select ", "delete from ", "with a as (", ") ", "where "),
        *("explain analyze ", "set ", "copy ", "do ", "create table ", "grant ", "drop ", "merge into "),
    ]
)


def judgement_of(statements: tuple[Statement, ...]) -> tuple[object, ...]:
    return (
        effects_of(statements),
        {name for statement in statements for name in statement.objects},
        any(statement.without_where for statement in statements),
    )


@given(st.text() | st.lists(PIECES, max_size=30).map("".join))
@example("create table x (")
@example("merge into a using b on true")
def test_parsing_of_any_text_does_not_raise_and_yields_effects(text: str) -> None:
    for statement in PARSER.parse(text):
        assert statement.effects
        assert not statement.reason.startswith("it could not be evaluated"), statement


@given(st.sampled_from(TEXTS), st.data())
def test_parsing_of_a_damaged_statement_does_not_raise_and_yields_effects(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for statement in PARSER.parse(text[:start] + text[end:], SCHEMA):
        assert statement.effects
        assert not statement.reason.startswith("it could not be evaluated"), statement


@given(st.sampled_from(TEXTS), SPACES, SPACES)
def test_comments_and_spaces_around_a_text_do_not_change_its_judgement(text: str, before: str, after: str) -> None:
    assert judgement_of(PARSER.parse(f"{before}{text}\n{after}", SCHEMA)) == judgement_of(PARSER.parse(text, SCHEMA))


WORDS = ["delete", "from", "orders", "where", "id", "=", "1"]
QUERY = ["select", "nextval", "(", "'counter'", ")", "from", "customers", "where", "id", "=", "1"]


@given(
    st.sampled_from([WORDS, QUERY]), st.lists(SPACES, min_size=12, max_size=12), st.lists(st.booleans(), min_size=12)
)
def test_comments_spaces_and_case_do_not_change_the_judgement(
    words: list[str], spaces: list[str], upper: list[bool]
) -> None:
    spelled = [word.upper() if big and "'" not in word else word for word, big in zip(words, upper, strict=False)]
    text = "".join(word + space for word, space in zip(spelled, spaces, strict=False))
    assert judgement_of(PARSER.parse(text)) == judgement_of(PARSER.parse(" ".join(words)))


@given(st.sampled_from(["true", "id = 1", "nextval('counter') > 0", "1 = 1", "false"]), st.integers(0, 20))
def test_parentheses_around_a_condition_do_not_change_the_judgement(condition: str, levels: int) -> None:
    wrapped = "(" * levels + condition + ")" * levels
    assert judgement_of(PARSER.parse(f"delete from orders where {wrapped}")) == judgement_of(
        PARSER.parse(f"delete from orders where {condition}")
    )


@given(st.sampled_from(JOINABLE), st.sampled_from(JOINABLE))
def test_judgement_of_joined_texts_is_that_of_both(first: str, second: str) -> None:
    both = PARSER.parse(f"{first};{second}", SCHEMA)
    assert both == PARSER.parse(first, SCHEMA) + PARSER.parse(second, SCHEMA)


@given(st.integers(1, 300), st.sampled_from(["({})", "{} + 1", "not {}", "case when true then {} end", "(select {})"]))
def test_counted_depth_is_at_least_the_nesting_depth(levels: int, shape: str) -> None:
    text = "true"
    for _ in range(levels):
        text = shape.format(text)
    assert depth(f"select {text}".encode()) >= levels
