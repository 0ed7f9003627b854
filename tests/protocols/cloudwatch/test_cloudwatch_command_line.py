"""Command lines of scripts, compared with the models of AWS."""

from __future__ import annotations

import shlex

import pytest
from botocore import xform_name
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aws_shapes import model_shapes

from postern.protocols.aws.commands.command_options import option_name
from postern.protocols.aws.commands.command_words import AwsCommandError, WordReader
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService
from postern.protocols.cloudwatch.dialect.cloudwatch_splitting import split_cloudwatch
from postern.protocols.cloudwatch.queries.cloudwatch_command_line import CloudwatchCommand, read_statements
from postern.protocols.cloudwatch.queries.cloudwatch_script import text_of_command
from postern.protocols.cloudwatch.queries.cloudwatch_shapes import SHAPES
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.quoting import quote_value
from postern.runbooks.template_errors import Fault

_NOW = 1_700_000_000.0
_SERVICES = {"logs": CloudwatchService.LOGS, "cloudwatch": CloudwatchService.METRICS}


def _commands(text: str) -> list[CloudwatchCommand]:
    return [statement.command for statement in read_statements(text, _NOW)]


def _text(text: str) -> str:
    (command,) = _commands(text)
    return text_of_command(command)


@pytest.mark.parametrize("service", ["logs", "cloudwatch"])
def test_shapes_are_those_of_the_models(service: str) -> None:
    assert SHAPES[_SERVICES[service]] == model_shapes(service)


@pytest.mark.parametrize("service", ["logs", "cloudwatch"])
def test_names_are_those_of_the_cli(service: str) -> None:
    names = {*SHAPES[_SERVICES[service]], *(name for shape in SHAPES[_SERVICES[service]].values() for name in shape)}
    assert {name: option_name(name) for name in names} == {name: xform_name(name, "-") for name in names}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "logs filter-log-events --log-group-name g --filter-pattern x",
            'FilterLogEvents {"logGroupName": "g", "filterPattern": "x"}',
        ),
        (
            "aws logs filter-log-events --log-group-name=g --no-interleaved --limit 5 --unmask --output json",
            'FilterLogEvents {"logGroupName": "g", "interleaved": false, "limit": 5, "unmask": true}',
        ),
        (
            "logs filter-log-events --log-group-name /a/b \\\n  --filter-pattern '{ $.level = \"ERROR\" }' # comment",
            'FilterLogEvents {"logGroupName": "/a/b", "filterPattern": "{ $.level = \\"ERROR\\" }"}',
        ),
        (
            'logs filter-log-events --log-group-name "a b" --log-stream-names x "y z" --start-time 17',
            'FilterLogEvents {"logGroupName": "a b", "logStreamNames": ["x", "y z"], "startTime": 17}',
        ),
        (
            "logs filter-log-events --log-group-name g --start-time 2023-11-14T22:13:20Z",
            'FilterLogEvents {"logGroupName": "g", "startTime": 1700000000000}',
        ),
        (
            "logs start-query --log-group-names a b --start-time 2023-11-14T22:13:20Z --end-time 5 --query-string 'f'",
            'StartQuery {"logGroupNames": ["a", "b"], "startTime": 1700000000, "endTime": 5, "queryString": "f"}',
        ),
        ("logs tail g", 'FilterLogEvents {"logGroupName": "g", "startTime": 1699999400000}'),
        (
            "logs tail arn:aws:logs:x:1:log-group:g --since 1h --filter-pattern e --format short --log-stream-names s",
            'FilterLogEvents {"logGroupIdentifier": "arn:aws:logs:x:1:log-group:g", "logStreamNames": ["s"], '
            '"filterPattern": "e", "startTime": 1699996400000}',
        ),
        ("cloudwatch list-metrics --namespace AWS/EC2", 'ListMetrics {"Namespace": "AWS/EC2"}'),
        (
            "cloudwatch list-metrics --dimensions Name=InstanceId,Value=i-1 'Name=a,Value=\"b,c\"'",
            'ListMetrics {"Dimensions": [{"Name": "InstanceId", "Value": "i-1"}, {"Name": "a", "Value": "b,c"}]}',
        ),
        (
            "cloudwatch get-metric-statistics --namespace n --metric-name m --start-time 2023-11-14T22:13:20Z "
            "--end-time 1700000001.5 --period 60 --statistics Sum Average",
            'GetMetricStatistics {"Namespace": "n", "MetricName": "m", "StartTime": 1700000000, '
            '"EndTime": 1700000001.5, "Period": 60, "Statistics": ["Sum", "Average"]}',
        ),
        (
            'cloudwatch get-metric-data --metric-data-queries \'[{"Id": "a", "Expression": "1"}]\' '
            "--start-time 1 --end-time 2",
            'GetMetricData {"MetricDataQueries": [{"Id": "a", "Expression": "1"}], "StartTime": 1, "EndTime": 2}',
        ),
        (
            'logs create-log-group --cli-input-json \'{"logGroupName": "x", "tags": {"a": "b"}}\' --log-group-name y',
            'CreateLogGroup {"logGroupName": "y", "tags": {"a": "b"}}',
        ),
        (
            "logs create-log-group --log-group-name g --tags a=b,c=d",
            'CreateLogGroup {"logGroupName": "g", "tags": {"a": "b", "c": "d"}}',
        ),
        ('FilterLogEvents {"logGroupName": "g",\n "limit": 5}', 'FilterLogEvents {"logGroupName": "g", "limit": 5}'),
        ("DescribeLogGroups {}", "DescribeLogGroups {}"),
    ],
)
def test_command_lines(line: str, text: str) -> None:
    assert _text(line) == text


