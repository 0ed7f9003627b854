"""Issues in a tracker that sessions open and close, and the templates by which they are filled in (spec 2.4)."""

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
    """What becomes of a session whose issue cannot be made now."""

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
    """Sent with every issue: a value of the session, by the name of a preset, or one that is always the same."""

    tracker_field: str
    type: MappingType
    value: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Asked of who opens a session."""

    tracker_field: str
    label: str
    field_type: PromptType = PromptType.TEXT
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class CmdbField:
    """An object of the tracker's asset management, found by its name in objects of `tracker_object_type`. Without a
    `value` it is asked of who opens a session, as a prompt is."""

    tracker_field: str
    tracker_object_type: str
    required: bool = False
    value: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class IssueTemplate:
    """`connection_ids` are the connections whose sessions open issues by it: a connection has one template. In a
    write, None leaves them as they are."""

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


@dataclass(frozen=True, slots=True)
class Issue:
    """One that is there: its key, and where people read it."""

    key: str
    url: str


@dataclass(frozen=True, slots=True)
class NewIssue:
    """What a tracker is asked to make. `fields` are by the tracker's own names, `objects` are names of assets by field:
    (object type, name). `marker` is in the issue's text, and on no other: by it one that was made already is found. It
    has letters, digits, - and _, so that it may be a label."""

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
    """One page. `total` is None where the tracker does not count."""

    items: Sequence[Asset]
    total: int | None
    has_next_page: bool


class Uncertain(Unavailable):
    """The tracker was asked, and nobody knows whether it did it: it did not answer to the end, or with a fault of its
    own. Whatever else is Unavailable was surely not done."""


class IssueState(StrEnum):
    """Of the issue of one session."""

    WANTED = "wanted"
    WITHDRAWN = "withdrawn"  # its session did not come about, and a tracker may know of it
    MADE = "made"
    CLOSING = "closing"
    CLOSED = "closed"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class SessionIssue:
    """What is to be done about the issue of a session, and what was done. `issue` is None before it is made, `new` from
    then on.

    `ended`: the session is over, so that the issue, once it is made, goes through `transition`; "" for none.
    `attempts`: since it was wanted, or since it is to be closed. `next_at`: None when nothing is to be done.
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
    """What a session says of its issue, in `integrations_metadata`."""
    return {ISSUE_KEY: issue.key, ISSUE_URL: issue.url}
