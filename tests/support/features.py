"""Ways to a target that a person takes with a client of its own, and what holds on each: the table that README shows.

A way knows how its client is started, how it says the same things in its target's language, and how a target is asked
around the gateway whether they happened.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support import http_program
from tests.support.clients import clean_environment, need
from tests.support.gateway import Gateway
from tests.support.http_gateway import WebApp, http_connection, login_of
from tests.support.mariadb import MariaDbServer
from tests.support.mongodb import MongoServer
from tests.support.mongodb_clients import DATABASE as MONGO_DATABASE
from tests.support.mongodb_clients import mongodb_connection
from tests.support.mongodb_clients import program as mongodb_program
from tests.support.mongodb_clients import uri as mongodb_uri
from tests.support.mongodb_program import WAIT as WAIT_FOR_CHANGES
from tests.support.mssql_gateway import mssql_connection
from tests.support.mssql_gateway import program as mssql_program
from tests.support.mssql_server import SqlServer
from tests.support.mysql_gateway import login, mysql_connection, run
from tests.support.oracle_gateway import ask_directly, oracle_command, oracle_connection
from tests.support.oracledb.running_server import OracleTestServer
from tests.support.postgres import PostgresServer
from tests.support.promises import PATIENT
from tests.support.ssh_clients import Clients, server
from tests.support.sshds import Sshd

from postern.domain.identity.credential import Issued
from postern.domain.sessions.session import SessionStatus
from postern.domain.targets.connection import Connection
from postern.errors import PosternError

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
    "SQL Server": _cells(*[ENFORCED] * 6),
    "Oracle": _cells(*[ENFORCED] * 6),
    "MongoDB": _cells(*[ENFORCED] * 6),
    "Commands: scripts (`postern exec`)": _cells(ENFORCED, ADVISORY, _BOTH, _BOTH, ENFORCED, ENFORCED),
    "Commands: terminals (`postern connect`)": _cells(ENFORCED, ADVISORY, _BOTH, _BOTH, ENFORCED, _BOTH),
    "SSH: commands": _cells(ENFORCED, _BOTH, _BOTH, _BOTH, ENFORCED, _BOTH),
    "SSH: shells": _cells(ENFORCED, ADVISORY, _BOTH, _BOTH, ENFORCED, _BOTH),
    "SSH: files (sftp, scp, rsync)": _cells("", _BOTH, BLOCKED, BLOCKED, ENFORCED, _BOTH),
    "SSH: forwarded ports (`-L`, `-R`)": _cells("", _BOTH, BLOCKED, BLOCKED, ENFORCED, _BOTH),
    "TCP": _cells(ENFORCED, REJECTED, REJECTED, REJECTED, ENFORCED, ENFORCED),
    "HTTP": _cells(*[ENFORCED] * 6),
    "DynamoDB, CloudWatch": _cells(*[ENFORCED] * 6),
}

ROW_OF: Mapping[str, str] = {
    "postgres": "PostgreSQL",
    "mysql": "MySQL, MariaDB",
    "ssh": "SSH: commands",
    "mongodb": "MongoDB",
    "mssql": "SQL Server",
    "oracledb": "Oracle",
    "tcp": "TCP",
    "httpproxy": "HTTP",
    **dict.fromkeys(("dynamodb", "cloudwatch"), "DynamoDB, CloudWatch"),
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
    begins_anew = False  # the first request after the end of a session begins another
    mode = "connect"  # the access mode that it needs
    ended: tuple[str, ...] = ("client_closed", "completed")  # why a session ends whose client leaves
    unavailable = ""  # what a client hears whose agent ends; empty: its connection ends, and it has to connect again

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


class Mssql(Way):
    row = "SQL Server"
    refusal = "ERROR 50000 "
    is_silent = True

    def __init__(self, gateway: Gateway, target: SqlServer) -> None:
        self._gateway = gateway
        self._target = target

    def connection(self, name: str, **more: Any) -> Connection:
        return mssql_connection(self._gateway, name, self._target, **more)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        client = Client(mssql_program(self._gateway, issued, port=(ports or {}).get("mssql")), clean_environment())
        client.says(*statements)
        return client

    def shows(self, text: str) -> str:
        return f"select N'{text[:2]}' + N'{text[2:]}' as shown;"

    def makes(self, name: str) -> str:
        return f"create table {name} (n int);"

    def is_made(self, name: str) -> bool:
        return (name,) in self._target.run("select name from sys.tables")

    def clear(self, mark: str) -> None:
        for (name,) in self._target.run("select name from sys.tables"):
            if mark in name:
                self._target.run(f"drop table {name}")

    def sleeps(self) -> str:
        return "waitfor delay '00:10:00';"


class Oracle(Way):
    row = "Oracle"
    refusal = "ERROR ORA-01031: "
    is_silent = True

    def __init__(self, gateway: Gateway, target: OracleTestServer) -> None:
        self._gateway = gateway
        self._target = target

    def connection(self, name: str, **more: Any) -> Connection:
        return oracle_connection(self._gateway, name, self._target, **more)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        client = Client(oracle_command(self._gateway, issued, port=(ports or {}).get("oracledb")), clean_environment())
        client.says(*statements)
        return client

    def shows(self, text: str) -> str:
        return f"select '{text[:2]}' || '{text[2:]}' as shown from dual;"

    def makes(self, name: str) -> str:
        return f"create table {name} (n number);"

    def is_made(self, name: str) -> bool:
        return (name.upper(),) in ask_directly(self._target, "select table_name from user_tables")

    def clear(self, mark: str) -> None:
        for (name,) in ask_directly(self._target, "select table_name from user_tables"):
            if mark.upper() in name:
                ask_directly(self._target, f"drop table {name}")

    def sleeps(self) -> str:
        return "begin dbms_session.sleep(600); end;"


class Mongodb(Way):
    row = "MongoDB"
    refusal = "ERROR 13 "
    is_silent = True
    idle = "connection closed"  # its protocol has no message that a client does not wait for

    def __init__(self, gateway: Gateway, target: MongoServer) -> None:
        self._gateway = gateway
        self._target = target

    def connection(self, name: str, **more: Any) -> Connection:
        return mongodb_connection(self._gateway, name, self._target, **more)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        address = mongodb_uri(self._gateway, issued, port=(ports or {}).get("mongodb"))
        client = Client(mongodb_program(address), clean_environment())
        client.says(*statements)
        return client

    def shows(self, text: str) -> str:
        shown = f'{{"$documents": [{{"shown": {{"$concat": ["{text[:2]}", "{text[2:]}"]}}}}]}}'
        return f'{{"aggregate": 1, "pipeline": [{shown}], "cursor": {{}}, "$db": "{MONGO_DATABASE}"}}'

    def makes(self, name: str) -> str:
        return f'{{"create": "{name}", "$db": "{MONGO_DATABASE}"}}'

    def is_made(self, name: str) -> bool:
        with self._target.client() as client:
            return name in client[MONGO_DATABASE].list_collection_names()

    def clear(self, mark: str) -> None:
        with self._target.client() as client:
            for name in client[MONGO_DATABASE].list_collection_names():
                if mark in name:
                    client[MONGO_DATABASE].drop_collection(name)

    def sleeps(self) -> str:
        return WAIT_FOR_CHANGES


class HttpProgram(Client):
    """A client of HTTP. A session does not end with it, so this kills the sessions of its connection."""

    def __init__(self, gateway: Gateway, connection: str, command: list[str]) -> None:
        super().__init__(command, clean_environment())
        self._gateway = gateway
        self._connection = connection

    def __exit__(self, *reason: object) -> None:
        super().__exit__(*reason)
        self._kill_sessions()

    def ends(self) -> str:
        shown = super().ends()
        self._kill_sessions()
        return shown

    def _kill_sessions(self) -> None:
        gateway = self._gateway
        for session in gateway.sessions(connection=self._connection, status=SessionStatus.OPEN):
            with suppress(PosternError):  # it has ended meanwhile
                gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))


class Http(Way):
    row = "HTTP"
    refusal = "ERROR 403 "
    is_silent = True  # programs; a browser sees a page
    begins_anew = True
    idle = "too late"
    ended = ("killed",)
    unavailable = "ERROR 502 "

    def __init__(self, gateway: Gateway, target: WebApp) -> None:
        self._gateway = gateway
        self._target = target

    def connection(self, name: str, **more: Any) -> Connection:
        return http_connection(self._gateway, name, self._target.url, **more)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        port = ports["httpproxy"] if ports else self._gateway.settings.httpproxy_port
        program = [sys.executable, str(Path(http_program.__file__)), f"http://127.0.0.1:{port}", *login_of(issued)]
        client = HttpProgram(self._gateway, issued.connection.name, program)
        client.says(*statements)
        return client

    def shows(self, text: str) -> str:
        return f"GET /say?a={quote(text[:2])}&b={quote(text[2:])}"

    def makes(self, name: str) -> str:
        return f"POST /make/{name}"

    def is_made(self, name: str) -> bool:
        return name in self._target.made

    def sleeps(self) -> str:
        return "GET /slow?seconds=600"


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
