"""A restore drill: a gateway is backed up while a client works, destroyed, and restored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from tests.support.accounts import Account, ok, reach, signed_in
from tests.support.agents import url_of
from tests.support.clients import psql
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started
from tests.support.witnesses import Seen, Witness, at_work

pytestmark = [pytest.mark.ci, pytest.mark.slow]

ENGINES = [("sqlite", "sqlite"), ("postgres", "postgres"), ("sqlite", "postgres"), ("postgres", "sqlite")]


@contextmanager
def empty_store(engine: str, target: PostgresServer) -> Iterator[str]:
    if engine == "sqlite":
        yield ""
        return
    name = f"t{uuid4().hex}"
    with psycopg.connect(target.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name}")
    yield target.dsn(name, scheme="postgresql+asyncpg")
    with psycopg.connect(target.dsn(), autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def stored(gateway: Gateway) -> bool:
    return not list(gateway.home.glob("sealed/*/*/*.zst"))


@pytest.mark.parametrize(("engine", "engine_after"), ENGINES)
def test_destroyed_gateway_is_restored_from_a_backup_taken_while_it_ran(
    engine: str, engine_after: str, target: PostgresServer, tmp_path: Path
) -> None:
    backup, keys = tmp_path / "gateway.tar", tmp_path / "master.key"
    with empty_store(engine, target) as store, empty_store(engine_after, target) as store_after:
        settings = {"DATABASE_URL": store} if store else {}
        with started("--no-demo", again=True, **settings) as gateway:
            reach(gateway, "target", target.port)
            api = signed_in(gateway)
            url = url_of(gateway, "target")
            assert psql(url, "-c", "select 'before the backup'").returncode == 0
            wait_until(lambda: stored(gateway) and list(gateway.home.glob("recordings/**/*.zst")), 60)
            with psycopg.connect(url, autocommit=True) as client:
                for number in range(200):  # enough for a mapped end of the spool
                    client.execute(f"select 'running {number}'")
                done = ok(gateway, "backup", str(backup), "--keys", str(keys), "--json")
                assert json.loads(done)["unstored"] >= 1
                client.execute("select 'after the backup'")
            gateway.stop()
            ca = (gateway.home / "tls" / "ca.crt").read_bytes()

            shutil.rmtree(gateway.home)
            gateway.environment["POSTERN_DATABASE_URL"] = store_after
            restored = ok(gateway, "restore", str(backup), "--home", str(gateway.home), "--keys", str(keys), "--json")
            assert json.loads(restored)["needs_key"] == ""
            gateway.start()

            assert (gateway.home / "tls" / "ca.crt").read_bytes() == ca
            account = Account(gateway, api, tmp_path)
            account.settle()
            first, second = sorted(account.sessions, key=lambda session: session["start_date"])
            assert second["metadata"]["end_reason"] == "gateway_crashed"
            assert "before the backup" in ok(gateway, "sessions", "show", first["id"], "--output")
            shown = ok(gateway, "sessions", "show", second["id"], "--output")
            assert "running 199" in shown
            assert "after the backup" not in shown
            assert account.check_proof()["segments_proven"] >= 2
            ok(gateway, "recordings", "verify")
            # The credential of before still works.
            assert psql(url, "-c", "select 'after the restore'").returncode == 0
            assert [line for line in gateway.log.splitlines() if "Traceback" in line] == []


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_backup_under_load_has_all_that_was_shown_before_it_began(
    engine: str, target: PostgresServer, tmp_path: Path
) -> None:
    """Segments are small, so that they are sealed and stored during each backup."""
    folder, keys = tmp_path / "backups", tmp_path / "master.key"
    folder.mkdir()
    settings = {"RECORDING_SEGMENT_SIZE": "30000", "RECORDING_OUTPUT_LIMIT": str(1 << 30), "WORKERS": "2"}
    shown: dict[str, list[Seen]] = {}
    with empty_store(engine, target) as store, started("--no-demo", again=True, **settings) as gateway:
        gateway.stop()
        shutil.rmtree(gateway.home)
        gateway.environment["POSTERN_DATABASE_URL"] = store
        gateway.start()
        reach(gateway, "target", target.port)
        api = signed_in(gateway)
        sizes = (200, 2000, 10_000, 50_000)
        members = [Witness(n, url_of(gateway, "target"), sizes[n]) for n in range(4)]
        with at_work(*members) as crowd:
            for number in range(3):
                crowd.recovered(60)
                seen = [Seen(one.name, list(one.shown), list(one.asked)) for one in crowd.seen]
                place = folder if number else folder / "first.tar"
                done = ok(gateway, "backup", str(place), "--json", *(("--keys", str(keys)) if not number else ()))
                shown[json.loads(done)["path"]] = seen
                assert json.loads(done)["missing"] == []
        gateway.stop()
        gateway.environment |= {"POSTERN_DATABASE_URL": "", "POSTERN_WORKERS": "1"}
        for path, seen in shown.items():
            shutil.rmtree(gateway.home)
            ok(gateway, "restore", path, "--home", str(gateway.home), "--keys", str(keys))
            gateway.start()
            account = Account(gateway, api, tmp_path)
            account.settle()
            assert account.check_shown(seen) > 0
            account.check_ends()
            account.check_proof()
            assert "cannot be stored" not in gateway.log
            gateway.stop()
