"""JSON Schemas (draft 2020-12) of events, built from the declarations of their payloads
(services/notifications/payloads.py)."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import get_original_bases, is_typeddict

from postern.domain.event import EVENTS, EventKind
from postern.services.notifications import payloads

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def event_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas by kind of event. Fields can be added later: no schema forbids unknown ones."""
    for declared in vars(payloads).values():
        if is_typeddict(declared):
            with_config(ConfigDict(use_attribute_docstrings=True))(declared)
    return {str(kind): _schema_of(kind) for kind in EventKind}


def _schema_of(kind: EventKind) -> dict[str, Any]:
    """Return the schema of the whole event, as in a webhook's body."""
    data = _described(payloads.DATA[kind])
    inner = data.pop("$defs", {})
    schema = {
        "$schema": DIALECT,
        "$id": f"urn:postern:event:{kind}",
        "title": str(kind),
        "description": EVENTS[kind],
        "type": "object",
        "properties": {
            "id": {"type": "string", "format": "uuid", "description": "The same for each sink and each attempt"},
            "type": {"const": str(kind)},
            "timestamp": {"type": "string", "format": "date-time", "description": "When it happened"},
            "data": data,
        },
        "required": ["id", "type", "timestamp", "data"],
    }
    return schema | ({"$defs": inner} if inner else {})


def _described(declared: type) -> dict[str, Any]:
    """Return the schema with the descriptions of its fields, also of base classes."""
    schema = TypeAdapter(declared).json_schema(mode="serialization")
    for base in get_original_bases(declared):
        if is_typeddict(base):
            schema["properties"] |= _described(base)["properties"]
    return schema
