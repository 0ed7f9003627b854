"""The services behind one connection of DynamoDB. Streams have an address of their own."""

from __future__ import annotations

from typing import Final

from postern.protocols.aws.aws_json import read_target
from postern.protocols.aws.target.aws_signer import AwsService
from postern.protocols.dynamodb.queries.dynamodb_requests import STREAMS
from postern.protocols.http.http_heads import RequestHead

_ITEMS: Final = AwsService("dynamodb", "dynamodb")
_STREAMS: Final = AwsService("streams.dynamodb", "dynamodb")


def service_of(head: RequestHead) -> AwsService:
    """Return the service that a request is for."""
    target = read_target(head)
    return _STREAMS if target is not None and target.service == STREAMS else _ITEMS
