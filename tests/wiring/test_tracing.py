from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.support.collector import collecting

from postern.domain.tracing import NO_TRACER
from postern.metrics.meters import Meters
from postern.wiring import tracing_wiring as wiring
from postern.wiring.tracing_wiring import tracing

pytestmark = pytest.mark.ci


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    library = logging.getLogger("opentelemetry")
    before = (library.propagate, library.handlers)
    yield
    library.propagate, library.handlers = before


HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
        {**HERE, "OTEL_SDK_DISABLED": "True"},
        {**HERE, "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_traced_unless_it_is_set_up(environ: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    meters = Meters()
    with tracing(environ, "w1", meters) as tracer:
        assert tracer is NO_TRACER
    assert meters.snapshot() == {}
    assert caplog.text == ""


@pytest.mark.parametrize("more", [{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"OTEL_TRACES_EXPORTER": "zipkin,console"}])
def test_what_is_not_spoken_is_said_and_keeps_nobody_from_work(
    more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with tracing({**HERE, **more}, "w1") as tracer:
        assert tracer is NO_TRACER
    assert "http/protobuf" in caplog.text


def test_a_library_that_is_not_installed_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, wiring._LIBRARY, None)
    with tracing(HERE, "w1") as tracer:
        assert tracer is NO_TRACER
    assert "pip install opentelemetry-sdk" in caplog.text


def test_a_variable_that_makes_no_sense_is_said_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER", "soon")
    with tracing(HERE, "w1") as tracer:
        assert tracer is NO_TRACER
    assert "no traces are sent" in caplog.text
    assert "soon" not in caplog.text


def test_the_library_is_not_loaded_where_nothing_is_traced() -> None:
    code = (
        "import sys;"
        "from postern.wiring.processes import worker_process, api_process, archiver_process, agent_process;"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_is_dropped_is_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    meters = Meters()
    with collecting(status=400) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, "w1", meters) as tracer:
            tracer.start("x").end()
    assert meters.snapshot()["postern_spans_dropped"] == [[[], 1]]
