"""Ways to a target that a person takes with a client of its own, and what holds on each: the table that README shows.

A way knows how its client is started, how it says the same things in its target's language, and how a target is asked
around the gateway whether they happened.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.mysql_gateway import login, mysql_connection, run
from tests.support.postgres import PostgresServer
from tests.support.promises import PATIENT
from tests.support.ssh_clients import Clients, server
from tests.support.sshds import Sshd

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection

ENFORCED, ADVISORY, BLOCKED, REJECTED, NOT_YET = "enforced", "advisory", "blocked", "rejected", "not yet"
PARTLY = "partly"  # in README: enforced for one part, advisory for the other, as a note says
COLUMNS = ("recording", "guardrails on input", "guardrails on output", "masking", "kill", "reviews")
_BOTH = f"{ENFORCED}, {ADVISORY}"


def _cells(recording: str, asked: str, shown: str, masking: str, kill: str, reviews: str) -> dict[str, frozenset[str]]:
    given = (recording, asked, shown, masking, kill, reviews)
    return {name: frozenset(cell.split(", ")) - {""} for name, cell in zip(COLUMNS, given, strict=True)}


# What README says of each row: which of these words stand in a cell (tests/test_docs.py). Rows that a way below takes
# are tried by tests/e2e/test_features.py; where they differ, this is the one place that says so.
HOLDS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "PostgreSQL": _cells(*[ENFORCED] * 6),
    "MySQL, MariaDB": _cells(*[ENFORCED] * 6),
    "Commands: scripts (`postern exec`)": _cells(ENFORCED, ADVISORY, _BOTH, _BOTH, ENFORCED, ENFORCED),
    "Commands: terminals (`postern connect`)": _cells(ENFORCED, ADVISORY, _BOTH, _BOTH, ENFORCED, _BOTH),
    "SSH: commands": _cells(ENFORCED, _BOTH, _BOTH, _BOTH, ENFORCED, _BOTH),
    "SSH: shells": _cells(ENFORCED, ADVISORY, _BOTH, _BOTH, ENFORCED, _BOTH),
    "SSH: files (sftp, scp, rsync)": _cells("", _BOTH, BLOCKED, BLOCKED, ENFORCED, _BOTH),
    "SSH: forwarded ports (`-L`, `-R`)": _cells("", _BOTH, BLOCKED, BLOCKED, ENFORCED, _BOTH),
    "MongoDB, SQL Server, Oracle": _cells(NOT_YET, REJECTED, REJECTED, REJECTED, NOT_YET, NOT_YET),
    "HTTP, TCP": _cells(NOT_YET, REJECTED, REJECTED, REJECTED, NOT_YET, NOT_YET),
    "DynamoDB, CloudWatch without a command": _cells(NOT_YET, REJECTED, REJECTED, REJECTED, NOT_YET, NOT_YET),
}

ROW_OF: Mapping[str, str] = {
    "postgres": "PostgreSQL",
    "mysql": "MySQL, MariaDB",
    "ssh": "SSH: commands",
    **dict.fromkeys(("mongodb", "mssql", "oracledb"), "MongoDB, SQL Server, Oracle"),
    **dict.fromkeys(("httpproxy", "tcp"), "HTTP, TCP"),
    **dict.fromkeys(("dynamodb", "cloudwatch"), "DynamoDB, CloudWatch without a command"),
}
"""Where README says of each subtype of a connection what holds there."""


class Client:
    """A client's process: what it shows and what it says come together, as on a screen."""

    def __init__(self, command: list[str], environment: Mapping[str, str], goodbye: bytes = b"") -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, bufsize=0
        )
        self.seen = b""
        self._goodbye = goodbye

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        with suppress(BrokenPipeError):
            self.process.__exit__(None, None, None)

    def says(self, *statements: str) -> None:
        """It may have ended meanwhile."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write("".join([f"{statement}\n" for statement in statements]).encode())

    def hears(self, words: str) -> str:
        """All that it showed so far, once that is in it."""
        self._read(words.encode())
        assert words.encode() in self.seen, self.seen
        return self.seen.decode(errors="replace")

    def ends(self) -> str:
        """All that it showed, once it has ended by itself."""
        self._read(None)
        self.process.wait(PATIENT)
        return self.seen.decode(errors="replace")

    def leaves(self) -> str:
        """The same, once it was told that there is no more; or when it has ended already."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(self._goodbye)
            if not self._goodbye:
                self.process.stdin.close()
        return self.ends()

    def _read(self, until: bytes | None) -> None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENT
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while until is None or until not in self.seen:
                assert selector.select(max(deadline - time.monotonic(), 0)), f"no more came than {self.seen!r}"
                data = os.read(self.process.stdout.fileno(), 65536)
                if not data:
                    return
                self.seen += data


