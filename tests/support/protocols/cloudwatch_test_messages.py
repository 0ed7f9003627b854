"""Requests and responses of CloudWatch Logs as frames, as a listener and an agent write them."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from postern.protocols.cloudwatch.queries.cloudwatch_messages import ResponseFrames
from postern.protocols.cloudwatch.wire.cloudwatch_dialect import CloudwatchDialect
from postern.protocols.cloudwatch.wire.started_queries import StartedQueries
from postern.protocols.http import http_frames as f
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.wire.http_wire import HttpWire


def cloudwatch_wire() -> HttpWire:
    """Make the wire of one link."""
    return HttpWire(CloudwatchDialect(StartedQueries()), "localhost")


def request(name: str, number: int = 1, **parameters: Any) -> bytes:
    body = json.dumps(parameters, ensure_ascii=False).encode()
    headers = (
        (b"content-type", b"application/x-amz-json-1.1"),
        (b"x-amz-target", f"Logs_20140328.{name}".encode()),
        (b"accept-encoding", b"identity"),
    )
    head = RequestHead("POST", "/", "localhost", headers, len(body), "", sha256(body).hexdigest())
    frames = f.request_frame(number, head) + f.data_frames(f.REQUEST_DATA, number, body)
    return frames + f.end_frame(f.REQUEST_END, number)


def response(content: Any, number: int = 1, *, status: int = 200) -> bytes:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    head = f.response_frame(
        number, ResponseHead(status, ((b"content-type", b"application/x-amz-json-1.1"),), len(body))
    )
    return head + f.data_frames(f.RESPONSE_DATA, number, body) + f.end_frame(f.RESPONSE_END, number)


def error(code: str, message: str, number: int = 1) -> bytes:
    return response({"__type": code, "message": message}, number, status=400)


def bodies(data: bytes) -> bytes:
    """The bodies of complete responses, one after another."""
    return b"\n".join(json.dumps(json.loads(each.body)).encode() for each in ResponseFrames().feed(data))
