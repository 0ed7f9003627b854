"""Access rules and live sessions: a user who loses access is disconnected within two seconds, on every path."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.e2e.test_limits import cut
from tests.support import wire
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until, within
from tests.support.world import CLIENT

from postern.cli.terminal.forward import PortForward, StreamRequest
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.secret import Secret
from postern.services.admission import REFUSED_LOGIN
from postern.transport.stream import Stream
from postern.wiring import tls


@pytest.fixture(scope="module")
def ruled(target: PostgresServer) -> Iterator[Gateway]:
    """A gateway of its own, with the connections `target` and `other`."""
    running = Gateway()
    try:
        running.start()
        running.connection("target", target)
        running.connection("other", target)
        yield running
    finally:
        running.stop()


@pytest.fixture
def ann(ruled: Gateway) -> Iterator[Principal]:
    """Of the group dba, which a rule lets use `target`; the feature is on."""
    services, admin = ruled.services, ruled.admin
    fields = {"email": "ann@example.com", "groups": ("dba",), "status": PrincipalStatus.ACTIVE}
    made = ruled.call(services.users.create(admin, fields)).principal
    rule = {"name": "for dba", "groups": ("dba",), "connections": ("target",)}
    ruled.call(services.access_rules.create(admin, rule))
    ruled.call(services.features.put(admin, "access-control", enabled=True))
    yield made
    ruled.call(services.features.put(admin, "access-control", enabled=False))
    ruled.call(services.access_rules.remove(admin, "for dba"))
    ruled.call(services.users.remove(admin, "ann@example.com"))


def connected(gateway: Gateway, who: Principal, connection: str = "target") -> psycopg.Connection:
    made = psycopg.connect(gateway.url(issued=gateway.credential(connection, principal=who)), autocommit=True)
    made.execute("select 1")
    return made


def test_changed_access_rule_ends_only_sessions_of_users_it_no_longer_names(ruled: Gateway, ann: Principal) -> None:
    with connected(ruled, ann) as mine, connected(ruled, ruled.admin) as other:
        change = {"groups": ("sre",)}
        ruled.call(ruled.services.access_rules.update(ruled.admin, "for dba", change))
        assert "your access to connection 'target' has ended" in cut(mine)
        assert other.execute("select 1").fetchone() == (1,)


def test_removing_the_users_groups_ends_the_session(ruled: Gateway, ann: Principal) -> None:
    with connected(ruled, ann) as mine:
        ruled.call(ruled.services.users.update(ruled.admin, ann.email, {"groups": ("sre",)}))
        assert "has ended" in cut(mine)


def test_deleting_a_group_ends_sessions_of_its_members(ruled: Gateway, ann: Principal) -> None:
    with connected(ruled, ann) as mine:
        ruled.call(ruled.services.groups.remove(ruled.admin, "dba"))
        assert "has ended" in cut(mine)


def test_enabling_access_control_ends_sessions_without_an_access_rule(ruled: Gateway, ann: Principal) -> None:
    services = ruled.services
    ruled.call(services.features.put(ruled.admin, "access-control", enabled=False))
    with connected(ruled, ann, "other") as mine, connected(ruled, ann) as allowed:
        ruled.call(services.features.put(ruled.admin, "access-control", enabled=True))
        assert "has ended" in cut(mine)
        assert allowed.execute("select 1").fetchone() == (1,)


def test_login_to_a_hidden_connection_gets_the_error_of_a_wrong_password(ruled: Gateway, ann: Principal) -> None:
    issued = ruled.credential("target", principal=ann)
    ruled.call(ruled.services.access_rules.update(ruled.admin, "for dba", {"connections": ()}))
    with pytest.raises(psycopg.OperationalError, match=REFUSED_LOGIN) as refused:
        psycopg.connect(ruled.url(issued=issued))
    assert "target" not in str(refused.value).replace("target_session", "")


class Watched(PortForward):
    """It tells when the gateway has taken a client, whose caller it knows then."""

    def __init__(self, reached: StreamRequest) -> None:
        super().__init__(reached, lambda _: None)
        self.taken = threading.Event()

    async def open(self, far: asyncio.Protocol, more: Mapping[str, Any] | None = None) -> Stream:
        stream = await super().open(far, more)
        self.taken.set()
        return stream


def login_token(gateway: Gateway, who: Principal) -> Secret:
    account = gateway.call(gateway.services.users.get(gateway.admin, who.email))
    return gateway.call(gateway.services.logins.open(account, LoginMethod.LOCAL, CLIENT)).token


@contextmanager
def tunnelled(
    gateway: Gateway, who: Principal, connection: str = "target", protocol: str = "postgres"
) -> Iterator[tuple[int, Watched]]:
    """Yield a local port whose clients reach a connection as somebody who is logged in, and what carries them."""
    authority = tls.authority(gateway.settings)
    assert authority is not None
    url = f"wss://localhost:{gateway.settings.tunnel_port}"
    token = login_token(gateway, who)
    forward = Watched(StreamRequest(url, token, connection, authority.read_text(), protocol=protocol))
    port = gateway.call(forward.start(0))
    yield port, forward
    gateway.call(forward.stop())


def test_tunnelled_session_ends_when_its_access_is_removed(ruled: Gateway, ann: Principal) -> None:
    with tunnelled(ruled, ann) as (port, _):
        url = f"postgresql://ann@127.0.0.1:{port}/postgres?sslmode=disable"
        with psycopg.connect(url, autocommit=True) as mine:
            mine.execute("select 1")
            ruled.call(ruled.services.access_rules.update(ruled.admin, "for dba", {"groups": ("sre",)}))
            assert "has ended" in cut(mine)


def test_running_script_ends_when_its_access_rule_is_deleted(
    ruled: Gateway, ann: Principal, direct: psycopg.Connection
) -> None:
    text = "select 'access rules', pg_sleep(300)"
    session = ruled.call(ruled.services.sessions.submit(ann, "target", text, source="::1"))
    wait_until(lambda: running(direct, "access rules"))
    ruled.call(ruled.services.access_rules.remove(ruled.admin, "for dba"))
    found = ruled.finished(session.id, within(2))
    assert found.metadata["end_reason"] == "revoked"
    rule = {"name": "for dba", "groups": ("dba",), "connections": ("target",)}
    ruled.call(ruled.services.access_rules.create(ruled.admin, rule))


def test_tunnelled_client_that_sends_nothing_until_access_is_removed_is_denied(ruled: Gateway, ann: Principal) -> None:
    """The user is known before the client sends anything: silence must not preserve access."""
    with tunnelled(ruled, ann) as (port, forward), wire.connect(port) as stream:
        assert forward.taken.wait(60)
        ruled.call(ruled.services.users.update(ruled.admin, ann.email, {"groups": ("sre",)}))
        time.sleep(0.2)
        stream.sendall(wire.startup(user="ann", database="postgres"))
        received = wire.closed_by_peer(stream)
        assert b"has ended" in received
