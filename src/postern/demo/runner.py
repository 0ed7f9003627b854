"""The demo's own process: starts the server, fills it, and stops it when told to."""

from __future__ import annotations

import asyncio
import logging
import signal
from types import FrameType

from postern.demo.demo_server import DemoServer
from postern.demo.populate import populate
from postern.process import announce_ready
from postern.settings import Settings

log = logging.getLogger(__name__)


class _Stop(BaseException):
    """SIGTERM or SIGINT came."""


def run(settings: Settings) -> int:
    """Blocks until SIGTERM or SIGINT (answers 0) or until the server ends by itself (answers 1)."""
    server = DemoServer(settings.home, settings.demo_port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _raise_stop)
    try:
        target = server.start()
        if asyncio.run(populate(target)):
            log.info("the demo shop was filled")
        log.info("the demo database is served on %s:%d", target.host, target.port)
        announce_ready()
        code = server.wait()
        log.error("the demo server ended by itself with exit code %d; its log is %s", code, server.log_file)
        return 1
    except _Stop:
        return 0
    finally:
        # A second signal must not cut the shutdown short and leave a server behind.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        server.stop()


def _raise_stop(_number: int, _frame: FrameType | None) -> None:
    raise _Stop
