from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest
from tests.support.answering import Said, answering
from tests.support.aws import SecretsManager, secrets_manager
from tests.support.promises import within

from postern.errors import Unavailable
from postern.integrations.secrets.aws import AwsSecrets

VALUE = "correct horse"


@pytest.fixture(scope="module")
def manager() -> Iterator[SecretsManager]:
    with secrets_manager() as found:
        yield found


@pytest.fixture
def environ(manager: SecretsManager, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in manager.environment.items():
        monkeypatch.setenv(name, value)
    return manager.environment


def fetch(environ: dict[str, str], name: str, key: str = "password") -> str:
    return asyncio.run(AwsSecrets(environ).fetch(name)).value(key).reveal()


def test_secret_is_found_by_name_and_by_arn_in_its_region(environ: dict[str, str], manager: SecretsManager) -> None:
    arn = manager.keep("prod/db", {"password": VALUE, "port": 5432})
    assert fetch(environ, "prod/db") == VALUE
    assert fetch(environ, "prod/db", "port") == "5432"
    assert fetch(environ | {"AWS_REGION": "us-east-1"}, arn) == VALUE


def test_plain_text_or_binary_secret_is_read_as_a_whole(environ: dict[str, str], manager: SecretsManager) -> None:
    manager.keep("plain", VALUE)
    manager.keep("binary", VALUE.encode())
    manager.keep("no-text", b"\xff\xfe")
    assert fetch(environ, "plain", "") == VALUE
    assert fetch(environ, "binary", "") == VALUE
    for name, reason in (("plain", "not a JSON object"), ("no-text", "not text")):
        with pytest.raises(Unavailable, match=reason) as caught:
            fetch(environ, name)
        assert VALUE not in caught.value.message


def test_missing_or_deleted_secret_is_unavailable(environ: dict[str, str], manager: SecretsManager) -> None:
    manager.keep("gone", {"password": VALUE})
    manager.client.delete_secret(SecretId="gone")
    with pytest.raises(Unavailable, match="ResourceNotFoundException"):
        fetch(environ, "none")
    with pytest.raises(Unavailable, match="InvalidRequestException"):
        fetch(environ, "gone")


def test_missing_region_or_credentials_are_reported(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
    with pytest.raises(Unavailable, match="AWS_REGION"):
        fetch({}, "prod/db")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(Unavailable, match="no AWS credentials"):
        fetch(environ, "prod/db")


def test_aws_service_that_does_not_answer_is_unavailable(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", f"http://127.0.0.1:{closed.getsockname()[1]}")
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="failed: EndpointConnectionError"):
            fetch(environ, "prod/db")
        assert time.monotonic() - begun < within(10)


def test_attack_error_text_of_the_aws_service_is_not_repeated(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said(400, {"__type": "AccessDeniedException", "message": f"not {VALUE}"})
    with answering(lambda _asked: said) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", url)
        with pytest.raises(Unavailable, match="AccessDeniedException") as caught:
            fetch(environ, "prod/db")
        assert VALUE not in caught.value.message
