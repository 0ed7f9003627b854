"""Origins of the columns of a session's answers. A log group is a table with the columns of an event.

    message, timestamp, ingestionTime, logStreamName, log
    message.user.email    a field of a message that is JSON

A column of an answer that names its log group itself (live tail, GetLogRecord) has it in `Column.origin`. Queries are
read by `insights_query`. Answers of other operations have no logged data: their columns come from nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService, ObjectNeed, find_operation
from postern.protocols.cloudwatch.dialect.cloudwatch_parser import OTHER_LANGUAGES
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_text import (
    CloudwatchStatement,
    UnreadableCloudwatchRequest,
    read_statement,
)
from postern.protocols.cloudwatch.dialect.insights_query import InsightsQuery, read_insights_query
from postern.protocols.cloudwatch.dialect.log_group_names import group_name, groups_of

MAX_TEXT: Final = 256 * 1024  # characters; longer texts are not read
_MAX_CACHED: Final = 256
_SCHEMA: Final = CloudwatchService.LOGS.value
_NO_TAGS: Final[frozenset[str]] = frozenset()
_NOTHING: Final = Origin()

MESSAGE: Final = "message"
SYSTEM_FIELDS: Final = {
    "@message": MESSAGE,
    "@timestamp": "timestamp",
    "@ingestionTime": "ingestionTime",
    "@logStream": "logStreamName",
    "@log": "log",
}
_EVENT_COLUMNS: Final = frozenset(SYSTEM_FIELDS.values())
# Answers whose columns are those of events of the groups that the request names.
_OF_EVENTS: Final = frozenset({"FilterLogEvents", "GetLogEvents", "StartLiveTail", "GetLogRecord", "GetLogObject"})
_OWN: Final = frozenset({"TestMetricFilter", "TestTransformer"})  # answers made of the request


class CloudwatchSessionLineage:
    """See `SessionOrigins`. Never raises. Nothing that a session does changes what a name means to it."""

    def __init__(self, schema: Callable[[], TargetSchema | None]) -> None:
        self._schema = schema
        self._read: OrderedDict[str, CloudwatchStatement | None] = OrderedDict()

    def record_gap(self) -> None:
        """Record that requests were forwarded unseen, which changes nothing."""

    def record_statement(self, statement: str) -> None:
        """Record a request before it is forwarded, which changes nothing."""

    def unread(self, statement: str) -> UnreadText | None:
        """Return None: a request is read at once. Long ones are not read at all."""
        return None

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column; None if the request cannot be read."""
        request = self._request(statement)
        if request is None or not columns:
            return None
        try:
            return tuple([self._origin(request, column) for column in columns])
        except RecursionError:
            return None

    def tags(self, column: ColumnRef) -> frozenset[str]:
        known = self._schema()
        relation = None if known is None else known.relations.get((column.schema, column.table))
        if relation is None:
            return _NO_TAGS
        return relation.tags | relation.column_tags.get(column.column, _NO_TAGS)

    def _request(self, statement: str) -> CloudwatchStatement | None:
        if len(statement) > MAX_TEXT:
            return None
        if statement in self._read:
            self._read.move_to_end(statement)
            return self._read[statement]
        try:
            request = read_statement(statement)
        except UnreadableCloudwatchRequest:
            request = None
        self._read[statement] = request
        if len(self._read) > _MAX_CACHED:
            self._read.popitem(last=False)
        return request

    def _origin(self, request: CloudwatchStatement, column: Column) -> Origin | None:
        operation = find_operation(request.name)
        if operation is None:
            return None
        if column.origin is not None:
            return _make_plain_origin((group_name(column.origin[1]),), (column.origin[2],))
        if request.name in _OF_EVENTS:
            groups = groups_of(request.parameters)
            return _make_plain_origin(groups, (column.name,)) if groups else None
        if request.name == "GetQueryResults":
            return _of_query(request.started_by, column.name)
        return None if operation.need is ObjectNeed.LOGGED and request.name not in _OWN else _NOTHING


def _make_plain_origin(groups: Sequence[str], names: Sequence[str]) -> Origin:
    """Return the origin of a column that passes on one of these columns of one of these groups."""
    refs = [ColumnRef(_SCHEMA, group, name) for group in groups for name in names]
    return Origin(frozenset(refs), frozenset(frozenset({ref}) for ref in refs))


def _of_query(started: CloudwatchStatement | None, column: str) -> Origin | None:
    if started is None or str(started.parameters.get("queryLanguage", "")).upper() in OTHER_LANGUAGES:
        return None
    text = started.parameters.get("queryString")
    groups = groups_of(started.parameters)
    if not isinstance(text, str) or not groups:
        return None
    query = read_insights_query(text)
    if query.names_groups:
        return None
    return _of_field(query, groups, column)


def _of_field(query: InsightsQuery, groups: Sequence[str], column: str) -> Origin | None:
    """Return the origin of a column of a result, which has no `@` in front of the names of system fields. So
    `message.user` is a part of `@message`, or of a field `message` if the query names one."""
    first, _, rest = column.partition(".")
    readings: list[Origin | None] = []
    for field, name in SYSTEM_FIELDS.items():
        if name == first:
            readings.append(_of_reading(query, groups, field, rest))
    if not readings or first in query.aliases or first in query.names:
        readings.append(_of_reading(query, groups, column, ""))
    merged: Origin | None = None
    for reading in readings:
        if reading is None:
            return None
        merged = reading if merged is None else _either(merged, reading)
    return merged


def _of_reading(query: InsightsQuery, groups: Sequence[str], field: str, inner: str) -> Origin | None:
    found = query.fields_of(field)
    if found is None:
        return None
    fields, is_plain = found
    if is_plain:
        (stored,) = fields
        name = column_of(stored)
        return _make_plain_origin(groups, (f"{name}.{inner}" if inner else name,))
    names = {name for each in fields for name in _computed_from(each)}
    return Origin(frozenset(ColumnRef(_SCHEMA, group, name) for group in groups for name in names))


def _either(origin: Origin, other: Origin) -> Origin:
    plain = origin.plain | other.plain if origin.plain and other.plain else frozenset()
    return Origin(origin.refs | other.refs, plain)


def column_of(field: str) -> str:
    """Return the column of a log group for a field of Insights: fields that it discovers are parts of messages."""
    return SYSTEM_FIELDS.get(field, f"{MESSAGE}.{field}")


def _computed_from(field: str) -> tuple[str, ...]:
    """Return the columns that a value computed from a field can show."""
    name = column_of(field)
    return (name,) if name in _EVENT_COLUMNS and name != MESSAGE else (name, f"{name}.*")
