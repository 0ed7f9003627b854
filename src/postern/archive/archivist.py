"""The archivist: takes what is sealed on this machine, stores it, and deletes the file only then.

For each segment: survey, index, put, row, delete. Every step may be repeated: a kill between any two of them is made up
for by the next round, which begins at the file again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from postern.archive.plan import Sealed, Step, by_session, next_step, row_of
from postern.archive.survey import Survey, Text, survey
from postern.domain.segment import Segment
from postern.domain.tracing import NO_SPAN, NO_TRACER, Attributes, SpanKind, Tracer, part, within
from postern.errors import Conflict, PosternError, Unavailable
from postern.recording.layout import ARCHIVE_SUFFIX, sealed_folder
from postern.recording.stored import open_blob
from postern.store.ports import Blobs, SegmentStore

log = logging.getLogger(__name__)

PAUSE = 1.0  # seconds between two looks at what is sealed
LONGEST_PAUSE = 60.0  # the same, while the blob store or the store does not answer
SET_ASIDE = 3600.0  # seconds until a file that cannot be stored is tried again
PUT_DEADLINE = 300.0  # seconds, whatever the blob store's own are
LANES = 4  # sessions at the same time
MOST = 10_000  # files that are looked at in one round


# What the search learns of a segment: (session, number, what was asked). May be called again for the same one, as after
# a kill: it replaces what it knew.
Index = Callable[[UUID, int, Sequence[Text]], Awaitable[None]]


async def no_index(_session_id: UUID, _number: int, _texts: Sequence[Text]) -> None:
    """Where nothing is searched."""


@dataclass(slots=True)
class Round:
    """What became of the files of one look. `trouble` is why it ended early."""

    stored: int = 0
    waiting: int = 0  # for a segment before them
    set_aside: int = 0
    trouble: str = ""


class Archivist:
    def __init__(
        self,
        home: Path,
        blobs: Blobs,
        segments: SegmentStore,
        *,
        index: Index = no_index,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.time,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._home = home
        self._blobs = blobs
        self._segments = segments
        self._index = index
        self._pause = pause
        self._clock = clock  # what the files' own times are of
        self._tracer = tracer
        self._aside: dict[Path, float] = {}  # when each is tried again
        self._trouble_since: float | None = None

    async def forever(self, told: Callable[[Round], None] = lambda _round: None) -> None:
        """Until cancelled. `told` hears of every round."""
        failures = 0
        while True:
            done = await self.round()
            failures = failures + 1 if done.trouble else 0
            self._say(done)
            told(done)
            if not (done.stored and not done.trouble):
                await asyncio.sleep(min(LONGEST_PAUSE, self._pause * 2.0 ** min(failures, 20)))

    async def round(self) -> Round:
        """Takes what is there now. What cannot be stored stays, and is no hindrance to the rest."""
        done = Round()
        now = self._clock()
        self._aside = {path: until for path, until in self._aside.items() if until > now}
        done.set_aside = len(self._aside)
        found = by_session(await asyncio.to_thread(self._look))
        with within(self._tracer.start("archive.round") if found else NO_SPAN) as span:
            sessions = iter(found)
            await asyncio.gather(*(self._lane(sessions, done) for _ in range(LANES)))
            span.set({"postern.segments.stored": done.stored, "postern.segments.waiting": done.waiting})
            if done.trouble:
                span.fail("Unavailable")
        return done

    def _look(self) -> list[Path]:
        found = sealed_folder(self._home).glob(f"*/*/*{ARCHIVE_SUFFIX}")
        return list(itertools.islice((path for path in found if path not in self._aside), MOST))

    async def _lane(self, sessions: Iterator[list[Sealed]], done: Round) -> None:
        for files in sessions:
            if done.trouble:
                return
            try:
                await self._session(files, done)
            except Unavailable as error:
                done.trouble = done.trouble or error.message
                return

    async def _session(self, files: list[Sealed], done: Round) -> None:
        rows: list[Segment] | None = None
        for sealed in files:
            try:
                if rows is None:
                    rows = list(await self._segments.of(sealed.session))
                step = await self._one(sealed, rows)
            except FileNotFoundError:
                continue  # it was taken by the archivist of an earlier start, which ends just now
            except Unavailable:
                raise
            except PosternError as error:
                self._set_aside(sealed, error.message)
                done.set_aside += 1
            except Exception as error:
                log.exception("the segment %s cannot be stored", sealed.path.name)
                self._set_aside(sealed, str(error))
                done.set_aside += 1
            else:
                done.stored += step is not Step.WAIT
                done.waiting += step is Step.WAIT

    async def _one(self, sealed: Sealed, rows: list[Segment]) -> Step:
        age = self._clock() - (await asyncio.to_thread(sealed.path.stat)).st_mtime
        if next_step(sealed, b"", rows, age) is Step.WAIT:
            return Step.WAIT
        told = await asyncio.to_thread(survey, sealed.path, sealed.session, sealed.number)
        step = next_step(sealed, told.digest, rows, age)
        if step is Step.REFUSE:
            raise _other(sealed)
        if step is Step.STORE:
            await self._store(sealed, told, rows)
        await asyncio.to_thread(sealed.path.unlink, missing_ok=True)
        return step

    async def _store(self, sealed: Sealed, told: Survey, rows: list[Segment]) -> None:
        origin = await self._segments.origin(sealed.session)
        if origin is None:
            raise Conflict("the store knows no such session")
        row = row_of(sealed, told, rows, *origin, datetime.now(UTC))
        await self._index(sealed.session, sealed.number, told.texts)
        size = (await asyncio.to_thread(sealed.path.stat)).st_size
        facts: Attributes = {"postern.session.id": str(sealed.session), "postern.segment": sealed.number}
        with part("blob.put", SpanKind.CLIENT, facts):
            is_new = await self._put(row.place, sealed.path)
        if not is_new:
            size = await asyncio.to_thread(self._same, sealed, told, row.place)
        row = replace(row, stored_size=size)
        if not await self._segments.add(row):
            rows[:] = await self._segments.of(sealed.session)
            if next_step(sealed, told.digest, rows, 0.0) is not Step.DELETE:
                raise _other(sealed)
            return
        if row.damage:
            log.warning("segment %d of session %s was stored as it is: %s", row.number, row.session_id, row.damage)
        rows.append(row)

    async def _put(self, place: str, file: Path) -> bool:
        try:
            async with asyncio.timeout(PUT_DEADLINE):
                return await self._blobs.put(place, file)
        except TimeoutError:
            raise Unavailable(f"{self._blobs.name} did not take a segment within {PUT_DEADLINE:g} s") from None

    def _same(self, sealed: Sealed, told: Survey, place: str) -> int:
        """The size of what lies there already. Raises Conflict when it is something else."""
        with open_blob(self._blobs, place) as blob:
            there = survey(blob, sealed.session, sealed.number)
        if (there.digest, there.size, there.damage) != (told.digest, told.size, told.damage):
            raise _other(sealed)
        return self._blobs.size(place)

    def _set_aside(self, sealed: Sealed, reason: str) -> None:
        self._aside[sealed.path] = self._clock() + SET_ASIDE
        log.error(
            "the segment %s stays where it is and is tried again in %.0f minutes: %s",
            sealed.path,
            SET_ASIDE / 60,
            reason,
        )

    def _say(self, done: Round) -> None:
        """One line when it begins, one when it is over."""
        if done.trouble and self._trouble_since is None:
            self._trouble_since = time.monotonic()
            log.error("recordings stay on this machine's disk until they can be stored: %s", done.trouble)
        elif not done.trouble and self._trouble_since is not None:
            lasted = time.monotonic() - self._trouble_since
            self._trouble_since = None
            log.info("recordings are stored again, after %.0f s", lasted)


def _other(sealed: Sealed) -> Conflict:
    return Conflict(
        f"segment {sealed.number} of session {sealed.session} is stored already, with other content; "
        "nothing was overwritten, and the file is kept"
    )
