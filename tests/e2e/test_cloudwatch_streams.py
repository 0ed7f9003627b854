"""Metrics in CBOR, and live tails, by boto3 and by the AWS CLI through a gateway."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError
from tests.support.aws_ways import moto
from tests.support.clients import clean_environment
from tests.support.cloudwatch_edge import CBOR, CloudwatchEdge, cloudwatch_edge, write_cbor_model
from tests.support.cloudwatch_gateway import cloudwatch_client, cloudwatch_connection
from tests.support.cloudwatch_target import REGION, MotoCloudwatch
from tests.support.features import Client
from tests.support.gateway import Gateway
from urllib3.exceptions import ProtocolError

from postern.domain.identity.credential import Issued
from postern.wiring import tls

MAIL = "ann@example.com"
GROUP = f"arn:aws:logs:{REGION}:123456789012:log-group:shop"


@pytest.fixture(scope="module")
def edge() -> Iterator[CloudwatchEdge]:
    with moto() as url, cloudwatch_edge(MotoCloudwatch(url)) as edge:
        yield edge


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cbor_model(tmp_path_factory.mktemp("models"))


@pytest.fixture
def issued(gateway: Gateway, edge: CloudwatchEdge) -> Issued:
    """A credential of a connection that masks e-mail addresses, and does not delete."""
    name = f"streams-{uuid4().hex[:8]}"
    masks = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}
    gateway.guardrail(name, cloudwatch_connection(gateway, name, edge.url, **masks), deny="^Delete")
    return gateway.credential(name)


# Metrics


@pytest.fixture
def metrics(gateway: Gateway, issued: Issued, model: Path) -> Any:
    """boto3 that speaks nothing but CBOR."""
    session = botocore.session.Session()
    session.get_component("data_loader").search_paths.insert(0, str(model))
    password = issued.password.reveal()
    client = boto3.Session(botocore_session=session).client(
        "cloudwatch",
        endpoint_url=f"https://localhost:{gateway.settings.cloudwatch_port}",
        region_name=REGION,
        aws_access_key_id=issued.credential.username,
        aws_secret_access_key=password,
        aws_session_token=password,
        verify=str(tls.authority(gateway.settings)),
        config=Config(retries={"total_max_attempts": 1}),
    )
    assert client.meta.service_model.resolved_protocol == CBOR
    return client


def test_metrics_are_written_and_read_in_cbor(
    gateway: Gateway, issued: Issued, edge: CloudwatchEdge, metrics: Any
) -> None:
    at = datetime.now(UTC).replace(second=0, microsecond=0)
    space = f"Shop/{issued.connection.name}"
    metrics.put_metric_data(
        Namespace=space, MetricData=[{"MetricName": "orders", "Value": 3.5, "Timestamp": at, "Unit": "Count"}]
    )
    (metric,) = metrics.list_metrics(Namespace=space)["Metrics"]
    assert metric["MetricName"] == "orders"
    (point,) = metrics.get_metric_statistics(
        Namespace=space,
        MetricName="orders",
        StartTime=at - timedelta(minutes=5),
        EndTime=at + timedelta(minutes=5),
        Period=60,
        Statistics=["Sum"],
    )["Datapoints"]
    assert (point["Sum"], point["Timestamp"]) == (3.5, at)
    assert edge.operations[-3:] == ["PutMetricData", "ListMetrics", "GetMetricStatistics"]
    statements = gateway.operations(gateway.newest(issued.connection.name).id)
    assert f'ListMetrics {{"Namespace": "{space}"}}' in statements
    assert f'"Timestamp": "{at:%Y-%m-%dT%H:%M:%SZ}"' in statements[0]


def test_texts_in_cbor_are_masked_and_operations_refused(
    gateway: Gateway, issued: Issued, edge: CloudwatchEdge, metrics: Any
) -> None:
    alarm = {"MetricName": "m", "Namespace": "n", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1.0}
    name = issued.connection.name
    edge.moto.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        AlarmDescription=f"ask {MAIL}",
        ComparisonOperator="LessThanThreshold",
        Statistic="Sum",
        **alarm,
    )
    (shown,) = metrics.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert MAIL not in str(shown)
    assert shown["AlarmDescription"].startswith("ask ")
    assert shown["Threshold"] == 1.0
    with pytest.raises(ClientError) as refused:
        metrics.delete_alarms(AlarmNames=[name])
    assert "AccessDenied" in refused.value.response["Error"]["Code"]
    assert "DeleteAlarms" not in edge.operations
    with pytest.raises(ClientError) as failed:
        metrics.get_dashboard(DashboardName="none")
    assert "AccessDenied" not in failed.value.response["Error"]["Code"]
    text = gateway.text(gateway.newest(name).id)
    assert "ask " in text
    assert MAIL not in text


# Live tails


def open_tail(gateway: Gateway, issued: Issued) -> Any:
    config = Config(inject_host_prefix=False, retries={"total_max_attempts": 1}, read_timeout=60)
    client = cloudwatch_client(gateway, issued, config=config)
    stream = iter(client.start_live_tail(logGroupIdentifiers=[GROUP])["responseStream"])
    assert next(stream)["sessionStart"]["logGroupIdentifiers"] == [GROUP]
    return stream


def test_each_event_of_a_live_tail_comes_when_it_happens(
    gateway: Gateway, issued: Issued, edge: CloudwatchEdge
) -> None:
    """The next one happens only after the client has seen the one before."""
    stream = open_tail(gateway, issued)
    for number in range(5):
        edge.tail.put(f"{number} {MAIL}")
        (event,) = next(stream)["sessionUpdate"]["sessionResults"]
        assert event["message"].startswith(f"{number} ")
        assert MAIL not in event["message"]
    edge.tail.put(None)
    assert next(stream, None) is None
    text = gateway.text(gateway.newest(issued.connection.name).id)
    assert "4 " in text
    assert MAIL not in text


class SessionTimeoutException(Exception):
    """What AWS sends after three hours."""


def test_live_tail_that_aws_ends_has_its_error(gateway: Gateway, issued: Issued, edge: CloudwatchEdge) -> None:
    stream = open_tail(gateway, issued)
    edge.tail.put(SessionTimeoutException("three hours"))
    with pytest.raises(EventStreamError, match="three hours"):
        next(stream)


def test_live_tail_ends_with_its_session(gateway: Gateway, issued: Issued, edge: CloudwatchEdge) -> None:
    stream = open_tail(gateway, issued)
    edge.tail.put("begun")
    next(stream)
    session = gateway.newest(issued.connection.name)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, stream)
        gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        assert isinstance(waiting.exception(60), ProtocolError)  # it does not take a part for the whole
    assert gateway.finished(session.id).metadata["end_reason"] == "killed"
    edge.tail.put(None)


# The AWS CLI


@pytest.fixture
def cli(gateway: Gateway, issued: Issued, model: Path, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    """The program, and its environment. It puts `stream-` in front of the host of a live tail; here both are the same
    machine, and the certificate is for the other one."""
    program = shutil.which("aws")
    if program is None:
        pytest.skip("the AWS CLI is not installed")
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\nresolve = socket.getaddrinfo\n"
        "socket.getaddrinfo = lambda host, *more, **other: resolve(host.removeprefix('stream-'), *more, **other)\n"
    )
    password = issued.password.reveal()
    address = f"https://localhost:{gateway.settings.cloudwatch_port}"
    return program, {
        **clean_environment(),
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": address,
        "AWS_ENDPOINT_URL_CLOUDWATCH": address,
        "AWS_ACCESS_KEY_ID": issued.credential.username,
        "AWS_SECRET_ACCESS_KEY": password,
        "AWS_SESSION_TOKEN": password,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CA_BUNDLE": str(tls.authority(gateway.settings)),
        "AWS_DATA_PATH": str(model),
        "AWS_MAX_ATTEMPTS": "1",
        "PYTHONPATH": str(tmp_path),
        "PATH": os.environ["PATH"],
    }


def test_cli_lists_metrics_in_cbor(edge: CloudwatchEdge, cli: tuple[str, Mapping[str, str]]) -> None:
    program, environment = cli
    edge.moto.client("cloudwatch").put_metric_data(Namespace="Cli", MetricData=[{"MetricName": "orders", "Value": 1.0}])
    edge.operations.clear()
    command = [program, "cloudwatch", "list-metrics", "--namespace", "Cli"]
    ran = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert '"MetricName": "orders"' in ran.stdout
    assert edge.operations == ["ListMetrics"]


def test_cli_prints_a_live_tail(edge: CloudwatchEdge, cli: tuple[str, Mapping[str, str]]) -> None:
    program, environment = cli
    command = [program, "--no-verify-ssl", "logs", "start-live-tail", "--log-group-identifiers", GROUP]
    with Client(command, environment) as client:
        edge.tail.put(f"first {MAIL}")
        assert MAIL not in client.hears("first ")
        edge.tail.put("second")
        client.hears("second")
        edge.tail.put(None)
        client.ends()
