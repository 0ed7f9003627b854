"""Many sessions that open at once ask a source once, and what it said is soon forgotten."""

from __future__ import annotations

import asyncio
from functools import partial

from postern.errors import Unavailable
from postern.integrations.secrets.source import DEADLINE, Document, SecretSource

LIFE = 20.0  # seconds from when a source was asked; so a value that was changed there is used for no longer
MOST = 256  # documents


class Cached:
    """A source before which one call answers all who ask for a name meanwhile. Errors are not kept."""

    def __init__(
        self, source: SecretSource, *, life: float = LIFE, most: int = MOST, deadline: float = DEADLINE
    ) -> None:
        self._source = source
        self._life = life
        self._most = most
        self._deadline = deadline
        self._kept: dict[str, tuple[Document, float, asyncio.TimerHandle]] = {}
        self._asked: dict[str, asyncio.Task[Document]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def fetch(self, name: str) -> Document:
        kept = self._kept.get(name)
        if kept is not None and asyncio.get_running_loop().time() < kept[1]:
            return kept[0]
        asked = self._asked.get(name)
        if asked is None:
            asked = asyncio.create_task(self._ask(name))
            self._asked[name] = asked
            asked.add_done_callback(partial(self._answered, name))
        return await asyncio.shield(asked)  # who gives up does not end the call for the others

    def forget(self, name: str) -> None:
        """The next one who asks hears what the source says then: the value that is kept did not work."""
        kept = self._kept.pop(name, None)
        if kept is not None:
            kept[2].cancel()

    async def _ask(self, name: str) -> Document:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._life
        try:
            async with asyncio.timeout(self._deadline):
                document = await self._source.fetch(name)
        except TimeoutError:
            raise Unavailable(f"there was no answer within {self._deadline:g} seconds") from None
        self.forget(name)
        while len(self._kept) >= self._most:
            self.forget(next(iter(self._kept)))
        self._kept[name] = document, until, loop.call_at(until, self.forget, name)
        return document

    def _answered(self, name: str, asked: asyncio.Task[Document]) -> None:
        if self._asked.get(name) is asked:
            del self._asked[name]
        if not asked.cancelled():
            asked.exception()  # seen, even when everybody who waited has gone
