"""Catalogue queries of a DynamoDB target: its tables, and their attributes.

As in rules, a table is a schema that has itself and its indexes: `orders.orders`, `orders.by-city`. DynamoDB only knows
the attributes of keys. The others are those of a sample of items, of which nothing but names and types is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.aws.aws_json_client import AwsJsonResponse, AwsJsonResponses
from postern.protocols.aws.aws_query_in_steps import AwsQueryInSteps
from postern.protocols.catalogue_questions import COLUMN, CURRENT, TABLE, catalogue_questions
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation
from postern.protocols.dynamodb.queries.dynamodb_requests import (
    as_list,
    as_mapping,
    encode_operation,
    make_target_refused,
    next_page,
)
from postern.protocols.gateway_queries import Catalogue, Query, Row, text

MAX_TABLES: Final = 5000
MAX_DESCRIBED: Final = 200  # tables of a whole schema whose attributes are read
SAMPLE: Final = 25  # items
_INDEX: Final = "index"

Steps = Generator[DynamodbOperation, AwsJsonResponse, None]
"""Yields operations and receives the response to each."""
_Values = Sequence[str | None]


def _content(response: AwsJsonResponse) -> Mapping[str, Any]:
    """Return the body of a response. Raises TargetRefused for an error."""
    if response.code:
        raise make_target_refused(response)
    return as_mapping(response.content)


def _ping(rows: list[Row], values: _Values) -> Steps:
    _content((yield DynamodbOperation("ListTables", {"Limit": 1})))
    rows.append(("1",))


def _databases(rows: list[Row], values: _Values) -> Steps:
    """A target has no databases: it is one account in one region."""
    _content((yield DynamodbOperation("ListTables", {"Limit": 1})))


def _names() -> Generator[DynamodbOperation, AwsJsonResponse, list[str]]:
    names: list[str] = []
    operation: DynamodbOperation | None = DynamodbOperation("ListTables", {})
    while operation is not None and len(names) < MAX_TABLES:
        content = _content((yield operation))
        names += map(str, as_list(content.get("TableNames")))
        operation = next_page(operation, content)
    return names


def _tables(rows: list[Row], values: _Values) -> Steps:
    names = yield from _names()
    rows += [(name, name) for name in names]


def _columns(rows: list[Row], values: _Values) -> Steps:
    (table,) = values
    description = _content((yield DynamodbOperation("DescribeTable", {"TableName": table or ""}))).get("Table")
    columns = _key_columns(as_mapping(description))
    sampled = yield DynamodbOperation("Scan", {"TableName": table or "", "Limit": SAMPLE})
    if not sampled.code:  # the account may describe the table, and not read it
        _add_sampled(columns, as_list(as_mapping(sampled.content).get("Items")))
    rows += [(name, kind, "NO" if is_key else "YES") for name, (kind, is_key) in columns.items()]


def _schema(rows: list[Row], values: _Values) -> Steps:
    """`shape_schema` explains the parts."""
    names = yield from _names()
    rows.append((CURRENT, None, None, None, None, None, "0"))
    rows += [(TABLE, name, name, "table", None, None, "0") for name in names]
    for name in names[:MAX_DESCRIBED]:
        response = yield DynamodbOperation("DescribeTable", {"TableName": name})
        table = as_mapping(as_mapping(response.content).get("Table"))
        if response.code:  # it cannot be described, or has been deleted
            continue
        rows += [(TABLE, name, index, _INDEX, None, None, "0") for index in _indexes(table)]
        rows += [
            (COLUMN, name, name, column, kind, "NO" if is_key else "YES", str(number))
            for number, (column, (kind, is_key)) in enumerate(_key_columns(table).items(), 1)
        ]


def _indexes(table: Mapping[str, Any]) -> list[str]:
    listed = [*as_list(table.get("LocalSecondaryIndexes")), *as_list(table.get("GlobalSecondaryIndexes"))]
    return [str(as_mapping(each).get("IndexName")) for each in listed]


def _key_columns(table: Mapping[str, Any]) -> dict[str, tuple[str, bool]]:
    """Return the attributes of keys, those of the table's own first: types, and whether they are of the table's own."""
    types = {
        str(each.get("AttributeName")): str(each.get("AttributeType"))
        for each in map(as_mapping, as_list(table.get("AttributeDefinitions")))
    }
    keys = [str(as_mapping(each).get("AttributeName")) for each in as_list(table.get("KeySchema"))]
    ordered = [*keys, *(name for name in types if name not in keys)]
    return {name: (types.get(name, ""), name in keys) for name in ordered}


def _add_sampled(columns: dict[str, tuple[str, bool]], items: Sequence[object]) -> None:
    found: dict[str, set[str]] = {}
    for item in map(as_mapping, items):
        for name, value in item.items():
            if name not in columns:
                found.setdefault(str(name), set()).update(map(str, as_mapping(value)))
    for name, tags in found.items():
        columns[name] = (" or ".join(sorted(tags - {"NULL"})) or "NULL", False)


_STEPS: Final[Mapping[str, tuple[Callable[[list[Row], _Values], Steps], int]]] = {
    "test": (_ping, 0),
    "databases": (_databases, 0),
    "tables": (_tables, 0),
    "columns": (_columns, 1),
    "schema": (_schema, 0),
}
"""The reader of each statement, and the number of its values."""


def catalogue_query(statement: str, values: _Values) -> Query:
    """Return the query of a statement, which is the name of its steps. Raises ProtocolViolation."""
    steps, count = _STEPS[statement]
    if len(values) != count:
        raise ProtocolViolation(f"a query has {count} placeholders for {len(values)} values")
    rows: list[Row] = []
    return AwsQueryInSteps(steps(rows, values), rows, AwsJsonResponses(), encode_operation, lambda response: response)


_QUESTIONS: Final = catalogue_questions(
    test="test",
    databases="databases",
    tables="tables",
    columns="columns",
    schema="schema",
    kinds={_INDEX: "index"},
    values_of_tables=(),
    values_of_columns=("table",),
    missing="the table does not exist, or the connection's identity is not allowed to describe it",
)


def _target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Return the tables; there are no views or functions that an operation could run. Raises ProtocolViolation."""
    try:
        (tables,) = answers
        relations = [Relation(text(schema), text(name), ()) for schema, name in tables]
    except ValueError as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None
    return TargetSchema({(each.schema, each.name): each for each in relations})


CATALOGUE: Final = Catalogue(catalogue_query, _QUESTIONS, ("tables",), _target_schema)
