"""Catalogue queries of CloudWatch. The schema `logs` has the log groups as tables, and the fields of events as columns;
the schema `metrics` has the namespaces, and their metrics as columns.

The answer contains what the connection's own identity can see. CloudWatch discovers the fields of messages that are
JSON from recent events.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.catalogue_questions import COLUMN, CURRENT, DATABASE, TABLE, catalogue_questions
from postern.protocols.cloudwatch.dialect.cloudwatch_lineage import SYSTEM_FIELDS, column_of
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService
from postern.protocols.cloudwatch.queries.cloudwatch_query import (
    Answer,
    Ask,
    Steps,
    query_in_steps,
    read_pages,
)
from postern.protocols.gateway_queries import Catalogue, Query, Row, TargetRefused

MAX_GROUPS: Final = 5000
MAX_METRICS: Final = 10_000
MAX_SAMPLED: Final = 50  # log groups of a whole schema whose fields are read
_LOGS: Final = CloudwatchService.LOGS
_METRICS: Final = CloudwatchService.METRICS
_KINDS: Final = {"g": "log group", "n": "namespace"}
# The columns that every event has, with their types.
_EVENT_COLUMNS: Final = {
    "message": "text",
    "timestamp": "number",
    "ingestionTime": "number",
    "logStreamName": "text",
}

_Values = Sequence[str | None]


def _test(rows: list[Row], values: _Values) -> Steps:
    """Ask for one log group, and for metrics if that is not allowed: an identity can have one of both."""
    first = yield Ask(_LOGS, "DescribeLogGroups", {"limit": 1})
    if isinstance(first, TargetRefused):
        second = yield Ask(_METRICS, "ListMetrics", {"Namespace": "AWS/Logs"})
        if first.refuses_login or isinstance(second, TargetRefused):
            raise first
    rows.append(("1",))


def _databases(rows: list[Row], values: _Values) -> Steps:
    """List the two services, once one of them has answered."""
    yield from _test([], values)
    rows += [(service.value,) for service in CloudwatchService]


def _groups() -> Generator[Ask, Answer, list[str]]:
    found = yield from read_pages(Ask(_LOGS, "DescribeLogGroups", {"limit": 50}), "logGroups", MAX_GROUPS)
    return [group["logGroupName"] for group in found if isinstance(group.get("logGroupName"), str)]


def _metrics(namespace: str = "") -> Generator[Ask, Answer, dict[str, list[str]]]:
    """Return the names of metrics by namespace, each once."""
    asked = {"Namespace": namespace} if namespace else {}
    found = yield from read_pages(Ask(_METRICS, "ListMetrics", asked), "Metrics", MAX_METRICS)
    named: dict[str, dict[str, None]] = {}
    for metric in found:
        if isinstance(metric.get("Namespace"), str) and isinstance(metric.get("MetricName"), str):
            named.setdefault(metric["Namespace"], {})[metric["MetricName"]] = None
    return {place: list(names) for place, names in sorted(named.items())}


def _fields(group: str) -> Generator[Ask, Answer, dict[str, tuple[str, bool]]]:
    """Return the columns of a log group with their types, and whether they can be missing. Raises TargetRefused."""
    columns = {name: (kind, False) for name, kind in _EVENT_COLUMNS.items()}
    answer = yield Ask(_LOGS, "GetLogGroupFields", {"logGroupName": group})
    if isinstance(answer, TargetRefused):
        raise answer
    fields = answer.get("logGroupFields")
    for field in fields if isinstance(fields, list) else ():
        name = field.get("name") if isinstance(field, dict) else None
        if isinstance(name, str) and name not in SYSTEM_FIELDS and name != "@ptr":
            columns[column_of(name)] = ("text", field.get("percent") != 100)
    return columns


def _tables(rows: list[Row], values: _Values) -> Steps:
    schema = values[0] or values[1]
    refused: list[TargetRefused] = []
    if schema and schema not in list(CloudwatchService):
        yield from _test([], values)  # there is no such schema, unless the target cannot be reached
    if schema in (None, "", _LOGS.value):
        try:
            rows += [(_LOGS.value, name) for name in (yield from _groups())]
        except TargetRefused as error:
            refused.append(error)
    if schema in (None, "", _METRICS.value):
        try:
            rows += [(_METRICS.value, name) for name in (yield from _metrics())]
        except TargetRefused as error:
            refused.append(error)
    if refused and not rows:
        raise refused[0]


def _columns(rows: list[Row], values: _Values) -> Steps:
    table, schema, default = values
    wanted = schema or default
    if not table:
        yield from _test([], values)
        return
    if wanted != _METRICS.value:
        try:
            fields = yield from _fields(table)
            rows += [(name, kind, "YES" if can_be_missing else "NO") for name, (kind, can_be_missing) in fields.items()]
            return
        except TargetRefused:
            if wanted == _LOGS.value:
                raise
    metrics = yield from _metrics(table)
    rows += [(name, "metric", "NO") for name in metrics.get(table, ())]


def _schema(rows: list[Row], values: _Values) -> Steps:
    """`shape_schema` explains the parts. What the identity cannot see is left out."""
    rows.append((CURRENT, _LOGS.value, None, None, None, None, "0"))
    rows += [(DATABASE, service.value, None, None, None, None, "0") for service in CloudwatchService]
    groups: list[str] = []
    metrics: dict[str, list[str]] = {}
    try:
        groups = yield from _groups()
    except TargetRefused as error:
        refused: TargetRefused | None = error
    else:
        refused = None
    try:
        metrics = yield from _metrics()
    except TargetRefused:
        if refused is not None:
            raise refused from None
    rows += [(TABLE, _LOGS.value, name, "g", None, None, "0") for name in groups]
    rows += [(TABLE, _METRICS.value, name, "n", None, None, "0") for name in metrics]
    for name in groups[:MAX_SAMPLED]:
        try:
            fields = yield from _fields(name)
        except TargetRefused:  # it cannot be read, or has been deleted
            continue
        rows += [
            (COLUMN, _LOGS.value, name, column, kind, "YES" if can_be_missing else "NO", str(number))
            for number, (column, (kind, can_be_missing)) in enumerate(fields.items(), 1)
        ]
    for name, names in metrics.items():
        rows += [
            (COLUMN, _METRICS.value, name, metric, "metric", "NO", str(number))
            for number, metric in enumerate(names, 1)
        ]


def _relations(rows: list[Row], values: _Values) -> Steps:
    rows += [(name,) for name in (yield from _groups())]


_RELATIONS: Final = "relations"
_STEPS: Mapping[str, tuple[Callable[[list[Row], _Values], Steps], int]] = {
    "test": (_test, 0),
    "databases": (_databases, 0),
    "tables": (_tables, 2),
    "columns": (_columns, 3),
    "schema": (_schema, 1),
    _RELATIONS: (_relations, 0),
}
"""The reader of each statement, and the number of its values."""


def catalogue_query(statement: str, values: _Values) -> Query:
    """Return the query of a statement, which is the name of its steps. Raises ProtocolViolation."""
    steps, count = _STEPS[statement]
    if len(values) != count:
        raise ProtocolViolation(f"a query has {count} placeholders for {len(values)} values")
    rows: list[Row] = []
    return query_in_steps(steps(rows, values), rows)


def target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Return the log groups as relations. Raises ProtocolViolation."""
    if len(answers) != 1:
        raise ProtocolViolation(f"the catalogue has 1 answer, and not {len(answers)}")
    names = [name for (name,) in answers[0] if name is not None]
    columns = tuple(_EVENT_COLUMNS)
    return TargetSchema({(_LOGS.value, name): Relation(_LOGS.value, name, columns) for name in names})


_QUESTIONS: Final = catalogue_questions(
    test="test",
    databases="databases",
    tables="tables",
    columns="columns",
    schema="schema",
    kinds=_KINDS,
    values_of_tables=("schema", "database"),
    values_of_columns=("table", "schema", "database"),
    values_of_schema=("database",),
    missing="there is no such log group or namespace, or the connection's identity is not allowed to read it; "
    "specify logs or metrics as the schema",
)

CATALOGUE = Catalogue(catalogue_query, _QUESTIONS, (_RELATIONS,), target_schema)
