"""Metrics: counted in each process, gathered over sockets, read as Prometheus reads them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from postern.metrics.exporter import gather, serve_metrics
from postern.metrics.meters import MOST_SERIES, Meters
from postern.metrics.metric_catalogue import METRICS
from postern.metrics.prometheus import text
from postern.wiring.metrics_wiring import gather_metrics

pytestmark = pytest.mark.ci

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md"


def read(content: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(content.decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def of(found: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


async def test_the_numbers_of_all_processes_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "spool" / "w1").mkdir(parents=True)
    (tmp_path / "spool" / "w1" / "x.000001.rec").write_bytes(b"x" * 1000)
    sealed = tmp_path / "sealed" / "2026" / "01" / "x.000001.rec.zst"
    sealed.parent.mkdir(parents=True)
    sealed.write_bytes(b"x" * 10)
    first, second = Meters(), Meters()
    first.count("postern_sessions_ended", "killed")
    first.count("postern_values_masked", "EMAIL", by=3)
    first.count("postern_values_masked", "EMAIL", by=4)
    first.sample("postern_sessions_open", lambda: 7)
    second.sample("postern_sessions_open", lambda: 2)
    for seconds in (0.0005, 0.001, 0.2, 60.0):
        first.observe("postern_store_seconds", seconds)
    servers = [await serve_metrics(first, tmp_path / "run", "w1"), await serve_metrics(second, tmp_path / "run", "w2")]
    found = read(await gather_metrics(tmp_path))
    assert of(found, "postern_sessions_ended_total", reason="killed", process="w1") == 1
    assert of(found, "postern_values_masked_total", info_type="EMAIL", process="w1") == 7
    assert of(found, "postern_sessions_open", process="w1") == 7
    assert of(found, "postern_sessions_open", process="w2") == 2
    assert of(found, "postern_process_up", process="w2") == 1
    assert of(found, "postern_spool_bytes") == 1000
    assert (of(found, "postern_sealed_bytes"), of(found, "postern_sealed_segments")) == (10, 1)
    assert of(found, "postern_home_free_bytes") > 0
    assert of(found, "postern_store_seconds_bucket", le="0.001", process="w1") == 2
    assert of(found, "postern_store_seconds_bucket", le="0.25", process="w1") == 3
    assert of(found, "postern_store_seconds_bucket", le="+Inf", process="w1") == 4
    assert of(found, "postern_store_seconds_count", process="w1") == 4
    assert of(found, "postern_store_seconds_sum", process="w1") == pytest.approx(60.2015)
    for server in servers:
        server.close()


async def test_a_process_that_hangs_or_died_is_down_and_holds_up_nobody(tmp_path: Path) -> None:
    async def hangs(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    hanging = await asyncio.start_unix_server(hangs, tmp_path / "metrics-w1.sock")
    dead = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"import socket; socket.socket(socket.AF_UNIX).bind({str(tmp_path / 'metrics-w2.sock')!r})",
    )
    await dead.wait()
    alive = await serve_metrics(Meters(), tmp_path, "w3")
    async with asyncio.timeout(50):
        assert await gather(tmp_path) == {"w1": None, "w2": None, "w3": {}}
        assert list(await gather(tmp_path)) == ["w1", "w3"]
    hanging.close()
    alive.close()


async def test_first_failure_is_an_increase(tmp_path: Path) -> None:
    """Prometheus sees none from no series to one with the value 1."""
    (tmp_path / "run").mkdir()
    server = await serve_metrics(Meters(), tmp_path / "run", "w1")
    found = read(await gather_metrics(tmp_path))
    assert of(found, "postern_recordings_failed_total", process="w1") == 0
    server.close()


async def test_attack_53_the_socket_is_its_owners_alone(tmp_path: Path) -> None:
    server = await serve_metrics(Meters(), tmp_path, "w1")
    assert stat.S_IMODE(os.stat(tmp_path / "metrics-w1.sock").st_mode) == 0o600
    server.close()


def test_the_number_of_series_is_bounded() -> None:
    meters = Meters()
    for number in range(MOST_SERIES * 2):
        meters.count("postern_values_masked", f"T{number}")
    series: list[Any] = meters.snapshot()["postern_values_masked"]
    assert len(series) == MOST_SERIES + 1
    assert [["other"], MOST_SERIES] in series


def test_attack_38_a_label_cannot_begin_another_line() -> None:
    meters = Meters()
    meters.count("postern_values_masked", 'x"} 1\npostern_sessions_open 99\n')
    found = read(text({"w1": meters.snapshot()}, {}))
    assert ("postern_sessions_open", frozenset()) not in found
    assert len([name for name, _ in found if name == "postern_values_masked_total"]) == 1


def test_no_label_is_a_name_that_people_choose() -> None:
    known = {"verb", "reason", "info_type", "from", "method", "route", "status", "task", "kind", "outcome", "version"}
    known |= {"action"}
    assert {label for metric in METRICS.values() for label in metric.labels} <= known


def test_processes_that_nobody_asks_import_nothing_for_it() -> None:
    """Start-up time and memory stay."""
    code = (
        "import sys, postern.wiring.processes.worker_process, postern.wiring.processes.api_process;"
        "print([m for m in sys.modules if 'prometheus' in m])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_metric_is_documented() -> None:
    named = set(re.findall(r"`((?:postern|process)_[a-z_]+)`", PAGE.read_text()))
    assert {name + ("_total" if metric.kind == "counter" else "") for name, metric in METRICS.items()} <= named


def test_no_metric_is_documented_that_does_not_exist() -> None:
    named = set(re.findall(r"`((?:postern|process)_[a-z_]+)`", PAGE.read_text()))
    assert named <= {name + ("_total" if metric.kind == "counter" else "") for name, metric in METRICS.items()}


def test_names_are_as_prometheus_wants_them() -> None:
    for name, metric in METRICS.items():
        assert not name.endswith("_total"), "the library adds it"
        assert not re.search(r"_(ms|milliseconds|kb|mb|minutes)$", name), "base units"
        assert metric.kind != "histogram" or name.endswith("_seconds")
        assert metric.help.endswith("."), name


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_itself_takes_the_metrics() -> None:
    meters = Meters()
    for name, metric in METRICS.items():
        labels = ["x"] * len(metric.labels)
        (meters.observe(name, 0.1, *labels) if metric.kind == "histogram" else meters.count(name, *labels))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text({"w1": meters.snapshot()}, {}), capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
