"""Lineage of whole texts, from their tokens: the columns of each answer, and what a text leaves behind.

A text is read once from its beginning to its end, statement by statement (`tsql_reading` has what is known meanwhile).
With a loop in it, it is read until nothing changes. With QUOTED_IDENTIFIER off, text in double quotes is a constant, so
that taking it for a name finds no less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from postern.domain.rules.statement import Effect
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Scope, Sources, TooMuch, WorkBudget, union
from postern.inspection.sql.judging import by_first_words, verb_of
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, dotted_name, key_at, word
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.dialect.tsql_batches import Batch, only_batch, statements
from postern.protocols.mssql.dialect.tsql_exec import parse_exec
from postern.protocols.mssql.dialect.tsql_parser import QUERIES, creates_code, has_loop, texts_of_batch
from postern.protocols.mssql.dialect.tsql_plain import plain_query
from postern.protocols.mssql.dialect.tsql_texts import assigned_variables, is_user_variable, variable_name
from postern.protocols.mssql.dialect.tsql_views import query_of_view
from postern.protocols.mssql.lineage.tsql_calls import read_call
from postern.protocols.mssql.lineage.tsql_cursor_statements import read_fetch
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import TsqlCatalogue, TsqlState
from postern.protocols.mssql.lineage.tsql_memory import LOST
from postern.protocols.mssql.lineage.tsql_names import column_name
from postern.protocols.mssql.lineage.tsql_queries import TsqlQueries
from postern.protocols.mssql.lineage.tsql_query_statements import read_query
from postern.protocols.mssql.lineage.tsql_reading import NO_NAMES, TsqlRead, TsqlReading
from postern.protocols.mssql.lineage.tsql_spelling import spell_query
from postern.protocols.mssql.lineage.tsql_variable_statements import (
    read_condition,
    read_declaration,
    read_message,
    read_setting,
    read_use,
)

_ROUNDS: Final = 8  # readings of a text with a loop


class TsqlStatements:
    """Analyses one text. See `TsqlReading` for the arguments; `work` is a budget shared by everything for one text."""

    def __init__(
        self,
        catalogue: TsqlCatalogue,
        state: TsqlState,
        path: Sequence[str] = NO_NAMES,
        parameters: Sources = NOTHING,
        work: WorkBudget | None = None,
    ) -> None:
        self._reading = TsqlReading(catalogue, state, path, parameters, work or WorkBudget())

    def read(self, batch: Batch) -> TsqlRead:
        """Return the analysis. Raises TooMuch for a loop that does not settle."""
        reading = self._reading
        reading.loops = reading.loops or has_loop(batch)
        pieces = statements(batch)
        for _ in range(_ROUNDS if reading.loops else 1):
            before = self._findings()
            reading.texts = texts_of_batch(batch)
            self._read_all(pieces)
            if before == self._findings():
                break
        else:
            if reading.loops:
                raise TooMuch
        if reading.memory.flags.planned:
            reading.answers[LOST] = None  # a plan, which quotes values
        variables = tuple(reading.variables.put.items())
        return TsqlRead(tuple(reading.answers), reading.memory.state(), variables)

    def _findings(self) -> tuple[object, ...]:
        reading = self._reading
        memory = reading.memory
        return memory.state(), memory.temps.copy(), dict(reading.variables.put), reading.control

    def _read_all(self, pieces: Sequence[list[SqlToken]]) -> None:
        for tokens in pieces:
            if creates_code(tokens):
                self._reading.definitions.define(tokens)
                return  # the rest is its body
            self._statement(tokens)
            self._reading.texts.learn(tokens)

    def definition(self, text: str) -> list[Out]:
        """Return the columns of a view."""
        inner, names = query_of_view(_one_statement(text))
        outs = self._reading.query_outs(inner, verb_of(inner))
        if names and len(names) != len(outs):
            return [UNKNOWN]
        return [replace(out, name=column_name(name)) for out, name in zip(outs, names, strict=True)] if names else outs

    def expression(self, text: str, outs: Sequence[Out]) -> list[Out]:
        """Return the sources of an expression over the columns of one table."""
        reading = self._reading
        tokens = plain_query([word("SELECT"), *_one_statement(text)], reading.catalogue.schema)
        spelled = spell_query(tokens, "SELECT", reading.is_pure)
        queries, resolver = TsqlQueries(reading.context(), spelled), reading.resolver()
        return resolver.targets(queries.targets(spelled.tree.expressions), Scope(outs=list(outs)))

    def _run_text(self, text: str, parameters: Sources) -> Sources:
        """Analyse a text that this one runs. Return the sources of everything that it assigns."""
        outer = self._reading
        inner = TsqlStatements(outer.catalogue, outer.memory.state(), outer.path, parameters, outer.work)
        inner._reading.depth = outer.depth + 1
        inner._reading.loops = outer.loops
        read = inner.read(only_batch(text))
        control = inner._reading.control
        outer.memory.include(read.state)
        outer.control = union([outer.control, control])
        for outs in read.answers:
            outer.answer(outs)
        return union([control, *(sources for _, sources in read.variables)])

    # Statements

    def _statement(self, tokens: list[SqlToken]) -> None:
        reading = self._reading
        reading.work.step()
        try:
            self._read_statement(tokens)
        except UnreadableSql:
            # The target may understand what cannot be read here. It leaves a variable as it is, unless it names it.
            reading.memory.lose()
            for token in tokens:
                if is_user_variable(token):
                    reading.variables.assign(variable_name(token), None)
                    reading.memory.write(variable_name(token), None)
            reading.answer(LOST)

    def _read_statement(self, tokens: list[SqlToken]) -> None:
        reading = self._reading
        verb, entry = verb_of(tokens), by_first_words(tokens, words.STATEMENTS)
        if verb in QUERIES and (entry is None or len(entry[0]) == 1):
            read_query(reading, tokens, verb, self._run_text)
        elif entry is None and (verb in ("EXEC", "EXECUTE") or (tokens[0].is_name and verb not in ("WITH", "RECEIVE"))):
            read_call(reading, parse_exec(tokens), self._run_text)
        elif entry is None or Effect.UNKNOWN in entry[1]:
            raise UnreadableSql("it is not understood")
        elif entry[0][0] in _READERS:
            _READERS[entry[0][0]](reading, tokens)
        elif entry[1] & {Effect.DDL, Effect.GRANT} or entry[0] == ("UPDATE", "STATISTICS"):
            reading.definitions.define(tokens)
        else:
            _read_other(reading, tokens, entry[1])


def _read_other(reading: TsqlReading, tokens: list[SqlToken], effects: frozenset[Effect]) -> None:
    """Analyse a statement without a query."""
    first = tokens[0].key
    if first in ("REVERT", "SETUSER") or (first in ("EXEC", "EXECUTE") and key_at(tokens, 1) == "AS"):
        reading.memory.change(as_other=True)
    elif first == "DBCC":
        reading.memory.change(numbered=True)
    elif first == "BULK":
        _load_file(reading, tokens)
    elif first == "RECEIVE" or (first == "WAITFOR" and key_at(tokens, 1) == "("):
        reading.answer(LOST)
    elif first in ("BEGIN", "END", "ELSE") and not _is_block_edge(tokens):
        place = 1 + (key_at(tokens, 1) in ("TRY", "CATCH"))
        if key_at(tokens, place) != "THROW":
            raise UnreadableSql("it is not understood")
        read_message(reading, tokens[place:])
    for token in assigned_variables(tokens):
        reading.variables.assign(variable_name(token), None)
    if effects & {Effect.ADMIN, Effect.READ} and first not in ("RAISERROR",):
        reading.answer(LOST)


def _load_file(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    """Analyse BULK INSERT: a file can contain anything."""
    parts, _ = dotted_name(tokens, 2)
    if parts:
        reading.memory.write(parts[-1], None)


_BLOCKS: Final = frozenset({"TRY", "CATCH", "TRAN", "TRANSACTION", "DISTRIBUTED", "DIALOG", "CONVERSATION"})


def _is_block_edge(tokens: Sequence[SqlToken]) -> bool:
    """Return whether BEGIN, END or ELSE stands alone, so that nothing after it can be a procedure's name."""
    return len(tokens) == 1 or (key_at(tokens, 1) in _BLOCKS and (len(tokens) == 2 or tokens[1].key.startswith("TRAN")))


def _one_statement(text: str) -> list[SqlToken]:
    """Return the tokens of a text that is one statement."""
    tokens = [token for token in only_batch(text) if token.key != ";"]
    if not tokens:
        raise UnreadableSql("it is empty")
    return tokens


_READERS: Final[dict[str, Callable[[TsqlReading, list[SqlToken]], None]]] = {
    "DECLARE": read_declaration,
    "FETCH": read_fetch,
    "IF": read_condition,
    "PRINT": read_message,
    "RAISERROR": read_message,
    "RETURN": read_message,
    "SET": read_setting,
    "THROW": read_message,
    "USE": read_use,
    "WHILE": read_condition,
}
