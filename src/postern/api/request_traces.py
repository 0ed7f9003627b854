"""A trace span for each request, from its first byte to the last byte of its answer.

A caller's `traceparent` is continued only once that caller is authenticated: no other client decides what is traced, or
which trace it belongs to. `tracestate` and `baggage` are not read. Unauthenticated requests, logins included, are
traced at most a few times a second, so that a flood of them costs little and displaces no other trace.
"""

from __future__ import annotations

import time

from starlette.datastructures import Headers
from starlette.types import Scope

from postern.domain.identity.principal import Principal
from postern.domain.tracing import NO_TRACER, TRACEPARENT, Attributes, Span, SpanKind, Tracer, make_current, parent_of

STRANGERS = 5  # traced requests each second whose caller is unknown
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BEGAN, _SPAN = "trace_began", "span"  # in the request's state


def record_arrival(scope: Scope) -> None:
    """Record the time."""
    scope["state"][_BEGAN] = time.time_ns()


def continue_trace(scope: Scope, principal: Principal) -> None:
    """Continue the caller's trace: from here on the request is traced, and its work belongs to that trace."""
    tracer = _tracer(scope)
    if tracer is NO_TRACER:
        return
    headers = Headers(scope=scope).getlist(TRACEPARENT)
    parent = parent_of(headers[0]) if len(headers) == 1 else ""
    span = _start(tracer, scope, parent)
    span.set({"postern.user.id": str(principal.id), "postern.org.id": str(principal.org_id)})
    scope["state"][_SPAN] = span
    make_current(span)


def end_trace(scope: Scope, status: int | None) -> None:
    """End the span. `status` is None if there was no answer, because the client disconnected."""
    tracer = _tracer(scope)
    if tracer is NO_TRACER:
        return
    span: Span | None = scope["state"].get(_SPAN)
    if span is None:
        if not _has_turn(scope):
            return
        span = _start(tracer, scope, "")
    if status is not None:
        span.set({"http.response.status_code": status})
    if status is None or status >= 500:
        span.fail(str(status or "client disconnected"))
    span.end()


def method_of(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else "other"


def route_of(scope: Scope) -> str:
    """Return the route's template, never the path, which contains identifiers and arbitrary text."""
    route: str = getattr(scope.get("route"), "path", "none")
    return route


def _start(tracer: Tracer, scope: Scope, parent: str) -> Span:
    method, route = method_of(scope), route_of(scope)
    facts: Attributes = {
        "http.request.method": method,
        "http.route": route,
        "url.scheme": scope.get("scheme", "http"),
        "postern.request.id": scope["state"]["request_id"],
    }
    return tracer.start(f"{method} {route}", SpanKind.SERVER, facts, parent=parent, began=scope["state"].get(_BEGAN))


def _tracer(scope: Scope) -> Tracer:
    tracer: Tracer = getattr(scope["app"].state, "tracer", NO_TRACER)
    return tracer


def _has_turn(scope: Scope) -> bool:
    """Count the unauthenticated requests of this second."""
    state, second = scope["app"].state, int(time.monotonic())
    since, count = getattr(state, "traced_strangers", (0, 0))
    count = count + 1 if since == second else 1
    state.traced_strangers = (second, count)
    return count <= STRANGERS
