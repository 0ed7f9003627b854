"""A collector of traces on loopback: OTLP over HTTP, read by the protocol's own generated classes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Told:
    """A span as it came; identifiers in hexadecimal."""

    name: str
    trace: str
    id: str
    parent: str
    process: str
    resource: dict[str, object]
    facts: dict[str, object]
    events: list[str]
    failed: bool
    raw: Span


@dataclass
class Collector:
    port: int = 0
    status: int = 200
    delay: float = 0.0
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Told]:
        return [told for body in list(self.bodies) for told in _read(body)]

    def named(self, name: str, **facts: object) -> list[Told]:
        """`facts` with `_` for the dots."""
        return [
            one
            for one in self.spans
            if one.name == name and facts.items() <= {key.replace(".", "_"): v for key, v in one.facts.items()}.items()
        ]

    def until(self, found: Callable[[], list[Told]], seconds: float = 60.0) -> list[Told]:
        end = time.monotonic() + seconds
        while not (spans := found()):
            assert time.monotonic() < end, f"it did not come; there are {[one.name for one in self.spans]}"
            time.sleep(0.05)
        return spans

    def below(self, parent: Told) -> dict[str, Told]:
        return {one.name: one for one in self.spans if one.parent == parent.id and one.trace == parent.trace}


def _read(body: bytes) -> Iterator[Told]:
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = _facts(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Told(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    str(resource.get("postern.process", "")),
                    resource,
                    _facts(span.attributes),
                    [event.name for event in span.events],
                    span.status.code == 2,
                    span,
                )


def _facts(given: object) -> dict[str, object]:
    pairs: list[KeyValue] = list(given)  # type: ignore[call-overload]
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


@contextmanager
def collecting(status: int = 200, delay: float = 0.0) -> Iterator[Collector]:
    made = Collector(status=status, delay=delay)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(made.delay)
            made.paths.append(self.path)
            made.headers.append({name.lower(): value for name, value in self.headers.items()})
            if made.status == 200:
                made.bodies.append(body)
            self.send_response(made.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
