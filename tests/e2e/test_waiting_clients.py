"""Clients that wait at login for a review: psql shows whose approval is pending, continues automatically, and is
disconnected when its access ends."""

from __future__ import annotations

import asyncio
import select
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until, within
from tests.support.world import CLIENT

from postern.cli.terminal.forward import PortForward, StreamRequest
from postern.domain.identity.credential import Issued
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.reviews.time_window import TimeWindow
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import Connection
from postern.store.ports.review_ports import ReviewFilter
from postern.wiring import tls

pytestmark = pytest.mark.slow

NAME = "asked"


@pytest.fixture(scope="module")
def asked(gateway: Gateway, target: PostgresServer) -> Connection:
    person(gateway, "dba@example.com", "dba")
    return gateway.connection(NAME, target, reviewers=("dba",))


@pytest.fixture
def dba(gateway: Gateway, asked: Connection) -> Principal:
    return gateway.call(gateway.services.users.get(gateway.admin, "dba@example.com")).principal


@pytest.fixture
def ann(gateway: Gateway, asked: Connection) -> Principal:
    """Somebody else in each test: nothing was given to her yet."""
    return person(gateway, f"ann-{uuid4().hex[:8]}@example.com", "dev")


def person(gateway: Gateway, email: str, *groups: str) -> Principal:
    fields = {"email": email, "groups": groups, "status": PrincipalStatus.ACTIVE}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal


class Psql:
    """psql with one statement, whose error output is read as it comes."""

    def __init__(self, url: str, statement: str = "select 40 + 2", *arguments: str) -> None:
        command = [need("psql"), "-X", "-A", "-t", *arguments, "-c", statement, url]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        self.said = ""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def told(self, words: str) -> str:
        wait_until(lambda: words in self.said or self.process.poll() is not None)
        assert words in self.said
        return self.said

    def ended(self) -> tuple[int, str, str]:
        """Exit code, what it printed, and what it said."""
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        code = self.process.wait(within(10))
        self._reading.join(60)
        return code, out, self.said


def reviews_of(gateway: Gateway, who: Principal, status: ReviewStatus | None = None) -> list[Review]:
    """Newest first, of those that wait or do not."""
    found = gateway.services.reviews.find(gateway.admin, ReviewFilter(owner=who.id, status=status), Page(limit=100))
    return list(gateway.call(found).items)


def waiting(gateway: Gateway, who: Principal) -> Review:
    return wait_until(lambda: reviews_of(gateway, who, ReviewStatus.PENDING))[0]


def decide(gateway: Gateway, dba: Principal, review: Review, choice: Choice, comment: str = "") -> Review:
    return gateway.call(gateway.services.reviews.decide(dba, str(review.id), choice, comment=comment))


def sessions_of(gateway: Gateway, who: Principal) -> list[Session]:
    return [one for one in gateway.sessions(connection=NAME) if one.user == who.email]


class Holder:
    """Connects in a thread of its own, which may wait."""

    def __init__(self, url: str) -> None:
        self.connection: psycopg.Connection | None = None
        self.error: psycopg.Error | None = None
        self._url = url
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.connection = psycopg.connect(self._url, autocommit=True)
        except psycopg.Error as error:
            self.error = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def done(self) -> psycopg.Connection:
        self._thread.join(within(10))
        assert self.connection is not None, self.error
        return self.connection


def is_cut(connection: psycopg.Connection) -> str:
    """Why; fails when it is not within the two seconds that are promised."""
    return wait_until(lambda: is_cut_now(connection), within(2))


def is_cut_now(connection: psycopg.Connection) -> str:
    """Asks nothing before the last words and the end, or that of TLS, were heard: psycopg tells of one error only."""
    heard, closed = select.poll(), select.poll()
    heard.register(connection, select.POLLIN)
    closed.register(connection, select.POLLRDHUP)
    if not heard.poll(0):
        return ""
    closed.poll(100)
    try:
        connection.execute("select 1")
    except psycopg.Error as error:
        return str(error)
    return ""


