"""Measures a worker's own code for each HTTP request: no sockets, no application, no other process.

    python -m bench.http_own_code              # --profile PATH: where the time goes, by cProfile (plain Python only)

The gate gets the bytes that a client would send, as one read each, and the connection to the application those of its
response. In between is all that a request passes: listener, session, link, wire, recording, the agent's connection. The
time is the process's own (user and system), the least of several rounds; see `bench.own_code`. Paths differ from
request to request, so no cache of whole requests can help.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import click
import uvloop
from tests.support.http_site import AUTHORIZED, HttpSite

from bench import machine
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.masking import DEFAULT_TYPES
from postern.domain.rules.permit import Permit
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Event
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.http.http_heads import RequestHead
from postern.protocols.http.http_rewriting import HttpOrigin
from postern.protocols.http.target.http1_upstream import Http1Upstream
from postern.protocols.http.target.http_access import HttpAccess
from postern.protocols.http.target.http_base_path import HttpBasePath
from postern.protocols.http.target.http_target_link import HttpTargetLink
from postern.protocols.http.target.http_upstream import Upstream
from postern.protocols.http.target.request_signer import HeaderSigner
from postern.recording.group_commit import GroupCommit
from postern.recording.record_format import Header
from postern.recording.recorder import Recorder
from postern.recording.segments import Segments
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target

REQUESTS, ROUNDS = 1_000, 9
_NEVER = 1e9  # seconds between syncs of the recording, which a worker makes in another thread
_BODY = b'{"items":[' + b",".join(b'{"id":%d,"city":"Utrecht"}' % number for number in range(20)) + b"]}"
_RESPONSE = (
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 30 Nov 2026 11:38:00 GMT\r\nContent-Type: application/json"
    b'\r\nContent-Length: %d\r\nConnection: keep-alive\r\nETag: "65f1"\r\nAccept-Ranges: bytes\r\n\r\n%b'
) % (len(_BODY), _BODY)
RULES = (
    Rule(RuleType.DENY_WORDS_LIST, words=("drop table", "truncate")),
    Rule(RuleType.PATTERN_MATCH, pattern_regex=r"(?i)delete\s+from\s+\w+\s*;?\s*$"),
)
_CLIENTS = {
    "wrk": b"",
    "browser": b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 "
    b'Safari/537.36\r\nsec-ch-ua: "Chromium";v="142"\r\nsec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: "Linux"\r\n'
    b"Accept: application/json\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n"
    b"Referer: http://shop.gateway.example/orders\r\nAccept-Encoding: gzip, deflate, br\r\nAccept-Language: nl,en;q=0.8"
    b"\r\nCookie: theme=dark; session=9f8e7d6c5b4a\r\n",
}


class _Socket(asyncio.Transport):
    """A transport without a socket. `on_write` gets what its protocol writes."""

    def __init__(self, on_write: Callable[[bytes], None]) -> None:
        super().__init__()
        self.protocol: Any = None
        self._on_write = on_write
        self._is_closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast("asyncio.BaseProtocol", self.protocol)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 4711) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._on_write(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


class _Recording:
    """The recording of one session, on disk."""

    truncated = False

    def __init__(self, home: Path, session: UUID) -> None:
        self._commits = GroupCommit(_NEVER)
        header = Header(session, uuid4(), "httpproxy", "c", "u", datetime.now(UTC))
        segments = Segments(self._commits, home, "w", header, most=1 << 40, longest=1 << 60)
        self._recorder = Recorder(segments, 1 << 40)

    @property
    def size(self) -> int:
        return self._recorder.size

    def record(self, events: list[Event], micros: int) -> None:
        self._recorder.record_all(events, micros)

    async def finish(self, reason: str, micros: int, *, soon: bool) -> None:
        self._commits.close()


class _Site(HttpSite):
    """A gate with a recording, and the agent's connection to an application that answers at once."""

    def __init__(self, home: Path, interceptors: Callable[[], list[Interceptor]]) -> None:
        super().__init__(cast("Any", None))
        self._interceptors = interceptors
        self.engine._parts = _with(self.engine._parts, recording=lambda session, *_: _Recording(home, session))

    def _pipeline(self, permit: Permit, view: SessionView) -> Pipeline:
        return Pipeline(self._interceptors(), view)

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        loop = asyncio.get_running_loop()
        socket = _Socket(lambda data: cast("None", loop.call_soon(upstream.data_received, _RESPONSE)))
        upstream = Http1Upstream()
        socket.set_protocol(cast("asyncio.BaseProtocol", upstream))
        upstream.connection_made(socket)
        origin = HttpOrigin("http", "app.internal", 8080)
        access = HttpAccess("http", "app.internal", 8080, origin.authority, origin)

        async def connect(head: RequestHead) -> Upstream:
            raise NotImplementedError

        base = HttpBasePath("", str(origin))
        link = HttpTargetLink(upstream, connect, HeaderSigner(()), access.authority, base, timeout=10)
        stream = StreamHandshake()
        link.set_protocol(stream)
        stream.connection_made(cast("asyncio.Transport", link))
        return Target(stream, {"scheme": "http", "authority": origin.authority})


