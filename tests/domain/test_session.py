"""The states of a session, as they are written down."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from postern.domain.sessions.session import (
    CHANGES,
    TRANSITIONS,
    EndReason,
    Outcome,
    Session,
    SessionEvent,
    SessionStatus,
    Verb,
    sources,
    target,
)


def make_session(**fields: Any) -> Session:
    """Return a session of ann's that is done."""
    known: dict[str, Any] = {"verb": Verb.CONNECT, "status": SessionStatus.DONE} | fields
    return Session(
        id=UUID(int=1),
        org_id=UUID(int=2),
        connection_id=UUID(int=3),
        connection="shop",
        connection_subtype="postgres",
        connection_tags={},
        type="database",
        user="ann@example.com",
        user_id="ann",
        user_name="Ann",
        start_date=datetime(2026, 1, 2, tzinfo=UTC),
        **known,
    )


def test_nothing_leads_out_of_done() -> None:
    assert all(state is not SessionStatus.DONE for state, _ in TRANSITIONS)


def test_every_state_but_done_can_end() -> None:
    assert set(sources(SessionEvent.ENDED)) == set(SessionStatus) - {SessionStatus.DONE}


def test_every_event_leads_to_one_state_and_every_state_is_reached() -> None:
    assert {target(event) for event in SessionEvent} == set(SessionStatus)


def test_what_happens_to_a_session_says_what_it_changes() -> None:
    later = {event for state, event in TRANSITIONS if state is not None}
    assert set(CHANGES) == later


REFUSED = {"refused": 1}


@pytest.mark.parametrize(
    ("reason", "verb", "exit_code", "metrics", "outcome"),
    [
        (EndReason.CLIENT_CLOSED, Verb.CONNECT, None, {}, Outcome.SUCCEEDED),
        (EndReason.CLIENT_CLOSED, Verb.CONNECT, None, REFUSED, Outcome.SUCCEEDED),
        (EndReason.CLIENT_CLOSED, Verb.CONNECT, 1, {}, Outcome.SUCCEEDED),  # a shell's last command failed
        (EndReason.TARGET_CLOSED, Verb.CONNECT, None, {}, Outcome.SUCCEEDED),
        (EndReason.COMPLETED, Verb.EXEC, 0, {}, Outcome.SUCCEEDED),
        (EndReason.COMPLETED, Verb.EXEC, 3, {}, Outcome.FAILED),
        (EndReason.COMPLETED, Verb.EXEC, 1, REFUSED, Outcome.REFUSED),
        (EndReason.COMPLETED, Verb.EXEC, 0, REFUSED, Outcome.SUCCEEDED),
        (EndReason.FAILED, Verb.EXEC, 1, {}, Outcome.FAILED),
        (EndReason.FAILED, Verb.EXEC, 1, REFUSED, Outcome.REFUSED),
        (EndReason.REJECTED, Verb.EXEC, None, {}, Outcome.REFUSED),
        (EndReason.WITHDRAWN, Verb.EXEC, None, {}, Outcome.WITHDRAWN),
        (EndReason.KILLED, Verb.CONNECT, None, REFUSED, Outcome.KILLED),
        (EndReason.REVOKED, Verb.CONNECT, None, {}, Outcome.KILLED),
        (EndReason.EXPIRED, Verb.CONNECT, None, {}, Outcome.EXPIRED),
        (EndReason.GATEWAY_CRASHED, Verb.CONNECT, None, {}, Outcome.FAILED),
        (EndReason.PROTOCOL_VIOLATION, Verb.CONNECT, None, {}, Outcome.FAILED),
    ],
)
def test_outcome_tells_ways_to_be_done_apart(
    reason: EndReason, verb: Verb, exit_code: int | None, metrics: dict[str, int], outcome: Outcome
) -> None:
    ended = make_session(verb=verb, exit_code=exit_code, metrics=metrics, metadata={"end_reason": reason})
    assert ended.outcome is outcome
    assert replace(ended, status=SessionStatus.OPEN).outcome is None


@pytest.mark.parametrize("reason", EndReason)
def test_every_reason_has_an_outcome(reason: EndReason) -> None:
    assert make_session(metadata={"end_reason": reason}).outcome is not None
