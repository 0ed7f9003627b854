"""Spans to an OpenTelemetry collector, by OTLP over HTTP. Its library reads the standard OTEL_ variables itself.

Ended spans wait in a bounded queue for a sending thread, and nothing else ever waits. Spans that do not fit, and those
that the collector rejects, are dropped and counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from postern.domain.text import one_line
from postern.domain.tracing import NO_SPAN, Attributes, Span, SpanKind, Value

log = logging.getLogger(__name__)

MOST_WAITING = 2_048  # spans that wait to be sent
TOGETHER = 256  # in one request
EVERY = 1_000  # milliseconds between two requests
LAST_WORDS = 0.5  # seconds to send the rest when a process ends
MOST_TEXT = 200  # characters of a value
_LIMITS = SpanLimits(
    max_span_attributes=24, max_event_attributes=4, max_events=16, max_links=4, max_attribute_length=MOST_TEXT
)
_KINDS = {kind: api.SpanKind[kind.name] for kind in SpanKind}
_LIBRARY = logging.getLogger("opentelemetry")
_READER = "opentelemetry.util.re"  # logger for invalid headers, which it quotes with their secrets

Dropped = Callable[[int], None]


class OtlpTracer:
    """Implements `domain.tracing.Tracer`. `facts` describe this process; OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME
    take precedence. `dropped` is called, from any thread, for lost spans.

    Raises ValueError when a variable of OpenTelemetry is invalid.
    """

    def __init__(self, facts: Mapping[str, str], version: str, dropped: Dropped) -> None:
        logging.getLogger(_READER).addFilter(_redact_record)
        resource = Resource(dict(facts)).merge(Resource.create())
        if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": facts["service.name"]}))
        self._sending = _Sending(OTLPSpanExporter(), dropped)
        self._provider = TracerProvider(resource=resource, span_limits=_LIMITS, shutdown_on_exit=False)
        self._provider.add_span_processor(_Queue(self._sending))
        self._tracer = self._provider.get_tracer("postern", version)
        # Its messages about settings are in the log by now; failures of sending are logged here, once.
        _LIBRARY.propagate, _LIBRARY.handlers = False, [self._sending.complaint]

    def start(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes | None = None,
        *,
        parent: str = "",
        began: int | None = None,
    ) -> Span:
        return _begin(self._tracer, name, kind, attributes, _context(parent), began)

    def close(self) -> None:
        """Send the rest, for a short time, whatever the collector does."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(LAST_WORDS)
        self._sending.give_up()


def _begin(
    tracer: api.Tracer, name: str, kind: SpanKind, attributes: Attributes | None, context: Context, began: int | None
) -> Span:
    try:
        span = tracer.start_span(name, context, _KINDS[kind], _shorten_values(attributes or {}), start_time=began)
    except Exception:  # a failing library must not end a session
        log.exception("a span could not be started")
        return NO_SPAN
    return _OtlpSpan(tracer, span)


class _OtlpSpan:
    def __init__(self, tracer: api.Tracer, span: api.Span) -> None:
        self._tracer = tracer
        self._span = span
        self._ended = False

    @property
    def is_recorded(self) -> bool:
        return bool(self._span.get_span_context().trace_flags.sampled)

    @property
    def trace_id(self) -> str:
        return api.format_trace_id(self._span.get_span_context().trace_id) if self.is_recorded else ""

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        numbers = f"{api.format_trace_id(context.trace_id)}-{api.format_span_id(context.span_id)}"
        return f"00-{numbers}-{context.trace_flags & api.TraceFlags.SAMPLED:02x}"

    def child(self, name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes | None = None) -> Span:
        return _begin(self._tracer, name, kind, attributes, api.set_span_in_context(self._span, Context()), None)

    def set(self, attributes: Attributes) -> None:
        if not self._ended:
            self._span.set_attributes(_shorten_values(attributes))

    def event(self, name: str) -> None:
        if not self._ended:
            self._span.add_event(name)

    def fail(self, kind: str) -> None:
        if not self._ended:
            self._span.set_attribute("error.type", _short(kind))
            self._span.set_status(api.StatusCode.ERROR)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._span.end()


def _shorten_values(attributes: Attributes) -> dict[str, Value]:
    return {name: _short(value) if isinstance(value, str) else value for name, value in attributes.items()}


def _short(text: str) -> str:
    # Bytes that are not UTF-8 are surrogates, which protobuf rejects.
    return one_line(text[:MOST_TEXT].encode("utf-8", "replace").decode())[:MOST_TEXT]


def _context(parent: str) -> Context:
    """Return the parent's context, which `domain.tracing.parent_of` has checked. Without a parent a new trace begins,
    whatever else runs in this thread."""
    if not parent:
        return Context()
    _, trace_id, span_id, flags = parent.split("-")
    context = api.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=api.TraceFlags(int(flags, 16) & 1)
    )
    return api.set_span_in_context(api.NonRecordingSpan(context), Context())


class _Sending(SpanExporter):
    """Counts the spans that wait and their results, which the library's queue does not report."""

    def __init__(self, exporter: SpanExporter, dropped: Dropped) -> None:
        self._exporter = exporter
        self._dropped = dropped
        self._count = 0
        self._lock = threading.Lock()
        self._failing_since: float | None = None
        self.complaint = _Complaint()

    def has_room(self) -> bool:
        """Return True and count one more span if there is room; otherwise it is dropped."""
        with self._lock:
            room = self._count < MOST_WAITING
            self._count += room
        if not room:
            self._dropped(1)
        return room

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. Called in the queue's thread."""
        try:
            result = self._exporter.export(spans)
        except Exception as error:
            self.complaint.first = self.complaint.first or type(error).__name__
            result = SpanExportResult.FAILURE
        failed = result is not SpanExportResult.SUCCESS
        with self._lock:
            self._count -= len(spans)
        if failed:
            self._dropped(len(spans))
        self._say(failed)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def give_up(self) -> None:
        with self._lock:
            left, self._count = self._count, 0
        if left > 0:
            self._dropped(left)

    def _say(self, failed: bool) -> None:
        """Log one line when failures begin, and one when they end."""
        if failed and self._failing_since is None:
            self._failing_since = time.monotonic()
            log.warning(
                "the trace collector rejects traces or cannot be reached; they are dropped: %s", self.complaint.first
            )
        elif not failed:
            if self._failing_since is not None:
                log.info(
                    "the trace collector accepts traces again after %.0f s", time.monotonic() - self._failing_since
                )
            self._failing_since, self.complaint.first = None, ""


class _Queue(BatchSpanProcessor):
    """The library's queue, which is never full: spans that would not fit are dropped, and counted, before."""

    def __init__(self, sending: _Sending) -> None:
        super().__init__(sending, MOST_WAITING + TOGETHER, EVERY, TOGETHER)
        self._sending = sending

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled and self._sending.has_room():
            super().on_end(span)


def _redact_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = "OTEL_EXPORTER_OTLP_HEADERS: an entry that is not URL-encoded NAME=VALUE was ignored", ()
    return True


class _Complaint(logging.Handler):
    """The library's first message about a failure; its retries repeat it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.first = self.first or one_line(record.getMessage())[:MOST_TEXT]