def _with(parts: Any, **changes: Any) -> Any:
    from dataclasses import replace

    return replace(parts, **changes)


class _Client:
    """A client that sends its next request when the response to the last one is complete."""

    def __init__(self, site: HttpSite, headers: bytes) -> None:
        self._headers = headers
        self._answered = asyncio.Event()
        self._received = 0
        self._socket = _Socket(self._receive)
        accepted = site.accept()
        self._socket.set_protocol(accepted)
        accepted.connection_made(self._socket)

    def _receive(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(data.decode("latin-1"))
        self._received += data.count(b"}]}")
        if self._received == self._left:
            self._answered.set()
        elif data.endswith(b"}]}"):
            self._send()

    def _send(self) -> None:
        path = b"/orders?page=%d" % self._received
        head = b"GET %b HTTP/1.1\r\nHost: shop.gateway.example\r\n%b%b\r\n" % (path, self._headers, AUTHORIZED)
        asyncio.get_running_loop().call_soon(self._socket.protocol.data_received, head)

    async def ask(self, requests: int) -> None:
        self._received, self._left = 0, requests
        self._answered.clear()
        self._send()
        await self._answered.wait()

    def close(self) -> None:
        self._socket.close()


async def _measure(interceptors: Callable[[], list[Interceptor]], headers: bytes, profile: str = "") -> float:
    """Return the microseconds of one request in the fastest round."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        site = _Site(Path(home), interceptors)
        client = _Client(site, headers)
        await client.ask(REQUESTS)
        rounds: list[float] = []
        profiler = cProfile.Profile() if profile else None
        for _ in range(ROUNDS):
            if profiler is not None:
                profiler.enable()
            started = time.process_time_ns()
            await client.ask(REQUESTS)
            rounds.append((time.process_time_ns() - started) / REQUESTS / 1_000)
            if profiler is not None:
                profiler.disable()
        if profiler is not None:
            profiler.dump_stats(profile)
        client.close()
        await site.stopped()
    return min(rounds)


WAYS: dict[str, Callable[[], list[Interceptor]]] = {
    "recorded": list,
    "recorded, guardrail of two text rules": lambda: [
        GuardrailInterceptor((Guardrail(uuid4(), uuid4(), "bench", input=RULES),), None)
    ],
    "recorded, masking of default types": lambda: [Masking(DEFAULT_TYPES)],
}


@click.command(help=__doc__)
@click.option("--profile", default="", help="Write a profile of recorded requests to this file.")
@click.option("--only", type=click.Choice(list(WAYS)))
def main(profile: str, only: str | None) -> None:
    gc.disable()
    click.echo(f"hot path {'compiled by mypyc' if machine.is_compiled() else 'plain Python'}\n")
    click.echo("| µs for each request | " + " | ".join(_CLIENTS) + " |\n|---" + "|---:" * len(_CLIENTS) + "|")
    for way, interceptors in WAYS.items():
        if only not in (None, way):
            continue
        cells = [uvloop.run(_measure(interceptors, headers, profile)) for headers in _CLIENTS.values()]
        click.echo(f"| {way} | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
