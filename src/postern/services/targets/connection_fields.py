"""The fields of a connection, and their checks, for administrators and agents alike."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from postern.domain.durations import duration_text
from postern.domain.resource_identifiers import is_identifier
from postern.domain.rules.guardrail import Guardrail, unenforceable
from postern.domain.rules.masking import check_redact_types
from postern.domain.secret import Secret
from postern.domain.targets.connection import (
    DATABASE_KEY,
    OPAQUE,
    OPAQUE_REASON,
    SPOKEN,
    SUBTYPES,
    Connection,
    ConnectionType,
    check_database,
    check_list,
    check_name,
    check_secret,
    check_tags,
)
from postern.domain.targets.target_keys import canonical_subtype, check_target_keys
from postern.errors import Invalid, NotFound
from postern.services.rules.rule_fields import printable_groups
from postern.store.ports.common_ports import Signals, Topic
from postern.store.ports.issue_ports import IssueTemplateStore
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore

MAX_DURATION = 10 * 366 * 24 * 3600  # seconds
MAX_LABEL = 128  # characters


class FieldChecks:
    """`enforceable` names the protocols on which guardrails and masking take effect, `parsed` those that have a
    parser, `models` the types that a language model finds here."""

    def __init__(
        self,
        guardrails: NamedResourceStore[Guardrail],
        templates: IssueTemplateStore,
        *,
        enforceable: frozenset[str],
        parsed: frozenset[str] = frozenset(),
        models: frozenset[str] = frozenset(),
    ) -> None:
        self._parsed = parsed
        self._models = models
        self._guardrails = guardrails
        self._templates = templates
        self._enforceable = enforceable

    async def merge(self, current: Connection, fields: Mapping[str, Any]) -> Connection:
        """Return `current` with what the fields say. Raises Invalid."""
        return await self.complete(current, replace(current, **await self.resolve(current, fields)))

    async def resolve(self, current: Connection, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Translate given fields into those of a connection. Raises Invalid.

        Types to mask without `redact_enabled` enable masking: a list of types that masks nothing would be taken for
        protection.
        """
        resolved = {name: value for name, value in fields.items() if name != "default_database"}
        if resolved.get("redact_types"):
            resolved.setdefault("redact_enabled", True)
        if "subtype" in resolved:
            resolved["subtype"] = canonical_subtype(resolved["subtype"])
        resolved["secret"] = _secret_of(current, fields)
        for groups in {"reviewers", "force_approve_groups"} & resolved.keys():
            resolved[groups] = printable_groups(resolved[groups], groups)
        if "guardrail_rules" in resolved:
            resolved["guardrail_rules"] = await self._known_guardrails(current.org_id, resolved["guardrail_rules"])
        if "issue_template_id" in resolved:
            resolved["issue_template_id"] = await self._known_template(current, resolved["issue_template_id"])
        return resolved

    async def complete(self, current: Connection, merged: Connection) -> Connection:
        """Return the new connection after every check of the spec except those of name, agent and
        keys. Raises Invalid."""
        _check_values(merged)
        check_redact_types(merged.redact_types, self._models)
        _check_subtype(merged.type, merged.subtype)
        _check_command(current, merged)
        merged = replace(merged, resource_name=merged.resource_name or merged.name)
        if current.place is None or not merged.leads_where(current):
            merged = replace(merged, place=uuid4())
        self._check_enforceable(merged)
        if set(merged.guardrail_rules) - set(current.guardrail_rules) or merged.protocol != current.protocol:
            await self._check_rules(merged)
        return merged

    async def _check_rules(self, connection: Connection) -> None:
        """Check that each of its guardrails can be enforced on it."""
        for key in connection.guardrail_rules:
            rail = await self._guardrails.get(connection.org_id, key)
            reason = None if rail is None else unenforceable(rail, connection.protocol, self._parsed)
            if reason is not None:
                raise Invalid(f"guardrail_rules: {reason}", field="guardrail_rules")

    async def _known_guardrails(self, org_id: UUID, keys: Sequence[str]) -> tuple[str, ...]:
        ids = {UUID(key) for key in keys if is_identifier(key)}
        existing_ids = (
            {str(key) for key in await self._guardrails.find_existing_ids(org_id, list(ids))} if ids else set()
        )
        for key in keys:
            if not is_identifier(key) or str(UUID(key)) not in existing_ids:
                raise Invalid(f"guardrail_rules: there is no guardrail {key!r}", field="guardrail_rules")
        return tuple(sorted(existing_ids))

    async def _known_template(self, current: Connection, template_id: str | None) -> str | None:
        """Return the template's stored id; an empty text means none, as null does."""
        if not template_id or template_id == current.issue_template_id:
            return template_id or None
        template = await self._templates.get(current.org_id, template_id) if is_identifier(template_id) else None
        if template is None:
            raise Invalid(
                f"tracker_issue_template_id: there is no issue template {template_id!r}",
                field="tracker_issue_template_id",
            )
        return str(template.id)

    def _check_enforceable(self, connection: Connection) -> None:
        is_opaque = connection.protocol in OPAQUE
        if connection.protocol in self._enforceable and not is_opaque:
            return
        rules: dict[str, object] = {
            "guardrail_rules": connection.guardrail_rules,
            "redact_enabled": connection.redact_enabled,
        }
        if is_opaque:  # elsewhere the types alone only have no effect, see Connection.warnings
            rules["redact_types"] = connection.redact_types
        reason = f": {OPAQUE_REASON}" if is_opaque else ""
        for name, value in rules.items():
            if value:
                yet = "" if is_opaque else " yet"
                raise Invalid(f"{name}: cannot be enforced{yet} on subtype {connection.subtype!r}{reason}", field=name)


