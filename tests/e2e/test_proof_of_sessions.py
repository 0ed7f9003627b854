"""Ways in which a session begins × who admits it × verification: through whole processes and real clients. Each shows
an e-mail address, which is masked, so that its recording has marks.

The same table at the level of the store, with what is written to a session's row later, is in
tests/services/recordings/test_bindings.py.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from tests.e2e.test_access_rules import login_token, tunnelled
from tests.e2e.test_commands import Opened, command, talk
from tests.e2e.test_schedules import YEARLY
from tests.e2e.test_waiting_clients import Psql, person, waiting
from tests.support import mssql_program, oracle_program
from tests.support.aws_ways import Cloudwatch, Dynamodb
from tests.support.clients import clean_environment
from tests.support.features import Client, Http, Mongodb, Mssql, Mysql, Oracle, Postgres, SshCommand, SshShell, Way
from tests.support.gateway import Gateway
from tests.support.http_gateway import login_of
from tests.support.mariadb import MariaDbServer
from tests.support.mongodb import MongoServer
from tests.support.mongodb_clients import carried_uri
from tests.support.mongodb_clients import program as mongodb_program
from tests.support.mssql_server import DATABASE, SqlServer
from tests.support.oracledb.running_server import OracleTestServer
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import PATIENT, wait_until
from tests.support.shelf import shelve
from tests.support.terminals import PASSWORD, Browser
from tests.support.whole_site import Targets, WholeSite, whole_site

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Choice
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import Toggle
from postern.interception.events import ClientOutput, Masked
from postern.recording.recording_library import RecordingLibrary
from postern.services.runbooks.runs import RunRequest

pytestmark = pytest.mark.slow

SHOWN, SECRET = "it works", "ann@example.com"
RUNBOOKS: dict[type[Way], tuple[str, str]] = {
    Postgres: ("shown.runbook.sql", f"select 'it' || ' works {SECRET}'"),
    Mssql: ("shown-tsql.runbook.sql", f"select 'it' + ' works {SECRET}' as shown"),
    Oracle: ("shown-oracle.runbook.sql", f"select 'it' || ' works {SECRET}' as shown from dual"),
    Mongodb: ("shown.runbook.js", f"db.aggregate([{{$documents: [{{a: {{$concat: ['it', ' works {SECRET}']}}}}]}}])"),
}
MASKING: dict[str, Any] = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}

Finish = Callable[[bool], None]
"""Waits until the client or script is done. It is told whether it was admitted."""


@pytest.fixture(scope="module")
def site(
    target: PostgresServer,
    direct: psycopg.Connection,
    maria: MariaDbServer,
    mssql: SqlServer,
    oracle: OracleTestServer,
    mongo: MongoServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[WholeSite]:
    targets = Targets(target, direct, maria, mssql, oracle, mongo)
    with whole_site(targets, tmp_path_factory.mktemp("proven")) as site:
        site.gateway.call(shelve(site.gateway.stores, site.gateway.admin.org_id, dict(RUNBOOKS.values())))
        yield site


class Beginning:
    """A way in which a session begins. Its connection is of `kind`; None is a command."""

    is_masked = True  # it shows the secret

    def __init__(self, kind: type[Way] | None = Postgres) -> None:
        self.kind = kind

    def connect(self, site: WholeSite, name: str, reviewers: tuple[str, ...]) -> None:
        if self.kind is None:
            command(site.gateway, name, "bash", "--norc", reviewers=reviewers, **MASKING)
        else:
            site.ways[self.kind].connection(name, reviewers=reviewers, **MASKING)

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        raise NotImplementedError


class Connect(Beginning):
    """With the client of the protocol and a credential."""

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        assert self.kind is not None
        way = site.ways[self.kind]
        return _finish(way.start(site.gateway.credential(name, principal=who), way.shows(f"{SHOWN} {SECRET}")))


class SeveralLinks(Beginning):
    """Requests at the same time, each on a link of its own: one session, and one review."""

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        issued, way = site.gateway.credential(name, principal=who), site.ways[Http]
        _, _, path = way.shows(f"{SHOWN} {SECRET}").partition(" ")
        url = f"http://127.0.0.1:{site.gateway.settings.httpproxy_port}{path}"
        pool = ThreadPoolExecutor(8)
        running = [pool.submit(httpx.get, url, auth=login_of(issued), timeout=PATIENT) for _ in range(8)]
        time.sleep(1)  # all of them wait for the same review: one that comes after a rejection asks anew

        def finish(admitted: bool) -> None:
            with pool:
                answers = [one.result(PATIENT) for one in running]
            assert {SHOWN in answer.text for answer in answers} == {admitted}
            (session,) = site.gateway.sessions(connection=name)
            if admitted:
                site.gateway.call(site.gateway.services.sessions.kill(site.gateway.admin, session.id))

        return finish


class Sftp(Beginning):
    is_masked = False

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        issued = site.gateway.credential(name, principal=who)
        words = [*site.clients.words(issued, program="sftp"), "localhost"]
        client = Client(words, site.clients.secrets(issued))
        client.says("pwd")
        return _finish(client, "Remote working directory")


class ForwardedPort(Beginning):
    """By `ssh -N -L`: the session begins with the first client of the port."""

    is_masked = False

    def connect(self, site: WholeSite, name: str, reviewers: tuple[str, ...]) -> None:
        site.ways[SshShell].connection(name, reviewers=reviewers, access_forward_local=Toggle.ENABLED)

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        port = free_port()
        forwarded = f"127.0.0.1:{port}:127.0.0.1:{site.greeter}"
        key = site.clients.key(who)
        client = Client(
            [*site.clients.words(key, f"{who.email}#{name}"), "-N", "-L", forwarded, "localhost"],
            site.clients.secrets(key),
        )
        wait_until(lambda: _is_listening(port))
        inside = socket.create_connection(("127.0.0.1", port), timeout=PATIENT)

        def finish(admitted: bool) -> None:
            with client, inside:
                assert (len(inside.recv(1)) == 1) == admitted
                client.process.kill()  # a signal that it may treat can wait for its next poll
                client.ends()

        return finish


class Tunnel(Beginning):
    """psql at a local port of `postern connect --tunnel`."""

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        stack = ExitStack()
        port, _ = stack.enter_context(tunnelled(site.gateway, who, name))
        client = Psql(f"postgresql://ann@127.0.0.1:{port}/postgres?sslmode=disable", f"select '{SHOWN} {SECRET}'")

        def finish(admitted: bool) -> None:
            with stack:
                code, shown, said = client.ended()
            assert (code == 0, "it works" in shown) == (admitted, admitted), said

        return finish


class DriverTunnel(Beginning):
    """A driver's program at a local port of `postern connect --tunnel`."""

    def __init__(self, kind: type[Way], command: Callable[[int], list[str]]) -> None:
        super().__init__(kind)
        self.command = command

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        assert self.kind is not None
        way = site.ways[self.kind]
        stack = ExitStack()
        protocol = site.gateway.call(site.gateway.services.connections.get(site.gateway.admin, name)).subtype
        port, _ = stack.enter_context(tunnelled(site.gateway, who, name, protocol=protocol))
        client = Client(self.command(port), clean_environment())
        client.says(way.shows(f"{SHOWN} {SECRET}"))
        finish = _finish(client)

        def finish_both(admitted: bool) -> None:
            with stack:
                finish(admitted)

        return finish_both


