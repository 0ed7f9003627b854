"""The end of a time window or of access, on every way in: tunnels, terminals, scripts, and sessions being dialled."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tests.e2e.test_commands import Opened, command, talk
from tests.e2e.test_waiting_clients import NAME, Holder, Psql, is_cut, person, sessions_of, tunnelled, waiting
from tests.support.gateway import Gateway, running
from tests.support.postgres import PostgresServer
from tests.support.promises import TIMED, wait_until, within

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Denied
from postern.protocols.terminal import terminal_frames as m

pytestmark = pytest.mark.slow

LASTS = 8  # seconds, of which a busy machine may take some before the target is dialled
OVER = "the approved access has expired"


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    gateway = Gateway(gateway_commands=True)
    try:
        gateway.start()
        gateway.connection(NAME, target, reviewers=("dba",))
        command(gateway, "shell", "bash", reviewers=("dba",))
        yield gateway
    finally:
        gateway.stop()


@pytest.fixture(scope="module")
def dba(gateway: Gateway) -> Principal:
    return person(gateway, "dba@example.com", "dba")


@pytest.fixture
def window() -> TimeWindow:
    """It closes with the next whole minute that is 40 seconds away."""
    closes = (datetime.now(UTC) + timedelta(seconds=100)).replace(second=0, microsecond=0)
    return TimeWindow((closes - timedelta(minutes=5)).time(), closes.time())


def approve(gateway: Gateway, dba: Principal, review: Review, window: TimeWindow) -> None:
    decide = gateway.services.reviews.decide
    gateway.call(decide(dba, str(review.id), Choice.APPROVED, time_window=window))


def started(gateway: Gateway, dba: Principal, who: Principal, name: str, text: str, window: TimeWindow) -> Session:
    """A script that was approved for this window, and runs."""
    sessions = gateway.services.sessions
    submitted = gateway.call(sessions.submit(who, name, text, source="::1", means="login:1"))
    approve(gateway, dba, waiting(gateway, who), window)
    gateway.call(sessions.execute(who, submitted.id))
    return submitted


def test_end_of_a_time_window_ends_tunnels_terminals_and_scripts(
    gateway: Gateway, dba: Principal, window: TimeWindow, direct: psycopg.Connection
) -> None:
    tia, pia, cia, late = (person(gateway, f"{name}@example.com", "dev") for name in ("tia", "pia", "cia", "late"))
    query = started(gateway, dba, pia, NAME, "select pg_sleep(300), 'windowed'; select 'never'", window)
    script = started(gateway, dba, cia, "shell", "echo be''gun; sleep 300; echo ne''ver", window)
    unused = gateway.call(gateway.services.sessions.submit(late, "shell", "true", source="::1", means="login:1"))
    approve(gateway, dba, waiting(gateway, late), window)
    wait_until(lambda: running(direct, "windowed") == 1)
    wait_until(lambda: gateway.session(script.id).status is SessionStatus.OPEN)

    async def work(opened: Opened) -> None:
        await opened.client.until(lambda: "postern reviews approve" in opened.client.text(m.STDERR))
        review = await asyncio.to_thread(waiting, gateway, gateway.admin)
        await asyncio.to_thread(approve, gateway, dba, review, window)
        opened.type("echo ra''n\r")
        await opened.shows("ran")
        await opened.client.until(lambda: opened.client.exit, 100)
        assert datetime.now(UTC).time() >= window.end
        assert OVER in opened.client.text(m.STDERR)

    with tunnelled(gateway, tia) as url:
        holder = Holder(url)
        approve(gateway, dba, waiting(gateway, tia), window)
        mine = holder.done()
        assert mine.execute("select 1").fetchone() == (1,)
        talk(gateway, "shell", work)
        assert OVER in is_cut(mine)
    ended = [gateway.finished(one.id) for one in (query, script, sessions_of(gateway, tia)[0])]
    ended.append(next(one for one in gateway.sessions(connection="shell") if one.user == gateway.admin.email))
    assert [one.metadata["end_reason"] for one in ended] == ["expired"] * 4
    closes = datetime.combine(datetime.now(UTC).date(), window.end, UTC)
    assert all(one.end_date is not None and one.end_date >= closes for one in ended)
    assert not TIMED or all(one.end_date <= closes + timedelta(seconds=2) for one in ended if one.end_date)
    wait_until(lambda: running(direct, "windowed") == 0, within(5))  # and its target goes on with nothing
    assert gateway.text(query.id).count("never") == 1  # as it was asked
    assert "never" not in gateway.text(script.id)
    with pytest.raises(Denied, match="it can be used from"):
        gateway.call(gateway.services.sessions.execute(late, unused.id))
    statuses = {str(gateway.call(gateway.services.reviews.get(dba, str(one.id))).status) for one in (query, script)}
    assert statuses == {ReviewStatus.EXECUTED}


def test_attack_access_that_expires_during_dialling_opens_no_session(gateway: Gateway, dba: Principal) -> None:
    dora = person(gateway, "dora@example.com", "dev")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = {"HOST": "127.0.0.1", "PORT": str(silent.getsockname()[1])}
        gateway.connection("silent", None, secret=place, reviewers=("dba",), access_max_duration=LASTS)
        client = Psql(gateway.url("silent", issued=gateway.credential("silent", principal=dora)))
        review = waiting(gateway, dora)
        gateway.call(gateway.services.reviews.decide(dba, str(review.id), Choice.APPROVED))
        silent.settimeout(60)
        dialled, _ = silent.accept()
        assert OVER in client.ended()[2]
        dialled.close()
    assert gateway.newest_finished("silent").metadata["end_reason"] == "expired"
