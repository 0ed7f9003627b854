"""The archiver of a test's gateway, in a process of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys

from tests.support.gateway import Gateway

from postern.process import PARENT_PID, READY_FD


class Archiver:
    """The real process that delivers, with all else that it does."""

    def __init__(self, gateway: Gateway) -> None:
        reading, writing = os.pipe()
        environment = {**os.environ, **gateway.settings.environment()}
        environment |= {READY_FD: str(writing), PARENT_PID: str(os.getpid())}
        self.log = gateway.home / "archiver.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "postern", "archiver"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                start_new_session=True,
            )
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], 60)
        said = os.read(reading, 100) if ready else b""
        os.close(reading)
        assert said == b"ready\n", self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
