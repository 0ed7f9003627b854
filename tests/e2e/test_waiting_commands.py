"""Commands and scripts that wait for colleagues: terminals and pipes through the tunnel, and runs of the API."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.e2e.test_commands import Opened, command, talk
from tests.e2e.test_waiting_clients import Psql, decide, person, reviews_of, waiting
from tests.support.features import ADVISORY, ENFORCED, HOLDS
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until, within
from tests.support.world import CLIENT

from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.secret import Secret
from postern.domain.sessions.session import SessionStatus, Verb
from postern.errors import Conflict, Denied
from postern.protocols.terminal import terminal_frames as m

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    running = Gateway(gateway_commands=True)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def dba(gateway: Gateway) -> Principal:
    return person(gateway, "dba@example.com", "dba")


@pytest.fixture
def shell(gateway: Gateway, dba: Principal) -> str:
    """Another one for each test: nothing was given for it yet."""
    name = f"shell-{uuid4().hex[:8]}"
    command(gateway, name, "bash", reviewers=("dba",))
    return name


async def there(gateway: Gateway, opened: Opened) -> Review:
    """The review for which this stream waits."""
    await opened.client.until(lambda: "postern reviews approve" in opened.client.text(m.STDERR))
    return await asyncio.to_thread(waiting, gateway, gateway.admin)


async def say(gateway: Gateway, dba: Principal, review: Review, choice: Choice, comment: str = "") -> None:
    await asyncio.to_thread(decide, gateway, dba, review, choice, comment)


def test_terminal_waits_runs_and_ends_when_access_is_revoked(gateway: Gateway, dba: Principal, shell: str) -> None:
    async def work(opened: Opened) -> None:
        opened.type("echo ra''n\r")  # ahead of everything
        review = await there(gateway, opened)
        assert "1 member of the group 'dba' must approve" in opened.client.text(m.STDERR)
        assert review.reason == "ticket 4711"
        assert "ran" not in opened.client.text()
        await say(gateway, dba, review, Choice.APPROVED)
        await opened.shows("ran")
        await say(gateway, dba, review, Choice.REVOKED, "that is enough")
        await opened.client.until(lambda: opened.client.exit, within(2))
        assert "that is enough" in opened.client.text(m.STDERR)
        assert opened.client.exit == m.Exit(m.ENDED, "")

    talk(gateway, shell, work, reason="ticket 4711")
    session = gateway.newest_finished(shell)
    assert (session.metadata["end_reason"], session.metadata["terminal"]) == ("revoked", "yes")
    assert session.id == reviews_of(gateway, gateway.admin)[0].session_id


def test_review_of_a_typed_line_is_advisory_only(gateway: Gateway) -> None:
    """README's table of protocol support says so."""
    name = f"typed-{uuid4().hex[:8]}"
    typed, colleague = command(gateway, name, "bash", "--norc"), person(gateway, f"{name}@example.com", "admin")
    rule = Rule(RuleType.PATTERN_MATCH, (), "dangerous", "four eyes", action=Action.REVIEW)
    fields = {"name": name, "input": (rule,), "connection_ids": (str(typed.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))

    async def work(opened: Opened) -> None:
        opened.type("echo rea''dy\r")
        await opened.shows("ready")
        opened.type("x=dangerous; echo ra''n\r")
        review = await there(gateway, opened)
        assert "ran\r\n" not in opened.client.text()
        await say(gateway, colleague, review, Choice.APPROVED)
        await opened.shows("ran\r\n")
        opened.type("x=danger''ous; echo fre''ely\r")
        await opened.shows("freely")
        opened.type("exit\r")
        await opened.ends()

    talk(gateway, name, work)
    assert gateway.newest_finished(name).metadata["end_reason"] == "client_closed"
    assert HOLDS["Commands: terminals (`postern connect`)"]["reviews"] == {ENFORCED, ADVISORY}


def test_piped_input_waits_for_the_review_and_loses_no_bytes(gateway: Gateway, dba: Principal, shell: str) -> None:
    data = bytes(range(256)) * 2_000  # more than is kept while nobody reads

    async def work(opened: Opened) -> None:
        opened.client.keeps = True
        opened.send(m.frames(m.STDIN, data), m.STDIN_END_FRAME)
        await say(gateway, dba, await there(gateway, opened), Choice.APPROVED)
        assert (await opened.ends()).code == 0
        assert b"".join(payload for kind, payload in opened.client.frames if kind == m.STDOUT) == data

    talk(gateway, shell, work, terminal=None, arguments=["-c", "cat"])


def test_ctrl_c_stops_waiting_and_keeps_the_review(gateway: Gateway, dba: Principal, shell: str) -> None:
    async def leaves(opened: Opened) -> None:
        await there(gateway, opened)
        opened.type("\x03")
        assert (await opened.ends()).code == m.ENDED
        assert "Stopped waiting" in opened.client.text(m.STDERR)

    talk(gateway, shell, leaves)
    review = waiting(gateway, gateway.admin)
    decide(gateway, dba, review, Choice.APPROVED)

    async def comes_back(opened: Opened) -> None:
        opened.type("exit 5\r")
        assert (await opened.ends()).code == 5

    # By another login: nobody is let in by what was given to the first.
    async def other(opened: Opened) -> None:
        again = await there(gateway, opened)
        assert again.id != review.id
        await say(gateway, dba, again, Choice.REJECTED, "once is enough")
        await opened.ends()
        assert "once is enough" in opened.client.text(m.STDERR)

    token = gateway.token
    talk(gateway, shell, comes_back)
    try:
        gateway.token = another_login(gateway)
        talk(gateway, shell, other)
    finally:
        gateway.token = token


def test_approved_script_runs_once(gateway: Gateway, dba: Principal, shell: str) -> None:
    ann = person(gateway, f"ann-{uuid4().hex[:8]}@example.com", "dev")
    services = gateway.services
    submitted = gateway.call(
        services.sessions.submit(ann, shell, "echo ra''n", source="::1", means="login:1", reason="ticket 4711")
    )
    assert (submitted.status, submitted.worker) == (SessionStatus.OPEN, None)
    with pytest.raises(Conflict):
        gateway.call(services.sessions.execute(ann, submitted.id))
    decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
    wait_until(lambda: gateway.session(submitted.id).status is SessionStatus.READY)
    # A worker that starts takes nothing that its owner has not started.
    other = gateway.add_worker("other", postgres_port=free_port(), tunnel_port=free_port())
    other.stop()
    del gateway.workers["other"]
    assert gateway.session(submitted.id).status is SessionStatus.READY
    with pytest.raises(Denied):
        gateway.call(services.sessions.execute(gateway.admin, submitted.id))
    gateway.call(services.sessions.execute(ann, submitted.id))
    ran = gateway.finished(submitted.id)
    assert (ran.exit_code, ran.metadata["end_reason"]) == (0, "completed")
    assert "ran\n" in gateway.text(ran.id)
    wait_until(lambda: reviews_of(gateway, ann)[0].status is ReviewStatus.EXECUTED)
    with pytest.raises(Conflict):
        gateway.call(services.sessions.execute(ann, submitted.id))


def test_access_approved_after_the_client_left_is_used_by_its_next_login(
    gateway: Gateway, dba: Principal, target: PostgresServer
) -> None:
    gateway.connection("later", target, reviewers=("dba",))
    ann = person(gateway, f"ann-{uuid4().hex[:8]}@example.com", "dev")
    url = gateway.url("later", issued=gateway.credential("later", principal=ann))
    client = Psql(url)
    review = waiting(gateway, ann)
    client.told("NOTICE")
    client.process.kill()
    client.ended()
    decide(gateway, dba, review, Choice.APPROVED)
    assert review.session_id is not None
    restarted = gateway.workers["w1"]
    assert restarted.stop() == 0
    restarted.start()
    waits = gateway.session(review.session_id)
    assert (waits.status, waits.verb, waits.worker) == (SessionStatus.READY, Verb.CONNECT, None)
    assert Psql(url).ended()[:2] == (0, "42\n")
    assert gateway.finished(review.session_id).metadata["end_reason"] == "client_closed"


def test_access_revoked_during_dialling_ends_the_session_at_once(gateway: Gateway, dba: Principal) -> None:
    ann = person(gateway, f"ann-{uuid4().hex[:8]}@example.com", "dev")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        secret = {"PORT": str(silent.getsockname()[1])}
        connection = gateway.connection("silent", None, secret=secret, reviewers=("dba",))
        client = Psql(gateway.url("silent", issued=gateway.credential("silent", principal=ann)))
        review = waiting(gateway, ann)
        decide(gateway, dba, review, Choice.APPROVED)
        silent.settimeout(60)
        dialled, _ = silent.accept()
        decide(gateway, dba, review, Choice.REVOKED, "not now")
        assert "not now" in client.ended()[2]
        dialled.close()
    assert gateway.newest_finished(connection.name).metadata["end_reason"] == "revoked"


def another_login(gateway: Gateway) -> Secret:
    account = gateway.call(gateway.services.users.get(gateway.admin, gateway.admin.email))
    return gateway.call(gateway.services.logins.open(account, LoginMethod.LOCAL, CLIENT)).token
