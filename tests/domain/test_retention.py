"""Which retention holds when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern.domain.sessions.retention import (
    FOR_EVER,
    GRACE,
    WHOLE_ORGANISATION,
    PurgeScope,
    RetainedSession,
    Retention,
    RetentionSetting,
    due,
    retentions_at,
)
from postern.errors import Invalid

AT = datetime(2026, 5, 1, tzinfo=UTC)
ORG, SHOP, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)
DAYS = st.none() | st.integers(1, 1000)


def allowed(recording: int | None, session: int | None) -> Retention | None:
    wanted = Retention(recording, session)
    try:
        wanted.check()
    except Invalid:
        return None
    return wanted


ALLOWED = st.builds(allowed, DAYS, DAYS).filter(lambda one: one is not None)


@given(DAYS, DAYS)
def test_a_session_is_never_kept_shorter_than_its_recording(recording: int | None, session: int | None) -> None:
    is_shorter = session is not None and (recording is None or session < recording)
    assert (allowed(recording, session) is None) == is_shorter


@given(ALLOWED, ALLOWED)
def test_what_is_longer_of_two_is_a_retention_and_keeps_no_shorter_than_each(one: Retention, two: Retention) -> None:
    longer = one.or_longer(two)
    longer.check()
    for each in (one, two):
        assert longer.or_longer(each) == longer


@given(ALLOWED, ALLOWED, ALLOWED)
def test_until_it_takes_effect_nothing_is_kept_shorter_than_before(
    whole: Retention, wanted: Retention, before: Retention
) -> None:
    setting = RetentionSetting(ORG, SHOP, "shop", wanted, before, AT + GRACE)
    assert setting.in_force(whole, AT).or_longer(before) == setting.in_force(whole, AT)
    assert setting.in_force(whole, AT + GRACE) == wanted


def test_a_connections_own_wins_and_none_goes_by_the_organisations() -> None:
    settings = [
        RetentionSetting(ORG, WHOLE_ORGANISATION, "", Retention(30, 60)),
        RetentionSetting(ORG, SHOP, "shop", FOR_EVER),
        RetentionSetting(ORG, OTHER, "other", None, Retention(90, 90), AT),
    ]
    found = retentions_at(settings, AT)
    assert (found.of(SHOP), found.of(OTHER), found.of(UUID(int=9))) == (FOR_EVER, Retention(30, 60), Retention(30, 60))
    assert retentions_at(settings, AT - timedelta(seconds=1)).of(OTHER) == Retention(90, 90)
    assert found.shortest == 30
    assert retentions_at([], AT).shortest is None


@pytest.mark.parametrize(
    ("days", "has_recording", "wanted"),
    [(29, True, None), (30, True, None), (31, True, PurgeScope.RECORDING), (31, False, None),
     (61, False, PurgeScope.SESSION),
     (61, True, PurgeScope.SESSION)],
)  # fmt: skip
def test_what_is_due(days: int, has_recording: bool, wanted: PurgeScope | None) -> None:
    kept = RetainedSession(UUID(int=4), ORG, SHOP, AT, AT, has_recording)
    assert due(kept, Retention(30, 60), AT + timedelta(days=days)) is wanted
    assert due(kept, FOR_EVER, AT + timedelta(days=10_000)) is None


def test_moments_before_the_session_purge_nothing() -> None:
    kept = RetainedSession(UUID(int=4), ORG, SHOP, AT, AT, True)
    assert due(kept, Retention(1, 1), AT - timedelta(days=400)) is None
