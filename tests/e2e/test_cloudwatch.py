"""boto3 through a gateway to moto's CloudWatch: logins, masking, rules, recordings, scripts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from tests.support.cloudwatch_gateway import cloudwatch_client, cloudwatch_connection
from tests.support.cloudwatch_target import MotoCloudwatch, moto_cloudwatch
from tests.support.gateway import Gateway

from postern.api.sessions.result_answers import ResultWriter
from postern.domain.identity.credential import Issued
from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.rules.masking import Strictness
from postern.domain.sessions.results import ResultColumns
from postern.domain.sessions.session import Session
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_task import TargetTaskKind
from postern.wiring import tls

_GROUP = "/shop/orders"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoCloudwatch]:
    with moto_cloudwatch() as server:
        logs = server.client("logs")
        logs.create_log_group(logGroupName=_GROUP)
        logs.create_log_stream(logGroupName=_GROUP, logStreamName="web")
        now = int(time.time() * 1000)
        messages = ["mail to ann@example.com", json.dumps({"user": {"name": "Ann"}, "n": 1}), "plain"]
        logs.put_log_events(
            logGroupName=_GROUP,
            logStreamName="web",
            logEvents=[{"timestamp": now + number, "message": text} for number, text in enumerate(messages)],
        )
        server.client("cloudwatch").put_metric_data(
            Namespace="Shop", MetricData=[{"MetricName": "orders", "Value": 3.0}]
        )
        yield server


class Opened:
    def __init__(self, gateway: Gateway, moto: MotoCloudwatch, **more: Any) -> None:
        self.gateway = gateway
        self.name = f"cw-{uuid4().hex[:8]}"
        self.connection: Connection = cloudwatch_connection(gateway, self.name, moto.url, **more)
        self.issued: Issued = gateway.credential(self.name)
        self.logs = cloudwatch_client(gateway, self.issued)

    def messages(self) -> list[str]:
        events = self.logs.filter_log_events(logGroupName=_GROUP)["events"]
        return [event["message"] for event in events]

    def mask(self, *columns: str) -> None:
        self.gateway.masking_rule(
            {
                "name": f"logs-{uuid4().hex[:8]}",
                "columns": columns,
                "strictness": Strictness.STRICT,
                "connection_ids": (str(self.connection.id),),
            }
        )


@pytest.fixture
def opened(gateway: Gateway, moto: MotoCloudwatch) -> Opened:
    return Opened(gateway, moto)


def test_sdk_reads_logs_and_metrics_in_one_session(opened: Opened) -> None:
    assert len(opened.messages()) == 3
    metrics = cloudwatch_client(opened.gateway, opened.issued, "cloudwatch")
    assert [metric["MetricName"] for metric in metrics.list_metrics(Namespace="Shop")["Metrics"]] == ["orders"]
    (session,) = opened.gateway.sessions(connection=opened.name)
    assert opened.gateway.operations(session.id) == [
        'FilterLogEvents {"logGroupName": "/shop/orders"}',
        'ListMetrics {"Namespace": "Shop"}',
    ]
    text = opened.gateway.text(session.id)
    assert "mail to ann@example.com" in text
    assert '"MetricName": "orders"' in text
    assert opened.issued.password.reveal() not in text


@pytest.mark.parametrize("service", ["logs", "cloudwatch"])
def test_client_without_the_credential_is_refused(opened: Opened, service: str) -> None:
    client = cloudwatch_client(opened.gateway, opened.issued, service, aws_secret_access_key="wrong")
    with pytest.raises(ClientError):
        (client.describe_log_groups if service == "logs" else client.list_metrics)()
    assert opened.gateway.sessions(connection=opened.name) == []


def test_columns_are_masked_and_so_are_recordings(opened: Opened) -> None:
    opened.mask(f"{_GROUP}.message.user")
    masked = opened.messages()
    assert masked[0] == "mail to ann@example.com"
    assert json.loads(masked[1])["user"]["name"] != "Ann"
    session = opened.gateway.newest(opened.name)
    opened.logs.close()
    assert '"Ann"' not in opened.gateway.text(session.id)


def test_results_of_queries_are_masked_by_their_group(opened: Opened) -> None:
    opened.mask(f"{_GROUP}.message")
    started = opened.logs.start_query(
        logGroupName=_GROUP, startTime=0, endTime=2**31, queryString="fields @timestamp, @message"
    )
    for _ in range(50):
        answer = opened.logs.get_query_results(queryId=started["queryId"])
        if answer["status"] == "Complete":
            break
        time.sleep(0.1)
    assert len(answer["results"]) == 3
    assert "ann@example.com" not in str(answer["results"])
    assert "plain" not in str(answer["results"])


def test_rule_refuses_an_operation_without_a_retry(gateway: Gateway, moto: MotoCloudwatch) -> None:
    opened = Opened(gateway, moto)
    gateway.guardrail(f"no-delete-{uuid4().hex[:8]}", opened.connection, deny="^Delete")
    with pytest.raises(ClientError) as caught:
        opened.logs.delete_log_group(logGroupName=_GROUP)
    assert caught.value.response["Error"]["Code"] == "AccessDeniedException"
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    metrics = cloudwatch_client(gateway, opened.issued, "cloudwatch")
    with pytest.raises(ClientError, match="AccessDenied"):
        metrics.delete_alarms(AlarmNames=["a"])
    assert len(opened.messages()) == 3


def test_error_of_the_target_is_its_own(opened: Opened) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        opened.logs.filter_log_events(logGroupName="none")


def execute(opened: Opened, script: str) -> Session:
    gateway = opened.gateway
    submitted = gateway.call(
        gateway.services.sessions.submit(
            gateway.admin, opened.name, script, source="127.0.0.1", invocation=Invocation()
        )
    )
    return gateway.finished(submitted.id)


def test_script_runs_command_lines_and_its_results_are_tables(opened: Opened) -> None:
    script = (
        f"aws logs tail {_GROUP} --since 1h\n"
        f"logs start-query --log-group-name {_GROUP} --start-time 0 --end-time 4000000000 "
        "--query-string 'fields @message'\n"
        "cloudwatch list-metrics --namespace Shop\n"
    )
    session = execute(opened, script)
    gateway = opened.gateway
    text = gateway.text(session.id)
    assert session.exit_code == 0, text
    assert '"@message": "plain"' in text
    assert '"MetricName": "orders"' in text
    written = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    assert [row[2] for row in written[0]["rows"]][2] == "plain"
    assert "mail to ann@example.com" in "".join(ResultWriter(gateway.services.sessions.results(session)).csv())


def test_script_that_fails_says_why(opened: Opened) -> None:
    session = execute(opened, "logs filter-log-events --log-group-name none")
    assert session.exit_code == 1
    assert "ResourceNotFoundException" in opened.gateway.text(session.id)


def test_masked_columns_of_results_are_marked(opened: Opened) -> None:
    opened.mask(f"{_GROUP}.timestamp")
    session = execute(opened, f"logs filter-log-events --log-group-name {_GROUP}")
    results = list(opened.gateway.services.sessions.results(session))
    columns = results[0]
    assert isinstance(columns, ResultColumns)
    masked = {name for name, mask in zip(columns.names, columns.masks, strict=True) if mask is not None}
    assert masked == {"timestamp"}


def test_schema_of_the_target_is_shown(opened: Opened) -> None:
    gateway = opened.gateway

    def ask(kind: TargetTaskKind, **given: str | None) -> Any:
        task = gateway.services.target_tasks.ask(gateway.admin, opened.name, kind, given, source="127.0.0.1")
        return gateway.call(task).result

    assert ask(TargetTaskKind.TEST) == {"success": True}
    assert {"name": "logs", "tables": [_GROUP]} in ask(TargetTaskKind.TABLES)["schemas"]
    assert ask(TargetTaskKind.COLUMNS, table="Shop", schema="metrics")["columns"][0]["name"] == "orders"


def test_rules_about_what_operations_do(gateway: Gateway, moto: MotoCloudwatch) -> None:
    opened = Opened(gateway, moto)
    fields = {
        "name": f"cloudwatch rules {uuid4().hex[:8]}",
        "input": (
            Rule(RuleType.DENY_FULL_SCANS, name="no full scans"),
            Rule(RuleType.DENY_STATEMENTS, objects=("logs./shop/secret",), name="no secrets"),
            Rule(RuleType.READ_ONLY, name="read only"),
        ),
        "output": (Rule(RuleType.MAX_ROWS, most=2, name="rows"),),
        "connection_ids": (str(opened.connection.id),),
    }
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    logs = opened.logs
    named = {"logGroupName": _GROUP}
    denied: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
        (logs.filter_log_events, named, "reads all of"),
        (logs.filter_log_events, {"logGroupName": "/shop/secret", "limit": 1}, "touches logs./shop/secret"),
        (logs.create_log_group, {"logGroupName": "new"}, "ddl"),
        (
            logs.put_subscription_filter,
            {**named, "filterName": "f", "filterPattern": "", "destinationArn": "arn"},
            "admin",
        ),
        (logs.get_log_record, {"logRecordPointer": "p"}, ""),
        (logs.get_query_results, {"queryId": "unknown"}, ""),
        (logs.filter_log_events, {**named, "startTime": 1}, "row"),
    ]
    for call, parameters, why in denied:
        with pytest.raises(ClientError) as caught:
            call(**parameters)
        assert caught.value.response["Error"]["Code"] == "AccessDeniedException"
        assert why in caught.value.response["Error"]["Message"]
    assert len(logs.filter_log_events(**named, limit=2)["events"]) <= 2


def test_aws_cli(opened: Opened) -> None:
    program = shutil.which("aws")
    if program is None:
        pytest.skip("the AWS CLI is not installed")
    gateway = opened.gateway
    password = opened.issued.password.reveal()
    environment = {
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": f"https://localhost:{gateway.settings.cloudwatch_port}",
        "AWS_ACCESS_KEY_ID": opened.issued.credential.username,
        "AWS_SECRET_ACCESS_KEY": password,
        "AWS_SESSION_TOKEN": password,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CA_BUNDLE": str(tls.authority(gateway.settings)),
        "PATH": os.environ["PATH"],
    }
    command = [program, "logs", "filter-log-events", "--log-group-name", _GROUP, "--filter-pattern", "plain"]
    ran = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert [event["message"] for event in json.loads(ran.stdout)["events"]] == ["plain"]
