"""Lineage of statements, cached by text, snapshot and session state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, cast

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.inspection.lineage.lineage_cache import Snapshots
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Sources, TooMuch, WorkBudget
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.schema_ref import SchemaRef, pack_schema
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql
from postern.protocols.mysql.dialect.mysql_readings import readings, ways_of
from postern.protocols.mysql.dialect.mysql_shapes import MYSQL_SHAPES
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import MysqlLineageCatalogue, SessionState
from postern.protocols.mysql.lineage.mysql_names import column_name
from postern.protocols.mysql.lineage.mysql_statements import MysqlRead, MysqlStatements

log = logging.getLogger(__name__)

MOST_TEXT: Final = 64 * 1024  # characters; longer texts are not analysed
MOST_READ: Final = 256 * 1024  # … times the number of readings
MOST_TOKENS: Final = 128 * 1024  # … over all readings and databases
_NO_STATE: Final = SessionState()
_OF_A_VIEW: Final = SessionState(lost=True, settings=False)


class MySqlLineage:
    """Lineage of MySQL's and MariaDB's statements. Never raises; not thread-safe. Sessions share one instance and its
    caches."""

    def __init__(self) -> None:
        self._snapshots: Snapshots[MysqlLineageCatalogue, tuple[MysqlRead, ...] | None] = Snapshots(_catalogue)

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
    ) -> tuple[MysqlRead, ...] | None:
        """Return the analysis of each statement of the text, by every reading and for each possible default database;
        None if it cannot be tokenised, or is too large or too deep."""
        if _is_never_read(text):
            return None
        stored_readings = self._snapshots.of(schema)
        key = (state, bind_sources)
        shape = None if (text, key) in stored_readings else MYSQL_SHAPES.of(text)
        return stored_readings.of(
            text if shape is None else shape, key, lambda: _read(text, stored_readings.catalogue, state, bind_sources)
        )

    def unread(
        self, text: str, schema: TargetSchema, state: SessionState = _NO_STATE, bind_sources: Sources = NOTHING
    ) -> UnreadText | None:
        """Return what another process has to read for `read`, or None if nothing."""
        stored_readings, key = self._snapshots.of(schema), (state, bind_sources)
        words = MYSQL_SHAPES.of(text) or text
        if _is_never_read(text) or (text, key) in stored_readings or (words, key) in stored_readings:
            return None

        def keep(reads: object) -> None:
            stored_readings.keep(words, key, cast("tuple[MysqlRead, ...] | None", reads))

        def make_task() -> Callable[[], object]:
            return partial(_read_elsewhere, pack_schema(schema), text, state, bind_sources)

        return UnreadText(len(text), partial(self.read, text, schema, state, bind_sources), make_task, keep)

    def catalogue(self, schema: TargetSchema) -> MysqlLineageCatalogue:
        return self._snapshots.of(schema).catalogue


def _is_never_read(text: str) -> bool:
    return len(text) > MOST_TEXT or len(text) * ways_of(text) > MOST_READ


@lru_cache
def _own() -> MySqlLineage:
    return MySqlLineage()


def _read_elsewhere(
    ref: SchemaRef, text: str, state: SessionState, bind_sources: Sources
) -> tuple[MysqlRead, ...] | None:
    """Read in another process, which caches the schema."""
    return _own().read(text, ref.load(), state, bind_sources)


def _read(
    text: str, catalogue: MysqlLineageCatalogue, state: SessionState, bind_sources: Sources
) -> tuple[MysqlRead, ...] | None:
    try:
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
        mysql_reads = [read for reads in of for read in reads]
    except (UnreadableSql, TooMuch, RecursionError, MemoryError):
        return None
    except Exception:
        log.exception("finding the lineage of a statement failed; its columns are unknown")
        return None
    return tuple(dict.fromkeys(mysql_reads))


def _catalogue(schema: TargetSchema) -> MysqlLineageCatalogue:
    def define(relation: Relation, column: str) -> list[Out]:
        """Return the sources of a view's column. The server prints definitions in its own words, which no mode
        changes."""
        try:
            tokens = _only(relation.generated[column] if column else relation.definition)
            reader = MysqlStatements(catalogue, _OF_A_VIEW, relation.schema)
            if not column:
                return reader.definition(tokens)
            other_columns = frozenset(relation.columns) - {column}
            return reader.expression(
                tokens,
                [
                    Out(column_name(name), frozenset({ColumnRef(relation.schema, relation.name, name)}))
                    for name in relation.columns
                    if name in other_columns
                ],
            )
        except (UnreadableSql, TooMuch, RecursionError, MemoryError):
            return [UNKNOWN]
        except Exception:
            log.exception("reading the definition of a view failed; its columns are unknown")
            return [UNKNOWN]

    catalogue = MysqlLineageCatalogue(schema, define)
    return catalogue


def _only(text: str) -> tuple[SqlToken, ...]:
    """Return the tokens of the only reading. Raises UnreadableSql if there are several."""
    token_lists = {way.tokens for way in readings(text) if way.usual or not way.broken}
    if len(token_lists) != 1:
        raise UnreadableSql("it has several readings")
    return token_lists.pop()
