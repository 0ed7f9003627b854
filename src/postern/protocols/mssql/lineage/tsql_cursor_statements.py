"""Cursors: DECLARE c CURSOR FOR …, SET @c = CURSOR FOR …, and FETCH, which returns a row or assigns variables."""

from __future__ import annotations

from collections.abc import Sequence

from postern.inspection.lineage.scope import merge_sources
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import verb_of
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at
from postern.protocols.mssql.dialect.tsql_texts import is_user_variable
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import merge_outs
from postern.protocols.mssql.lineage.tsql_memory import LOST
from postern.protocols.mssql.lineage.tsql_reading import TsqlReading


def read_cursor(reading: TsqlReading, name: SqlToken, tokens: Sequence[SqlToken]) -> None:
    """Analyse the declaration of a cursor."""
    queries_at = (
        at for at, token in enumerate(tokens) if token.key == "FOR" and key_at(tokens, at + 1) in ("SELECT", "WITH")
    )
    start = next(queries_at, len(tokens))
    if start == len(tokens):
        if name.kind is SqlTokenKind.VARIABLE and len(tokens) == 3:
            return  # DECLARE @c CURSOR
        raise UnreadableSql("the query of a cursor is not understood")
    query = list(tokens[start + 1 :])
    end = len(query)
    for at, token in enumerate(query):
        if token.key == "FOR" and key_at(query, at + 1) in ("UPDATE", "READ"):
            end = at
    folded = fold_identifier(name.text)
    queries = reading.memory.cursor_queries.setdefault(folded, [])
    if query[:end] not in queries:
        queries.append(query[:end])
    _read_queries(reading, folded)


def _read_queries(reading: TsqlReading, name: str) -> None:
    """Read the queries of a cursor: it returns what temporary tables have when it is opened, or even fetched."""
    memory = reading.memory
    for query in memory.cursor_queries.get(name, ()):
        outs = tuple(reading.query_outs(query, verb_of(query)))
        memory.cursors[name] = merge_outs(memory.cursors.get(name), outs)


def read_fetch(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    into = next((at for at, token in enumerate(tokens) if token.key == "INTO"), len(tokens))
    name = fold_identifier(tokens[into - 1].text) if into > 1 else ""
    _read_queries(reading, name)
    outs = LOST if reading.memory.flags.lost else reading.memory.cursors.get(name, LOST)
    if into == len(tokens):
        reading.answer(outs)
        return
    targets = [token for token in tokens[into:] if is_user_variable(token)]
    is_plain = len(targets) == len(outs) and not any(out.many for out in outs)
    for place, token in enumerate(targets):
        reading.assign(token, outs[place].sources if is_plain else merge_sources(outs))
