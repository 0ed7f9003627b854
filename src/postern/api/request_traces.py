"""A span for each request, from its first byte to the last of its answer.

A caller's `traceparent` is gone on with once that caller is known, and never before: nobody else decides what is
traced, or which trace it is part of. `tracestate` and `baggage` are not read. Requests of strangers, logins among them,
are traced a few a second at most, so that a flood of them costs nothing and takes nobody else's place.
"""

from __future__ import annotations

import time

from starlette.datastructures import Headers
from starlette.types import Scope

from postern.domain.identity.principal import Principal
from postern.domain.tracing import NO_TRACER, TRACEPARENT, Attributes, Span, SpanKind, Tracer, make_current, parent_of

STRANGERS = 5  # a second that are traced, of those whose caller is not known
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BEGAN, _SPAN = "trace_began", "span"  # in the request's state


def received(scope: Scope) -> None:
    """Remembers when."""
    scope["state"][_BEGAN] = time.time_ns()


def known(scope: Scope, principal: Principal) -> None:
    """The caller is this one: from here on the request is traced, and what comes of it a part of that."""
    tracer = _tracer(scope)
    if tracer is NO_TRACER:
        return
    given = Headers(scope=scope).getlist(TRACEPARENT)
    parent = parent_of(given[0]) if len(given) == 1 else ""
    span = _start(tracer, scope, parent)
    span.set({"postern.user.id": str(principal.id), "postern.org.id": str(principal.org_id)})
    scope["state"][_SPAN] = span
    make_current(span)


def answered(scope: Scope, status: int | None) -> None:
    """`status` is None when there was no answer: the client left before."""
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
        span.fail(str(status or "client left"))
    span.end()


def method_of(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else "other"


def route_of(scope: Scope) -> str:
    """As it is described, never the path: that has identifiers in it, and whatever somebody types."""
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
    found: Tracer = getattr(scope["app"].state, "tracer", NO_TRACER)
    return found


def _has_turn(scope: Scope) -> bool:
    """Of the strangers of this second."""
    state, second = scope["app"].state, int(time.monotonic())
    since, count = getattr(state, "traced_strangers", (0, 0))
    count = count + 1 if since == second else 1
    state.traced_strangers = (second, count)
    return count <= STRANGERS
