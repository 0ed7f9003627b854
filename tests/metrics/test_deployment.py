"""The Grafana dashboard and the alert rules are about metrics that a running gateway has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.accounts import reach
from tests.support.agents import url_of
from tests.support.clients import need
from tests.support.postgres import PostgresServer, free_port
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

from postern.metrics.metric_catalogue import METRICS

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "postern.json"
PAGE = ROOT / "docs" / "how-to" / "monitor.md"
_TOKEN = "a-token-that-reads-metrics-only"
# Labels that Prometheus adds, and `process`, which all metrics of a process have.
_ADDED = {"instance", "job", "process", "le"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """All of the dashboard and of the alerts."""
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return shown + [rule["expr"] for rule in rules()]


def sample_names() -> dict[str, set[str]]:
    """Names of samples by the catalogue, with the labels of each."""
    ends = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    return {name + end: set(metric.labels) | _ADDED for name, metric in METRICS.items() for end in ends[metric.kind]}


def used_names(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:postern|process)_[a-z_]+", re.sub(r"\bby \([^)]*\)|\{[^}]*\}", "", expression)))


def test_expressions_use_metrics_that_exist_and_labels_that_these_have() -> None:
    known = sample_names()
    for expression in expressions():
        names = used_names(expression) - {"process"}
        assert names or expression.startswith("up{"), expression
        assert names <= set(known), expression
        labels = set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression))
        labels |= {label for text in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", text)}
        assert labels <= set().union(_ADDED, *(known[name] for name in names)), expression
        for metric in re.findall(r"(?:rate|increase)\((\w+)", expression):
            assert metric.endswith(("_total", "_bucket")), f"{expression}: a rate of what is no counter"


def test_legends_name_labels_of_their_expression() -> None:
    for panel in panels():
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                assert label in target["expr"], (panel["title"], label)


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert max(columns) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_alert_leads_to_what_to_do() -> None:
    headings = re.findall(r"^### (Postern\w+)$", PAGE.read_text(), re.MULTILINE)
    assert sorted(rule["alert"] for rule in rules()) == sorted(headings)
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"docs/how-to/monitor.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")


@pytest.mark.ci
def test_promtool_accepts_the_alerts_and_their_unit_tests_pass(tmp_path: Path) -> None:
    shutil.copy(ALERTS, tmp_path)
    shutil.copy(Path(__file__).with_name("alerts_test.yaml"), tmp_path)
    tested = set(re.findall(r"alertname: (\w+)", (tmp_path / "alerts_test.yaml").read_text()))
    assert tested == {rule["alert"] for rule in rules()}
    for arguments in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        command = [need("promtool", "prometheus"), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def prometheus(gateway: Gateway, folder: Path) -> Iterator[httpx.Client]:
    """A server that scrapes the gateway with the alerts; its API."""
    (folder / "token").write_text(_TOKEN)
    shutil.copy(ALERTS, folder)
    api = httpx.URL(gateway.told["api_url"])
    job = {
        "job_name": "postern",
        "metrics_path": "/api/metrics",
        "authorization": {"credentials_file": str(folder / "token")},
        "static_configs": [{"targets": [f"{api.host}:{api.port}"]}],
    }
    configuration = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["alerts.yaml"]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration | {"scrape_configs": [job]}))
    port = free_port()
    command = [need("prometheus", "prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            wait_until(lambda: is_ready(client), 60)
            yield client
    finally:
        server.terminate()
        server.wait(60)


def is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").is_success
    except httpx.TransportError:
        return False


def value_of(client: httpx.Client, expression: str) -> list[Any]:
    answer = client.get("/api/v1/query", params={"query": expression})
    assert answer.is_success, f"{expression}: {answer.text}"
    return list(answer.json()["data"]["result"])


@pytest.mark.ci
@pytest.mark.slow
def test_prometheus_evaluates_everything_on_a_running_gateway(tmp_path: Path, postgres_server: PostgresServer) -> None:
    with started("--no-demo", METRICS_TOKEN=_TOKEN) as gateway:
        reach(gateway, "target", postgres_server.port)
        with psycopg.connect(url_of(gateway, "target"), autocommit=True) as client:
            client.execute("select 1")
        answer = httpx.get(f"{gateway.told['api_url']}/api/metrics", headers={"Authorization": f"Bearer {_TOKEN}"})
        names = {family.name for family in text_string_to_metric_families(answer.text)}
        assert names == set(METRICS)
        with prometheus(gateway, tmp_path) as api:
            wait_until(lambda: value_of(api, "count_over_time(up[1m]) > 4"), 60)
            shown = dict[str, list[Any]]()
            for panel in panels():
                for target in panel["targets"]:
                    expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "5m")
                    shown[expression] = value_of(api, expression)
            assert shown['min(postern_store_up{instance=~".*"})'][0]["value"][1] == "1"
            assert [one for one, found in shown.items() if "opened" in one and found]
            # Of one quiet gateway, most panels have something to show.
            assert sum(bool(found) for found in shown.values()) > len(shown) / 2
            wait_until(lambda: all(one["health"] == "ok" for one in evaluated(api)), 60)
            assert {one["name"] for one in evaluated(api)} == {rule["alert"] for rule in rules()}
            firing = {one["name"] for one in evaluated(api) if one["state"] == "firing"}
            assert firing == set()


def evaluated(client: httpx.Client) -> list[dict[str, Any]]:
    (group,) = client.get("/api/v1/rules").json()["data"]["groups"]
    return list(group["rules"])