def _check_subtype(kind: ConnectionType, subtype: str) -> None:
    """Check the subtype. It can be empty (spec 2.1): then the connection is saved, but cannot be opened."""
    allowed = SUBTYPES[kind]
    if subtype and subtype not in allowed:
        raise Invalid(
            f"subtype: {subtype!r} is not one of {', '.join(sorted(allowed))}, which type {kind} has", field="subtype"
        )


def _check_command(current: Connection, saved: Connection) -> None:
    """Reject a command that would never run. A stored one of an older release stays until it is changed."""
    is_new = tuple(saved.command) != tuple(current.command) or saved.subtype != current.subtype
    if saved.command and saved.subtype in SPOKEN and is_new:
        raise Invalid(
            f"command: a connection of subtype {saved.subtype!r} speaks the target's own protocol and runs no command; "
            "leave it out, or use type custom for a command",
            field="command",
        )


def _secret_of(current: Connection, fields: Mapping[str, Any]) -> dict[str, Secret]:
    """Return the secret from the fields. Raises Invalid where both sources of the database are given and differ.

    A key whose value is None keeps its stored value. `default_database` is stored in the attribute `DB`, from which it
    is read. A value that repeats an answer of the API changes nothing.
    """
    secret: Mapping[str, Secret | None] = fields.get("secret", current.secret)
    database = fields.get("default_database")
    if database is None or database == current.default_database:
        return _merge_values(current.secret, secret)
    if fields.get("type", current.type) is not ConnectionType.DATABASE:
        raise Invalid("default_database: only connections of type database have one", field="default_database")
    check_database(database)
    encoded = Secret(base64.b64encode(database.encode()).decode())
    if secret.get(DATABASE_KEY) not in (None, encoded, current.secret.get(DATABASE_KEY)):
        raise Invalid(
            f"default_database: the secret {DATABASE_KEY!r} names a different database; give one of them",
            field="default_database",
        )
    return _merge_values(current.secret, {**secret, DATABASE_KEY: encoded})


def check_keys(current: Connection, saved: Connection) -> None:
    """Check that `saved` has the keys that its subtype needs, and no others. Raises Invalid.

    Checked only where keys or subtype change, so that a connection of an earlier version can be changed in every other
    way. A connection without any secret can be saved (spec 2.1), and be opened once it has one.
    """
    if not saved.secret or (saved.subtype, _filled_keys(saved)) == (current.subtype, _filled_keys(current)):
        return
    empty = [key for key, is_filled in _filled_keys(saved).items() if not is_filled]
    check_target_keys(saved.subtype, saved.secret.keys(), empty)


def _filled_keys(connection: Connection) -> dict[str, bool]:
    """Return, for each key of its secret, whether it has a value."""
    return {key: bool(value) for key, value in connection.secret.items()}


def _check_values(saved: Connection) -> None:
    check_tags(saved.connection_tags)
    check_secret({key: value.reveal() for key, value in saved.secret.items()})
    if saved.access_max_duration is not None and not 1 <= saved.access_max_duration <= MAX_DURATION:
        raise Invalid(
            f"access_max_duration: must be 1 to {MAX_DURATION} seconds ({duration_text(MAX_DURATION)})",
            field="access_max_duration",
        )
    if saved.resource_name:
        check_name(saved.resource_name, "resource_name")
    for listed in ("command", "guardrail_rules", "redact_types", "tags"):
        check_list(getattr(saved, listed), listed)
    if not all(1 <= len(label) <= MAX_LABEL for label in saved.tags):
        raise Invalid(f"tags: each must be 1 to {MAX_LABEL} characters", field="tags")


def _merge_values(stored: Mapping[str, Secret], changes: Mapping[str, Secret | None]) -> dict[str, Secret]:
    values = {}
    for key, value in changes.items():
        secret = stored.get(key) if value is None else value
        if secret is None:
            raise Invalid(f"secret: {key!r} has no stored value to keep with null; give a value", field="secret")
        values[key] = secret
    return values


async def withdraw(store: ConnectionStore, signals: Signals, connection: Connection) -> None:
    """Remove the connection with its credentials, and end its sessions. Raises Conflict where it was changed since it
    was read."""
    with suppress(NotFound):
        await store.remove(connection)
    await end_sessions(store, signals, connection)


async def signal_connection(signals: Signals, connection: Connection) -> None:
    """Signal to every process that the connection was created, changed or removed."""
    await signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection.id), org_id=str(connection.org_id))


async def end_sessions(store: ConnectionStore, signals: Signals, connection: Connection) -> None:
    """Signal to workers that the connection was removed."""
    await signal_connection(signals, connection)
    for session_id in await store.open_sessions(connection.id):
        await signals.publish(Topic.SESSION_KILL, session_id=str(session_id), reason="revoked")
