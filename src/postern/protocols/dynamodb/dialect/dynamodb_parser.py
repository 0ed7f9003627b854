"""The parser of operations, for rules about statements."""

from __future__ import annotations

from postern.domain.rules.statement import Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.protocols.dynamodb.dialect.dynamodb_effects import judge_operation
from postern.protocols.dynamodb.dialect.dynamodb_json import UnreadableOperation, read_operation


class DynamodbParser(Shared):
    """The port `Parser`. There are no views: the catalogue is not needed."""

    dialect = "dynamodb"
    shapes = None

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        if not text.strip():
            return ()
        return self._cache.of(text, None, _judge_text)


def _judge_text(text: str, schema: TargetSchema | None) -> tuple[Statement, ...]:
    try:
        return (judge_operation(read_operation(text)),)
    except UnreadableOperation as error:
        return (unknown(str(error)),)
    except (RecursionError, MemoryError):
        return (unknown("it is nested too deeply"),)
