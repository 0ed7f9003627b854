"""Resources: groups of connections for one target. The first connection that names one creates it."""

from __future__ import annotations

from postern.domain.identity.principal import Principal
from postern.domain.lists import Listed, Page
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.domain.targets.resource import Resource
from postern.errors import Conflict, NotFound
from postern.services.identity.users import require_admin
from postern.services.rules.access_control import AccessControl
from postern.services.server.audit_context import record_change
from postern.store.ports.target_ports import ServerResourceStore


class Resources:
    def __init__(self, store: ServerResourceStore, control: AccessControl) -> None:
        self._store = store
        self._control = control

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[Resource]:
        """Return resources by name, with the connections that the principal can see; those with none are hidden."""
        return await self._store.find(principal.org_id, await self._control.reach(principal), page, where.name)

    async def get(self, principal: Principal, name_or_id: str) -> Resource:
        """Return a resource. Raises NotFound, also when it is hidden from them."""
        resource = await self._store.get(principal.org_id, name_or_id, await self._control.reach(principal))
        if resource is None:
            raise NotFound(f"there is no resource {name_or_id!r}")
        return resource

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """Remove a resource. Raises Denied, NotFound, and Conflict while connections belong to it."""
        require_admin(principal, "delete resources")
        resource = await self.get(principal, name_or_id)
        if not await self._store.remove(principal.org_id, resource.name):
            now = await self.get(principal, str(resource.id))  # NotFound when another request removed it first
            named = ", ".join(list(now.connections.values())[:5]) + (" and more" if now.total > 5 else "")
            raise Conflict(
                f"resource {now.name!r} has {now.total} connection{'' if now.total == 1 else 's'}: {named}; "
                "delete them, or give them another resource_name, before you delete it"
            )
        record_change({"id": resource.id, "name": resource.name}, None)