class Terminal(Beginning):
    """A command at a terminal, by `postern connect`."""

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        async def work(opened: Opened) -> None:
            opened.type(f"echo it''works {SECRET}; exit\r")
            await opened.ends()
            texts.append(opened.client.text())

        texts: list[str] = []
        pool = ThreadPoolExecutor(1)
        running = pool.submit(talk, site.gateway, name, work, token=login_token(site.gateway, who))

        def finish(admitted: bool) -> None:
            with pool:
                running.result(PATIENT)
            assert ("itworks" in texts[0]) == admitted

        return finish


class WebTerminal(Beginning):
    """In a browser: a command, or the shell of a server. It opens at once; what is inside waits for the review."""

    def connect(self, site: WholeSite, name: str, reviewers: tuple[str, ...]) -> None:
        options = {"reviewers": reviewers, "access_mode_web_terminal": Toggle.ENABLED, **MASKING}
        if self.kind is None:
            command(site.gateway, name, "bash", "--norc", **options)
        else:
            site.ways[self.kind].connection(name, **options)

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        site.gateway.call(site.gateway.services.accounts.set_password(who, Secret(PASSWORD), "password"))
        stack = ExitStack()
        terminal = stack.enter_context(Browser(site.api, who.email).terminal(name))

        def finish(admitted: bool) -> None:
            with stack:
                if admitted:
                    terminal.type(f"echo it''works {SECRET}; exit\r")
                terminal.until_closed()
            assert ("itworks" in terminal.text()) == admitted

        return finish


