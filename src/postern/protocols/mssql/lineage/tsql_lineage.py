"""Lineage of T-SQL by texts: what `CachedLineage` reads them with."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import CachedLineage, LineageReader
from postern.inspection.lineage.scope import UNKNOWN, Out, TooMuch
from postern.inspection.schema_ref import SchemaRef
from postern.inspection.sql.sql_tokens import UnreadableSql
from postern.protocols.mssql.dialect.tsql_batches import only_batch
from postern.protocols.mssql.dialect.tsql_shapes import TSQL_SHAPES
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import DEFAULT_SCHEMA, TsqlCatalogue, TsqlState
from postern.protocols.mssql.lineage.tsql_names import column_name
from postern.protocols.mssql.lineage.tsql_reading import TsqlRead
from postern.protocols.mssql.lineage.tsql_statements import TsqlStatements

log = logging.getLogger(__name__)

MOST_TOKENS: Final = 32 * 1024
NO_STATE: Final = TsqlState()
_OF_A_VIEW: Final = TsqlState(lost=True, queried=True, numbered=True)


class TSqlLineage(CachedLineage[TsqlCatalogue, TsqlState, TsqlRead]):
    """Lineage of T-SQL."""

    def __init__(self) -> None:
        super().__init__(LineageReader(TSQL_SHAPES, NO_STATE, _catalogue, _read, _read_elsewhere))


@lru_cache
def _own() -> TSqlLineage:
    return TSqlLineage()


def _read_elsewhere(ref: SchemaRef, text: str, state: TsqlState) -> TsqlRead | None:
    """Read in another process, which caches the schema."""
    return _own().read(text, ref.load(), state)


def _read(text: str, catalogue: TsqlCatalogue, state: TsqlState) -> TsqlRead:
    batch = only_batch(text)
    if len(batch) > MOST_TOKENS:
        raise TooMuch
    return TsqlStatements(catalogue, state).read(batch)


def _catalogue(schema: TargetSchema) -> TsqlCatalogue:
    def define(relation: Relation, column: str) -> list[Out]:
        """Return the sources of a view's column. Its author's names without a schema are looked up in the view's."""
        path = tuple(dict.fromkeys((relation.schema, DEFAULT_SCHEMA)))
        try:
            reader = TsqlStatements(catalogue, _OF_A_VIEW, path)
            if not column:
                return reader.definition(relation.definition)
            outs = [
                Out(column_name(name), frozenset({ColumnRef(relation.schema, relation.name, name)}))
                for name in relation.columns
                if name != column
            ]
            return reader.expression(relation.generated[column], outs)
        except (UnreadableSql, TooMuch, RecursionError, MemoryError):
            return [UNKNOWN]
        except Exception:
            log.exception("reading the definition of a view failed; its columns are unknown")
            return [UNKNOWN]

    catalogue = TsqlCatalogue(schema, define)
    return catalogue
