"""Which values of an answer are inspected, and what their columns are called.

Events have the columns of their log group (`cloudwatch_lineage`). All other texts are in columns that are called by
their path, without those that clients send back: tokens, names, identifiers. Those of operations that are not known,
or that return logged data, are inspected except for tokens.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any, Final

from postern.protocols.cloudwatch.dialect.cloudwatch_lineage import MESSAGE, SYSTEM_FIELDS
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService, ObjectNeed, find_operation
from postern.protocols.cloudwatch.wire.answer_rows import PLAIN_KEY, LeafCollector, Origin
from postern.protocols.cloudwatch.wire.answer_tables import find_table
from postern.protocols.cloudwatch.wire.cloudwatch_codecs import MAX_DEPTH, Tree

_SCHEMA: Final = CloudwatchService.LOGS.value
POINTER: Final = "@ptr"

# Clients send these back.
_TOKENS: Final = frozenset(
    {
        *("nextToken", "NextToken", "nextForwardToken", "nextBackwardToken", "queryId", "eventId", "encryptionKey"),
        *("uploadSequenceToken", "nextSequenceToken", "requestId", "sessionId", "anomalyId", "patternId"),
        *("status", "Status", "StatusCode", "queryLanguage", "MetricWidgetImage"),
    }
)
# Their keys are chosen by users, and say nothing about what the values are.
_USER_MAPS: Final = frozenset(
    {
        *("tags", "Tags", "extractedValues", "dimensions", "ContributorAttributes", "AlarmContributorAttributes"),
        *("KeyAttributes", "Attributes", "keyAttributes", "attributes", "deliverySourceConfiguration"),
    }
)
_IDENTIFIER: Final = re.compile(
    r"(?:.*(?:ARN|Arn|Name|Id|Token|Identifier|Namespace|Type|State|Status|Code|Unit|Format|Class)|arn|name|id|type"
    r"|state|code)(?:s|es|List)?"
)
_OPAQUE: Final = frozenset({"timestamp", "ingestionTime", "logStreamName", "eventNumber", "log"})


def collect_leaves(operation: str, tree: Tree, collector: LeafCollector) -> None:
    """Collect the values of a successful answer. Raises ValueError if it is not what the operation returns."""
    collect = _PLACES.get(operation)
    if collect is None:
        _Rest(operation, collector).collect(tree)
        return
    rest = collect(tree, collector)
    _Rest(operation, collector).collect({key: value for key, value in tree.items() if key != rest})


def collect_texts(operation: str, paths: Sequence[tuple[str, ...]], texts: list[str], collector: LeafCollector) -> None:
    """Collect the texts of an XML answer. The outer two of its elements are called by the operation."""
    rest = _Rest(operation, collector)
    for number, path in enumerate(paths):
        names = [name for name in path if name not in (f"{operation}Response", f"{operation}Result")]
        if (
            names
            and "ResponseMetadata" not in names
            and not rest.is_skipped(names[-1])
            and not _is_number(texts[number])
        ):
            collector.add(texts, number, ".".join(names), 0)


def _is_number(text: str) -> bool:
    """Return whether a text is a statistic or a time, as in the other codecs."""
    return _NUMBER.fullmatch(text.strip()) is not None


_NUMBER: Final = re.compile(
    r"-?[0-9]{1,30}\.[0-9]{1,30}(?:E-?[0-9]{1,4})?|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,20}(?:Z|\+00:00)|true|false"
)


def collect_tail(kind: str, tree: Tree, collector: LeafCollector) -> None:
    """Collect the values of one event of a stream."""
    if kind == "sessionUpdate":
        for row, event in enumerate(_objects(tree, "sessionResults")):
            group = event.get("logGroupIdentifier")
            _add_event(event, row, collector, group if isinstance(group, str) else "")
        tree = {key: value for key, value in tree.items() if key != "sessionResults"}
    _Rest("StartLiveTail", collector).collect(tree)


def collect_object(tree: Tree, collector: LeafCollector) -> str:
    """Collect the content of a large log object, which is in base64. Return the key that must be encoded again."""
    data = tree.get("data")
    if not isinstance(data, str):
        raise ValueError("the stream of a log object has no data")
    text = base64.b64decode(data, validate=True).decode()
    tree["data"] = text
    collector.add(tree, "data", MESSAGE, 0)
    return "data"


def _events(tree: Tree, collector: LeafCollector) -> str:
    for row, event in enumerate(_objects(tree, "events")):
        _add_event(event, row, collector, "")
    return "events"


def _add_event(event: dict[str, Any], row: int, collector: LeafCollector, group: str) -> None:
    for key in event:
        if key in _TOKENS or key == "logGroupIdentifier":
            continue
        origin = (_SCHEMA, group, key) if group else None
        collector.add(event, key, key, row, origin=origin, is_opaque=key in _OPAQUE)


def _results(tree: Tree, collector: LeafCollector) -> str:
    results = tree.get("results")
    for row, cells in enumerate(results if isinstance(results, list) else ()):
        if not isinstance(cells, list):
            raise ValueError("a row of the results is not a list")
        for cell in cells:
            _add_cell(cell, row, collector)
    return "results"


def _add_cell(cell: object, row: int, collector: LeafCollector) -> None:
    if not isinstance(cell, dict) or not isinstance(cell.get("field", ""), str):
        raise ValueError("a cell of the results is not a field with a value")
    field = cell.get("field", "")
    for key in cell:
        if key == "field":
            if PLAIN_KEY.fullmatch(field) is None:  # the name of a field can be data
                collector.add(cell, key, key, row)
        elif field != POINTER or key != "value":
            name = SYSTEM_FIELDS.get(field, field) or key
            collector.add(cell, key, name, row, is_opaque=name in _OPAQUE and field.startswith("@"))


def _record(tree: Tree, collector: LeafCollector) -> str:
    record = tree.get("logRecord")
    if not isinstance(record, dict):
        return "logRecord"
    log = record.get("@log")
    for key in record:
        if key == POINTER:
            continue
        name = SYSTEM_FIELDS.get(key, f"{MESSAGE}.{key}")
        origin: Origin | None = (_SCHEMA, log, name) if isinstance(log, str) and log else None
        collector.add(record, key, name, 0, origin=origin, is_opaque=name in _OPAQUE)
    return "logRecord"


_PLACES: Final = {
    "FilterLogEvents": _events,
    "GetLogEvents": _events,
    "GetQueryResults": _results,
    "GetLogRecord": _record,
}


def _objects(tree: Tree, key: str) -> list[dict[str, Any]]:
    values = tree.get(key)
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ValueError(f"{key} is not a list of objects")
    return values


class _Rest:
    """Collects texts by their paths. Numbers are statistics, sizes and times, and are not inspected."""

    def __init__(self, operation: str, collector: LeafCollector) -> None:
        self._collector = collector
        listed = find_operation(operation)
        self._is_metadata = listed is not None and listed.need is not ObjectNeed.LOGGED
        self._row = 0

    def collect(self, tree: Tree) -> None:
        """Collect the texts. Those of the answer's table are in its rows, all others in the first one."""
        table = find_table(tree)
        for key in tree:
            if key != table:
                self._value(tree, key, key, key, 0)
        for row, item in enumerate(tree[table] if table else ()):
            self._row = row
            self._object(item, table, 1)

    def _object(self, tree: dict[str, Any], path: str, depth: int) -> None:
        for key in tree:
            self._value(tree, key, key, f"{path}.{key}" if path else key, depth)

    def _value(self, holder: Any, key: Any, name: str, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError("the answer is nested too deeply")
        value = holder[key]
        if isinstance(value, dict) and name in _USER_MAPS:
            for user_key, inner in value.items():
                if isinstance(inner, str):
                    self._collector.add(value, user_key, f"{path}.{user_key}", self._row)
                else:
                    self._value(value, user_key, user_key, f"{path}.{user_key}", depth + 1)
        elif isinstance(value, dict):
            self._object(value, path, depth + 1)
        elif isinstance(value, list):
            for number in range(len(value)):
                self._value(value, number, name, path, depth + 1)
        elif isinstance(value, str) and not self.is_skipped(name):
            self._collector.add(holder, key, path, self._row)

    def is_skipped(self, name: str) -> bool:
        return name in _TOKENS or (self._is_metadata and _IDENTIFIER.fullmatch(name) is not None)
