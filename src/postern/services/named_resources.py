"""Management of named resources: list, show, create, update, replace and delete them.

The service of one kind defines the fields and checks them. Authorisation, versions, the audit log and signals of
changes are here, once for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.lists import Listed, Page
from postern.domain.named_resource import BY_AGENT, NamedResource, plural
from postern.domain.resource_names import check_resource_name
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Invalid, NotFound, PreconditionFailed
from postern.services.identity.users import require_admin, require_reader
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.named_resource_ports import NamedResourceStore

MAX_DESCRIPTION = 10_000
_NEVER_RESET = ("created_at", "version", "managed_by")
_MANAGER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")

R = TypeVar("R", bound=NamedResource)


class ResourceService(Generic[R]):
    """`noun` is the name of the resource in errors. Fields of a request have the names of the resource's fields, except
    for those that `resolve` translates.

    A replacement resets the fields that it does not give, except for `preserved_fields`, which change elsewhere, too.
    """

    noun: str
    preserved_fields: frozenset[str] = frozenset()

    def __init__(self, store: NamedResourceStore[R], signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now

    # Overridden by each kind of resource

    def blank(self, key: UUID, org_id: UUID) -> R:
        """Return a resource as it is before anything is set."""
        raise NotImplementedError

    async def resolve(self, current: R, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Turn what a request gives into the resource's own fields. Raises Invalid."""
        return fields

    def check_name(self, name: str) -> None:
        """Raise Invalid for a bad name. Kinds that are older than the common grammar accept their former names."""
        check_resource_name(name)

    async def check(self, resource: R) -> None:
        """Raise Invalid for what could not take effect."""

    async def authorize(self, principal: Principal, before: R | None, after: R | None) -> None:
        """Check what only some administrators may do: `before` is None for a new one, `after` for a removal. Raises
        Denied, Invalid."""

    def audit_view(self, resource: R) -> object:
        """Return what the audit log shows of a resource."""
        return resource

    async def announce(self, before: R | None, after: R | None) -> None:
        """Signal the change to workers. For rules that may cover any connection, all of the organisation's sessions are
        re-checked."""
        for resource in (after, before):
            if resource is not None:
                await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(resource.org_id))
                return

    # Operations of administrators

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[R]:
        """Return a page, by name. Raises Denied."""
        require_reader(principal, plural(self.noun))
        return await self._store.find(principal.org_id, page, where)

    async def get(self, principal: Principal, name_or_id: str) -> R:
        """Return the resource. Raises Denied, NotFound."""
        require_reader(principal, plural(self.noun))
        return await self.existing(principal, name_or_id)

    async def create(self, principal: Principal, fields: Mapping[str, Any]) -> R:
        """Create a resource. Raises Denied, Invalid, Conflict."""
        self.require_admin(principal)
        blank = self.new(principal.org_id)
        return await self._write_merged(principal, None, await self.merge(blank, blank, fields))

    async def update(
        self, principal: Principal, name_or_id: str, fields: Mapping[str, Any], version: int | None = None
    ) -> R:
        """Change the given fields alone. Raises Denied, NotFound, Invalid, Conflict, PreconditionFailed."""
        self.require_admin(principal)
        current = await self._current(principal, name_or_id, version)
        return await self._write_merged(principal, current, await self.merge(current, current, fields))

    async def replace(
        self, principal: Principal, name_or_id: str, fields: Mapping[str, Any], version: int | None = None
    ) -> R:
        """Set all fields. Raises Denied, NotFound, Invalid, Conflict, PreconditionFailed."""
        self.require_admin(principal)
        current = await self._current(principal, name_or_id, version)
        return await self._write_merged(
            principal, current, await self.merge(current, self.reset_fields(current), fields)
        )

    async def remove(self, principal: Principal, name_or_id: str, version: int | None = None) -> None:
        """Delete the resource. Raises Denied, NotFound, Conflict, PreconditionFailed."""
        self.require_remover(principal)
        current = await self._current(principal, name_or_id, version)
        await self.authorize(principal, current, None)
        await self.delete(current)

    async def existing(self, principal: Principal, name_or_id: str) -> R:
        """Return the resource. Raises NotFound."""
        resource = await self._store.get(principal.org_id, name_or_id)
        if resource is None:
            raise NotFound(f"there is no {self.noun} {name_or_id!r}")
        return resource

    def require_admin(self, principal: Principal) -> None:
        """Raise Denied where the principal cannot change such resources."""
        require_admin(principal, f"change {plural(self.noun)}")

    def require_remover(self, principal: Principal) -> None:
        """Raise Denied where the principal cannot delete such resources."""
        self.require_admin(principal)

    def new(self, org_id: UUID) -> R:
        return replace_fields(self.blank(uuid4(), org_id), created_at=self._now())

    def reset_fields(self, current: R) -> R:
        """Return the resource without what a replacement sets anew."""
        unchanged = {name: getattr(current, name) for name in (*_NEVER_RESET, *self.preserved_fields)}
        return replace_fields(self.blank(current.id, current.org_id), **unchanged)

    async def _current(self, principal: Principal, name_or_id: str, version: int | None) -> R:
        current = await self.existing(principal, name_or_id)
        check_version(f"{self.noun} {current.name!r}", current.version, version)
        return current

    async def merge(self, current: R, base: R, fields: Mapping[str, Any]) -> R:
        """Return `base` with the given fields; `current` is the stored resource."""
        manager = _checked_manager(current, fields)
        fields = {name: value for name, value in fields.items() if name != "managed_by"}
        if "name" in fields:
            self.check_name(fields["name"])
        if len(fields.get("description", "")) > MAX_DESCRIPTION:
            raise Invalid(f"description: at most {MAX_DESCRIPTION} characters", field="description")
        resolved = await self.resolve(current, fields)
        merged = replace_fields(base, **resolved, managed_by=manager, updated_at=self._now())
        if not merged.name:
            raise Invalid("name: is required", field="name")
        await self.check(merged)
        return merged

    async def _write_merged(self, principal: Principal, before: R | None, after: R) -> R:
        """Write a change of a request. One that changes nothing is not written, so that it can be repeated."""
        if after.managed_by != (before.managed_by if before else None):
            require_admin(principal, "change what manages a resource")
        if before is not None and self.is_same(before, after):
            return before
        return await self.authorized_write(principal, before, after)

    def is_same(self, before: R, after: R) -> bool:
        """Return whether a change changes nothing."""
        return replace_fields(after, updated_at=getattr(before, "updated_at")) == before  # noqa: B009

    async def authorized_write(self, principal: Principal, before: R | None, after: R) -> R:
        await self.authorize(principal, before, after)
        return await self.write(before, after)

    async def write(self, before: R | None, after: R) -> R:
        """Store a new one, or a change of what was read. Raises NotFound, Conflict."""
        await (self._store.add(after) if before is None else self._store.update(after))
        return await self.publish_write(before, after)

    async def delete(self, current: R) -> None:
        """Delete what was read. Raises NotFound, Conflict."""
        await self._store.remove(replace_fields(current, updated_at=self._now()))  # when what it leaves changed
        record_change(self.audit_view(current), None)
        await self.announce(current, None)

    async def publish_write(self, before: R | None, after: R) -> R:
        """Record a write in the audit log, signal it to workers, and return what is stored, names of linked resources
        included.

        `after` is what was written. Raises NotFound.
        """
        stored = await self._store.get(after.org_id, str(after.id))
        if stored is None:
            raise NotFound(f"the {self.noun} {after.name!r} was deleted meanwhile")
        record_change(None if before is None else self.audit_view(before), self.audit_view(stored))
        await self.announce(before, stored)
        return stored


def _checked_manager(current: NamedResource, fields: Mapping[str, Any]) -> str | None:
    """Return what manages the resource after a change; an empty name is none. That of an agent is not set by requests,
    so it is ignored, as all that only answers have. Raises Invalid."""
    name = fields.get("managed_by")
    if name is None or name.startswith(BY_AGENT):
        return current.managed_by
    if name and not _MANAGER.fullmatch(name):
        raise Invalid(
            "managed_by: must have 1 to 128 letters, digits, dots, hyphens, slashes and underscores, and begin with a "
            "letter or digit",
            field="managed_by",
        )
    return name or None


def check_version(what: str, current: int, expected: int | None) -> None:
    """Raise PreconditionFailed where the request names a different version than the current one."""
    if expected is not None and current != expected:
        raise PreconditionFailed(
            f"{what} has version {current} now, not {expected}; read it again, and repeat the change"
        )


def replace_fields(resource: R, **fields: Any) -> R:
    return replace(resource, **fields)  # type: ignore[type-var]
