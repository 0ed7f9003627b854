"""Wrong passwords × who sent them × whether a password is checked."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.support.world import FakeClock

from postern.errors import Unauthenticated, Unavailable
from postern.gateway.clients.failed_logins import (
    MOST_OF_NETWORK,
    MOST_OF_USER,
    WINDOW,
    FailedLogins,
    TooManyFailedLogins,
)


async def attempt(failed: FailedLogins, user: str, address: str, error: Exception | None = None) -> str:
    try:
        async with failed.attempt(user, address):
            await asyncio.sleep(0)
            if error is not None:
                raise error
    except (TooManyFailedLogins, Unauthenticated, Unavailable) as refused:
        return type(refused).__name__
    return "checked"


async def test_wrong_passwords_at_the_same_time_count() -> None:
    failed = FailedLogins()
    work = [attempt(failed, "ann", "192.0.2.1", Unauthenticated("wrong")) for _ in range(3 * MOST_OF_USER)]
    results = await asyncio.gather(*work)
    assert (results.count("Unauthenticated"), results.count("TooManyFailedLogins")) == (MOST_OF_USER, 2 * MOST_OF_USER)


@pytest.mark.parametrize(
    ("user", "address", "result"),
    [
        ("ann", "192.0.2.1", "TooManyFailedLogins"),
        ("ann", "::ffff:192.0.2.1", "TooManyFailedLogins"),
        ("ann", "192.0.2.2", "checked"),
        ("bob", "192.0.2.1", "checked"),
    ],
)
async def test_only_the_user_at_the_network_is_limited(user: str, address: str, result: str) -> None:
    failed = FailedLogins()
    for _ in range(MOST_OF_USER):
        await attempt(failed, "ann", "192.0.2.1", Unauthenticated("wrong"))
    assert await attempt(failed, user, address) == result


async def test_guesses_of_many_user_names_are_limited_for_their_network() -> None:
    failed = FailedLogins()
    for number in range(MOST_OF_NETWORK):
        assert await attempt(failed, f"user{number}", "2001:db8::1", Unauthenticated("wrong")) == "Unauthenticated"
    assert await attempt(failed, "ann", "2001:db8::2") == "TooManyFailedLogins"
    assert await attempt(failed, "ann", "2001:db8:1::1") == "checked"


async def test_limit_ends_with_its_window() -> None:
    clock = FakeClock()
    failed = FailedLogins(clock)
    for _ in range(MOST_OF_USER):
        await attempt(failed, "ann", "192.0.2.1", Unauthenticated("wrong"))
    assert await attempt(failed, "ann", "192.0.2.1") == "TooManyFailedLogins"
    clock.forward(seconds=WINDOW / timedelta(seconds=1))
    assert await attempt(failed, "ann", "192.0.2.1") == "checked"


@pytest.mark.parametrize("error", [None, Unavailable("the store is away")])
async def test_only_wrong_passwords_count(error: Exception | None) -> None:
    failed = FailedLogins()
    for _ in range(2 * MOST_OF_USER):
        await attempt(failed, "ann", "192.0.2.1", error)
    assert await attempt(failed, "ann", "192.0.2.1") == "checked"
