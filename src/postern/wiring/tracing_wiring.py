"""Traces, if the standard variables of OpenTelemetry name a collector; see docs/decisions/0032."""

from __future__ import annotations

import importlib
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from postern import __version__
from postern.domain.tracing import NO_TRACER, Tracer
from postern.metrics.meters import Meters

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"
_LIBRARIES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
_LIBRARY = "postern.integrations.tracing.tracing_otlp"


@contextmanager
def tracing(environ: Mapping[str, str], process: str, meters: Meters | None = None) -> Iterator[Tracer]:
    """Yield a tracer that sends spans, if a collector is set up. `process` is its name, as in logs.

    These variables can be set for all programs of a machine: an error in them is logged once, and never stops a
    gateway.
    """
    if not _is_wanted(environ):
        yield NO_TRACER
        return
    lost = _Lost()
    if meters is not None:
        meters.sample("postern_spans_dropped", lambda: lost.count)
    facts = {
        "service.name": "postern",
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}/{process}",
        "host.name": socket.gethostname(),
        "postern.process": process,
    }
    try:
        # It costs 170 ms and 15 MB, and need not be installed.
        tracer = importlib.import_module(_LIBRARY).OtlpTracer(facts, __version__, lost.add)
    except ImportError as error:
        log.warning("no traces are sent: %s is not installed; run: pip install %s", error.name, _LIBRARIES)
        yield NO_TRACER
        return
    except Exception as error:
        # Its text can quote values of the variables.
        log.error("no traces are sent: the OTEL_ variables cannot be used (%s)", type(error).__name__)
        yield NO_TRACER
        return
    log.info("traces are sent to the collector in the OTEL_ variables")
    try:
        yield tracer
    finally:
        tracer.close()


def _is_wanted(environ: Mapping[str, str]) -> bool:
    if not any(environ.get(name) for name in ENDPOINTS) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporters = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if exporters == "none":
        return False
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), _SPOKEN)
    if exporters != "otlp" or protocol != _SPOKEN:
        log.error("no traces are sent: OTEL_TRACES_EXPORTER must be otlp, and the protocol %s", _SPOKEN)
        return False
    return True


class _Lost:
    """Counted by the process's own threads and the sending one."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, spans: int) -> None:
        with self._lock:
            self.count += spans
