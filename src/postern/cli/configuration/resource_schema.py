"""The kinds of resources that the gateway has, as it describes them itself (`GET /configuration/kinds`).

A field has the API's name, without `_id` where files have a name: `agent_id` is `agent`, `connection_ids` are
`connections`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from postern.cli.configuration import yaml_files
from postern.cli.configuration.secret_sources import SecretReference, read_source
from postern.cli.configuration.yaml_files import FilePlace, YamlList, YamlNode, YamlScalar
from postern.client.client_shapes import Row
from postern.client.configuration_client import item_path
from postern.domain.targets.target_keys import canonical_subtype
from postern.domain.text import one_line
from postern.errors import Invalid

Schema = Mapping[str, Any]
_MOST_NAMED = 30  # names in an error
SOFT = frozenset({"group"})  # kinds that other fields can name without one: an identity provider makes groups, too

_INTEGER, _NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})"), re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d{1,3})?")
_NULL, _BOOLEANS = frozenset({"", "~", "null", "Null", "NULL"}), {"true": True, "false": False}


@dataclass(frozen=True)
class SpecField:
    """A field of a kind. `refers_to` is the kind that it names; `by_id` says that the API has identifiers instead.
    `secret` is the field of answers that says what is set, None for a field that is not secret."""

    name: str
    api_name: str
    schema: Schema
    refers_to: str = ""
    by_id: bool = False
    secret: str | None = None
    keeps: bool = False
    encoded: bool = False
    readable: str = ""

    @property
    def is_map(self) -> bool:
        return any(option.get("type") == "object" for option in _options(self.schema))

    def inner_secrets(self, root: Schema) -> dict[str, str]:
        """Return the secret fields of the object that this field is, with the fields of answers that say if they are
        set."""
        properties = _part(self.schema, root, "properties")
        return {name: schema["x-secret"] for name, schema in properties.items() if "x-secret" in schema}


@dataclass(frozen=True)
class FileKind:
    kind: str
    folder: str
    path: str
    name_field: str
    names: str
    address: str
    creates: str
    changes: str
    deletes: bool
    is_single: bool
    has_manager: bool
    spec: Schema

    @cached_property
    def fields(self) -> dict[str, SpecField]:
        described = (_field(name, schema) for name, schema in self.spec["properties"].items() if _is_shown(schema))
        return {field.name: field for field in described if field.api_name != self.name_field}

    @cached_property
    def hidden(self) -> frozenset[str]:
        return frozenset(name for name, schema in self.spec["properties"].items() if not _is_shown(schema))

    @property
    def takes_name(self) -> bool:
        """Whether a request to create one has its name; else the name follows from other fields."""
        return self.name_field in self.spec["properties"]

    @cached_property
    def references(self) -> frozenset[str]:
        return frozenset({field.refers_to for field in self.fields.values()} | {self.names}) - {""}

    def normal(self, field: SpecField, value: Any) -> Any:
        """Return a value without what means nothing: empty and default values of nested objects, the order of names."""
        normal = _normal(value, field.schema, self.spec)
        if self.kind == "connection" and field.name == "subtype" and isinstance(normal, str):
            return canonical_subtype(normal)
        return sorted(normal) if field.refers_to and isinstance(normal, list) else normal

    def item_path(self, row: Row) -> str:
        return self.path if self.is_single else item_path(self.path, str(row[self.address]))


@dataclass(frozen=True)
class FileKinds:
    """All kinds, in the order in which their resources are created: what is referred to comes first, settings last."""

    kinds: Mapping[str, FileKind]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> FileKinds:
        names = FileKind.__dataclass_fields__
        kinds = {row["kind"]: FileKind(**{name: row[name] for name in names}) for row in rows}
        ordered = sorted(kinds.values(), key=lambda kind: (kind.kind == "feature", kind.is_single, _rank(kind, kinds)))
        return cls({kind.kind: kind for kind in ordered})

    def get(self, name: str, place: FilePlace) -> FileKind:
        kind = self.kinds.get(name)
        if kind is None:
            raise place.error(f"there is no kind {one_line(name)!r}{nearest(name, self.kinds)}")
        return kind


def _rank(kind: FileKind, kinds: Mapping[str, FileKind], seen: frozenset[str] = frozenset()) -> int:
    """Return the length of the longest chain of references; kinds must not refer to each other in a circle."""
    below = [kinds[name] for name in kind.references if name in kinds and name not in seen | {kind.kind}]
    return 1 + max((_rank(inner, kinds, seen | {kind.kind}) for inner in below), default=0)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a suggestion, or all names if there are few."""
    known = list(names)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {one_line(near[0])!r}?"
    return f"; there are {', '.join(map(one_line, sorted(known)[:_MOST_NAMED]))}" if known else ""


