"""Splitting of a script for Oracle Database, as SQL*Plus does: at semicolons, and at lines with only `/` after code.

Code is a block of PL/SQL, a procedure or the like, or a query with code in its WITH: it takes all up to such a line, or
the end. The server takes one statement at a time, and wants a semicolon at the end of code only.
"""

from __future__ import annotations

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.script_spans import ScriptSpans, whole
from postern.inspection.sql.sql_lexing import check_text
from postern.inspection.sql.sql_tokens import UnreadableSql
from postern.protocols.oracledb.dialect.oracle_tokens import PlacedToken, placed_tokens, starts_code


def split_oracle(text: str) -> ScriptSpans:
    """Return the places of the statements, each as the server takes it."""
    try:
        check_text(text)
    except UnreadableSql as error:
        return ScriptSpans(whole(text), SyntaxProblem(str(error)))
    placed, problem_at, problem = placed_tokens(text)
    if problem_at >= 0:
        return ScriptSpans(whole(text), SyntaxProblem(problem, problem_at))
    return ScriptSpans(tuple([span for script in _scripts(placed) for span in _spans(script)]))


def _scripts(placed: list[PlacedToken]) -> list[list[PlacedToken]]:
    scripts: list[list[PlacedToken]] = [[]]
    for each in placed:
        if each.token.key == "/" and each.token.alone:
            scripts.append([])
        else:
            scripts[-1].append(each)
    return scripts


def _spans(script: list[PlacedToken]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = 0
    while start < len(script):
        end = next((at for at in range(start, len(script)) if script[at].token.key == ";"), len(script))
        if start < end and starts_code([each.token for each in script[start:end]]):
            return [*spans, (script[start].start, script[-1].end)]
        if start < end:
            spans.append((script[start].start, script[end - 1].end))
        start = end + 1
    return spans
