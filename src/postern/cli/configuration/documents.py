"""What files say about resources: one document each, with `kind`, `name` and `spec`.

`spec` keeps the fields apart from the name: users and service accounts have a field `name` of their own.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from postern.cli.configuration import yaml_files
from postern.cli.configuration.resource_schema import FileKind, FileKinds, SchemaReader, SpecField, nearest
from postern.cli.configuration.yaml_files import MAX_FILE, FilePlace, YamlList, YamlNode, YamlScalar, read_documents
from postern.domain.text import one_line
from postern.errors import Invalid

STDIN = "-"
_ENDINGS = frozenset({".yaml", ".yml", ".json"})
_MAX_FILES, _MAX_DOCUMENTS = 20_000, 50_000


@dataclass(frozen=True)
class NamedReference:
    """A resource that another one names."""

    kind: str
    name: str
    place: FilePlace


@dataclass(frozen=True)
class ResourceDocument:
    kind: FileKind
    name: str
    place: FilePlace
    spec: dict[str, Any] = field(default_factory=dict)
    references: tuple[NamedReference, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.kind.kind, self.name


def read_sources(paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files at these paths with their content; of a folder, all YAML and JSON files. Symbolic links below a
    folder are not followed. Raises Invalid."""
    for path in paths:
        if path == STDIN:
            yield STDIN, sys.stdin.buffer.read(MAX_FILE + 1)
            continue
        place = Path(path)
        files = _files_below(place) if place.is_dir() else [place]
        for file in files:
            yield str(file), _content(file)


def _files_below(folder: Path) -> list[Path]:
    files: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(parent, name) for name in sorted(names) if _is_source(parent, name)]
        if len(files) > _MAX_FILES:
            raise Invalid(f"{one_line(str(folder))} has more than {_MAX_FILES} files")
    return files


def _is_source(parent: str, name: str) -> bool:
    path = Path(parent, name)
    return path.suffix in _ENDINGS and not name.startswith(".") and stat.S_ISREG(path.lstat().st_mode)


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_FILE + 1)
    except OSError as error:
        raise Invalid(f"{one_line(str(file))} cannot be read: {error.strerror}") from None


def read_all(sources: Iterable[tuple[str, bytes]], kinds: FileKinds) -> list[ResourceDocument]:
    """Return the documents, in the order of kinds. Raises Invalid for the first error."""
    documents: dict[tuple[str, str], ResourceDocument] = {}
    for file, content in sources:
        for node in read_documents(file, content):
            document = _document(node, kinds)
            first = documents.setdefault(document.key, document)
            if first is not document:
                label = f"{document.kind.kind} {one_line(document.name)!r}"
                raise document.place.error(f"{label} is described twice; the first is at {first.place}")
            if len(documents) > _MAX_DOCUMENTS:
                raise Invalid(f"there are more than {_MAX_DOCUMENTS} documents; apply them in parts")
    order = list(kinds.kinds)
    return sorted(documents.values(), key=lambda document: (order.index(document.kind.kind), document.name))


def _document(node: YamlNode, kinds: FileKinds) -> ResourceDocument:
    if not isinstance(node, yaml_files.YamlMapping):
        raise node.place.error("a document must be a mapping with kind, name and spec")
    for key, place in node.keys.items():
        if key not in ("kind", "name", "spec"):
            hint = "; fields of the resource belong below `spec`" if "spec" not in node.entries else ""
            raise place.error(f"there is no field {one_line(key)!r}{nearest(key, ('kind', 'name', 'spec'))}{hint}")
    kind = kinds.get(_text(node, "kind"), node.keys.get("kind", node.place))
    name = _text(node, "name")
    if kind.is_single and name != kind.kind:
        raise node.keys["name"].error(f"there is one {kind.kind}, and its name is {kind.kind!r}")
    spec = node.entries.get("spec", yaml_files.YamlMapping(node.place))
    if isinstance(spec, YamlScalar) and spec.is_plain and not spec.text:
        spec = yaml_files.YamlMapping(spec.place)
    if not isinstance(spec, yaml_files.YamlMapping):
        raise spec.place.error("spec: must be a mapping")
    values, references = _spec(kind, spec)
    if kind.names:
        references.append(NamedReference(kind.names, name, node.keys["name"]))
    return ResourceDocument(kind, name, node.place, values, tuple(references))


def _text(node: yaml_files.YamlMapping, key: str) -> str:
    value = node.entries.get(key)
    if not isinstance(value, YamlScalar) or not value.text:
        raise (node.keys[key] if value else node.place).error(f"{key}: a text is required")
    return value.text


def _spec(kind: FileKind, spec: yaml_files.YamlMapping) -> tuple[dict[str, Any], list[NamedReference]]:
    typist, values, references = SchemaReader(kind.spec), {}, []
    for key, node in spec.entries.items():
        known = kind.fields.get(key)
        if known is None:
            raise spec.keys[key].error(_unknown(kind, key))
        values[key] = typist.value(node, known.schema, f"spec.{key}")
        references += _references(known, node)
    return values, references


def _unknown(kind: FileKind, key: str) -> str:
    if key in kind.hidden:
        return f"spec.{one_line(key)}: is not part of files; it follows from another field, or from another resource"
    if key == kind.name_field:
        return f"spec.{one_line(key)}: is the `name` of the document"
    return f"spec: {kind.kind} has no field {one_line(key)!r}{nearest(key, kind.fields)}"


def _references(known: SpecField, node: YamlNode) -> list[NamedReference]:
    if not known.refers_to:
        return []
    items = node.items if isinstance(node, YamlList) else [node]
    names = [item for item in items if isinstance(item, YamlScalar) and item.text]
    return [NamedReference(known.refers_to, item.text, item.place) for item in names]