def _is_shown(schema: Schema) -> bool:
    return not schema.get("x-not-in-files")


def _field(api_name: str, schema: Schema) -> SpecField:
    refers_to, secret = schema.get("x-refers-to", ""), schema.get("x-secret")
    name, by_id = api_name, False
    if refers_to and api_name.endswith(("_id", "_ids")):
        name, by_id = re.sub(r"_id(s?)$", r"\1", api_name), True
    return SpecField(
        name=name,
        api_name=api_name,
        schema=schema,
        refers_to=refers_to,
        by_id=by_id,
        secret=secret,
        keeps=schema.get("x-keeps", False),
        encoded=schema.get("x-encoding") == "base64",
        readable=schema.get("x-readable", ""),
    )


def _options(schema: Schema) -> list[Schema]:
    return list(schema.get("anyOf", [schema]))


def _follow(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def _normal(value: Any, schema: Schema, root: Schema) -> Any:
    if isinstance(value, list):
        items = _part(schema, root, "items")
        return [_normal(item, items, root) for item in value]
    if isinstance(value, str) and any(option.get("format") == "date-time" for option in _options(schema)):
        return _normal_time(value)
    if not isinstance(value, dict):
        return value
    properties = _part(schema, root, "properties")
    if not properties:
        return {key: _normal(item, {}, root) for key, item in sorted(value.items())}
    required, normal = _part(schema, root, "required"), {}
    for key, item in value.items():
        if key in properties and "x-secret" not in properties[key]:
            inner = _normal(item, properties[key], root)
            if key in required or inner not in (None, "", [], {}, properties[key].get("default")):
                normal[key] = inner
    return dict(sorted(normal.items()))


def _normal_time(text: str) -> str:
    """Return a time in UTC; a text that is none stays, for the gateway to reject."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except ValueError:
        return text


def _part(schema: Schema, root: Schema, name: str) -> Any:
    """Return this part of the schema, or of the first of its alternatives that has it."""
    for option in _options(_follow(schema, root)):
        part = _follow(option, root).get(name)
        if part:
            return part
    return {}


class SchemaReader:
    """Gives values their types, by the JSON Schema of a kind. Raises Invalid, with the line."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def value(self, node: YamlNode, schema: Schema, at: str) -> Any:
        if "x-secret" in schema:
            return read_source(node, at)
        schema = _follow(schema, self._root)
        if "anyOf" in schema:
            return self._one_of(node, schema["anyOf"], at)
        if "allOf" in schema:
            return self.value(node, schema["allOf"][0], at)
        read: Callable[[YamlNode, Schema, str], Any] = {
            "string": self._text,
            "integer": self._number,
            "number": self._number,
            "boolean": self._boolean,
            "array": self._list,
            "object": self._object,
            "": self._any,
        }[schema.get("type", "")]
        return read(node, schema, at)

    def _any(self, node: YamlNode, _: Schema, at: str) -> Any:
        """Return a value of no known type, as YAML 1.2 and JSON read it."""
        if isinstance(node, YamlList):
            return [self._any(item, {}, at) for item in node.items]
        if not isinstance(node, YamlScalar):
            return {key: self._any(item, {}, at) for key, item in node.entries.items()}
        if not node.is_plain:
            return node.text
        if node.text in _NULL:
            return None
        if _NUMBER.fullmatch(node.text):
            return int(node.text) if _INTEGER.fullmatch(node.text) else float(node.text)
        return _BOOLEANS.get(node.text, node.text)

    def _one_of(self, node: YamlNode, options: list[Schema], at: str) -> Any:
        some = [option for option in options if option.get("type") != "null"]
        if isinstance(node, YamlScalar) and node.is_plain and node.text in _NULL and len(some) < len(options):
            return _empty(_follow(some[0], self._root))
        for option in some[:-1]:
            try:
                return self.value(node, option, at)
            except Invalid:
                continue
        return self.value(node, some[-1], at)

    def _scalar(self, node: YamlNode, at: str, what: str) -> YamlScalar:
        if not isinstance(node, YamlScalar):
            raise node.place.error(f"{at}: must be {what}")
        return node

    def _text(self, node: YamlNode, schema: Schema, at: str) -> str:
        scalar = self._scalar(node, at, "a text")
        if scalar.is_plain and scalar.text in _NULL:
            raise node.place.error(f"{at}: is empty; write '' for an empty text")
        choices = schema.get("enum")
        if choices and scalar.text not in choices:
            raise node.place.error(
                f"{at}: {one_line(scalar.text)!r} is not allowed{nearest(scalar.text, map(str, choices))}"
            )
        return scalar.text

    def _number(self, node: YamlNode, schema: Schema, at: str) -> int | float:
        is_whole = schema["type"] == "integer"
        scalar = self._scalar(node, at, "a number")
        if not scalar.is_plain or not (_INTEGER if is_whole else _NUMBER).fullmatch(scalar.text):
            raise node.place.error(f"{at}: must be a {'whole ' if is_whole else ''}number without quotes")
        return int(scalar.text) if is_whole else float(scalar.text)

    def _boolean(self, node: YamlNode, _: Schema, at: str) -> bool:
        scalar = self._scalar(node, at, "true or false")
        if not scalar.is_plain or scalar.text not in _BOOLEANS:
            raise node.place.error(f"{at}: must be true or false, without quotes")
        return _BOOLEANS[scalar.text]

    def _list(self, node: YamlNode, schema: Schema, at: str) -> list[Any]:
        if not isinstance(node, YamlList):
            raise node.place.error(f"{at}: must be a list")
        return [self.value(item, schema.get("items", {}), f"{at}[{index}]") for index, item in enumerate(node.items)]

    def _object(self, node: YamlNode, schema: Schema, at: str) -> dict[str, Any]:
        if not isinstance(node, yaml_files.YamlMapping):
            raise node.place.error(f"{at}: must be a mapping")
        properties = schema.get("properties")
        if properties is None:
            inner = schema.get("additionalProperties")
            inner = inner if isinstance(inner, dict) else {}
            return {key: self.value(item, inner, f"{at}.{key}") for key, item in node.entries.items()}
        for key in node.entries:
            if key not in properties:
                raise node.keys[key].error(f"{at}: there is no field {one_line(key)!r}{nearest(key, properties)}")
        for key in schema.get("required", ()):
            if key not in node.entries:
                raise node.place.error(f"{at}: {key!r} is missing")
        return {key: self.value(item, properties[key], f"{at}.{key}") for key, item in node.entries.items()}


def _empty(schema: Schema) -> Any:
    if schema.get("type") == "string" and "enum" not in schema and "format" not in schema:
        return ""
    if schema.get("type") == "array":
        return []
    return {} if isinstance(schema.get("additionalProperties"), dict) else None


def editor_schema(kinds: FileKinds) -> Row:
    """Return the JSON Schema of a document, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Postern configuration",
        "oneOf": [_document_schema(kind) for kind in kinds.kinds.values()],
    }


def _document_schema(kind: FileKind) -> Row:
    properties = {name: _shown_schema(field) for name, field in kind.fields.items()}
    spec = {"type": "object", "additionalProperties": False, "properties": properties}
    definitions = kind.spec.get("$defs", {})
    name = {"const": kind.kind} if kind.is_single else {"type": "string"}
    document = {
        "$id": f"urn:postern:{kind.kind}",
        "title": kind.kind,
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "name"],
        "properties": {"kind": {"const": kind.kind}, "name": name, "spec": spec},
    }
    return document | ({"$defs": definitions} if definitions else {})


def _shown_schema(field: SpecField) -> Any:
    if field.secret is None:
        return field.schema
    source = SecretReference.schema(allows_text=field.encoded)
    return {"type": "object", "additionalProperties": source} if field.is_map else source
