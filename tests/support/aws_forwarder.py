"""What a gateway and an agent do with a request of AWS, in a few lines of a server on loopback: to try real SDKs with
real servers on the parts that do no I/O.

    client ─▶ AwsRequestCheck ─▶ HttpDialect ─▶ judge ─▶ signer ─▶ target ─▶ HttpDialect ─▶ masks ─▶ client
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from postern.interception.events import Operation, Output, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.aws.aws_json_reader import AwsJsonReader
from postern.protocols.aws.aws_request_check import AwsRequestCheck
from postern.protocols.aws.sigv4_verification import SignatureRefused
from postern.protocols.http.http_frames import RESPONSE_DATA, HttpFrameReader
from postern.protocols.http.http_heads import HOP_BY_HOP, RequestHead, ResponseHead
from postern.protocols.http.wire.http_dialect import HttpDialect
from postern.protocols.wire_base import Wants

Answer = tuple[ResponseHead, bytes]


@dataclass
class Forwarder:
    """`judge` refuses operations, `mask` changes events, `sign` adds the target's credential."""

    check: AwsRequestCheck
    dialect: HttpDialect
    sign: Callable[[RequestHead], RequestHead]
    target: str
    judge: Callable[[Operation], Refuse | None] = lambda operation: None
    mask: Callable[[Rows | Output], None] = lambda event: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    password: str = "password"
    seen: list[str] = field(default_factory=list)
    exchanges: int = 0

    def answer(self, head: RequestHead, body: bytes) -> Answer:
        try:
            identity = self.check.identify(head)
            if (identity.user_name, identity.password.reveal()) != ("anna", self.password):
                return self.check.wrong_password(head)
            accepted = self.check.accept(head, body, self.now())
        except SignatureRefused as refused:
            return self.check.answer(head, refused)
        self.exchanges += 1
        request = self.dialect.read_request(self.exchanges, accepted, body, is_complete=True)
        refusal = request.forced or next(filter(None, map(self.judge, request.operations)), None)
        self.seen += [operation.text for operation in request.operations]
        if refusal is not None:
            return self.dialect.refusal(request, refusal)
        response, content = self._send(self.sign(request.head), body if request.body is None else request.body)
        reader = self.dialect.read_response(request, response, Wants(rows=True, output=True))
        if reader is None:
            return response, content
        assert isinstance(reader, AwsJsonReader)
        frames = HttpFrameReader()
        sent: list[bytes] = []
        cut = len(content) // 2
        for pieces in (reader.begin(), reader.feed(content[:cut]), reader.feed(content[cut:]), reader.finish(())):
            for piece in pieces:
                data = piece
                if isinstance(piece, (Rows, Output)):
                    self.mask(piece)
                    data = piece.encode()  # type: ignore[union-attr]
                assert isinstance(data, bytes)
                sent += [frame.payload for frame in frames.feed(data) if frame.kind == RESPONSE_DATA]
        assert reader.head is not None
        return reader.head, b"".join(sent)

    def _send(self, head: RequestHead, body: bytes) -> Answer:
        parts = urlsplit(self.target)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        try:
            connection.putrequest(head.method, head.target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", parts.netloc)
            for name, value in head.headers:
                connection.putheader(name.decode(), value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            headers = tuple(
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in response.getheaders()
                if name.lower().encode() not in HOP_BY_HOP | {b"content-length"}
            )
            content = response.read()
            return ResponseHead(response.status, headers, len(content)), content
        finally:
            connection.close()


@contextmanager
def forwarding(forwarder: Forwarder) -> Iterator[str]:
    """The address at which a forwarder listens."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = tuple(
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in self.headers.items()
                if name.lower().encode() not in HOP_BY_HOP | {b"content-length", b"host"}
            )
            head = RequestHead("POST", self.path, self.headers["Host"], headers, len(body))
            response, content = forwarder.answer(head, body)
            self.send_response(response.status)
            for name, value in response.headers:
                self.send_header(name.decode(), value.decode("latin-1"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
