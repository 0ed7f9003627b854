"""Held statements: the link waits, the client knows why, and nothing runs before the decision."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.targets.connection import Connection
from postern.errors import Conflict, Denied, NotFound
from postern.store.ports.review_ports import ReviewFilter

REVIEW = Rule(RuleType.REQUIRE_WHERE, name="where", action=Action.REVIEW)
REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.fixture(scope="module")
def reviewed(gateway: Gateway, target: PostgresServer) -> Iterator[Connection]:
    connection = gateway.connection("reviewed", target)
    fields = {"name": "four eyes", "input": (REVIEW,), "connection_ids": (str(connection.id),)}
    made: Guardrail = gateway.call(gateway.services.guardrails.create(gateway.admin, fields))
    yield connection
    gateway.call(gateway.services.guardrails.remove(gateway.admin, str(made.id)))


@pytest.fixture(scope="module")
def other(gateway: Gateway) -> Principal:
    """Another administrator: nobody decides on their own."""
    fields = {"email": "second@example.com", "groups": ("admin",), "status": PrincipalStatus.ACTIVE}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal


@pytest.fixture(autouse=True)
def kept(direct: psycopg.Connection) -> None:
    direct.execute("drop table if exists watched")
    direct.execute("create table watched as select 1 as n")


def rows(direct: psycopg.Connection) -> int:
    found = direct.execute("select count(*) from watched").fetchone()
    assert found is not None
    return int(found[0])


class Asking:
    """A client that sends one statement from a thread of its own."""

    def __init__(self, connection: psycopg.Connection, statement: str, *, prepare: bool = False) -> None:
        self.error: psycopg.Error | None = None
        self._connection = connection
        self._statement = statement
        self._prepare = prepare
        self.told: list[str] = []
        connection.add_notice_handler(lambda one: self.told.append(f"{one.message_primary} {one.message_hint}"))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._connection.execute(self._statement.encode(), prepare=self._prepare)
        except psycopg.Error as error:
            self.error = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def done(self) -> Asking:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self


def waits_for(gateway: Gateway, principal: Principal) -> Review:
    """The first statement that waits."""

    def first() -> Review | None:
        found = waiting(gateway, principal)
        return found[0] if found else None

    return wait_until(first)


def waiting(gateway: Gateway, principal: Principal) -> list[Review]:
    wanted = ReviewFilter(status=ReviewStatus.PENDING, kind=ReviewKind.STATEMENT)
    return list(gateway.call(gateway.services.reviews.find(principal, wanted, Page())).items)


def decide(gateway: Gateway, principal: Principal, asked: Review, *, approve: bool, comment: str = "") -> Review:
    choice = Choice.APPROVED if approve else Choice.REJECTED
    return gateway.call(gateway.services.reviews.decide(principal, str(asked.id), choice, comment=comment))


@pytest.mark.parametrize("prepare", [False, True])
def test_approved_statement_runs(
    gateway: Gateway, reviewed: Connection, other: Principal, direct: psycopg.Connection, prepare: bool
) -> None:
    with psycopg.connect(gateway.url("reviewed"), autocommit=True) as connection:
        asking = Asking(connection, "delete from watched", prepare=prepare)
        asked = waits_for(gateway, other)
        assert asked.input == "delete from watched"
        assert asked.owner.email == gateway.admin.email
        assert asking.waits
        assert rows(direct) == 1
        wait_until(lambda: asking.told)
        assert f"postern reviews approve {asked.id}" in asking.told[0]
        assert str(asked.session_id) in asking.told[0]
        decide(gateway, other, asked, approve=True)
        assert asking.done().error is None
        assert rows(direct) == 0
        assert connection.execute("select 1").fetchone() == (1,)
        assert f"{other.email} approved it" in asking.told[1]
        with pytest.raises(Conflict, match="it is APPROVED"):
            decide(gateway, other, asked, approve=False)
    session = gateway.newest_finished("reviewed")
    assert "waits for a decision" in gateway.text(session.id)
    assert f"{other.email} approved it" in gateway.text(session.id)


def test_rejected_statement_fails_and_the_connection_continues(
    gateway: Gateway, reviewed: Connection, other: Principal, direct: psycopg.Connection
) -> None:
    with psycopg.connect(gateway.url("reviewed"), autocommit=True) as connection:
        asking = Asking(connection, "delete from watched")
        asked = waits_for(gateway, other)
        decide(gateway, other, asked, approve=False, comment="use the job")
        error = asking.done().error
        assert isinstance(error, REFUSED)
        assert "rejected it: use the job" in str(error)
        assert connection.execute("select count(*) from watched").fetchone() == (1,)
    assert rows(direct) == 1


def test_attack_user_cannot_approve_their_own_statement(
    gateway: Gateway, reviewed: Connection, other: Principal
) -> None:
    with psycopg.connect(gateway.url("reviewed"), autocommit=True) as connection:
        asking = Asking(connection, "delete from watched")
        asked = waits_for(gateway, other)
        with pytest.raises(Denied):
            decide(gateway, gateway.admin, asked, approve=True)
        assert asking.waits
        decide(gateway, other, asked, approve=False)
        asking.done()


def test_client_that_cancels_or_disconnects_withdraws_its_review(
    gateway: Gateway, reviewed: Connection, other: Principal, direct: psycopg.Connection
) -> None:
    with psycopg.connect(gateway.url("reviewed"), autocommit=True) as connection:
        asking = Asking(connection, "delete from watched")
        waits_for(gateway, other)
        connection.cancel()
        assert "cancelled while it was held" in str(asking.done().error)
        assert connection.execute("select 1").fetchone() == (1,)
        wait_until(lambda: not waiting(gateway, other))
    gone = psycopg.connect(gateway.url("reviewed"), autocommit=True)
    gone.pgconn.send_query(b"delete from watched")
    gone.pgconn.flush()
    asked = waits_for(gateway, other)
    gone.pgconn.finish()
    wait_until(lambda: not waiting(gateway, other))
    with pytest.raises(Conflict):
        decide(gateway, other, asked, approve=True)
    assert rows(direct) == 1


def test_input_after_a_held_statement_waits_for_the_decision(
    gateway: Gateway, reviewed: Connection, other: Principal, direct: psycopg.Connection
) -> None:
    raw = psycopg.connect(gateway.url("reviewed"), autocommit=True).pgconn
    raw.enter_pipeline_mode()
    for text in (b"select 1", b"delete from watched", b"insert into watched values (7)"):
        raw.send_query_params(text, None)
        raw.pipeline_sync()
    raw.flush()
    asked = waits_for(gateway, other)
    assert rows(direct) == 1
    decide(gateway, other, asked, approve=True)
    wait_until(lambda: direct.execute("select array_agg(n) from watched").fetchone() == ([7],))
    raw.finish()


def test_review_is_not_visible_to_another_organisation(
    gateway: Gateway, reviewed: Connection, other: Principal
) -> None:
    with psycopg.connect(gateway.url("reviewed"), autocommit=True) as connection:
        asking = Asking(connection, "delete from watched")
        asked = waits_for(gateway, other)
        stranger = replace(other, org_id=uuid4())
        assert waiting(gateway, stranger) == []
        with pytest.raises(NotFound):
            decide(gateway, stranger, asked, approve=True)
        decide(gateway, other, asked, approve=False)
        asking.done()
