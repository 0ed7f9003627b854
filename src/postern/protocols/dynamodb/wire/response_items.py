"""Where the items of each operation's response are, and which tables they are from.

Request and response say it together: the table of `Items` is the request's `TableName`, that of `Responses[3]` stands
in the request's fourth action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from postern.protocols.dynamodb.dialect.dynamodb_json import Parameters
from postern.protocols.dynamodb.dialect.dynamodb_names import table_name, table_of_iterator
from postern.protocols.dynamodb.dialect.dynamodb_partiql import (
    PartiqlStatement,
    UnreadableStatement,
    read_partiql,
)
from postern.protocols.dynamodb.wire.dynamodb_rows import FoundItem

Content = dict[str, Any]
Items = Iterator[FoundItem]


def find_items(name: str, parameters: Parameters, content: Content) -> list[FoundItem]:
    """Return the items in a response without an error. Raises ValueError for a response of another form."""
    places = _PLACES.get(name)
    return [] if places is None else list(places(parameters, content))


def find_items_of_error(name: str, parameters: Parameters, content: Content) -> list[FoundItem]:
    """Return the items in an error: those that did not fit a condition."""
    found: list[FoundItem] = []
    if "Item" in content:
        found.append(FoundItem(_only_table(name, parameters), _object(content["Item"])))
    tables = _tables_of_actions(name, parameters)
    for index, reason in enumerate(_list(content.get("CancellationReasons"))):
        if isinstance(reason, dict) and reason.get("Item"):
            found.append(FoundItem(_at(tables, index), _object(reason["Item"])))
    return found


def find_error_texts(content: Content) -> list[tuple[Content, str]]:
    """Return the places of texts of errors in a response: the error's own, and those of single statements."""
    places: list[tuple[Content, str]] = [(content, name) for name in ("message", "Message") if name in content]
    reasons = _list(content.get("CancellationReasons"))
    places += [(reason, "Message") for reason in reasons if isinstance(reason, dict) and reason.get("Message")]
    responses = content.get("Responses")
    for response in responses if isinstance(responses, list) else ():
        error = response.get("Error") if isinstance(response, dict) else None
        if isinstance(error, dict) and error.get("Message"):
            places.append((error, "Message"))
    return places


def has_items(name: str) -> bool:
    return name in _PLACES


# Places


def _single(field: str) -> Callable[[Parameters, Content], Items]:
    def find(parameters: Parameters, content: Content) -> Items:
        table = table_name(parameters.get("TableName"))
        if content.get(field):
            yield FoundItem(table, _object(content[field]))
        yield from _metrics(table, content.get("ItemCollectionMetrics"))

    return find


def _metrics(table: str, metrics: object) -> Items:
    """Yield the partition key that metrics repeat."""
    if isinstance(metrics, dict) and "ItemCollectionKey" in metrics:
        yield FoundItem(table, _object(metrics["ItemCollectionKey"]))


def _metrics_of_tables(parameters: Parameters, content: Content) -> Items:
    metrics = content.get("ItemCollectionMetrics")
    for table, several in metrics.items() if isinstance(metrics, dict) else ():
        for each in _list(several):
            yield from _metrics(table_name(table), each)


def _find_listed(parameters: Parameters, content: Content) -> Items:
    table = table_name(parameters.get("TableName"))
    for item in _list(content.get("Items")):
        yield FoundItem(table, _object(item))


def _by_table(parameters: Parameters, content: Content) -> Items:
    for table, items in _object(content.get("Responses") or {}).items():
        for item in _list(items):
            yield FoundItem(table_name(table), _object(item))


def _by_action(parameters: Parameters, content: Content) -> Items:
    tables = _tables_of_actions("TransactGetItems", parameters)
    for index, response in enumerate(_list(content.get("Responses"))):
        item = _object(response or {}).get("Item")
        if item:
            yield FoundItem(_at(tables, index), _object(item))


def _vectors(parameters: Parameters, content: Content) -> Items:
    table = table_name(parameters.get("TableName"))
    for result in _list(content.get("SearchResults")):
        item = _object(result).get("Item")
        if item:
            yield FoundItem(table, _object(item))


