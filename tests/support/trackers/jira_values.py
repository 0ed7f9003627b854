"""What Jira takes for the value of a field, by the field's schema, and how it says no."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_PEOPLE = ("5b10ac8d82e05b22cc7d4ef5", "ann")  # of Cloud, of Data Center


class Refusal(Exception):
    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(str(errors))
        self.errors = dict(errors)


class Wrong(Exception):
    """A value, for that reason."""


@dataclass(frozen=True)
class Spec:
    id: str
    name: str
    schema: Mapping[str, Any]
    required: bool = False
    options: tuple[str, ...] = ()
    visible: bool = True

    @property
    def has_lines(self) -> bool:
        return self.id == "description" or self.schema.get("custom", "").endswith(":textarea")

    def shown(self, schema: str) -> dict[str, Any]:
        shown = {"fieldId": self.id, "name": self.name, "required": self.required, schema: dict(self.schema)}
        return shown if self.visible else {**shown, "visible": False}


def checked(form: list[Spec], given: Mapping[str, Any], *, adf: bool, cloud: bool) -> None:
    """`adf`: texts of many lines are documents. Raises Refusal."""
    errors = {}
    known = {one.id: one for one in form if one.visible}
    for name, value in given.items():
        if name not in known:
            errors[name] = f"Field '{name}' cannot be set. It is not on the appropriate screen, or unknown."
            continue
        try:
            _check(known[name], value, adf, cloud)
        except (Wrong, KeyError, TypeError, AttributeError) as wrong:
            errors[name] = str(wrong) or "data was not valid"
    for one in form:
        if one.required and not given.get(one.id):
            errors[one.id] = f"You must specify a {one.name.lower()} of the issue."
    if errors:
        raise Refusal(errors)


def _check(spec: Spec, value: Any, adf: bool, cloud: bool) -> None:
    kind = spec.schema["type"]
    if spec.schema.get("custom", "").endswith("cmdb-object-cftype"):
        _objects(value, cloud)
    elif spec.has_lines:
        _lines(value, adf)
    elif kind == "array" and spec.schema["items"] == "string":
        for one in value:
            if not isinstance(one, str) or " " in one:
                raise Wrong(f"The label '{one}' contains spaces which is invalid.")
    elif kind == "array":
        for one in value:
            _option(spec, one, "value")
    elif kind in ("option", "priority"):
        _option(spec, value, "value" if kind == "option" else "name")
    elif kind == "user":
        _only(value, {"accountId" if cloud else "name"})
        if next(iter(value.values())) != _PEOPLE[0 if cloud else 1]:
            raise Wrong("Specified user does not exist or you do not have required permissions")
    elif kind == "number":
        if not isinstance(value, int | float):
            raise Wrong("Operation value must be a number")
    else:
        _text(kind, value)


def _text(kind: str, value: Any) -> None:
    if not isinstance(value, str):
        raise Wrong("Operation value must be a string")
    pattern = {"datetime": _STAMP, "date": _DAY}.get(kind)
    if pattern is not None:
        if not pattern.fullmatch(value):
            raise Wrong("Error parsing the date and time")
    elif "\n" in value or len(value) > 255:
        raise Wrong("The value is invalid because it contains newline characters or exceeds 255 characters.")


def _lines(value: Any, adf: bool) -> None:
    if not adf:
        if not isinstance(value, str):
            raise Wrong("Operation value must be a string")
        if len(value) > 32_767:
            raise Wrong("The entered text is too long. It exceeds the allowed limit of 32,767 characters.")
        return
    if not isinstance(value, dict) or value.get("type") != "doc" or value.get("version") != 1:
        raise Wrong("Operation value must be an Atlassian Document (see the Atlassian Document Format)")
    _only(value, {"type", "version", "content"})
    for block in value["content"]:
        _only(block, {"type", "content"})
        if block["type"] != "paragraph":
            raise Wrong("INVALID_INPUT")
        for node in block["content"]:
            _only(node, {"type", "text"} if node["type"] == "text" else {"type"})
            if node["type"] not in ("text", "hardBreak") or node.get("text") == "" or "\n" in node.get("text", ""):
                raise Wrong("INVALID_INPUT")


def _option(spec: Spec, value: Any, name: str) -> None:
    _only(value, {name})
    if value[name] not in spec.options:
        raise Wrong(f"Option value '{value[name]}' is not valid")


def _objects(value: Any, cloud: bool) -> None:
    """https://support.atlassian.com/jira/kb/format-the-payload-to-update-assets-custom-fields-via-rest-api and
    https://confluence.atlassian.com/assetapps/assets-with-jira-rest-api-1168847899.html"""
    for one in value:
        _only(one, {"id", "workspaceId", "objectId"} if cloud else {"key"})
        known = one["id"] == f"{one['workspaceId']}:{one['objectId']}" if cloud else one["key"].startswith("CMDB-")
        if not known:
            raise Wrong("Assets object is not valid")


def _only(value: Any, names: set[str]) -> None:
    if not isinstance(value, dict) or set(value) != names:
        raise Wrong(f"expected an object with {', '.join(sorted(names))}")
