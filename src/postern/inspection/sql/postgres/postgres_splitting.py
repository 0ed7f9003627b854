"""Splitting of a text into statements by PostgreSQL's own parser, which knows that functions contain semicolons."""

from __future__ import annotations

from collections.abc import Iterator

from postgast.native import lib

from postern.domain.rules.script_preview import SyntaxProblem
from postern.inspection.sql.postgres.postgres_tree import UnreadablePostgres, encode_checked
from postern.inspection.sql.script_spans import ScriptSpans, whole


def split_postgres(text: str) -> ScriptSpans:
    """Return the statements' places."""
    try:
        data = encode_checked(text)
    except UnreadablePostgres as unreadable:
        return ScriptSpans(whole(text), SyntaxProblem(str(unreadable)))
    result = lib.pg_query_split_with_parser(data)
    try:
        if result.error:
            error = result.error.contents
            message = error.message.decode(errors="replace")
            # The position counts characters, from 1.
            return ScriptSpans(whole(text), SyntaxProblem(message, max(error.cursorpos - 1, 0)))
        statements = [result.stmts[number].contents for number in range(result.n_stmts)]
        places = [(statement.stmt_location, statement.stmt_location + statement.stmt_len) for statement in statements]
    finally:
        lib.pg_query_free_split_result(result)
    return ScriptSpans(tuple(_in_characters(data, places)))


def _in_characters(data: bytes, places: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Convert places in bytes to places in characters, without trailing blanks."""
    at = characters = 0
    for start, end in places:
        characters += len(data[at:start].decode())
        content = data[start:end].decode()
        yield characters, characters + len(content.rstrip())
        characters += len(content)
        at = end
