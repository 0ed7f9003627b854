"""Splitting of a text into statements, as a MySQL or MariaDB server in its usual mode reads it."""

from __future__ import annotations

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.inspection.sql.sql_lexing import check_text, token_of, why_unreadable
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql
from postern.protocols.mysql.dialect.mysql_parser import creates_block
from postern.protocols.mysql.dialect.mysql_readings import USUAL_PATTERN


def split_mysql(text: str) -> ScriptSpans:
    """Return the statements' places. A statement that creates code with blocks lasts to the end of the text."""
    spans: list[tuple[int, int]] = []
    tokens: list[SqlToken] = []  # of the current statement
    start, end, at = -1, 0, 0  # no start before the statement's first token
    try:
        check_text(text)
        while at < len(text):
            match = USUAL_PATTERN.match(text, at)
            if match is None or match.end() == at:
                return ScriptSpans(whole(text), SyntaxProblem(why_unreadable(text, at), at))
            kind, at = match.lastgroup, match.end()
            if kind in ("blank", "comment"):
                continue
            if match.group() == ";" and not creates_block(tokens):
                if tokens:
                    spans.append((start, end))
                tokens, start = [], -1
                continue
            start = match.start() if start < 0 else start
            end = at
            if kind not in ("versioned", "close"):  # of a comment that servers run
                tokens.append(token_of(match, text))
    except UnreadableSql as error:
        return ScriptSpans(whole(text), SyntaxProblem(str(error)))
    if tokens:
        spans.append((start, end))
    return ScriptSpans(tuple(spans))
