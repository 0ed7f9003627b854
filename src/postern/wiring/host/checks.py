"""Functions for `postern doctor`, which create and change nothing."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from cryptography import x509
from sqlalchemy import or_, select

from postern.agent import agent_policy
from postern.client.client_control import attend
from postern.domain.targets.agent import ALIVE_FOR, AgentKey
from postern.domain.targets.control import Welcome
from postern.errors import Misconfigured, NotFound, Unavailable
from postern.integrations.acme.acme_renewal import read_state
from postern.metrics.exporter import gather
from postern.settings import Settings
from postern.store.database import Database
from postern.store.schema.target_tables import agents, connections
from postern.wiring import masters_wiring, paths, tls
from postern.wiring.blobs import open_blobs
from postern.wiring.processes.agent_process import facts


def read_policy(file: str) -> None:
    """Raises Misconfigured."""
    agent_policy.read(Path(file))


def fetch_tunnel_url(key: AgentKey, patience: float) -> str:
    """Return the tunnel's URL. Raises Unauthenticated if the key is rejected, Malformed if it is valid and must declare
    its connection, Unavailable on a timeout."""

    async def first() -> str:
        orders = attend(key, facts(), uuid4())
        try:
            async with asyncio.timeout(patience):
                async for order in orders:
                    if isinstance(order, Welcome):
                        return order.tunnel_url
        except TimeoutError:
            pass
        finally:
            await orders.aclose()  # type: ignore[attr-defined]
        raise Unavailable(f"the control service of {key.host}:{key.port} does not answer")

    return asyncio.run(first())


def is_running(settings: Settings) -> bool:
    """Return whether a gateway holds the data folder."""
    try:
        descriptor = os.open(paths.lock(settings), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def open_files(settings: Settings) -> dict[str, tuple[int, int]]:
    """Return how many files each process of the running gateway has open, and its limit."""
    names = ("process_open_fds", "process_max_fds")
    answers = asyncio.run(gather(settings.home / "run"))
    return {
        process: (int(metrics[names[0]][0][1]), int(metrics[names[1]][0][1]))
        for process, metrics in answers.items()
        if metrics is not None and all(name in metrics for name in names)
    }


def offline_agents(settings: Settings) -> list[tuple[str, str, list[str]]]:
    """Return name, mode and connections of each agent that is offline. Raises Unavailable when the store does not
    answer."""

    async def ask() -> list[tuple[str, str, list[str]]]:
        database = Database(settings.url)
        try:
            return await find_offline_agents(database, datetime.now(UTC))
        finally:
            await database.close()

    return asyncio.run(ask())


async def find_offline_agents(database: Database, now: datetime) -> list[tuple[str, str, list[str]]]:
    """Return name, mode and connections of the agents of all organisations without a recent heartbeat."""
    silent = or_(agents.c.last_seen.is_(None), agents.c.last_seen <= now - ALIVE_FOR)
    served = select(connections.c.agent_id, connections.c.name).order_by(connections.c.name)
    async with database.statement() as connection:
        rows = (await connection.execute(select(agents).where(silent).order_by(agents.c.name))).all()
        query = served.where(connections.c.agent_id.in_([row.id for row in rows]))
        named = (await connection.execute(query)).all()
    return [(row.name, row.mode, [each.name for each in named if each.agent_id == row.id]) for row in rows]


def is_migrated(settings: Settings) -> bool:
    """Check the schema. Raises Unavailable if the store does not answer, or does not exist."""
    if not settings.database_url:
        # The check must not create the file, nor open it as a different user than the gateway's.
        try:
            with closing(sqlite3.connect(f"{paths.store(settings).as_uri()}?mode=ro", uri=True, timeout=2)) as trial:
                trial.execute("select 1 from sqlite_master limit 1").fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"the store {paths.store(settings)} cannot be read: {error}") from None

    async def ask() -> bool:
        database = Database(settings.url)
        try:
            return await database.is_current()
        finally:
            await database.close()

    return asyncio.run(ask())


def check_master(settings: Settings) -> str:
    """Return the name of the master key. Raises Misconfigured if it cannot be read."""
    if not settings.master_key and not paths.encryption_key(settings).exists():
        raise Misconfigured(f"the file {paths.encryption_key(settings)} does not exist")
    return masters_wiring.master(settings).id


def certificate_end(settings: Settings) -> datetime | None:
    """Return the expiry of the gateway's certificate; None if it has not created one yet. Raises OSError,
    ValueError."""
    file = tls.current_files(settings).certificate
    if not settings.tls_cert and not file.exists():
        return None
    return x509.load_pem_x509_certificates(file.read_bytes())[0].not_valid_after_utc


def acme_problem(settings: Settings) -> str:
    """Return why the last order at the ACME server failed, and when the next one is; empty if it did not fail."""
    state = read_state(paths.acme_state(settings.home))
    if not settings.acme_directory or not state.problem:
        return ""
    return f"{state.problem} (attempt {state.failures}; the next one is at {state.next_at:%Y-%m-%d %H:%M} UTC)"


def apps_problem(settings: Settings) -> str:
    """Return why browsers do not accept the certificate at the hosts of HTTP applications; empty if they do. Raises
    Misconfigured, OSError, ValueError."""
    return tls.apps_problem(settings)


def apps_host(settings: Settings) -> str:
    """Return a host below the domain of HTTP applications that must lead to this gateway; empty if browsers know where
    it is by themselves."""
    domain = tls.app_domain(settings)
    return domain.host_of("postern-doctor") if domain.wildcard is not None else ""


def ask_blob_store(settings: Settings) -> str:
    """Return the blob store's name. Raises Misconfigured, Unavailable."""
    blobs = open_blobs(settings)
    with suppress(NotFound):
        blobs.size("is-anybody-there")
    return blobs.name
