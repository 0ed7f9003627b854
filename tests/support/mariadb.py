"""A real MariaDB for tests: started on a free loopback port, never as root, thrown away at the end."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT
from tests.support.postgres import free_port, unprivileged_user

SCRIPTS = Path("/usr/share/mysql")


def program(name: str) -> str | None:
    """Debian's mariadb-server-core puts the server where not everybody looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin")


def _ends_with_us(user: str | None) -> list[str]:
    """Words in front of a command: the kernel kills it when the run of tests that started it is gone, however that
    ended. It must be asked once the account is changed, which would undo it."""
    account = [] if user is None else [f"--reuid={user}", "--clear-groups"]
    return ["setpriv", *account, "--pdeathsig", "KILL", "--"]


@dataclass
class MariaDbServer:
    """`start()`, then `connect()`; `stop()` ends the server and removes its data. Account `root`, no password."""

    settings: tuple[str, ...] = ()
    port: int = 0
    _folder: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, timeout: float = 300.0) -> None:
        """`timeout` in seconds. Raises RuntimeError with the server's log when it does not come up."""
        server = program("mariadbd")
        if server is None:
            raise RuntimeError("no MariaDB server found; install Debian's mariadb-server-core")
        user = unprivileged_user()
        if self._folder is None:
            self.port = free_port()
            self._folder = Path(tempfile.mkdtemp(prefix="postern-maria-", dir="/tmp"))
            if user is not None:
                shutil.chown(self._folder, user)
            self._bootstrap(server, user, timeout)
        options = [
            f"--datadir={self._folder}/data",
            f"--tmpdir={self._folder}",
            f"--socket={self._folder}/socket",
            f"--pid-file={self._folder}/pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--innodb-flush-log-at-trx-commit=0",
            f"--secure-file-priv={self._folder}/files",
            "--innodb-flush-method=nosync",
            "--aria-log-file-size=8388608",
            "--sync-frm=0",
            "--innodb-buffer-pool-size=16M",
            "--max-statement-time=5",
            *self.settings,
        ]
        with (self._folder / "log").open("ab") as log:
            command = [*_ends_with_us(user), server, "--no-defaults", *options]
            self._process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log, start_new_session=True)
        self._wait_until_ready(timeout)

    def _bootstrap(self, server: str, user: str | None, timeout: float) -> None:
        """As mariadb-install-db does, which needs programs of other packages."""
        data = self.folder / "data"
        (data / "mysql").mkdir(parents=True)
        (self.folder / "files").mkdir()
        for made in (data, data / "mysql", self.folder / "files"):
            if user is not None:
                shutil.chown(made, user)
        names = ("system_tables", "performance_tables", "system_tables_data")
        parts = [(SCRIPTS / f"mysql_{name}.sql").read_text() for name in names]
        script = "use mysql;\nset @auth_root_socket = null, @skip_auth_anonymous = 1;\n" + "\n".join(parts)
        subprocess.run(
            [server, "--no-defaults", "--bootstrap", f"--datadir={data}", f"--tmpdir={self._folder}"],
            input=script.encode(),
            check=True,
            user=user,
            cwd="/",
            capture_output=True,
            timeout=timeout,
        )

    def connect(self, user: str = "root", database: str | None = None) -> Any:
        """A connection of PyMySQL that may send several statements at once; each is committed by itself."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
            connect_timeout=60,
            read_timeout=60,
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)  # the data is thrown away
            self._process.wait(timeout=60)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_until_ready(self, timeout: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self.folder / "log").read_text(errors="replace")
                    self.stop()
                    raise RuntimeError(f"MariaDB did not start:\n{text}") from None
            time.sleep(0.05)
