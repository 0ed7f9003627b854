"""Issues that sessions open and close in a tracker, and the templates that fill them in (spec 2.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from postern.domain.secret import Secret
from postern.errors import Unavailable

DEFAULT_TRANSITION = "done"


class TrackerKind(StrEnum):
    JIRA_CLOUD = "jira_cloud"
    JIRA_DATA_CENTER = "jira_data_center"
    GITHUB = "github"
    GITLAB = "gitlab"


class WhenDown(StrEnum):
    """What happens to a session whose issue cannot be created now."""

    REFUSE = "refuse"
    GO_ON = "go_on"  # the issue is made later


@dataclass(frozen=True, slots=True)
class TrackerSettings:
    """An organisation's tracker. `token` is an API token (Cloud), a personal access token elsewhere. `authority` is the
    PEM of the CA that issued the tracker's certificate, "" for the public ones."""

    kind: TrackerKind
    url: str
    user: str = ""
    token: Secret = field(default_factory=lambda: Secret(""))
    authority: str = ""
    enabled: bool = True
    when_down: WhenDown = WhenDown.REFUSE
    updated_at: datetime | None = None


class MappingType(StrEnum):
    PRESET = "preset"
    CUSTOM = "custom"


class PromptType(StrEnum):
    TEXT = "text"
    SELECT = "select"
    DATETIME = "datetime-local"


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """A field of every issue: a value of the session, by the name of a preset, or a constant."""

    tracker_field: str
    type: MappingType
    value: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A field that the user who opens a session fills in."""

    tracker_field: str
    label: str
    field_type: PromptType = PromptType.TEXT
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class CmdbField:
    """An object of the tracker's asset management, found by its name among objects of `tracker_object_type`.

    Without a `value` the user who opens a session is prompted for it.
    """

    tracker_field: str
    tracker_object_type: str
    required: bool = False
    value: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class IssueTemplate:
    """`connection_ids` are the connections whose sessions open issues by it: a connection has one template.

    In a write, None leaves them unchanged.
    """

    id: UUID
    org_id: UUID
    name: str
    project_key: str
    request_type_id: str
    description: str = ""
    transition: str = DEFAULT_TRANSITION
    mappings: tuple[FieldMapping, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    cmdb: tuple[CmdbField, ...] = ()
    connection_ids: tuple[UUID, ...] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    version: int = 1
    managed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """An existing issue: its key, and its page."""

    key: str
    url: str


@dataclass(frozen=True, slots=True)
class NewIssue:
    """An issue to create. `fields` are by the tracker's own names, `objects` are names of assets by field: (object
    type, name).

    `marker` is in the issue's text only, and finds an issue that was created already. It has letters, digits, - and _,
    so that it can be a label.
    """

    project_key: str
    request_type_id: str
    marker: str
    summary: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asset:
    """An object of the tracker's asset management."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Assets:
    """One page of assets. `total` is None where the tracker does not count."""

    items: Sequence[Asset]
    total: int | None
    has_next_page: bool


class Uncertain(Unavailable):
    """It is unknown whether the tracker carried out the request: it did not answer completely, or with an internal
    error.

    Other errors of type Unavailable mean that it did not.
    """


class IssueState(StrEnum):
    """The state of one session's issue."""

    WANTED = "wanted"
    WITHDRAWN = "withdrawn"  # its session did not come about, and a tracker may know of it
    MADE = "made"
    CLOSING = "closing"
    CLOSED = "closed"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class SessionIssue:
    """The issue of a session, and what is to be done about it. `issue` is None before it is created, `new` afterwards.

    `ended`: the session has ended, so the issue, once created, goes through `transition`; "" for none. `attempts`:
    since it was wanted, or since it is to be closed. `next_at`: None when nothing is to be done.
    """

    session_id: UUID
    org_id: UUID
    state: IssueState
    new: NewIssue | None
    transition: str
    issue: Issue | None = None
    ended: bool = False
    attempts: int = 0
    next_at: datetime | None = None
    error: str = ""
    created_at: datetime | None = None


# How a session names its issue, in `integrations_metadata`.
ISSUE_KEY, ISSUE_URL = "tracker_issue_key", "tracker_issue_url"


def in_session(issue: Issue) -> dict[str, str]:
    """Return a session's `integrations_metadata` for its issue."""
    return {ISSUE_KEY: issue.key, ISSUE_URL: issue.url}
