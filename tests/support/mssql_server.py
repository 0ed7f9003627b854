"""The SQL Server of tests, as a process of its own: it speaks TDS 7.0 to 8.0, and has T-SQL over SQLite."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pymssql
from tests.support.certificates import Issued, issue

ROOT: Final = Path(__file__).resolve().parents[2]
USER: Final = "app"
PASSWORD: Final = "gr=ö,ße$/@:%"
PLAIN_USER: Final = "plain"
PLAIN_PASSWORD: Final = "secret-4711"
DATABASE: Final = "shop"
HOST: Final = "localhost"


@dataclass
class SqlServer:
    """`start()`, then connect to `port` as USER; `stop()` ends the server and removes its data.

    `encryption` is optional (as the client asks), required or unavailable. `routed` sends clients to another server.
    """

    encryption: str = "optional"
    routed: tuple[str, int] | None = None
    issued: Issued = field(default_factory=lambda: issue(HOST, "127.0.0.1"))
    port: int = 0
    _folder: Path | None = None
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    @property
    def authority(self) -> Path:
        """The certificate of the authority, as a file."""
        return self.folder / "authority.pem"

    @property
    def log(self) -> str:
        """What clients did: logins with their encryption, the texts of batches, procedures, attentions."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def start(self) -> None:
        """Raises RuntimeError with what the server says when it does not come up."""
        self._folder = folder = Path(tempfile.mkdtemp(prefix="postern-mssql-", dir="/tmp"))
        (folder / "data").mkdir()
        (folder / "certificate.pem").write_bytes(self.issued.certificate)
        (folder / "key.pem").write_bytes(self.issued.key)
        self.authority.write_text(self.issued.authority)
        settings = {
            "folder": str(folder / "data"),
            "users": {USER: PASSWORD, PLAIN_USER: PLAIN_PASSWORD},
            "database": DATABASE,
            "certificate": str(folder / "certificate.pem"),
            "key": str(folder / "key.pem"),
            "encryption": self.encryption,
            "routed": self.routed,
            "log": str(folder / "log"),
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        self._run()

    def _run(self) -> None:
        path = self.folder / "settings.json"
        command = [
            *("setpriv", "--pdeathsig", "KILL", "--"),  # with the run of tests that started it, however that ends
            *(sys.executable, "-m", "tests.support.mssql.sqlserver_program", str(path)),
        ]
        with (self.folder / "errors").open("w") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the SQL Server of tests did not start:\n{self.errors}")
        self.port = int(said)

    @property
    def errors(self) -> str:
        """Tracebacks: each is an error of the test server."""
        return (self.folder / "errors").read_text()

    @contextlib.contextmanager
    def connection(self, **options: Any) -> Iterator[pymssql.Connection]:
        """A connection of pymssql that commits each statement."""
        options = {"user": USER, "password": PASSWORD, "database": DATABASE, "autocommit": True, **options}
        with pymssql.connect(server="127.0.0.1", port=str(self.port), **options) as connection:
            yield connection

    def run(self, script: str) -> list[tuple[Any, ...]]:
        """Run a batch. Return the rows of its last result."""
        with self.connection() as connection, connection.cursor() as cursor:
            cursor.execute(script)
            rows: list[tuple[Any, ...]] = []
            while True:
                rows = list(cursor.fetchall()) if cursor.description else rows
                if not cursor.nextset():
                    return rows

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None


@contextlib.contextmanager
def running_sqlserver(**settings: Any) -> Iterator[SqlServer]:
    """The arguments are those of SqlServer."""
    server = SqlServer(**settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
