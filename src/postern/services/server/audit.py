"""The audit log: every write of the API, by whom, and its outcome, without secrets."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any
from uuid import UUID, uuid4

from postern.domain.facets import Facets
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page, Stretch
from postern.domain.secret import Secret
from postern.domain.targets.agent import Agent
from postern.errors import Denied, NotFound
from postern.services.server.audit_context import AuditContext
from postern.store.ports.common_ports import Clock
from postern.store.ports.server_ports import AuditEntry, AuditFacet, AuditFilter, AuditStore, OrganisationStore

__all__ = ["Audit", "AuditEntry", "AuditFacet", "AuditFilter", "redact"]

_SECRET_WORDS = ("password", "secret", "token", "key", "credential", "env", "authorization")
# Of the steps of a login, good once, but for a while; and what requests to receivers carry, whatever it is called.
_SECRET_NAMES = frozenset(
    {"code", "code_verifier", "device_code", "user_code", "ticket", "assertion", "headers"}
    | {"parameters"}  # of a runbook: which of them are secret is known once it was read; its session says the others
    | {"tracker_fields"}  # they are sealed with the issue that they are for
)
# Own fields whose names look like secrets but are not. In other objects clients choose the names.
_PLAIN_NAMES = frozenset({"project_key"})  # in a tracker: what the keys of its issues begin with
_BULKY = frozenset({"script"})  # stored with its session
_REDACTED = "[REDACTED]"
_IN_URL = re.compile(r"(https?://)[^/\s@]{1,4000}@", re.IGNORECASE)  # user name and password
_MAX_TEXT, _MAX_ITEMS, _MAX_DEPTH = 1_000, 100, 8


@dataclass(frozen=True, slots=True)
class _Action:
    """An action; `method` and `path` say how it was done, `source` from where."""

    action: str
    resource_type: str
    resource: str
    method: str
    path: str
    source: str


class Audit:
    def __init__(self, store: AuditStore, organisations: OrganisationStore, now: Clock) -> None:
        self._store = store
        self._organisations = organisations
        self._now = now

    async def record(
        self,
        actor: Principal | None,
        *,
        claimed: str,
        organisation: str | None = None,
        action: str,
        resource_type: str,
        resource: str,
        method: str,
        path: str,
        status: int,
        source: str,
        request_id: str,
        body: object,
        audit_context: AuditContext | None = None,
    ) -> None:
        """Store an entry. `claimed` is the given e-mail when the actor is unknown (`actor` is None).

        `organisation` is the given name of theirs, which gets the entry if it exists.
        """
        entry = AuditEntry(
            id=uuid4(),
            org_id=actor.org_id if actor else await self._org_id(organisation),
            at=self._now(),
            actor_id=actor.id if actor else None,
            actor_subject=actor.subject if actor else "",
            actor_email=_storable(actor.email if actor else claimed)[:320],
            action=action,
            resource_type=resource_type,
            resource=_storable(resource)[:255],
            method=method,
            path=_storable(path)[:_MAX_TEXT],
            status=status,
            outcome="success" if status < 400 else "failure",
            source=_storable(source)[:255],
            request_id=request_id,
            body=redact(body) if isinstance(body, Mapping) else {},
            before=_redact_resource(audit_context.before) if audit_context else None,
            after=_redact_resource(audit_context.after) if audit_context else None,
        )
        await self._store.add(entry)

    async def _org_id(self, name: str | None) -> UUID:
        organisation = await self._organisations.by_name(name) if name is not None else None
        return (organisation or await self._organisations.default()).id

    async def on_host(
        self,
        command: str,
        *,
        action: str,
        resource_type: str,
        resource: str = "",
        audit_context: AuditContext | None = None,
    ) -> None:
        """Store what a command on the server's own machine did, without a login.

        The entry names the system user, and goes to the default organisation.
        """
        org_id, subject = (await self._organisations.default()).id, f"host:{_system_user()}"
        described = _Action(action, resource_type, resource, "COMMAND", command, "host")
        await self._store.add(self._gateway_entry(org_id, subject, described, audit_context))

    async def by_agent(
        self,
        agent: Agent,
        call: str,
        *,
        action: str,
        resource_type: str,
        resource: str,
        source: str,
        audit_context: AuditContext,
    ) -> None:
        """Store what an agent changed by a `call` of the control service, from the address `source`; the entry is its
        organisation's."""
        described = _Action(action, resource_type, resource, "CONTROL", call, source)
        await self._store.add(self._gateway_entry(agent.org_id, f"agent:{agent.name}", described, audit_context))

    def by_gateway(
        self, org_id: UUID, work: str, *, action: str, resource_type: str, resource: str, audit_context: AuditContext
    ) -> AuditEntry:
        """Return an entry for what the gateway itself does, so that the caller can store it with the change."""
        described = _Action(action, resource_type, resource, "GATEWAY", work, "gateway")
        return self._gateway_entry(org_id, "gateway", described, audit_context)

    def _gateway_entry(
        self, org_id: UUID, subject: str, described: _Action, audit_context: AuditContext | None
    ) -> AuditEntry:
        """Return an entry without an API request, and so without a status."""
        return AuditEntry(
            id=uuid4(),
            org_id=org_id,
            at=self._now(),
            actor_id=None,
            actor_subject=subject,
            actor_email="",
            action=described.action,
            resource_type=described.resource_type,
            resource=described.resource,
            method=described.method,
            path=described.path,
            status=0,
            outcome="success",
            source=_storable(described.source)[:255],
            request_id="",
            body={},
            before=_redact_resource(audit_context.before) if audit_context else None,
            after=_redact_resource(audit_context.after) if audit_context else None,
        )

    async def get(self, principal: Principal, entry_id: str) -> AuditEntry:
        """Return an entry, for admins and auditors. Raises Denied, NotFound."""
        _require_reader(principal)
        try:
            entry = await self._store.get(principal.org_id, UUID(entry_id))
        except ValueError:
            entry = None
        if entry is None:
            raise NotFound(f"there is no audit entry {entry_id!r}")
        return entry

    async def find(self, principal: Principal, where: AuditFilter, page: Page) -> Stretch[AuditEntry]:
        """Return entries, for admins and auditors. Raises Denied."""
        _require_reader(principal)
        return await self._store.find(principal.org_id, where, page)

    async def facets(self, principal: Principal, where: AuditFilter, names: Sequence[AuditFacet]) -> Facets:
        """Count the values of fields, over all pages of `find`. Raises Denied."""
        _require_reader(principal)
        return await self._store.facets(principal.org_id, where, names)


