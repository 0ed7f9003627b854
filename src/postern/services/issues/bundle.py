"""The services of issues in a tracker, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.access_control import AccessControl
from postern.services.issues.settings import TrackerDesk
from postern.services.issues.templates import IssueTemplates
from postern.services.issues.tracker import Trackers
from postern.store.ports import Clock, Signals, Stores


@dataclass(frozen=True)
class IssueServices:
    issue_templates: IssueTemplates
    tracker: TrackerDesk


def build_issues(
    stores: Stores, control: AccessControl, signals: Signals, now: Clock, trackers: Trackers | None
) -> IssueServices:
    """`trackers`: see `build_services`."""
    templates = IssueTemplates(stores.issue_templates, stores.connections, control, signals, now)
    return IssueServices(
        issue_templates=templates, tracker=TrackerDesk(stores.settings, templates, signals, now, trackers)
    )
