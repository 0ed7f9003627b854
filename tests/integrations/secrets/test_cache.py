from __future__ import annotations

import asyncio

import pytest
from tests.support.promises import until

from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.integrations.secrets.source import DEADLINE, Document
from postern.integrations.secrets.sources import LIFE, CachedSource


class Slow:
    """Answers each name with how often it was asked, after `delay` seconds; `broken` raises."""

    def __init__(self, delay: float = 0.01) -> None:
        self.delay = delay
        self.asked: list[str] = []
        self.broken = False

    async def fetch(self, name: str) -> Document:
        self.asked.append(name)
        await asyncio.sleep(self.delay)
        if self.broken:
            raise Unavailable("broken")
        return Document(Secret(str(len(self.asked))))


async def text(cached: CachedSource, name: str = "db") -> str:
    return (await cached.fetch(name)).text.reveal()


def test_cached_secret_lives_at_most_half_a_minute() -> None:
    assert LIFE + DEADLINE <= 30


async def test_concurrent_requests_for_a_secret_are_one_call() -> None:
    source = Slow()
    cached = CachedSource(source)
    assert set(await asyncio.gather(*(text(cached) for _ in range(100)))) == {"1"}
    assert await text(cached) == "1"
    assert source.asked == ["db"]


async def test_cached_secret_is_deleted_when_it_expires() -> None:
    cached = CachedSource(Slow(), life=1.0)
    assert await text(cached) == "1"
    assert len(cached) == 1
    await until(lambda: not len(cached))
    assert await text(cached) == "2"


async def test_lifetime_of_a_cached_secret_begins_with_the_call() -> None:
    cached = CachedSource(Slow(delay=0.1), life=0.05)
    assert await text(cached) == "1"
    assert await text(cached) == "2"


async def test_forgotten_secret_is_requested_again() -> None:
    cached = CachedSource(Slow())
    assert await text(cached) == "1"
    cached.forget("db")
    cached.forget("none")
    assert len(cached) == 0
    assert await text(cached) == "2"


async def test_number_of_cached_secrets_is_limited() -> None:
    cached = CachedSource(Slow(delay=0), most=3)
    for number in range(10):
        await text(cached, str(number))
    assert len(cached) == 3
    assert await text(cached, "9") == "10"


async def test_error_of_a_source_reaches_all_waiting_requests_and_is_not_cached() -> None:
    source = Slow()
    source.broken = True
    cached = CachedSource(source)
    found = await asyncio.gather(*(text(cached) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(error, Unavailable) for error in found)
    assert len(source.asked) == 1
    source.broken = False
    assert await text(cached) == "2"


async def test_cancelled_request_does_not_cancel_the_shared_call() -> None:
    source = Slow(delay=0.1)
    cached = CachedSource(source)
    first, second = asyncio.create_task(text(cached)), asyncio.create_task(text(cached))
    await asyncio.sleep(0.01)
    first.cancel()
    assert await second == "1"
    assert first.cancelled()


async def test_call_to_a_hanging_source_times_out() -> None:
    cached = CachedSource(Slow(delay=60), deadline=0.05)
    with pytest.raises(Unavailable, match=r"no answer within 0\.05 seconds"):
        await text(cached)