def _require_reader(principal: Principal) -> None:
    if not principal.sees_all:
        raise Denied("only administrators and auditors can read the audit log")


def _system_user() -> str:
    """Return the system user's name; its number where it has none."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def redact(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with every value under a secret-sounding key replaced, bounded in size."""
    cleaned: dict[str, Any] = _clean(body, 0, is_ours=True)
    return cleaned


def _redact_resource(resource: object) -> dict[str, Any] | None:
    """Return a resource of the domain as JSON, without its secrets."""
    if resource is None:
        return None
    if is_dataclass(resource) and not isinstance(resource, type):
        resource = {spec.name: getattr(resource, spec.name) for spec in fields(resource)}
    return redact(resource) if isinstance(resource, Mapping) else None


def _clean(value: Any, depth: int, *, is_ours: bool = False) -> Any:
    """Return the value without secrets. `is_ours`: its names are not chosen by clients."""
    if depth > _MAX_DEPTH:
        return "[…]"
    if isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        hidden = _names_secret(value)
        return {
            _storable(str(key))[:_MAX_TEXT]: _REDACTED
            if hidden and str(key).lower() == "value"
            else _value(str(key), item, depth, is_ours=is_ours)
            for key, item in items
        }
    if is_dataclass(value) and not isinstance(value, type):
        return _clean({spec.name: getattr(value, spec.name) for spec in fields(value)}, depth, is_ours=True)
    if isinstance(value, set | frozenset):
        return _clean(sorted(value, key=str), depth)
    if isinstance(value, list | tuple):
        return [_clean(item, depth + 1) for item in value[:_MAX_ITEMS]]
    if isinstance(value, str):
        text = _storable(_IN_URL.sub(rf"\1{_REDACTED}@", value))
        return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
    if value is None or isinstance(value, bool | int | float):
        return value
    return _REDACTED if isinstance(value, Secret | bytes) else _clean(str(value), depth)


def _names_secret(pair: Mapping[Any, Any]) -> bool:
    """Return whether one field names the secret whose value is in `value`, as `path` does in a SCIM patch."""
    named = (text for key, text in pair.items() if str(key).lower() in ("path", "name") and isinstance(text, str))
    return any(_is_secret(text) for text in named)


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return lowered in _SECRET_NAMES or any(word in lowered for word in _SECRET_WORDS)


def _value(key: str, value: Any, depth: int, *, is_ours: bool) -> Any:
    lowered = key.lower()
    if _is_secret(key) and not (is_ours and key in _PLAIN_NAMES):
        return _REDACTED
    if lowered in _BULKY and isinstance(value, str):
        return f"[{len(value.encode(errors='replace'))} bytes]"
    return _clean(value, depth + 1)


def _storable(text: str) -> str:
    """Replace what a store's text cannot hold: NUL and half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()
