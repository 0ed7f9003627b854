"""A gateway for end-to-end tests: relay workers as real processes, everything else through the services.

The signals hub, the store and the services live in the test's process, on a thread with an event loop of its own,
so that tests may be plain functions that run real clients.
"""

from __future__ import annotations

import asyncio
import base64
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

import psycopg
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import PATIENT, wait_until
from tests.support.world import logged_in

from postern.domain.identity.credential import Issued
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.rules.masking import MaskingRule
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.interception.events import Event
from postern.process import PARENT_PID, READY_FD
from postern.recording.recording_library import Gap, RecordingLibrary
from postern.services.bundle import Services
from postern.settings import Settings, load
from postern.store.ports.target_ports import SessionFilter
from postern.store.signals import SignalHub, SocketSignals
from postern.wiring import paths
from postern.wiring.app import open_app

T = TypeVar("T")


def running(direct: psycopg.Connection, text: str) -> int:
    """How many other backends run a statement that contains `text` now."""
    row = direct.execute(
        "select count(*) from pg_stat_activity where state = 'active' and query like %s and pid <> pg_backend_pid()",
        [f"%{text}%"],
    ).fetchone()
    assert row is not None
    return int(row[0])


class WorkerProcess:
    """One relay worker. `environment` comes on top of the gateway's; `file_limit` bounds its files, in bytes;
    `descriptors` are its soft and hard limit of open files."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        file_limit: int | None = None,
        descriptors: tuple[int, int] | None = None,
    ) -> None:
        self._descriptors = descriptors
        self.name = name
        self.settings = settings
        self._file_limit = file_limit
        self._log = settings.home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = PATIENT) -> None:
        reading, writing = os.pipe()
        environment = {**os.environ, **self.settings.environment()}
        environment |= {READY_FD: str(writing), PARENT_PID: str(os.getpid())}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "postern", "worker", "--name", self.name],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                start_new_session=True,
                preexec_fn=self._limit if self._file_limit or self._descriptors else None,
            )
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], timeout)
        said = os.read(reading, 100) if ready else b""
        os.close(reading)
        if said != b"ready\n":
            self.kill()
            raise RuntimeError(f"worker {self.name} did not start:\n{self.log()}")

    def _limit(self) -> None:
        if self._descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._descriptors)
        if self._file_limit is None:
            return
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that is too long fails, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._file_limit, self._file_limit))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def port(self) -> int:
        return self.settings.postgres_port

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def resident(self) -> int:
        """Bytes of memory that it holds now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    def stop(self, timeout: float = 60.0) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout)

    def kill(self) -> None:
        """SIGKILL, as the kernel would when memory runs out."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Gateway:
    """`start()`, then connections and credentials, then `url()` for clients; `stop()` leaves nothing behind.

    `store` is a SQLAlchemy URL; None is SQLite in the gateway's home. Other settings by their names.
    """

    def __init__(self, *, store: str | None = None, **settings: object) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="postern-e2e-", dir="/tmp"))
        own = (
            "postgres_port",
            "mysql_port",
            "mssql_port",
            "oracledb_port",
            "mongodb_port",
            "httpproxy_port",
            "dynamodb_port",
            "cloudwatch_port",
            "ssh_port",
            "tunnel_port",
        )
        given = {**{name: free_port() for name in own}, **settings}
        self.settings = load({}, home=str(self.home), database_url=store, **given)
        self.workers: dict[str, WorkerProcess] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway", daemon=True)
        self._stack = AsyncExitStack()
        self._issued: dict[str, Issued] = {}

    def start(self, workers: int = 1) -> None:
        self._thread.start()
        self.call(self._start())
        for number in range(1, workers + 1):
            self.add_worker(f"w{number}")

    async def _start(self) -> None:
        socket = paths.signals_socket(self.settings)
        hub = SignalHub(socket)
        await hub.start()
        self._stack.push_async_callback(hub.stop)
        signals = SocketSignals(socket)
        await signals.start()
        self._stack.push_async_callback(signals.stop)
        app = await self._stack.enter_async_context(open_app(self.settings, signals, migrate=True))
        self.services: Services = app.services
        self.stores = app.stores
        first = await self.services.accounts.ensure_first_admin()
        assert first is not None
        self.token = (await logged_in(self.services, *first)).token
        caller = await self.services.authentication.caller(self.token, address="::1")
        self.admin: Principal = caller.principal
        self._agent = await self.services.agents.ensure_embedded()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.kill()
        if self._thread.is_alive():
            self.call(self._stack.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def call(self, work: Coroutine[Any, Any, T], timeout: float = 60.0) -> T:
        """The result of a coroutine, run on the gateway's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    # Workers

    def add_worker(
        self,
        name: str,
        *,
        file_limit: int | None = None,
        descriptors: Any = None,
        **settings: object,
    ) -> WorkerProcess:
        """A further worker. It shares the port of the others, unless `postgres_port` says otherwise."""
        changed = {f"POSTERN_{key.upper()}": str(value) for key, value in settings.items()}
        worker = WorkerProcess(
            name, load({**self.settings.environment(), **changed}), file_limit=file_limit, descriptors=descriptors
        )
        worker.start()
        self.workers[name] = worker
        return worker

    @property
    def worker(self) -> WorkerProcess:
        """The first one."""
        return next(iter(self.workers.values()))

    # What an administrator sets up

    def connection(
        self,
        name: str,
        server: PostgresServer | None = None,
        *,
        secret: Mapping[str, str] | None = None,
        subtype: str = "postgres",
        **more: Any,
    ) -> Connection:
        """A connection to `server` as its superuser, but for what `secret` (plain text) and `more` say."""
        values = {"HOST": "127.0.0.1", "USER": "postgres", "PASS": "", "DB": "postgres"}
        values |= {"PORT": str(server.port)} if server is not None else {}
        values |= secret or {}
        fields: dict[str, Any] = dict(
            name=name,
            type=ConnectionType.DATABASE,
            subtype=subtype,
            agent_id=self._agent.id,
            access_mode_connect=Toggle.ENABLED,
            access_mode_exec=Toggle.ENABLED,
            access_mode_runbooks=Toggle.ENABLED,
            access_schema=Toggle.ENABLED,
            secret={f"envvar:{key}": Secret(_base64(value)) for key, value in values.items() if value},
            **more,
        )
        return self.call(self.services.connections.create(self.admin, fields))

    def credential(self, connection: str, seconds: int | None = None, principal: Principal | None = None) -> Issued:
        return self.call(self.services.credentials.issue(principal or self.admin, connection, seconds))

    def guardrail(self, name: str, *connections: Connection, deny: str = "", deny_output: str = "") -> Guardrail:
        """A guardrail of one pattern, for input or output."""
        fields = {
            "name": name,
            "input": (Rule(RuleType.PATTERN_MATCH, (), deny, "denied"),) if deny else (),
            "output": (Rule(RuleType.PATTERN_MATCH, (), deny_output, "hidden"),) if deny_output else (),
            "connection_ids": tuple(str(connection.id) for connection in connections),
        }
        return self.call(self.services.guardrails.create(self.admin, fields))

    # How a client gets in

    def masking_rule(self, given: Mapping[str, Any]) -> MaskingRule:
        return self.call(self.services.masking_rules.create(self.admin, given))

    def url(
        self,
        connection: str = "target",
        *,
        issued: Issued | None = None,
        port: int | None = None,
        database: str = "postgres",
        **parameters: str,
    ) -> str:
        """A libpq URL with a credential of the connection: one for all, unless `issued` is another one."""
        if issued is None:
            issued = self._issued.get(connection) or self.credential(connection)
            self._issued[connection] = issued
        login = f"{quote(issued.credential.username)}:{quote(issued.password.reveal())}"
        query = urlencode({"sslmode": "disable", **parameters}, quote_via=quote)
        return f"postgresql://{login}@localhost:{port or self.settings.postgres_port}/{database}?{query}"

    # What is known afterwards

    def sessions(self, **wanted: Any) -> list[Session]:
        """Newest first."""
        wanted_page = self.services.sessions.find(self.admin, SessionFilter(**wanted), Page(limit=1000))
        return list(self.call(wanted_page).items)

    def session(self, session_id: UUID) -> Session:
        return self.call(self.services.sessions.get(self.admin, session_id))

    def newest(self, connection: str = "target") -> Session:
        return self.sessions(connection=connection)[0]

    def finished(self, session_id: UUID, timeout: float = PATIENT) -> Session:
        """The session, once it is done."""

        def done() -> Session | None:
            session = self.session(session_id)
            return session if session.status is SessionStatus.DONE else None

        return wait_until(done, timeout)

    def newest_finished(self, connection: str = "target", timeout: float = PATIENT) -> Session:
        return self.finished(self.newest(connection).id, timeout)

    def all_closed(self, timeout: float = PATIENT, **wanted: Any) -> None:
        deadline = time.monotonic() + timeout
        while still := self.sessions(status=SessionStatus.OPEN, **wanted):
            assert time.monotonic() < deadline, f"still open after {timeout:g} s: {still}"
            time.sleep(0.02)

    def text(self, session_id: UUID) -> str:
        """What the session's recording shows, all streams, as a person would read it."""
        session = self.session(session_id)
        return b"".join(content for _, _, content in self.services.sessions.events(session)).decode(errors="replace")

    def operations(self, session_id: UUID) -> list[str]:
        session = self.session(session_id)
        return [text.decode() for _, text in self.services.sessions.operations(session)]

    def records(self, session_id: UUID) -> list[Event]:
        """The recorded events themselves."""
        found = [event for _, event in RecordingLibrary(self.home, {}).records(session_id)]
        assert not any(isinstance(event, Gap) for event in found)
        return [event for event in found if not isinstance(event, Gap)]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
