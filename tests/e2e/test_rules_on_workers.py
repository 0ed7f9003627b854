"""Rules and reviews with several workers: changes reach all of them, and a killed worker leaves no pending review."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from tests.e2e.test_reviews import decide, waiting
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until, within

from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.errors import Conflict
from postern.services.server.organisations import OrganisationFields

pytestmark = pytest.mark.slow

DENY = Rule(RuleType.DENY_WORDS_LIST, words=("kept_out",), name="words")
REVIEW = Rule(RuleType.DENY_WORDS_LIST, words=("reviewed",), name="words", action=Action.REVIEW)
REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.fixture(scope="module")
def two(target: PostgresServer) -> Iterator[tuple[Gateway, int]]:
    """A gateway with two workers, and the port of the second."""
    running, port = Gateway(gateway_commands=True), free_port()
    try:
        running.start()
        running.add_worker("second", postgres_port=port, tunnel_port=free_port())
        running.connection("target", target)
        yield running, port
    finally:
        running.stop()


@pytest.fixture(scope="module")
def other(two: tuple[Gateway, int]) -> Principal:
    gateway, _ = two
    fields = {"email": "second@example.com", "groups": ("admin",), "status": PrincipalStatus.ACTIVE}
    return gateway.call(gateway.services.users.create(gateway.admin, fields)).principal


def create(gateway: Gateway, name: str, *rules: Rule, connection: str = "target") -> Guardrail:
    found = gateway.call(gateway.services.connections.get(gateway.admin, connection))
    fields = {"name": name, "input": rules, "connection_ids": (str(found.id),)}
    return gateway.call(gateway.services.guardrails.create(gateway.admin, fields))


def remove(gateway: Gateway, made: Guardrail) -> None:
    gateway.call(gateway.services.guardrails.remove(gateway.admin, str(made.id)))


def refusal(connection: psycopg.Connection) -> str:
    """What the client reads; empty: it ran."""
    try:
        connection.execute("select 'kept_out'")
    except REFUSED as error:
        return f"{error.diag.message_primary} {error.diag.message_hint}"
    return ""


def reads(connection: psycopg.Connection, wanted: str) -> None:
    """Within the two seconds that are promised; empty: nothing is refused."""
    wait_until(lambda: wanted in refusal(connection) if wanted else not refusal(connection), timeout=within(2))


def test_changed_guardrail_reaches_running_sessions_of_every_worker(two: tuple[Gateway, int]) -> None:
    gateway, port = two
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(psycopg.connect(gateway.url("target", port=one), autocommit=True))
            for one in (None, port)
        ]
        assert [refusal(one) for one in sessions] == ["", ""]
        made = create(gateway, "care", DENY)
        for one in sessions:
            reads(one, "ask an administrator")
        organisations = gateway.services.organisations
        said = "Ask at https://access.example.com"
        gateway.call(organisations.update(gateway.admin, OrganisationFields(access_help=said)))
        for one in sessions:
            reads(one, said)
        changed = {"name": "care", "input": (Rule(RuleType.DENY_WORDS_LIST, words=("something else",)),)}
        gateway.call(gateway.services.guardrails.replace(gateway.admin, str(made.id), changed))
        for one in sessions:
            reads(one, "")
        remove(gateway, made)


def test_attack_review_of_a_killed_worker_is_withdrawn_and_cannot_be_approved(
    two: tuple[Gateway, int], other: Principal
) -> None:
    """Otherwise a reviewer would approve a statement that never runs."""
    gateway, port = two
    made = create(gateway, "review", REVIEW)
    asker = psycopg.connect(gateway.url("target", port=port), autocommit=True)
    asker.pgconn.send_query(b"select 'reviewed'")
    asker.pgconn.flush()
    wait_until(lambda: waiting(gateway, other))
    (asked,) = waiting(gateway, other)
    gateway.workers["second"].kill()
    gateway.workers["second"].start()
    gateway.all_closed()
    with pytest.raises(Conflict):
        decide(gateway, other, asked, approve=True)
    gateway.call(gateway.services.reviews.settle())
    kept = gateway.call(gateway.services.reviews.get(other, str(asked.id)))
    assert kept.status is ReviewStatus.WITHDRAWN
    asker.close()
    remove(gateway, made)


def shell(gateway: Gateway) -> Connection:
    fields: dict[str, Any] = {
        "name": "shell",
        "type": ConnectionType.CUSTOM,
        "subtype": "",
        "agent_id": gateway._agent.id,
        "access_mode_connect": Toggle.ENABLED,
        "access_mode_exec": Toggle.ENABLED,
        "access_mode_runbooks": Toggle.ENABLED,
        "access_schema": Toggle.ENABLED,
        "command": ("bash", "--norc"),
    }
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


@pytest.mark.parametrize(("connection", "script"), [("target", "select 'reviewed'"), ("shell", "echo reviewed")])
def test_script_waits_for_its_review_and_prints_how_to_approve_it(
    two: tuple[Gateway, int], other: Principal, connection: str, script: str
) -> None:
    gateway, _ = two
    if connection == "shell":
        shell(gateway)
    made = create(gateway, f"review of {connection}", REVIEW, connection=connection)
    for approve in (True, False):
        submit = gateway.services.sessions.submit(gateway.admin, connection, script, source="127.0.0.1")
        submitted: Session = gateway.call(submit)
        wait_until(lambda: waiting(gateway, other))
        (asked,) = waiting(gateway, other)
        assert (asked.session_id, asked.input.splitlines()[0]) == (submitted.id, script)
        decide(gateway, other, asked, approve=approve, comment="because")
        session = gateway.finished(submitted.id, 20)
        text = gateway.text(session.id)
        assert f"postern reviews approve {asked.id}" in text
        said = "approved it: because" if approve else "rejected it: because"
        assert f"{other.email} {said}" in text
        assert (session.exit_code == 0) is approve
    remove(gateway, made)
