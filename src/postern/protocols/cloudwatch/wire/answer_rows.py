"""Values of an answer as rows: a column for each path, whose values are replaced in place.

An answer is a tree of dicts and lists. Its values to judge are *leaves*, each with the dict or list that holds it. A
text that is JSON itself, as most messages are, is a tree of its own, whose leaves are in columns of their own. Only
trees with changes are written anew.

    {"events": [{"message": "{\"user\": {\"email\": \"a@b.example\"}}", "timestamp": 17}]}

    message.user.email   TEXT      timestamp   OPAQUE
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import mypyc_attr

from postern.interception.events import Change, Column, Rows, Scalar, TextKind

MAX_COLUMNS: Final = 4096  # of one answer
MAX_NESTED: Final = 4  # JSON in a text in JSON …
_MAX_DEPTH: Final = 64
_OPENING: Final = ("{", "[")
_MAYBE_JSON: Final = frozenset("{[ \t\r\n")
_CUT_OBJECT: Final = re.compile(r'\s*\{\s*"')  # an object of JSON that is not valid, such as one that was cut
PLAIN_KEY: Final = re.compile(r"[@$]?[A-Za-z_][A-Za-z0-9_$.:/-]{0,63}")

Origin = tuple[str, str, str]
Container = dict[str, Any] | list[Any]


class AnswerLeaf:
    """One value: `holder[key]`. `is_key`: it is the key of a member. `document` is the text around it."""

    __slots__ = ("document", "holder", "is_changed", "is_key", "key", "new", "row", "scalar", "text")

    def __init__(
        self,
        holder: Any,
        key: Any,
        row: int,
        scalar: Scalar,
        text: bytes,
        document: NestedDocument | None,
        *,
        is_key: bool = False,
    ) -> None:
        self.holder = holder
        self.key = key
        self.row = row
        self.scalar = scalar
        self.text = text
        self.document = document
        self.is_key = is_key
        self.is_changed = False
        self.new: bytes | None = None

    @property
    def current(self) -> bytes | None:
        return self.new if self.is_changed else self.text

    def put(self, new: bytes | None) -> None:
        self.is_changed = True
        self.new = new
        document = self.document
        while document is not None and not document.is_changed:
            document.is_changed = True
            document = document.outer


class NestedDocument:
    """A text that is JSON: `holder[key]` is replaced by `tree` as text, if something in it has changed."""

    __slots__ = ("has_pairs", "holder", "is_changed", "key", "outer", "tree")

    def __init__(self, holder: Any, key: Any, tree: Any, outer: NestedDocument | None) -> None:
        self.holder = holder
        self.key = key
        self.tree = tree
        self.outer = outer
        self.is_changed = False
        self.has_pairs = False


@mypyc_attr(native_class=False)
class _Pairs(list[list[Any]]):
    """The members of an object of JSON as lists of key and value: repeated keys stay, and keys can be replaced."""


class LeafCollector:
    """Collects the leaves of an answer, by column. Raises ValueError for too many columns, or too deep nesting.

    The path of most values was there before, in another event, so paths are built once (`_children`).
    """

    def __init__(self) -> None:
        self._texts: dict[str | tuple[str, Origin], list[AnswerLeaf]] = {}
        self._numbers: dict[str | tuple[str, Origin], list[AnswerLeaf]] = {}
        self._opaque: dict[str | tuple[str, Origin], list[AnswerLeaf]] = {}
        self._columns: list[tuple[Column, list[AnswerLeaf]]] = []
        self._children: dict[str, dict[str, str]] = {}
        self.documents: list[NestedDocument] = []
        self.rows = 0

    def add(
        self,
        holder: Container,
        key: Any,
        name: str,
        row: int,
        *,
        origin: Origin | None = None,
        is_opaque: bool = False,
    ) -> None:
        """Add the value `holder[key]`. Numbers are not searched; those within messages are."""
        if row >= self.rows:
            self.rows = row + 1
        value = holder[key]
        if isinstance(value, str):
            if is_opaque:
                text = value.encode("utf-8", "surrogatepass")
                leaf = AnswerLeaf(holder, key, row, Scalar.TEXT, text, None)
                self._append(self._opaque, TextKind.OPAQUE, name, origin, leaf)
            else:
                self._add_text(holder, key, value, name, row, origin, None, 0)
        elif value is not None:
            self._add_scalar(holder, key, value, name, row, origin, None, False)

    def _add_text(
        self,
        holder: Any,
        key: Any,
        value: str,
        name: str,
        row: int,
        origin: Origin | None,
        document: NestedDocument | None,
        nested: int,
    ) -> None:
        """Add a text, or the values in it if it is JSON."""
        if value[:1] in _MAYBE_JSON:
            tree = _parse(value) if nested < MAX_NESTED else None
            if tree is not None:
                inner = NestedDocument(holder, key, tree, document)
                self.documents.append(inner)
                self._walk(inner, None, None, tree, name, row, origin, nested + 1, 0)
                return
            if _CUT_OBJECT.match(value):
                name = f"{name}.*"  # any field can be in it
                origin = None if origin is None else (origin[0], origin[1], name)
        text = value.encode("utf-8", "surrogatepass")
        leaf = AnswerLeaf(holder, key, row, Scalar.TEXT, text, document)
        self._append(self._texts, TextKind.TEXT, name, origin, leaf)

    def _add_scalar(
        self,
        holder: Any,
        key: Any,
        value: Any,
        name: str,
        row: int,
        origin: Origin | None,
        document: NestedDocument | None,
        searches: bool,
    ) -> None:
        if isinstance(value, bool):
            leaf = AnswerLeaf(holder, key, row, Scalar.BOOLEAN, b"t" if value else b"f", document)
            self._append(self._opaque, TextKind.OPAQUE, name, origin, leaf)
        elif isinstance(value, int | float):
            scalar, text = _number(value)
            leaf = AnswerLeaf(holder, key, row, scalar, text, document)
            if searches and scalar is not Scalar.DOUBLE:
                self._append(self._numbers, TextKind.NUMBER, name, origin, leaf)
            else:
                self._append(self._opaque, TextKind.OPAQUE, name, origin, leaf)
        else:
            raise ValueError(f"a value of the type {type(value).__name__} cannot be inspected")

    def _walk(
        self,
        document: NestedDocument,
        holder: Any,
        place: Any,
        tree: Any,
        name: str,
        row: int,
        origin: Origin | None,
        nested: int,
        depth: int,
    ) -> None:
        """Add the values in a part of a document. It is `holder[place]`, or the whole document without a holder."""
        if depth > _MAX_DEPTH:
            raise ValueError("a message is nested too deeply to be inspected")
        if isinstance(tree, dict):
            children = self._children.get(name)
            if children is None:
                children = self._children[name] = {}
            for key in tree:
                if not children.get(key) and not self._child(children, name, key):
                    pairs = _Pairs([[key, value] for key, value in tree.items()])
                    self._walk_pairs(document, holder, place, pairs, name, row, origin, nested, depth)
                    return
            for key, value in tree.items():
                self._add_item(document, tree, key, value, children[key], row, origin, nested, depth)
        elif isinstance(tree, _Pairs):
            self._walk_pairs(document, holder, place, tree, name, row, origin, nested, depth)
        else:
            for number, value in enumerate(tree):
                self._add_item(document, tree, number, value, name, row, origin, nested, depth)

    def _walk_pairs(
        self,
        document: NestedDocument,
        holder: Any,
        place: Any,
        pairs: _Pairs,
        name: str,
        row: int,
        origin: Origin | None,
        nested: int,
        depth: int,
    ) -> None:
        """Add the members of an object that has keys which can be data, or appear twice."""
        document.has_pairs = True
        if holder is None:
            document.tree = pairs
        else:
            holder[place] = pairs
        children = self._children.setdefault(name, {})
        for pair in pairs:
            key = pair[0]
            inner = self._child(children, name, key)
            if not inner:
                inner = name
                leaf = AnswerLeaf(
                    pair, 0, row, Scalar.TEXT, key.encode("utf-8", "surrogatepass"), document, is_key=True
                )
                self._append(self._texts, TextKind.TEXT, name, origin, leaf)
            self._add_item(document, pair, 1, pair[1], inner, row, origin, nested, depth)

    def _add_item(
        self,
        document: NestedDocument,
        holder: Any,
        key: Any,
        value: Any,
        name: str,
        row: int,
        origin: Origin | None,
        nested: int,
        depth: int,
    ) -> None:
        if origin is not None and origin[2] != name:
            origin = (origin[0], origin[1], name)
        if isinstance(value, str):
            self._add_text(holder, key, value, name, row, origin, document, nested)
        elif isinstance(value, dict | list):
            self._walk(document, holder, key, value, name, row, origin, nested, depth + 1)
        elif value is not None:
            self._add_scalar(holder, key, value, name, row, origin, document, True)

    def _child(self, children: dict[str, str], name: str, key: str) -> str:
        """Return the path of a member; empty if its key is not a plain name, and can be data."""
        inner = children.get(key)
        if inner is None:
            inner = f"{name}.{key}" if PLAIN_KEY.fullmatch(key) else ""
            if len(children) < MAX_COLUMNS:
                children[key] = inner
        return inner

    def _append(
        self,
        columns: dict[str | tuple[str, Origin], list[AnswerLeaf]],
        kind: TextKind,
        name: str,
        origin: Origin | None,
        leaf: AnswerLeaf,
    ) -> None:
        key = name if origin is None else (name, origin)
        leaves = columns.get(key)
        if leaves is None:
            if len(self._columns) >= MAX_COLUMNS:
                raise ValueError(f"the answer has more than {MAX_COLUMNS} different fields")
            leaves = columns[key] = []
            self._columns.append((Column(name, kind, origin=origin), leaves))
        leaves.append(leaf)

    def columns(self) -> tuple[tuple[Column, ...], list[list[AnswerLeaf]]]:
        """Return the columns, in order of their first values, and the leaves of each."""
        return tuple([column for column, _ in self._columns]), [leaves for _, leaves in self._columns]


class AnswerRows(Rows):
    """The collected values of one answer. `encode` gives the frames for the client, see `ResponseBodyReader`."""

    def __init__(self, exchange: int, collector: LeafCollector, write: Callable[[bool], bytes]) -> None:
        """`write` encodes the answer; its argument tells whether the tree has changed."""
        self.exchange = exchange
        self.columns, self._leaves = collector.columns()
        self.count = collector.rows
        self._documents = collector.documents
        self._write = write
        self._changed_rows: dict[int, int] = {}

    def recorded_names(self, columns: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.columns[column].name for column in columns]))

    def texts(self, column: int) -> list[bytes]:
        if self.columns[column].kind is TextKind.OPAQUE:
            return []
        return [text for leaf in self._leaves[column] if (text := leaf.current) is not None]

    def replace(self, column: int, texts: list[bytes]) -> None:
        leaves = [leaf for leaf in self._leaves[column] if leaf.current is not None]
        rows = 0
        for leaf, text in zip(leaves, texts, strict=True):
            if text != leaf.current:
                leaf.put(text)
                rows |= 1 << leaf.row
        self._changed_rows[column] = rows

    def change(self, column: int, by: Change) -> tuple[int, int]:
        cells = size = rows = 0
        for leaf in self._leaves[column]:
            old = leaf.current
            if old is None:
                continue
            new = by(leaf.scalar, old)
            if new != old:
                leaf.put(new)
                cells += 1
                size += len(old)
                rows |= 1 << leaf.row
        self._changed_rows[column] = rows
        return cells, size

    def find_changed_rows(self, column: int) -> bytes:
        size = (self.count + 7) // 8
        return self._changed_rows.get(column, 0).to_bytes(size, "little")

    def encode(self) -> bytes:
        """Return the frames of the answer with all changes."""
        is_changed = False
        for leaves in self._leaves:
            for leaf in leaves:
                if leaf.is_changed:
                    is_changed = True
                    leaf.holder[leaf.key] = _value(leaf)
        for document in reversed(self._documents):  # inner ones first
            if document.is_changed:
                document.holder[document.key] = _dump(document)
        return self._write(is_changed)


def _parse(text: str) -> Any:
    """Return the document that a text is, or None if it is not JSON. Raises ValueError if it is nested too deeply."""
    if text.lstrip()[:1] not in _OPENING:
        return None
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("a message is nested too deeply to be inspected") from None
    except json.JSONDecodeError:
        return None


def _as_pairs(pairs: list[tuple[str, Any]]) -> Any:
    """Return an object as a dict, or as `_Pairs` if a key appears twice."""
    made = dict(pairs)
    return made if len(made) == len(pairs) else _Pairs([list(pair) for pair in pairs])


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_as_pairs)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _dump(document: NestedDocument) -> str:
    return _dump_pairs(document.tree) if document.has_pairs else _ENCODER.encode(document.tree)


def _dump_pairs(tree: Any) -> str:
    """Return a tree that has `_Pairs` as JSON."""
    if isinstance(tree, _Pairs):
        return "{" + ",".join([f"{_ENCODER.encode(key)}:{_dump_pairs(value)}" for key, value in tree]) + "}"
    if isinstance(tree, dict):
        return "{" + ",".join([f"{_ENCODER.encode(key)}:{_dump_pairs(value)}" for key, value in tree.items()]) + "}"
    if isinstance(tree, list):
        return "[" + ",".join([_dump_pairs(value) for value in tree]) + "]"
    return _ENCODER.encode(tree)


def _number(value: float) -> tuple[Scalar, bytes]:
    if isinstance(value, int):
        return (Scalar.BIGINT if -(1 << 63) <= value < 1 << 63 else Scalar.DECIMAL), str(value).encode()
    text = repr(value)
    plain = "e" not in text and "n" not in text
    return (Scalar.DECIMAL if plain else Scalar.DOUBLE), text.encode()


def _value(leaf: AnswerLeaf) -> Any:
    """Return the new value of a leaf, of the type that the old one has. What is not valid for it becomes null."""
    new = leaf.new
    if new is None:
        return "" if leaf.is_key else None
    if leaf.scalar is Scalar.TEXT:
        return new.decode("utf-8", "surrogatepass")
    if leaf.scalar is Scalar.BOOLEAN:
        return {b"t": True, b"f": False}.get(new)
    text = new.decode("ascii", "replace").strip()
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text) if _DECIMAL.fullmatch(text) else None
    except ValueError:
        return None


_WHOLE: Final = re.compile(r"-?[0-9]{1,400}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,2})?")
