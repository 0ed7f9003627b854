"""A command line's request to open one connection through the tunnel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeGuard

from postern.domain.identity.login import BrowserTerminal
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import MAX_REASON
from postern.domain.secret import Secret
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
    with it. `browser`: the terminal in a browser that it is for. `metadata` says which program it is, in the session.
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
    browser: BrowserTerminal | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def read_reason_and_duration(request: Message) -> tuple[str, int | None]:
    """Return the reason and the duration in an OPEN. Raises ProtocolViolation, Invalid."""
    reason, duration = request.get("reason", ""), request.get("duration")
    if not isinstance(reason, str):
        raise ProtocolViolation("the reason of a stream must be a string")
    if duration is not None and (isinstance(duration, bool) or not isinstance(duration, int) or duration <= 0):
        raise ProtocolViolation("the duration of a stream must be a number of seconds")
    if len(reason) > MAX_REASON:
        raise Invalid(f"reason: at most {MAX_REASON} characters", field="reason")
    return reason, duration


def fields_of(request: Message) -> Mapping[str, str]:
    """Return the issue fields in an OPEN. Raises ProtocolViolation, Invalid."""
    fields = request.get("tracker_fields", {})
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise ProtocolViolation("the fields of an issue must be an object with string values")
    if len(fields) > MOST_FIELDS:
        raise Invalid(f"tracker_fields: at most {MOST_FIELDS}", field="tracker_fields")
    return fields


def browser_of(request: Message) -> tuple[str, Secret] | None:
    """Return the address of the browser in an OPEN, with its attestation; None for a command line. Raises
    ProtocolViolation."""
    browser = request.get("browser")
    if browser is None:
        return None
    if isinstance(browser, dict):
        address, attestation = browser.get("address"), browser.get("attestation")
        if isinstance(address, str) and isinstance(attestation, str):
            return address, Secret(attestation)
    raise ProtocolViolation("the browser of a stream must have an address and a attestation")


def start_of(request: Message) -> Start | None:
    """Return the start parameters of a command in an OPEN, or None without a command. Raises ProtocolViolation,
    Invalid."""
    if "terminal" not in request:
        return None
    arguments, environment = request.get("arguments", []), request.get("environment", {})
    if not isinstance(arguments, list) or not all(isinstance(text, str) for text in arguments):
        raise ProtocolViolation("the arguments of a command must be a list of strings")
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        raise ProtocolViolation("the environment of a command must be an object with string values")
    variables = check_variables(environment, "environment")
    return Start(
        arguments=check_arguments(arguments, "arguments"),
        environment={name: value.reveal() for name, value in variables.items()},
        terminal=_terminal(request["terminal"]),
    )


def _terminal(value: object) -> Terminal | None:
    if value is None:
        return None
    if isinstance(value, dict):
        columns, rows, name = value.get("columns"), value.get("rows"), value.get("name")
        if _is_size(columns) and _is_size(rows) and isinstance(name, str):
            return Terminal(columns, rows, name[:64])
    raise ProtocolViolation("a terminal must have columns, rows and a name")


def _is_size(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and 0 < number <= MAX_TERMINAL_SIZE
