"""Lineage of T-SQL by texts: what `CachedLineage` reads them with."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import CachedLineage, LineageReader
from postern.inspection.lineage.scope import Out, TooMuch
from postern.inspection.schema_ref import SchemaRef
from postern.protocols.mssql.dialect.tsql_batches import only_batch
from postern.protocols.mssql.dialect.tsql_shapes import TSQL_SHAPES
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import DEFAULT_SCHEMA, TsqlCatalogue, TsqlState
from postern.protocols.mssql.lineage.tsql_reading import TsqlRead
from postern.protocols.mssql.lineage.tsql_statements import TsqlStatements

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
        reader = TsqlStatements(catalogue, _OF_A_VIEW, tuple(dict.fromkeys((relation.schema, DEFAULT_SCHEMA))))
        if not column:
            return reader.definition(relation.definition)
        return reader.expression(relation.generated[column], catalogue.other_columns(relation, column))

    catalogue = TsqlCatalogue(schema, define)
    return catalogue
