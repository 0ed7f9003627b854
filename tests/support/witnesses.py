"""Clients that note every byte that a gateway showed them, and look for it in the recordings afterwards."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import httpx
from tests.support import wire
from tests.support.promises import wait_until

ROUNDS = 60  # statements after which a client logs in anew
PAUSE = 0.03  # seconds between two of them, so that what is to be checked stays little


@dataclass
class Seen:
    """What one session showed. `name` is its application_name or correlation id; `shown` is every cell that arrived,
    the last one as far as it did; `asked` is what was answered in full; `error` is how it ended, as it was told."""

    name: str
    shown: list[bytes] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    error: str = ""


def cells(received: bytes) -> tuple[list[bytes], str]:
    """The cells of all DataRows, that of the last one as far as it came; and the text of an error among them."""
    found, error, at = [], "", 0
    while at + 5 <= len(received):
        tag, size = received[at : at + 1], struct.unpack_from("!I", received, at + 1)[0]
        body = received[at + 5 : at + 1 + size]
        at += 1 + size
        if tag == b"D" and body[6:]:
            found.append(body[6:])  # one column: count and length are before it
        if tag == b"E":
            error = body.replace(b"\0", b" ").decode(errors="replace")
    return found, error


@dataclass
class Witness:
    """A PostgreSQL client made of a socket. `size` is about how many bytes an answer has."""

    number: int
    url: str
    size: int = 2000
    seen: list[Seen] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # at login
    latest: float = 0.0  # when an answer was last there in full

    def work(self, stop: threading.Event) -> None:
        chance = random.Random(self.number)
        while not stop.is_set():
            one = Seen(f"w{self.number}-{len(self.seen)}-{uuid4().hex[:12]}")
            try:
                with self._log_in(one.name) as stream:
                    self.seen.append(one)
                    self._talk(stream, one, chance, stop)
            except AssertionError as error:
                self.refused.append(str(error))
            except OSError as error:
                one.error = one.error or str(error)
            stop.wait(0.05)

    def _log_in(self, name: str) -> socket.socket:
        parts = urlsplit(self.url)
        stream = wire.connect(parts.port or 0, timeout=60)
        try:
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            wire.log_in(stream, user, password, database="postgres", application_name=name)
        except BaseException:
            stream.close()
            raise
        return stream

    def _talk(self, stream: socket.socket, one: Seen, chance: random.Random, stop: threading.Event) -> None:
        for number in range(ROUNDS):
            if stop.is_set():
                stream.sendall(wire.message(b"X"))
                return
            statement = self._statement(f"{one.name}-{number}", chance)
            stream.sendall(wire.message(b"Q", statement.encode() + b"\0"))
            received = b""
            try:
                while not received.endswith(b"Z\0\0\0\5I"):
                    data = stream.recv(chance.choice((100, 3000, 65536)))
                    if not data:
                        raise ConnectionResetError("the stream ended")
                    received += data
            finally:
                found, error = cells(received)
                one.shown += found
                one.error = one.error or error
            one.asked.append(statement)
            self.latest = time.monotonic()
            time.sleep(PAUSE)
        stream.sendall(wire.message(b"X"))

    def _statement(self, key: str, chance: random.Random) -> str:
        rows = chance.randint(1, 5)
        times = max(1, self.size // rows // 32)
        return f"select 'of {key} ' || n || repeat(md5('{key}' || n), {times}) from generate_series(1, {rows}) n"


@dataclass
class Runner:
    """Runs scripts by the API, and notes what was answered."""

    api: httpx.Client
    connection: str
    seen: list[Seen] = field(default_factory=list)
    latest: float = 0.0

    def work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            one = Seen(f"r{uuid4().hex}")
            wanted = f"{one.name} {sha256(one.name.encode()).hexdigest()}"
            body = {"connection": self.connection, "script": f"select '{wanted}'", "correlation_id": one.name}
            with suppress(httpx.HTTPError):
                answer = self.api.post("/sessions", json=body, timeout=60)
                if answer.is_success and wanted in answer.json()["output"]:
                    one.shown.append(wanted.encode())
                    one.asked.append(body["script"])
                    self.seen.append(one)
                    self.latest = time.monotonic()
            stop.wait(0.1)


@dataclass
class Crowd:
    """Some of them at once."""

    members: list[Witness | Runner]

    def recovered(self, within: float) -> None:
        """Each had an answer that was asked for after this moment."""
        began = time.monotonic()
        wait_until(lambda: all(one.latest > began + 0.05 for one in self.members), within)

    @property
    def seen(self) -> list[Seen]:
        return [one for member in self.members for one in member.seen]


@contextmanager
def at_work(*members: Witness | Runner) -> Iterator[Crowd]:
    """They have stopped when this ends."""
    crowd, stop = Crowd(list(members)), threading.Event()
    threads = [threading.Thread(target=one.work, args=(stop,)) for one in members]
    for thread in threads:
        thread.start()
    try:
        crowd.recovered(60)
        yield crowd
    finally:
        stop.set()
        for thread in threads:
            thread.join(130)
    assert not [thread for thread in threads if thread.is_alive()], "a client hangs"