class Script(Beginning):
    """By `postern exec`."""

    def start(self, site: WholeSite, name: str, who: Principal) -> Finish:
        session = self.submit(site, name, who)

        def finish(admitted: bool) -> None:
            gateway = site.gateway
            if admitted and session.review_id is not None:
                gateway.call(gateway.services.sessions.execute(who, session.id))
            done = gateway.finished(session.id)
            assert (done.exit_code == 0) == admitted
            if admitted:
                assert "it works" in gateway.text(done.id)

        return finish

    def submit(self, site: WholeSite, name: str, who: Principal) -> Session:
        gateway = site.gateway
        text = site.ways[self.kind].shows(f"{SHOWN} {SECRET}") if self.kind else f"echo 'it'' works {SECRET}'"
        return gateway.call(gateway.services.sessions.submit(who, name, text, source="127.0.0.1", means="login:1"))


class Editor(Script):
    """By the editor of the web application."""

    def submit(self, site: WholeSite, name: str, who: Principal) -> Session:
        assert self.kind is not None
        site.gateway.call(site.gateway.services.accounts.set_password(who, Secret(PASSWORD), "password"))
        script = {"connection": name, "script": site.ways[self.kind].shows(f"{SHOWN} {SECRET}"), "format": "json"}
        answer = Browser(site.api, who.email).write("POST", "/sessions", script)
        assert answer.status_code in (200, 201, 202), answer.text
        return site.gateway.session(UUID(answer.json()["session_id"]))


class Runbook(Script):
    def submit(self, site: WholeSite, name: str, who: Principal) -> Session:
        runs = site.gateway.services.runbook_runs
        assert self.kind is not None
        request = RunRequest(name, RUNBOOKS[self.kind][0])
        return site.gateway.call(runs.submit(who, request, source="127.0.0.1", means="login:1"))


class Schedule(Script):
    """A runbook that the archiver begins when it is due."""

    def submit(self, site: WholeSite, name: str, who: Principal) -> Session:
        gateway, schedules = site.gateway, site.gateway.services.runbook_schedules
        assert self.kind is not None
        fields = {"name": name, "connection": name, "file": RUNBOOKS[self.kind][0], "cron": YEARLY}
        gateway.call(schedules.create(who, fields))
        read = gateway.call(schedules.get(gateway.admin, name))
        due = replace(read, next_at=gateway.services.now() - timedelta(seconds=1))
        gateway.call(gateway.stores.runbook_schedules.update(due))
        begun = wait_until(lambda: gateway.call(schedules.get(gateway.admin, name)).last_session_id, PATIENT)
        return gateway.session(begun)


def _finish(client: Client, shows: str = "it works") -> Finish:
    def finish(admitted: bool) -> None:
        with client:
            if admitted:
                client.hears(shows)
            assert (shows in client.leaves()) == admitted

    return finish


def mssql_at(port: int) -> list[str]:
    return [sys.executable, str(Path(mssql_program.__file__)), str(port), "anyone", "postern", DATABASE]


def oracle_at(port: int) -> list[str]:
    words = [f"127.0.0.1:{port}/ORCLPDB1", "anyone", "postern"]
    return [sys.executable, "-P", str(Path(oracle_program.__file__)), *words]


def _is_listening(port: int) -> bool:
    """Whether a listener is there; nobody connects to find out."""
    listening = f":{port:04X} 00000000:0000 0A "
    return listening in Path("/proc/net/tcp").read_text()


