from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from postern.domain.rules.permit import Permit
from postern.gateway.rules.row_counts import HeldStatement
from postern.protocols.dynamodb.dynamodb_row_counts import ItemCounts
from postern.relay.relay_target import Start

T = {"TableName": "orders"}
COUNTS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("PutItem", T, ["put orders: 1 row"]),
    ("UpdateItem", T, ["update orders: 1 row"]),
    ("BatchWriteItem", {"RequestItems": {"a": [{"PutRequest": {}}] * 3, "b": [{"DeleteRequest": {}}]}},
     ["put a: 3 rows", "delete b: 1 row"]),
    ("TransactWriteItems", {"TransactItems": [{"Put": T}, {"ConditionCheck": T}, {"Put": T}]}, ["put orders: 2 rows"]),
    ("ExecuteStatement", {"Statement": "DELETE FROM orders WHERE id=1"}, ["delete orders: 1 row"]),
    ("BatchExecuteStatement", {"Statements": [{"Statement": "INSERT INTO a VALUE {'id': 1}"},
                                              {"Statement": "SELECT * FROM b WHERE id=1"}]}, ["insert a: 1 row"]),
    ("Scan", T, []),
    ("DeleteTable", T, []),
    ("BatchWriteItem", {"RequestItems": "x"}, []),
    ("ExecuteStatement", {"Statement": "nonsense"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("name", "parameters", "said"), COUNTS)
def test_items_are_counted_by_the_operations_text(name: str, parameters: dict[str, Any], said: list[str]) -> None:
    statement = HeldStatement(f"{name} {json.dumps(parameters)}")
    count = asyncio.run(ItemCounts().of(cast("Permit", None), Start(), [statement, statement]))
    assert ([] if count is None else [part.said for part in count.parts]) == said
