"""AWS's SDKs for JavaScript and Go through a gateway: what they read, what is masked and refused, and that no refusal
is tried again. Python's is in the other tests, Java's in tests/protocols/dynamodb/test_dynamodb_on_server.py."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.clients import clean_environment, need
from tests.support.cloudwatch_gateway import cloudwatch_connection
from tests.support.cloudwatch_target import moto_cloudwatch
from tests.support.dynamodb_gateway import direct_client, dynamodb_connection
from tests.support.dynamodb_local import running_dynamodb_local
from tests.support.gateway import Gateway
from tests.support.installed_tools import installed_tool
from tests.support.mongodb_drivers import node

from postern.domain.rules.masking import Strictness
from postern.domain.targets.connection import Connection
from postern.protocols.aws.aws_client import aws_variables
from postern.protocols.clients import NativeCredential
from postern.wiring import tls

pytestmark = pytest.mark.slow

DRIVERS = Path(__file__).with_name("drivers")
EXPECTED = {
    "dynamodb": (
        "item **** Berlin\nscanned 20\nrefused AccessDeniedException 1\nstranger UnrecognizedClientException 1\n"
    ),
    "logs": 'events first {"user":"****"}\nrefused AccessDeniedException 1\n',
}


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[str]:
    with running_dynamodb_local() as url:
        client = direct_client(url)
        client.create_table(
            TableName="people",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        for number in range(20):
            item = {"id": {"S": f"{number}"}, "email": {"S": "ann@example.com"}, "city": {"S": "Berlin"}}
            client.put_item(TableName="people", Item=item)
        yield url


@pytest.fixture(scope="module")
def cloudwatch() -> Iterator[str]:
    with moto_cloudwatch() as moto:
        logs = moto.client("logs")
        logs.create_log_group(logGroupName="shop")
        logs.create_log_stream(logGroupName="shop", logStreamName="web")
        now = int(time.time() * 1000)
        events = [{"timestamp": now + n, "message": text} for n, text in enumerate(("first", '{"user":"ann"}'))]
        logs.put_log_events(logGroupName="shop", logStreamName="web", logEvents=events)
        yield moto.url


def _environment(gateway: Gateway, connection: Connection, service: str, port: int, column: str) -> Mapping[str, str]:
    """Return the variables of a program that may not delete, nor see the column."""
    gateway.guardrail(connection.name, connection, deny="^Delete")
    gateway.masking_rule(
        {
            "name": connection.name,
            "columns": (column,),
            "strictness": Strictness.STRICT,
            "connection_ids": (str(connection.id),),
        }
    )
    issued = gateway.credential(connection.name)
    authority = tls.authority(gateway.settings)
    credential = NativeCredential(issued.credential.username, issued.password, "localhost", port, "", authority)
    extra = {"NODE_EXTRA_CA_CERTS": str(authority), "AWS_EC2_METADATA_DISABLED": "true"}
    return {**clean_environment(), **aws_variables(credential, service), **extra}


@pytest.fixture(params=["dynamodb", "logs"])
def asked(request: pytest.FixtureRequest, gateway: Gateway) -> tuple[str, Mapping[str, str]]:
    """The service, and the variables of a program that asks it."""
    name = f"sdk-{uuid4().hex[:8]}"
    if request.param == "dynamodb":
        connection = dynamodb_connection(gateway, name, request.getfixturevalue("dynamodb"))
        given = ("DYNAMODB", gateway.settings.dynamodb_port, "people.email")
    else:
        connection = cloudwatch_connection(gateway, name, request.getfixturevalue("cloudwatch"))
        given = ("CLOUDWATCH_LOGS", gateway.settings.cloudwatch_port, "shop.message.user")
    return request.param, _environment(gateway, connection, *given)


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    ran = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_javascript(asked: tuple[str, Mapping[str, str]]) -> None:
    service, environment = asked
    program = [node(), str(DRIVERS / "aws_node/aws_tasks.mjs"), str(installed_tool("aws-node")), service]
    assert _run(program, environment) == EXPECTED[service]


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = tmp_path_factory.mktemp("aws-go") / "tasks"
    command = [need("go", "golang-go"), "build", "-o", str(program), "."]
    subprocess.run(command, cwd=DRIVERS / "aws_go", check=True, timeout=600)
    return str(program)


def test_go(asked: tuple[str, Mapping[str, str]], go_program: str) -> None:
    service, environment = asked
    assert _run([go_program, service], environment) == EXPECTED[service]
