"""Limits and administrators end or change a live session."""

from __future__ import annotations

import fcntl
import select
import socket
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from tests.support import wire
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import IN_TIME, wait_until, within

from postern.domain.identity.principal import PrincipalStatus
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Toggle


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[psycopg.Connection]:
    """Of a user who is nobody special, with a credential of its own."""
    with psycopg.connect(gateway.url(issued=gateway.credential("target")), autocommit=True) as made:
        made.execute("select 1")
        yield made


def cut(connection: psycopg.Connection, seconds: float = 2.0) -> str:
    """What the client is told when its session is cut, which is promised within that many seconds.

    An error that comes while libpq waits for nothing is a notice to it.
    """
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))

    def closed() -> str:
        if not select.select([connection.fileno()], [], [], 0)[0]:
            return ""  # what is asked of a socket that is closed right then may cost the answer that is on its way
        try:
            connection.execute("select 1")
        except psycopg.OperationalError as error:
            return " ".join([str(error), *notices])
        return ""

    return wait_until(closed, within(seconds))


def ended(gateway: Gateway, session: Session) -> str:
    return str(gateway.finished(session.id).metadata["end_reason"])


def test_killed_session_is_closed_with_the_reason(gateway: Gateway, connection: psycopg.Connection) -> None:
    session = gateway.newest()
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    assert "this session was killed" in cut(connection)
    assert ended(gateway, session) == "killed"


def test_kill_cancels_the_running_statement(
    gateway: Gateway, connection: psycopg.Connection, direct: psycopg.Connection
) -> None:
    session = gateway.newest()
    connection.pgconn.send_query(b"select 'killed', pg_sleep(60)")
    wait_until(lambda: running(direct, "killed"))
    gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
    wait_until(lambda: not running(direct, "killed"), min(within(2), 50))
    connection.close()
    assert "this session was killed" in gateway.text(gateway.finished(session.id).id)


def stands_still(stream: socket.socket, seconds: float = 0.5) -> bool:
    """Whether there is something to read, and nothing more came for a while."""

    def waiting() -> int:
        return int.from_bytes(fcntl.ioctl(stream, termios.FIONREAD, bytes(4)), sys.byteorder)

    before = waiting()
    time.sleep(seconds)
    return 0 < before == waiting()


def test_kill_during_a_row_sends_a_well_formed_error(gateway: Gateway) -> None:
    """The client has read a part of a row and must not take the error for the rest of it."""
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        wire.log_in(stream, issued.credential.username, issued.password.reveal())
        stream.sendall(wire.message(b"Q", b"select repeat('x', 30011) from generate_series(1, 100000)\0"))
        wait_until(lambda: stands_still(stream))
        gateway.call(gateway.services.sessions.kill(gateway.admin, gateway.newest().id))
        received = wire.closed_by_peer(stream)
    tags = wire.tags(received)
    assert tags[:2] == "TD"
    assert set(tags[1:-1]) == {"D"}
    assert tags[-1] == "E"


def test_revoked_credential_ends_only_its_own_sessions(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with psycopg.connect(gateway.url(issued=issued)) as mine, psycopg.connect(gateway.url()) as other:
        session = next(one for one in gateway.sessions() if one.credential_id == issued.credential.id)
        gateway.call(gateway.services.credentials.revoke(gateway.admin, "target", issued.credential.id))
        assert "revoked" in cut(mine)
        assert other.execute("select 1").fetchone() == (1,)
        assert ended(gateway, session) == "revoked"
    with pytest.raises(psycopg.OperationalError, match="revoked"):
        psycopg.connect(gateway.url(issued=issued))


def test_deactivated_users_session_ends(gateway: Gateway) -> None:
    active = PrincipalStatus.ACTIVE
    fields = {"email": "leaver@example.com", "name": "Leaver", "groups": ("staff",), "status": active}
    user = gateway.call(gateway.services.users.create(gateway.admin, fields)).principal
    issued = gateway.credential("target", principal=user)
    with psycopg.connect(gateway.url(issued=issued)) as connection:
        inactive = {"status": PrincipalStatus.INACTIVE}
        gateway.call(gateway.services.users.update(gateway.admin, user.email, inactive))
        assert "inactive" in cut(connection)
    with pytest.raises(psycopg.OperationalError, match="inactive"):
        psycopg.connect(gateway.url(issued=issued))


def test_deleted_users_session_ends(gateway: Gateway) -> None:
    fields = {"email": "gone@example.com", "status": PrincipalStatus.ACTIVE}
    user = gateway.call(gateway.services.users.create(gateway.admin, fields)).principal
    with psycopg.connect(
        gateway.url(issued=gateway.credential("target", principal=user)), autocommit=True
    ) as connection:
        gateway.call(gateway.services.users.remove(gateway.admin, user.email))
        assert "deleted" in cut(connection)


def test_deleted_machine_identitys_session_ends(gateway: Gateway) -> None:
    fields = {"connection_names": ("target",)}
    made = gateway.call(gateway.services.machines.create(gateway.admin, {"name": "short-lived", **fields}))
    with psycopg.connect(gateway.url(issued=made.issued[0]), autocommit=True) as connection:
        gateway.call(gateway.services.machines.remove(gateway.admin, "short-lived"))
        assert "deleted" in cut(connection)


def test_rotated_credential_and_its_sessions_end_after_the_overlap(gateway: Gateway) -> None:
    """This includes sessions that are live at the rotation, which were opened with a later end."""
    machines = gateway.services.machines
    fields = {"connection_names": ("target",)}
    old = gateway.call(machines.create(gateway.admin, {"name": "rotated", **fields})).issued[0]
    with psycopg.connect(gateway.url(issued=old), autocommit=True) as connection:
        new = gateway.call(machines.rotate(gateway.admin, "rotated", "target", overlap=5, seconds=None))
        connection.execute("select 1")
        with psycopg.connect(gateway.url(issued=new), autocommit=True) as other:
            assert "expired" in cut(connection, 4)
            other.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="expired"):
        psycopg.connect(gateway.url(issued=old))


