"""Documents of one reply as rows: a column for each path and kind of value.

Theory. The places of data in a reply are *segments*: elements of one document, or the values of one array. One pass
over them finds the columns, and writes down for every element which column its value belongs to (`_sequence`). A second
pass copies the values of the columns that are needed; it does not have to look at names again. A third one, over
changed rows only, builds them anew. Positions are not stored: reading a length again is cheaper than an object for it.

    {a: 1, b: {c: "x", "d e": [true, 2]}}

    columns    a NUMBER      b.c TEXT   (field names) TEXT     b.d e OPAQUE   b.d e NUMBER
    sequence   a      NESTED b.c        NAMES       NESTED     b.d e          b.d e

Arrays are transparent: their values belong to the path of the array. Field names that are not plain identifiers can be
data, so they are texts of a column of their own.
"""

from __future__ import annotations

import re
from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Column, Rows, TextKind
from postern.protocols.mongodb.wire.bson_documents import (
    ARRAY,
    BINARY,
    CODE,
    CODE_WITH_SCOPE,
    DECIMAL128,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    MAX_DEPTH,
    NULL,
    STRING,
    SYMBOL,
    encode_document,
    int32_at,
    name_end,
    packed32,
    scope_of,
    string_value,
    value_end,
)
from postern.protocols.mongodb.wire.mongodb_values import (
    ValueChange,
    binary_content,
    is_text,
    is_text_binary,
    number_text,
    pack_binary,
    pack_number,
)

FIELD_NAMES: Final = "(field names)"
MAX_COLUMNS: Final = 4096  # of one reply
MAX_PATH: Final = 4096  # bytes of a path
_MAX_NODES: Final = 16_384  # paths that are stored between replies
_MAX_CHARACTERS: Final = 2 << 20  # … bytes of all of them
_MAX_LAYOUTS: Final = 64

# Entries of a sequence besides the numbers of columns
_NESTED: Final = -1
_NAMES: Final = 0

_PLAIN_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z_0-9]{0,63}")
_HIDDEN_NAME: Final = b"****"


class TooManyFields(Exception):
    """A reply has more fields, or longer paths, than can be inspected."""


class PathNode:
    """A path, and the numbers of its columns by kind; -1 for none. `seen` are the replies that last had a value."""

    __slots__ = (
        "children",
        "is_plain",
        "number",
        "number_seen",
        "opaque",
        "opaque_seen",
        "path",
        "path_size",
        "text",
        "text_seen",
    )

    def __init__(self, path: str, path_size: int, is_plain: bool) -> None:
        self.path = path
        self.path_size = path_size
        self.is_plain = is_plain
        self.children: dict[bytes, PathNode] = {}
        self.text: i64 = -1
        self.number: i64 = -1
        self.opaque: i64 = -1
        self.text_seen: i64 = 0
        self.number_seen: i64 = 0
        self.opaque_seen: i64 = 0


