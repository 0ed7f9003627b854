"""The client of a database, started at this terminal by `postern connect NAME`.

The client reaches the tunnel through a Unix socket in a folder that only this user can enter. So there is no port that
other users of this machine could use, and no password in an argument.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any

from postern.cli.scripts.review_notices import ReviewNotices
from postern.cli.status import Status, report
from postern.cli.terminal.forward import PortForward, StreamRequest
from postern.domain.text import one_line
from postern.protocols.clients import NativeClient

Renewal = Callable[[PortForward], Coroutine[Any, Any, None]]


def run(client: NativeClient, command: Sequence[str], request: StreamRequest, database: str, renew: Renewal) -> int:
    """Start the client, and return its exit code once it has ended.

    `command` is the program and the user's arguments; `renew` keeps the tunnel's token fresh.
    """
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        return asyncio.run(_run(client, command, request, Path(folder), database, renew))


async def _run(
    client: NativeClient,
    command: Sequence[str],
    request: StreamRequest,
    folder: Path,
    database: str,
    renew: Renewal,
) -> int:
    notices = None if client.shows_waiting else ReviewNotices(request.connection)
    forward = PortForward(request, lambda reason: report(Status.ERROR, one_line(reason)))
    forward.joined = notices.look_soon if notices else forward.joined
    assert client.socket_arguments is not None  # a database's client, as `connect` has checked
    await forward.start_socket(folder / client.socket)
    words = client.socket_arguments(folder, database)
    loop = asyncio.get_running_loop()
    program, *arguments = command
    process = await asyncio.create_subprocess_exec(
        program, *words, *arguments, env=_environment(client.dropped_variables)
    )
    renewing = loop.create_task(renew(forward))
    # Ctrl-C is for the client, which gets it from the terminal; a request to terminate is passed on.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, process.send_signal, number)
    try:
        code = await process.wait()
    finally:
        renewing.cancel()
        if notices:
            notices.stop()
        await forward.stop()
    return code if code >= 0 else 128 - code


def _environment(dropped: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in dropped}
