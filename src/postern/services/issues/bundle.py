"""The services of issues in a tracker, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.access_control import AccessControl
from postern.services.issues.templates import IssueTemplates
from postern.store.ports import Clock, Signals, Stores


@dataclass(frozen=True)
class IssueServices:
    issue_templates: IssueTemplates


def build_issues(stores: Stores, control: AccessControl, signals: Signals, now: Clock) -> IssueServices:
    return IssueServices(
        issue_templates=IssueTemplates(stores.issue_templates, stores.connections, control, signals, now),
    )
