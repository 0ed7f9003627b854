from __future__ import annotations

import asyncio

import pytest
from tests.support.promises import until

from postern.errors import Unavailable
from postern.store.batch import WriteBatch


class Store:
    """Doubles numbers; rejects a batch that contains 13, and every batch while it is unavailable."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.away = False
        self.free = asyncio.Event()  # to take the next batch
        self.free.set()

    async def write(self, items: list[int]) -> list[int]:
        self.seen.append(items)
        await asyncio.sleep(0.001)
        await self.free.wait()
        if self.away:
            raise Unavailable("away")
        if 13 in items:
            raise ValueError("13")
        return [2 * item for item in items]


async def test_items_added_during_a_write_form_the_next_batches() -> None:
    store = Store()
    batch = WriteBatch(store.write, most=3)
    store.free.clear()
    first = asyncio.ensure_future(batch.add(1))
    await until(lambda: store.seen)
    meanwhile = [asyncio.ensure_future(batch.add(number)) for number in (2, 3, 4, 5)]
    await asyncio.sleep(0)
    store.free.set()
    assert await asyncio.gather(*meanwhile) == [4, 6, 8, 10]
    assert await first == 2
    assert store.seen == [[1], [2, 3, 4], [5]]
    assert await batch.add(6) == 12


async def test_item_that_cannot_be_written_does_not_fail_its_batch() -> None:
    store = Store()
    batch = WriteBatch(store.write)
    results = await asyncio.gather(*(batch.add(number) for number in (1, 13, 2)), return_exceptions=True)
    assert [results[0], results[2]] == [2, 4]
    assert isinstance(results[1], ValueError)


async def test_unavailable_store_is_called_once_for_a_batch() -> None:
    store = Store()
    store.away = True
    batch = WriteBatch(store.write)
    results = await asyncio.gather(*(batch.add(number) for number in (1, 2)), return_exceptions=True)
    assert all(isinstance(result, Unavailable) for result in results)
    assert len(store.seen) == 1


async def test_cancelled_item_does_not_cancel_the_others_of_its_batch() -> None:
    store = Store()
    batch = WriteBatch(store.write)
    gone, stays = (asyncio.ensure_future(batch.add(number)) for number in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == 4
    with pytest.raises(asyncio.CancelledError):
        await gone
