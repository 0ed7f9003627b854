"""Everything that takes part: one target, the rivals, one gateway, and the routes through them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psycopg
from bench.bouncer import Bouncer, FreshBouncer
from bench.forwarders import CForwarder, PythonForwarder
from bench.gateway import BenchGateway
from bench.rival import RivalRow, Target, start_rivals
from tests.support.postgres import PostgresServer

from bench import data, rules
from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, InfoType, Strategy

DATABASE = "bench"
USER = "bench"
PASSWORD = "bench"

DIRECT = "direct"
BOUNCER = "pgbouncer"
FRESH_BOUNCER = "pgbouncer, no reuse"
C_FORWARDER = "bare forwarder in C (epoll)"
PYTHON_FORWARDER = "bare forwarder in Python (uvloop)"
POSTERN = "postern: recording"
GUARDED = "postern: + guardrail"
MASKED = "postern: + guardrail + masking"
STATEMENTS = "postern: rules about statements"
READ_ONLY = "postern: rules about statements, read_only"
SEARCHED = "postern: masking, usual types"
ALL_TYPES = "postern: masking, all types"
EVERYTHING = "postern: all of it"
MARKED = {strategy: f"postern: masking, marked columns: {strategy}" for strategy in Strategy}
BOUNCER_TLS = "pgbouncer, TLS"
POSTERN_TLS = "postern: recording, TLS"

RIVALS = (
    RivalRow(C_FORWARDER, CForwarder),
    RivalRow(PYTHON_FORWARDER, PythonForwarder),
    RivalRow(BOUNCER, Bouncer),
    RivalRow(FRESH_BOUNCER, FreshBouncer, point_queries=False),
)


@dataclass(frozen=True, slots=True)
class Route:
    """One way to the target. `pid` is the process whose cost is measured; None for the direct one."""

    name: str
    url: str
    pid: int | None


class Stage:
    """A context manager: all is up inside, and gone behind."""

    def __init__(self, sizes: data.Sizes) -> None:
        self._sizes = sizes
        self._stack = ExitStack()
        self.routes: dict[str, Route] = {}
        self.server = PostgresServer(
            settings={"shared_buffers": "1GB", "max_connections": "1000", "max_wal_size": "4GB", "autovacuum": "off"},
            hba=["host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"],
        )

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def point_query_routes(self) -> list[Route]:
        """Return the direct route, the rivals that this machine can run, and Postern."""
        rivals = [row.name for row in RIVALS if row.point_queries and row.name in self.routes]
        return [self.routes[name] for name in (DIRECT, *rivals, POSTERN, GUARDED, MASKED)]

    @property
    def versions(self) -> str:
        """The server's own words for its version."""
        with psycopg.connect(self.server.dsn()) as admin:
            row = admin.execute("show server_version").fetchone()
        assert row is not None
        return str(row[0]).split()[0]

    def _build(self) -> None:
        self.server.start()
        self._stack.callback(self.server.stop)
        verifier = self._make_user()
        data.fill(self._url(self.server.port), self._sizes)
        self.gateway = BenchGateway()
        self._stack.callback(self.gateway.stop)
        tls = self.gateway.settings.home / "tls"
        target = Target(self.server.port, DATABASE, USER, verifier, tls / "server.crt", tls / "server.key")
        self.rivals = start_rivals(RIVALS, target)
        self._stack.callback(self.rivals.stop)
        self._name_routes()

    def _make_user(self) -> str:
        """The benchmark's own account and database; answers its SCRAM secret."""
        with psycopg.connect(self.server.dsn(), autocommit=True) as admin:
            admin.execute(f"create role {USER} login superuser password '{PASSWORD}'")
            admin.execute(f"create database {DATABASE} owner {USER}")
            row = admin.execute("select rolpassword from pg_authid where rolname = %s", [USER]).fetchone()
        assert row is not None
        return str(row[0])

    def _name_routes(self) -> None:
        self._add(DIRECT, self._url(self.server.port), None)
        for name, rival in self.rivals.running.items():
            self._add(name, self._url(rival.port), rival.pid)
        if bouncer := self.rivals.running.get(BOUNCER):
            self._add(BOUNCER_TLS, self._url(bouncer.port, sslmode="require"), bouncer.pid)
        worker = self.gateway.worker_pid
        for name, connection in self._made():
            self._add(name, self.gateway.url(connection, DATABASE), worker)
        self._add(POSTERN_TLS, self.gateway.url("plain", DATABASE, sslmode="require"), worker)

    def _add(self, name: str, url: str, pid: int | None) -> None:
        self.routes[name] = Route(name, url, pid)

    def _made(self) -> Iterator[tuple[str, str]]:
        """The gateway's connections with their rules, each with the name of its route."""
        target = {"HOST": "127.0.0.1", "PORT": str(self.server.port), "USER": USER, "PASS": PASSWORD, "DB": DATABASE}
        target |= {"SSLMODE": "disable"}
        usual = {"redact_enabled": True, "redact_types": sorted(DEFAULT_TYPES)}
        every = {"redact_enabled": True, "redact_types": sorted(frozenset(InfoType) - MODEL_TYPES)}
        under: dict[str, list[str]] = {"text": [], "statements": [], "read only": [], **{one: [] for one in Strategy}}
        for route, name, options, rules_of_it in (
            (POSTERN, "plain", {}, ()),
            (GUARDED, "guarded", {}, ("text",)),
            (MASKED, "masked", usual, ("text",)),
            (STATEMENTS, "statements", {}, ("statements",)),
            (READ_ONLY, "read-only", {}, ("statements", "read only")),
            (SEARCHED, "searched", usual, ()),
            (ALL_TYPES, "all-types", every, ()),
            (EVERYTHING, "everything", usual, ("text", "statements", Strategy.REPLACE)),
            *((MARKED[one], f"marked-{one}", {}, (one,)) for one in Strategy),
        ):
            made = self.gateway.connection(name, target, **options)
            for rule in rules_of_it:
                under[rule].append(made)
            yield route, name
        for name, content in (("text", rules.TEXT), ("statements", rules.STATEMENTS), ("read only", rules.READ_ONLY)):
            self.gateway.guardrail(name, content, *under[name])
        for one in Strategy:
            self.gateway.masking_rule(f"marked: {one}", data.MARKED, one, *under[one])

    def _url(self, port: int, *, sslmode: str = "disable") -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}?sslmode={sslmode}"
