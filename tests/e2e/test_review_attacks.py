"""Attacks on reviews, and failures at bad moments, with real clients and targets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from tests.e2e.test_reviews import REVIEW
from tests.e2e.test_reviews import waiting as statements
from tests.e2e.test_waiting_clients import Holder, Psql, decide, is_cut, person, tunnelled, waiting
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until
from tests.support.protocols import postgres_test_messages as pg

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice, Review
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.targets.connection import Connection
from postern.errors import Conflict

pytestmark = pytest.mark.slow

NAME = "both"
STARTUP = b"\x00\x03\x00\x00user\0ann\0database\0postgres\0\0"
STARTUP = (len(STARTUP) + 4).to_bytes(4, "big") + STARTUP


@pytest.fixture(scope="module")
def both(gateway: Gateway, target: PostgresServer) -> Connection:
    """Who connects waits for the dba, and so does a DELETE of all rows."""
    person(gateway, "dba2@example.com", "dba2")
    connection = gateway.connection(NAME, target, reviewers=("dba2",))
    fields = {"name": "both eyes", "input": (REVIEW,), "connection_ids": (str(connection.id),)}
    gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    return connection


@pytest.fixture
def dba(gateway: Gateway, both: Connection) -> Principal:
    return gateway.call(gateway.services.users.get(gateway.admin, "dba2@example.com")).principal


@pytest.fixture
def ann(gateway: Gateway, both: Connection) -> Principal:
    return person(gateway, f"ann-{uuid4().hex[:8]}@example.com", "dev")


@pytest.fixture
def twice(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists twice; create table twice as select 1 as n")


def held(gateway: Gateway, dba: Principal, who: Principal) -> Review:
    """Their statement that waits."""
    return wait_until(lambda: next((one for one in statements(gateway, dba) if one.owner.principal_id == who.id), None))


def left(direct: psycopg.Connection) -> int:
    return len(direct.execute("select n from twice").fetchall())


@pytest.mark.usefixtures("twice")
def test_approved_statement_runs_although_other_settings_changed_meanwhile(
    gateway: Gateway, ann: Principal, dba: Principal
) -> None:
    """Login and statement of the user are each reviewed once."""
    client = Psql(gateway.url(NAME, issued=gateway.credential(NAME, principal=ann)), "delete from twice")
    decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
    asked = held(gateway, dba, ann)
    features = gateway.services.features
    for enabled in (False, True):
        gateway.call(features.put(gateway.admin, Feature.SESSION_DOWNLOAD, enabled=enabled))
    worker = psycopg.connect(gateway.url("target"))  # its worker has heard of it
    worker.close()
    decide(gateway, dba, asked, Choice.APPROVED)
    code, out, said = client.ended()
    assert (code, out) == (0, "DELETE 1\n"), said


@pytest.mark.usefixtures("twice")
@pytest.mark.parametrize("prepared", [False, True])
def test_attack_approved_statement_run_again_needs_another_review(
    gateway: Gateway, ann: Principal, dba: Principal, direct: psycopg.Connection, prepared: bool
) -> None:
    """This holds for a prepared name, with the same values or with others."""
    holder = Holder(gateway.url(NAME, issued=gateway.credential(NAME, principal=ann)))
    decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
    with holder.done() as mine, ThreadPoolExecutor(1) as pool:
        for value, choice in ((1, Choice.APPROVED), (1, Choice.REJECTED), (2, Choice.REJECTED)):
            sent = pool.submit(mine.execute, "delete from twice returning n + %t", [str(value)], prepare=prepared)
            asked = held(gateway, dba, ann)
            assert asked.input.splitlines()[-1].startswith(f"-- $1 = '{value}'")
            decide(gateway, dba, asked, choice)
            if choice is Choice.APPROVED:
                assert sent.result(60).fetchone() == (2,)
                direct.execute("insert into twice values (1)")
            else:
                with pytest.raises(psycopg.Error, match="rejected"):
                    sent.result(60)
    assert left(direct) == 1


@pytest.mark.usefixtures("twice")
def test_attack_reviewer_of_execute_sees_the_prepared_statement(
    gateway: Gateway, ann: Principal, dba: Principal, direct: psycopg.Connection
) -> None:
    """The name alone says nothing, and another reviewer can have approved its PREPARE."""
    prepare = "prepare harmless as delete from twice"
    holder = Holder(gateway.url(NAME, issued=gateway.credential(NAME, principal=ann)))
    decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
    with holder.done() as mine, ThreadPoolExecutor(1) as pool:
        for text, choice in ((prepare, Choice.APPROVED), ("execute harmless", Choice.REJECTED)):
            sent = pool.submit(mine.execute, text.encode())
            asked = held(gateway, dba, ann)
            decide(gateway, dba, asked, choice)
            assert (sent.exception(60) is None) == (choice is Choice.APPROVED)
        assert asked.input.splitlines() == ["execute harmless", f"-- may run: {prepare!r}"]
    assert left(direct) == 1


@pytest.mark.usefixtures("twice")
def test_attack_014_input_sent_before_the_approval_is_judged_and_recorded(
    gateway: Gateway, ann: Principal, dba: Principal, direct: psycopg.Connection
) -> None:
    """A client that does not wait for its welcome gets no exception from any rule."""
    with (
        tunnelled(gateway, ann, name=NAME) as url,
        socket.create_connection(("127.0.0.1", urlsplit(url).port)) as client,
    ):
        client.sendall(STARTUP + pg.query("select 'ahead'") + pg.query("delete from twice"))
        decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
        asked = held(gateway, dba, ann)
        assert asked.input == "delete from twice"
        decide(gateway, dba, asked, Choice.REJECTED)
        client.sendall(pg.terminate())
        said = b""
        while data := client.recv(65_536):
            said += data
    assert b"ahead" in said
    assert b"rejected" in said
    assert left(direct) == 1
    assert asked.session_id is not None
    assert gateway.operations(gateway.finished(asked.session_id).id) == ["select 'ahead'", "delete from twice"]


@pytest.fixture
def mute(gateway: Gateway) -> Iterator[pytest.MonkeyPatch]:
    """Nothing that is published reaches anybody, until it is undone: as when the process is killed before it is."""

    async def lost(_topic: str, **_payload: str) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.services.signals, "publish", lost)
        yield patch


def test_revocation_with_a_lost_signal_still_ends_the_session(
    gateway: Gateway, ann: Principal, dba: Principal, mute: pytest.MonkeyPatch
) -> None:
    holder = Holder(gateway.url(NAME, issued=gateway.credential(NAME, principal=ann)))
    review = waiting(gateway, ann)
    decide(gateway, dba, review, Choice.APPROVED)
    with holder.done() as mine:
        assert mine.execute("select 1").fetchone() == (1,)
        decide(gateway, dba, review, Choice.REVOKED, "no more")
        assert mine.execute("select 1").fetchone() == (1,)
        mute.undo()
        gateway.call(gateway.services.postprocessing.once())  # as upkeep does every second
        assert is_cut(mine)
    session = next(one for one in gateway.sessions(connection=NAME) if one.user == ann.email)
    assert gateway.finished(session.id).metadata["end_reason"] == "revoked"


@pytest.mark.usefixtures("mute")
def test_script_whose_start_signal_is_lost_runs_once(
    gateway: Gateway, ann: Principal, dba: Principal, direct: psycopg.Connection
) -> None:
    direct.execute("drop table if exists once; create table once (n int)")
    sessions = gateway.services.sessions
    session = gateway.call(sessions.submit(ann, NAME, "insert into once values (1)", source="::1", means="login:1"))
    decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
    gateway.call(sessions.execute(ann, session.id))
    assert gateway.finished(session.id).exit_code == 0
    assert direct.execute("select n from once").fetchall() == [(1,)]


@pytest.mark.usefixtures("twice")
def test_attack_approved_statement_of_a_killed_worker_never_runs(
    gateway: Gateway, ann: Principal, dba: Principal, direct: psycopg.Connection
) -> None:
    """It does not run when the worker is back; the user's next login uses the earlier access approval."""
    port = free_port()
    worker = gateway.add_worker("killed", postgres_port=port, tunnel_port=free_port())
    try:
        url = gateway.url(NAME, issued=gateway.credential(NAME, principal=ann), port=port)
        client = Psql(url, "delete from twice")
        decide(gateway, dba, waiting(gateway, ann), Choice.APPROVED)
        asked = held(gateway, dba, ann)
        worker.kill()
        assert client.ended()[0] == 2
        worker.start()
        assert asked.session_id is not None
        assert gateway.finished(asked.session_id).metadata["end_reason"] == "gateway_crashed"
        with pytest.raises(Conflict, match="has ended"):
            decide(gateway, dba, asked, Choice.APPROVED)
        gateway.call(gateway.services.reviews.settle())
        assert gateway.call(gateway.services.reviews.get(dba, str(asked.id))).status is ReviewStatus.WITHDRAWN
        assert Psql(url, "select count(*) from twice").ended()[:2] == (0, "1\n")
    finally:
        worker.stop()
        del gateway.workers["killed"]
    assert left(direct) == 1
