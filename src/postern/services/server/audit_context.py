"""The audit context: what a request changed, as services record it.

The API opens a context around each write; a service that changes a resource calls `record_change`. Without a context
(server commands, tests) that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class AuditContext:
    """The resource before and after: dataclasses of the domain, or mappings. None where there is nothing. `address` is
    the client's; empty on the gateway's own machine."""

    before: object | None = None
    after: object | None = None
    address: str = ""


_current: ContextVar[AuditContext | None] = ContextVar("postern_trail", default=None)


@contextmanager
def collect_change(address: str = "") -> Iterator[AuditContext]:
    audit_context = AuditContext(address=address)
    token = _current.set(audit_context)
    try:
        yield audit_context
    finally:
        _current.reset(token)


def record_change(before: object | None, after: object | None) -> None:
    """Record a change. Of several in one request the first `before` and the last `after` are kept."""
    audit_context = _current.get()
    if audit_context is None:
        return
    if audit_context.before is None:
        audit_context.before = before
    audit_context.after = after


def current_address() -> str:
    """Return the address of the client whose request changes something; empty without one."""
    audit_context = _current.get()
    return "" if audit_context is None else audit_context.address
