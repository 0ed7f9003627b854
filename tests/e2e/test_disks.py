"""A whole gateway on a small disk that fills up during sessions, or becomes read-only, and recovers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.support.accounts import Account, left_over, ok, reach, signed_in
from tests.support.agents import url_of
from tests.support.disks import MIB, Disk, started_on_disk
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.support.witnesses import Witness, at_work

SIZE = 96 * MIB


SETTINGS: dict[str, Any] = {
    "RECORDING_LEAST_FREE": "0",
    "RECORDING_SEGMENT_SIZE": "300000",
    "RECORDING_OUTPUT_LIMIT": str(1 << 40),
}


@pytest.fixture
def small(target: PostgresServer) -> Iterator[tuple[Gateway, Disk]]:
    """A gateway whose data folder is on it. It has no reserve: the disk itself says that it is full."""
    with started_on_disk(SIZE, "--no-demo", **SETTINGS) as (gateway, disk):
        reach(gateway, "target", target.port)
        yield gateway, disk
        disk.empty()


@pytest.fixture
def apart(target: PostgresServer) -> Iterator[tuple[Gateway, Disk]]:
    """A gateway whose spools alone are on it: nothing else is in the way of making it read-only."""
    with started_on_disk(SIZE, "--no-demo", below="spool", **SETTINGS) as (gateway, disk):
        reach(gateway, "target", target.port)
        yield gateway, disk


def refusal(url: str) -> str:
    try:
        psycopg.connect(url, connect_timeout=60).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def children(gateway: Gateway) -> list[int]:
    return [pid for word in ("worker", "archiver", "api") for pid in gateway.processes(word)]


def account_for(gateway: Gateway, api: httpx.Client, witness: Witness, folder: Path) -> None:
    account = Account(gateway, api, folder)
    account.settle()
    assert account.check_shown(witness.seen) > 10_000
    account.check_ends()
    account.check_proof()
    ok(gateway, "recordings", "verify")
    assert "never retrieved" not in gateway.log


@pytest.mark.slow
def test_disk_that_fills_up_ends_sessions_with_the_reason_and_recovers_without_restart(
    small: tuple[Gateway, Disk], tmp_path: Path
) -> None:
    """New sessions are refused with the same reason until there is room."""
    gateway, disk = small
    api = signed_in(gateway)
    witness, running = Witness(1, url_of(gateway, "target"), 20_000), children(gateway)
    with at_work(witness) as crowd:
        disk.fill()
        wait_until(lambda: any(one.error for one in witness.seen), 60)
        told = wait_until(lambda: refusal(witness.url), 60)
        time.sleep(2)
        disk.empty()
        crowd.recovered(60)
    inside = [one.error for one in witness.seen if one.error]
    assert any("the gateway cannot record this session" in error for error in inside), inside
    assert "store" in told or "record" in told, told
    assert children(gateway) == running
    account_for(gateway, api, witness, tmp_path)


@pytest.mark.slow
def test_read_only_disk_recovers_without_restart(apart: tuple[Gateway, Disk], tmp_path: Path) -> None:
    gateway, disk = apart
    api = signed_in(gateway)
    witness, running = Witness(1, url_of(gateway, "target"), 20_000), children(gateway)
    with at_work(witness):
        time.sleep(1)
    wait_until(lambda: not left_over(gateway), 60)
    disk.read_only(True)
    assert "cannot be created: Read-only file system" in refusal(witness.url)
    disk.read_only(False)
    with at_work(witness):
        time.sleep(1)
    assert children(gateway) == running
    account_for(gateway, api, witness, tmp_path)