def test_statements_follow_each_other() -> None:
    text = 'logs describe-log-groups; # first\nListMetrics {"Namespace": "n"}\n\n  aws logs tail g\n'
    statements = read_statements(text, _NOW)
    assert [text[each.start : each.end] for each in statements] == [
        "logs describe-log-groups",
        'ListMetrics {"Namespace": "n"}',
        "aws logs tail g",
    ]
    assert split_cloudwatch(text).spans == tuple((each.start, each.end) for each in statements)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ls -l", "begins with logs or cloudwatch"),
        ("logs", "a command is missing"),
        ("logs frobnicate", "has no command 'frobnicate'"),
        ("cloudwatch filter-log-events", "has no command"),
        ("logs describe-log-groups --frobnicate x", "--frobnicate is not an option"),
        ("logs describe-log-groups x", "does not belong to an option"),
        ("logs describe-log-groups --limit", "--limit has one value"),
        ("logs describe-log-groups --limit x", "not a whole number"),
        ("logs describe-log-groups --limit 1 --limit 2", "given twice"),
        ("logs describe-log-groups --no-limit", "not an option"),
        ("logs describe-log-groups --region x", "the connection has a region"),
        ("logs describe-log-groups --query x", "results cannot be queried"),
        ("logs filter-log-events --log-group-name g --filter-pattern file://x", "files cannot be read"),
        ("logs filter-log-events --log-group-name g | grep x", "for a shell"),
        ("logs filter-log-events --log-group-name $(id)", "for a shell"),
        ("logs filter-log-events --log-group-name `id`", "for a shell"),
        ('logs filter-log-events --log-group-name "${HOME}"', "a shell would replace"),
        ("logs filter-log-events --log-group-name 'g", "not closed"),
        ("logs filter-log-events --log-group-name g\\", "backslash"),
        ("logs start-live-tail --log-group-identifiers a", "is a stream"),
        ("StartLiveTail {}", "is a stream"),
        ("logs tail g --follow", "needs an end"),
        ("logs tail", "needs one log group"),
        ("logs tail g --since x", "--since is a duration"),
        ("logs tail g --limit 5", "--limit is not an option"),
        ("logs describe-log-groups --max-items 0", "positive"),
        ("cloudwatch list-metrics --dimensions x", "NAME=VALUE"),
        ("cloudwatch list-metrics --dimensions a=1,a=2", "NAME=VALUE"),
        ("cloudwatch list-metrics --dimensions '[{'", "not valid JSON"),
        ("cloudwatch get-metric-data --start-time yesterday", "not a time"),
        ("Frobnicate {}", "is not an operation"),
        ('ListMetrics {"a": 1, "a": 2}', "key twice"),
        ("ListMetrics {} x", "something after"),
        ("ListMetrics {", "not valid JSON"),
        ("ListMetrics {} of StartQuery {}", "something after"),
    ],
)
def test_lines_that_cannot_be_run(line: str, why: str) -> None:
    with pytest.raises(AwsCommandError, match=why) as refused:
        read_statements(line, _NOW)
    assert 0 <= refused.value.offset <= len(line)
    problem = split_cloudwatch(line).problem
    assert problem is not None


@pytest.mark.parametrize(
    ("line", "pages", "most"),
    [
        ("logs describe-log-groups", True, 0),
        ("logs describe-log-groups --max-items 7", True, 7),
        ("logs describe-log-groups --limit 7", False, 0),
        ("logs describe-log-groups --no-paginate", False, 0),
        ("logs describe-log-groups --next-token t", False, 0),
        ("logs get-log-events --log-group-name g --log-stream-name s", False, 0),
        ("logs create-log-group --log-group-name g", False, 0),
        ("logs tail g", True, 0),
        ('DescribeLogGroups {"limit": 5}', False, 0),
    ],
)
def test_which_answers_are_read_page_by_page(line: str, pages: bool, most: int) -> None:
    (command,) = _commands(line)
    assert (command.pages, command.max_items) == (pages, most)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_words_are_read_as_a_shell_reads_them(words: list[str]) -> None:
    reader = WordReader(" ".join(shlex.quote(word) for word in words))
    assert [word.text for word in reader.words()] == words
    assert reader.pos == len(reader.text)


@pytest.mark.parametrize("quote", ["'", '"'])
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
def test_value_of_a_runbook_stays_one_word(quote: str, text: str) -> None:
    try:
        quoted = quote_value(ScriptSyntax.SHELL, quote, text)
    except Fault:
        return
    (command,) = _commands(f"logs filter-log-events --filter-pattern {quoted} --log-group-name g")
    assert command.parameters == {"filterPattern": text, "logGroupName": "g"}
