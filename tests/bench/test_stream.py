"""The benchmark's own client against a real server."""

from __future__ import annotations

import psycopg
import pytest
from bench.stage import Route
from bench.stream import Stream, read
from tests.support.postgres import PostgresServer


def test_it_counts_the_bytes_of_an_answer(postgres_server: PostgresServer) -> None:
    stream = Stream(postgres_server.dsn())
    # DataRow: tag, length, count of columns, length of the cell, the cell.
    few = stream.read_all("select repeat('x', 100) from generate_series(1, 10)")
    many = stream.read_all("select repeat('x', 100) from generate_series(1, 50010)")
    stream.close()
    assert many - few == 50_000 * (1 + 4 + 2 + 4 + 100) + len("50010") - len("10")


def test_copy_is_read_to_its_end(postgres_server: PostgresServer) -> None:
    stream = Stream(postgres_server.dsn())
    assert stream.read_all("copy (select 1 from generate_series(1, 1000)) to stdout") > 7 * 1000
    stream.close()


def test_the_binary_format_is_asked_for(postgres_server: PostgresServer) -> None:
    stream = Stream(postgres_server.dsn())
    few, many = (
        stream.read_all(f"select 2000000000 from generate_series(1, {rows})", binary=True) for rows in (10, 50_010)
    )
    stream.close()
    # An integer has four bytes there, and ten digits as a text.
    assert many - few == 50_000 * (1 + 4 + 2 + 4 + 4) + len("50010") - len("10")


def test_a_reading_of_the_direct_route_has_no_cost_of_a_proxy(postgres_server: PostgresServer) -> None:
    got = read(Route("direct", postgres_server.dsn(), None), "select repeat('x', 100) from generate_series(1, 1000)")
    assert got.size > 100_000
    assert got.cpu == 0


def test_a_failed_statement_is_no_figure(postgres_server: PostgresServer) -> None:
    stream = Stream(postgres_server.dsn())
    with pytest.raises(RuntimeError, match="the statement failed"):
        stream.read_all("select 1 / 0")
    stream.close()


@pytest.mark.usefixtures("postgres_server")  # for its skip where there is no server
def test_it_logs_in_by_scram() -> None:
    server = PostgresServer(hba=["host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"])
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute("create role ann login password 'right'")
        url = server.dsn().replace("postgres@", "ann:{}@")
        stream = Stream(url.format("right"))
        assert stream.read_all("select 1") > 0
        stream.close()
        with pytest.raises(RuntimeError, match="password authentication failed"):
            Stream(url.format("wrong"))
    finally:
        server.stop()
