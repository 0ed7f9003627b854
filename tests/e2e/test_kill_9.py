"""`kill -9` of every process of a whole gateway at random moments, while clients note each byte that they are shown."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from tests.support.accounts import Account, ok, reach, signed_in
from tests.support.agents import url_of
from tests.support.postgres import PostgresServer
from tests.support.processes import descendants, words
from tests.support.promises import wait_until
from tests.support.running import Gateway, started
from tests.support.witnesses import Crowd, Runner, Witness, at_work

VICTIMS = ("worker", "archiver", "api", "gateway")
# Small segments, so that many are sealed and stored; a checkpoint soon.
SETTINGS = {
    "RECORDING_SEGMENT_SIZE": "30000",
    "RECORDING_OUTPUT_LIMIT": str(1 << 30),
    "CHECKPOINT_INTERVAL": "5",
    "WORKERS": "2",
}


def kill_one(gateway: Gateway, word: str, chance: random.Random) -> None:
    wait_until(lambda: gateway.processes(word), 60)
    with suppress(ProcessLookupError):
        os.kill(chance.choice(gateway.processes(word)), signal.SIGKILL)


def kill_all(gateway: Gateway) -> None:
    """The supervisor and its children at once; and starts it again."""
    assert gateway.process is not None
    pids = [gateway.process.pid, *descendants(gateway.process.pid)]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gateway.process.wait(60)
    wait_until(lambda: not any(words(pid)[0] for pid in pids if words(pid)), 60)
    gateway.start()


def kill(gateway: Gateway, crowd: Crowd, kills: int) -> None:
    chance = random.Random(kills)
    for number in range(kills):
        time.sleep(chance.uniform(0, 0.4))
        victim = VICTIMS[number % len(VICTIMS)]
        if victim == "gateway":
            kill_all(gateway)
        else:
            kill_one(gateway, victim, chance)
        if victim != "archiver":
            crowd.recovered(120)


def store_of(engine: str, target: PostgresServer) -> dict[str, str]:
    if engine == "sqlite":
        return {}
    with psycopg.connect(target.dsn(), autocommit=True) as admin:
        admin.execute("drop database if exists killed_store with (force)")
        admin.execute("create database killed_store")
    return {"DATABASE_URL": target.dsn("killed_store", scheme="postgresql+asyncpg")}


def kill_and_account(engine: str, target: PostgresServer, folder: Path, kills: int, witnesses: int) -> None:
    began = time.monotonic()
    with started("--no-demo", again=True, **SETTINGS, **store_of(engine, target)) as gateway:
        reach(gateway, "target", target.port)
        api = signed_in(gateway)
        sizes = (200, 2000, 10_000, 50_000)
        members = [Witness(n, url_of(gateway, "target"), sizes[n % len(sizes)]) for n in range(witnesses)]
        with at_work(*members, Runner(api, "target")) as crowd:
            kill(gateway, crowd, kills)
        ended = time.monotonic()
        account = Account(gateway, api, folder)
        account.settle()
        size = account.check_shown(crowd.seen)
        account.check_ends()
        report = account.check_proof()
        account.check_reports()
        cut = [one for one in crowd.seen if one.error]
        account.check_search(cut[:: max(1, len(cut) // 50)])
        print(
            f"{engine}: {kills} kills in {ended - began:.0f} s, {len(account.sessions)} sessions of which "
            f"{len(cut)} were cut off, {size >> 10} KiB shown, {report['segments_proven']} segments; "
            f"accounted for in {time.monotonic() - ended:.0f} s"
        )
        assert len(cut) > kills // 4
        assert [line for line in gateway.log.splitlines() if "Traceback" in line] == []
        ok(gateway, "recordings", "verify")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_killed_gateway_loses_no_output_that_clients_received(
    engine: str, target: PostgresServer, tmp_path: Path
) -> None:
    kill_and_account(engine, target, tmp_path, kills=4, witnesses=4)


@pytest.mark.huge
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_gateway_killed_200_times_loses_no_output_that_clients_received(
    engine: str, target: PostgresServer, tmp_path: Path
) -> None:
    kill_and_account(engine, target, tmp_path, kills=200, witnesses=4)
