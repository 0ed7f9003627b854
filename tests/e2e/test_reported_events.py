"""A whole gateway reports what happened: reports, metrics, search and a sink, while archiver and API are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.promises import wait_until
from tests.support.running import Gateway, started
from tests.support.syslog import Syslog

PASSWORD = "another long password"
TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with started("--sink-networks", "127.0.0.1", METRICS_TOKEN=TOKEN) as made:
        link = made.told["setup_url"]
        assert made.run("setup", link, "--password-stdin", stdin=f"{PASSWORD}\n").returncode == 0
        yield made


def events(listener: Syslog) -> list[dict[str, object]]:
    return [json.loads(message[message.index(b"{") :]) for message in list(listener.messages)]


@pytest.mark.slow
def test_events_appear_in_reports_metrics_search_and_a_sink_despite_kills(gateway: Gateway) -> None:
    listener = Syslog()
    listener.start()
    api = httpx.Client(base_url=f"{gateway.told['api_url']}/api")
    login = api.post("/localauth/login", json={"email": "admin@localhost", "password": PASSWORD})
    api.headers["Authorization"] = f"Bearer {login.headers['token']}"
    sink = {"name": "siem", "kind": "syslog", "address": f"syslog+tcp://127.0.0.1:{listener.port}"}
    kinds = ["session.open", "session.close", "audit.entry"]
    assert api.post("/sinks", json={**sink, "events": kinds}).status_code == 201

    ids = [_run(gateway, 1)]

    def ended() -> set[str]:
        told = [one for one in events(listener) if one["type"] == "session.close"]
        return {str(one["data"]["session_id"]) for one in told}  # type: ignore[index]

    def searched() -> set[str]:
        return {str(one["id"]) for one in api.get("/sessions", params={"search": "asked"}).json()["data"]}

    def counted() -> dict[str, int]:
        found: dict[str, int] = api.get("/reports/activity", params={"by": "hour"}).json()["total"]
        return found

    wait_until(lambda: ended() == searched() == set(ids))
    (archiver,) = gateway.processes("archiver")
    os.kill(archiver, signal.SIGSTOP)
    ids.append(_run(gateway, 2))
    (api_pid,) = gateway.processes("api")
    os.kill(api_pid, signal.SIGKILL)
    wait_until(lambda: _is_up(api))  # also without the archiver
    ids.append(_run(gateway, 3))
    time.sleep(3)
    assert ended() == searched() == set(ids[:1])
    assert counted()["sessions"] == 1
    os.kill(archiver, signal.SIGKILL)

    # Half a minute of it until the leases of the killed one are over.
    wait_until(lambda: ended() == searched() == set(ids), 180)
    assert any(one["type"] == "audit.entry" for one in events(listener))
    wait_until(lambda: counted()["sessions"] == 3)
    assert counted()["operations"] == 3

    def measured() -> dict[tuple[str, str | None], float]:
        return {
            (sample.name, sample.labels.get("process")): sample.value
            for family in text_string_to_metric_families(api.get("/metrics").text)
            for sample in family.samples
            if "le" not in sample.labels
        }

    # What a process counts is known to the others a moment later.
    wait_until(lambda: measured().get(("postern_target_open_seconds_count", "w1")) == 3)
    wait_until(lambda: all(measured().get(("postern_process_up", one)) == 1 for one in ("w1", "api", "archiver")))
    wait_until(lambda: measured().get(("postern_upkeep_seconds_count", "archiver"), 0) > 0)
    wait_until(lambda: measured()["postern_sealed_segments", None] == 0)
    found = measured()
    for process in ("w1", "api", "archiver"):
        assert found["postern_process_up", process] == 1
        assert found["postern_store_seconds_count", process] > 0
        assert found["postern_event_loop_lag_seconds_count", process] > 0
    assert found["postern_operations_total", "w1"] == 3
    assert found["postern_upkeep_seconds_count", "archiver"] > 0
    assert found["postern_archiver_silence_seconds", None] < 60
    assert found["postern_sealed_segments", None] == 0
    assert found["postern_home_free_bytes", None] > 0
    assert found["postern_process_up", "archiver"] == found["postern_store_up", None] == 1
    assert found["process_open_fds", "w1"] > 3
    assert found["process_resident_memory_bytes", "archiver"] > 1_000_000
    assert found["postern_ledger_lag_seconds", None] < 60
    assert found["postern_sinks_failing", None] == 0
    assert found["postern_store_connections_max", "api"] > 0
    assert found["postern_target_open_seconds_count", "w1"] == 3
    wait_until(lambda: "postern_segments_stored_total" in api.get("/metrics").text)
    wait_until(lambda: 'postern_sink_deliveries_total{kind="syslog",outcome="delivered"' in api.get("/metrics").text)
    scraped = httpx.get(f"{gateway.told['api_url']}/api/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert (scraped.status_code, "postern_blob_store_up" in scraped.text) == (200, True)
    listener.socket.close()


def _run(gateway: Gateway, number: int) -> str:
    done = gateway.run("exec", "shop-demo", "--json", "-i", f"select {number} as asked")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["session_id"])


def _is_up(api: httpx.Client) -> bool:
    try:
        return api.get("/readyz").status_code == 200
    except httpx.HTTPError:
        return False
