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


def test_what_is_kept_never_outlives_half_a_minute() -> None:
    assert LIFE + DEADLINE <= 30


async def test_many_who_ask_at_once_are_one_call() -> None:
    source = Slow()
    cached = CachedSource(source)
    assert set(await asyncio.gather(*(text(cached) for _ in range(100)))) == {"1"}
    assert await text(cached) == "1"
    assert source.asked == ["db"]


async def test_it_is_dropped_by_itself_when_its_life_ends() -> None:
    cached = CachedSource(Slow(), life=1.0)
    assert await text(cached) == "1"
    assert len(cached) == 1
    await until(lambda: not len(cached))
    assert await text(cached) == "2"


async def test_its_life_begins_when_the_source_is_asked() -> None:
    cached = CachedSource(Slow(delay=0.1), life=0.05)
    assert await text(cached) == "1"
    assert await text(cached) == "2"


async def test_what_did_not_work_is_asked_for_anew() -> None:
    cached = CachedSource(Slow())
    assert await text(cached) == "1"
    cached.forget("db")
    cached.forget("none")
    assert len(cached) == 0
    assert await text(cached) == "2"


async def test_no_more_than_its_bound_is_kept() -> None:
    cached = CachedSource(Slow(delay=0), most=3)
    for number in range(10):
        await text(cached, str(number))
    assert len(cached) == 3
    assert await text(cached, "9") == "10"


async def test_an_error_reaches_all_who_wait_and_is_not_kept() -> None:
    source = Slow()
    source.broken = True
    cached = CachedSource(source)
    found = await asyncio.gather(*(text(cached) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(error, Unavailable) for error in found)
    assert len(source.asked) == 1
    source.broken = False
    assert await text(cached) == "2"


async def test_who_gives_up_does_not_end_the_call_for_others() -> None:
    source = Slow(delay=0.1)
    cached = CachedSource(source)
    first, second = asyncio.create_task(text(cached)), asyncio.create_task(text(cached))
    await asyncio.sleep(0.01)
    first.cancel()
    assert await second == "1"
    assert first.cancelled()


async def test_a_source_that_hangs_is_given_up() -> None:
    cached = CachedSource(Slow(delay=60), deadline=0.05)
    with pytest.raises(Unavailable, match=r"no answer within 0\.05 seconds"):
        await text(cached)
