"""The metrics of each process, and how the API collects those of all."""

from __future__ import annotations

import asyncio
import importlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from postern.archive.archiver import Round
from postern.domain.event import CREATED
from postern.domain.reviews.review import ReviewEvent
from postern.errors import Unavailable
from postern.metrics.exporter import gather, serve_metrics, watch_lag
from postern.metrics.meters import Meters
from postern.metrics.process_metrics import sample_process
from postern.settings import Settings
from postern.store.database import Database
from postern.store.ports.review_ports import ReviewChange
from postern.transport.served_certificate import ServedCertificate
from postern.wiring.recordings_wiring import archiver_silence, waiting_for_archiver

PATIENCE = 2.0  # seconds in which the store must return the size of its queues
_DECISIONS = frozenset({ReviewEvent.APPROVED, ReviewEvent.REJECTED})
_OUTCOMES = _DECISIONS | {ReviewEvent.REVOKED, ReviewEvent.EXPIRED, ReviewEvent.WITHDRAWN}
Backlog = Callable[[datetime], Awaitable[Mapping[str, float]]]


async def no_backlog(_now: datetime) -> Mapping[str, float]:
    """Return no backlog, for a process without a store."""
    return {}


@asynccontextmanager
async def exporting_metrics(
    settings: Settings, meters: Meters, database: Database, process: str
) -> AsyncIterator[None]:
    """Count, and answer requests for the process's metrics, within the context."""
    database.observer = lambda seconds: meters.observe("postern_store_seconds", seconds)
    meters.sample("postern_store_connections", lambda: database.in_use)
    meters.sample("postern_store_connections_max", lambda: database.most_in_use)
    sample_process(meters)
    folder = settings.home / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = await serve_metrics(meters, folder, process)
    lag = asyncio.create_task(watch_lag(meters))
    try:
        yield
    finally:
        lag.cancel()
        server.close()
        with suppress(asyncio.CancelledError):
            await lag


def sample_certificate(meters: Meters, certificate: ServedCertificate) -> None:
    """Report when the certificate that this process presents expires."""
    meters.sample("postern_certificate_expiry_timestamp_seconds", lambda: certificate.current.not_after.timestamp())


async def gather_metrics(home: Path, backlog: Backlog = no_backlog) -> bytes:
    """Return the metrics of all processes of this machine, in Prometheus's text format. `backlog` is read from the
    store, for all machines; without it the other metrics are returned."""
    by_process, behind = await asyncio.gather(gather(home / "run"), _behind(backlog))
    machine = await asyncio.to_thread(_machine, home) | behind
    # Its library is imported only when it is needed.
    prometheus = await asyncio.to_thread(importlib.import_module, "postern.metrics.prometheus")
    text: bytes = await asyncio.to_thread(prometheus.text, by_process, machine)
    return text


async def _behind(backlog: Backlog) -> dict[str, float]:
    try:
        async with asyncio.timeout(PATIENCE):
            return {**await backlog(datetime.now(UTC)), "postern_store_up": 1.0}
    except (Unavailable, TimeoutError):
        return {"postern_store_up": 0.0}


def _machine(home: Path) -> dict[str, float]:
    """Return the metrics of this machine's disk; a process that hangs could not report them."""
    disk = shutil.disk_usage(home)
    values = {"postern_home_free_bytes": float(disk.free), "postern_home_bytes": float(disk.total)}
    size = 0
    for path in (home / "spool").glob("*/*"):
        with suppress(OSError):  # sealed meanwhile
            size += path.stat().st_size
    waiting = waiting_for_archiver(home)
    return values | {
        "postern_spool_bytes": float(size),
        "postern_sealed_segments": float(waiting.segments),
        "postern_sealed_bytes": float(waiting.size),
        "postern_sealed_oldest_seconds": waiting.age,
        "postern_archiver_silence_seconds": archiver_silence(home),
    }


def make_review_observer(meters: Meters) -> Callable[[ReviewChange], None]:
    """Return an observer that is notified once of everything that happened to a review."""

    def count_review_change(news: ReviewChange) -> None:
        review, kind = news.review, str(news.review.kind)
        if news.kind == CREATED:
            meters.count("postern_reviews_asked", kind)
        if news.kind not in _OUTCOMES:
            return
        meters.count("postern_reviews_decided", kind, news.kind)
        if news.kind in _DECISIONS:
            meters.observe("postern_review_decision_seconds", (news.at - review.created_at).total_seconds(), kind)
        if news.kind == ReviewEvent.APPROVED and any(voice.forced for voice in review.voices):
            meters.count("postern_reviews_forced", kind)

    return count_review_change


def make_round_observer(meters: Meters) -> Callable[[Round], None]:
    """Return an observer of each round of the archiver."""
    last = Round()
    meters.sample("postern_segments_set_aside", lambda: float(last.set_aside))
    meters.sample("postern_blob_store_up", lambda: float(not last.trouble))

    def count_round(finished_round: Round) -> None:
        nonlocal last
        last = finished_round
        meters.count("postern_segments_stored", by=finished_round.stored)

    return count_round
