"""Issue templates: what admins write about how the issue of a session is filled in (spec 2.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.issue import DEFAULT_TRANSITION, CmdbField, FieldMapping, IssueTemplate, Prompt
from postern.domain.issue_fields import check_template
from postern.domain.lists import Listed, Page
from postern.domain.targets.connection import is_identifier
from postern.errors import Invalid, NotFound
from postern.services.identity.users import require_admin
from postern.services.rules.access_control import AccessControl
from postern.services.rules.rule_fields import MAX_CONNECTIONS, MAX_RULES, check_room
from postern.services.server.trail import changed
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.issue_ports import BoundTemplate, IssueTemplateStore
from postern.store.ports.target_ports import ConnectionStore

__all__ = ["BoundTemplate", "IssueTemplateFields", "IssueTemplates"]

_WHAT, _DEED = "issue templates", "change issue templates"


@dataclass(frozen=True, slots=True)
class IssueTemplateFields:
    """What a writer sets. None for `connection_ids` keeps what is there: connections choose their template, too."""

    name: str
    project_key: str
    request_type_id: str
    description: str = ""
    transition: str = DEFAULT_TRANSITION
    mappings: tuple[FieldMapping, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    cmdb: tuple[CmdbField, ...] = ()
    connection_ids: tuple[str, ...] | None = None


class IssueTemplates:
    def __init__(
        self,
        store: IssueTemplateStore,
        connections: ConnectionStore,
        control: AccessControl,
        signals: Signals,
        now: Clock,
    ) -> None:
        self._control = control
        self._store = store
        self._connections = connections
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[BoundTemplate]:
        """By name. Who may not see all sees those of the connections that they see, since these ask them something."""
        return await self._store.find(principal.org_id, page, await self._control.reach(principal))

    async def get(self, principal: Principal, template_id: str) -> BoundTemplate:
        """Raises NotFound, also where they do not see it."""
        return await self._existing(principal, template_id)

    async def ask_for(self, principal: Principal, object_type: str) -> bool:
        """Whether one that they see asks for the name of such an asset."""
        found = await self._store.find(principal.org_id, Page(MAX_RULES), await self._control.reach(principal))
        assets = (asset for bound in found.items for asset in bound.template.cmdb)
        return any(one.tracker_object_type == object_type and not one.value for one in assets)

    async def create(self, principal: Principal, given: IssueTemplateFields) -> BoundTemplate:
        """Raises Denied, Invalid, Conflict, Malformed."""
        require_admin(principal, _DEED)
        check_room((await self._store.find(principal.org_id, Page(limit=1))).total, _WHAT)
        at = self._now()
        template = _merged(IssueTemplate(uuid4(), principal.org_id, "", "", "", created_at=at, updated_at=at), given)
        ids = await self._checked_connections(principal.org_id, given.connection_ids or ())
        await self._store.add(template, ids)
        return await self._told(principal, None, template)

    async def replace(self, principal: Principal, template_id: str, given: IssueTemplateFields) -> BoundTemplate:
        """Issues that were made stay as they are. Raises Denied, NotFound, Invalid, Conflict, Malformed."""
        require_admin(principal, _DEED)
        current = await self._existing(principal, template_id)
        template = _merged(replace(current.template, updated_at=self._now()), given)
        ids = None
        if given.connection_ids is not None:
            ids = await self._checked_connections(principal.org_id, given.connection_ids)
        await self._store.update(template, ids)
        return await self._told(principal, current, template)

    async def remove(self, principal: Principal, template_id: str) -> None:
        """The connections that had it have none: sessions there open no issue any more. Raises Denied, NotFound."""
        require_admin(principal, _DEED)
        current = await self._existing(principal, template_id)
        await self._store.remove(current.template.id, self._now())
        changed(current, None)
        await self._tell(current.connection_ids)

    async def _existing(self, principal: Principal, template_id: str) -> BoundTemplate:
        found = await self._store.get(principal.org_id, template_id, await self._control.reach(principal))
        if found is None:
            raise NotFound(f"there is no issue template {template_id!r}")
        return found

    async def _checked_connections(self, org_id: UUID, given: tuple[str, ...]) -> frozenset[UUID]:
        """Whether they may be changed the store asks, when it has them locked."""
        if len(given) > MAX_CONNECTIONS:
            raise Invalid(f"connection_ids: at most {MAX_CONNECTIONS}", field="connection_ids")
        ids = frozenset(UUID(text) for text in given if is_identifier(text))
        there = {one.id for one in await self._connections.by_ids(org_id, sorted(ids))} if ids else set()
        for text in given:
            if not is_identifier(text) or UUID(text) not in there:
                raise Invalid(f"connection_ids: there is no connection with id {text!r}", field="connection_ids")
        return ids

    async def _told(self, principal: Principal, before: BoundTemplate | None, after: IssueTemplate) -> BoundTemplate:
        made = await self._existing(principal, str(after.id))
        changed(before, made)
        await self._tell({*made.connection_ids, *(before.connection_ids if before else ())})
        return made

    async def _tell(self, connection_ids: Iterable[UUID]) -> None:
        for connection_id in connection_ids:
            await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection_id))


def _merged(current: IssueTemplate, given: IssueTemplateFields) -> IssueTemplate:
    merged = replace(
        current,
        name=given.name,
        description=given.description,
        project_key=given.project_key,
        request_type_id=given.request_type_id,
        transition=given.transition or DEFAULT_TRANSITION,
        mappings=given.mappings,
        prompts=given.prompts,
        cmdb=given.cmdb,
    )
    check_template(merged)
    return merged
