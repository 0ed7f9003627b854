"""Connections from files and options: input of `connections create` and `update`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from postern.cli.nouns import AGENT
from postern.cli.resource_group import looking_up
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.domain.resource_identifiers import is_identifier
from postern.domain.text import one_line
from postern.errors import NotFound

MODES = dict.fromkeys(("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema"), "enabled")

_LISTS = ("command", "force_approve_groups", "guardrail_rules", "redact_types", "reviewers", "tags")
_READ = (*_LISTS, "access_max_duration", "connection_tags", "redact_enabled")  # size as JSON
_EMPTY: dict[str, Any] = {
    **{name: [] for name in _LISTS},
    "access_max_duration": None,
    "connection_tags": {},
    "description": "",
    "redact_enabled": False,
    "resource_name": "",
    "secret": {},
    "tracker_issue_template_id": None,
}


def settings(values: Sequence[str], unset: Sequence[str]) -> Row:
    """Return the body of a PATCH. Raises UsageError."""
    body: Row = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError("--set: write it as FIELD=VALUE")
        if name == "secret":
            raise click.UsageError("--set: use --env for secrets, which encodes them")
        body[name] = _value(name, value)
    for name in unset:
        if name not in _EMPTY:
            raise click.UsageError(
                f"--unset: {one_line(name)!r} cannot be cleared; these fields can: {', '.join(_EMPTY)}"
            )
        body[name] = _EMPTY[name]
    return _without_types(body)


def _without_types(body: Row) -> Row:
    """Disable masking if a body removes all types and does not say otherwise; without types, the gateway would mask the
    default ones."""
    removes = "redact_types" in body and not body["redact_types"] and body.get("redact_enabled") is None
    return {**body, "redact_enabled": False} if removes else body


def _value(name: str, text: str) -> Any:
    if name not in _READ:  # a name such as 2024 stays text
        return text
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        read = text
    if name in _LISTS and not isinstance(read, list):
        return [part.strip() for part in text.split(",") if part.strip()]
    return read


def without(current: dict[str, Any], dropped: Sequence[str], what: str) -> dict[str, Any]:
    """Raises NotFound for what is not there."""
    for key in dropped:
        if key not in current:
            raise NotFound(f"the connection has no {what} {key!r}; it has {', '.join(sorted(current)) or 'none'}")
    return {key: value for key, value in current.items() if key not in dropped}


def agent_id(api: Client, name_or_id: str | None) -> str:
    """Return an agent's id; None for the agent that a connection without one gets. Raises NotFound, Conflict."""
    if name_or_id is None:
        return api.default_agent_id()
    with looking_up(api, AGENT, name_or_id) as agents:
        return str(agents.get(name_or_id)["id"])


def with_agent(api: Client, document: Row) -> Row:
    """Return the body with the identifier of its agent, which `agent` or `agent_id` can name. Raises NotFound."""
    agent = document.get("agent") or document.get("agent_id")
    rest = {key: value for key, value in document.items() if key != "agent"}
    if agent is None or (agent == document.get("agent_id") and is_identifier(str(agent))):
        return rest
    return {**rest, "agent_id": agent_id(api, str(agent))}


def report_unmasked(connection: Row, body: Row) -> None:
    """Warn on standard error that a write removed the last types."""
    if body.get("redact_enabled") is False and not body.get("redact_types", connection["redact_types"]):
        report(
            Status.INFO,
            f"{one_line(connection['name'])}: information types are no longer masked; masking rules "
            "still apply (`postern masking` lists them)",
        )


def warn_of(connection: Row) -> None:
    """Print to standard error which settings of the connection have no effect."""
    name = one_line(connection["name"])
    for warning in connection.get("warnings", ()):
        report(Status.WARNING, f"{name}: {warning}.")
    if connection.get("guardrails_advisory"):
        report(
            Status.INFO,
            "guardrails are advisory here: a shell can express the same in other ways, and a program can "
            "encode its output.",
        )
