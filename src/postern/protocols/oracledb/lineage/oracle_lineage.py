"""Lineage of texts, cached by text, snapshot and session state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, cast

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.inspection.lineage.lineage_cache import Snapshots
from postern.inspection.lineage.scope import UNKNOWN, Out, TooMuch
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.schema_ref import SchemaRef, pack_schema
from postern.inspection.sql.sql_tokens import UnreadableSql
from postern.protocols.oracledb.dialect.oracle_shapes import ORACLE_SHAPES
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import OracleCatalogue, OracleState
from postern.protocols.oracledb.lineage.oracle_lineage_statements import OracleRead, OracleStatements

log = logging.getLogger(__name__)

MOST_TEXT: Final = 64 * 1024  # characters; longer texts are not analysed
NO_STATE: Final = OracleState()
_OF_A_VIEW: Final = OracleState(held=None)


class OracleLineage:
    """Lineage of Oracle's SQL. Never raises; not thread-safe. Sessions share one instance and its caches."""

    def __init__(self) -> None:
        self._snapshots: Snapshots[OracleCatalogue, OracleRead | None] = Snapshots(_catalogue)

    def sources(self, text: str, schema: TargetSchema) -> tuple[frozenset[ColumnRef] | None, ...] | None:
        """Return for each result column the table columns that it derives from (and those of views in between), or None
        if unknown.

        The whole result is None if the text does not have exactly one answer, or if the number of columns is unknown.
        """
        read = self.read(text, schema)
        if read is None or len(read.answers) != 1 or any(out.many for out in read.answers[0]):
            return None
        return tuple(out.sources for out in read.answers[0])

    def read(self, text: str, schema: TargetSchema, state: OracleState = NO_STATE) -> OracleRead | None:
        """Return the analysis of a text; None if it cannot be tokenised, or is too large or too deep."""
        if len(text) > MOST_TEXT:
            return None
        stored_readings = self._snapshots.of(schema)
        shape = None if (text, state) in stored_readings else ORACLE_SHAPES.of(text)
        return stored_readings.of(
            text if shape is None else shape, state, lambda: _read(text, stored_readings.catalogue, state)
        )

    def unread(self, text: str, schema: TargetSchema, state: OracleState = NO_STATE) -> UnreadText | None:
        """Return what another process has to read for `read`, or None if nothing."""
        stored_readings = self._snapshots.of(schema)
        words = ORACLE_SHAPES.of(text) or text
        if len(text) > MOST_TEXT or (text, state) in stored_readings or (words, state) in stored_readings:
            return None

        def keep(read: object) -> None:
            stored_readings.keep(words, state, cast("OracleRead | None", read))

        def make_task() -> Callable[[], object]:
            return partial(_read_elsewhere, pack_schema(schema), text, state)

        return UnreadText(len(text), partial(self.read, text, schema, state), make_task, keep)


@lru_cache
def _own() -> OracleLineage:
    return OracleLineage()


def _read_elsewhere(ref: SchemaRef, text: str, state: OracleState) -> OracleRead | None:
    """Read in another process, which caches the schema."""
    return _own().read(text, ref.load(), state)


def _read(text: str, catalogue: OracleCatalogue, state: OracleState) -> OracleRead | None:
    try:
        return OracleStatements(catalogue, state).read(text)
    except (UnreadableSql, TooMuch, RecursionError, MemoryError):
        return None
    except Exception:
        log.exception("finding the lineage of a statement failed; its columns are unknown")
        return None


def _catalogue(schema: TargetSchema) -> OracleCatalogue:
    def define(relation: Relation, column: str) -> list[Out]:
        """Return the sources of a view's column. Its author's names without a schema are looked up in the view's."""
        try:
            reader = OracleStatements(catalogue, _OF_A_VIEW, (relation.schema,))
            if not column:
                return reader.definition(relation.definition)
            outs = [
                Out(name, frozenset({ColumnRef(relation.schema, relation.name, name)}))
                for name in relation.columns
                if name != column
            ]
            return reader.expression(relation.generated[column], outs)
        except (UnreadableSql, TooMuch, RecursionError, MemoryError):
            catalogue.calls_functions = True
            return [UNKNOWN]
        except Exception:
            log.exception("reading the definition of a view failed; its columns are unknown")
            catalogue.calls_functions = True
            return [UNKNOWN]

    catalogue = OracleCatalogue(schema, define)
    return catalogue
