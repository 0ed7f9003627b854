"""A whole gateway for tests: `postern up` in a home of its own, on free ports, stopped at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.support.postgres import free_port
from tests.support.processes import descendants, words

from postern.cli.main import cli
from postern.demo.runner import place_for
from postern.settings import OPTIONAL_PORTS
from postern.settings import PORTS as LISTENERS

PORTS = (*(name.removesuffix("_port").upper() for name in LISTENERS if name not in OPTIONAL_PORTS), "DEMO")
START_TIMEOUT = 300.0


@dataclass
class Gateway:
    """`folder` must be short: the path of a Unix socket is below it."""

    folder: Path
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = field(init=False)
    process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "PG"))},
            "POSTERN_HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            **{f"POSTERN_{name}_PORT": "0" for name in PORTS},
        }

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def told(self) -> dict[str, str]:
        """What first-run.json says."""
        found: dict[str, str] = json.loads((self.home / "first-run.json").read_text())
        return found

    def start(self) -> str:
        """Waits until it serves; answers what it printed. Raises RuntimeError with its log when it does not."""
        printed = self.folder / "printed"
        with printed.open("w") as output, (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "postern", "up", *self.flags],
                env=self.environment,
                stdout=output,
                stderr=log,
                text=True,
            )
        end = time.monotonic() + START_TIMEOUT
        while "Postern is up" not in printed.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"postern up did not come up:\n{self.log}")
            time.sleep(0.05)
        return printed.read_text()

    def stop(self, by: signal.Signals = signal.SIGINT, timeout: float = 60.0) -> int:
        """The exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(by)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def processes(self, word: str) -> list[int]:
        """Those of it that are called `word`: worker, api."""
        assert self.process is not None
        return [pid for pid in descendants(self.process.pid) if word in words(pid)]

    def sessions(self, *wanted: str) -> list[dict[str, Any]]:
        """All that `postern sessions list` shows; `wanted` are its options."""
        found: list[dict[str, Any]] = []
        while True:
            page = ("--limit", "100", "--offset", str(len(found)))
            shown = self.run("sessions", "list", "--json", *page, *wanted)
            assert shown.returncode == 0, shown.stderr
            answer = json.loads(shown.stdout)
            found += answer["data"]
            if not answer["has_next_page"]:
                return found

    def remove(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        if place_for(self.home).account is not None:
            shutil.rmtree(place_for(self.home).own, ignore_errors=True)

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """The command line of the same machine and user, in this process: starting one takes longer than most runs."""
        changed = {name: None for name in os.environ if name.startswith("POSTERN_")}
        result = CliRunner().invoke(cli, arguments, input=stdin, env={**changed, **self.environment})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)

    def run_apart(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "postern", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def started(*flags: str, again: bool = False, **settings: str) -> Iterator[Gateway]:
    """In a folder of its own, which goes with it. `again`: it is going to be started again at the same places, since
    an agent only knows those of its key. `settings` are variables without their POSTERN_."""
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        made = Gateway(Path(folder), flags)
        if again:
            settings |= {f"{name}_PORT": str(free_port()) for name in PORTS}
        made.environment |= {f"POSTERN_{name}": value for name, value in settings.items()}
        try:
            made.start()
            yield made
        finally:
            made.remove()
