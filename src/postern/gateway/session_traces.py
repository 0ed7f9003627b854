"""The spans of a session: one for all of it, and one for each thing that its client waits for at the start.

    session ─┬─ session.access                     authorisation
             ├─ session.dial ─┬─ agent.dial        in the agent's process: carried by the order
             │                ├─ agent.secrets
             │                ├─ target.connect
             │                └─ target.login
             └─ the event "first byte", and the end reason

Nothing is traced before the client is authenticated, so strangers create no spans.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason, Verb
from postern.domain.tracing import Span, SpanKind, Tracer, make_current, part
from postern.errors import Denied, NotFound

_BAD = frozenset({EndReason.FAILED, EndReason.PROTOCOL_VIOLATION, EndReason.RECORDING_FAILED, EndReason.TARGET_CLOSED})


@contextmanager
def session_span(tracer: Tracer, verb: Verb, *, parent: str = "", began: int | None = None) -> Iterator[Span]:
    """Start the span of the current task's session. If the block raises, the span ends; otherwise `over` ends it."""
    span = tracer.start("session", SpanKind.SERVER, {"postern.verb": str(verb)}, parent=parent, began=began)
    make_current(span)
    try:
        yield span
    except BaseException as error:
        span.fail(type(error).__name__)
        span.end()
        raise


async def trace_admission(asking: Awaitable[Permit]) -> Permit:
    """Trace an admission. Raises its errors."""
    with part("session.access") as span:
        try:
            permit = await asking
        except (Denied, NotFound):
            span.set({"postern.access": "denied"})
            raise
        span.set({"postern.access": "allowed"})
        return permit


def about(span: Span, session_id: UUID, permit: Permit) -> None:
    """Set attributes. Names of the connection are an administrator's; the user is identified by an id only."""
    if not span.is_recorded:
        return
    connection = permit.connection
    span.set(
        {
            "postern.session.id": str(session_id),
            "postern.org.id": str(connection.org_id),
            "postern.user.id": str(permit.principal.id),
            "postern.connection": connection.name,
            "postern.connection.type": str(connection.type),
            "postern.connection.subtype": connection.subtype,
            "postern.protocol": connection.protocol,
            "postern.agent.id": str(connection.agent_id),
        }
    )


def over(span: Span, reason: EndReason, *, operations: int = 0, refused: int = 0, recorded: int = 0) -> None:
    """End the span. `recorded` is in bytes."""
    span.set(
        {
            "postern.end_reason": str(reason),
            "postern.operations": operations,
            "postern.operations.refused": refused,
            "postern.recorded_bytes": recorded,
        }
    )
    if reason in _BAD:
        span.fail(str(reason))
    span.end()
