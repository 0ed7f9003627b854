"""Everything that takes part: one target, two pgbouncers, one gateway, and the routes through them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psycopg
from bench.bouncer import Bouncer
from bench.gateway import BenchGateway
from tests.support.postgres import PostgresServer

from bench import data, rules
from postern.domain.rules.masking import DEFAULT_TYPES, MODEL_TYPES, InfoType, Strategy

DATABASE = "bench"
USER = "bench"
PASSWORD = "bench"

DIRECT = "direct"
BOUNCER = "pgbouncer"
FRESH_BOUNCER = "pgbouncer, no reuse"
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
        certificate = (tls / "server.crt", tls / "server.key")
        self.reusing, self.fresh = (
            Bouncer(DATABASE, self.server.port, USER, verifier, certificate, reuse=reuse) for reuse in (True, False)
        )
        self._stack.callback(self.reusing.stop)
        self._stack.callback(self.fresh.stop)
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
        gateway = self.gateway
        reusing, fresh = self._url(self.reusing.port), self._url(self.fresh.port)
        for route in (
            Route(DIRECT, self._url(self.server.port), None),
            Route(BOUNCER, reusing, self.reusing.pid),
            Route(FRESH_BOUNCER, fresh, self.fresh.pid),
            Route(BOUNCER_TLS, reusing.replace("disable", "require"), self.reusing.pid),
            *(Route(name, gateway.url(connection, DATABASE), gateway.worker_pid) for name, connection in self._made()),
            Route(POSTERN_TLS, gateway.url("plain", DATABASE, sslmode="require"), gateway.worker_pid),
        ):
            self.routes[route.name] = route

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

    def _url(self, port: int) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}?sslmode=disable"