class DocumentPaths:
    """The paths and columns that the replies of one link have had. Replies of a session are alike, so most need no new
    objects; `columns_of` returns the same tuple for the same columns, by which plans for them are found."""

    def __init__(self) -> None:
        self.generation: i64 = 0
        self._clear()

    def _clear(self) -> None:
        self.root = PathNode("", 0, True)
        self.columns: list[Column] = [Column(FIELD_NAMES, TextKind.TEXT)]
        self.names_seen: i64 = 0
        self._nodes = 0
        self._characters = 0
        self._layouts: dict[tuple[int, ...], tuple[Column, ...]] = {}

    def begin(self) -> None:
        """Begin another reply."""
        self.generation += 1
        if self._nodes > _MAX_NODES or self._characters > _MAX_CHARACTERS:
            self._clear()

    def child(self, node: PathNode, name: bytes) -> PathNode:
        """Return the path of a field in the documents of a path. An empty name adds nothing to a path."""
        child = node.children.get(name)
        if child is not None:
            return child
        size = node.path_size + len(name) + 1
        self._nodes += 1
        self._characters += size
        if size > MAX_PATH or self._nodes > 2 * _MAX_NODES or self._characters > 4 * _MAX_CHARACTERS:
            raise TooManyFields
        shown = name.decode("utf-8", "replace")
        path = f"{node.path}.{shown}" if node.path_size else shown
        child = PathNode(path, size, _PLAIN_NAME.fullmatch(name) is not None)
        node.children[name] = child
        return child

    def node_of(self, path: bytes) -> PathNode:
        """Return a path that is written with points."""
        node = self.root
        for name in path.split(b"."):
            node = self.child(node, name)
        return node

    def add(self, path: str, kind: TextKind) -> i64:
        """Return the number of a new column."""
        self.columns.append(Column(path, kind))
        return len(self.columns) - 1

    def columns_of(self, numbers: list[int]) -> tuple[Column, ...]:
        key = tuple(numbers)
        columns = self._layouts.get(key)
        if columns is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            columns = self._layouts[key] = tuple([self.columns[number] for number in numbers])
        return columns


class DataSegment:
    """Data of a reply from `pos` to `end`: elements of a document of the path `node`, or of an array (`is_array`).

    `row` is the row that they belong to. `chain` are the positions of the lengths of all documents around them, and of
    the message; `own` is that of the document that is the segment, if it is one in a batch.
    """

    __slots__ = ("chain", "end", "is_array", "node", "own", "pos", "row")

    def __init__(
        self, pos: i64, end: i64, node: PathNode, row: i64, chain: list[int], *, own: i64 = -1, is_array: bool = False
    ) -> None:
        self.pos: i64 = pos
        self.end: i64 = end
        self.node = node
        self.row: i64 = row
        self.chain = chain
        self.own: i64 = own
        self.is_array = is_array


