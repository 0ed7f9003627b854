"""Signing at the agent: keys, roles and the agent's own identity, checked by moto, which verifies signatures."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from tests.support.aws import REGION, signed_aws

from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.errors import Unavailable
from postern.integrations.secrets.source import Threads
from postern.protocols.aws.sigv4 import AwsCredentials
from postern.protocols.aws.sigv4_verification import digest_of
from postern.protocols.aws.target.aws_signer import AwsService, AwsSigner, AwsSigners, CurrentKeys, KeySource
from postern.protocols.http.http_heads import RequestHead, first_value
from postern.relay.orders import Order
from postern.relay.relay_target import Start

BODY = b"{}"


def service_of(head: RequestHead) -> AwsService:
    is_stream = first_value(head.headers, b"x-amz-target").startswith(b"DynamoDBStreams")
    return AwsService("streams.dynamodb" if is_stream else "dynamodb", "dynamodb")


def order(**values: str) -> tuple[Order, ResolvedSecrets]:
    identity = ""
    if values.get("AWS_ACCESS_KEY_ID") == "_identity:aws:":
        identity = "aws"
        del values["AWS_ACCESS_KEY_ID"]
    secrets = {name: Secret(value) for name, value in values.items()}
    return (
        Order(
            session_id=UUID(int=1),
            user_id="1",
            user_email="anna@example.com",
            verb=Verb.CONNECT,
            connection_id=UUID(int=2),
            connection="orders",
            type=ConnectionType.CUSTOM,
            subtype="dynamodb",
            command=(),
            secret={},
            start=Start(),
            timeout=5,
        ),
        ResolvedSecrets(secrets, {}, identity=identity),
    )


def signer(**values: str) -> AwsSigner:
    return AwsSigners(service_of).of(*order(**values))


def request(target: str = "DynamoDB_20120810.ListTables") -> RequestHead:
    headers = ((b"content-type", b"application/x-amz-json-1.0"), (b"x-amz-target", target.encode()))
    return RequestHead("POST", "/", "gateway:7018", headers, len(BODY), "", digest_of(BODY))


def sign(signer: AwsSigner, head: RequestHead) -> RequestHead:
    async def run() -> RequestHead:
        await signer.prepare()
        return signer.sign(head)

    return asyncio.run(run())


def send(head: RequestHead) -> tuple[int, bytes]:
    parts = urlsplit(f"http://{head.authority}")
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("POST", "/", BODY, {name.decode(): value.decode() for name, value in head.headers})
    response = connection.getresponse()
    return response.status, response.read()


@pytest.fixture(scope="module")
def aws() -> Iterator[tuple[str, dict[str, str]]]:
    with signed_aws() as found:
        yield found


def test_request_that_is_signed_with_keys_is_accepted(aws: tuple[str, dict[str, str]]) -> None:
    url, keys = aws
    status, body = send(sign(signer(AWS_ENDPOINT_URL=url, **keys), request()))
    assert (status, body) == (200, b'{"TableNames": []}')


def test_wrong_secret_is_refused_by_the_target(aws: tuple[str, dict[str, str]]) -> None:
    url, keys = aws
    status, body = send(sign(signer(AWS_ENDPOINT_URL=url, **{**keys, "AWS_SECRET_ACCESS_KEY": "wrong"}), request()))
    assert (status, b"signature" in body) == (400, True) or status == 403


@pytest.mark.parametrize("is_own", [False, True])
def test_role_is_assumed_with_keys_or_the_agents_identity(
    aws: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    url, keys = aws
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    values = {**keys, "AWS_ENDPOINT_URL": url, "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/reader"}
    if is_own:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", values.pop("AWS_ACCESS_KEY_ID"))
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", values.pop("AWS_SECRET_ACCESS_KEY"))
        values["AWS_ACCESS_KEY_ID"] = "_identity:aws:"
    head = sign(signer(**values), request())
    assert first_value(head.headers, b"x-amz-security-token")
    status, body = send(head)
    # The role has no policy: it is known, its signature is right, and it is not allowed to do this.
    assert (status, b"reader/anna@example.com is not authorized" in body) == (403, True) or b"TableNames" in body


def test_identity_of_the_agent_signs(aws: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    url, keys = aws
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    values = {"AWS_ACCESS_KEY_ID": "_identity:aws:", "AWS_REGION": REGION, "AWS_ENDPOINT_URL": url}
    assert send(sign(signer(**values), request()))[0] == 200


def test_agent_without_an_identity_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unavailable, match="no AWS credentials were found where the agent runs"):
        sign(signer(AWS_ACCESS_KEY_ID="_identity:aws:", AWS_REGION=REGION), request())


KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.mark.parametrize(
    ("values", "target", "endpoint"),
    [
        ({"AWS_REGION": "eu-central-1"}, "DynamoDB_20120810.Scan", "https://dynamodb.eu-central-1.amazonaws.com"),
        ({"AWS_REGION": "us-gov-west-1"}, "DynamoDB_20120810.Scan", "https://dynamodb.us-gov-west-1.amazonaws.com"),
        ({"AWS_REGION": "cn-north-1"}, "DynamoDB_20120810.Scan", "https://dynamodb.cn-north-1.amazonaws.com.cn"),
        ({"AWS_REGION": "eu-central-1"}, "DynamoDBStreams_20120810.GetRecords",
         "https://streams.dynamodb.eu-central-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": "https://vpce-1-a.dynamodb.eu-west-1.vpce.amazonaws.com"}, "DynamoDB_20120810.Scan",
         "https://vpce-1-a.dynamodb.eu-west-1.vpce.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": "http://localhost:8000/", "AWS_REGION": "local-1"}, "DynamoDB_20120810.Scan", ""),
        ({"AWS_ENDPOINT_URL": "http://localhost:8000/", "AWS_REGION": "eu-west-1"}, "DynamoDB_20120810.Scan",
         "http://localhost:8000"),
    ],
)  # fmt: skip
def test_endpoint_is_that_of_service_and_region(values: Mapping[str, str], target: str, endpoint: str) -> None:
    if not endpoint:
        with pytest.raises(Unavailable, match="is not a region"):
            signer(**KEYS, **values)
        return
    found = signer(**KEYS, **values)
    assert found.endpoint(request(target)) == endpoint
    signed = sign(found, request(target))
    assert signed.authority == urlsplit(endpoint).netloc
    assert b"/dynamodb/aws4_request" in first_value(signed.headers, b"authorization")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"AWS_REGION": "eu-central-1"}, "needs the secrets AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (KEYS, "AWS_REGION is missing"),
        ({**KEYS, "AWS_REGION": "eu-central-1.evil.example"}, "is not a region"),
        ({**KEYS, "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "ftp://x"}, "AWS_ENDPOINT_URL must be"),
        ({**KEYS, "AWS_REGION": "eu-central-1", "AWS_ENDPOINT_URL": "https://u:p@x"}, "must not have a user name"),
        ({**KEYS, "AWS_ACCESS_KEY_ID": "a b", "AWS_REGION": "eu-central-1"}, "is not an access key id"),
    ],
)
def test_secret_that_cannot_be_used_is_unavailable(values: Mapping[str, str], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        signer(**values)
    assert "connection 'orders'" in caught.value.message


def test_keys_are_renewed_before_they_expire_and_used_until_then() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    fetched: list[datetime] = []
    works = True

    def fetch(at: datetime) -> CurrentKeys:
        fetched.append(at)
        if not works:
            raise Unavailable("the service does not answer")
        credentials = AwsCredentials(f"AKID{len(fetched)}", Secret("s"))
        return CurrentKeys(credentials, at + timedelta(minutes=55), at + timedelta(minutes=60))

    async def run() -> None:
        nonlocal now, works
        source = KeySource(fetch, Threads(most=1), lambda: now)
        await asyncio.gather(*[source.renew() for _ in range(5)])
        assert (len(fetched), source.current().access_key) == (1, "AKID1")
        now += timedelta(minutes=56)
        await source.renew()
        assert source.current().access_key == "AKID2"
        works = False
        now += timedelta(minutes=56)
        await source.renew()
        assert source.current().access_key == "AKID2"
        now += timedelta(minutes=5)
        with pytest.raises(Unavailable, match="no AWS credentials: the service does not answer"):
            await source.renew()
        with pytest.raises(Unavailable, match="have expired"):
            source.current()

    asyncio.run(run())
