"""Archiver: encrypts this machine's sealed segments, stores them, and then deletes the local files.

Each segment passes through five steps: survey, index, encrypt and upload, insert the row, delete the file. The pure
function `next_step` decides which of them comes next. Every step can be repeated, so a kill between two steps costs
nothing: the next round starts again from the file. Only indexing can fail without blocking the rest, because the index
catches up later. Blocking calls run in the archiver's own threads, so that they cannot exhaust those of the process.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import UUID

from postern.archive.segment_survey import SegmentSurvey, survey
from postern.archive.unstored_segments import deleting_sealed
from postern.domain.sessions.segment import Segment, first_link, key_of, next_link
from postern.domain.tracing import NO_SPAN, NO_TRACER, Attributes, SpanKind, Tracer, part, within
from postern.errors import Conflict, Gone, Malformed, Misconfigured, PosternError, Unavailable
from postern.recording.blob import encrypt_file, open_blob, read_preamble
from postern.recording.cipher import encrypted_size
from postern.recording.layout import SEALED_SUFFIX, read_sealed_name, sealed_folder
from postern.store.ports.keys import SegmentKeys
from postern.store.ports.recording_ports import Blobs, SegmentStore
from postern.store.ports.target_ports import Piece

PATIENCE = 3600.0  # seconds to wait for a missing predecessor of a segment


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed segment on this machine's disk."""

    session: UUID
    number: int
    path: Path


class Step(Enum):
    STORE = auto()
    WAIT = auto()  # for the preceding segment
    DELETE = auto()  # already stored
    REFUSE = auto()  # another segment is stored under this number


def group_by_session(files: Iterable[Path]) -> list[list[Sealed]]:
    """Return each session's segments by number, without files whose names are not those of segments."""
    segments = []
    for path in files:
        name = read_sealed_name(path.name)
        if name is not None:
            segments.append(Sealed(*name, path))
    segments.sort(key=lambda sealed: (sealed.session, sealed.number))
    return [list(group) for _, group in groupby(segments, key=lambda sealed: sealed.session)]


def next_step(sealed: Sealed, digest: bytes, rows: Sequence[Segment], age: float) -> Step:
    """Decide what to do with a segment.

    `rows` are the session's stored segments; `age` is the number of seconds since the file was sealed.
    """
    stored_row = next((row for row in rows if row.number == sealed.number), None)
    if stored_row is not None:
        return Step.DELETE if stored_row.digest == digest else Step.REFUSE
    if _is_next(sealed.number, rows) or age > PATIENCE:
        return Step.STORE
    return Step.WAIT


def make_row(
    sealed: Sealed, survey: SegmentSurvey, rows: Sequence[Segment], org_id: UUID, started_at: datetime, at: datetime
) -> Segment:
    """Return the segment's row, whose `stored_size` is set later, once the segment is stored.

    The chain continues from the nearest stored predecessor.
    """
    predecessor = max((row for row in rows if row.number < sealed.number), key=lambda row: row.number, default=None)
    link = first_link(org_id, sealed.session) if predecessor is None else predecessor.chain
    damages = [survey.damage]
    if not _is_next(sealed.number, rows):
        damages.append(f"segment {sealed.number - 1} was missing when this one was stored")
    if any(row.number > sealed.number for row in rows):
        damages.append("later segments were stored before this one: their hash chain does not include it")
    return Segment(
        session_id=sealed.session,
        org_id=org_id,
        number=sealed.number,
        digest=survey.digest,
        chain=next_link(link, sealed.number, survey.size, survey.digest),
        size=survey.size,
        stored_size=0,
        begins=survey.begins,
        ends=survey.ends,
        operations=len(survey.texts),
        is_last=survey.is_last,
        place=key_of(org_id, sealed.session, sealed.number, started_at),
        stored_at=at,
        damage="; ".join(filter(None, damages)),
        refused=survey.refused,
    )


def _is_next(number: int, rows: Sequence[Segment]) -> bool:
    return number == 1 or any(row.number == number - 1 for row in rows)


log = logging.getLogger(__name__)

T = TypeVar("T")

PAUSE = 1.0  # seconds between two scans for sealed segments
LONGEST_PAUSE = 60.0  # the same, while the blob store or the store is unavailable
SET_ASIDE = 3600.0  # seconds until a file that could not be stored is retried
PUT_DEADLINE = 300.0  # seconds, whatever timeouts the blob store has
INDEX_DEADLINE = 30.0  # seconds
LANES = 4  # sessions in parallel, each with one thread at most
MOST = 10_000  # files per round