class Patches:
    """Changes to a message: bytes that are replaced, and lengths that change with them."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, bytes]] = []
        self._deltas: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def add(self, start: i64, end: i64, new: bytes, chain: list[int], own: i64 = -1) -> None:
        """Replace the bytes from `start` to `end`. `chain` and `own` are positions of lengths, see `DataSegment`."""
        self._parts.append((int(start), int(end), new))
        delta = len(new) - int(end - start)
        if not delta:
            return
        for place in chain:
            self._deltas[place] = self._deltas.get(place, 0) + delta
        if own >= 0:
            self._deltas[int(own)] = self._deltas.get(int(own), 0) + delta

    def apply(self, data: bytes) -> bytes:
        """Return the changed message. Changes must not overlap."""
        parts = self._parts
        for place, delta in self._deltas.items():
            parts.append((place, place + 4, packed32(int32_at(data, place) + delta)))
        parts.sort()
        out: list[bytes] = []
        copied = 0
        for start, end, new in parts:
            out.append(data[copied:start])
            out.append(new)
            copied = end
        out.append(data[copied:])
        return b"".join(out)


class ColumnCells:
    """The values of one column, as far as they were needed, and what replaces them."""

    __slots__ = ("cells", "changed", "is_changed", "kinds", "last")

    def __init__(self) -> None:
        self.cells: list[bytes] = []
        self.kinds: list[int] = []
        self.changed: list[bool] = []
        self.is_changed = False
        self.last: list[bool] = []  # values that the last replacement changed

    def put(self, place: int, kind: int, cell: bytes) -> None:
        self.kinds[place] = kind
        self.cells[place] = cell
        self.changed[place] = True
        self.last[place] = True
        self.is_changed = True

    def begin_change(self) -> None:
        count = len(self.cells)
        if not self.changed:
            self.changed = [False] * count
        self.last = [False] * count


class DocumentRows(Rows):
    """Documents of one reply, which is `data`. `paths.begin` was called for it before the segments were made.

    `opened` is the exchange that opened the cursor of a getMore. Raises ProtocolViolation if they are not BSON, and
    TooManyFields.
    """

    def __init__(
        self, exchange: int, data: bytes, segments: list[DataSegment], paths: DocumentPaths, opened: int = 0
    ) -> None:
        self.exchange = exchange
        self._opened = opened or exchange
        self._data = data
        self._segments = segments
        self._paths = paths
        self._sequence: list[int] = []
        self._numbers: list[int] = []  # of columns, in order of first appearance
        self._at: i64 = 0  # index in the sequence, while it is read
        self._cells: list[ColumnCells | None] = []  # by number of column; None: not read
        self._reading: list[ColumnCells | None] = []  # those of `_cells` that are read now
        self._is_expected: list[bool] = []
        self._starts: list[int] = []  # index of each segment's first entry in the sequence
        self._change_at: i64 = 0  # index of the next change, while rows are built
        self._change_places: list[int] = []
        self._change_kinds: list[int] = []
        self._change_cells: list[bytes] = []
        for segment in segments:
            self._starts.append(len(self._sequence))
            self._discover(segment.pos, segment.end, segment.node, segment.is_array, 1)
        self._starts.append(len(self._sequence))
        self._cells = [None] * len(paths.columns)
        self.columns = paths.columns_of(self._numbers)
        self.count = int(segments[-1].row) + 1 if segments else 0

    @property
    def counts_with(self) -> int:
        return self._opened

    def recorded_names(self, columns: tuple[int, ...]) -> tuple[str, ...]:
        """Return the paths of columns, by which tables of results find the fields that show them."""
        return tuple(dict.fromkeys([self.columns[column].name for column in columns]))

    # Finding columns

    def _see_number(self, number: i64) -> None:
        if len(self._numbers) >= MAX_COLUMNS:
            raise TooManyFields
        self._numbers.append(int(number))

    def _see_names(self) -> None:
        paths = self._paths
        if paths.names_seen != paths.generation:
            paths.names_seen = paths.generation
            self._see_number(_NAMES)
        self._sequence.append(_NAMES)

    def _see_text(self, node: PathNode) -> None:
        paths = self._paths
        if node.text < 0:
            node.text = paths.add(node.path, TextKind.TEXT)
        node.text_seen = paths.generation
        self._see_number(node.text)

    def _see_numeric(self, node: PathNode) -> None:
        paths = self._paths
        if node.number < 0:
            node.number = paths.add(node.path, TextKind.NUMBER)
        node.number_seen = paths.generation
        self._see_number(node.number)

    def _see_opaque(self, node: PathNode) -> None:
        paths = self._paths
        if node.opaque < 0:
            node.opaque = paths.add(node.path, TextKind.OPAQUE)
        node.opaque_seen = paths.generation
        self._see_number(node.opaque)

    def _discover(self, pos: i64, last: i64, node: PathNode, is_array: bool, depth: i64) -> None:
        if depth > MAX_DEPTH:
            raise ProtocolViolation(f"a BSON document has more than {MAX_DEPTH} levels")
        data = self._data
        sequence = self._sequence
        paths = self._paths
        generation: i64 = paths.generation
        while pos < last:
            kind: i64 = data[pos]
            start: i64 = pos + 1
            stop = name_end(data, start, last)
            child = node
            if is_array:
                while start < stop:
                    digit: i64 = data[start]
                    if digit < 48 or digit > 57:
                        self._see_names()
                        break
                    start += 1
            else:
                name = data[start:stop]
                known = node.children.get(name)
                child = known if known is not None else paths.child(node, name)
                if not child.is_plain:
                    self._see_names()
            value: i64 = stop + 1
            pos = value_end(data, kind, value, last)
            if kind in (STRING, SYMBOL, CODE):
                if child.text_seen != generation:
                    self._see_text(child)
                sequence.append(int(child.text))
            elif kind in (DOCUMENT, ARRAY):
                sequence.append(_NESTED)
                self._discover(value + 4, pos - 1, child, kind == ARRAY, depth + 1)
            elif kind in (INT32, INT64, DOUBLE, DECIMAL128):
                if child.number_seen != generation:
                    self._see_numeric(child)
                sequence.append(int(child.number))
            elif kind == CODE_WITH_SCOPE:
                if child.text_seen != generation:
                    self._see_text(child)
                sequence.append(int(child.text))
                self._discover(scope_of(data, value, pos) + 4, pos - 1, child, False, depth + 1)
            elif kind == BINARY and is_text_binary(data, value, pos):
                if child.text_seen != generation:
                    self._see_text(child)
                sequence.append(int(child.text))
            else:
                if child.opaque_seen != generation:
                    self._see_opaque(child)
                sequence.append(int(child.opaque))

    # Reading values

    def expect(self, columns: list[bool]) -> None:
        self._is_expected = columns

    def _column(self, column: int) -> ColumnCells:
        number = self._numbers[column]
        cells = self._cells[number]
        if cells is None:
            self._read(column)
            cells = self._cells[number]
            assert cells is not None
        return cells

    def _read(self, column: int) -> None:
        """Read the values of a column, and with it those of all expected ones, or of all that can be searched."""
        reading: list[ColumnCells | None] = [None] * len(self._cells)
        expected = self._is_expected
        for place, number in enumerate(self._numbers):
            if self._cells[number] is not None:
                continue
            is_wanted = expected[place] if expected else self.columns[place].kind is not TextKind.OPAQUE
            if is_wanted or place == column:
                cells = ColumnCells()
                self._cells[number] = cells
                reading[number] = cells
        self._reading = reading
        self._at = 0
        for segment in self._segments:
            self._cut(segment.pos, segment.end)

    def _cut(self, pos: i64, last: i64) -> None:
        data = self._data
        sequence = self._sequence
        reading = self._reading
        at: i64 = self._at
        while pos < last:
            kind: i64 = data[pos]
            pos += 1
            stop: i64 = name_end(data, pos, last)
            entry: i64 = sequence[at]
            if entry == _NAMES:
                names = reading[_NAMES]
                if names is not None:
                    names.cells.append(data[pos:stop])
                    names.kinds.append(STRING)
                at += 1
                entry = sequence[at]
            at += 1
            value: i64 = stop + 1
            if kind == STRING:
                pos = value + 4 + int32_at(data, value)
                column = reading[entry]
                if column is not None:
                    column.cells.append(data[value + 4 : pos - 1])
                    column.kinds.append(STRING)
                continue
            pos = value_end(data, kind, value, last)
            if entry == _NESTED:
                self._at = at
                self._cut(value + 4, pos - 1)
                at = self._at
                continue
            column = reading[entry]
            if column is not None:
                column.cells.append(_cell_of(data, kind, value, pos))
                column.kinds.append(int(kind))
            if kind == CODE_WITH_SCOPE:
                self._at = at
                self._cut(scope_of(data, value, pos) + 4, pos - 1)
                at = self._at
        self._at = at

    def texts(self, column: int) -> list[bytes]:
        kind = self.columns[column].kind
        if kind is TextKind.OPAQUE:
            return []
        return _texts(self._column(column), is_number=kind is TextKind.NUMBER)

    # Changing values

    def replace(self, column: int, texts: list[bytes]) -> None:
        kind = self.columns[column].kind
        if kind is TextKind.OPAQUE:
            if texts:
                raise ValueError("texts given for a column that holds none")
            return
        cells = self._column(column)
        is_number = kind is TextKind.NUMBER
        old = _texts(cells, is_number=is_number)
        if len(texts) != len(old):
            raise ValueError(f"{len(texts)} texts given for a column that holds {len(old)}")
        cells.begin_change()
        is_name = self._numbers[column] == _NAMES
        index = 0
        for place in range(len(cells.kinds)):
            value_kind = cells.kinds[place]
            if value_kind == NULL:  # by an earlier change
                continue
            new = texts[index]
            if new != old[index]:
                if is_number:
                    number = pack_number(value_kind, new)
                    cells.put(place, number[0], number[1])
                elif value_kind == BINARY:
                    cells.put(place, BINARY, pack_binary(cells.cells[place][4], new))
                else:
                    cells.put(place, value_kind, new.replace(b"\0", b"") if is_name else new)
            index += 1

    def change(self, column: int, by: Change) -> tuple[int, int]:
        cells = self._column(column)
        cells.begin_change()
        is_name = self._numbers[column] == _NAMES
        values = ValueChange(by)
        count = size = 0
        for place in range(len(cells.kinds)):
            kind = cells.kinds[place]
            cell = cells.cells[place]
            new_kind, new = values.change(kind, cell)
            if new_kind == kind and new == cell:
                continue
            count += 1
            size += len(cell)
            if is_name:
                new_kind, new = STRING, new.replace(b"\0", b"") if new_kind == STRING else _HIDDEN_NAME
            cells.put(place, new_kind, new)
        return count, size

    def find_changed_rows(self, column: int) -> bytes:
        number = self._numbers[column]
        rows = bytearray((self.count + 7) // 8)
        cells = self._cells[number]
        if cells is None or not cells.last:
            return bytes(rows)
        last = cells.last
        place = 0
        sequence = self._sequence
        for index, segment in enumerate(self._segments):
            row = int(segment.row)
            for at in range(self._starts[index], self._starts[index + 1]):
                if sequence[at] == number:
                    if last[place]:
                        rows[row >> 3] |= 1 << (row & 7)
                    place += 1
        return bytes(rows)

    # Building rows

    def add_patches(self, patches: Patches) -> None:
        """Add what changes in the message."""
        self._list_changes()
        places = self._change_places
        if not places:
            return
        self._change_at = 0
        for index, segment in enumerate(self._segments):
            if self._change_at >= len(places):
                break
            if places[self._change_at] >= self._starts[index + 1]:
                continue
            self._at = self._starts[index]
            new = self._build(segment.pos, segment.end)
            if new is not None:
                patches.add(segment.pos, segment.end, new, segment.chain, segment.own)

    def _list_changes(self) -> None:
        """Write down the index in the sequence, the type and the cell of each change, in order."""
        self._change_places = []
        self._change_kinds = []
        self._change_cells = []
        if not any(cells is not None and cells.is_changed for cells in self._cells):
            return
        counts = [0] * len(self._cells)
        all_cells = self._cells
        for at, number in enumerate(self._sequence):
            if number >= 0:
                cells = all_cells[number]
                if cells is not None and cells.is_changed:
                    place = counts[number]
                    counts[number] = place + 1
                    if cells.changed[place]:
                        self._change_places.append(at)
                        self._change_kinds.append(cells.kinds[place])
                        self._change_cells.append(cells.cells[place])

    def _next_change(self) -> i64:
        """Return the index in the sequence of the next change, or -1."""
        return self._change_places[self._change_at] if self._change_at < len(self._change_places) else -1

    def _build(self, pos: i64, last: i64) -> bytes | None:
        """Return the elements from `pos` to `last` with their changes, or None if there are none."""
        data = self._data
        sequence = self._sequence
        parts: list[bytes] = []
        copied: i64 = pos
        names: set[bytes] | None = None
        at: i64 = self._at
        change = self._next_change()
        first: i64 = pos
        while pos < last:
            start: i64 = pos
            kind: i64 = data[pos]
            stop: i64 = name_end(data, pos + 1, last)
            if sequence[at] == _NAMES:
                if at == change:
                    if names is None:
                        names = self._names_of(first, last)
                    new_name = _unused_name(self._change_cells[self._change_at], names)
                    parts += (data[copied : start + 1], new_name)
                    copied = stop
                    self._change_at += 1
                    change = self._next_change()
                at += 1
            entry: i64 = sequence[at]
            value: i64 = stop + 1
            pos = value_end(data, kind, value, last)
            if at == change:
                new_kind = self._change_kinds[self._change_at]
                cell = self._change_cells[self._change_at]
                self._change_at += 1
                if new_kind != kind:
                    # The type stands before the name, which may already be copied.
                    name = data[start + 1 : stop] if copied <= start else b""
                    if copied <= start:
                        parts += (data[copied:start], new_kind.to_bytes(1, "little"), name, b"\0")
                    else:
                        parts[len(parts) - 2] = parts[len(parts) - 2][:-1] + new_kind.to_bytes(1, "little")
                        parts.append(b"\0")
                else:
                    parts.append(data[copied:value])
                at += 1
                if kind == CODE_WITH_SCOPE:
                    scope = scope_of(data, value, pos)
                    self._at = at
                    inner = self._build(scope + 4, pos - 1)
                    at = self._at
                    if new_kind == CODE_WITH_SCOPE:
                        content = data[scope + 4 : pos - 1] if inner is None else inner
                        code = string_value(cell) + encode_document(content)
                        parts += (packed32(len(code) + 4), code)
                if new_kind != CODE_WITH_SCOPE:
                    parts.append(_encode_cell(new_kind, cell))
                copied = pos
                change = self._next_change()
                continue
            at += 1
            if entry == _NESTED:
                self._at = at
                inner = self._build(value + 4, pos - 1)
                at = self._at
                if inner is not None:
                    parts += (data[copied:value], encode_document(inner))
                    copied = pos
                    change = self._next_change()
            elif kind == CODE_WITH_SCOPE:
                scope = scope_of(data, value, pos)
                self._at = at
                inner = self._build(scope + 4, pos - 1)
                at = self._at
                if inner is not None:
                    code = data[value + 4 : scope] + encode_document(inner)
                    parts += (data[copied:value], packed32(len(code) + 4), code)
                    copied = pos
                    change = self._next_change()
        self._at = at
        if copied == first:
            return None
        parts.append(data[copied:last])
        return b"".join(parts)

    def _names_of(self, pos: i64, last: i64) -> set[bytes]:
        """Return the names of the elements from `pos` to `last`."""
        data = self._data
        names: set[bytes] = set()
        while pos < last:
            kind: i64 = data[pos]
            stop = name_end(data, pos + 1, last)
            names.add(data[pos + 1 : stop])
            pos = value_end(data, kind, stop + 1, last)
        return names


def _texts(cells: ColumnCells, *, is_number: bool) -> list[bytes]:
    """Return the texts of the values of a column, without nulls, which earlier changes can have made."""
    texts: list[bytes] = []
    kinds = cells.kinds
    for place, cell in enumerate(cells.cells):
        kind = kinds[place]
        if kind == STRING:
            texts.append(cell)
        elif kind == BINARY:
            texts.append(binary_content(cell))
        elif kind != NULL:
            texts.append(number_text(kind, cell) if is_number else cell)
    return texts


def _cell_of(data: bytes, kind: i64, value: i64, end: i64) -> bytes:
    if kind == CODE_WITH_SCOPE:
        return data[value + 8 : scope_of(data, value, end) - 1]
    return data[value + 4 : end - 1] if is_text(kind) else data[value:end]


def _encode_cell(kind: int, cell: bytes) -> bytes:
    """Encode the value of a cell; not one of the type CODE_WITH_SCOPE."""
    return string_value(cell) if is_text(kind) else cell


def _unused_name(name: bytes, names: set[bytes]) -> bytes:
    """Return the name, with a number if another field of the same document has it: readers keep one of equal ones."""
    new, number = name, 1
    while new in names:
        number += 1
        new = name + b"%d" % number
    names.add(new)
    return new
