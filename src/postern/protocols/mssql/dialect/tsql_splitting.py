"""Splitting of a script for SQL Server: into statements for display, and into batches as client tools send them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.inspection.sql.sql_lexing import check_comment, check_text, why_unreadable
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, words_of
from postern.protocols.mssql.dialect.tsql_batches import (
    PATTERN,
    check_go,
    end_of_comment,
    statements,
    token_of_match,
)
from postern.protocols.mssql.dialect.tsql_parser import creates_code

MOST_REPEATS: Final = 1000
_COUNT: Final = re.compile(r"[ \t]*(\d+)")
# A batch with one of these is shown as one: its statements depend on each other.
_TOGETHER: Final = words_of("BEGIN DECLARE ELSE END GOTO IF WHILE")


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """The place of a batch in a script, without its GO, and how often GO repeats it."""

    start: int
    end: int
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class _PlacedToken:
    token: SqlToken
    start: int
    end: int

    @property
    def is_go(self) -> bool:
        return self.token.key == "GO" and self.token.alone


def split_tsql(text: str) -> ScriptSpans:
    """Return the statements' places; for a batch with code or variables, the place of the batch."""
    try:
        check_text(text)
        placed, problem = _place_tokens(text)
        if problem is not None:
            return ScriptSpans(whole(text), problem)
        batches = _split_at_go(text, placed)
    except UnreadableSql as error:
        return ScriptSpans(whole(text), SyntaxProblem(str(error)))
    return ScriptSpans(tuple([span for tokens, _ in batches if tokens for span in _spans(tokens)]))


def batch_spans(text: str) -> tuple[BatchSpan, ...]:
    """Return the batches of a script, which GO separates. Raises UnreadableSql."""
    check_text(text)
    placed, problem = _place_tokens(text)
    if problem is not None:
        raise UnreadableSql(problem.message)
    spans: list[BatchSpan] = []
    for tokens, go in _split_at_go(text, placed):
        count = None if go is None else _COUNT.match(text, go.end)
        repeats = 1 if count is None else int(count[1])
        if repeats > MOST_REPEATS:
            raise UnreadableSql(f"GO repeats a batch more than {MOST_REPEATS} times")
        if tokens and repeats:
            spans.append(BatchSpan(tokens[0].start, tokens[-1].end, repeats))
    return tuple(spans)


def batch_texts(text: str) -> list[str]:
    """Return the batches of a script as they are sent. A text that cannot be split is one, for the target to judge."""
    try:
        spans = batch_spans(text)
    except UnreadableSql:
        return [text]
    return [text[span.start : span.end] for span in spans for _ in range(span.repeats)] or [text]


def _place_tokens(text: str) -> tuple[list[_PlacedToken], SyntaxProblem | None]:
    placed: list[_PlacedToken] = []
    at = 0
    while at < len(text):
        match = PATTERN.match(text, at)
        if match is None or match.end() == at:
            return placed, SyntaxProblem(why_unreadable(text, at), at)
        kind = match.lastgroup
        if kind == "nested":
            at = end_of_comment(text, match.end())
            continue
        if kind == "comment":
            check_comment(match.group())
        elif kind != "blank":
            placed.append(_PlacedToken(token_of_match(match, text), match.start(), match.end()))
        at = match.end()
    return placed, None


def _split_at_go(text: str, placed: list[_PlacedToken]) -> list[tuple[list[_PlacedToken], _PlacedToken | None]]:
    """Return the tokens of each batch, and the GO that ends it."""
    batches: list[tuple[list[_PlacedToken], _PlacedToken | None]] = []
    tokens: list[_PlacedToken] = []
    before: _PlacedToken | None = None
    for each in placed:
        if each.is_go:
            batches.append((tokens, each))
            tokens = []
        elif before is None or not before.is_go or each.token.kind is not SqlTokenKind.NUMBER:
            tokens.append(each)
        before = each
    check_go(text, len(batches))
    return [*batches, (tokens, None)]


def _spans(batch: list[_PlacedToken]) -> list[tuple[int, int]]:
    if any(each.token.key in _TOGETHER or each.token.kind is SqlTokenKind.VARIABLE for each in batch):
        return [(batch[0].start, batch[-1].end)]
    places = {id(each.token): each for each in batch}
    spans: list[tuple[int, int]] = []
    for tokens in statements([each.token for each in batch]):
        start = places[id(tokens[0])].start
        if creates_code(tokens):
            return [*spans, (start, batch[-1].end)]
        spans.append((start, places[id(tokens[-1])].end))
    return spans
