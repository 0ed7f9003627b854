"""A gateway on an address that does not count as loopback (127.0.0.2), with two workers and JSON logs."""

from __future__ import annotations

import json
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

from postern.demo import demo_target

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--host", "127.0.0.2", "--workers", "2", "--log-format", "json") as made:
        yield made


def uri(gateway: Gateway) -> str:
    return shlex.split(gateway.told["psql"])[1]


def test_the_api_is_https_and_the_command_line_trusts_its_ca(gateway: Gateway) -> None:
    assert gateway.told["api_url"].startswith("https://127.0.0.2:")
    assert gateway.run("connections").returncode == 0


def test_another_machine_needs_the_ca(gateway: Gateway, tmp_path: Path) -> None:
    elsewhere = Gateway(gateway.folder)
    elsewhere.environment = {**gateway.environment, "XDG_CONFIG_HOME": str(tmp_path)}
    login = ["login", gateway.told["api_url"], "--email", gateway.told["admin_email"], "--password-stdin"]
    password = gateway.told["admin_password"]
    refused = elsewhere.run(*login, stdin=password)
    assert refused.returncode == 6
    assert "postern login --ca FILE" in refused.stderr
    trusting = elsewhere.run(*login, "--ca", str(gateway.home / "tls" / "ca.crt"), stdin=password)
    assert trusting.returncode == 0, trusting.stderr
    assert elsewhere.run("connections").returncode == 0


def test_clients_must_use_tls(gateway: Gateway) -> None:
    with psycopg.connect(uri(gateway)) as connection:
        assert connection.execute("select count(*) from customers").fetchone() == (500,)
        assert connection.pgconn.ssl_in_use
    with pytest.raises(psycopg.OperationalError, match="only TLS connections"):
        psycopg.connect(uri(gateway).replace("sslmode=verify-full", "sslmode=disable"))


def test_every_line_of_the_log_is_json(gateway: Gateway) -> None:
    lines = [json.loads(line) for line in gateway.log.split("\n")[:-1]]  # the last one may not be whole yet
    assert {"supervisor", "demo", "prepare"} <= {line["process"] for line in lines}
    assert all(line["event"] and line["timestamp"] and line["level"] for line in lines)


def test_nothing_outlives_a_killed_supervisor(gateway: Gateway) -> None:
    """Last: it ends the gateway of this module."""
    at = demo_target.load(gateway.home)
    api, postgres = urlsplit(gateway.told["api_url"]), urlsplit(uri(gateway))
    ports = [("127.0.0.2", api.port), ("127.0.0.2", postgres.port), (at.host, at.port)]
    assert all(taken(host, port or 0) for host, port in ports)
    gateway.stop(signal.SIGKILL)
    wait_until(lambda: not any(taken(host, port or 0) for host, port in ports), 60)
    gateway.start()
    assert gateway.run("sessions").returncode == 0


def taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
