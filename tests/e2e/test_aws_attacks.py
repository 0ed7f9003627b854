"""Attempts to see masked attributes of DynamoDB by boto3, through a gateway, with a strict rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from tests.support.dynamodb_gateway import direct_client, dynamodb_connection, gateway_client
from tests.support.dynamodb_local import running_dynamodb_local
from tests.support.gateway import Gateway

from postern.domain.identity.credential import Issued
from postern.domain.rules.masking import Strictness

SECRET, INNER = "ann@example.com", "inner@example.com"
ITEM: dict[str, Any] = {
    "id": {"S": "1"},
    "email": {"S": SECRET},
    "city": {"S": "Berlin"},
    "nested": {"M": {"mail": {"S": INNER}, "other": {"S": "x"}}},
    "list": {"L": [{"M": {"mail": {"S": INNER}}}]},
}
TABLE, PLAIN = "people", "plain"
ARN = f"arn:aws:dynamodb:ddblocal:000000000000:table/{TABLE}"
KEY = {"id": {"S": "1"}}
MASKED = ("people.email", "people.nested.mail", "people.list.mail")


def _prepare(client: Any) -> None:
    key = [{"AttributeName": "id", "KeyType": "HASH"}]
    names = [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "city")]
    index = {
        "IndexName": "by-city",
        "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    client.create_table(
        TableName=TABLE,
        AttributeDefinitions=names,
        KeySchema=key,
        BillingMode="PAY_PER_REQUEST",
        GlobalSecondaryIndexes=[index],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    client.create_table(TableName=PLAIN, AttributeDefinitions=names[:1], KeySchema=key, BillingMode="PAY_PER_REQUEST")
    client.put_item(TableName=TABLE, Item=ITEM)
    client.put_item(TableName=PLAIN, Item={"id": {"S": "1"}, "email": {"S": "not-secret"}})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running_dynamodb_local() as url:
        _prepare(direct_client(url))
        yield url


@pytest.fixture(scope="module")
def issued(gateway: Gateway, endpoint: str) -> Issued:
    name = f"attacked-{uuid4().hex[:8]}"
    connection = dynamodb_connection(gateway, name, endpoint)
    gateway.masking_rule(
        {
            "name": name,
            "columns": MASKED,
            "strictness": Strictness.STRICT,
            "connection_ids": (str(connection.id),),
        }
    )
    return gateway.credential(name)


@pytest.fixture(scope="module")
def client(gateway: Gateway, issued: Issued) -> Any:
    return gateway_client(gateway, issued)


@pytest.fixture
def direct(endpoint: str) -> Iterator[Any]:
    """A client that goes around the gateway. Afterwards the item is as before."""
    client = direct_client(endpoint)
    yield client
    client.put_item(TableName=TABLE, Item=ITEM)


def _of_table(method: str, **given: Any) -> Callable[[Any], Any]:
    return lambda client: getattr(client, method)(TableName=given.pop("table", TABLE), **given)


def _ask(method: str, **given: Any) -> Callable[[Any], Any]:
    return lambda client: getattr(client, method)(**given)


def _statement(text: str) -> Callable[[Any], Any]:
    return _ask("execute_statement", Statement=text)


_OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
_NEVER = {"ConditionExpression": "attribute_not_exists(id)"}
_SET = {"UpdateExpression": "SET city = :c", "ExpressionAttributeValues": {":c": {"S": "Bonn"}}}
_UPDATE: dict[str, Any] = {"Key": KEY, **_SET}

ATTACKS: dict[str, Callable[[Any], Any]] = {
    "get": _of_table("get_item", Key=KEY),
    "get by ARN": _ask("get_item", TableName=ARN, Key=KEY),
    "projection": _of_table("get_item", Key=KEY, ProjectionExpression="email, nested.mail, list[0].mail"),
    "alias": _of_table("get_item", Key=KEY, ProjectionExpression="#a", ExpressionAttributeNames={"#a": "email"}),
    "alias of a part": _of_table(
        "get_item", Key=KEY, ProjectionExpression="#a.#b", ExpressionAttributeNames={"#a": "nested", "#b": "mail"}
    ),
    "element": _of_table("get_item", Key=KEY, ProjectionExpression="list[0]"),
    "legacy projection": _of_table("get_item", Key=KEY, AttributesToGet=["email"]),
    "query": _of_table(
        "query", KeyConditionExpression="id = :i", ExpressionAttributeValues={":i": {"S": "1"}}, ConsistentRead=True
    ),
    "legacy query": _of_table(
        "query", KeyConditions={"id": {"AttributeValueList": [{"S": "1"}], "ComparisonOperator": "EQ"}}
    ),
    "query of an index": _of_table(
        "query",
        IndexName="by-city",
        KeyConditionExpression="city = :c",
        ExpressionAttributeValues={":c": {"S": "Berlin"}},
    ),
    "scan": _of_table("scan"),
    "scan of an index": _of_table("scan", IndexName="by-city"),
    "scan of a segment": _of_table("scan", Segment=0, TotalSegments=1),
    "batch": _ask("batch_get_item", RequestItems={PLAIN: {"Keys": [KEY]}, TABLE: {"Keys": [KEY]}}),
    "transaction": _ask(
        "transact_get_items",
        TransactItems=[{"Get": {"TableName": PLAIN, "Key": KEY}}, {"Get": {"TableName": TABLE, "Key": KEY}}],
    ),
    "transaction, other order": _ask(
        "transact_get_items",
        TransactItems=[{"Get": {"TableName": TABLE, "Key": KEY}}, {"Get": {"TableName": PLAIN, "Key": KEY}}],
    ),
    "put returns the old item": _of_table("put_item", Item=KEY, ReturnValues="ALL_OLD"),
    "delete returns the old item": _of_table("delete_item", Key=KEY, ReturnValues="ALL_OLD"),
    "update returns the new item": _of_table("update_item", **_UPDATE, ReturnValues="ALL_NEW"),
    "update returns what it set": _of_table(
        "update_item",
        Key=KEY,
        UpdateExpression="SET email = if_not_exists(email, :e)",
        ExpressionAttributeValues={":e": {"S": "x"}},
        ReturnValues="UPDATED_NEW",
    ),
    "failed condition": _of_table("put_item", Item=KEY, **_NEVER, **_OLD),
    "failed condition of a transaction": _ask(
        "transact_write_items",
        TransactItems=[
            {"Put": {"TableName": PLAIN, "Item": {"id": {"S": "2"}}}},
            {"ConditionCheck": {"TableName": TABLE, "Key": KEY, **_NEVER, **_OLD}},
        ],
    ),
    "metrics": _of_table("update_item", **_UPDATE, ReturnItemCollectionMetrics="SIZE", ReturnValues="ALL_OLD"),
    "PartiQL": _statement("SELECT * FROM people"),
    "PartiQL, quoted": _statement('SELECT "email" FROM "people" WHERE id = \'1\''),
    "PartiQL, case": _statement("sElEcT email FrOm people WHERE id = '1'"),
    "PartiQL, a part": _statement("SELECT nested.mail FROM people WHERE id = '1'"),
    "PartiQL, an element": _statement("SELECT list[0].mail FROM people WHERE id = '1'"),
    "PartiQL, brackets": _statement("SELECT nested['mail'] FROM people WHERE id = '1'"),
    "PartiQL, two parts of one name": _statement("SELECT nested.mail, list[0].mail FROM people WHERE id = '1'"),
    "PartiQL, an index": _statement("SELECT * FROM people.\"by-city\" WHERE city = 'Berlin'"),
    "PartiQL, alias": _statement("SELECT email AS x FROM people WHERE id = '1'"),
    "PartiQL, alias of the table": _statement("SELECT p.email FROM people p WHERE p.id = '1'"),
    "PartiQL, a function": _statement("SELECT size(email) FROM people WHERE id = '1'"),
    "PartiQL, concatenation": _statement("SELECT email || '' FROM people WHERE id = '1'"),
    "PartiQL, VALUE": _statement("SELECT VALUE email FROM people WHERE id = '1'"),
    "PartiQL, UNPIVOT": _statement("SELECT * FROM UNPIVOT people"),
    "PartiQL, subquery": _statement("SELECT * FROM (SELECT email FROM people)"),
    "PartiQL, comment": _statement("SELECT email /* x */ FROM people WHERE id = '1'"),
    "PartiQL, RETURNING": _statement("UPDATE people SET city = 'Bonn' WHERE id = '1' RETURNING ALL OLD *"),
    "PartiQL, DELETE RETURNING": _statement("DELETE FROM people WHERE id = '1' RETURNING ALL OLD *"),
    "PartiQL, a batch": _ask(
        "batch_execute_statement",
        Statements=[
            {"Statement": "SELECT * FROM plain WHERE id = '1'"},
            {"Statement": "SELECT * FROM people WHERE id = '1'"},
        ],
    ),
    "PartiQL, a transaction": _ask(
        "execute_transaction", TransactStatements=[{"Statement": "SELECT * FROM people WHERE id = '1'"}]
    ),
    "PartiQL, failed condition": _statement("INSERT INTO people VALUE {'id': '1', 'email': 'x'}"),
    "PartiQL, batch, failed condition": _ask(
        "batch_execute_statement",
        Statements=[{"Statement": "UPDATE people SET city = 'B' WHERE id = '1' AND city = 'no'", **_OLD}],
    ),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_masked_attribute_is_never_seen(client: Any, direct: Any, attack: Callable[[Any], Any]) -> None:
    try:
        shown = repr(attack(client))
    except ClientError as error:
        shown = repr(error.response)
    assert SECRET not in shown
    assert INNER not in shown
    assert "example.com" not in shown


def test_items_of_streams_are_masked(gateway: Gateway, issued: Issued, direct: Any) -> None:
    streams = gateway_client(gateway, issued, "dynamodbstreams")
    (stream,) = streams.list_streams(TableName=TABLE)["Streams"]
    shards = streams.describe_stream(StreamArn=stream["StreamArn"])["StreamDescription"]["Shards"]
    records: list[Any] = []
    for shard in shards:
        iterator = streams.get_shard_iterator(
            StreamArn=stream["StreamArn"], ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records += streams.get_records(ShardIterator=iterator)["Records"]
        tampered = iterator.replace(TABLE, PLAIN)
        try:
            records += streams.get_records(ShardIterator=tampered)["Records"]
        except ClientError as error:
            records.append(error.response)
    assert records
    assert "example.com" not in repr(records)


# What the manual says that masking does not prevent (docs/masking.md, docs/security.md).
DOCUMENTED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], bool]]] = {
    "a condition tells whether it is true": (
        _of_table(
            "scan",
            Select="COUNT",
            FilterExpression="contains(email, :e)",
            ExpressionAttributeValues={":e": {"S": "ann@"}},
        ),
        lambda answer: answer["Count"] == 1,
    ),
    "an update copies the value": (
        lambda client: (
            client.update_item(TableName=TABLE, Key=KEY, UpdateExpression="SET note = email"),
            client.get_item(TableName=TABLE, Key=KEY)["Item"]["note"],
        ),
        lambda answer: answer[1] == {"S": SECRET},
    ),
}


@pytest.mark.parametrize(("ask", "holds"), DOCUMENTED.values(), ids=DOCUMENTED.keys())
def test_documented_limits_of_masking(
    client: Any, direct: Any, ask: Callable[[Any], Any], holds: Callable[[Any], bool]
) -> None:
    assert holds(ask(client))
