"""The services of issues in a tracker, built together."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from postern.domain.page_addresses import session_address
from postern.services.issues.issue_listing import SessionIssues
from postern.services.issues.issue_previews import IssuePreviews
from postern.services.issues.session_issues import Issues
from postern.services.issues.templates import IssueTemplates
from postern.services.issues.tracker import Trackers
from postern.services.issues.tracker_settings import IssueTrackers
from postern.services.rules.access_control import AccessControl
from postern.services.server.server_configs import ServerConfigs
from postern.store.ports.common_ports import Clock, Signals
from postern.store.stores import Stores


@dataclass(frozen=True)
class IssueServices:
    issue_templates: IssueTemplates
    issue_previews: IssuePreviews
    issues: Issues
    session_issues: SessionIssues
    tracker: IssueTrackers


def build_issues(
    stores: Stores,
    control: AccessControl,
    configs: ServerConfigs,
    signals: Signals,
    now: Clock,
    trackers: Trackers | None,
) -> IssueServices:
    """Build the services of issues. `trackers`: see `build_services`."""
    templates = IssueTemplates(stores.issue_templates, stores.connections, control, signals, now)
    tracker = IssueTrackers(stores.settings, templates, signals, now, trackers)

    async def link(session_id: UUID) -> str:
        return session_address((await configs.current()).api_url, session_id)

    return IssueServices(
        issue_templates=templates,
        issue_previews=IssuePreviews(templates, stores.sessions, stores.connections, link, now),
        issues=Issues(stores.session_issues, stores.issue_templates, tracker.of, link, signals, now),
        session_issues=SessionIssues(stores.session_issues, signals, now),
        tracker=tracker,
    )
