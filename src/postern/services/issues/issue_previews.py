"""Previews of issue templates, saved or drafted: nothing is stored, and the tracker is not contacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.issues.issue import IssueTemplate
from postern.domain.issues.issue_preview import IssuePreview, example_session, preview_issue
from postern.domain.sessions.session import Session
from postern.errors import Invalid, NotFound
from postern.services.identity.users import require_admin
from postern.services.issues.session_issues import Link
from postern.services.issues.templates import IssueTemplates
from postern.services.named_resources import replace_fields
from postern.store.ports.common_ports import Clock
from postern.store.ports.target_ports import ConnectionStore, SessionStore


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """Either `template_id` names a saved template, or `draft` has the fields of one. Without a `session_id` the preview
    is for an example session."""

    template_id: str | None
    draft: Mapping[str, Any] | None
    session_id: UUID | None
    values: Mapping[str, str]


class IssuePreviews:
    def __init__(
        self,
        templates: IssueTemplates,
        sessions: SessionStore,
        connections: ConnectionStore,
        link: Link,
        now: Clock,
    ) -> None:
        self._templates = templates
        self._sessions = sessions
        self._connections = connections
        self._link = link
        self._now = now

    async def preview(self, principal: Principal, request: PreviewRequest) -> IssuePreview:
        """Return the issue that a session would open. Raises Denied, NotFound, Invalid."""
        require_admin(principal, "preview issue templates")
        template = await self._template(principal, request)
        session = await self._session(principal, template, request.session_id)
        return preview_issue(template, session, request.values, await self._link(session.id))

    async def _template(self, principal: Principal, request: PreviewRequest) -> IssueTemplate:
        if (request.template_id is None) == (request.draft is None):
            raise Invalid("template: give either a saved template as template_id, or a draft", field="template")
        if request.template_id is not None:
            return await self._templates.get(principal, request.template_id)
        blank = self._templates.new(principal.org_id)
        return replace_fields(blank, **await self._templates.resolve(blank, request.draft or {}))

    async def _session(self, principal: Principal, template: IssueTemplate, session_id: UUID | None) -> Session:
        if session_id is None:
            ids = list(template.connection_ids or ())[:1]
            connections = await self._connections.by_ids(principal.org_id, ids) if ids else []
            return example_session(principal.org_id, next(iter(connections), None), self._now())
        session = await self._sessions.get(principal.org_id, session_id)
        if session is None:
            raise NotFound(f"there is no session {session_id}")
        return session
