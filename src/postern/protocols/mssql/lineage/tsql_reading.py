"""What is known while a text is read: its variables, its answers so far, and what a query means at this place.

Variables, temporary tables and cursors only gain sources, because a statement can fail or be skipped. In a batch with a
loop, the conditions of the batch count for everything in it: a loop can build a value out of thousands of answers to
"is it greater than …".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.lineage_resolver import LineageResolver
from postern.inspection.lineage.scope import (
    NOTHING,
    Out,
    Sources,
    Variables,
    WorkBudget,
    merge_sources,
    union,
)
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Judging
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, word
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.dialect.tsql_plain import plain_query
from postern.protocols.mssql.dialect.tsql_texts import BatchTexts, is_user_variable, variable_name
from postern.protocols.mssql.lineage import tsql_builtins as builtins
from postern.protocols.mssql.lineage.tsql_definitions import TsqlDefinitions
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import (
    DEFAULT_SCHEMA,
    Outs,
    SessionTables,
    TsqlCatalogue,
    TsqlState,
)
from postern.protocols.mssql.lineage.tsql_memory import TsqlMemory
from postern.protocols.mssql.lineage.tsql_names import RULES
from postern.protocols.mssql.lineage.tsql_queries import TsqlContext, TsqlQueries
from postern.protocols.mssql.lineage.tsql_spelling import spell_query

NO_NAMES: Final[tuple[str, ...]] = ()


class BatchVariables(Variables):
    """The variables of a batch. `others` are the sources of those that it does not declare: its parameters."""

    def __init__(self, others: Sources = NOTHING) -> None:
        super().__init__()
        self.others = others

    def sources_of(self, name: str) -> Sources:
        return union([super().sources_of(name), self.others])


@dataclass(frozen=True, slots=True)
class TsqlRead:
    """The analysis of one reading of a text: the columns of each answer, the session's state after it, and the sources
    of its variables, by their folded names."""

    answers: tuple[Outs, ...]
    state: TsqlState
    variables: tuple[tuple[str, Sources], ...] = ()


RunText = Callable[[str, Sources], Sources]
"""Analyses a text that the current one runs, with parameters of these sources. Returns those of everything that it
assigns. Raises UnreadableSql."""


class TsqlReading:
    """The reading of one text, as far as it is. `path` are the schemas of a name without one, `parameters` the sources
    of variables that the text does not declare. `depth` is the number of texts around this one.

    `control` are the sources of the conditions of a batch that `loops`.
    """

    def __init__(
        self, catalogue: TsqlCatalogue, state: TsqlState, path: Sequence[str], parameters: Sources, work: WorkBudget
    ) -> None:
        self.catalogue = catalogue
        self.memory = TsqlMemory(state)
        self.path = path or (*catalogue.schema.search_path, DEFAULT_SCHEMA)
        self.work = work
        judging = Judging(words.GRAMMAR, words.FUNCTIONS, catalogue.schema)
        self.definitions = TsqlDefinitions(self.memory, judging, self.is_pure)
        self.variables = BatchVariables(parameters)
        self.texts = BatchTexts()
        self.answers: dict[Outs, None] = {}
        self.control: Sources = NOTHING
        self.loops = False
        self.depth = 0

    # What it finds

    def answer(self, outs: Outs) -> None:
        """Record an answer of the text."""
        if self.control != NOTHING:
            outs = tuple([Out(out.name, union([out.sources, self.control]), out.many) for out in outs])
        self.answers[outs] = None

    def assign(self, variable: SqlToken, sources: Sources) -> None:
        """Record that a variable may get a value from these sources."""
        self.variables.assign(variable_name(variable), union([sources, self.control]))

    def write(self, name: str, sources: Sources, columns: Sequence[str] = ()) -> None:
        """Record that a temporary table or table variable may get values from these sources, in these columns or in
        any."""
        self.memory.write(name, union([sources, self.control]), columns)

    # What something means here

    def is_pure(self, parts: tuple[str, ...]) -> bool:
        """Return whether a function's result depends on its arguments alone."""
        flags = self.memory.flags
        name = parts[-1].upper() if len(parts) == 1 else ""
        if name in builtins.IDENTITY_FUNCTIONS:
            return not (flags.numbered or flags.lost)
        if name in builtins.SESSION_FUNCTIONS:
            return not (flags.queried or flags.lost)
        return self.catalogue.pure(parts, flags)

    def columns_of(self, name: str) -> Outs | None:
        """Return the columns of a temporary table or table variable."""
        return self.memory.temps.get(fold_identifier(name))

    def is_own_database(self, name: str) -> bool:
        """Return whether a name is that of the snapshot's database, or none at all."""
        database = self.catalogue.schema.database
        return not name or (bool(database) and fold_identifier(name) == fold_identifier(database))

    def context(self) -> TsqlContext:
        return TsqlContext(self.memory.flags, self.work, self._tables().knows)

    def _tables(self) -> SessionTables:
        return SessionTables(self.catalogue, self.memory.flags, self.path, self.memory.temps)

    def resolver(self) -> LineageResolver:
        return LineageResolver(RULES, self._tables(), self.work, self.variables, repeats=self.loops)

    def resolve(self, query: rel.Query) -> list[Out]:
        """Return the columns of a query. In a loop, its conditions are added to those of the batch."""
        if not self.loops:
            return self.resolver().query(query)
        outs, filters = self.resolver().filtered_query(query)
        self.control = union([self.control, filters])
        return outs

    def query_outs(self, tokens: Sequence[SqlToken], verb: str) -> list[Out]:
        """Return the columns of a query."""
        spelled = spell_query(plain_query(tokens, self.catalogue.schema), verb, self.is_pure)
        return self.resolve(TsqlQueries(self.context(), spelled).query(spelled.tree))

    def value(self, tokens: Sequence[SqlToken]) -> Sources:
        """Return the sources of an expression without tables."""
        return merge_sources(self.query_outs([word("SELECT"), *tokens], "SELECT"))

    def argument(self, tokens: Sequence[SqlToken]) -> Sources:
        """Return the sources of an argument: a constant, a variable, or a name that stands for a string."""
        found: list[Sources] = []
        for token in tokens:
            if token.kind is SqlTokenKind.VARIABLE:
                is_own = is_user_variable(token)
                found.append(self.variables.sources_of(variable_name(token)) if is_own else self.value([token]))
        return union(found)