@contextmanager
def tunnelled(
    gateway: Gateway, who: Principal, reason: str = "", duration: int | None = None, name: str = NAME
) -> Iterator[str]:
    """A URL whose clients are carried, as by `postern connect`, for somebody who is logged in."""
    services = gateway.services
    account = gateway.call(services.users.get(gateway.admin, who.email))
    login = gateway.call(services.logins.open(account, LoginMethod.LOCAL, CLIENT))
    authority = tls.authority(gateway.settings)
    assert authority is not None
    url = f"wss://localhost:{gateway.settings.tunnel_port}"
    reached = StreamRequest(url, login.token, name, authority.read_text(), reason, duration)
    forward = PortForward(reached, lambda _: None)
    port = gateway.call(forward.start(0))
    yield f"postgresql://ann@127.0.0.1:{port}/postgres?sslmode=disable"
    gateway.call(forward.stop())


def url_of(gateway: Gateway, who: Principal, issued: Issued | None = None, port: int | None = None) -> str:
    return gateway.url(NAME, issued=issued or gateway.credential(NAME, principal=who), port=port)


def test_psql_waits_for_its_review_and_continues_once_approved(
    gateway: Gateway, ann: Principal, dba: Principal
) -> None:
    client = Psql(url_of(gateway, ann))
    said = client.told("postern reviews approve")
    review = waiting(gateway, ann)
    assert (
        "NOTICE:  connection 'asked' needs a review before you can connect: 1 member of the group 'dba' must approve"
        in said
    )
    assert f"{gateway.settings.api_url}/reviews/{review.id} or with `postern reviews approve {review.id}`" in said
    assert review.session_id is not None
    waits = gateway.session(review.session_id)
    assert (waits.status, waits.worker, waits.metadata["database"]) == (SessionStatus.OPEN, None, "postgres")
    assert client.process.poll() is None
    decide(gateway, dba, review, Choice.APPROVED)
    assert client.ended()[:2] == (0, "42\n")
    ran = gateway.finished(review.session_id)
    assert (ran.metadata["end_reason"], ran.review_id) == ("client_closed", review.id)
    assert [one.id for one in sessions_of(gateway, ann)] == [review.session_id]


def test_psql_shows_why_its_review_was_rejected(gateway: Gateway, ann: Principal, dba: Principal) -> None:
    client = Psql(url_of(gateway, ann))
    review = waiting(gateway, ann)
    decide(gateway, dba, review, Choice.REJECTED, "use the replica")
    code, out, said = client.ended()
    assert (code, out) == (2, "")
    assert f"FATAL:  connection 'asked' needs a review, and it was rejected by {dba.email}: use the replica" in said
    assert review.session_id is not None
    assert gateway.finished(review.session_id).metadata["end_reason"] == "rejected"


def test_burst_of_clients_is_admitted_by_one_review_and_ends_when_it_is_revoked(
    gateway: Gateway, ann: Principal, dba: Principal
) -> None:
    url = url_of(gateway, ann)
    holders = [Holder(url) for _ in range(10)]
    review = waiting(gateway, ann)
    assert all(holder.waits for holder in holders)
    decide(gateway, dba, review, Choice.APPROVED)
    connections = [holder.done() for holder in holders]
    late = psycopg.connect(url, autocommit=True)  # the grant lasts
    assert len(reviews_of(gateway, ann)) == 1
    opened = sessions_of(gateway, ann)
    assert len(opened) == 11
    assert {one.review_id for one in opened} == {review.id}
    assert review.session_id in {one.id for one in opened}
    decide(gateway, dba, review, Choice.REVOKED, "enough")
    for connection in (*connections, late):
        assert "was revoked" in is_cut(connection)
    ends = {gateway.finished(one.id).metadata["end_reason"] for one in opened}
    assert ends == {"revoked"}
    again = Holder(url)
    assert waiting(gateway, ann).id != review.id
    decide(gateway, dba, waiting(gateway, ann), Choice.REJECTED)
    wait_until(lambda: again.error)


def test_attack_approval_admits_no_other_credential_address_or_user(
    gateway: Gateway, ann: Principal, dba: Principal
) -> None:
    issued = gateway.credential(NAME, principal=ann)
    first = Holder(url_of(gateway, ann, issued))
    given = waiting(gateway, ann)
    decide(gateway, dba, given, Choice.APPROVED)
    first.done()
    eve = person(gateway, f"eve-{uuid4().hex[:8]}@example.com", "dev")
    with from_elsewhere(gateway) as port:
        for owner, url in (
            (ann, url_of(gateway, ann)),
            (ann, url_of(gateway, ann, issued, port)),
            (eve, url_of(gateway, eve)),
        ):
            other = Holder(url)
            review = waiting(gateway, owner)
            assert review.id != given.id
            assert other.waits
            decide(gateway, dba, review, Choice.REJECTED)
            assert "rejected" in str(wait_until(lambda other=other: other.error))  # type: ignore[misc]
    assert first.done().execute("select 1").fetchone() == (1,)


