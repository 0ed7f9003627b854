"""Started queries that workers tell each other, and what clients are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.support.cloudwatch import PROTOCOLS, parsed, serialized

from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, Unauthenticated, Unavailable
from postern.protocols.clients import NativeCredential
from postern.protocols.cloudwatch.cloudwatch_client import CLIENT
from postern.protocols.cloudwatch.cloudwatch_listener import MAX_TOLD, CloudwatchCredentialScheme, SharedQueryRegistry
from postern.protocols.cloudwatch.cloudwatch_target import service_of
from postern.protocols.http.http_heads import RequestHead


class _Signals:
    """A hub of all workers."""

    connected = True

    def __init__(self) -> None:
        self._handlers: list[Callable[[Mapping[str, str]], None]] = []

    async def publish(self, topic: str, **payload: str) -> None:
        for handler in self._handlers:
            handler(payload)

    def subscribe(self, topic: str, handler: Callable[[Mapping[str, str]], None]) -> None:
        self._handlers.append(handler)


async def test_query_is_known_to_every_worker() -> None:
    signals = _Signals()
    first, second = SharedQueryRegistry(signals), SharedQueryRegistry(signals)
    first.of("ann", "c").add("q", "text")
    first.of("ann", "c").add("long", "x" * (MAX_TOLD + 1))
    await asyncio.sleep(0.01)
    assert second.of("ann", "c").find("q") == "text"
    assert second.of("bob", "c").find("q") == ""
    assert second.of("ann", "c").find("long") == ""
    assert first.of("ann", "c").find("long")


def test_request_without_an_operation_is_for_logs() -> None:
    service = service_of(RequestHead("POST", "/", ""))
    assert (service.prefix, service.signing_name) == ("logs", "logs")


def test_lines_for_clients_name_both_services() -> None:
    credential = NativeCredential(
        user="ann-logs", host="gate", port=7019, database="", password=Secret("pa'ss"), authority=Path("/ca.pem")
    )
    for form in ("env", "profile"):
        text = CLIENT.forms[form].text(credential)
        assert text.count("https://gate:7019") == 2
    assert "pa" in CLIENT.line(credential)
    assert "inject_host_prefix=False" in CLIENT.forms["boto3"].text(credential)
    assert CLIENT.carried_line is not None
    assert CLIENT.carried_line("localhost", 8000, "").endswith("--endpoint-url http://localhost:8000")


@pytest.mark.parametrize(("service", "protocol"), PROTOCOLS)
@pytest.mark.parametrize(
    ("error", "codes"),
    [
        (Unauthenticated("no"), {"UnrecognizedClientException", "InvalidClientTokenId"}),
        (Denied("not allowed <now>"), {"AccessDeniedException", "AccessDenied"}),
        (Unavailable("gone"), {"ServiceUnavailable"}),
    ],
)
def test_errors_of_logins_are_in_the_form_of_the_request(
    service: str, protocol: str, error: PosternError, codes: set[str]
) -> None:
    operation = "DescribeLogGroups" if service == "logs" else "DescribeAlarms"
    answer = CloudwatchCredentialScheme().answer(serialized(service, operation, {}, protocol)[0], error)
    assert answer is not None
    head, body = answer
    assert head.length == len(body)
    assert parsed(service, operation, head, body, protocol)["Error"]["Code"] in codes
