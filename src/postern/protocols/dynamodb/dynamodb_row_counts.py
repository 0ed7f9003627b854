"""The number of items that held operations would change. It follows from their texts: each action is about one item."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from postern.domain.rules.permit import Permit
from postern.domain.rules.row_count import PartCount, RowCount
from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.dynamodb.dialect.dynamodb_json import (
    DynamodbOperation,
    UnreadableOperation,
    read_operation,
)
from postern.protocols.dynamodb.dialect.dynamodb_names import table_name
from postern.protocols.dynamodb.dialect.dynamodb_partiql import UnreadableStatement, read_partiql
from postern.protocols.wire_base import TransactionState
from postern.relay.relay_target import Start

log = logging.getLogger(__name__)

MAX_PARTS: Final = 20
_SINGLE: Final = {"PutItem": "put", "UpdateItem": "update", "DeleteItem": "delete"}
_IN_BATCH: Final = {"PutRequest": "put", "DeleteRequest": "delete"}
_WRITES: Final = frozenset({"INSERT", "UPDATE", "DELETE"})

Change = tuple[str, str]
"""What is done, and to an item of which table."""


class ItemCounts:
    """Implements the port `RowCounter`. Nothing is asked of the target."""

    async def of(
        self,
        permit: Permit,
        start: Start,
        statements: Sequence[HeldStatement],
        standing: TransactionState | None = None,
    ) -> RowCount | None:
        """Return the count, None if no operation changes items. Never raises."""
        try:
            changes = Counter(
                change for statement in dict.fromkeys(statements) for change in count_items(statement.text)
            )
        except Exception:
            log.exception("counting the items of a held operation failed")
            return None
        if not changes:
            return None
        parts = [PartCount(action, table, number) for (action, table), number in changes.items()]
        if len(parts) > MAX_PARTS:
            rest = sum(part.rows or 0 for part in parts[MAX_PARTS:])
            parts[MAX_PARTS:] = [PartCount("the rest", "", rest)]
        return RowCount(tuple(parts), datetime.now(UTC))


def count_items(text: str) -> list[Change]:
    """Return a change for each item that an operation would change. Of a text that cannot be read there are none."""
    try:
        return list(_changes(read_operation(text)))
    except UnreadableOperation:
        return []


def _changes(operation: DynamodbOperation) -> Iterator[Change]:
    name, parameters = operation
    if name in _SINGLE:
        yield _SINGLE[name], table_name(parameters.get("TableName"))
    elif name == "BatchWriteItem":
        items = parameters.get("RequestItems")
        for table, requests in items.items() if isinstance(items, Mapping) else ():
            for request in _objects(requests):
                yield from ((_IN_BATCH[kind], table_name(table)) for kind in request if kind in _IN_BATCH)
    elif name == "TransactWriteItems":
        for item in _objects(parameters.get("TransactItems")):
            for action, content in item.items():
                if action in ("Put", "Update", "Delete") and isinstance(content, Mapping):
                    yield action.lower(), table_name(content.get("TableName"))
    elif name in ("ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"):
        listed = [parameters] if name == "ExecuteStatement" else []
        listed += _objects(parameters.get("Statements")) + _objects(parameters.get("TransactStatements"))
        for each in listed:
            yield from _of_statement(each.get("Statement"))


def _of_statement(text: object) -> Iterator[Change]:
    try:
        statement = read_partiql(text)
    except UnreadableStatement:
        return
    if statement.verb in _WRITES:
        yield statement.verb.lower(), table_name(statement.tables[0].table)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