class Way:
    """One row of the table. `refusal` is how its clients say that the gateway refuses something. `round` is a
    statement that makes `name`, and does not say so in a way that a rule about its text sees; None where the gateway
    sees through all that."""

    row: str
    refusal: str
    programs: tuple[str, ...] = ()  # what has to run so that there is somewhere to type
    stays: tuple[str, ...] = ()  # what has to run so that the client stays, and does nothing
    idle = "idle for 3 seconds"  # what a client hears when it asks for something and was idle too long
    is_silent = False  # while it waits to be let in
    mode = "connect"  # the access mode that it needs

    def connection(self, name: str, **more: Any) -> Connection:
        raise NotImplementedError

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        """A client that says these and stays, if it can. `ports` are those of another worker."""
        raise NotImplementedError

    def shows(self, text: str) -> str:
        """A statement that shows a text which is not in it."""
        raise NotImplementedError

    def makes(self, name: str) -> str:
        raise NotImplementedError

    def round(self, name: str) -> str | None:
        return None

    def is_made(self, name: str) -> bool:
        raise NotImplementedError

    def clear(self, mark: str) -> None:
        """Removes what was made by a name with that in it."""

    def sleeps(self) -> str:
        """For longer than any test."""
        raise NotImplementedError


class Postgres(Way):
    row = "PostgreSQL"
    refusal = "ERROR:  "

    def __init__(self, gateway: Gateway, target: PostgresServer, direct: Any) -> None:
        self._gateway = gateway
        self._target = target
        self._direct = direct

    def connection(self, name: str, **more: Any) -> Connection:
        return self._gateway.connection(name, self._target, **more)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        url = self._gateway.url(issued=issued, port=(ports or {}).get("postgres"))
        client = Client([need("psql"), "-X", "-A", "-t", url], clean_environment())
        client.says(*statements)
        return client

    def shows(self, text: str) -> str:
        return f"select '{text[:2]}' || '{text[2:]}';"

    def makes(self, name: str) -> str:
        return f"create table {name} (n int);"

    def is_made(self, name: str) -> bool:
        [found] = self._direct.execute("select to_regclass(%s) is not null", [name]).fetchone()
        return bool(found)

    def clear(self, mark: str) -> None:
        for (name,) in self._direct.execute("select relname from pg_class where relname like %s", [f"%{mark}%"]):
            self._direct.execute(f"drop table {name}")

    def sleeps(self) -> str:
        return "select pg_sleep(600);"


class Mysql(Way):
    row = "MySQL, MariaDB"
    refusal = "ERROR 1227 (42000)"
    is_silent = True

    def __init__(self, gateway: Gateway, target: MariaDbServer) -> None:
        self._gateway = gateway
        self._target = target

    def connection(self, name: str, **more: Any) -> Connection:
        return mysql_connection(self._gateway, name, self._target, **more)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        given = login(self._gateway, issued) | ({"port": ports["mysql"]} if ports else {})
        options = [f"--{option}={given[option]}" for option in ("host", "port", "user", "password")]
        batch = ["--batch", "--force", "--unbuffered", "--skip-column-names", "--skip-reconnect", "--protocol=tcp"]
        client = Client([need("mysql"), "--no-defaults", *options, *batch], clean_environment())
        client.says(*statements)
        return client

    def shows(self, text: str) -> str:
        return f"select concat('{text[:2]}', '{text[2:]}') as shown;"  # else the column's name has the text

    def makes(self, name: str) -> str:
        return f"create table {name} (n int);"

    def is_made(self, name: str) -> bool:
        return bool(run(self._target, "select 1 from information_schema.tables where table_name = %s", name))

    def clear(self, mark: str) -> None:
        question = (
            "select concat(table_schema, '.', table_name) from information_schema.tables where table_name like %s"
        )
        for (name,) in run(self._target, question, f"%{mark}%"):
            run(self._target, f"drop table {name}")

    def sleeps(self) -> str:
        return "select sleep(600);"


class Ssh(Way):
    refusal = "postern: "

    def __init__(self, gateway: Gateway, target: Sshd, clients: Clients, folder: Path) -> None:
        self._gateway = gateway
        self._target = target
        self._clients = clients
        self._folder = folder

    def connection(self, name: str, **more: Any) -> Connection:
        return server(self._gateway, name, self._target, **more)

    def _start(self, issued: Issued, ports: Mapping[str, int] | None, *words: str, goodbye: bytes = b"") -> Client:
        options: dict[str, Any] = {}
        if ports:
            options = {"Port": ports["ssh"], "HostKeyAlias": f"[localhost]:{self._gateway.settings.ssh_port}"}
        command = [*self._clients.words(issued, **options), *words]
        return Client(command, self._clients.secrets(issued), goodbye)

    def shows(self, text: str) -> str:
        return f"echo {text[:2]}''{text[2:]}"

    def makes(self, name: str) -> str:
        return f"touch {self._folder}/{name}"

    def round(self, name: str) -> str | None:
        return f"touch {self._folder}/{name[:2]}''{name[2:]}"

    def is_made(self, name: str) -> bool:
        return (self._folder / name).exists()

    def sleeps(self) -> str:
        return "sleep 600"


class SshCommand(Ssh):
    """All statements are one command, which ends with the last of them."""

    row = "SSH: commands"
    mode = "exec"
    programs = ("bash",)
    stays = ("cat",)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        return self._start(issued, ports, "localhost", "; ".join(statements))


class SshShell(Ssh):
    """Somebody types at a terminal."""

    row = "SSH: shells"

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        client = self._start(issued, ports, "-tt", "localhost", goodbye=b"exit\n")
        client.says(*statements)
        return client
