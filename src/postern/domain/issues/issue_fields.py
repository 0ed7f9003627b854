"""The content of an issue: checks of a template, and the values from a session and the user who opens it.

That user chooses some values. None of them can steer a terminal, or pass for the marker that identifies the issue of
another session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from postern.domain.issues.issue import IssueTemplate, MappingType, NewIssue, Prompt, PromptType
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import is_tag_key
from postern.domain.text import one_line, printable
from postern.errors import Invalid

GIVEN = "tracker_fields"  # the field of requests with the values of prompts
SUMMARY, TEXT = "summary", "description"  # as trackers call their own
MARKER = "postern-session-"
MAX_ITEMS = 50  # of each kind in a template
MAX_NAME, MAX_LABEL, MAX_DESCRIPTION = 128, 255, 10_000  # characters
MAX_VALUE, MAX_SCRIPT, MAX_SUMMARY = 4_000, 8_000, 255

_PRESETS: Mapping[str, Callable[[Session], str]] = {
    "session.id": lambda session: str(session.id),
    "session.user_email": lambda session: session.user,
    "session.user_id": lambda session: session.user_id,
    "session.user_name": lambda session: session.user_name,
    "session.type": lambda session: session.type,
    "session.connection_subtype": lambda session: session.connection_subtype,
    "session.subtype": lambda session: session.connection_subtype,
    "session.connection": lambda session: session.connection,
    "session.status": lambda session: session.status,
    "session.script": lambda session: _script(session.script or ""),
    "session.start_date": lambda session: session.start_date.isoformat(timespec="milliseconds"),
}
_LINK, _TAG = "session.webapp_link", "session.connection_tags."
_MOMENTS = frozenset({"session.start_date"})
PRESETS = (*_PRESETS, _LINK, f"{_TAG}<key>")
_MARKER = re.compile(re.escape(MARKER), re.IGNORECASE)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


def check_template(template: IssueTemplate) -> None:
    """Check a template. Raises Invalid, which names the item and its field as requests call them."""
    _check_text(template.name, "name", MAX_NAME)
    _check_text(template.project_key, "project_key")
    _check_text(template.request_type_id, "request_type_id")
    _check_text(template.transition, "issue_transition_name_on_close")
    _check_description(template.description, "description")
    where: dict[str, str] = {}
    for at, item in _items(template):
        _check_text(item.tracker_field, f"{at}.tracker_field")
        first = where.setdefault(item.tracker_field, at)
        if first != at:
            raise _invalid(f"{at}.tracker_field", f"{item.tracker_field!r} is already set by {first}")
        _check_description(item.description, f"{at}.description")
    for index, mapping in enumerate(template.mappings):
        at = f"mapping_types.items[{index}].value"
        if mapping.type is MappingType.PRESET and not is_preset(mapping.value):
            raise _invalid(at, f"unknown preset {mapping.value!r}; use one of {', '.join(PRESETS)}")
        if not mapping.value.strip() or len(mapping.value) > MAX_VALUE:
            raise _invalid(at, f"must have 1 to {MAX_VALUE} characters")
    for index, prompt in enumerate(template.prompts):
        _check_text(prompt.label, f"prompt_types.items[{index}].label", MAX_LABEL)
    for index, asset in enumerate(template.cmdb):
        at = f"cmdb_types.items[{index}]"
        _check_text(asset.tracker_object_type, f"{at}.tracker_object_type")
        if asset.value:
            _check_text(asset.value, f"{at}.value")


def is_preset(name: str) -> bool:
    return name in _PRESETS or name == _LINK or (name.startswith(_TAG) and is_tag_key(name.removeprefix(_TAG)))


def preset_value(name: str, session: Session, link: str) -> str:
    """Return the value of a preset; empty where the session has none. `link` is the session's page."""
    if name == _LINK:
        return link
    if name.startswith(_TAG):
        return session.connection_tags.get(name.removeprefix(_TAG), "")
    return _PRESETS[name](session)


@dataclass(frozen=True, slots=True)
class PromptedField:
    """A field that a template prompts for: a prompt, or the name of an asset."""

    tracker_field: str
    label: str
    field_type: PromptType
    required: bool


def prompted_fields(template: IssueTemplate) -> tuple[PromptedField, ...]:
    prompts = (
        PromptedField(prompt.tracker_field, prompt.label, prompt.field_type, prompt.required)
        for prompt in template.prompts
    )
    assets = (
        PromptedField(field.tracker_field, field.tracker_object_type, PromptType.TEXT, field.required)
        for field in template.cmdb
        if not field.value
    )
    return (*prompts, *assets)


def missing_prompts(template: IssueTemplate, values: Mapping[str, str]) -> list[PromptedField]:
    """Return all required fields that are missing or blank."""
    return [
        field
        for field in prompted_fields(template)
        if field.required and not values.get(field.tracker_field, "").strip()
    ]


