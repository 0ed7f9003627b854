"""Lineage of Oracle's SQL by texts: what `CachedLineage` reads them with."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.lineage.cached_lineage import CachedLineage, LineageReader
from postern.inspection.lineage.scope import Out
from postern.inspection.schema_ref import SchemaRef
from postern.protocols.oracledb.dialect.oracle_shapes import ORACLE_SHAPES
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import OracleCatalogue, OracleState
from postern.protocols.oracledb.lineage.oracle_lineage_statements import OracleRead, OracleStatements

NO_STATE: Final = OracleState()
_OF_A_VIEW: Final = OracleState(held=None)


class OracleLineage(CachedLineage[OracleCatalogue, OracleState, OracleRead]):
    """Lineage of Oracle's SQL and of blocks of PL/SQL."""

    def __init__(self) -> None:
        super().__init__(LineageReader(ORACLE_SHAPES, NO_STATE, _catalogue, _read, _read_elsewhere))


@lru_cache
def _own() -> OracleLineage:
    return OracleLineage()


def _read_elsewhere(ref: SchemaRef, text: str, state: OracleState) -> OracleRead | None:
    """Read in another process, which caches the schema."""
    return _own().read(text, ref.load(), state)


def _read(text: str, catalogue: OracleCatalogue, state: OracleState) -> OracleRead:
    return OracleStatements(catalogue, state).read(text)


def _catalogue(schema: TargetSchema) -> OracleCatalogue:
    def define(relation: Relation, column: str) -> list[Out]:
        """Return the sources of a view's column. Its author's names without a schema are looked up in the view's."""
        reader = OracleStatements(catalogue, _OF_A_VIEW, (relation.schema,))
        if not column:
            return reader.definition(relation.definition)
        return reader.expression(relation.generated[column], catalogue.other_columns(relation, column))

    catalogue = OracleCatalogue(schema, define)
    return catalogue
