"""What the stand-ins have in common: a server over TLS on loopback that can fail in every way, when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.receivers import server_context


@dataclass(frozen=True)
class Request:
    """`path` is decoded, `target` as it came; `body` is its JSON, None without one."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int
    content: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """With that answer."""

    def __init__(self, status: int, content: Any, **headers: str) -> None:
        super().__init__(status)
        self.answer = Answer(status, content, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Fault:
    """What becomes of the next request whose "METHOD path" matches `on`. With `done` it is done before, so that only
    its answer is lost. `status` 0: the connection ends without an answer; `raw` in place of a whole answer."""

    on: str = ""
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Any = None
    raw: bytes | None = None
    done: bool = False
    hangs: bool = False


Handler = Callable[..., Answer]


@dataclass
class Site(ABC):
    """`prefix`: all is below that path."""

    port: int = 0
    prefix: str = ""
    faults: list[Fault] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """As "METHOD path"."""

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}{self.prefix}"

    @abstractmethod
    def routes(self) -> list[tuple[str, Handler]]:
        """(pattern of "METHOD path", what is called with the request and the pattern's groups)"""

    @abstractmethod
    def admit(self, request: Request) -> None:
        """Raises Refused for credentials that do not let in."""

    @abstractmethod
    def unknown(self, request: Request) -> Answer: ...

    def answer(self, request: Request) -> Answer:
        try:
            self.admit(request)
            for pattern, handler in self.routes():
                found = re.fullmatch(pattern, f"{request.method} {request.path.removeprefix(self.prefix)}")
                if found:
                    return handler(request, *found.groups())
        except Refused as refused:
            return refused.answer
        return self.unknown(request)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            while (request := await _request(reader)) is not None:
                self.calls.append(f"{request.method} {request.path}")
                fault = self._fault(self.calls[-1])
                answer = self.answer(request) if fault is None or fault.done else Answer(500)
                if fault is not None and fault.hangs:
                    await reader.read()
                if fault is not None and (fault.raw is not None or not fault.status):
                    writer.write(fault.raw or b"")
                    break
                if fault is not None:
                    answer = Answer(fault.status, fault.content, fault.headers)
                writer.write(_bytes(answer))
                await writer.drain()
        writer.close()

    def _fault(self, call: str) -> Fault | None:
        found = next((fault for fault in self.faults if re.search(fault.on, call)), None)
        if found is not None:
            self.faults.remove(found)
        return found


SiteType = TypeVar("SiteType", bound=Site)


@asynccontextmanager
async def serving(site: SiteType) -> AsyncIterator[SiteType]:
    listening = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=server_context())
    site.port = listening.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        listening.close()


async def _request(reader: asyncio.StreamReader) -> Request | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    lines = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in lines}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = head[0].split(" ")
    parts = urlsplit(target)
    is_json = headers.get("content-type", "").startswith("application/json")
    content = json.loads(body) if body and is_json else None
    return Request(method, target, unquote(parts.path), dict(parse_qsl(parts.query, True)), headers, content)


def _bytes(answer: Answer) -> bytes:
    content = b"" if answer.content is None else json.dumps(answer.content).encode()
    given = {"Content-Type": "application/json", "Content-Length": str(len(content)), **answer.headers}
    if answer.status == 204:
        del given["Content-Length"], given["Content-Type"]
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {answer.status} X\r\n{lines}\r\n".encode() + content
