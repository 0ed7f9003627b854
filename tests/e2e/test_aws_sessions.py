"""boto3 through a gateway × what reviews, limits and rules do to a request: DynamoDB and CloudWatch Logs. How SDKs take
each error, and whether they try again, is what test_features.py does not show."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.e2e.test_waiting_clients import decide, person, reviews_of, waiting
from tests.support.cloudwatch_gateway import cloudwatch_client, cloudwatch_connection
from tests.support.cloudwatch_target import moto_cloudwatch
from tests.support.dynamodb_gateway import direct_client, dynamodb_connection, gateway_client
from tests.support.dynamodb_local import MISSING, dynamodb_local, running_dynamodb_local
from tests.support.gateway import Gateway
from tests.support.promises import IN_TIME, wait_until
from tests.support.shelf import shelve

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import Connection, Toggle
from postern.errors import Malformed
from postern.gateway.clients.failed_logins import MOST_OF_USER
from postern.services.runbooks.runs import RunRequest

SERVICES = ("dynamodb", "cloudwatch")


class AwsTarget:
    """A target, and a request of each kind. `made` asks it without the gateway."""

    def __init__(self, gateway: Gateway, endpoint: str, direct: Any) -> None:
        self.gateway = gateway
        self.endpoint = endpoint
        self.direct = direct

    def connection(self, name: str, **more: Any) -> Connection:
        raise NotImplementedError

    def client(self, issued: Issued, **config: Any) -> Any:
        raise NotImplementedError

    def make(self, client: Any, name: str) -> Any:
        raise NotImplementedError

    def made(self) -> list[str]:
        raise NotImplementedError

    def read(self, client: Any) -> Any:
        raise NotImplementedError


class Dynamodb(AwsTarget):
    def connection(self, name: str, **more: Any) -> Connection:
        return dynamodb_connection(self.gateway, name, self.endpoint, **more)

    def client(self, issued: Issued, **config: Any) -> Any:
        return gateway_client(self.gateway, issued, config=Config(**_retries(config)))

    def make(self, client: Any, name: str) -> Any:
        return client.update_item(
            TableName="made",
            Key={"id": {"S": name}},
            UpdateExpression="ADD times :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    def made(self) -> list[str]:
        items = self.direct.scan(TableName="made")["Items"]
        return [item["id"]["S"] for item in items for _ in range(int(item["times"]["N"]))]

    def read(self, client: Any) -> Any:
        return client.list_tables()


class Cloudwatch(AwsTarget):
    def connection(self, name: str, **more: Any) -> Connection:
        return cloudwatch_connection(self.gateway, name, self.endpoint, **more)

    def client(self, issued: Issued, **config: Any) -> Any:
        config = _retries({"inject_host_prefix": False, **config})
        return cloudwatch_client(self.gateway, issued, config=Config(**config))

    def make(self, client: Any, name: str) -> Any:
        return client.put_log_events(
            logGroupName="made",
            logStreamName="made",
            logEvents=[{"timestamp": int(time.time() * 1000), "message": name}],
        )

    def made(self) -> list[str]:
        found = self.direct.get_log_events(logGroupName="made", logStreamName="made")
        return [event["message"] for event in found["events"]]

    def read(self, client: Any) -> Any:
        return client.describe_log_groups()


def _retries(config: dict[str, Any]) -> dict[str, Any]:
    return {"retries": {"mode": "standard", "total_max_attempts": 3}, **config}


@contextmanager
def _dynamodb(gateway: Gateway) -> Iterator[AwsTarget]:
    with running_dynamodb_local() as url:
        direct = direct_client(url)
        direct.create_table(
            TableName="made",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield Dynamodb(gateway, url, direct)


@contextmanager
def _cloudwatch(gateway: Gateway) -> Iterator[AwsTarget]:
    with moto_cloudwatch() as moto:
        direct = moto.client("logs")
        direct.create_log_group(logGroupName="made")
        direct.create_log_stream(logGroupName="made", logStreamName="made")
        yield Cloudwatch(gateway, moto.url, direct)


class Targets(dict[str, AwsTarget]):
    """Targets by subtype. A test that takes one which is not installed is skipped."""

    def __missing__(self, subtype: str) -> AwsTarget:
        pytest.skip(MISSING)


@pytest.fixture(scope="module")
def targets(gateway: Gateway) -> Iterator[Mapping[str, AwsTarget]]:
    with ExitStack() as stack:
        targets = Targets(cloudwatch=stack.enter_context(_cloudwatch(gateway)))
        if dynamodb_local() is not None:
            targets["dynamodb"] = stack.enter_context(_dynamodb(gateway))
        yield targets


@pytest.fixture(params=SERVICES)
def aws(request: pytest.FixtureRequest, targets: Mapping[str, AwsTarget]) -> AwsTarget:
    return targets[request.param]


@pytest.fixture
def name() -> str:
    return f"aws-{uuid4().hex[:8]}"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture(scope="module")
def dba(gateway: Gateway) -> Principal:
    return person(gateway, f"aws-dba-{uuid4().hex[:8]}@example.com", "admin")


class Held:
    """A request of `ann` that a rule holds for a review."""

    def __init__(self, aws: AwsTarget, name: str, pool: ThreadPoolExecutor, **config: Any) -> None:
        self.aws, self.name, self.gateway = aws, name, aws.gateway
        self.connection = aws.connection(name)
        rule = Rule(RuleType.PATTERN_MATCH, (), name, "four eyes", action=Action.REVIEW)
        fields = {"name": name, "input": (rule,), "connection_ids": (str(self.connection.id),)}
        self.gateway.call(self.gateway.services.guardrails.create(self.gateway.admin, fields))
        self.ann = person(self.gateway, f"{name}@example.com", "dev")
        self.client = aws.client(self.gateway.credential(name, principal=self.ann), **config)
        self.future: Future[Any] = pool.submit(aws.make, self.client, name)
        self.review = waiting(self.gateway, self.ann)

    @property
    def times(self) -> int:
        return self.aws.made().count(self.name)

    def failed(self) -> tuple[str, str, int]:
        """Name and message of the error, and the number of retries."""
        return failure(lambda: self.future.result(60))


def failure(call: Callable[[], Any]) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as caught:
        call()
    response = caught.value.response
    return response["Error"]["Code"], response["Error"]["Message"], response["ResponseMetadata"]["RetryAttempts"]


# Reviews


@pytest.mark.parametrize("choice", [Choice.APPROVED, Choice.REJECTED])
def test_request_is_held_until_the_review_is_decided(
    aws: AwsTarget, name: str, pool: ThreadPoolExecutor, dba: Principal, choice: Choice
) -> None:
    held = Held(aws, name, pool)
    assert held.times == 0
    assert name in held.review.input
    decide(held.gateway, dba, held.review, choice, "because")
    if choice is Choice.APPROVED:
        held.future.result(60)
    else:
        code, message, retries = held.failed()
        assert (code, retries) == ("AccessDeniedException", 0)
        assert "because" in message
    assert held.times == (choice is Choice.APPROVED)


@pytest.mark.slow
def test_client_hears_of_its_request_while_it_is_held(
    aws: AwsTarget, name: str, pool: ThreadPoolExecutor, dba: Principal
) -> None:
    """Longer than it waits for a silent gateway: it sends no second request, so there is no second review."""
    held = Held(aws, name, pool, read_timeout=15)
    time.sleep(35)
    assert not held.future.done()
    decide(held.gateway, dba, held.review, Choice.APPROVED)
    assert held.future.result(60)["ResponseMetadata"]["RetryAttempts"] == 0
    assert held.times == 1
    assert [review.id for review in reviews_of(held.gateway, held.ann)] == [held.review.id]


def test_request_whose_client_gives_up_does_not_run(
    aws: AwsTarget, name: str, pool: ThreadPoolExecutor, dba: Principal
) -> None:
    """The client of this one waits for less than the gateway's first sign of life, and sends it again."""
    held = Held(aws, name, pool, read_timeout=4)
    gateway = held.gateway
    wait_until(lambda: len(reviews_of(gateway, held.ann)) == 2 or None)
    first = next(review for review in reviews_of(gateway, held.ann) if review.id == held.review.id)
    assert wait_until(lambda: gateway.call(gateway.services.reviews.get(dba, str(first.id))).status) is not None
    second = waiting(gateway, held.ann)
    assert second.id != first.id
    decide(gateway, dba, second, Choice.APPROVED)
    held.future.result(60)
    assert held.times == 1
    statuses = {review.id: review.status for review in reviews_of(gateway, held.ann)}
    assert statuses == {first.id: ReviewStatus.WITHDRAWN, second.id: ReviewStatus.APPROVED}


