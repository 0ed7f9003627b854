"""Items of one response as rows: a column for each table, path and kind of value.

    {"id": {"N": "1"}, "address": {"M": {"zip": {"S": "10115"}, "a b": {"SS": ["x", "y"]}}}}

    columns    id NUMBER      address.zip TEXT      address.a b TEXT      (field names) TEXT: `a b`

Lists and sets are transparent: their values belong to the path of the list. Names that are not plain identifiers can be
data, so they are texts of a column of their own, whose origin is the map that has them. The origin of a column is the
table that the response names, or the request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from postern.interception.events import Change, Column, TextKind
from postern.protocols.aws.aws_json_reader import AwsJsonAnswer, AwsJsonRows
from postern.protocols.dynamodb.wire.attribute_values import (
    LIST,
    MAP,
    NAME,
    NULL,
    SETS,
    TAGS,
    AttributeCell,
    cell_value,
    changed_value,
    json_value,
    kind_of,
    valid_value,
)

FIELD_NAMES: Final = "(field names)"
MAX_COLUMNS: Final = 4096  # of one response
MAX_PATH: Final = 4096  # characters of a path
_MAX_DEPTH: Final = 64  # DynamoDB itself allows 32
_MAX_REMEMBERED: Final = 16_384  # columns that are stored between responses
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,63}")


class FoundItem(NamedTuple):
    """An item in a response: its attributes by name. `table` is empty where it is not known. `paths` are the origins
    of its top-level attributes where they differ from their names."""

    table: str
    attributes: Any  # an object, if the response is as it must be
    paths: dict[str, str] | None = None


class AttributeColumns:
    """The columns that the responses of one link have had: equal ones are one object."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str, str, TextKind], Column] = {}
        self._layouts: dict[tuple[Column, ...], tuple[Column, ...]] = {}

    def of(self, table: str, path: str, name: str, kind: TextKind) -> Column:
        key = (table, path, name, kind)
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= _MAX_REMEMBERED:
                self._columns.clear()
                self._layouts.clear()
            column = Column(name, kind, origin=("", table, path) if table else None)
            self._columns[key] = column
        return column

    def layout(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        key = tuple(columns)
        return self._layouts.setdefault(key, key)


class DynamodbRows(AwsJsonRows):
    """The items of a response, whose parsed body is changed in place. Raises ValueError if they are not items.

    `keys` are keys of items, which belong to the last row: a page ends there.
    """

    def __init__(
        self,
        answer: AwsJsonAnswer,
        items: Sequence[FoundItem],
        known: AttributeColumns,
        keys: Sequence[FoundItem] = (),
    ) -> None:
        self.answer = answer
        self.exchange = answer.exchange
        self.count = max(len(items), 1 if keys else 0)
        self._known = known
        self._cells: list[list[AttributeCell]] = []
        self._numbers: dict[tuple[str, str, str, TextKind], int] = {}
        self._sets: list[tuple[dict[str, Any], str]] = []
        self._last: list[list[bool]] = []
        found: list[Column] = []
        self._found = found
        for row, item in enumerate(items):
            self._add_map(item.attributes, item.table, "", row, 1, item.paths)
        for item in keys:
            self._add_map(item.attributes, item.table, "", self.count - 1, 1)
        self.columns = known.layout(found)
        self._last = [[] for _ in found]
        answer.before_encoding.append(self._finish_sets)

    def _add_map(
        self, holder: Any, table: str, path: str, row: int, depth: int, paths: dict[str, str] | None = None
    ) -> None:
        if not isinstance(holder, dict):
            raise ValueError("an item of the response is not an object")
        for name, attribute in holder.items():
            origin = str(paths.get(name, name)) if paths is not None else str(name)
            inner = f"{path}.{origin}" if path else origin
            if len(inner) > MAX_PATH:
                raise ValueError(f"an attribute's path has more than {MAX_PATH} characters")
            if _PLAIN_NAME.fullmatch(name) is None:
                cell = AttributeCell(holder, name, NAME, row, name.encode("utf-8", "surrogatepass"))
                self._add_cell(cell, table, path, FIELD_NAMES)
            self._add_value(attribute, table, inner, row, depth)

    def _add_value(self, attribute: Any, table: str, path: str, row: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError(f"an item has more than {_MAX_DEPTH} levels")
        if not isinstance(attribute, dict) or len(attribute) != 1:
            raise ValueError("an attribute of the response has not one type")
        tag, value = next(iter(attribute.items()))
        if tag == MAP:
            self._add_map(value, table, path, row, depth + 1)
        elif tag == LIST:
            if not isinstance(value, list):
                raise ValueError("a list of the response is not an array")
            for each in value:
                self._add_value(each, table, path, row, depth + 1)
        elif tag in SETS:
            if not isinstance(value, list):
                raise ValueError("a set of the response is not an array")
            self._sets.append((attribute, tag))
            for index, element in enumerate(value):
                inner = SETS[tag]
                self._add_cell(AttributeCell(value, index, inner, row, cell_value(inner, element)), table, path, path)
        elif tag in TAGS:
            self._add_cell(AttributeCell(attribute, tag, tag, row, cell_value(tag, value)), table, path, path)
        else:
            raise ValueError(f"an attribute of the response has the unknown type {str(tag)[:16]!r}")

    def _add_cell(self, cell: AttributeCell, table: str, path: str, name: str) -> None:
        kind = kind_of(cell.tag, cell.value)
        key = (table, path, name, kind)
        number = self._numbers.get(key)
        if number is None:
            if len(self._cells) >= MAX_COLUMNS:
                raise ValueError(f"the response has more than {MAX_COLUMNS} columns")
            number = self._numbers[key] = len(self._cells)
            self._cells.append([])
            self._found.append(self._known.of(table, path, name, kind))
        self._cells[number].append(cell)

    # Reading and changing

    def recorded_names(self, columns: tuple[int, ...]) -> tuple[str, ...]:
        """Return the paths of columns, by which tables of results find the attributes that show them."""
        return tuple(dict.fromkeys([self.columns[column].name for column in columns]))

    def texts(self, column: int) -> list[bytes]:
        if self.columns[column].kind is TextKind.OPAQUE:
            return []
        return [cell.value for cell in self._cells[column] if cell.value is not None]

    def replace(self, column: int, texts: list[bytes]) -> None:
        cells = [cell for cell in self._cells[column] if cell.value is not None]
        if self.columns[column].kind is TextKind.OPAQUE:
            cells = []
        if len(texts) != len(cells):
            raise ValueError(f"{len(texts)} texts given for a column that holds {len(cells)}")
        new = iter(texts)
        is_opaque = self.columns[column].kind is TextKind.OPAQUE
        changed: list[bool] = []
        for cell in self._cells[column]:
            if cell.value is None or is_opaque:
                changed.append(False)
                continue
            text = next(new)
            changed.append(text != cell.value)
            if text != cell.value:
                self._put(cell, valid_value(cell.tag, text))
        self._last[column] = changed

    def change(self, column: int, by: Change) -> tuple[int, int]:
        count = size = 0
        changed: list[bool] = []
        for cell in self._cells[column]:
            old = cell.value
            if old is None:
                changed.append(False)
                continue
            new = changed_value(cell.tag, old, by)
            changed.append(new != old)
            if new != old:
                count += 1
                size += len(old)
                self._put(cell, new)
        self._last[column] = changed
        return count, size

    def find_changed_rows(self, column: int) -> bytes:
        rows = bytearray((self.count + 7) // 8)
        for cell, changed in zip(self._cells[column], self._last[column], strict=False):
            if changed:
                rows[cell.row >> 3] |= 1 << (cell.row & 7)
        return bytes(rows)

    def _put(self, cell: AttributeCell, value: bytes | None) -> None:
        """Put another value into the body. None becomes NULL; an element of a set is left out."""
        self.answer.is_changed = True
        cell.is_changed = True
        cell.value = value
        if cell.tag == NAME:
            self._rename(cell, value)
        elif isinstance(cell.holder, list):
            cell.holder[cell.key] = None if value is None else json_value(cell.tag, value)
        else:
            cell.holder.clear()
            if value is None:
                cell.holder[NULL] = True
                cell.tag = NULL
            else:
                cell.holder[cell.tag] = json_value(cell.tag, value)

    def _rename(self, cell: AttributeCell, value: bytes | None) -> None:
        """Give a field another name, with a number if a field of the same map has it. The order of fields stays."""
        holder = cell.holder
        wished = "****" if value is None else value.decode("utf-8", "replace")
        name, number = wished, 1
        while name in holder:
            number += 1
            name = f"{wished}{number}"
        renamed = {name if key == cell.key else key: field for key, field in holder.items()}
        holder.clear()
        holder.update(renamed)
        cell.key = name

    def _finish_sets(self) -> None:
        """Leave out elements of changed sets that are NULL, or there twice. A set is never empty."""
        if not self.answer.is_changed:
            return
        for attribute, tag in self._sets:
            elements = [each for each in attribute[tag] if each is not None]
            attribute[tag] = list(dict.fromkeys(elements))
            if not elements:
                attribute.clear()
                attribute[NULL] = True
