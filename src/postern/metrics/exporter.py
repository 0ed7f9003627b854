"""Exporter of a process's metrics on a Unix socket, which only this system user can open."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from postern.metrics.meters import Meters

PREFIX, SUFFIX = "metrics-", ".sock"
DEADLINE = 1.0  # seconds that a process has for its answer
LIMIT = 4 * 1024 * 1024  # bytes of an answer
LAG_EVERY = 1.0  # seconds


async def serve_metrics(meters: Meters, folder: Path, process: str) -> asyncio.Server:
    """Start the server of this process's metrics. `process` is its name, as in logs."""
    path = folder / f"{PREFIX}{process}{SUFFIX}"
    await asyncio.to_thread(_prepare, path)

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(json.dumps(meters.snapshot()).encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    os.chmod(path, 0o600)
    return server


async def watch_lag(meters: Meters) -> None:
    """Measure event loop lag until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LAG_EVERY
        await asyncio.sleep(LAG_EVERY)
        meters.observe("postern_event_loop_lag_seconds", max(0.0, loop.time() - due))


async def gather(folder: Path) -> dict[str, dict[str, Any] | None]:
    """Return the metrics of all processes by name; None for a process that does not answer.

    Sockets of processes that have ended are removed.
    """
    paths = _sockets(folder)
    answers = await asyncio.gather(*(_ask(path) for path in paths))
    return {path.name[len(PREFIX) : -len(SUFFIX)]: answer for path, answer in zip(paths, answers, strict=True)}


def _sockets(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*{SUFFIX}"))


def _prepare(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _ask(path: Path) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(DEADLINE):
            reader, writer = await asyncio.open_unix_connection(path, limit=LIMIT)
            try:
                snapshot = json.loads(await reader.read())
            finally:
                writer.close()
    except ConnectionRefusedError:
        _remove(path)
        return None
    except (OSError, TimeoutError, ValueError):
        return None
    return snapshot if isinstance(snapshot, dict) else None
