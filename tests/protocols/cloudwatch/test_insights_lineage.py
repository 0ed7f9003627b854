"""Origins of the columns of answers."""

from __future__ import annotations

import json

import pytest

from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.cloudwatch.dialect.cloudwatch_lineage import CloudwatchSessionLineage

_LINEAGE = CloudwatchSessionLineage(lambda: None)


def _results(query: str, *, language: str = "CWLI", groups: tuple[str, ...] = ("g",)) -> str:
    started = {"queryLanguage": language, "logGroupNames": groups, "queryString": query}
    return f'GetQueryResults {{"queryId": "q"}} of StartQuery {json.dumps(started)}'


def _of(text: str, column: str) -> str | None:
    """`plain a` or `computed a b`, with the names of columns; None if unknown."""
    origins = _LINEAGE.of(text, (Column(column, TextKind.TEXT),))
    origin = None if origins is None else origins[0]
    if origin is None:
        return None
    kind = "plain" if origin.plain else "computed"
    return " ".join([kind, *sorted(ref.column for ref in origin.refs)])


@pytest.mark.parametrize(
    ("query", "column", "origin"),
    [
        ("fields @timestamp, @message | sort @timestamp desc | limit 20", "message", "plain message"),
        ("fields @message", "message.user.email", "plain message.user.email"),
        ("fields @timestamp", "timestamp", "plain timestamp"),
        ("fields user.email", "user.email", "plain message.user.email"),
        ("fields `user-agent`", "user-agent", "plain message.user-agent"),
        ("fields requestParameters", "requestParameters.bucket", "plain message.requestParameters.bucket"),
        ("display @requestId", "@requestId", "plain message.@requestId"),
        ("fields message", "message", "plain message message.message"),
        ("fields strlen(@message) as n", "n", "computed message message.*"),
        ("fields strlen(@message)", "strlen(@message)", "computed message message.*"),
        ("fields strlen( @message )", "strlen(@message)", "computed message message.*"),
        ("fields user as x | fields x as y", "y", "computed message.user message.user.*"),
        ("fields user as x", "x.inner", "computed message.user message.user.*"),
        ("fields trim(user) as user", "user", "computed message.user message.user.*"),
        ("fields user as @message", "message", "computed message.user message.user.*"),
        ("fields user as message", "message", "computed message message.user message.user.*"),
        ('parse @message "user=* ip=*" as user, ip', "ip", "computed message message.*"),
        ("parse @message /user=(?<who>\\S+)|x/ | display who", "who", "computed message message.*"),
        ('parse "a=*" as a', "a", "computed message message.*"),
        ("stats count(*) as n by user", "n", "computed"),
        ("stats count(*) by user", "count(*)", "computed"),
        ("stats count(*) by bin(5m)", "bin(5m)", "computed timestamp"),
        ("stats max(salary) as m, count(*) by user", "m", "computed message.salary message.salary.*"),
        ("stats max(salary) by user", "user", "plain message.user"),
        ("stats max(salary) by user", "max(salary)", "computed message.salary message.salary.*"),
        ("stats count(salary > 1) as n", "n", "computed message.salary message.salary.*"),
        ("filter @message like /a|b/ | fields @message", "message", "plain message"),
        ("filter a = 'x | fields user as @message' | fields @message", "message", "plain message"),
        ("fields @message # | fields user as @message\n", "message", "plain message"),
        ("pattern @message", "@pattern", "computed message message.*"),
        # Attempts to show a stored field under a name that no rule has.
        ("fields @message as x", "x", "computed message message.*"),
        ("FIELDS @message AS x", "x", "computed message message.*"),
        ("fields `@message` as `a b`", "a b", "computed message message.*"),
        ("fields @message as x | fields x as y | display y", "y", "computed message message.*"),
        ("fields unmask(@message)", "unmask(@message)", "computed message message.*"),
        ("fields strcontains(@message, 'ann') as hit", "hit", "computed message message.*"),
        ("fields concat(@message, '') as x", "x", "computed message message.*"),
        ("fields replace(user.email, '@', '(at)') as x", "x", "computed message.user.email message.user.email.*"),
        ("fields jsonParse(@message) as j", "j.user.email", "computed message message.*"),
        ("fields if(user.email like /a/, 1, 0) as bit", "bit", "computed message.user.email message.user.email.*"),
        ("fields user.email > 'm' as bit", "bit", "computed message.user.email message.user.email.*"),
        ("fields substr(@message, 0, 1)", "substr(@message,0,1)", "computed message message.*"),
        ("parse @message '*' as x", "x", "computed message message.*"),
        ("parse user.email /(?<x>.*)/", "x", "computed message.user.email message.user.email.*"),
        ("parse @message /(?<a>x)|(?<b>y)/ | fields b as c", "c", "computed message message.*"),
        ("stats latest(@message) as x", "x", "computed message message.*"),
        ("stats values(user.email) as x", "x", "computed message.user.email message.user.email.*"),
        ("stats count_distinct(user.email) as n", "n", "computed message.user.email message.user.email.*"),
        ("stats count(*) by user.email as who", "who", "computed message.user.email message.user.email.*"),
        ("stats count(*) by substr(user.email, 0, 3) as p", "p", "computed message.user.email message.user.email.*"),
        ("filter @message like /a/ # x\n | fields @message as x", "x", "computed message message.*"),
        ("fields 'as x' | fields @message as x", "x", "computed message message.*"),
        ("filter a in (SOURCE 'h' | fields b) | fields @message", "message", None),
        ("join type=left x (SOURCE 'h') | fields @message", "message", None),
        ("fields @message | unknowncommand x", "message", None),
        ("SOURCE 'g' | fields @message", "message", None),
        ("fields @message | lookup users id OUTPUT name", "name", None),
        ("fields 'open", "message", None),
        ("fields @message " + "x" * 70_000, "message", None),
    ],
)
def test_columns_of_a_query(query: str, column: str, origin: str | None) -> None:
    assert _of(_results(query), column) == origin


