"""Answers to HTTP-01 challenges (RFC 8555 section 8.3): files in a folder, which a small listener or the API serves."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from postern.errors import Unavailable

log = logging.getLogger(__name__)

PATH = "/.well-known/acme-challenge/"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_LINE = re.compile(rb"GET ([!-~]{1,512}) HTTP/1\.[01]\r\n")
_PATIENCE = 10.0  # seconds for a request
_MOST = 8 * 1024  # bytes of a request


def read_answer(folder: Path, token: str) -> str | None:
    """Return the answer to the challenge; None if there is none."""
    if not _TOKEN.fullmatch(token):
        return None
    try:
        return (folder / token).read_text()
    except OSError:
        return None


@contextmanager
def answering(folder: Path, answers: Mapping[str, str]) -> Iterator[None]:
    """Answer the challenges, by their tokens, while the block runs. Raises Unavailable for a token that RFC 8555 does
    not allow: it would name a file."""
    if wrong := [token for token in answers if not _TOKEN.fullmatch(token)]:
        raise Unavailable(f"the ACME server sent a challenge with the token {wrong[0][:50]!r}, which is not allowed")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        for token, answer in answers.items():
            with open(os.open(folder / token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(answer)
        yield
    finally:
        for token in answers:
            (folder / token).unlink(missing_ok=True)


@asynccontextmanager
async def challenge_listener(folder: Path, host: str, port: int) -> AsyncIterator[None]:
    """Serve the answers at a port of their own while the block runs; port 0: they are served elsewhere. Raises
    Unavailable if the port cannot be used."""
    if not port:
        yield
        return

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE):
                writer.write(_respond(folder, await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(serve, host, port, limit=_MOST)
    except OSError as error:
        raise Unavailable(
            f"challenges of the ACME server cannot be answered: port {port} of {host} cannot be used "
            f"({error.strerror}); set POSTERN_ACME_HTTP_PORT to one to which port 80 is forwarded"
        ) from None
    async with server:
        yield


def _respond(folder: Path, request: bytes) -> bytes:
    line = _LINE.match(request)
    path = line[1].decode() if line else ""
    answer = read_answer(folder, path.removeprefix(PATH)) if path.startswith(PATH) else None
    status, body = ("200 OK", answer.encode()) if answer is not None else ("404 Not Found", b"")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
