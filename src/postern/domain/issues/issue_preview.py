"""What an issue template would create for a session: the issue as it would be sent, and the fields that stay empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.issues.issue import FieldMapping, IssueTemplate, MappingType, NewIssue
from postern.domain.issues.issue_fields import (
    PromptedField,
    check_template,
    checked_prompts,
    is_preset,
    new_issue,
    preset_value,
    prompted_fields,
)
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.domain.targets.connection import OF_TABLES, Connection, ConnectionType

DRAFT_NAME = "draft"  # of a template that has no name yet
EXAMPLE_ID = UUID("00000000-0000-4000-8000-000000000001")
EXAMPLE_SCRIPT = "update orders set state = 'shipped' where id = 1042"
EXAMPLE_TAGS = {"environment": "production", "team": "shop"}


class FieldState(StrEnum):
    """Why a field is not filled in."""

    UNKNOWN = "unknown"  # no session has such a value; the template cannot be saved
    EMPTY = "empty"  # this session has no such value
    PROMPTED = "prompted"  # the user of the session fills it in, and no value was given


@dataclass(frozen=True, slots=True)
class UnfilledField:
    """`source` is the preset, or the label of the prompt."""

    tracker_field: str
    source: str
    state: FieldState
    required: bool = False


@dataclass(frozen=True, slots=True)
class IssuePreview:
    issue: NewIssue
    unfilled: tuple[UnfilledField, ...]


def preview_issue(template: IssueTemplate, session: Session, values: Mapping[str, str], link: str) -> IssuePreview:
    """Return the issue of this session. `values` are those of prompts; missing ones are reported, not required.

    Raises Invalid for a template that could not be saved, except for its name and unknown presets.
    """
    unknown = [mapping for mapping in template.mappings if _is_unknown(mapping)]
    known = replace(
        template,
        name=template.name or DRAFT_NAME,
        mappings=tuple(mapping for mapping in template.mappings if mapping not in unknown),
        prompts=tuple(replace(prompt, required=False) for prompt in template.prompts),
        cmdb=tuple(replace(asset, required=False) for asset in template.cmdb),
    )
    check_template(known)
    prompts = checked_prompts(known, values)
    unfilled = (
        *(UnfilledField(mapping.tracker_field, mapping.value, FieldState.UNKNOWN) for mapping in unknown),
        *_empty(known, session, link),
        *(_as_unfilled(field) for field in prompted_fields(template) if field.tracker_field not in prompts),
    )
    return IssuePreview(new_issue(known, session, prompts, link), unfilled)


def example_session(org_id: UUID, connection: Connection | None, at: datetime) -> Session:
    """Return a fictional session of this connection, or of a fictional one."""
    return Session(
        id=EXAMPLE_ID,
        org_id=org_id,
        connection_id=EXAMPLE_ID if connection is None else connection.id,
        connection="orders" if connection is None else connection.name,
        connection_subtype=min(OF_TABLES) if connection is None else connection.subtype,
        connection_tags=EXAMPLE_TAGS if connection is None else connection.connection_tags,
        type=ConnectionType.DATABASE if connection is None else connection.type,
        verb=Verb.EXEC,
        status=SessionStatus.OPEN,
        user="alice@example.com",
        user_id="alice",
        user_name="Alice Example",
        start_date=at,
        script=EXAMPLE_SCRIPT,
        script_size=len(EXAMPLE_SCRIPT),
    )


def _is_unknown(mapping: FieldMapping) -> bool:
    return mapping.type is MappingType.PRESET and not is_preset(mapping.value)


def _empty(template: IssueTemplate, session: Session, link: str) -> Iterator[UnfilledField]:
    for mapping in template.mappings:
        if mapping.type is MappingType.PRESET and not preset_value(mapping.value, session, link):
            yield UnfilledField(mapping.tracker_field, mapping.value, FieldState.EMPTY)


def _as_unfilled(field: PromptedField) -> UnfilledField:
    return UnfilledField(field.tracker_field, field.label, FieldState.PROMPTED, field.required)
