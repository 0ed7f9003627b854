"""The fields of a Jira form, and the formats of their values.

https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/ ("Get create field metadata") and
https://developer.atlassian.com/server/jira-servicedesk/info/field-input-formats ("Field input formats").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from postern.domain.issues.issue import NewIssue
from postern.errors import Invalid
from postern.integrations.trackers.tracker_calls import mapping, text
from postern.integrations.trackers.tracker_texts import append_marker, cut, line, moment, plain, wiki

_BY_NAME = frozenset({"priority", "version", "component", "resolution", "group", "securitylevel", "issuetype"})
_LINES = frozenset({"description", "environment"})


@dataclass(frozen=True, slots=True)
class JiraField:
    """A field by Jira's schema: `type` such as option, `items` of an array, `custom` the plug-in's key."""

    id: str
    name: str
    type: str
    items: str = ""
    custom: str = ""

    @property
    def has_lines(self) -> bool:
        return self.id in _LINES or self.custom.endswith(":textarea")


@dataclass(frozen=True, slots=True)
class IssueForm:
    """The form for creating issues: of an issue type, or of a request type of the service desk `desk`."""

    desk: str
    fields: Mapping[str, JiraField]

    def field(self, name: str) -> JiraField | None:
        """Return the field of that id, or else of that displayed name, if it is unique."""
        if name in self.fields:
            return self.fields[name]
        fields = [jira_field for jira_field in self.fields.values() if jira_field.name.lower() == name.lower()]
        return fields[0] if len(fields) == 1 else None


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of multi-line texts, per piece and as a whole, and how users are identified."""

    escaped: Callable[[str], str]
    whole: Callable[[str], Any]
    person: str


WIKI = Dialect(escaped=wiki, whole=str, person="name")


def field_of(content: Mapping[str, Any], schema: str) -> JiraField:
    """Build a field from Jira's description; its schema is in `schema`."""
    details = mapping(content, schema)
    return JiraField(
        text(content, "fieldId") or text(content, "key"),
        text(content, "name"),
        text(details, "type"),
        text(details, "items"),
        text(details, "custom"),
    )


def values_of(form: IssueForm, new: NewIssue, dialect: Dialect) -> dict[str, Any]:
    """Return all values except objects. The marker is in the description, or in the summary if a form has no
    description; it also is a label if the form has labels. Raises Invalid."""
    values: dict[str, Any] = {}
    texts = {"summary": new.summary, "description": new.text}
    for name, value in new.fields.items():
        field = form.field(name)
        text = plain(value)
        if field is not None and field.id in texts and text is not None:
            texts[field.id] = text
        else:
            values[field.id if field else name] = format_value(field, name, value, dialect)
    if "description" in form.fields:
        values["description"] = dialect.whole(append_marker(dialect.escaped(texts["description"]), new.marker))
        values["summary"] = line(texts["summary"])
    elif "summary" in form.fields:
        values["summary"] = f"{line(texts['summary'], 254 - len(new.marker) - 1)} {new.marker}"
    else:
        raise Invalid(
            f"project {new.project_key}: the form of type {new.request_type_id} has neither a description nor a "
            "summary, so Postern could not find its issues again; choose another type, or add "
            "one of the two to the form"
        )
    if "labels" in form.fields:
        values["labels"] = [*_labels(values.get("labels")), new.marker]
    return values


def format_value(field: JiraField | None, name: str, value: Any, dialect: Dialect) -> Any:
    """Return the value in Jira's format for that field; a value for an unknown format is unchanged. Raises Invalid."""
    text = plain(value)
    if text is None:
        return value
    if field is None:
        return stamp(text, name) if _is_moment(value) else value
    if field.type == "array":
        return (
            text.replace(" ", "_").split(",") if field.items == "string" else [_one(field.items, field, text, dialect)]
        )
    return _one(field.type, field, text, dialect)


def _one(kind: str, field: JiraField, text: str, dialect: Dialect) -> Any:
    if kind in ("option", "option-with-child"):
        return {"value": text}
    if kind in _BY_NAME:
        return {"name": text}
    if kind == "user":
        return {dialect.person: text}
    if kind == "datetime":
        return stamp(text, field.id)
    if kind == "date":
        return moment(text, field.id).date().isoformat()
    if kind == "number":
        return _number(text, field.id)
    return dialect.whole(cut(dialect.escaped(text))) if field.has_lines else line(text)


def stamp(text: str, name: str) -> str:
    """Format a time as 2015-11-18T14:39:00.000+1100. Raises Invalid."""
    return moment(text, name).strftime("%Y-%m-%dT%H:%M:%S.000%z")


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{name}: must be a number", field=name) from None


def _is_moment(value: Any) -> bool:
    return isinstance(value, Mapping) and "moment" in value


def _labels(value: Any) -> list[str]:
    return [label for label in value if isinstance(label, str)] if isinstance(value, list) else []
