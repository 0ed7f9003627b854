"""Clients that work on, whatever happens around them, and check each answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
from tests.support.promises import wait_until

TABLE = "create table if not exists tokens (client int primary key, token text not null)"
SESSION = 200  # rounds after which a client logs in anew
_WRITE = "insert into tokens values (%s, %s) on conflict (client) do update set token = excluded.token"
_READ = "select token from tokens where client = %s"


@dataclass
class Worker:
    """One client: writes a token of its own, reads it back, and logs in anew when it is cut off."""

    number: int
    url: str
    answered: int = 0
    latest: float = 0.0  # when the last right answer was there
    cut: list[psycopg.Error] = field(default_factory=list)  # in the middle of a session
    refused: list[psycopg.Error] = field(default_factory=list)  # at login
    wrong: list[str] = field(default_factory=list)

    def work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                client = psycopg.connect(self.url, autocommit=True, connect_timeout=60)
            except psycopg.Error as error:
                self.refused.append(error)
                stop.wait(0.1)
                continue
            try:
                with client:
                    for _ in range(SESSION):
                        if stop.is_set():
                            return
                        self._round(client)
            except psycopg.Error as error:
                self.cut.append(error)

    def _round(self, client: psycopg.Connection[tuple[object, ...]]) -> None:
        token = uuid4().hex
        client.execute(_WRITE, [self.number, token])
        for query, values in ((_READ, [self.number]), ("select %s", [token])):
            found = client.execute(query, values).fetchall()
            if found != [(token,)]:
                self.wrong.append(f"client {self.number} wrote {token} and was answered {found}")
        self.answered, self.latest = self.answered + 1, time.monotonic()


@dataclass
class Crowd:
    """Some of them at once, each by a credential of its own."""

    workers: list[Worker]

    def recovered(self, within: float) -> float:
        """Seconds until each had a right answer after this moment."""
        began = time.monotonic()
        wait_until(lambda: all(worker.latest > began + 0.01 for worker in self.workers), within)
        return max(worker.latest for worker in self.workers) - began

    def forget(self) -> tuple[list[psycopg.Error], list[psycopg.Error]]:
        """Who was cut off, and who was refused, since the last time."""
        cut, refused = [], []
        for worker in self.workers:
            cut += worker.cut
            refused += worker.refused
            worker.cut, worker.refused = [], []
        return cut, refused

    @property
    def wrong(self) -> list[str]:
        return [text for worker in self.workers for text in worker.wrong]


@contextmanager
def at_work(urls: list[str], server: str) -> Iterator[Crowd]:
    """`server` is the target's own DSN. They have stopped when this ends."""
    with psycopg.connect(server, autocommit=True) as direct:
        direct.execute(TABLE)
    crowd = Crowd([Worker(number, url) for number, url in enumerate(urls)])
    stop = threading.Event()
    threads = [threading.Thread(target=worker.work, args=(stop,)) for worker in crowd.workers]
    for thread in threads:
        thread.start()
    try:
        crowd.recovered(60)
        yield crowd
    finally:
        stop.set()
        for thread in threads:
            thread.join(100)
    assert not [thread for thread in threads if thread.is_alive()], "a client hangs"
