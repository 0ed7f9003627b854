"""Counting rows on a real PostgreSQL, and on the SQL Server of tests, by the built-in agent."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from uuid import UUID, uuid4

from tests.support import mssql_server
from tests.support.mssql_server import PASSWORD, USER, SqlServer
from tests.support.postgres import PostgresServer

from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, ConnectionType
from postern.gateway.rules.row_count_estimates import CountLimits
from postern.relay.relay_target import Start, Target
from postern.settings import load
from postern.wiring.processes.worker_process import embedded_agent

DATABASE = "counted"
ORG = UUID(int=7)
START = Start(database=DATABASE)


class Watched:
    """The built-in agent. `refusal` in its place."""

    def __init__(self) -> None:
        self._dialer = embedded_agent(load({}, dial_timeout=60), {}, ORG)
        self.dialled = 0
        self.cancelled = asyncio.Event()
        self.refusal: Exception | None = None
        self.starts: list[Start] = []

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        self.dialled += 1
        self.starts.append(start)
        if self.refusal is not None:
            raise self.refusal
        return await self._dialer.dial(permit, start, session_id)

    async def cancel(self, permit: Permit, target: Target) -> None:
        await self._dialer.cancel(permit, target)
        self.cancelled.set()


LIMITS = CountLimits(statement=30, lock=0.3, whole=120, turn=120)  # a slow machine counts as well


def permit(server: PostgresServer, user: str = "postgres") -> Permit:
    texts = {"HOST": "127.0.0.1", "PORT": str(server.port), "USER": user, "SSLMODE": "disable"}
    return _permit(texts, "postgres")


def mssql_permit(server: SqlServer) -> Permit:
    texts = {"HOST": "localhost", "PORT": str(server.port), "USER": USER, "PASS": PASSWORD, "DB": mssql_server.DATABASE}
    return _permit({**texts, "SSLROOTCERT": server.issued.authority, "SSLMODE": "verify-full"}, "mssql")


def _permit(texts: Mapping[str, str], subtype: str) -> Permit:
    secret = {f"envvar:{name}": Secret(base64.b64encode(text.encode()).decode()) for name, text in texts.items()}
    connection = Connection(uuid4(), ORG, "shop", ConnectionType.DATABASE, subtype, uuid4(), secret=secret)
    ann = Principal(uuid4(), ORG, "ann", "ann@example.com", "Ann")
    return Permit(ann, connection, Policy(), Verb.CONNECT, "192.0.2.1", None, None, seal())
