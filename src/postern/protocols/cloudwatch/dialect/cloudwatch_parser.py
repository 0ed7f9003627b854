"""The parser of requests: what each would do.

A text is an operation with its parameters (`cloudwatch_statement_text`). Operations that are not listed are of unknown
effect. A query names its log groups in parameters, or in its own text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectName, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import ObjectNeed, find_operation
from postern.protocols.cloudwatch.dialect.cloudwatch_statement_text import (
    CloudwatchStatement,
    UnreadableCloudwatchRequest,
    read_statement,
)
from postern.protocols.cloudwatch.dialect.insights_query import read_insights_query
from postern.protocols.cloudwatch.dialect.log_group_names import (
    group_object,
    groups_of,
    metrics_object,
    objects_of,
    texts_of,
)

UNKNOWN_GROUP: Final = "the request does not say which log groups its answer is from"
UNKNOWN_QUERY: Final = "the gateway has not seen the request that started this query, so its log groups are unknown"
_QUERY_GROUPS: Final = "the query itself names the log groups that it reads"
_METRIC_SEARCH: Final = "the metrics that an expression finds are unknown"

OTHER_LANGUAGES: Final = frozenset({"SQL", "PPL"})
_NAMED_IN_QUERY: Final = re.compile(r"`([^`]+)`|\"([^\"]+)\"")
_SEARCH: Final = re.compile(r"\b(?:SEARCH|SELECT)\b", re.IGNORECASE)
_SEARCHED: Final = re.compile(r"SEARCH\s*\(\s*['\"]\s*\{\s*\"?([^,}\"]+)", re.IGNORECASE)
_SELECTED: Final = re.compile(r"\bFROM\s+(?:SCHEMA\s*\(\s*)?\"([^\"]+)\"", re.IGNORECASE)
_LAMBDA: Final = re.compile(r"\bLAMBDA\s*\(", re.IGNORECASE)


class CloudwatchParser(Shared):
    """The port `Parser`."""

    dialect = "cloudwatch"
    shapes = None

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        if not text.strip():
            return ()
        return self._cache.of(text, schema, _judge_text)


def _judge_text(text: str, schema: TargetSchema | None) -> tuple[Statement, ...]:
    try:
        request = read_statement(text)
    except UnreadableCloudwatchRequest as error:
        return (unknown(str(error)),)
    try:
        return (_Draft(request).judge(),)
    except RecursionError:
        return (unknown("it is nested too deeply", request.name),)


@dataclass
class _Draft:
    """A statement that is being built."""

    request: CloudwatchStatement
    effects: set[Effect] = field(default_factory=set)
    objects: set[ObjectName] = field(default_factory=set)
    scans: set[ObjectName] = field(default_factory=set)
    reason: str = ""
    untraced: str = ""

    def judge(self) -> Statement:
        request = self.request
        self.objects |= objects_of(request.parameters)
        operation = find_operation(request.name)
        if operation is None:
            self.add_unknown(f"the operation {request.name} is not known")
            self.objects.add(EVERYTHING)
            return self.finish()
        self.effects |= operation.effects
        self._judge_queries(request)
        self._judge_expressions(request.parameters)
        if request.started_by is not None:
            self.objects |= objects_of(request.started_by.parameters)
            self._judge_queries(request.started_by)
        elif "queryId" in request.parameters:
            self.add_everything(UNKNOWN_QUERY)
            if request.name == "StopQuery":
                self.effects.add(Effect.ADMIN)  # it can be another user's
        elif operation.need is ObjectNeed.LOGGED and not self.objects:
            self.add_everything(UNKNOWN_GROUP)
        if request.name in _ON_EVERY_GROUP:
            self.add_everything("it is about all log groups")
        if reads_everything(request):
            self.scans |= {group_object(name) for name in groups_of(request.parameters)}
        return self.finish()

    def add_unknown(self, reason: str) -> None:
        self.effects.add(Effect.UNKNOWN)
        self.reason = self.reason or reason

    def add_everything(self, untraced: str) -> None:
        self.objects.add(EVERYTHING)
        self.untraced = self.untraced or untraced

    def _judge_queries(self, request: CloudwatchStatement) -> None:
        """Add the log groups that queries of Insights name themselves."""
        is_other = str(request.parameters.get("queryLanguage", "")).upper() in OTHER_LANGUAGES
        for key, text in texts_of(request.parameters):
            if key != "querystring":
                continue
            if is_other:
                names = [first or second for first, second in _NAMED_IN_QUERY.findall(text)]
                self.objects |= {group_object(name) for name in names}
                self.add_everything(_QUERY_GROUPS)
                continue
            query = read_insights_query(text)
            if query.names_groups:
                self.objects |= {group_object(name) for name in query.groups}
                self.add_everything(_QUERY_GROUPS)
            elif not query.is_understood:  # a command that is not known can read further groups
                self.add_everything(_QUERY_GROUPS)

    def _judge_expressions(self, parameters: Mapping[str, Any]) -> None:
        """Add the namespaces that expressions search for metrics in."""
        for key, text in texts_of(parameters):
            if key != "expression":
                continue
            if _LAMBDA.search(text):
                self.add_unknown("an expression calls a function of Lambda, which can do anything")
            found = [*_SEARCHED.findall(text), *_SELECTED.findall(text)]
            self.objects |= {metrics_object(name.strip()) for name in found}
            if len(found) < len(_SEARCH.findall(text)):
                self.add_everything(_METRIC_SEARCH)

    def finish(self) -> Statement:
        return Statement(
            self.request.name,
            frozenset(self.effects),
            frozenset(self.objects),
            reason=self.reason,
            scans=frozenset(self.scans),
            untraced=self.untraced,
        )


_ON_EVERY_GROUP: Final = frozenset({"PutAccountPolicy", "DeleteAccountPolicy", "PutStorageTierPolicy"})


def reads_everything(request: CloudwatchStatement) -> bool:
    """Return whether nothing limits the events of a log group that can be in an answer.

    A pattern, streams, the beginning of a time range, and a maximum number limit them. A request that continues another
    one has no maximum: with it, a client reads a log group page by page. Queries always have a time range and a maximum
    number, and GetLogEvents is about one stream.
    """
    parameters = request.parameters
    if request.name == "FilterLogEvents":
        has_limit = _is_positive(parameters.get("limit")) and not parameters.get("nextToken")
        return not (
            has_limit
            or _is_text(parameters.get("filterPattern"))
            or parameters.get("logStreamNames")
            or _is_text(parameters.get("logStreamNamePrefix"))
            or _is_positive(parameters.get("startTime"))
        )
    if request.name == "StartLiveTail":
        return not (
            _is_text(parameters.get("logEventFilterPattern"))
            or parameters.get("logStreamNames")
            or parameters.get("logStreamNamePrefixes")
        )
    if request.name == "CreateExportTask":
        return not (_is_positive(parameters.get("from")) or _is_text(parameters.get("logStreamNamePrefix")))
    return False


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip(' \t"'))
