"""boto3, through the parts of a gateway and an agent, on DynamoDB Local."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.dynamodb.conditions import Key
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.support.aws_forwarder import Forwarder, forwarding
from tests.support.dynamodb_local import dynamodb_local, running_dynamodb_local

from postern.domain.secret import Secret
from postern.interception.events import Output, Rows, Scalar
from postern.interception.verdicts import Refuse
from postern.protocols.aws.aws_request_check import AwsRequestCheck
from postern.protocols.aws.sigv4 import AwsCredentials, SigningKeys, sign_request
from postern.protocols.dynamodb.wire.dynamodb_dialect import DynamodbDialect
from postern.protocols.dynamodb.wire.sealed_keys import PREFIX, KeySealer
from postern.protocols.http.http_heads import RequestHead

pytestmark = pytest.mark.slow  # DynamoDB Local comes with `make drivers`

REGION = "eu-central-1"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_dynamodb_local() as endpoint:
        direct = boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION, **keys("local", "local"))
        direct.create_table(
            TableName="people",
            AttributeDefinitions=[
                {"AttributeName": "email", "AttributeType": "S"},
                {"AttributeName": "year", "AttributeType": "N"},
            ],
            KeySchema=[
                {"AttributeName": "email", "KeyType": "HASH"},
                {"AttributeName": "year", "KeyType": "RANGE"},
            ],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        for number in range(12):
            direct.put_item(TableName="people", Item=person(number))
        yield endpoint


def keys(access_key: str, secret: str, token: str = "") -> dict[str, str | None]:
    return {
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret,
        "aws_session_token": token or None,
    }


def person(number: int) -> dict[str, Any]:
    return {
        "email": {"S": f"person{number}@example.com"},
        "year": {"N": str(1980 + number)},
        "salary": {"N": f"{number}000.50"},
        "phones": {"SS": [f"+49 30 {number}", f"+49 40 {number}"]},
        "address": {"M": {"zip": {"S": f"1011{number}"}, "lines": {"L": [{"S": "a"}, {"NULL": True}]}}},
        "photo": {"B": b"\x00\x01\xff"},
        "active": {"BOOL": True},
    }


MASKED = {"email", "salary", "phones", "address.zip"}


def mask(event: Rows | Output) -> None:
    """As a rule about columns does."""
    if not isinstance(event, Rows):
        return
    for number, column in enumerate(event.columns):
        assert column.origin is not None
        assert column.origin[1] == "people"
        if column.origin[2] in MASKED:
            event.change(number, lambda scalar, value: b"0" if scalar is Scalar.DECIMAL else b"****")


def forwarder(server: str) -> Forwarder:
    credentials = AwsCredentials("AKIDLOCAL", Secret("target secret"))
    signing = SigningKeys()

    def sign(head: RequestHead) -> RequestHead:
        return sign_request(head, credentials, region=REGION, service="dynamodb", now=datetime.now(UTC), keys=signing)

    dialect = DynamodbDialect(KeySealer(b"secret", "anna@people"))
    return Forwarder(AwsRequestCheck({"dynamodb"}), dialect, sign, server, mask=mask)


@pytest.fixture
def through(server: str) -> Iterator[tuple[Forwarder, Any]]:
    parts = forwarder(server)
    with forwarding(parts) as url:
        yield parts, client(url)


def client(url: str, *, user: str = "anna", secret: str = "password", token: str = "password", **options: Any) -> Any:
    config = Config(retries={"total_max_attempts": 5}, **options)
    return boto3.client("dynamodb", endpoint_url=url, region_name=REGION, config=config, **keys(user, secret, token))


def test_items_are_masked_and_their_checksum_is_right(through: tuple[Forwarder, Any]) -> None:
    parts, dynamodb = through
    item = dynamodb.get_item(TableName="people", Key={"email": {"S": "person1@example.com"}, "year": {"N": "1981"}})
    assert item["Item"] == {
        "email": {"S": "****"},
        "year": {"N": "1981"},
        "salary": {"N": "0"},
        "phones": {"SS": ["****"]},
        "address": {"M": {"zip": {"S": "****"}, "lines": {"L": [{"S": "a"}, {"NULL": True}]}}},
        "photo": {"B": b"\x00\x01\xff"},
        "active": {"BOOL": True},
    }
    assert item["ResponseMetadata"]["RetryAttempts"] == 0
    assert parts.seen == [
        'GetItem {"TableName": "people", "Key": {"email": {"S": "person1@example.com"}, "year": {"N": "1981"}}}'
    ]


def test_pages_of_masked_keys_are_read_to_the_end(through: tuple[Forwarder, Any]) -> None:
    parts, dynamodb = through
    pages = list(dynamodb.get_paginator("scan").paginate(TableName="people", PaginationConfig={"PageSize": 5}))
    assert [page["Count"] for page in pages] == [5, 5, 2]
    assert sorted(int(item["year"]["N"]) for page in pages for item in page["Items"]) == list(range(1980, 1992))
    key = pages[0]["LastEvaluatedKey"]
    assert key["email"]["S"].startswith(PREFIX)
    assert key["year"]["N"].isdigit()
    assert "@example.com" not in str(pages)
    assert PREFIX in parts.seen[1]


def test_sealed_key_is_of_one_user_and_attribute(server: str, through: tuple[Forwarder, Any]) -> None:
    _, dynamodb = through
    key = dynamodb.scan(TableName="people", Limit=1)["LastEvaluatedKey"]
    other = forwarder(server)
    other.dialect = DynamodbDialect(KeySealer(b"secret", "bert@people"))
    with forwarding(other) as url, pytest.raises(ClientError, match=r"ValidationException.*not sealed for this query"):
        client(url).scan(TableName="people", ExclusiveStartKey=key)
    with pytest.raises(ClientError, match="ValidationException"):
        dynamodb.scan(TableName="people", ExclusiveStartKey={"email": {"S": f"{PREFIX}AAAA"}, "year": {"N": "1"}})


def test_items_are_masked_wherever_they_appear(through: tuple[Forwarder, Any]) -> None:
    _, dynamodb = through
    key = {"email": {"S": "person2@example.com"}, "year": {"N": "1982"}}
    named = {"TableName": "people"}
    condition = {"ConditionExpression": "salary = :s", "ExpressionAttributeValues": {":s": {"N": "1"}}}
    failing = {**condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    select = 'SELECT * FROM "people" WHERE email=?'
    parameters = [key["email"]]
    answers: list[Any] = [
        dynamodb.query(**named, KeyConditionExpression="email = :e", ExpressionAttributeValues={":e": key["email"]}),
        dynamodb.batch_get_item(RequestItems={"people": {"Keys": [key]}}),
        dynamodb.transact_get_items(TransactItems=[{"Get": {**named, "Key": key}}]),
        dynamodb.update_item(
            **named,
            Key=key,
            UpdateExpression="SET note = :n",
            ExpressionAttributeValues={":n": {"S": "x"}},
            ReturnValues="ALL_NEW",
        ),
        dynamodb.put_item(**named, Item=person(2), ReturnValues="ALL_OLD"),
        dynamodb.execute_statement(Statement=select, Parameters=parameters),
        dynamodb.execute_statement(Statement='SELECT address.zip FROM "people" WHERE email=?', Parameters=parameters),
        dynamodb.batch_execute_statement(
            Statements=[{"Statement": f"{select} AND year=1982", "Parameters": parameters}]
        ),
        dynamodb.execute_transaction(
            TransactStatements=[{"Statement": f"{select} AND year=1982", "Parameters": parameters}]
        ),
    ]
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as failed:
        dynamodb.delete_item(**named, Key=key, **failing)
    answers.append(failed.value.response)
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(TransactItems=[{"Delete": {**named, "Key": key, **failing}}])
    answers.append(cancelled.value.response)
    for answer in answers:
        assert "****" in str(answer), answer
        for hidden in ("person2@", "2000.5", "+49 30", "10112"):
            assert hidden not in str(answer)


def test_records_of_streams_are_masked(through: tuple[Forwarder, Any]) -> None:
    _, dynamodb = through
    url = dynamodb.meta.endpoint_url
    streams = boto3.client(
        "dynamodbstreams", endpoint_url=url, region_name=REGION, **keys("anna", "password", "password")
    )
    (stream,) = streams.list_streams(TableName="people")["Streams"]
    shard = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"][0]
    iterator = streams.get_shard_iterator(
        StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )
    records = streams.get_records(ShardIterator=iterator["ShardIterator"])["Records"]
    assert len(records) >= 12
    assert "@example.com" not in str(records)
    assert "****" in str(records[0]["dynamodb"]["Keys"])
    assert "****" in str(records[0]["dynamodb"]["NewImage"])


def test_resource_interface_reads_masked_numbers_and_pages(through: tuple[Forwarder, Any]) -> None:
    _, dynamodb = through
    resource = boto3.resource(
        "dynamodb",
        endpoint_url=dynamodb.meta.endpoint_url,
        region_name=REGION,
        **keys("anna", "password", "password"),
    )
    table = resource.Table("people")
    first = table.scan(Limit=2)
    assert [item["salary"] for item in first["Items"]] == [Decimal(0), Decimal(0)]
    second = table.scan(Limit=2, ExclusiveStartKey=first["LastEvaluatedKey"])
    assert {item["year"] for item in first["Items"]}.isdisjoint({item["year"] for item in second["Items"]})
    found = table.query(KeyConditionExpression=Key("email").eq("person3@example.com"))
    assert found["Items"][0]["year"] == 1983


def test_refusal_is_not_retried(through: tuple[Forwarder, Any]) -> None:
    parts, dynamodb = through
    parts.judge = lambda operation: Refuse("no deletes", "Denied by rule 'no deletes'.", "Ask an administrator.")
    with pytest.raises(ClientError) as caught:
        dynamodb.delete_item(TableName="people", Key={"email": {"S": "x"}, "year": {"N": "1"}})
    assert caught.value.response["Error"] == {
        "Code": "AccessDeniedException",
        "Message": "Denied by rule 'no deletes'. Ask an administrator.",
    }
    assert len(parts.seen) == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"user": "bert"}, "UnrecognizedClientException"),
        ({"token": "wrong", "secret": "wrong"}, "UnrecognizedClientException"),
        ({"secret": "wrong"}, "InvalidSignatureException"),
        ({"token": ""}, "UnrecognizedClientException"),
    ],
)
def test_client_without_the_credential_is_refused(
    through: tuple[Forwarder, Any], options: dict[str, str], code: str
) -> None:
    parts, dynamodb = through
    with pytest.raises(ClientError) as caught:
        client(dynamodb.meta.endpoint_url, **options).list_tables()
    assert caught.value.response["Error"]["Code"] == code
    assert parts.seen == []


def test_wrong_clock_is_named(through: tuple[Forwarder, Any]) -> None:
    parts, dynamodb = through
    parts.now = lambda: datetime.now(UTC) + timedelta(minutes=20)
    with pytest.raises(ClientError, match=r"Signature expired: .* is now earlier than .* - 15 min\."):
        dynamodb.list_tables()


def test_response_that_nothing_changes_passes_byte_for_byte(through: tuple[Forwarder, Any]) -> None:
    _, dynamodb = through
    table = dynamodb.describe_table(TableName="people")["Table"]
    assert table["TableName"] == "people"
    with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
        dynamodb.describe_table(TableName="nothing")


def test_sdk_for_java(server: str) -> None:
    """It signs the length of bodies, and checks checksums. Its libraries are among DynamoDB Local's own."""
    folder = dynamodb_local()
    if folder is None or shutil.which("javac") is None:
        pytest.skip("the Java compiler is not installed")
    parts = forwarder(server)
    parts.judge = lambda operation: Refuse("no", "No.") if operation.text.startswith("DeleteItem") else None
    program = Path(__file__).with_name("Scan.java")
    with forwarding(parts) as url:
        command = ["java", "-cp", f"{folder}/*", str(program), url, "password"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["12 **** 0", "[****]", "AccessDeniedException 400"]
    assert [text.partition(" ")[0] for text in parts.seen] == ["Scan", "Scan", "Scan", "GetItem", "DeleteItem"]
