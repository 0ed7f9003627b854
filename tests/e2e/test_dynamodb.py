"""boto3 through a gateway to DynamoDB Local: logins, masking, rules, recordings, scripts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from tests.support.dynamodb_gateway import direct_client, dynamodb_connection, gateway_client
from tests.support.dynamodb_local import running_dynamodb_local
from tests.support.gateway import Gateway

from postern.api.sessions.result_answers import ResultWriter
from postern.domain.identity.credential import Issued
from postern.domain.rules.guardrail import Rule, RuleType
from postern.domain.rules.masking import Strictness
from postern.domain.sessions.session import Session
from postern.domain.targets.command import Invocation
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_task import TargetTaskKind
from postern.protocols.clients import NativeCredential
from postern.protocols.dynamodb.dynamodb_client import CLIENT
from postern.wiring import tls

pytestmark = pytest.mark.slow  # DynamoDB Local comes with `make drivers`


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running_dynamodb_local() as url:
        client = direct_client(url)
        client.create_table(
            TableName="people",
            AttributeDefinitions=[{"AttributeName": "email", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "email", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(7):
            item = {"email": {"S": f"p{number}@example.com"}, "salary": {"N": f"{number}000"}, "city": {"S": "Berlin"}}
            client.put_item(TableName="people", Item=item)
        yield url


class Opened:
    def __init__(self, gateway: Gateway, endpoint: str, **more: Any) -> None:
        self.gateway = gateway
        self.name = f"ddb-{uuid4().hex[:8]}"
        self.connection: Connection = dynamodb_connection(gateway, self.name, endpoint, **more)
        self.issued: Issued = gateway.credential(self.name)
        self.client = gateway_client(gateway, self.issued)


@pytest.fixture
def opened(gateway: Gateway, endpoint: str) -> Opened:
    return Opened(gateway, endpoint)


def test_sdk_reads_and_writes_in_one_session(opened: Opened) -> None:
    client = opened.client
    assert client.list_tables()["TableNames"] == ["people"]
    client.put_item(TableName="people", Item={"email": {"S": "new@example.com"}})
    assert client.get_item(TableName="people", Key={"email": {"S": "new@example.com"}})["Item"]
    client.delete_item(TableName="people", Key={"email": {"S": "new@example.com"}})
    (session,) = opened.gateway.sessions(connection=opened.name)
    assert opened.gateway.operations(session.id) == [
        "ListTables {}",
        'PutItem {"TableName": "people", "Item": {"email": {"S": "new@example.com"}}}',
        'GetItem {"TableName": "people", "Key": {"email": {"S": "new@example.com"}}}',
        'DeleteItem {"TableName": "people", "Key": {"email": {"S": "new@example.com"}}}',
    ]
    text = opened.gateway.text(session.id)
    assert '{"TableNames": ["people"]}' in text
    assert '{"email": "new@example.com"}' in text
    assert opened.issued.password.reveal() not in text


def test_streams_are_reached_by_the_same_connection(opened: Opened) -> None:
    streams = gateway_client(opened.gateway, opened.issued, "dynamodbstreams")
    assert streams.list_streams()["Streams"] == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"aws_secret_access_key": "wrong"}, "InvalidSignatureException"),
        ({"aws_session_token": "wrong", "aws_secret_access_key": "wrong"}, "UnrecognizedClientException"),
        ({"aws_access_key_id": "nobody"}, "UnrecognizedClientException"),
        ({"aws_session_token": None}, "UnrecognizedClientException"),
    ],
)
def test_client_without_the_credential_is_refused(opened: Opened, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(ClientError) as caught:
        gateway_client(opened.gateway, opened.issued, **changes).list_tables()
    assert caught.value.response["Error"]["Code"] == code
    assert opened.gateway.sessions(connection=opened.name) == []


def test_error_of_the_target_is_its_own(opened: Opened) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        opened.client.get_item(TableName="nothing", Key={"email": {"S": "x"}})


def test_columns_are_masked_and_pages_go_on(gateway: Gateway, endpoint: str) -> None:
    opened = Opened(gateway, endpoint)
    gateway.masking_rule(
        {
            "name": f"people-{uuid4().hex[:8]}",
            "columns": ("people.email", "salary"),
            "strictness": Strictness.STRICT,
            "connection_ids": (str(opened.connection.id),),
        }
    )
    pages = list(opened.client.get_paginator("scan").paginate(TableName="people", PaginationConfig={"PageSize": 3}))
    assert [page["Count"] for page in pages] == [3, 3, 1]
    assert "@example.com" not in str(pages)
    assert {item["city"]["S"] for page in pages for item in page["Items"]} == {"Berlin"}
    assert all("N" in item["salary"] for page in pages for item in page["Items"])
    assert all(
        item["salary"]["N"] in ("0", "1") or not item["salary"]["N"].endswith("000") for item in pages[0]["Items"]
    )
    session = gateway.newest(opened.name)
    opened.client.close()
    assert "@example.com" not in gateway.text(session.id)


def test_rule_refuses_an_operation_without_a_retry(gateway: Gateway, endpoint: str) -> None:
    opened = Opened(gateway, endpoint)
    gateway.guardrail(f"no-delete-{uuid4().hex[:8]}", opened.connection, deny="^DeleteItem ")
    with pytest.raises(ClientError) as caught:
        opened.client.delete_item(TableName="people", Key={"email": {"S": "p1@example.com"}})
    assert caught.value.response["Error"]["Code"] == "AccessDeniedException"
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    assert opened.client.get_item(TableName="people", Key={"email": {"S": "p1@example.com"}})["Item"]


def execute(gateway: Gateway, script: str, connection: str) -> Session:
    submitted = gateway.call(
        gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1", invocation=Invocation())
    )
    return gateway.finished(submitted.id)


def test_script_runs_and_its_results_are_tables(opened: Opened) -> None:
    gateway = opened.gateway
    script = (
        'get-item --table-name people --key \'{"email": {"S": "p1@example.com"}}\'\n'
        "SELECT city FROM people WHERE email = 'p2@example.com';\n"
        '{"DescribeTable": {"TableName": "people"}}'
    )
    session = execute(gateway, script, opened.name)
    assert session.exit_code == 0, gateway.text(session.id)
    written = json.loads("".join(ResultWriter(gateway.services.sessions.results(session)).json()))
    assert written[0]["rows"] == [["p1@example.com", "Berlin", "1000"]] or len(written[0]["rows"]) == 1
    assert written[1]["rows"] == [["Berlin"]]
    csv = "".join(ResultWriter(gateway.services.sessions.results(session)).csv())
    assert "p1@example.com" in csv
    assert "TableStatus" in gateway.text(session.id)


def test_script_that_fails_says_why(opened: Opened) -> None:
    session = execute(opened.gateway, "scan --table-name nothing", opened.name)
    assert session.exit_code == 1
    assert "ResourceNotFoundException" in opened.gateway.text(session.id)


def test_rules_about_what_operations_do(gateway: Gateway, endpoint: str) -> None:
    opened = Opened(gateway, endpoint)
    fields = {
        "name": f"dynamodb rules {uuid4().hex[:8]}",
        "input": (
            Rule(RuleType.DENY_FULL_SCANS, name="no full scans"),
            Rule(RuleType.DENY_STATEMENTS, objects=("secrets",), name="no secrets"),
            Rule(RuleType.READ_ONLY, name="read only"),
        ),
        "output": (Rule(RuleType.MAX_ROWS, most=4, name="rows"),),
        "connection_ids": (str(opened.connection.id),),
    }
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    client = opened.client
    named = {"TableName": "people"}
    values = {":c": {"S": "Berlin"}}
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: client.scan(**named), "no full scans"),
        (lambda: client.execute_statement(Statement="SELECT * FROM people"), "no full scans"),
        (lambda: client.get_item(TableName="secrets", Key={"id": {"S": "1"}}), "no secrets"),
        (lambda: client.execute_statement(Statement="SELECT * FROM \"secrets\" WHERE id = '1'"), "no secrets"),
        (lambda: client.put_item(**named, Item={"email": {"S": "x"}}), "read only"),
        (lambda: client.execute_statement(Statement="DELETE FROM people WHERE email = 'x'"), "read only"),
        (lambda: client.scan(**named, FilterExpression="city = :c", ExpressionAttributeValues=values), "rows"),
    ]
    for call, rule in refused:
        with pytest.raises(ClientError, match=rule) as caught:
            call()
        assert caught.value.response["Error"]["Code"] == "AccessDeniedException"
        assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    assert client.scan(**named, Limit=3)["Count"] == 3
    assert client.get_item(**named, Key={"email": {"S": "p1@example.com"}})["Item"]


def test_schema_of_the_target_is_shown(opened: Opened) -> None:
    gateway = opened.gateway

    def ask(kind: TargetTaskKind, **given: str | None) -> Any:
        task = gateway.services.target_tasks.ask(gateway.admin, opened.name, kind, given, source="127.0.0.1")
        return gateway.call(task).result

    assert ask(TargetTaskKind.TEST) == {"success": True}
    assert ask(TargetTaskKind.TABLES)["schemas"] == [{"name": "people", "tables": ["people"]}]
    columns = ask(TargetTaskKind.COLUMNS, table="people")["columns"]
    assert {column["name"]: column["type"] for column in columns} == {"email": "S", "salary": "N", "city": "S"}


def test_aws_cli(opened: Opened) -> None:
    program = shutil.which("aws")
    if program is None:
        pytest.skip("the AWS CLI is not installed")
    authority = tls.authority(opened.gateway.settings)
    credential = NativeCredential(
        opened.issued.credential.username,
        opened.issued.password,
        "localhost",
        opened.gateway.settings.dynamodb_port,
        "",
        authority,
    )
    line = f"{CLIENT.line(credential)} --output json".replace("aws dynamodb", f"{program} dynamodb")
    result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {"TableNames": ["people"]}
