"""Which of AWS's endpoints a request of CloudWatch goes to, and for which service it is signed.

One connection serves two services. Which one follows from the request itself, so that gateway and agent need to tell
each other nothing:

    X-Amz-Target: Logs_20140328.OP                           logs         logs.REGION.amazonaws.com
      … OP is StartLiveTail or GetLogObject                  logs         stream-logs.REGION.amazonaws.com
    X-Amz-Target: GraniteServiceVersion20100801.OP           monitoring   monitoring.REGION.amazonaws.com
    /service/GraniteServiceVersion20100801/operation/OP      monitoring   monitoring.REGION.amazonaws.com
    Action=OP in a form or a query                           monitoring   monitoring.REGION.amazonaws.com

The gateway forwards a request only if it is exactly one of these (`cloudwatch_requests`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from postern.protocols.http.http_heads import RequestHead, first_value, values_of

LOGS_TARGET: Final = "Logs_20140328"
METRICS_TARGET: Final = "GraniteServiceVersion20100801"
STREAMING: Final = frozenset({"StartLiveTail", "GetLogObject"})

_PATH: Final = re.compile(r"/service/([A-Za-z0-9_]+)/operation/([A-Za-z0-9]+)")
_TARGET: Final = re.compile(r"([A-Za-z0-9_]+)\.([A-Za-z0-9]+)")
_FORM: Final = b"application/x-www-form-urlencoded"


class RequestForm(StrEnum):
    """How a request names its operation, which decides the codec of both bodies."""

    JSON = "json"
    CBOR = "cbor"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """What the head of a request tells. `name` is empty where the body has it."""

    form: RequestForm
    target: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class CloudwatchEndpoint:
    """`service` is the name in signatures, `host` the first part of the endpoint's name."""

    service: str
    host: str

    def authority(self, region: str) -> str:
        suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        return f"{self.host}.{region}.{suffix}"


def name_operation(head: RequestHead) -> NamedOperation | None:
    """Return how a head names its operation; None if it does not, or in several ways."""
    targets = values_of(head.headers, b"x-amz-target")
    path = _PATH.fullmatch(head.path)
    content_type = first_value(head.headers, b"content-type").partition(b";")[0].strip().lower()
    is_form = content_type == _FORM or (head.method == "GET" and bool(head.query))
    if len(targets) + (path is not None) + is_form != 1:
        return None
    if targets:
        match = _TARGET.fullmatch(targets[0].decode("latin-1"))
        return None if match is None else NamedOperation(RequestForm.JSON, match[1], match[2])
    if path is not None:
        return NamedOperation(RequestForm.CBOR, path[1], path[2])
    return NamedOperation(RequestForm.QUERY, METRICS_TARGET)


def find_endpoint(head: RequestHead) -> CloudwatchEndpoint | None:
    """Return the endpoint of a request that the gateway has forwarded; None if it is for neither service."""
    named = name_operation(head)
    if named is not None and named.target == LOGS_TARGET:
        return CloudwatchEndpoint("logs", "stream-logs" if named.name in STREAMING else "logs")
    if named is not None and named.target == METRICS_TARGET:
        return CloudwatchEndpoint("monitoring", "monitoring")
    return None
