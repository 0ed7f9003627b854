"""Connections: what admins configure, and who may see it sees, but for secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from uuid import UUID, uuid4

from postern.domain.agent import ALIVE_FOR
from postern.domain.connection import (
    SUBTYPES,
    Connection,
    ConnectionStatus,
    ConnectionType,
    Toggle,
    check_name,
    check_secret,
    check_tags,
)
from postern.domain.lists import Listed, Page
from postern.domain.masking import InfoType, info_type
from postern.domain.principal import Principal
from postern.domain.resource import TagUse
from postern.domain.secret import Secret
from postern.errors import Conflict, Invalid, Malformed, NotFound
from postern.services.access_control import AccessControl
from postern.services.identity.users import require_admin
from postern.services.server.trail import changed
from postern.store.ports import (
    AgentStore,
    Clock,
    ConnectionFilter,
    ConnectionStore,
    GuardRailStore,
    Signals,
    Topic,
)

__all__ = ["ConnectionFields", "ConnectionFilter", "ConnectionView", "Connections"]

MAX_DURATION = 10 * 366 * 24 * 3600  # seconds
MAX_LIST, MAX_TEXT, MAX_LABEL, MAX_TEMPLATE_ID = 100, 1_000, 128, 255


@dataclass(frozen=True, slots=True)
class ConnectionFields:
    """What a writer sets (spec 2.1). None for `secret`, `guardrail_rules` and `subtype` keeps what is there: the
    first is shown to nobody, the second is also written from the guard rails' side, and a connection without its
    subtype would lose every protection. A key of `secret` whose value is None keeps the value stored under it."""

    name: str
    type: ConnectionType
    agent_id: UUID
    access_mode_connect: Toggle
    access_mode_exec: Toggle
    access_mode_runbooks: Toggle
    access_schema: Toggle
    subtype: str | None = None
    access_max_duration: int | None = None
    command: tuple[str, ...] = ()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    force_approve_groups: tuple[str, ...] = ()
    guardrail_rules: tuple[str, ...] | None = None
    issue_template_id: str | None = None
    redact_enabled: bool = False
    redact_types: tuple[str, ...] = ()
    resource_name: str = ""
    reviewers: tuple[str, ...] = ()
    secret: Mapping[str, Secret | None] | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection and what is derived when it is shown."""

    connection: Connection
    status: ConnectionStatus