BEGINNINGS = {
    "psql": Connect(Postgres),
    "mariadb": Connect(Mysql),
    "python-tds": Connect(Mssql),
    "python-oracledb": Connect(Oracle),
    "pymongo": Connect(Mongodb),
    "http": Connect(Http),
    "http on several links": SeveralLinks(Http),
    "boto3 on DynamoDB": Connect(Dynamodb),
    "boto3 on CloudWatch": Connect(Cloudwatch),
    "ssh, a command": Connect(SshCommand),
    "ssh, a shell": Connect(SshShell),
    "sftp": Sftp(SshShell),
    "ssh, a forwarded port": ForwardedPort(SshShell),
    "psql through a tunnel": Tunnel(Postgres),
    "pymongo through a tunnel": DriverTunnel(Mongodb, lambda port: mongodb_program(carried_uri(port))),
    "python-tds through a tunnel": DriverTunnel(Mssql, mssql_at),
    "python-oracledb through a tunnel": DriverTunnel(Oracle, oracle_at),
    "a terminal through a tunnel": Terminal(None),
    "a terminal in a browser": WebTerminal(None),
    "a shell in a browser": WebTerminal(SshShell),
    "exec on PostgreSQL": Script(Postgres),
    "exec on MySQL": Script(Mysql),
    "exec on SQL Server": Script(Mssql),
    "exec on Oracle": Script(Oracle),
    "exec on MongoDB": Script(Mongodb),
    "exec on HTTP": Script(Http),
    "exec on DynamoDB": Script(Dynamodb),
    "exec on CloudWatch": Script(Cloudwatch),
    "exec on SSH": Script(SshCommand),
    "exec of a command": Script(None),
    "the web editor": Editor(Postgres),
    "the web editor on SQL Server": Editor(Mssql),
    "the web editor on Oracle": Editor(Oracle),
    "a runbook": Runbook(Postgres),
    "a runbook on SQL Server": Runbook(Mssql),
    "a runbook on Oracle": Runbook(Oracle),
    "a runbook on MongoDB": Runbook(Mongodb),
    "a schedule": Schedule(Postgres),
    "a schedule on SQL Server": Schedule(Mssql),
    "a schedule on Oracle": Schedule(Oracle),
    "a schedule on MongoDB": Schedule(Mongodb),
}


def is_marked(gateway: Gateway, session: Session) -> bool:
    """Whether the recording and its timeline have marks. The secret is in neither."""
    recordings = gateway.services.sessions.recordings
    assert isinstance(recordings, RecordingLibrary)
    events = [event for _, event in recordings.records(session)]
    assert not any(SECRET.encode() in event.data for event in events if isinstance(event, ClientOutput))
    exchanges = list(recordings.exchanges(session, output=1 << 16))
    assert not any(SECRET.encode() in exchange.output for exchange in exchanges)
    is_told = any(("", "replace") in exchange.masked for exchange in exchanges)
    assert is_told == any(isinstance(event, Masked) for event in events)
    return is_told


ADMISSIONS = {"at once": None, "after an approval": Choice.APPROVED, "never, after a rejection": Choice.REJECTED}


@pytest.mark.parametrize("admission", ADMISSIONS)
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_session_is_proven_however_it_begins(site: WholeSite, beginning: str, admission: str) -> None:
    begin, choice, gateway = BEGINNINGS[beginning], ADMISSIONS[admission], site.gateway
    name = f"proven-{uuid4().hex[:8]}"
    begin.connect(site, name, ("admin",) if choice else ())
    who = person(gateway, f"{name}@example.com", "dev")
    finish = begin.start(site, name, who)
    if choice:
        review = waiting(gateway, who)
        gateway.call(gateway.services.reviews.decide(gateway.admin, str(review.id), choice, comment="because"))
    finish(choice is not Choice.REJECTED)
    session = gateway.newest_finished(name)
    assert (session.review_id is not None) == (choice is not None)
    assert (session.metadata["end_reason"] == "rejected") == (choice is Choice.REJECTED)
    if choice is not Choice.REJECTED:
        assert is_marked(gateway, session) == begin.is_masked

    def all_proven() -> bool:
        """However early the export and the verification are made, they are good."""
        everything = len(gateway.sessions(status=SessionStatus.DONE))
        reports = [site.verify(), site.export(), site.export(session)]
        for report in reports:
            assert report.is_good, report.findings
        online, whole, part = reports
        return (online.sessions_proven, whole.sessions_proven) == (everything, everything) and part.sessions_proven >= 1

    wait_until(all_proven, PATIENT)