def checked_prompts(template: IssueTemplate, values: Mapping[str, str]) -> dict[str, str]:
    """Return the given values by field, stripped, without blank ones. Raises Invalid, which lists all missing ones,
    by label and field, or else all bad ones."""
    missing = missing_prompts(template, values)
    if missing:
        listed = ", ".join(f"{field.label} ({field.tracker_field})" for field in missing)
        raise _invalid(GIVEN, f"the issue of this session needs {listed}")
    fields = {prompted_field.tracker_field: prompted_field for prompted_field in prompted_fields(template)}
    unknown = [name for name in values if name not in fields]
    if unknown:
        names = ", ".join(one_line(name[:MAX_LABEL]) for name in unknown[:MAX_ITEMS])
        asks = ", ".join(fields) or "none"
        raise _invalid(GIVEN, f"the issue template {template.name!r} has no prompts for {names}; it has {asks}")
    checked = {name: value.strip() for name, value in values.items() if value.strip()}
    wrong = [reason for name, value in checked.items() for reason in _wrong(fields[name], value)]
    if wrong:
        raise _invalid(GIVEN, "; ".join(wrong))
    return checked


def new_issue(template: IssueTemplate, session: Session, prompts: Mapping[str, str], link: str) -> NewIssue:
    """Return the issue to create; `prompts` as `checked_prompts` returns them. The text always ends with the marker."""
    fields: dict[str, Any] = {}
    for mapping in template.mappings:
        if mapping.type is MappingType.CUSTOM:
            fields[mapping.tracker_field] = mapping.value
            continue
        value = _break_markers(preset_value(mapping.value, session, link))
        if value:
            fields[mapping.tracker_field] = {"moment": value} if mapping.value in _MOMENTS else value
    for prompt in template.prompts:
        if prompt.tracker_field in prompts:
            fields[prompt.tracker_field] = _tracker_value(prompt, _break_markers(prompts[prompt.tracker_field]))
    objects = {
        asset.tracker_field: (asset.tracker_object_type, asset.value or _break_markers(prompts[asset.tracker_field]))
        for asset in template.cmdb
        if asset.value or asset.tracker_field in prompts
    }
    marker = f"{MARKER}{session.id}"
    summary, text = field_text(fields.pop(SUMMARY, "")), field_text(fields.pop(TEXT, ""))
    return NewIssue(
        project_key=template.project_key,
        request_type_id=template.request_type_id,
        marker=marker,
        summary=_short(one_line(summary or _break_markers(_about(session))), MAX_SUMMARY),
        text=f"{text or _break_markers(_account(session, link))}\n\n{marker}",
        fields=fields,
        objects=objects,
    )


def _items(template: IssueTemplate) -> Iterator[tuple[str, Any]]:
    """Return all items that fill in a field, by their place in requests. Raises Invalid when there are too many."""
    for name, items in (
        ("mapping_types", template.mappings),
        ("prompt_types", template.prompts),
        ("cmdb_types", template.cmdb),
    ):
        if len(items) > MAX_ITEMS:
            raise _invalid(f"{name}.items", f"{len(items)} given, at most {MAX_ITEMS}")
        for index, item in enumerate(items):
            yield f"{name}.items[{index}]", item


def _check_text(text: str, at: str, most: int = 255) -> None:
    if not 1 <= len(text) <= most or not text.isprintable() or text != text.strip():
        raise _invalid(at, f"must have 1 to {most} characters, all printable, without spaces at its ends")


def _check_description(text: str, at: str) -> None:
    if len(text) > MAX_DESCRIPTION:
        raise _invalid(at, f"at most {MAX_DESCRIPTION} characters")


def _wrong(field: PromptedField, value: str) -> Iterator[str]:
    where = f"{field.label} ({field.tracker_field})"
    if field.field_type is PromptType.DATETIME:
        if not _is_moment(value):
            yield f"{where} must be a date and time such as 2026-01-31T09:30"
    elif len(value) > MAX_VALUE:
        yield f"{where} can have at most {MAX_VALUE} characters; {len(value)} given"


def _is_moment(value: str) -> bool:
    """Return whether it is a timestamp as forms send `datetime-local`: without a zone, in UTC."""
    if not _MOMENT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _tracker_value(prompt: Prompt, value: str) -> Any:
    """Return the value in the form of the tracker's port (services/issues/tracker.py)."""
    if prompt.field_type is PromptType.SELECT:
        return {"value": value}
    return {"moment": value} if prompt.field_type is PromptType.DATETIME else value


def field_text(value: Any) -> str:
    """Return the text of a value in `NewIssue.fields`."""
    return str(next(iter(value.values()))) if isinstance(value, dict) else str(value)


def _break_markers(text: str) -> str:
    return _MARKER.sub(MARKER.replace("-", " "), printable(text))


def _script(script: str) -> str:
    return _short(script, MAX_SCRIPT, f"\n… ({len(script)} characters in all)")


def _short(text: str, most: int, ending: str = "…") -> str:
    return text if len(text) <= most else text[: most - len(ending)] + ending


def _about(session: Session) -> str:
    return f"{session.connection}: {session.verb} by {session.user}"


def _account(session: Session, link: str) -> str:
    name = f"{session.user_name} ({session.user})" if session.user_name else session.user
    return f"{session.verb} on {session.connection} by {name}, session {session.id}\n{link}".strip()


def _invalid(field: str, problem: str) -> Invalid:
    return Invalid(f"{field}: {problem}", field=field)
