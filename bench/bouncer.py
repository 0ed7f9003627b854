"""pgbouncer in session mode, to compare with: SCRAM on both sides."""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.rival import Rival, RivalUnavailableError, Target
from tests.support.postgres import unprivileged_user

_INI = """\
[databases]
{target.database} = host=127.0.0.1 port={target.port} dbname={target.database}
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


class Bouncer(Rival):
    """Returns a server connection to the pool when its client leaves. No gateway that logs in for each principal can
    do that. pgbouncer passes the client's SCRAM proof on to the server, so it needs only the verifier."""

    server_lifetime = 3600  # seconds

    def prepare(self, target: Target) -> list[str]:
        name = program()
        if name is None:
            raise RivalUnavailableError("pgbouncer is not installed")
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(
            _INI.format(target=target, port=self.port, folder=self.folder, server_lifetime=self.server_lifetime)
        )
        (self.folder / "users").write_text(f'"{target.user}" "{target.verifier}"\n')
        shutil.copyfile(target.certificate, self.folder / "server.crt")
        shutil.copyfile(target.key, self.folder / "server.key")
        self.account = unprivileged_user()
        for path in (self.folder, *self.folder.iterdir()):
            path.chmod(0o700 if path.is_dir() else 0o600)
            if self.account is not None:
                shutil.chown(path, self.account)
        return [name, str(ini)]


class FreshBouncer(Bouncer):
    """Opens a server connection for each client."""

    server_lifetime = 0