@pytest.mark.parametrize("choice", [Choice.APPROVED, Choice.REJECTED])
def test_session_waits_for_its_review(
    aws: AwsTarget, name: str, pool: ThreadPoolExecutor, dba: Principal, choice: Choice
) -> None:
    gateway = aws.gateway
    aws.connection(name, reviewers=("admin",))
    ann = person(gateway, f"{name}@example.com", "dev")
    client = aws.client(gateway.credential(name, principal=ann))
    future = pool.submit(aws.read, client)
    review = waiting(gateway, ann)
    decide(gateway, dba, review, choice, "not today")
    if choice is Choice.APPROVED:
        assert future.result(60)
        assert gateway.newest(name).review_id == review.id
    else:
        code, message, retries = failure(lambda: future.result(60))
        assert (code, retries) == ("AccessDeniedException", 0)
        assert "not today" in message


# What ends it


def _kill(gateway: Gateway, session: Session, connection: str) -> None:
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))


def _revoke(gateway: Gateway, session: Session, connection: str) -> None:
    gateway.call(gateway.services.credentials.revoke(gateway.admin, connection, str(session.credential_id)))


def _disable(gateway: Gateway, session: Session, connection: str) -> None:
    change = {"access_mode_connect": Toggle.DISABLED}
    gateway.call(gateway.services.connections.update(gateway.admin, connection, change))


