"""YAML without its dangers: a reader that knows lines, and a writer.

A text stays a text until the field's type is known: `no`, `on`, `1.10` and `0123` do not become something else. Tags,
anchors and aliases are rejected, and so are two equal keys in a mapping, and files that are too large or too deep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from postern.domain.text import one_line
from postern.errors import Invalid

MAX_FILE = 4 << 20  # bytes
_MAX_DEPTH, _MAX_NODES = 32, 200_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where something is written, for errors."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{one_line(self.file)}:{self.line}"

    def error(self, message: str) -> Invalid:
        return Invalid(f"{self}: {message}")


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A text. `is_plain`: it is not in quotes, so it can also be a number, true, false or null."""

    place: FilePlace
    text: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class YamlList:
    place: FilePlace
    items: list[YamlNode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class YamlMapping:
    place: FilePlace
    entries: dict[str, YamlNode] = field(default_factory=dict)
    keys: dict[str, FilePlace] = field(default_factory=dict)


YamlNode = YamlScalar | YamlList | YamlMapping


def read_documents(file: str, content: bytes) -> list[YamlNode]:
    """Return the documents of a file. Raises Invalid."""
    if len(content) > MAX_FILE:
        raise Invalid(f"{one_line(file)}: is larger than {MAX_FILE >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{one_line(file)}: is not UTF-8 text") from None
    try:
        return list(_Reader(file, yaml.parse(text, Loader=_Loader)).documents())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise FilePlace(file, line).error(f"is not YAML: {one_line(error.problem or 'cannot be read')}") from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        first = str(error).splitlines()[0]
        raise Invalid(f"{one_line(file)}: is not YAML: {one_line(first)}") from None


class _Reader:
    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self._file = file
        self._events = events
        self._nodes = 0

    def documents(self) -> Iterator[YamlNode]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                node = self._node(next(self._events), 0)
                is_empty = isinstance(node, YamlScalar) and node.is_plain and not node.text
                if not is_empty:
                    yield node

    def _node(self, event: Any, depth: int) -> YamlNode:
        place = FilePlace(self._file, event.start_mark.line + 1)
        self._nodes += 1
        if depth > _MAX_DEPTH:
            raise place.error(f"is nested more than {_MAX_DEPTH} levels deep")
        if self._nodes > _MAX_NODES:
            raise place.error(f"the file has more than {_MAX_NODES} values; split it")
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise place.error("anchors (&) and aliases (*) are not supported; write the value out")
        if event.tag is not None:
            raise place.error(f"tags such as {one_line(event.tag)!r} are not supported; write the value without it")
        if isinstance(event, yaml.ScalarEvent):
            return YamlScalar(place, event.value, event.style in (None, ""))
        if isinstance(event, yaml.SequenceStartEvent):
            items = YamlList(place)
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                items.items.append(self._node(inner, depth + 1))
            return items
        return self._mapping(place, depth)

    def _mapping(self, place: FilePlace, depth: int) -> YamlMapping:
        mapping = YamlMapping(place)
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, YamlScalar):
                raise key.place.error("a key must be a text")
            if key.text in mapping.entries:
                first = mapping.keys[key.text].line
                raise key.place.error(f"{one_line(key.text)!r} occurs twice; the first is in line {first}")
            mapping.keys[key.text] = key.place
            mapping.entries[key.text] = self._node(next(self._events), depth + 1)
        return mapping


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)


def write_document(document: Any) -> str:
    """Return a document as YAML, in the order of its fields. The same document has the same text."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
