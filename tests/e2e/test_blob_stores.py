"""A whole gateway whose blob store rejects, is full, hangs, is slow or returns wrong bytes; on a disk that fills."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.accounts import Account, ok, reach, signed_in
from tests.support.agents import url_of
from tests.support.disks import MIB, Disk, started_on_disk
from tests.support.misbehaving import Misbehaving, misbehaving
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.support.witnesses import Witness, at_work

SIZE, LEAST = 120 * MIB, 50 * MIB
RANDOM = "select string_agg(md5(random()::text || n), '') from generate_series(1, 30000) n"  # a MB, hardly compressible


@pytest.fixture(scope="module")
def store() -> Iterator[Misbehaving]:
    with misbehaving() as made:
        yield made


@pytest.fixture
def away(store: Misbehaving, target: PostgresServer) -> Iterator[tuple[Gateway, Disk]]:
    """A gateway that stores there."""
    store.mode = "well"
    settings: dict[str, Any] = {
        "RECORDINGS_URL": store.url,
        "RECORDING_LEAST_FREE": str(LEAST),
        "RECORDING_SEGMENT_SIZE": str(MIB),
        "RECORDING_OUTPUT_LIMIT": str(1 << 40),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        with started_on_disk(SIZE, "--no-demo", **settings) as (gateway, disk):
            reach(gateway, "target", target.port)
            try:
                yield gateway, disk
            finally:
                store.mode = "well"


def sealed(gateway: Gateway) -> list[Path]:
    return list(gateway.home.glob("sealed/*/*/*.rec.zst"))


def refusal(url: str) -> str:
    """What a new client is told; empty when it is let in."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def fill(url: str, until: Disk, least: int) -> None:
    """By one session that is shown much; it may be ended for that."""
    with psycopg.connect(url, autocommit=True) as client:
        while until.free > least:
            client.execute(RANDOM)


def metrics(api: httpx.Client) -> dict[str, float]:
    found = text_string_to_metric_families(api.get("/metrics").text)
    return {one.name: one.value for family in found for one in family.samples if not one.labels}


def doctor(gateway: Gateway) -> dict[str, dict[str, Any]]:
    done = gateway.run("doctor", "--gateway", "--json")
    return {one["check"]: one for one in json.loads(done.stdout)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", ["refusing", "full", *(pytest.param(mode, marks=pytest.mark.huge) for mode in ("hanging", "slow"))]
)
def test_sessions_continue_during_a_blob_store_outage_and_no_recording_is_lost(
    mode: str, away: tuple[Gateway, Disk], store: Misbehaving, tmp_path: Path
) -> None:
    gateway, disk = away
    api = signed_in(gateway)
    witness, other = (Witness(number, url_of(gateway, "target"), 20_000) for number in (1, 2))
    with at_work(witness):
        time.sleep(0.5)
    wait_until(lambda: not sealed(gateway), 60)
    store.mode = mode
    with at_work(other) as crowd:
        fill(witness.url, disk, LEAST + 10 * MIB)
        crowd.recovered(60)  # they go on
        wait_until(lambda: len(sealed(gateway)) >= 5 and metrics(api)["postern_sealed_segments"] >= 5)
        told = metrics(api)
        found = doctor(gateway) if mode in ("refusing", "full") else {}  # it waits for answers for most of a minute
        disk.fill(LEAST - 5 * MIB)
        wait_until(lambda: "MiB left" in refusal(witness.url), 60)
        wait_until(lambda: api.get("/readyz").status_code == 503)
    assert told["postern_sealed_segments"] >= 5
    assert told["postern_sealed_bytes"] > MIB
    if mode in ("refusing", "full"):  # the others are known after minutes
        assert found["archiver"]["state"] == "warning"
        assert "s3://recordings/kept" in found["archiver"]["what"]
    if mode == "refusing":
        assert found["blob store"]["state"] == "wrong"
    store.mode = "well"
    wait_until(lambda: not sealed(gateway), 120)
    disk.empty()
    wait_until(lambda: not refusal(witness.url), 60)
    account = Account(gateway, api, tmp_path)
    account.settle()
    assert account.check_shown([*witness.seen, *other.seen]) > 100_000
    account.check_ends()
    report = account.check_proof()
    assert len(store.storage.keys()) == len(set(store.storage.keys())) >= report["segments_proven"]
    ok(gateway, "recordings", "verify")
    if mode in ("refusing", "full"):
        assert gateway.log.count("recordings cannot be stored; they stay on this machine's disk") == 1
        assert "recordings can be stored again" in gateway.log
    assert "Traceback" not in gateway.log


@pytest.mark.slow
def test_wrong_bytes_of_the_blob_store_are_shown_as_gaps(
    away: tuple[Gateway, Disk], store: Misbehaving, tmp_path: Path
) -> None:
    gateway, _ = away
    api = signed_in(gateway)
    witness = Witness(1, url_of(gateway, "target"), 100_000)
    before = set(store.storage.keys())  # the store is shared by the tests of this file
    with at_work(witness):  # until a session has several segments
        wait_until(lambda: any("/000003." in key for key in set(store.storage.keys()) - before), 120)
    account = Account(gateway, api, tmp_path)
    account.settle()
    account.check_proof()
    session = account.by_name[witness.seen[0].name]["id"]
    key, export = tmp_path / "ledger.pem", tmp_path / "lied.tar"
    store.mode = "lying"
    assert b"[note] segment 2 of the recording cannot be read further" in account.text(session)
    assert "cannot be read further" in ok(gateway, "sessions", "show", session)
    ok(gateway, "recordings", "export", "-o", str(export))
    report = json.loads(gateway.run("sessions", "verify", str(export), "--key", str(key), "--json").stdout)
    assert not report["good"]
    assert session in {one["session"] for one in report["findings"]}
    assert gateway.run("recordings", "verify").returncode == 1
    store.mode = "well"
    account.check_shown(witness.seen)
    account.check_proof()
    ok(gateway, "recordings", "verify")