def _find_selected(parameters: Parameters, content: Content) -> Items:
    statement = _read(parameters)
    for item in _list(content.get("Items")):
        yield _of_statement(statement, _object(item))


def _by_statement(name: str) -> Callable[[Parameters, Content], Items]:
    def find(parameters: Parameters, content: Content) -> Items:
        statements = _list(parameters.get(name))
        for index, response in enumerate(_list(content.get("Responses"))):
            each = _object(response or {})
            statement = _read(statements[index]) if index < len(statements) else None
            if each.get("Item"):
                yield _of_statement(statement, _object(each["Item"]))
            error = each.get("Error")
            if isinstance(error, dict) and error.get("Item"):
                yield FoundItem(_table_of(statement), _object(error["Item"]))

    return find


def _records(parameters: Parameters, content: Content) -> Items:
    table = table_of_iterator(parameters.get("ShardIterator"))
    for record in _list(content.get("Records")):
        change = _object(_object(record).get("dynamodb") or {})
        for field in ("Keys", "NewImage", "OldImage"):
            if change.get(field):
                yield FoundItem(table, _object(change[field]))


_PLACES: Final[Mapping[str, Callable[[Parameters, Content], Items]]] = {
    "BatchExecuteStatement": _by_statement("Statements"),
    "BatchGetItem": _by_table,
    "BatchWriteItem": _metrics_of_tables,
    "DeleteItem": _single("Attributes"),
    "ExecuteStatement": _find_selected,
    "ExecuteTransaction": _by_statement("TransactStatements"),
    "GetItem": _single("Item"),
    "GetRecords": _records,
    "PutItem": _single("Attributes"),
    "Query": _find_listed,
    "Scan": _find_listed,
    "SearchVectors": _vectors,
    "TransactGetItems": _by_action,
    "TransactWriteItems": _metrics_of_tables,
    "UpdateItem": _single("Attributes"),
}


# Tables of requests


def _read(content: object) -> PartiqlStatement | None:
    try:
        return read_partiql(content.get("Statement") if isinstance(content, Mapping) else None)
    except UnreadableStatement:
        return None


def _table_of(statement: PartiqlStatement | None) -> str:
    return table_name(statement.tables[0].table) if statement is not None else ""


def _of_statement(statement: PartiqlStatement | None, item: Content) -> FoundItem:
    """Return an item of a PartiQL statement. A projection `a.b` is the attribute `b` in answers. A computed value has
    no origin."""
    if statement is None or statement.computes:
        return FoundItem("", item)
    paths = {path[-1]: ".".join(path) for path in statement.paths or () if len(path) > 1}
    ambiguous = len({path[-1] for path in statement.paths or ()}) < len(statement.paths or ())
    return FoundItem("" if ambiguous else _table_of(statement), item, paths or None)


def table_of_page(name: str, parameters: Parameters) -> str:
    """Return the table that a query, a scan or a statement reads."""
    return _table_of(_read(parameters)) if name == "ExecuteStatement" else table_name(parameters.get("TableName"))


def _only_table(name: str, parameters: Parameters) -> str:
    return table_of_page(name, parameters)


def _tables_of_actions(name: str, parameters: Parameters) -> list[str]:
    """Return the table of each action of a transaction."""
    if name == "ExecuteTransaction":
        return [_table_of(_read(each)) for each in _list(parameters.get("TransactStatements"))]
    tables: list[str] = []
    for item in _list(parameters.get("TransactItems")):
        contents = [each for each in item.values() if isinstance(each, Mapping)] if isinstance(item, Mapping) else []
        tables.append(table_name(contents[0].get("TableName")) if len(contents) == 1 else "")
    return tables


def _at(tables: Sequence[str], index: int) -> str:
    return tables[index] if index < len(tables) else ""


def _object(value: object) -> Content:
    if not isinstance(value, dict):
        raise ValueError("the response is not as DynamoDB writes it")
    return value


def _list(value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("the response is not as DynamoDB writes it")
    return value