class Index(Protocol):
    def __call__(self, session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> Awaitable[object]:
        """Index a segment for search. Must be idempotent: a killed archiver repeats it."""


async def no_index(session_id: UUID, segment: int, pieces: Sequence[Piece], *, is_last: bool) -> None:
    """Index nothing, for a gateway without search."""


@dataclass(slots=True)
class Round:
    """Result of one round. `trouble` says why it stopped early."""

    stored: int = 0
    waiting: int = 0  # for a preceding segment
    set_aside: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _File:
    """What a sealed file contains, its size in bytes, and the seconds since it was sealed."""

    survey: SegmentSurvey
    size: int
    age: float


class Archiver:
    def __init__(
        self,
        home: Path,
        blobs: Blobs,
        segments: SegmentStore,
        keys: SegmentKeys,
        *,
        index: Index = no_index,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.time,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._home = home
        self._blobs = blobs
        self._segments = segments
        self._keys = keys
        self._index = index
        self._pause = pause
        self._clock = clock  # measures file ages
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix="archiver")
        self._tracer = tracer
        self._aside: dict[Path, float] = {}  # time of the next retry
        self._trouble_since: float | None = None

    async def forever(self, on_round: Callable[[Round], None] = lambda _round: None) -> None:
        """Run rounds until cancelled. `on_round` is called after each."""
        failures = 0
        while True:
            done = await self.round()
            failures = failures + 1 if done.trouble else 0
            self._log_trouble(done)
            on_round(done)
            if not (done.stored and not done.trouble):
                await asyncio.sleep(min(LONGEST_PAUSE, self._pause * 2.0 ** min(failures, 20)))

    async def round(self) -> Round:
        """Process the files that are sealed now. A file that cannot be stored stays, and does not block the others."""
        result = Round()
        now = self._clock()
        self._aside = {path: until for path, until in self._aside.items() if until > now}
        result.set_aside = len(self._aside)
        sessions = group_by_session(await self._blocking(self._list_sealed))
        with within(self._tracer.start("archive.round") if sessions else NO_SPAN) as span:
            iterator = iter(sessions)
            await asyncio.gather(*(self._process_sessions(iterator, result) for _ in range(LANES)))
            span.set({"postern.segments.stored": result.stored, "postern.segments.waiting": result.waiting})
            if result.trouble:
                span.fail("Unavailable")
        return result

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _list_sealed(self) -> list[Path]:
        files = sealed_folder(self._home).glob(f"*/*/*{SEALED_SUFFIX}")
        return list(itertools.islice((path for path in files if path not in self._aside), MOST))

    async def _process_sessions(self, sessions: Iterator[list[Sealed]], done: Round) -> None:
        for files in sessions:
            if done.trouble:
                return
            try:
                await self._process_session(files, done)
            except Unavailable as error:
                done.trouble = done.trouble or error.message
                return

    async def _process_session(self, files: list[Sealed], done: Round) -> None:
        rows: list[Segment] | None = None
        for sealed in files:
            try:
                if rows is None:
                    rows = list(await self._segments.of(sealed.session))
                step = await self._process_segment(sealed, rows)
            except Gone:
                log.info("a local segment was deleted because its recording was purged: session=%s", sealed.session)
                await asyncio.to_thread(sealed.path.unlink, missing_ok=True)
            except FileNotFoundError:
                continue  # an archiver of an earlier start, which is just ending, took it
            except Unavailable:
                raise
            except PosternError as error:
                self._set_aside(sealed, error.message)
                done.set_aside += 1
            except Exception as error:
                log.exception("a segment cannot be stored: segment=%s", sealed.path.name)
                self._set_aside(sealed, str(error))
                done.set_aside += 1
            else:
                done.stored += step is not Step.WAIT
                done.waiting += step is Step.WAIT

    async def _process_segment(self, sealed: Sealed, rows: list[Segment]) -> Step:
        file = await self._blocking(lambda: self._look_at(sealed, rows))
        if file is None:
            return Step.WAIT
        step = next_step(sealed, file.survey.digest, rows, file.age)
        if step is Step.REFUSE:
            raise _conflict(sealed)
        if step is Step.STORE:
            await self._store(sealed, file, rows)
        await self._blocking(lambda: self._delete(sealed.path))
        return step

    def _delete(self, path: Path) -> None:
        with deleting_sealed(self._home):
            path.unlink(missing_ok=True)

    def _look_at(self, sealed: Sealed, rows: Sequence[Segment]) -> _File | None:
        """Survey a file; None if it has to wait. Blocks. Raises OSError."""
        status = sealed.path.stat()
        age = self._clock() - status.st_mtime
        if next_step(sealed, b"", rows, age) is Step.WAIT:
            return None
        return _File(survey(sealed.path, sealed.session, sealed.number), status.st_size, age)

    async def _store(self, sealed: Sealed, file: _File, rows: list[Segment]) -> None:
        segment_survey = file.survey
        origin = await self._segments.origin(sealed.session)
        if origin is None:
            if await self._segments.is_purged(sealed.session):
                raise Gone(f"session {sealed.session} was purged")
            raise Conflict(f"session {sealed.session} does not exist in the store")
        row = make_row(sealed, segment_survey, rows, *origin, datetime.now(UTC))
        await self._index_segment(sealed, segment_survey)
        facts: Attributes = {"postern.session.id": str(sealed.session), "postern.segment": sealed.number}
        with part("blob.put", SpanKind.CLIENT, facts):
            row = await self._put(row, sealed, file)
        if not await self._segments.add(row):
            rows[:] = await self._segments.of(sealed.session)
            if next_step(sealed, segment_survey.digest, rows, 0.0) is not Step.DELETE:
                raise _conflict(sealed)
            return
        if row.damage:
            log.warning(
                "a damaged segment was stored: session=%s segment=%d damage=%s", row.session_id, row.number, row.damage
            )
        rows.append(row)

    async def _index_segment(self, sealed: Sealed, segment_survey: SegmentSurvey) -> None:
        """Index a segment. Any failure but Unavailable is logged and does not block storing. Raises Unavailable."""
        try:
            async with asyncio.timeout(INDEX_DEADLINE):
                await self._index(sealed.session, sealed.number, segment_survey.texts, is_last=segment_survey.is_last)
        except Unavailable:
            raise
        except TimeoutError:
            log.warning(
                "a segment was not indexed within %g s; indexing is retried later: segment=%s",
                INDEX_DEADLINE,
                sealed.path.name,
            )
        except Exception:
            log.exception("a segment could not be indexed; indexing is retried later: segment=%s", sealed.path.name)

    async def _put(self, row: Segment, sealed: Sealed, file: _File) -> Segment:
        """Upload the segment and return its row. After a kill, the blob can already be there."""
        try:
            data_key = await self._keys.in_use(row.org_id)
        except Misconfigured as error:  # blocks all segments, not only this one
            raise Unavailable(error.message) from error
        row = replace(row, data_key=data_key, stored_size=encrypted_size(file.size))
        try:
            async with asyncio.timeout(PUT_DEADLINE):
                is_new = await self._blobs.put(row.place, encrypt_file(sealed.path, self._keys, row))
        except TimeoutError:
            raise Unavailable(f"{self._blobs.name} did not accept a segment within {PUT_DEADLINE:g} s") from None
        return row if is_new else await self._blocking(lambda: self._read_stored(row, sealed, file.survey))

    def _read_stored(self, row: Segment, sealed: Sealed, expected: SegmentSurvey) -> Segment:
        """Return the row of a blob that is already stored. Raises Conflict if its content differs."""
        try:
            data_key = read_preamble(self._blobs, row.place).data_key
            row = replace(row, data_key=data_key, stored_size=self._blobs.size(row.place))
            with open_blob(self._blobs, self._keys, row) as blob:
                stored = survey(blob, sealed.session, sealed.number)
        except Malformed as error:
            raise _conflict(sealed, error.message) from error
        if (stored.digest, stored.size, stored.damage) != (expected.digest, expected.size, expected.damage):
            raise _conflict(sealed, stored.damage)
        return row

    def _set_aside(self, sealed: Sealed, reason: str) -> None:
        self._aside[sealed.path] = self._clock() + SET_ASIDE
        log.error(
            "a segment cannot be stored; it stays on disk and is retried in %.0f minutes: segment=%s error=%s",
            SET_ASIDE / 60,
            sealed.path,
            reason,
        )

    def _log_trouble(self, done: Round) -> None:
        """Log when storing starts to fail and when it recovers."""
        if done.trouble and self._trouble_since is None:
            self._trouble_since = time.monotonic()
            log.error(
                "recordings cannot be stored; they stay on this machine's disk until then: error=%s", done.trouble
            )
        elif not done.trouble and self._trouble_since is not None:
            lasted = time.monotonic() - self._trouble_since
            self._trouble_since = None
            log.info("recordings can be stored again, after %.0f s", lasted)


def _conflict(sealed: Sealed, why: str = "") -> Conflict:
    return Conflict(
        f"segment {sealed.number} of session {sealed.session} is already stored with different content"
        f"{why and f' ({why})'}; nothing was overwritten, and the local file stays on disk"
    )
