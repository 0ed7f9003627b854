"""The PostgreSQL listener moves while clients are connected: real workers, a real client."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until, within

from postern.services.server.server_configs import ListenerFields, ServerFields


@pytest.fixture
def moving(target: PostgresServer) -> Iterator[Gateway]:
    running = Gateway()
    try:
        running.start(workers=2)
        running.connection("target", target)
        yield running
    finally:
        running.stop()


def listening(enabled: bool | None = None, listen_address: str | None = None) -> ServerFields:
    return ServerFields({"postgres": ListenerFields(enabled, listen_address)})


def connects(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=30) as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_moved_listener_serves_within_a_second_and_running_sessions_continue(moving: Gateway) -> None:
    port = free_port()
    old, new = moving.url("target"), moving.url("target", port=port)
    configs = moving.services.server_configs
    with psycopg.connect(old) as session:
        moving.call(configs.put(moving.admin, listening(listen_address=f"127.0.0.1:{port}")))
        wait_until(lambda: connects(new), timeout=within(1))
        wait_until(lambda: not connects(old), timeout=within(1))
        assert session.execute("select 2").fetchone() == (2,)
    moving.call(configs.put(moving.admin, listening(enabled=False)))
    wait_until(lambda: not connects(new), timeout=within(1))
    restarted = moving.add_worker("w3")  # comes up without a listener, too
    assert restarted.running
    moving.call(configs.put(moving.admin, listening(enabled=True, listen_address="")))
    wait_until(lambda: connects(old), timeout=within(1))


def test_listener_moved_beyond_loopback_rejects_clients_without_tls(moving: Gateway) -> None:
    port = free_port()
    configs = moving.services.server_configs
    moving.call(configs.put(moving.admin, listening(listen_address=f"0.0.0.0:{port}")))
    wait_until(lambda: connects(moving.url("target", port=port, sslmode="require")), timeout=within(1))
    with pytest.raises(psycopg.OperationalError, match=r"(?i)tls|ssl|encrypt"):
        psycopg.connect(moving.url("target", port=port, sslmode="disable"))
