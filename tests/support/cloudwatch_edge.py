"""What moto does not have, as AWS documents it: CloudWatch metrics in CBOR (smithy-rpc-v2-cbor), in front of moto, and
a live tail that goes on as long as a test wants."""

from __future__ import annotations

import json
import queue
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zlib import crc32

import botocore.session
import cbor2
from botocore.exceptions import ClientError
from tests.support.cloudwatch_target import MotoCloudwatch

CBOR = "smithy-rpc-v2-cbor"
_METRICS = "/service/GraniteServiceVersion20100801/operation/"
_JSON = "application/json"


@dataclass
class CloudwatchEdge:
    """`operations` are those that were asked for in CBOR. `tail` are the messages of the live tail that is open: None
    ends it, and an exception's name ends it with that."""

    moto: MotoCloudwatch
    url: str = ""
    operations: list[str] = field(default_factory=list)
    tail: queue.Queue[str | Exception | None] = field(default_factory=queue.Queue)

    def answer_metrics(self, operation: str, body: bytes) -> tuple[int, bytes]:
        self.operations.append(operation)
        client = self.moto.client("cloudwatch")
        method = {name: method for method, name in client.meta.method_to_api_mapping.items()}[operation]
        try:
            answer = getattr(client, method)(**(cbor2.loads(body) if body else {}))
        except ClientError as error:
            content = error.response["Error"]
            return 400, cbor2.dumps({"__type": f"com.amazonaws#{content['Code']}", "message": content["Message"]})
        del answer["ResponseMetadata"]
        return 200, cbor2.dumps(answer, datetime_as_timestamp=True)

    def frames_of_tail(self, group: str) -> Iterator[bytes]:
        yield _frame("initial-response", {})
        yield _frame("sessionStart", {"sessionId": "s", "logGroupIdentifiers": [group]})
        while (message := self.tail.get()) is not None:
            if isinstance(message, Exception):
                name = type(message).__name__
                yield _frame(name, {"message": str(message)}, kind="exception")
                return
            result = {"logStreamName": "web", "logGroupIdentifier": group, "message": message, "timestamp": 1}
            yield _frame("sessionUpdate", {"sessionMetadata": {"sampled": False}, "sessionResults": [result]})


def _frame(name: str, content: dict[str, Any], *, kind: str = "event") -> bytes:
    """One frame of an event stream: lengths, their checksum, headers, payload, checksum."""
    texts = {":message-type": kind, f":{kind}-type": name, ":content-type": _JSON}
    headers = b"".join([_header(key, value) for key, value in texts.items()])
    payload = json.dumps(content).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    data = prelude + struct.pack(">I", crc32(prelude)) + headers + payload
    return data + struct.pack(">I", crc32(data))


def _header(name: str, value: str) -> bytes:
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(value)) + value.encode()


@contextmanager
def cloudwatch_edge(moto: MotoCloudwatch) -> Iterator[CloudwatchEdge]:
    edge = CloudwatchEdge(moto)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.startswith(_METRICS):
                assert self.headers["smithy-protocol"] == "rpc-v2-cbor"
                status, content = edge.answer_metrics(self.path.removeprefix(_METRICS), body)
                self.send_response(status)
                self.send_header("smithy-protocol", "rpc-v2-cbor")
                self.send_header("Content-Type", "application/cbor")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                return
            assert self.headers["X-Amz-Target"] == "Logs_20140328.StartLiveTail"
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.amazon.eventstream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for frame in edge.frames_of_tail(json.loads(body)["logGroupIdentifiers"][0]):
                half = len(frame) // 2  # a frame that comes in two pieces
                for piece in (frame[:half], frame[half:]):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """Say nothing: clients that leave are part of the tests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        edge.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield edge
        edge.tail.put(None)
        server.shutdown()


def write_cbor_model(folder: Path) -> Path:
    """Write a model of CloudWatch metrics by which SDKs speak nothing but CBOR, for `AWS_DATA_PATH`."""
    model = botocore.session.get_session().get_component("data_loader").load_service_model("cloudwatch", "service-2")
    model["metadata"] |= {"protocol": CBOR, "protocols": [CBOR]}
    path = folder / "cloudwatch" / model["metadata"]["apiVersion"] / "service-2.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(model))
    return folder