def test_expired_credential_ends_its_session(gateway: Gateway) -> None:
    for seconds in IN_TIME:
        issued = gateway.credential("target", seconds=seconds)
        with suppress(psycopg.OperationalError):
            connection = psycopg.connect(gateway.url(issued=issued))
            break
    with connection:
        session = gateway.newest()
        assert "expired" in cut(connection, seconds - 1)
    assert ended(gateway, session) == "expired"
    with pytest.raises(psycopg.OperationalError, match="expired"):
        psycopg.connect(gateway.url(issued=issued))


def test_disabled_access_mode_of_a_connection_ends_its_sessions(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("disabled-later", target)
    with psycopg.connect(gateway.url("disabled-later")) as connection:
        change = {"access_mode_connect": Toggle.DISABLED}
        gateway.call(gateway.services.connections.update(gateway.admin, "disabled-later", change))
        assert "access mode connect is disabled" in cut(connection)


def test_deleted_connection_ends_its_sessions(gateway: Gateway, target: PostgresServer) -> None:
    gateway.connection("deleted-later", target)
    with psycopg.connect(gateway.url("deleted-later")) as connection:
        gateway.call(gateway.services.connections.remove(gateway.admin, "deleted-later"))
        assert "deleted" in cut(connection)
    assert ended(gateway, gateway.newest("deleted-later")) == "revoked"


def test_session_ends_at_the_max_duration_of_its_connection(gateway: Gateway, target: PostgresServer) -> None:
    """The credential is older than the limit: a later one would itself expire at that limit."""
    gateway.connection("short-lived", target)
    url = gateway.url("short-lived")
    gateway.call(gateway.services.connections.update(gateway.admin, "short-lived", {"access_max_duration": 5}))
    with psycopg.connect(url) as connection:
        assert "maximum duration" in cut(connection, 4)
    assert ended(gateway, gateway.newest("short-lived")) == "expired"


@pytest.mark.slow
def test_idle_session_ends_and_a_busy_one_does_not(gateway: Gateway) -> None:
    worker = gateway.add_worker("idle", postgres_port=free_port(), tunnel_port=free_port(), idle_timeout=3)
    with psycopg.connect(gateway.url(port=worker.port), autocommit=True) as connection:
        session = gateway.newest()
        for _ in range(8):
            connection.execute("select 1")
            time.sleep(0.5)
        assert ended(gateway, session) == "idle"
        with pytest.raises(psycopg.OperationalError, match="idle for 3 seconds"):
            connection.execute("select 1")
    worker.stop()
    del gateway.workers["idle"]


@pytest.mark.slow
def test_session_with_a_long_running_statement_is_not_idle(gateway: Gateway) -> None:
    """The client waits for the target, which counts as activity."""
    worker = gateway.add_worker("patient", postgres_port=free_port(), tunnel_port=free_port(), idle_timeout=3.0)
    with psycopg.connect(gateway.url(port=worker.port), autocommit=True) as connection:
        assert connection.execute("select 'long' from pg_sleep(5)").fetchone() == ("long",)
    worker.stop()
    del gateway.workers["patient"]


def test_new_deny_rule_applies_to_a_live_session(gateway: Gateway, target: PostgresServer) -> None:
    made = gateway.connection("ruled-later", target)
    with psycopg.connect(gateway.url("ruled-later"), autocommit=True) as connection:
        connection.execute("create temp table doomed (n int)")
        connection.execute("prepare stands as select 'forbidden fruit'")
        connection.execute("select %s || 'a'", ["x"], prepare=True)
        gateway.guardrail("later", made, deny="(?i)drop table")

        def refused() -> bool:
            try:
                connection.execute("drop table if exists nothing_at_all")
            except psycopg.errors.InsufficientPrivilege:
                return True
            return False

        wait_until(refused, within(2))
        assert connection.execute("select count(*) from doomed").fetchone() == (0,)


def test_deny_rule_created_after_prepare_blocks_execute(gateway: Gateway, target: PostgresServer) -> None:
    made = gateway.connection("prepared-then-ruled", target)
    with psycopg.connect(gateway.url("prepared-then-ruled"), autocommit=True) as connection:
        query = "delete from pg_class where false and oid = %s"
        connection.execute(query, [1], prepare=True)
        gateway.guardrail("no-delete", made, deny=r"(?i)delete\s+from")

        def refused() -> bool:
            try:
                connection.execute(query, [2], prepare=True)
            except psycopg.errors.InsufficientPrivilege:
                return True
            return False

        wait_until(refused, within(3))
        assert connection.execute("select 1").fetchone() == (1,)


def test_stopping_worker_closes_all_its_sessions(target: PostgresServer) -> None:
    gateway = Gateway()
    try:
        gateway.start()
        gateway.connection("target", target)
        connections = [psycopg.connect(gateway.url()) for _ in range(30)]
        assert gateway.worker.stop() == 0
        assert all("the gateway is stopping" in _error_of(connection) for connection in connections)
        sessions = gateway.sessions()
        assert len(sessions) == 30
        assert {str(session.status) for session in sessions} == {"done"}
        assert {session.metadata["end_reason"] for session in sessions} == {"gateway_stopped"}
        assert not list(gateway.home.glob("spool/*/*.rec"))
    finally:
        gateway.stop()


def _error_of(connection: psycopg.Connection) -> str:
    with pytest.raises(psycopg.OperationalError) as caught:
        connection.execute("select 1")
    return str(caught.value)
