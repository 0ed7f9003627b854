"""Two gateways with one store, started by mistake: the second is rejected and changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, target: PostgresServer) -> Iterator[str]:
    """An empty store that two data folders share."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared' / 'postern.db'}"
        return
    name = f"t{uuid4().hex}"
    with psycopg.connect(target.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}")
    yield target.dsn(name)
    with psycopg.connect(target.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def second(store: str, first: Gateway, folder: Path) -> Gateway:
    """Another data folder with the same store and the same master key, as a copied configuration has it."""
    made = Gateway(folder, ("--no-demo",))
    made.environment |= {"POSTERN_DATABASE_URL": store}
    key = made.home / "keys" / "encryption.key"
    key.parent.mkdir(parents=True, mode=0o700)
    key.write_bytes((first.home / "keys" / "encryption.key").read_bytes())
    key.chmod(0o600)
    return made


def ok(gateway: Gateway, *arguments: str) -> str:
    done = gateway.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def psql_url(gateway: Gateway, target: PostgresServer) -> str:
    place = ["HOST=127.0.0.1", f"PORT={target.port}", "USER=postgres", "DB=postgres"]
    ok(gateway, "connections", "create", "orders", "--subtype", "postgres", *(f"--env={one}" for one in place))
    line: str = json.loads(ok(gateway, "connect", "orders", "--native", "--json"))["psql"]
    return line.removeprefix("psql ").strip('"')


def refused(gateway: Gateway) -> str:
    with pytest.raises(RuntimeError) as failed:
        gateway.start()
    return str(failed.value)


def test_second_gateway_of_a_store_is_rejected_and_the_first_keeps_its_sessions(
    store: str, target: PostgresServer, tmp_path: Path
) -> None:
    with started("--no-demo", again=True, DATABASE_URL=store) as first, ExitStack() as stack:
        other = second(store, first, tmp_path / "g")
        stack.callback(other.remove)
        with psycopg.connect(psql_url(first, target), autocommit=True) as client:
            client.execute("select 1")
            said = refused(other)
            assert f"data folder {first.home.resolve()}" in said
            assert "another gateway uses this store" in said
            assert "one gateway for each store" in said
            assert client.execute("select 2").fetchone() == (2,)
            [running] = first.sessions("--status", "open")
            assert running["end_date"] is None
            killed = first.run("sessions", "kill", running["id"])
            assert (killed.returncode, killed.stdout) == (0, f"Ended session {running['id']}.\n")
            with pytest.raises(psycopg.Error):
                client.execute("select 3")
        # The same data folder comes back at once, also after a crash.
        first.stop(by=signal.SIGKILL)
        first.start()
        assert "another gateway uses this store" in refused(other)
        # An orderly stop frees the store at once.
        assert first.stop() == 0
        other.start()
        assert "another gateway uses this store" in refused(first)


def test_one_of_two_gateways_that_start_at_the_same_time_serves(store: str, tmp_path: Path) -> None:
    with started("--no-demo", DATABASE_URL=store) as first, ExitStack() as stack:
        other = second(store, first, tmp_path / "g")
        stack.callback(other.remove)
        assert first.stop() == 0
        processes = [begun(gateway) for gateway in (first, other)]
        wait_until(lambda: any(process.poll() is not None for process in processes), 200)
        serving = [gateway for gateway in (first, other) if gateway.process and gateway.process.poll() is None]
        assert len(serving) == 1
        wait_until(lambda: "Postern is up" in (serving[0].folder / "printed").read_text(), 200)
        said = "".join(gateway.log for gateway in (first, other))
        assert "another gateway uses this store" in said


def begun(gateway: Gateway) -> subprocess.Popen[str]:
    """Starts it, and waits for nothing."""
    with (gateway.folder / "printed").open("w") as output, (gateway.folder / "log").open("a") as log:
        gateway.process = subprocess.Popen(
            [sys.executable, "-m", "postern", "up", *gateway.flags],
            env=gateway.environment,
            stdout=output,
            stderr=log,
            text=True,
        )
    return gateway.process
