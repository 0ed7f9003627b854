"""Spans: the duration of operations, sent to a collector of traces where one is configured, and nowhere else.

A span's name and the names of its attributes are written in the code. Values are identifiers, counts, words of the
domain and names that administrators chose; never input or output, no secret and no e-mail address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import StrEnum
from typing import Protocol

Value = str | int | float | bool
Attributes = Mapping[str, Value]

# https://www.w3.org/TR/trace-context/ section 3.2, of version 00 alone: any other begins a trace of its own.
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_NOTHING: Attributes = {}
TRACEPARENT = "traceparent"  # what it is called in requests, signals and orders


class SpanKind(StrEnum):
    """The relation of a span to its parent."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    CONSUMER = "consumer"


class Span(Protocol):
    """A span. Its methods never raise or block."""

    @property
    def is_recorded(self) -> bool:
        """Whether it is sent to a collector."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits; empty where it is not sent."""

    @property
    def traceparent(self) -> str:
        """The W3C traceparent for other processes; empty where nothing is traced."""

    def child(self, name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes = _NOTHING) -> Span: ...

    def set(self, attributes: Attributes) -> None: ...

    def event(self, name: str) -> None:
        """Record an event now."""

    def fail(self, kind: str) -> None:
        """Record a failure. `kind` is a class of errors or a word of the domain, never a message, which may quote
        anything."""

    def end(self) -> None:
        """End the span, once; later calls are ignored."""


class Tracer(Protocol):
    def start(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = _NOTHING,
        *,
        parent: str = "",
        began: int | None = None,
    ) -> Span:
        """Start a span without a parent in this process.

        `parent` is a traceparent from a trusted sender; `began` in nanoseconds since 1970, now when None.
        """


class _NoSpan:
    is_recorded = False
    trace_id = ""
    traceparent = ""

    def child(self, name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes = _NOTHING) -> Span:
        return self

    def set(self, attributes: Attributes) -> None: ...

    def event(self, name: str) -> None: ...

    def fail(self, kind: str) -> None: ...

    def end(self) -> None: ...


class _NoTracer:
    def start(
        self,
        name: str,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = _NOTHING,
        *,
        parent: str = "",
        began: int | None = None,
    ) -> Span:
        return NO_SPAN


NO_SPAN: Span = _NoSpan()
NO_TRACER: Tracer = _NoTracer()

_UNTRACED = nullcontext(NO_SPAN)
_current: ContextVar[Span] = ContextVar("postern_span", default=NO_SPAN)


def current() -> Span:
    """Return this task's current span."""
    return _current.get()


def make_current(span: Span) -> None:
    """Make the span current for the rest of this task."""
    _current.set(span)


def within(span: Span) -> AbstractContextManager[Span]:
    """Make the span current for the block: it ends with it, and fails when that raises."""
    return _UNTRACED if span is NO_SPAN else _within(span)


@contextmanager
def _within(span: Span) -> Iterator[Span]:
    token = _current.set(span)
    try:
        yield span
    except BaseException as error:
        span.fail(type(error).__name__)
        raise
    finally:
        _current.reset(token)
        span.end()


def part(
    name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes = _NOTHING
) -> AbstractContextManager[Span]:
    """Run the block as a child span of the current one."""
    return within(_current.get().child(name, kind, attributes))


def trace_payload() -> dict[str, str]:
    """Return what to send with a message, so that its receiver continues the trace; empty where nothing is traced."""
    parent = _current.get().traceparent
    return {TRACEPARENT: parent} if parent else {}


def parent_of(text: object) -> str:
    """Return the received traceparent; empty when it is invalid."""
    return text if isinstance(text, str) and _TRACEPARENT.fullmatch(text) else ""
