"""Operations that the gateway itself runs, one after another, each of which can depend on the answers before it.
Without I/O.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, NamedTuple

from postern.errors import ProtocolViolation
from postern.protocols.aws.aws_query_in_steps import AwsQueryInSteps
from postern.protocols.cloudwatch.dialect.cloudwatch_operations import CloudwatchService
from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames, WholeResponse, encode_request
from postern.protocols.gateway_queries import Row, TargetRefused

MAX_REPLY = 16 << 20  # bytes
_LOGIN_CODES = frozenset(
    {
        *("UnrecognizedClientException", "InvalidSignatureException", "SignatureDoesNotMatch", "InvalidClientTokenId"),
        *("ExpiredTokenException", "ExpiredToken", "MissingAuthenticationTokenException", "InvalidAccessKeyId"),
    }
)


class Ask(NamedTuple):
    """One operation."""

    service: CloudwatchService
    operation: str
    parameters: dict[str, Any]


Answer = dict[str, Any] | TargetRefused
Steps = Generator[Ask, Answer, None]
"""Yields operations and receives the answer to each."""


def query_in_steps(steps: Steps, rows: list[Row]) -> AwsQueryInSteps[Ask, WholeResponse, Answer]:
    """Return a query of several operations. `steps` adds rows to `rows`.

    An answer is an error where the target has refused: `steps` decides whether it goes on, or raises it.
    """
    return AwsQueryInSteps(
        steps, rows, ResponseFrames(MAX_REPLY), lambda number, ask: encode_request(number, *ask), _read
    )


def _read(response: WholeResponse) -> Answer:
    if response.failure:
        return TargetRefused(response.failure, "08006")
    try:
        value = json.loads(response.body) if response.body else {}
    except (ValueError, RecursionError):
        value = None
    if response.succeeded:
        if not isinstance(value, dict):
            raise ProtocolViolation("the target's response to a query of the catalogue is not valid")
        return value
    head = response.head
    status = "" if head is None else str(head.status)
    content = value if isinstance(value, dict) else {}
    code = str(content.get("__type") or content.get("code") or status).rpartition("#")[2]
    message = str(content.get("message") or content.get("Message") or f"the target answered with status {status}")
    return TargetRefused(message, "28000" if code in _LOGIN_CODES else code, "" if code == status else code)


def read_pages(ask: Ask, key: str, most: int) -> Generator[Ask, Answer, list[dict[str, Any]]]:
    """Return the objects of a list, page by page, `most` at most. Raises TargetRefused."""
    token = "NextToken" if ask.service is CloudwatchService.METRICS else "nextToken"
    found: list[dict[str, Any]] = []
    parameters = ask.parameters
    while True:
        answer = yield Ask(ask.service, ask.operation, parameters)
        if isinstance(answer, TargetRefused):
            raise answer
        items = answer.get(key)
        found += [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        following = answer.get(token)
        if not isinstance(following, str) or following == parameters.get(token) or len(found) >= most:
            return found[:most]
        parameters = {**ask.parameters, token: following}
