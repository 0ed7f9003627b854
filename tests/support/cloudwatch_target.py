"""CloudWatch as moto plays it, behind frames, as an agent would reach it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import httpx
from moto.server import ThreadedMotoServer

from postern.protocols.cloudwatch.cloudwatch_endpoints import find_endpoint
from postern.protocols.http.http_frames import (
    REQUEST,
    REQUEST_DATA,
    REQUEST_END,
    RESPONSE_DATA,
    RESPONSE_END,
    HttpFrameReader,
    data_frames,
    end_frame,
    read_request,
    response_frame,
)
from postern.protocols.http.http_heads import RequestHead, ResponseHead

REGION = "eu-central-1"
_KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@dataclass
class MotoCloudwatch:
    url: str
    asked: list[RequestHead] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION, endpoint_url=self.url, **_KEYS)

    def ask(self, head: RequestHead, body: bytes) -> tuple[ResponseHead, bytes]:
        """Send a request as an agent does: for the service that its endpoint tells."""
        endpoint = find_endpoint(head)
        assert endpoint is not None
        self.asked.append(head)
        scope = f"20261130/{REGION}/{endpoint.service}/aws4_request"
        headers = [(name.decode(), value.decode()) for name, value in head.headers]
        signature = f"AWS4-HMAC-SHA256 Credential=test/{scope}, SignedHeaders=host, Signature=x"
        headers.append(("Authorization", signature))
        answer = httpx.request(head.method, f"{self.url}{head.target}", headers=headers, content=body)
        got = tuple((name.lower().encode(), value.encode()) for name, value in answer.headers.items())
        kept = tuple(pair for pair in got if pair[0] not in (b"content-length", b"connection", b"transfer-encoding"))
        return ResponseHead(answer.status_code, kept, len(answer.content)), answer.content

    def carry(self, frames: bytes) -> bytes:
        """Return the response to a request, both as frames."""
        first, *others = HttpFrameReader().feed(frames)
        assert first.kind == REQUEST
        assert others[-1].kind == REQUEST_END
        body = b"".join(frame.payload for frame in others if frame.kind == REQUEST_DATA)
        head, content = self.ask(read_request(first.payload), body)
        return (
            response_frame(first.exchange, head)
            + data_frames(RESPONSE_DATA, first.exchange, content)
            + end_frame(RESPONSE_END, first.exchange)
        )


@contextmanager
def moto_cloudwatch() -> Iterator[MotoCloudwatch]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        httpx.post(f"{url}/moto-api/reset").raise_for_status()  # all servers of a process share what they store
        yield MotoCloudwatch(url)
    finally:
        server.stop()
