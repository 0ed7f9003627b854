"""A session's life as spans: one for all of it, and one for each thing that its client waits for at its beginning.

    session ─┬─ session.access                     may they?
             ├─ session.dial ─┬─ agent.dial        elsewhere, of the agent's process: carried by the order
             │                ├─ agent.secrets
             │                ├─ target.connect
             │                └─ target.login
             └─ the event "first byte", and how it ended

Nothing is traced before its client is known: a stranger makes no spans.
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
    """What this task is doing from now on. The block opens the session: when it raises, the span has ended; otherwise
    `over` ends it."""
    span = tracer.start("session", SpanKind.SERVER, {"postern.verb": str(verb)}, parent=parent, began=began)
    make_current(span)
    try:
        yield span
    except BaseException as error:
        span.fail(type(error).__name__)
        span.end()
        raise


async def decided(asking: Awaitable[Permit]) -> Permit:
    """Raises what asking does."""
    with part("session.access") as span:
        try:
            permit = await asking
        except (Denied, NotFound):
            span.set({"postern.access": "denied"})
            raise
        span.set({"postern.access": "allowed"})
        return permit


def about(span: Span, session_id: UUID, permit: Permit) -> None:
    """The names of the connection are an administrator's; who it is for is told by an identifier alone."""
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
    """`recorded` in bytes."""
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
