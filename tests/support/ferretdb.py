"""FerretDB 1, a second server of MongoDB's protocol: a standalone one, without transactions and change streams."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pymongo
import pymongo.errors
import pytest
from tests.support.mongodb import PASSWORD
from tests.support.postgres import free_port

MECHANISMS: Final = ("SCRAM-SHA-1", "SCRAM-SHA-256")


@dataclass(frozen=True)
class FerretServer:
    """It has the user `root`, and one for each mechanism, called like it. All have the password PASSWORD."""

    port: int

    def client(self, user: str = "root", **options: Any) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(
            "localhost", self.port, username=user, password=PASSWORD, directConnection=True, **options
        )


def ferretdb() -> Path | None:
    """An installed program, or the one that scripts/install-services builds."""
    found = shutil.which("ferretdb")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "postern-tools" / "ferretdb"
    return Path(found) if found else program if program.exists() else None


@contextlib.contextmanager
def running_ferretdb() -> Iterator[FerretServer]:
    """A missing program is an error under CI=true, else a visible skip."""
    program = ferretdb()
    if program is None:
        reason = "FerretDB is not installed: scripts/install-services ferretdb builds it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    server = FerretServer(free_port())
    with (
        tempfile.TemporaryDirectory(prefix="postern-ferret-", dir="/tmp") as folder,
        Path(folder, "log").open("wb") as log,
    ):
        options = [f"--sqlite-url=file:{folder}/", f"--state-dir={folder}", f"--listen-addr=127.0.0.1:{server.port}"]
        setup = ["--setup-database=admin", "--setup-username=root", f"--setup-password={PASSWORD}"]
        rest = ["--handler=sqlite", "--debug-addr=-", "--telemetry=disable", "--test-enable-new-auth"]
        command = ["setpriv", "--pdeathsig", "KILL", "--", str(program), *rest, *options, *setup]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            _create_users(server, process)
            yield server
        finally:
            process.kill()
            process.wait()


def _create_users(server: FerretServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(pymongo.errors.ConnectionFailure), server.client(serverSelectionTimeoutMS=500) as root:
            for mechanism in MECHANISMS:
                root.admin.command("createUser", mechanism, pwd=PASSWORD, roles=[], mechanisms=[mechanism])
            return
        time.sleep(0.05)
    raise RuntimeError("FerretDB did not start")
