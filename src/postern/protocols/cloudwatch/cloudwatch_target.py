"""The services behind one connection of CloudWatch, for the agent, which signs each request for one of them."""

from __future__ import annotations

from typing import Final

from postern.protocols.aws.target.aws_signer import AwsService
from postern.protocols.cloudwatch.cloudwatch_endpoints import find_endpoint
from postern.protocols.http.http_heads import RequestHead

_LOGS: Final = AwsService("logs", "logs")


def service_of(head: RequestHead) -> AwsService:
    """Return the service that a request is for; that of logs for a request without an operation."""
    endpoint = find_endpoint(head)
    return _LOGS if endpoint is None else AwsService(endpoint.host, endpoint.service)
