"""Fields of a collection, which has no schema: from a sample of its documents, and from its validator.

A field is a path: `address.zip`. Arrays are transparent, so `items.sku` is a field of every element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from postern.protocols.mongodb.queries.mongodb_shell_options import Document
from postern.protocols.mongodb.recorded.mongodb_cells import type_name
from postern.protocols.mongodb.wire import bson_documents as b

SAMPLE: Final = 100  # documents
MAX_FIELDS: Final = 1000  # of a collection
_MAX_DEPTH: Final = 10  # levels of nested documents
_MAX_TYPES: Final = 4  # that are named of a field
SAMPLE_TIME: Final = 5000  # milliseconds


class SampledField(NamedTuple):
    """A field's path and its types, the most frequent first: `string | null`. `nullable`: a document can lack it."""

    path: str
    types: str
    nullable: bool


def sample_command(collection: str) -> Document:
    """Return the command that reads a sample, without `$db`."""
    return {
        "aggregate": collection,
        "pipeline": [{"$sample": {"size": SAMPLE}}],
        "cursor": {"batchSize": SAMPLE},
        "maxTimeMS": SAMPLE_TIME,
    }


@dataclass(slots=True)
class _Seen:
    types: Counter[str] = field(default_factory=Counter)
    documents: int = 0  # that have it


def sampled_fields(documents: Sequence[bytes], validator: Mapping[str, Any] | None = None) -> list[SampledField]:
    """Return the fields in the order of their first appearance, then those that only the validator names."""
    seen: dict[str, _Seen] = {}
    for document in documents:
        found: dict[str, set[str]] = {}
        _read_level(document, 0, len(document), "", 0, found)
        for path, types in found.items():
            if path in seen or len(seen) < MAX_FIELDS:
                entry = seen.setdefault(path, _Seen())
                entry.types.update(types)
                entry.documents += 1
    declared = declared_fields(validator)
    fields = [
        SampledField(path, _join_types(entry.types), entry.documents < len(documents) or "null" in entry.types)
        for path, entry in seen.items()
    ]
    fields += [each for each in declared if each.path not in seen][: max(MAX_FIELDS - len(fields), 0)]
    return fields


def _join_types(types: Counter[str]) -> str:
    names = [name for name, _ in types.most_common()]
    return " | ".join(names[:_MAX_TYPES]) + (" | …" if len(names) > _MAX_TYPES else "")


def _read_level(document: bytes, pos: int, end: int, prefix: str, depth: int, found: dict[str, set[str]]) -> None:
    for item in b.read_fields(document, pos, end):
        path = prefix + item.name.decode("utf-8", "replace")
        if path in found or len(found) < MAX_FIELDS:
            found.setdefault(path, set()).add(type_name(item.kind))
        _read_nested(document, item, path, depth, found)


def _read_nested(document: bytes, item: b.BsonField, path: str, depth: int, found: dict[str, set[str]]) -> None:
    if depth >= _MAX_DEPTH:
        return
    if item.kind == b.DOCUMENT:
        _read_level(document, int(item.value), int(item.end), f"{path}.", depth + 1, found)
    elif item.kind == b.ARRAY:
        for element in b.read_fields(document, item.value, item.end):
            _read_nested(document, element, path, depth + 1, found)


def declared_fields(validator: Mapping[str, Any] | None) -> list[SampledField]:
    """Return the fields that a collection's `$jsonSchema` names."""
    fields: list[SampledField] = []
    _read_schema(json_schema(validator), "", 0, fields)
    return fields


def json_schema(validator: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a validator's `$jsonSchema`; empty if it has none."""
    return as_mapping(as_mapping(validator).get("$jsonSchema"))


def _read_schema(schema: Mapping[str, Any], prefix: str, depth: int, fields: list[SampledField]) -> None:
    required = schema.get("required")
    names = set(map(str, required)) if isinstance(required, list) else set()
    for name, rule in as_mapping(schema.get("properties")).items():
        if len(fields) >= MAX_FIELDS or depth >= _MAX_DEPTH:
            return
        rule = as_mapping(rule)
        kind = rule.get("bsonType", rule.get("type", ""))
        kinds = [str(each) for each in kind] if isinstance(kind, list) else [str(kind)]
        fields.append(SampledField(prefix + name, " | ".join(kinds), name not in names or "null" in kinds))
        _read_schema(rule, f"{prefix}{name}.", depth + 1, fields)
        _read_schema(as_mapping(rule.get("items")), f"{prefix}{name}.", depth + 1, fields)


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a document; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}
