"""Issue templates: how the issue of a session is filled in (spec 2.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.issues.issue import DEFAULT_TRANSITION, IssueTemplate
from postern.domain.issues.issue_fields import check_template
from postern.domain.lists import Listed, Page
from postern.domain.resource_names import as_identifier
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Invalid, NotFound
from postern.services.named_resources import ResourceService
from postern.services.rules.access_control import AccessControl
from postern.services.rules.rule_fields import MAX_CONNECTIONS, MAX_RULES
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.issue_ports import IssueTemplateStore
from postern.store.ports.target_ports import ConnectionStore


class IssueTemplates(ResourceService[IssueTemplate]):
    """Changes do not affect existing issues. Users see the templates of connections that they see, since these prompt
    them.

    A write without `connection_ids` keeps them: connections choose their template, too.
    """

    noun = "issue template"

    def __init__(
        self,
        store: IssueTemplateStore,
        connections: ConnectionStore,
        control: AccessControl,
        signals: Signals,
        now: Clock,
    ) -> None:
        super().__init__(store, signals, now)
        self._templates = store
        self._connections = connections
        self._control = control

    def blank(self, key: UUID, org_id: UUID) -> IssueTemplate:
        return IssueTemplate(key, org_id, "", "", "")

    async def resolve(self, current: IssueTemplate, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = {"connection_ids": None, **fields}
        if "transition" in resolved:
            resolved["transition"] = resolved["transition"] or DEFAULT_TRANSITION
        if resolved["connection_ids"] is not None:
            resolved["connection_ids"] = await self._resolve_connections(current.org_id, resolved["connection_ids"])
        return resolved

    async def check(self, resource: IssueTemplate) -> None:
        check_template(resource)

    def is_same(self, before: IssueTemplate, after: IssueTemplate) -> bool:
        if after.connection_ids is None:
            after = replace(after, connection_ids=before.connection_ids)
        return super().is_same(before, after)

    async def announce(self, before: IssueTemplate | None, after: IssueTemplate | None) -> None:
        """Tell the workers about the connections that had the template or have it."""
        connections = {
            (key, template.org_id)
            for template in (before, after)
            if template is not None
            for key in template.connection_ids or ()
        }
        for key, org_id in connections:
            await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(key), org_id=str(org_id))

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[IssueTemplate]:
        return await self._templates.find(principal.org_id, page, where, await self._control.reach(principal))

    async def get(self, principal: Principal, name_or_id: str) -> IssueTemplate:
        """Return the template. Raises NotFound, also where they cannot see it."""
        return await self.existing(principal, name_or_id)

    async def existing(self, principal: Principal, name_or_id: str) -> IssueTemplate:
        template = await self._templates.get(principal.org_id, name_or_id, await self._control.reach(principal))
        if template is None:
            raise NotFound(f"there is no issue template {name_or_id!r}")
        return template

    async def ask_for(self, principal: Principal, object_type: str) -> bool:
        """Return whether a visible template asks for the name of such an asset."""
        listed = await self.find(principal, Page(MAX_RULES))
        assets = (asset for template in listed.items for asset in template.cmdb)
        return any(field.tracker_object_type == object_type and not field.value for field in assets)

    async def _resolve_connections(self, org_id: UUID, texts: Sequence[str]) -> tuple[UUID, ...]:
        """Return the identifiers of these connections. The store checks whether they may be changed."""
        if len(texts) > MAX_CONNECTIONS:
            raise Invalid(f"connection_ids: at most {MAX_CONNECTIONS}", field="connection_ids")
        keys = [as_identifier(text) for text in texts]
        ids = sorted({key for key in keys if key is not None})
        there = {connection.id for connection in await self._connections.by_ids(org_id, ids)} if ids else set()
        for text, key in zip(texts, keys, strict=True):
            if key not in there:
                raise Invalid(f"connection_ids: there is no connection with id {text!r}", field="connection_ids")
        return tuple(ids)