@contextmanager
def from_elsewhere(gateway: Gateway) -> Iterator[int]:
    """A port behind which clients come from 127.0.0.2."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(
            "127.0.0.1", gateway.settings.postgres_port, local_addr=("127.0.0.2", 0)
        )
        await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))

    async def start() -> asyncio.Server:
        return await asyncio.start_server(carry, "127.0.0.1", 0)

    server = gateway.call(start())
    yield server.sockets[0].getsockname()[1]
    gateway._loop.call_soon_threadsafe(server.close)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def test_psql_waits_for_its_review_over_tls(gateway: Gateway, ann: Principal, dba: Principal) -> None:
    issued = gateway.credential(NAME, principal=ann)
    client = Psql(gateway.url(NAME, issued=issued, sslmode="require", channel_binding="require"))
    client.told("NOTICE")
    decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
    assert client.ended()[:2] == (0, "42\n")


@pytest.mark.parametrize("agreed", [True, False])
def test_asyncpg_waits_for_its_review(gateway: Gateway, ann: Principal, dba: Principal, agreed: bool) -> None:
    url = url_of(gateway, ann)

    async def main() -> int:
        connection = await asyncpg.connect(url)
        try:
            found: int = await connection.fetchval("select 40 + 2")
            return found
        finally:
            await connection.close(timeout=10)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(asyncio.run, main())
        review = waiting(gateway, ann)
        decide(gateway, dba, review, Choice.APPROVED if agreed else Choice.REJECTED, "as asked")
        if agreed:
            assert held.result(60) == 42
        else:
            with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="as asked"):
                held.result(60)


def test_reconnecting_client_resumes_its_review(gateway: Gateway, ann: Principal, dba: Principal) -> None:
    url = url_of(gateway, ann)
    client = Psql(url)
    client.told("NOTICE")
    review = waiting(gateway, ann)
    client.process.kill()
    client.ended()
    again = Psql(url)
    assert str(review.id) in again.told("postern reviews approve")
    assert [one.id for one in reviews_of(gateway, ann)] == [review.id]
    decide(gateway, dba, review, Choice.APPROVED)
    assert again.ended()[:2] == (0, "42\n")


def test_withdrawn_or_killed_waiting_session_ends(gateway: Gateway, ann: Principal) -> None:
    url = url_of(gateway, ann)
    client = Psql(url)
    review = waiting(gateway, ann)
    gateway.call(gateway.services.reviews.withdraw(ann, str(review.id)))
    assert "was withdrawn" in client.ended()[2]
    client = Psql(url)
    review = waiting(gateway, ann)
    assert review.session_id is not None
    gateway.call(gateway.services.sessions.kill(ann, review.session_id))
    assert "was withdrawn" in client.ended()[2]
    assert gateway.finished(review.session_id).metadata["end_reason"] == "withdrawn"


def test_deactivated_users_waiting_client_is_disconnected(gateway: Gateway, ann: Principal) -> None:
    client = Psql(url_of(gateway, ann))
    waiting(gateway, ann)
    client.told("NOTICE")
    fields = {"status": PrincipalStatus.INACTIVE}
    gateway.call(gateway.services.users.update(gateway.admin, ann.email, fields))
    assert "FATAL" in client.ended()[2]


def test_tunnelled_client_waits_with_its_reason_and_ends_when_access_is_revoked(
    gateway: Gateway, ann: Principal, dba: Principal
) -> None:
    with tunnelled(gateway, ann, "ticket 4711", 3600) as url:
        client = Psql(url)
        client.told("NOTICE")
        review = waiting(gateway, ann)
        assert (review.reason, review.access_duration) == ("ticket 4711", 3600)
        decide(gateway, dba, review, Choice.APPROVED)
        assert client.ended()[:2] == (0, "42\n")
        with psycopg.connect(url, autocommit=True) as mine:
            mine.execute("select 1")
            decide(gateway, dba, review, Choice.REVOKED)
            assert "was revoked" in is_cut(mine)


def test_session_ends_when_the_granted_duration_has_passed(gateway: Gateway, ann: Principal, dba: Principal) -> None:
    with tunnelled(gateway, ann, duration=8) as url:
        holder = Holder(url)
        decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
        mine = holder.done()
        said = wait_until(lambda: "" if mine.closed else is_cut_now(mine), within(10))
        assert "expired" in said
        ended = gateway.finished(sessions_of(gateway, ann)[0].id)
        assert ended.metadata["end_reason"] == "expired"


def test_session_ends_when_its_time_window_closes(gateway: Gateway, ann: Principal, dba: Principal) -> None:
    """Windows are of whole minutes, so this test takes one."""
    url = url_of(gateway, ann)
    holder = Holder(url)
    review = waiting(gateway, ann)
    closes = (datetime.now(UTC) + timedelta(seconds=70)).replace(second=0, microsecond=0)
    window = TimeWindow((closes - timedelta(minutes=3)).time(), closes.time())
    decided = gateway.services.reviews.decide(dba, str(review.id), Choice.APPROVED, time_window=window)
    assert gateway.call(decided).revoke_at == closes
    mine = holder.done()
    assert mine.execute("select 1").fetchone() == (1,)
    assert datetime.now(UTC) < closes
    wait_until(lambda: datetime.now(UTC) >= closes, 80)
    assert "the approved access has expired" in is_cut(mine)
    assert gateway.finished(sessions_of(gateway, ann)[0].id).metadata["end_reason"] == "expired"
    again = Psql(url)  # may ask anew at once
    anew = waiting(gateway, ann)
    assert anew.id != review.id
    decide(gateway, dba, anew, Choice.REJECTED)
    assert again.ended()[0] == 2


def test_excessive_access_duration_is_rejected_with_the_limit(gateway: Gateway, ann: Principal) -> None:
    with tunnelled(gateway, ann, duration=10_000_000) as url:
        code, _, said = Psql(url).ended()
        assert code == 2
        assert "access_duration: must be from 1 to" in said
    assert not reviews_of(gateway, ann)


def test_psql_gets_instructions_to_reconnect_if_waiting_is_disabled(
    gateway: Gateway, ann: Principal, dba: Principal
) -> None:
    port = free_port()
    worker = gateway.add_worker("hurried", postgres_port=port, tunnel_port=free_port(), review_wait=0)
    try:
        url = url_of(gateway, ann, port=port)
        code, _, said = Psql(url).ended()
        review = waiting(gateway, ann)
        assert code == 2
        assert f"connect again once review {review.id} is approved" in said
        decide(gateway, dba, review, Choice.APPROVED)
        assert Psql(url).ended()[:2] == (0, "42\n")
        assert review.session_id is not None
        gateway.finished(review.session_id)
    finally:
        worker.stop()
        del gateway.workers["hurried"]


@pytest.mark.parametrize("killed", [True, False])
def test_review_survives_a_stopped_worker_for_the_reconnecting_client(
    gateway: Gateway, ann: Principal, dba: Principal, killed: bool
) -> None:
    port, name = free_port(), f"mortal-{killed}"
    worker = gateway.add_worker(name, postgres_port=port, tunnel_port=free_port())
    try:
        url = url_of(gateway, ann, port=port)
        client = Psql(url)
        client.told("NOTICE")
        review = waiting(gateway, ann)
        if killed:
            worker.kill()
            assert client.ended()[0] == 2
        else:
            assert worker.stop() == 0
            assert "the gateway is stopping; connect again to continue waiting" in client.ended()[2]
        worker.start()
        again = Psql(url)
        assert str(review.id) in again.told("postern reviews approve")
        decide(gateway, dba, review, Choice.APPROVED)
        assert again.ended()[:2] == (0, "42\n")
        assert review.session_id is not None
        assert gateway.finished(review.session_id).metadata["end_reason"] == "client_closed"
    finally:
        worker.stop()
        del gateway.workers[name]


def test_unavailable_target_ends_the_waiting_session_and_not_the_grant(
    gateway: Gateway, dba: Principal, ann: Principal
) -> None:
    nowhere = gateway.connection("asked-nowhere", None, secret={"PORT": str(free_port())}, reviewers=("dba",))
    url = gateway.url(nowhere.name, issued=gateway.credential(nowhere.name, principal=ann))
    client = Psql(url)
    review = waiting(gateway, ann)
    decide(gateway, dba, review, Choice.APPROVED)
    assert client.ended()[0] == 2
    assert review.session_id is not None
    assert gateway.finished(review.session_id).metadata["end_reason"] == "failed"
    assert Psql(url).ended()[0] == 2
    assert reviews_of(gateway, ann)[0].status is ReviewStatus.APPROVED
