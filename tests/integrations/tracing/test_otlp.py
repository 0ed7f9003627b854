"""The tracer with a real collector on loopback: what it sends, and what happens without a collector."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from tests.support.collector import Collector, collecting
from tests.support.postgres import free_port
from tests.support.promises import wait_until, within

from postern.domain.tracing import SpanKind
from postern.integrations.tracing import tracing_otlp
from postern.integrations.tracing.tracing_otlp import MOST_TEXT, MOST_WAITING, OtlpTracer

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
FACTS = {"service.name": "postern", "host.name": "gateway.example.com"}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No variable of whoever runs the tests, and the library's log as it was."""
    library = logging.getLogger("opentelemetry")
    before = (library.propagate, library.handlers)
    for name in ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    yield
    library.propagate, library.handlers = before


@contextmanager
def tracing(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OtlpTracer, list[int]]]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    dropped: list[int] = []
    tracer = OtlpTracer(FACTS, "1.2.3", dropped.append)
    try:
        yield tracer, dropped
    finally:
        tracer.close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def test_span_and_child_arrive_with_the_resource_attributes(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,host.name=other")
    with tracing(collector.port, monkeypatch) as (tracer, dropped):
        whole = tracer.start("whole", SpanKind.SERVER, {"count": 3}, began=time.time_ns() - 10**9)
        whole.child("inner", SpanKind.CLIENT).end()
        whole.event("first byte")
        whole.fail("Denied")
        whole.end()
        whole.end()
        whole.set({"late": True})
    (inner,), (outer,) = collector.named("inner"), collector.named("whole")
    assert (inner.parent, inner.trace) == (outer.id, outer.trace) == (whole.traceparent.split("-")[2], whole.trace_id)
    assert outer.facts == {"count": 3, "error.type": "Denied"}
    assert outer.failed
    assert outer.events == ["first byte"]
    assert outer.raw.end_time_unix_nano - outer.raw.start_time_unix_nano >= 10**9
    assert outer.resource["service.name"] == "postern"
    assert outer.resource["host.name"] == "other"
    assert outer.resource["deployment.environment.name"] == "test"
    assert dropped == []


def test_service_name_is_read_from_its_variable(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gate-eu")
    with tracing(collector.port, monkeypatch) as (tracer, _):
        tracer.start("x").end()
    assert collector.spans[0].resource["service.name"] == "gate-eu"


@pytest.mark.parametrize(("sampler", "flags", "arrives"), [("", "01", 1), ("", "00", 0), ("always_on", "00", 1)])
def test_incoming_trace_is_continued_as_the_sampler_decides(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, sampler: str, flags: str, arrives: int
) -> None:
    if sampler:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    with tracing(collector.port, monkeypatch) as (tracer, _):
        span = tracer.start("x", parent=f"{PARENT}-{flags}")
        assert span.traceparent.split("-")[1] == PARENT.split("-")[1]
        assert bool(span.trace_id) is bool(arrives)
        span.end()
    assert [one.parent for one in collector.spans] == [PARENT.split("-")[2]] * arrives


def test_no_span_is_sent_if_the_sampler_is_off(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with tracing(collector.port, monkeypatch) as (tracer, dropped):
        tracer.start("x").end()
    assert (collector.spans, dropped) == ([], [])


def test_hostile_attributes_are_cut_and_escaped(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = {"long": "x" * 10_000_000, "escape": "\x1b[2J\r\nforged", "surrogate": "a\udc80b"}
    with tracing(collector.port, monkeypatch) as (tracer, dropped):
        span = tracer.start("x", attributes=hostile)
        span.set({f"n{number}": "y" for number in range(1000)})
        for number in range(1000):
            span.event(str(number))
        span.end()
    (told,) = collector.spans
    assert len(told.facts) <= 24
    assert len(told.events) <= 16
    assert len(b"".join(collector.bodies)) < 20_000
    assert dropped == []
    with tracing(collector.port, monkeypatch) as (tracer, _):
        tracer.start("y", attributes=hostile).end()
    facts = collector.named("y")[0].facts
    assert facts == {"long": "x" * MOST_TEXT, "escape": "\\x1b[2J\\r\\nforged", "surrogate": "a?b"}


def test_hanging_collector_does_not_block_and_dropped_spans_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collecting(delay=30.0) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        dropped: list[int] = []
        tracer = OtlpTracer(FACTS, "1", dropped.append)
        slowest = 0.0
        for _ in range(MOST_WAITING + 500):
            began = time.perf_counter()
            tracer.start("x").end()
            slowest = max(slowest, time.perf_counter() - began)
        assert slowest < within(1.0)
        assert sum(dropped) == 500
        began = time.monotonic()
        tracer.close()
        assert time.monotonic() - began < within(tracing_otlp.LAST_WORDS + 1.0)
        assert sum(dropped) == MOST_WAITING + 500


@pytest.mark.ci
def test_collector_outage_and_recovery_are_logged_once_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    monkeypatch.setattr(tracing_otlp, "EVERY", 20)
    with collecting(status=503) as collector, tracing(collector.port, monkeypatch) as (tracer, dropped):
        for expected in (1, 2):
            tracer.start("x").end()
            wait_until(partial(_adds_up, dropped, expected))
        collector.status = 200
        tracer.start("y").end()
        wait_until(lambda: bool(collector.spans))
        wait_until(lambda: "again" in caplog.text)
    assert [one.name for one in collector.spans] == ["y"]
    said = [record.getMessage() for record in caplog.records]
    assert sum("are dropped" in line for line in said) == 1
    assert sum("again" in line for line in said) == 1
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_unreachable_collector_drops_the_span(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with tracing(free_port(), monkeypatch) as (tracer, dropped):
        tracer.start("x").end()
    assert sum(dropped) == 1


def test_invalid_header_setting_is_not_quoted_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a secret that is no header")
    logging.getLogger("opentelemetry").propagate = True
    with tracing(free_port(), monkeypatch):
        pass
    assert "a secret" not in caplog.text
    assert "OTEL_EXPORTER_OTLP_HEADERS" in caplog.text


def _adds_up(numbers: list[int], expected: int) -> bool:
    return sum(numbers) == expected