@pytest.mark.parametrize(
    ("end", "codes", "reason"),
    [
        (_kill, ["AccessDeniedException"], "killed"),
        (_revoke, ["ExpiredTokenException", "AccessDeniedException"], "revoked"),  # maybe its review ends first
        (_disable, ["ExpiredTokenException", "AccessDeniedException"], "revoked"),
    ],
)
def test_end_of_a_session_is_not_retried(
    aws: AwsTarget, name: str, pool: ThreadPoolExecutor, end: Callable[..., None], codes: list[str], reason: str
) -> None:
    held = Held(aws, name, pool)
    gateway = held.gateway
    session = gateway.newest(name)
    end(gateway, session, name)
    got, _, retries = held.failed()
    assert got in codes
    assert retries == 0
    assert gateway.finished(session.id).metadata["end_reason"] == reason
    assert held.times == 0
    assert len(gateway.sessions(connection=name)) == 1


def test_session_ends_at_the_max_duration(aws: AwsTarget, name: str, pool: ThreadPoolExecutor) -> None:
    gateway = aws.gateway
    aws.connection(name)
    issued = gateway.credential(name)
    gateway.call(gateway.services.connections.update(gateway.admin, name, {"access_max_duration": 3}))
    client = aws.client(issued)
    aws.read(client)
    session = gateway.newest(name)
    assert gateway.finished(session.id).metadata["end_reason"] == "expired"
    aws.read(client)  # in a session of its own
    assert gateway.newest(name).id != session.id


def test_credential_that_has_expired_is_named_so(aws: AwsTarget, name: str) -> None:
    gateway = aws.gateway
    aws.connection(name)
    for seconds in IN_TIME:
        client = aws.client(gateway.credential(name, seconds=seconds))
        with suppress(ClientError):
            aws.read(client)
            break
    session = gateway.newest(name)
    assert gateway.finished(session.id).metadata["end_reason"] == "expired"
    code, message, retries = failure(lambda: aws.read(client))
    assert (code, retries) == ("ExpiredTokenException", 0)
    assert "expired" in message


def test_credential_that_was_revoked_is_named_so(aws: AwsTarget, name: str) -> None:
    gateway = aws.gateway
    aws.connection(name)
    issued = gateway.credential(name)
    client = aws.client(issued)
    aws.read(client)
    gateway.call(gateway.services.credentials.revoke(gateway.admin, name, str(issued.credential.id)))
    code, message, retries = failure(lambda: aws.read(client))
    assert (code, retries) == ("ExpiredTokenException", 0)
    assert "revoked" in message