@pytest.mark.parametrize(
    ("text", "column", "origin"),
    [
        ('FilterLogEvents {"logGroupName": "g"}', "message.a.b", "plain message.a.b"),
        ('GetLogEvents {"logGroupIdentifier": "arn:aws:logs:x-y-1:1:log-group:g:*"}', "message", "plain message"),
        ("FilterLogEvents {}", "message", None),
        ("GetQueryResults {}", "message", None),
        ('GetLogRecord {"logRecordPointer": "p"}', "message", None),
        ("ListAnomalies {}", "anomalies.logSamples.message", None),
        ("DescribeLogGroups {}", "x", "computed"),
        ('TestMetricFilter {"filterPattern": "x"}', "matches.eventMessage", "computed"),
        ("Frobnicate {}", "message", None),
        ("select 1", "message", None),
        (_results("select x from `g`", language="SQL"), "x", None),
    ],
)
def test_columns_of_operations(text: str, column: str, origin: str | None) -> None:
    assert _of(text, column) == origin


def test_columns_of_several_groups_can_be_of_any() -> None:
    origins = _LINEAGE.of(_results("fields @message", groups=("a", "b")), (Column("message", TextKind.TEXT),))
    assert origins is not None
    assert origins[0] is not None
    assert {ref.table for ref in origins[0].refs} == {"a", "b"}
    assert len(origins[0].plain) == 2


def test_column_that_names_its_group_is_of_that_group() -> None:
    column = Column("message", TextKind.TEXT, origin=("logs", "123456789012:/shop/a", "message"))
    origins = _LINEAGE.of('GetLogRecord {"logRecordPointer": "p"}', (column,))
    assert origins is not None
    assert origins[0] is not None
    assert [(ref.schema, ref.table, ref.column) for ref in origins[0].refs] == [("logs", "/shop/a", "message")]


def test_tags_are_those_of_the_catalogue() -> None:
    relation = Relation("logs", "g", ("message",), tags=frozenset({"pii"}))
    lineage = CloudwatchSessionLineage(lambda: TargetSchema({("logs", "g"): relation}))
    origins = lineage.of('FilterLogEvents {"logGroupName": "g"}', (Column("message", TextKind.TEXT),))
    assert origins is not None
    assert origins[0] is not None
    (ref,) = origins[0].refs
    assert lineage.tags(ref) == {"pii"}
