"""The fields of a connection as somebody sets them, and the checks that they pass whoever that is."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from uuid import UUID, uuid4

from postern.domain.rules.guardrail import GuardRail, unenforceable
from postern.domain.rules.masking import check_redact_types
from postern.domain.secret import Secret
from postern.domain.targets.connection import (
    DATABASE_KEY,
    SPOKEN,
    SUBTYPES,
    Connection,
    ConnectionType,
    Toggle,
    check_database,
    check_list,
    check_name,
    check_secret,
    check_tags,
    is_identifier,
)
from postern.domain.targets.target_keys import canonical_subtype, check_target_keys
from postern.errors import Invalid
from postern.services.rules.rule_fields import printable_groups
from postern.store.ports.common_ports import Signals, Topic
from postern.store.ports.issue_ports import IssueTemplateStore
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore

MAX_DURATION = 10 * 366 * 24 * 3600  # seconds
MAX_LABEL = 128  # characters


@dataclass(frozen=True, slots=True)
class ConnectionFields:
    """What a writer sets (spec 2.1). None for `secret`, `guardrail_rules` and `subtype` keeps what is there: the
    first is shown to nobody, the second is also written from the guard rails' side, and a connection without its
    subtype would lose every protection. A key of `secret` whose value is None keeps the value stored under it. None for
    `redact_enabled` means that masking is on if and only if `redact_types` names types."""

    name: str
    type: ConnectionType
    agent_id: UUID
    access_mode_connect: Toggle
    access_mode_exec: Toggle
    access_mode_runbooks: Toggle
    access_schema: Toggle
    access_forward_local: Toggle = Toggle.DISABLED
    access_forward_remote: Toggle = Toggle.DISABLED
    access_forward_agent: Toggle = Toggle.DISABLED
    access_file_transfer: Toggle = Toggle.ENABLED
    subtype: str | None = None
    access_max_duration: int | None = None
    command: tuple[str, ...] = ()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    force_approve_groups: tuple[str, ...] = ()
    guardrail_rules: tuple[str, ...] | None = None
    issue_template_id: str | None = None
    redact_enabled: bool | None = None
    redact_types: tuple[str, ...] = ()
    resource_name: str = ""
    reviewers: tuple[str, ...] = ()
    secret: Mapping[str, Secret | None] | None = None
    tags: tuple[str, ...] = ()
    default_database: str | None = None  # another way to write the secret `envvar:DB`; None keeps what is there


def fields_of(connection: Connection) -> ConnectionFields:
    """What sets it to what it is."""
    return ConnectionFields(**{spec.name: getattr(connection, spec.name) for spec in fields(ConnectionFields)})


def patched(connection: Connection, changes: Mapping[str, Any]) -> ConnectionFields:
    """Return the connection's fields with `changes` applied. Types that are set without `redact_enabled` switch masking
    on: a list of types that masks nothing would be taken for protection."""
    if changes.get("redact_types"):
        changes = {"redact_enabled": None, **changes}
    return replace(fields_of(connection), **changes)


class FieldChecks:
    """`enforceable` names the protocols on which guard rails and masking take effect, `parsed` those that have a
    parser, `models` the types that a language model finds here."""

    def __init__(
        self,
        guardrails: NamedResourceStore[GuardRail],
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

    async def merged(self, current: Connection, given: ConnectionFields) -> Connection:
        """What `given` makes of `current`, after every check of the spec but those of its name and agent. Raises
        Invalid."""
        _check_values(given)
        check_redact_types(given.redact_types, self._models)
        if given.subtype is not None:
            given = replace(given, subtype=canonical_subtype(given.subtype))
        _check_subtype(given.type, current.subtype if given.subtype is None else given.subtype)
        _check_command(current, given)
        given = _with_default_database(current, given)
        values = {spec.name: getattr(given, spec.name) for spec in fields(given) if spec.name != "default_database"}
        for kept in ("subtype", "secret", "guardrail_rules"):
            if values[kept] is None:
                values[kept] = getattr(current, kept)
        if given.redact_enabled is None:
            values["redact_enabled"] = bool(given.redact_types)
        values["secret"] = _kept_values(current.secret, values["secret"])
        for groups in ("reviewers", "force_approve_groups"):
            values[groups] = printable_groups(values[groups], groups)
        values["resource_name"] = given.resource_name or given.name
        values["guardrail_rules"] = await self._known_guardrails(current.org_id, values["guardrail_rules"])
        values["issue_template_id"] = await self._known_template(current, given.issue_template_id)
        merged = replace(current, **values)
        if current.place is None or not merged.leads_where(current):
            merged = replace(merged, place=uuid4())
        self._check_enforceable(merged)
        if set(merged.guardrail_rules) - set(current.guardrail_rules) or merged.protocol != current.protocol:
            await self._check_rules(merged)
        return merged

    async def _check_rules(self, connection: Connection) -> None:
        """Each of its guard rails must be able to hold on it."""
        for key in connection.guardrail_rules:
            rail = await self._guardrails.get(connection.org_id, key)
            reason = None if rail is None else unenforceable(rail, connection.protocol, self._parsed)
            if reason is not None:
                raise Invalid(f"guardrail_rules: {reason}", field="guardrail_rules")

    async def _known_guardrails(self, org_id: UUID, given: tuple[str, ...]) -> tuple[str, ...]:
        ids = {UUID(key) for key in given if is_identifier(key)}
        known = {str(key) for key in await self._guardrails.known(org_id, list(ids))} if ids else set()
        for key in given:
            if not is_identifier(key) or str(UUID(key)) not in known:
                raise Invalid(f"guardrail_rules: there is no guard rail {key!r}", field="guardrail_rules")
        return tuple(sorted(known))

    async def _known_template(self, current: Connection, given: str | None) -> str | None:
        """As the store has it; an empty text stands for none, as null does."""
        if not given or given == current.issue_template_id:
            return given or None
        found = await self._templates.get(current.org_id, given) if is_identifier(given) else None
        if found is None:
            raise Invalid(
                f"tracker_issue_template_id: there is no issue template {given!r}", field="tracker_issue_template_id"
            )
        return str(found.id)

    def _check_enforceable(self, connection: Connection) -> None:
        if connection.protocol in self._enforceable:
            return
        for name, wanted in (
            ("guardrail_rules", connection.guardrail_rules),
            ("redact_enabled", connection.redact_enabled),
        ):
            if wanted:
                raise Invalid(f"{name}: cannot be enforced yet on subtype {connection.subtype!r}", field=name)


def _check_subtype(kind: ConnectionType, subtype: str) -> None:
    """None at all is allowed (spec 2.1): then it is saved, and nothing can be opened or enforced on it."""
    allowed = SUBTYPES[kind]
    if subtype and subtype not in allowed:
        raise Invalid(
            f"subtype: {subtype!r} is not one of {', '.join(sorted(allowed))}, which type {kind} has", field="subtype"
        )


def _check_command(current: Connection, given: ConnectionFields) -> None:
    """Refuse a command that would never run. A stored one of an older release stays until it is changed."""
    subtype = current.subtype if given.subtype is None else given.subtype
    is_new = tuple(given.command) != tuple(current.command) or subtype != current.subtype
    if given.command and subtype in SPOKEN and is_new:
        raise Invalid(
            f"command: a connection of subtype {subtype!r} speaks the target's own protocol and runs no command; "
            "leave it out, or use type custom for a command",
            field="command",
        )


def _with_default_database(current: Connection, given: ConnectionFields) -> ConnectionFields:
    """Write `default_database` into the secret attribute `DB`, which it is read from. What an answer said is accepted
    and changes nothing. Raises Invalid where both are given and differ."""
    database = given.default_database
    if database is None or database == current.default_database:
        return given
    if given.type is not ConnectionType.DATABASE:
        raise Invalid("default_database: only connections of type database have one", field="default_database")
    check_database(database)
    encoded = Secret(base64.b64encode(database.encode()).decode())
    secret: Mapping[str, Secret | None] = current.secret if given.secret is None else given.secret
    stated = secret.get(DATABASE_KEY)
    if stated not in (None, encoded, current.secret.get(DATABASE_KEY)):
        raise Invalid(
            f"default_database: the secret {DATABASE_KEY!r} names another database; give one of them",
            field="default_database",
        )
    return replace(given, secret={**secret, DATABASE_KEY: encoded})


def check_keys(current: Connection, saved: Connection) -> None:
    """Check that `saved` has the keys that its subtype needs, and no others.

    Only where keys or subtype change: what was saved by an earlier version can be changed in every other way. A
    connection without any secret can be saved (spec 2.1), and be opened once it has one. Raises Invalid.
    """
    if not saved.secret or (saved.subtype, _filled(saved)) == (current.subtype, _filled(current)):
        return
    empty = [key for key, is_filled in _filled(saved).items() if not is_filled]
    check_target_keys(saved.subtype, saved.secret.keys(), empty)


def _filled(connection: Connection) -> dict[str, bool]:
    """Return, for each key of its secret, whether it has a value."""
    return {key: bool(value) for key, value in connection.secret.items()}


def _check_values(given: ConnectionFields) -> None:
    check_tags(given.connection_tags)
    check_secret({key: value.reveal() for key, value in (given.secret or {}).items() if value is not None})
    if given.access_max_duration is not None and not 1 <= given.access_max_duration <= MAX_DURATION:
        raise Invalid(f"access_max_duration: must be 1 to {MAX_DURATION} seconds", field="access_max_duration")
    if given.resource_name:
        check_name(given.resource_name, "resource_name")
    for listed in ("command", "guardrail_rules", "redact_types", "tags"):
        check_list(getattr(given, listed) or (), listed)
    if not all(1 <= len(label) <= MAX_LABEL for label in given.tags):
        raise Invalid(f"tags: each must be 1 to {MAX_LABEL} characters", field="tags")


def _kept_values(stored: Mapping[str, Secret], given: Mapping[str, Secret | None]) -> dict[str, Secret]:
    found = {}
    for key, value in given.items():
        kept = stored.get(key) if value is None else value
        if kept is None:
            raise Invalid(f"secret: {key!r} has no stored value that null could keep; give one", field="secret")
        found[key] = kept
    return found


async def withdraw(store: ConnectionStore, signals: Signals, connection: Connection) -> None:
    """Removes it with its credentials, and ends its sessions."""
    live = await store.remove(connection.id)
    await signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection.id))
    for session_id in live:
        await signals.publish(Topic.SESSION_KILL, session_id=str(session_id), reason="revoked")