def test_credential_of_another_connection_reaches_only_that(targets: Mapping[str, AwsTarget], name: str) -> None:
    """A credential of DynamoDB at the port of CloudWatch, and the other way round."""
    for own, other in (("dynamodb", "cloudwatch"), ("cloudwatch", "dynamodb")):
        targets[own].connection(f"{name}-{own}")
        issued = targets[own].gateway.credential(f"{name}-{own}")
        code, message, retries = failure(lambda at=targets[other], by=issued: at.read(at.client(by)))  # type: ignore[misc]
        assert (code, retries) == ("AccessDeniedException", 0)
        assert "subtype" in message


def test_agent_that_is_away_is_worth_another_attempt(aws: AwsTarget, name: str) -> None:
    gateway = aws.gateway
    aws.connection(name)
    client = aws.client(gateway.credential(name))
    gateway.call(gateway.services.connections.update(gateway.admin, name, {"secret": _elsewhere()}))
    code, _, retries = failure(lambda: aws.read(client))
    assert (code, retries) == ("ServiceUnavailable", 2)


def _elsewhere() -> dict[str, Secret]:
    """The secret of a connection whose target does not run."""
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    values = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "eu-central-1", **keys}
    return {f"envvar:{key}": Secret(base64.b64encode(value.encode()).decode()) for key, value in values.items()}


# Who is not let in


def test_wrong_passwords_are_limited_for_a_user_and_an_address(aws: AwsTarget, name: str) -> None:
    gateway = aws.gateway
    aws.connection(name)
    issued, other = gateway.credential(name), gateway.credential(name)
    once = {"retries": {"total_max_attempts": 1}}
    wrong = aws.client(replace(issued, password=Secret("wrong")), **once)
    codes = [failure(lambda: aws.read(wrong))[0] for _ in range(MOST_OF_USER + 3)]
    assert codes == ["UnrecognizedClientException"] * MOST_OF_USER + ["ThrottlingException"] * 3
    assert failure(lambda: aws.read(aws.client(issued, **once)))[0] == "ThrottlingException"
    assert aws.read(aws.client(other))


# What is kept of it


def test_recording_has_no_secret(aws: AwsTarget, name: str) -> None:
    gateway = aws.gateway
    aws.connection(name)
    issued = gateway.credential(name)
    client = aws.client(issued)
    aws.make(client, name)
    session = gateway.newest(name)
    wait_until(lambda: name in gateway.text(session.id) or None)
    records = repr(gateway.records(session.id)).lower()
    assert name in records
    for secret in (issued.password.reveal(), "authorization", "x-amz-security-token", "aws4-hmac", "signature="):
        assert secret.lower() not in records
    assert session.status is SessionStatus.OPEN
    _kill(gateway, session, name)
    finished = gateway.finished(session.id)
    assert finished.end_date is not None
    assert finished.end_date - finished.start_date < timedelta(minutes=5)


# Runbooks

RUNBOOKS = {
    "dynamodb": (
        "aws/made.runbook.txt",
        'update-item --table-name made --key \'{"id": {"S": "{{ .id | pattern "^[a-z0-9-]+$" }}"}}\' '
        '--update-expression \'SET times = :n\' --expression-attribute-values \'{":n": {"N": "1"}}\'',
    ),
    "cloudwatch": (
        "aws/logs.runbook.txt",
        'logs describe-log-streams --log-group-name {{ .id | pattern "^[a-z0-9-]+$" }}',
    ),
}


@pytest.mark.parametrize("service", SERVICES)
def test_runbook_takes_only_values_that_its_pattern_allows(
    gateway: Gateway, targets: Mapping[str, AwsTarget], name: str, service: str
) -> None:
    targets[service].connection(name)
    gateway.call(shelve(gateway.stores, gateway.admin.org_id, dict(RUNBOOKS.values())))
    file, _ = RUNBOOKS[service]

    def run(value: str) -> Session:
        wanted = RunRequest(name, file, parameters={"id": Secret(value)})
        work = gateway.services.runbook_runs.submit(gateway.admin, wanted, source="127.0.0.1", means="login:1")
        return gateway.finished(gateway.call(work).id)

    session = run("made")
    assert session.exit_code == 0, gateway.text(session.id)
    for hostile in ("x' --return-values ALL_OLD '", 'x"}}', "x\ndelete-table --table-name made", "$(id)"):
        with pytest.raises(Malformed):
            run(hostile)
