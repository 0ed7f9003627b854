"""The client of a database, started at this terminal: `postern connect NAME`.

The client reaches the tunnel by a Unix socket in a folder that only this user can enter. So there is no port that
others on this machine could use, and no password in an argument.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postern.cli.forward import Forward, Reached
from postern.cli.reviewed import ReviewNotices
from postern.cli.status import Status, report
from postern.domain.text import one_line

# psql calls its socket by its port; the number says nothing else.
_PORT = 5432
_PATIENCE = 600  # seconds that mysql may wait at login: for a review


@dataclass(frozen=True, slots=True)
class NativeClient:
    """How the client of a subtype is called. `names` are its programs, the best first; `package` is what to install on
    Debian and Ubuntu, `elsewhere` on macOS. `tells` whether the client itself shows that it waits for a review."""

    names: tuple[str, ...]
    package: str
    elsewhere: str
    tells: bool

    def find(self) -> str | None:
        """Return the path of the program that is installed, None where none is."""
        return next((path for name in self.names if (path := shutil.which(name))), None)

    @property
    def advice(self) -> str:
        return (
            f"{self.names[0]} is not installed; install it (Debian, Ubuntu: apt install {self.package}; macOS: brew "
            f"install {self.elsewhere}), or use --tunnel or --native with another client"
        )


CLIENTS: Mapping[str, NativeClient] = {
    "postgres": NativeClient(("psql",), "postgresql-client", "libpq", tells=True),
    "mysql": NativeClient(("mysql", "mariadb"), "mariadb-client", "mysql-client", tells=False),
    "ssh": NativeClient(("ssh",), "openssh-client", "openssh", tells=True),
}


Renewal = Callable[[Forward], Coroutine[Any, Any, None]]


def run(client: NativeClient, command: Sequence[str], reached: Reached, database: str, renew: Renewal) -> int:
    """Start the client, and return its exit code once it has ended.

    `command` is the program and what the user adds to it; `renew` keeps the token fresh by which it is carried.
    """
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        return asyncio.run(_run(client, command, reached, Path(folder), database, renew))


async def _run(
    client: NativeClient, command: Sequence[str], reached: Reached, folder: Path, database: str, renew: Renewal
) -> int:
    notices = None if client.tells else ReviewNotices(reached.connection)
    forward = Forward(reached, lambda reason: report(Status.ERROR, one_line(reason)))
    forward.joined = notices.look_soon if notices else forward.joined
    is_mysql = reached.protocol == "mysql"
    await forward.start_socket(folder / (_MYSQL_SOCKET if is_mysql else f".s.PGSQL.{_PORT}"))
    words = mysql_words(folder, database) if is_mysql else psql_words(folder, database)
    loop = asyncio.get_running_loop()
    program, *arguments = command
    process = await asyncio.create_subprocess_exec(program, *words, *arguments, env=_environment())
    renewing = loop.create_task(renew(forward))
    # Ctrl-C is for the client, which has it from the terminal; a request to end is passed on.
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


_MYSQL_SOCKET = "mysql.sock"


def psql_words(folder: Path, database: str) -> list[str]:
    """The arguments of psql for the socket in `folder`."""
    values = {"host": str(folder), "port": str(_PORT), "user": "me", "dbname": database or "postgres"}
    return [" ".join(f"{name}={_conninfo(value)}" for name, value in values.items())]


def mysql_words(folder: Path, database: str) -> list[str]:
    """The arguments of mysql for the socket in `folder`."""
    words = [f"--socket={folder / _MYSQL_SOCKET}", "--protocol=socket", "--user=me", "--skip-password"]
    words.append(f"--connect-timeout={_PATIENCE}")
    return [*words, f"--database={database}"] if database else words


def _conninfo(value: str) -> str:
    """A value of libpq's key=value form, which may hold blanks and quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _environment() -> dict[str, str]:
    """Without what would send the client elsewhere, or have it use a password of another server."""
    dropped = ("PGPASSWORD", "PGSERVICE", "PGHOSTADDR", "PGREQUIREAUTH", "PGCHANNELBINDING", "MYSQL_PWD")
    return {name: value for name, value in os.environ.items() if name not in dropped}
