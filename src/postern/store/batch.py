"""Batching of concurrent writes: one hand-over and one commit for all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from postern.errors import Unavailable

T = TypeVar("T")
R = TypeVar("R")
_Waiting = tuple[T, asyncio.Future[R]]


class WriteBatch(Generic[T, R]):
    """`write` writes some items, all or none, and returns a result for each.

    No write is delayed for batching: what arrives while one batch is being written is the next one.
    """

    def __init__(self, write: Callable[[list[T]], Awaitable[list[R]]], *, most: int = 200) -> None:
        self._write = write
        self._most = most
        self._waiting: list[_Waiting[T, R]] = []
        self._writer: asyncio.Task[None] | None = None

    async def add(self, item: T) -> R:
        """Return the item's result, or raise what `write` raises for it."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, written))
        if self._writer is None or self._writer.done():
            self._writer = loop.create_task(self._run())
        return await written

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                await self._flush(batch)
            except Exception:
                for waiting in batch:  # so that one that cannot be written takes no other with it
                    await self._alone(waiting)

    async def _flush(self, batch: list[_Waiting[T, R]]) -> None:
        try:
            results = await self._write([item for item, _ in batch])
        except Unavailable as error:  # which another attempt would only wait for again
            for _, written in batch:
                if not written.done():
                    written.set_exception(error)
            return
        for (_, written), result in zip(batch, results, strict=True):
            if not written.done():
                written.set_result(result)

    async def _alone(self, waiting: _Waiting[T, R]) -> None:
        try:
            await self._flush([waiting])
        except Exception as error:
            if not waiting[1].done():
                waiting[1].set_exception(error)
