"""The number of store statements of a native login, counted over all that a worker does for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from tests.e2e.test_waiting_clients import person, waiting
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.reviews.review import Choice
from postern.domain.reviews.review_rule import AccessType
from postern.recording.group_commit import GroupCommit
from postern.recording.space import Space
from postern.store.signals import SocketSignals
from postern.wiring import paths
from postern.wiring.app import open_app
from postern.wiring.processes.worker_process import build_worker

MOST = 3
UNDER_A_GRANT = MOST + 1  # what was given is looked for
MANY = 60  # rules


class Worker:
    """A whole worker in this process, with a store of its own, whose statements are heard."""

    def __init__(self, gateway: Gateway) -> None:
        self.statements: list[str] = []
        self._gateway = gateway
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        settings, stack = self._gateway.settings, self._stack
        signals = SocketSignals(paths.signals_socket(settings))
        app = await stack.enter_async_context(open_app(settings, signals))
        commits = GroupCommit(
            settings.recording_sync_interval, Space(settings.home / "spool", settings.recording_least_free)
        )
        stack.callback(commits.close)
        owner = (await app.stores.organisations.default()).id
        segments = app.stores.segments
        worker = build_worker(settings, "here", app.services, segments, commits, b"decoy", owner=owner)
        await signals.start()
        stack.push_async_callback(signals.stop)
        ready = asyncio.Event()
        serving = asyncio.create_task(worker.serve(ready.set))

        async def stop() -> None:
            worker.stop()
            await serving

        stack.push_async_callback(stop)
        await ready.wait()
        event.listen(app.database.engine.sync_engine, "before_cursor_execute", self._note)

    async def stop(self) -> None:
        await self._stack.aclose()

    def _note(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self.statements.append(statement)


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    """Without a worker's process."""
    running = Gateway()
    try:
        running.start(workers=0)
        running.connection("plain", target)
        running.connection("reviewed", target)
        running.connection("granted", target, reviewers=("dba",))
        yield running
    finally:
        running.stop()


@contextmanager
def working(gateway: Gateway) -> Iterator[Worker]:
    worker = Worker(gateway)
    gateway.call(worker.start())
    try:
        yield worker
    finally:
        gateway.call(worker.stop())


def costs(gateway: Gateway, worker: Worker, name: str = "plain") -> list[list[str]]:
    """The statements of each of some logins, from the first byte to an answer of the target. What a worker does on its
    own may be among them."""
    found = []
    for _ in range(5):
        before = len(worker.statements)
        with psycopg.connect(gateway.url(name), autocommit=True) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
            found.append(worker.statements[before:])
        gateway.newest_finished(name)
    return found


@pytest.mark.slow
def test_login_without_a_review_costs_at_most_three_statements(gateway: Gateway) -> None:
    """Both with review rules for other connections and without any."""
    rules = gateway.services.review_rules
    with working(gateway) as worker:
        costs(gateway, worker)  # what holds for a whole organisation is kept from then on
        assert len(min(costs(gateway, worker), key=len)) in range(1, MOST + 1)
        about: dict[str, dict[str, Any]] = {
            "named": {"connections": ("reviewed",)},
            "tagged": {"connection_tags": {"stage": "prod"}},
            "for-others": {"connections": ("plain",), "required_groups": ("dev",)},
        }
        about |= {f"tagged-{number}": {"connection_tags": {"stage": f"test-{number}"}} for number in range(MANY)}
        for name, more in about.items():
            fields = {"name": name, "access_type": AccessType.BOTH, "reviewers_groups": ("dba",), **more}
            gateway.call(rules.create(gateway.admin, fields))
        heard = len(worker.statements)
        costs(gateway, worker)
        wait_until(lambda: any("review_rules" in statement for statement in worker.statements[heard:]))
        assert len(min(costs(gateway, worker), key=len)) in range(1, MOST + 1)


@pytest.mark.slow
def test_login_under_a_grant_costs_at_most_one_more_statement(gateway: Gateway) -> None:
    dba = person(gateway, "dba@example.com", "dba")
    with working(gateway) as worker, ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: psycopg.connect(gateway.url("granted"), autocommit=True).close())
        review = waiting(gateway, gateway.admin)
        gateway.call(gateway.services.reviews.decide(dba, str(review.id), Choice.APPROVED))
        first.result(60)
        costs(gateway, worker, "granted")
        least = min(costs(gateway, worker, "granted"), key=len)
        assert len(least) in range(2, UNDER_A_GRANT + 1), least
