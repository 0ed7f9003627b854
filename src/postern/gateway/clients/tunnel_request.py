"""A command line's request to open one connection through the tunnel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeGuard

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import MAX_REASON
from postern.domain.targets.command import check_arguments, check_variables
from postern.errors import Invalid, ProtocolViolation
from postern.relay.relay_target import Start, Terminal
from postern.transport.mux import Message

MOST_FIELDS = 200  # of an issue; its template limits each value
MAX_TERMINAL_SIZE = 10_000  # columns, and rows


@dataclass(frozen=True, slots=True)
class TunnelRequest:
    """The request.

    `connection` is a name or id. `means` is the auth method of the principal. `since` is `LinkRegistry.changes` from
    before authentication. `standing` returns the principal's current state, for a request that has waited; it raises
    Unauthenticated once the login is no longer valid. `reason` and `duration`, in seconds, are shown to the approvers.
    `tracker_fields` are for the session's issue, if it opens one. `expires_at` is when the login expires, and access
    with it.
    """

    principal: Principal
    means: str
    connection: str
    since: int
    standing: Callable[[], Awaitable[Principal]]
    reason: str = ""
    duration: int | None = None
    tracker_fields: Mapping[str, str] = field(default_factory=dict)
    expires_at: datetime | None = None


def read_reason_and_duration(request: Message) -> tuple[str, int | None]:
    """Return the reason and the duration in an OPEN. Raises ProtocolViolation, Invalid."""
    reason, duration = request.get("reason", ""), request.get("duration")
    if not isinstance(reason, str):
        raise ProtocolViolation("the reason of a stream must be a text")
    if duration is not None and (isinstance(duration, bool) or not isinstance(duration, int) or duration <= 0):
        raise ProtocolViolation("the duration of a stream must be a number of seconds")
    if len(reason) > MAX_REASON:
        raise Invalid(f"reason: at most {MAX_REASON} characters", field="reason")
    return reason, duration


def fields_of(request: Message) -> Mapping[str, str]:
    """Return the issue fields in an OPEN. Raises ProtocolViolation, Invalid."""
    given = request.get("tracker_fields", {})
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ProtocolViolation("the fields of an issue must be an object of texts")
    if len(given) > MOST_FIELDS:
        raise Invalid(f"tracker_fields: at most {MOST_FIELDS}", field="tracker_fields")
    return given


def start_of(request: Message) -> Start | None:
    """Return the start parameters of a command in an OPEN, or None without a command. Raises ProtocolViolation,
    Invalid."""
    if "terminal" not in request:
        return None
    arguments, environment = request.get("arguments", []), request.get("environment", {})
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise ProtocolViolation("the arguments of a command must be a list of texts")
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        raise ProtocolViolation("the environment of a command must be an object of texts")
    variables = check_variables(environment, "environment")
    return Start(
        arguments=check_arguments(arguments, "arguments"),
        environment={name: value.reveal() for name, value in variables.items()},
        terminal=_terminal(request["terminal"]),
    )


def _terminal(given: object) -> Terminal | None:
    if given is None:
        return None
    if isinstance(given, dict):
        columns, rows, name = given.get("columns"), given.get("rows"), given.get("name")
        if _is_size(columns) and _is_size(rows) and isinstance(name, str):
            return Terminal(columns, rows, name[:64])
    raise ProtocolViolation("a terminal must have columns, rows and a name")


def _is_size(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and 0 < number <= MAX_TERMINAL_SIZE
