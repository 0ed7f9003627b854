"""pgbouncer in session mode, to compare with: SCRAM on both sides, on a free loopback port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.postgres import free_port, unprivileged_user

_INI = """\
[databases]
{database} = host=127.0.0.1 port={target_port} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = session
default_pool_size = 400
max_client_conn = 1000
server_lifetime = {server_lifetime}
server_tls_sslmode = disable
client_tls_sslmode = allow
client_tls_cert_file = {folder}/server.crt
client_tls_key_file = {folder}/server.key
log_connections = 0
log_disconnections = 0
"""


def program() -> str | None:
    """Debian puts it where only root's PATH looks."""
    found = shutil.which("pgbouncer")
    return found or next((name for name in ("/usr/sbin/pgbouncer",) if Path(name).exists()), None)


class Bouncer:
    """`verifier` is the user's SCRAM secret as the server keeps it: pgbouncer passes the client's proof on.

    With `reuse` a server connection goes back to the pool when its client leaves, which no gateway that
    logs in for each principal can do; without, each client gets one of its own.
    """

    def __init__(
        self, database: str, target_port: int, user: str, verifier: str, tls: tuple[Path, Path], *, reuse: bool
    ) -> None:
        self.port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="bench-pgb-", dir="/tmp"))
        ini = self._folder / "pgbouncer.ini"
        ini.write_text(
            _INI.format(
                database=database,
                target_port=target_port,
                port=self.port,
                folder=self._folder,
                server_lifetime=3600 if reuse else 0,
            )
        )
        (self._folder / "users").write_text(f'"{user}" "{verifier}"\n')
        shutil.copyfile(tls[0], self._folder / "server.crt")
        shutil.copyfile(tls[1], self._folder / "server.key")
        account = unprivileged_user()
        for path in (self._folder, *self._folder.iterdir()):
            path.chmod(0o700 if path.is_dir() else 0o600)
            if account is not None:
                shutil.chown(path, account)
        name = program()
        assert name is not None, "the caller has looked for it"
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([name, str(ini)], user=account, cwd="/", stdout=log, stderr=log)
        self._wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.kill()  # it would wait for its clients otherwise
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self._folder / "log").read_text(errors="replace")
                    self.stop()
                    raise RuntimeError(f"pgbouncer did not start:\n{text}") from None
                time.sleep(0.05)
