"""Lineage of statements, cached by text, snapshot and session state."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import CachedReadings, LineageReader, is_long
from postern.inspection.lineage.scope import NOTHING, Out, Sources, TooMuch, WorkBudget
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.schema_ref import SchemaRef
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql
from postern.protocols.mysql.dialect.mysql_readings import readings, ways_of
from postern.protocols.mysql.dialect.mysql_shapes import MYSQL_SHAPES
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import MysqlLineageCatalogue, SessionState
from postern.protocols.mysql.lineage.mysql_statements import MysqlRead, MysqlStatements

MOST_READ: Final = 256 * 1024  # characters, times the number of readings
MOST_TOKENS: Final = 128 * 1024  # … over all readings and databases
_NO_STATE: Final = SessionState()
_OF_A_VIEW: Final = SessionState(lost=True, settings=False)


MysqlContext = tuple[SessionState, Sources]
"""The state of a session, and the sources of the bind variables of a text that it runs."""
MysqlReads = tuple[MysqlRead, ...]


class MySqlLineage:
    """Lineage of MySQL's and MariaDB's statements. Never raises; not thread-safe. Sessions share one instance and its
    caches."""

    def __init__(self) -> None:
        self._cached: CachedReadings[MysqlLineageCatalogue, MysqlContext, MysqlReads] = CachedReadings(
            LineageReader(MYSQL_SHAPES, (_NO_STATE, NOTHING), _catalogue, _read, _read_elsewhere, _is_never_read)
        )

    def sources(self, text: str, schema: TargetSchema) -> tuple[frozenset[ColumnRef] | None, ...] | None:
        """Return for each result column the table columns that it derives from (and those of views in between), or None
        if unknown.

        The whole result is None if the text is not exactly one statement with rows, or if the number of columns is
        unknown.
        """
        reads = self.read(text, schema, SessionState(databases=schema.search_path or None))
        if reads is None or len(reads) != 1:
            return None
        outs = reads[0].outs
        return None if outs is None or any(out.many for out in outs) else tuple(out.sources for out in outs)

    def read(
        self, text: str, schema: TargetSchema, state: SessionState = _NO_STATE, bind_sources: Sources = NOTHING
    ) -> MysqlReads | None:
        """Return the analysis of each statement of the text, by every reading and for each possible default database;
        None if it cannot be tokenised, or is too large or too deep."""
        return self._cached.read(text, schema, (state, bind_sources))

    def unread(
        self, text: str, schema: TargetSchema, state: SessionState = _NO_STATE, bind_sources: Sources = NOTHING
    ) -> UnreadText | None:
        """Return what another process has to read for `read`, or None if nothing."""
        return self._cached.unread(text, schema, (state, bind_sources))

    def catalogue(self, schema: TargetSchema) -> MysqlLineageCatalogue:
        return self._cached.catalogue(schema)


def _is_never_read(text: str) -> bool:
    return is_long(text) or len(text) * ways_of(text) > MOST_READ


@lru_cache
def _own() -> MySqlLineage:
    return MySqlLineage()


def _read_elsewhere(ref: SchemaRef, text: str, context: MysqlContext) -> MysqlReads | None:
    """Read in another process, which caches the schema."""
    return _own().read(text, ref.load(), *context)


def _read(text: str, catalogue: MysqlLineageCatalogue, context: MysqlContext) -> MysqlReads:
    state, bind_sources = context
    ways, databases, work = readings(text), state.databases or ("",), WorkBudget()
    if sum(len(way.tokens) for way in ways) * len(databases) > MOST_TOKENS:
        raise TooMuch
    of = [
        [read for way in ways for read in MysqlStatements(catalogue, state, database, bind_sources, work).read(way)]
        for database in databases
    ]
    if not all(any(read.fails for read in reads) for reads in of):
        # In one of these databases all names exist: the response is not from one in which they do not.
        of = [[replace(read, outs=None) if read.fails else read for read in reads] for reads in of]
    return tuple(dict.fromkeys([read for reads in of for read in reads]))


def _catalogue(schema: TargetSchema) -> MysqlLineageCatalogue:
    def define(relation: Relation, column: str) -> list[Out]:
        """Return the sources of a view's column. The server prints definitions in its own words, which no mode
        changes."""
        tokens = _only(relation.generated[column] if column else relation.definition)
        reader = MysqlStatements(catalogue, _OF_A_VIEW, relation.schema)
        if not column:
            return reader.definition(tokens)
        return reader.expression(tokens, catalogue.other_columns(relation, column))

    catalogue = MysqlLineageCatalogue(schema, define)
    return catalogue


def _only(text: str) -> tuple[SqlToken, ...]:
    """Return the tokens of the only reading. Raises UnreadableSql if there are several."""
    token_lists = {way.tokens for way in readings(text) if way.usual or not way.broken}
    if len(token_lists) != 1:
        raise UnreadableSql("it has several readings")
    return token_lists.pop()
