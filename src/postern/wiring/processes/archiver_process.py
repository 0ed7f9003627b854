"""The archiver's process: it stores sealed segments of this machine, and runs all background jobs, so that neither
workers nor the API wait for them. It can be killed at any point; the next one continues."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import uvloop

from postern.archive.archiver import Archiver, Round
from postern.domain.tracing import Tracer
from postern.metrics.meters import Meters
from postern.process import announce_ready, release_memory
from postern.settings import Settings
from postern.store.signals import SocketSignals
from postern.wiring import paths
from postern.wiring.app import open_app
from postern.wiring.background_job_wiring import build_background_jobs
from postern.wiring.metrics_wiring import exporting_metrics, make_round_observer
from postern.wiring.recordings_wiring import make_trouble_observer
from postern.wiring.tracing_wiring import tracing

HEARTBEAT = 5.0  # seconds
_NICENESS = 10  # requests that wait for an answer have priority


def run(settings: Settings) -> None:
    """Run the archiver. Ends on SIGTERM or SIGINT. Raises Misconfigured."""
    os.nice(_NICENESS)
    meters = Meters()
    with tracing(os.environ, "archiver", meters) as tracer:
        uvloop.run(_serve(settings, meters, tracer))


async def _serve(settings: Settings, meters: Meters, tracer: Tracer) -> None:
    signals = SocketSignals(paths.signals_socket(settings))
    async with open_app(settings, signals) as app:
        segments, index = app.stored, app.services.session_texts.index
        archiver = Archiver(
            settings.home, segments.blobs, app.stores.segments, segments.keys, index=index, tracer=tracer
        )
        upkeep = build_background_jobs(settings, app, meters, tracer)
        await signals.start()
        count_round, observe_trouble = make_round_observer(meters), make_trouble_observer(settings.home)

        def hear(done: Round) -> None:
            count_round(done)
            observe_trouble(done)
            if done.stored:
                release_memory()

        rounds = (
            archiver.forever(hear),
            upkeep.forever(),
            _beat(paths.archiver_beat(settings.home)),
        )
        work = [asyncio.create_task(each) for each in rounds]
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _cancel, work)
        try:
            async with exporting_metrics(settings, meters, app.database, "archiver"):
                announce_ready(asyncio.get_running_loop())
                await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            _cancel(work)
            ends = await asyncio.gather(*work, return_exceptions=True)
            await signals.stop()
        for end in ends:
            if isinstance(end, Exception):  # an unexpected error: the supervisor restarts everything
                raise end


def _cancel(work: list[asyncio.Task[None]]) -> None:
    for task in work:
        if not task.cancelling():  # once, so that the release at the end is not interrupted
            task.cancel()


async def _beat(file: Path) -> None:
    """Touch the heartbeat file from the event loop itself, which proves that it runs, without a thread that others
    could block."""
    while True:
        _touch(file)
        await asyncio.sleep(HEARTBEAT)


def _touch(file: Path) -> None:
    with suppress(OSError):  # the disk is read-only, which a check of the heartbeat notices
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