class Connections:
    """`enforceable` names the protocols on which guard rails and masking take effect."""

    def __init__(
        self,
        store: ConnectionStore,
        control: AccessControl,
        agents: AgentStore,
        guardrails: GuardRailStore,
        signals: Signals,
        now: Clock,
        *,
        enforceable: frozenset[str],
    ) -> None:
        self._store = store
        self._control = control
        self._agents = agents
        self._guardrails = guardrails
        self._signals = signals
        self._now = now
        self._enforceable = enforceable

    async def find(self, principal: Principal, wanted: ConnectionFilter, page: Page) -> Listed[ConnectionView]:
        """Those that the principal may see, by name, with their secrets; who shows them leaves the values out."""
        reach = await self._control.reach(principal)
        seen = replace(wanted, reach=reach, alive_after=self._now() - ALIVE_FOR)
        found = await self._store.find(principal.org_id, seen, page)
        online = await self._online(principal.org_id)
        return Listed([_view(connection, online) for connection in found.items], found.total)

    async def tags(self, principal: Principal, page: Page) -> Listed[TagUse]:
        """By key and value, of the connections that the principal may see."""
        return await self._store.tags(principal.org_id, await self._control.reach(principal), page)

    async def get(self, principal: Principal, name_or_id: str) -> ConnectionView:
        """With its secrets; who shows it leaves their values out. Raises NotFound, also when it is hidden from them."""
        found = await self._control.find(principal, name_or_id)
        if found is None:
            raise NotFound(f"there is no connection {name_or_id!r}")
        return _view(found, await self._online(principal.org_id))

    async def create(self, principal: Principal, given: ConnectionFields) -> ConnectionView:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change connections")
        at = self._now()
        empty = Connection(uuid4(), principal.org_id, given.name, given.type, "", given.agent_id)
        check_name(given.name)
        if _is_uuid(given.name):
            raise Invalid("name: must not look like an identifier", field="name")
        if await self._store.get(principal.org_id, given.name) is not None:
            raise Conflict(f"name: a connection {given.name!r} exists already", field="name")
        connection = replace(await self._merged(empty, given), created_at=at, updated_at=at)
        await self._store.add(connection)
        changed(None, connection)
        return await self._changed(principal, connection)

    async def replace(self, principal: Principal, name_or_id: str, given: ConnectionFields) -> ConnectionView:
        """All settings become those given, or their defaults. Raises Denied, NotFound, Invalid, Malformed."""
        current = await self._changeable(principal, name_or_id)
        return await self._save(principal, current, given)

    async def patch(self, principal: Principal, name_or_id: str, changes: Mapping[str, Any]) -> ConnectionView:
        """`changes` maps names of ConnectionFields to values; the rest stays. Raises as `replace`."""
        current = await self._changeable(principal, name_or_id)
        as_is = ConnectionFields(**{spec.name: getattr(current, spec.name) for spec in fields(ConnectionFields)})
        return await self._save(principal, current, replace(as_is, **changes))

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """With its credentials; its live sessions are ended. Raises Denied, NotFound, Malformed."""
        current = await self._changeable(principal, name_or_id)
        live = await self._store.remove(current.id)
        changed(current, None)
        await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(current.id))
        for session_id in live:
            await self._signals.publish(Topic.SESSION_KILL, session_id=str(session_id), reason="revoked")

    async def _save(self, principal: Principal, current: Connection, given: ConnectionFields) -> ConnectionView:
        if given.name != current.name:
            raise Invalid(f"name: cannot be changed from {current.name!r} to {given.name!r}", field="name")
        connection = replace(await self._merged(current, given), updated_at=self._now())
        await self._store.update(connection)
        changed(current, connection)
        return await self._changed(principal, connection)

    async def _changed(self, principal: Principal, connection: Connection) -> ConnectionView:
        await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection.id))
        return _view(connection, await self._online(principal.org_id))

    async def _changeable(self, principal: Principal, name_or_id: str) -> Connection:
        require_admin(principal, "change connections")
        current = (await self.get(principal, name_or_id)).connection
        if current.managed_by is not None:
            raise Malformed(f"connection {current.name!r} is managed by {current.managed_by}; change it there")
        return current

    async def _online(self, org_id: UUID) -> frozenset[UUID]:
        now = self._now()
        return frozenset(agent.id for agent in await self._agents.all(org_id) if agent.is_online(now))

    async def _merged(self, current: Connection, given: ConnectionFields) -> Connection:
        """What `given` makes of `current`, after every check of the spec."""
        _check_fields(given)
        _check_subtype(given.type, current.subtype if given.subtype is None else given.subtype)
        values = {spec.name: getattr(given, spec.name) for spec in fields(given)}
        for kept in ("subtype", "secret", "guardrail_rules"):
            if values[kept] is None:
                values[kept] = getattr(current, kept)
        values["secret"] = _kept_values(current.secret, values["secret"])
        values["resource_name"] = given.resource_name or given.name
        values["guardrail_rules"] = await self._known_guardrails(current.org_id, values["guardrail_rules"])
        merged = replace(current, **values)
        if await self._agents.get(current.org_id, str(given.agent_id)) is None:
            raise Invalid(f"agent_id: there is no agent {given.agent_id}", field="agent_id")
        self._check_enforceable(merged)
        return merged

    async def _known_guardrails(self, org_id: UUID, given: tuple[str, ...]) -> tuple[str, ...]:
        ids = {UUID(key) for key in given if _is_uuid(key)}
        known = {str(key) for key in await self._guardrails.known(org_id, list(ids))} if ids else set()
        for key in given:
            if not _is_uuid(key) or str(UUID(key)) not in known:
                raise Invalid(f"guardrail_rules: there is no guard rail {key!r}", field="guardrail_rules")
        return tuple(sorted(known))

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


def _check_fields(given: ConnectionFields) -> None:
    check_tags(given.connection_tags)
    check_secret({key: value.reveal() for key, value in (given.secret or {}).items() if value is not None})
    for name in given.redact_types:
        if info_type(name) is None:
            raise Invalid(
                f"redact_types: {name!r} is not known; there are {', '.join(sorted(InfoType))}", field="redact_types"
            )
    if given.access_max_duration is not None and not 1 <= given.access_max_duration <= MAX_DURATION:
        raise Invalid(f"access_max_duration: must be 1 to {MAX_DURATION} seconds", field="access_max_duration")
    if given.resource_name:
        check_name(given.resource_name, "resource_name")
    for listed in ("command", "force_approve_groups", "guardrail_rules", "redact_types", "reviewers", "tags"):
        values: tuple[str, ...] = getattr(given, listed) or ()
        if len(values) > MAX_LIST or any(len(value) > MAX_TEXT for value in values):
            raise Invalid(f"{listed}: at most {MAX_LIST} entries of {MAX_TEXT} characters", field=listed)
    if not all(1 <= len(label) <= MAX_LABEL for label in given.tags):
        raise Invalid(f"tags: each must be 1 to {MAX_LABEL} characters", field="tags")
    if given.issue_template_id is not None and len(given.issue_template_id) > MAX_TEMPLATE_ID:
        raise Invalid(
            f"tracker_issue_template_id: at most {MAX_TEMPLATE_ID} characters", field="tracker_issue_template_id"
        )


def _kept_values(stored: Mapping[str, Secret], given: Mapping[str, Secret | None]) -> dict[str, Secret]:
    found = {}
    for key, value in given.items():
        kept = stored.get(key) if value is None else value
        if kept is None:
            raise Invalid(f"secret: {key!r} has no stored value that null could keep; give one", field="secret")
        found[key] = kept
    return found


def _view(connection: Connection, online: frozenset[UUID]) -> ConnectionView:
    status = ConnectionStatus.ONLINE if connection.agent_id in online else ConnectionStatus.OFFLINE
    return ConnectionView(connection, status)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
