"""The states of a session, as they are written down."""

from __future__ import annotations

from postern.domain.session import CHANGES, TRANSITIONS, SessionEvent, SessionStatus, sources, target


def test_nothing_leads_out_of_done() -> None:
    assert all(state is not SessionStatus.DONE for state, _ in TRANSITIONS)


def test_every_state_but_done_can_end() -> None:
    assert set(sources(SessionEvent.ENDED)) == set(SessionStatus) - {SessionStatus.DONE}


def test_every_event_leads_to_one_state_and_every_state_is_reached() -> None:
    assert {target(event) for event in SessionEvent} == set(SessionStatus)


def test_what_happens_to_a_session_says_what_it_changes() -> None:
    later = {event for state, event in TRANSITIONS if state is not None}
    assert set(CHANGES) == later
