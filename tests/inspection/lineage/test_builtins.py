"""Compare the lists of built-in functions and operators with a real server."""

from __future__ import annotations

import psycopg
from tests.support.postgres import PostgresServer

from postern.protocols.postgres.lineage.postgres_builtins import FUNCTIONS, OPERATORS, RECORDS

# Volatile, and all the same made of nothing but arguments, the clock, chance, sequences, sizes and the server's state.
HARMLESS = """
    clock_timestamp currval gen_random_uuid lastval nextval pg_advisory_ pg_blocking_pids pg_cancel_backend
    pg_current_wal_ pg_database_size pg_indexes_size pg_is_ pg_last_ pg_notify pg_partition_ pg_relation_size pg_sleep
    pg_table_size pg_tablespace_size pg_terminate_backend pg_total_relation_size pg_try_advisory_ pg_xact_status random
    set_config setseed setval timeofday txid_status
"""


def names(server: PostgresServer, query: str) -> set[str]:
    with psycopg.connect(server.dsn()) as connection:
        return {name for (name,) in connection.execute(query.encode())}


def test_attack_no_function_that_runs_text_or_reads_files_is_listed(postgres_server: PostgresServer) -> None:
    query = "select proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace and provolatile = 'v'"
    volatile = FUNCTIONS & names(postgres_server, query)
    assert volatile
    assert {name for name in volatile if not name.startswith(tuple(HARMLESS.split()))} == set()
    assert not {name for name in FUNCTIONS if "to_xml" in name or name.startswith(("lo_", "pg_read_", "pg_stat_get"))}


def test_every_operator_of_the_server_is_listed(postgres_server: PostgresServer) -> None:
    assert names(postgres_server, "select distinct oprname from pg_operator") <= OPERATORS


def test_functions_that_return_records_are_listed_as_functions() -> None:
    assert RECORDS <= FUNCTIONS
