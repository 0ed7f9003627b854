"""A block of rows of one result, accessed by column.

A row is a ROW token with all values, or an NBCROW token with a bit for each column that is NULL, and the other values.
Only columns that are needed are cut out, and only rows with a replaced cell are rebuilt. Texts are searched as UTF-8,
whatever the code page of their column. A text that is replaced is cut to the column's size.

FOR XML and FOR JSON return one document, in pieces of 2,033 characters over several rows. All of these rows are one
block, in which the only column has one text: a value can be in two pieces.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.interception.events import Change, Column, Fill, Rows, TextKind, compare_cells
from postern.protocols.mssql.wire import mssql_collations as collations
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire import mssql_types as t
from postern.protocols.mssql.wire.mssql_tokens import MssqlColumn, row_starts
from postern.protocols.mssql.wire.mssql_types import MssqlType, text_kind_of
from postern.protocols.mssql.wire.mssql_value_forms import content, encode_content
from postern.protocols.mssql.wire.mssql_values import cell_change, change_cells, fill_value, fit_text, plain_texts

Cells = list[bytes | None]  # of one column, row by row, without lengths; None is NULL

HIDDEN: Final = b"****"
_ROW_STATUS: Final = "ROWSTAT"
_XML_NAME: Final = "XML_F52E2B61-18A1-11d1-B105-00805F49916B"
_JSON_NAME: Final = "JSON_F52E2B61-18A1-11d1-B105-00805F49916B"


def hidden_type() -> MssqlType:
    """Return the type of columns that the client gets as texts: NVARCHAR(4000)."""
    kind = MssqlType(t.NVARCHAR, t.SHORT, 8000, t.UTF16)
    kind.is_nullable = True
    return kind


class MssqlLayout:
    """The columns of one result. The client gets the columns `as_text` as texts."""

    def __init__(self, columns: list[MssqlColumn], as_text: frozenset[int] = frozenset()) -> None:
        self.described: Final = columns
        self.as_text: Final = as_text
        self.types: Final = [column.type for column in columns]
        self.sent_types: Final = [hidden_type() if at in as_text else kind for at, kind in enumerate(self.types)]
        self.forms: Final = [kind.form for kind in self.types]
        self.columns: Final[tuple[Column, ...]] = _columns(columns)
        self.searched: Final = [column.kind is not TextKind.OPAQUE for column in self.columns]
        self.is_document: Final = (
            len(columns) == 1
            and columns[0].name in (_XML_NAME, _JSON_NAME)
            and bool(columns[0].type.codec)
            and not as_text
        )


def _columns(described: list[MssqlColumn]) -> tuple[Column, ...]:
    """Return the columns. Rows of a cursor end with one that the server itself adds: its position is negative."""
    columns = [_column(column) for column in described]
    last = described[-1] if described else None
    if last is not None and last.flags & k.HIDDEN_COLUMN and last.type.code == t.INT4 and last.name == _ROW_STATUS:
        columns[-1] = Column(last.name, columns[-1].kind, position=-1)
    return tuple(columns)


def _column(column: MssqlColumn) -> Column:
    kind = text_kind_of(column.type)
    return Column(column.name, TextKind.JSON if column.name == _JSON_NAME and column.type.codec else kind)


class MssqlRows(Rows):
    """Rows of one result. `raw` are their tokens. `is_changed`: they have to be encoded again."""

    def __init__(self, exchange: int, layout: MssqlLayout, raw: bytes, count: int, began: int = 0) -> None:
        self.exchange = exchange
        self._began = began or exchange
        self.columns = layout.columns
        self.count = count
        self._layout = layout
        self._raw = raw
        self._starts: list[int] = []  # of each row, and of its values
        self._rows: list[int] = []  # where each row begins
        self._old: list[Cells | None] = [None] * len(layout.columns)
        self._new: list[Cells | None] = [None] * len(layout.columns)
        self._before: Cells = []  # the cells of the column that was changed last
        self._texts: list[list[bytes] | None] = [None] * len(layout.columns)  # of the current cells
        self.is_changed = bool(layout.as_text)
        for column in layout.as_text:
            self._new[column] = [fit_text(layout.sent_types[column], HIDDEN)] * count

    @property
    def began(self) -> int:
        return self._began

    def _walk(self) -> None:
        """Find where all values begin and end."""
        raw = self._raw
        forms = self._layout.forms
        pos: i64 = 0
        for _ in range(self.count):
            self._rows.append(int(pos))
            pos = row_starts(raw, pos, forms, self._starts)
        self._rows.append(int(pos))
        if pos != len(raw):
            raise ProtocolViolation("a row is longer than its columns")

    def _came(self, column: int) -> Cells:
        """Return the original cells."""
        cells = self._old[column]
        if cells is not None:
            return cells
        if not self._rows:
            self._walk()
        cells = []
        raw = self._raw
        starts = self._starts
        form: i64 = self._layout.forms[column]
        step: i64 = 2 * len(self._layout.forms)
        at: i64 = 2 * column
        for _ in range(self.count):
            start: i64 = starts[at]
            cells.append(None if start < 0 else content(raw, start, starts[at + 1], form))
            at += step
        self._old[column] = cells
        return cells

    def _cells(self, column: int) -> Cells:
        """Return the current cells."""
        new = self._new[column]
        return self._came(column) if new is None else new

    def texts(self, column: int) -> list[bytes]:
        if self._is_opaque(column):
            return []
        texts = self._current_texts(column)
        return [b"".join(texts)] if self._layout.is_document and texts else list(texts)

    def _current_texts(self, column: int) -> list[bytes]:
        texts = self._texts[column]
        if texts is None:
            texts = self._texts[column] = plain_texts(self._layout.sent_types[column], self._cells(column))
        return texts

    def _is_opaque(self, column: int) -> bool:
        return not self._layout.searched[column] and column not in self._layout.as_text

    def replace(self, column: int, texts: list[bytes]) -> None:
        if self._is_opaque(column) and not texts:
            return
        if self._layout.is_document:
            self._replace_document(texts)
            return
        old = self._before = self._cells(column)
        if len(texts) != len(old) - old.count(None):
            raise ValueError(f"{len(texts)} texts given for a column that holds {len(old) - old.count(None)}")
        kind = self._layout.sent_types[column]
        before = self._current_texts(column)
        new: Cells = []
        at = 0
        for cell in old:
            if cell is None:
                new.append(None)
                continue
            text = texts[at]
            new.append(cell if text == before[at] else _encode_replacement(kind, cell, text))
            at += 1
        self._put(column, new)

    def _put(self, column: int, cells: Cells) -> None:
        self._new[column] = cells
        self._texts[column] = None
        self.is_changed = True

    def _replace_document(self, texts: list[bytes]) -> None:
        """Cut a document into as many pieces as it had."""
        self._before = self._cells(0)
        old = self.texts(0)
        if len(texts) != len(old):
            raise ValueError(f"{len(texts)} texts given for a document that has {len(old)}")
        if texts == old:
            return
        text = texts[0].decode("utf-8", "replace")
        kind = self._layout.types[0]
        size = -(-len(text) // self.count) or 1
        pieces = [text[at : at + size] for at in range(0, size * self.count, size)]
        self._put(0, [fit_text(kind, piece.encode()) for piece in pieces])

    def _change_document(self, by: Change) -> tuple[int, int]:
        self._before = self._cells(0)
        texts = self.texts(0)
        if not texts:
            return 0, 0
        kind = MssqlType(t.NVARCHAR, t.PLP, t.UNLIMITED, "utf-8")
        new = cell_change(kind, by)(texts[0])
        if new == texts[0]:
            return 0, 0
        self._replace_document([new or b""])
        return self.count, len(texts[0])

    def change(self, column: int, by: Change) -> tuple[int, int]:
        kind = self._layout.sent_types[column]
        if self._layout.is_document and not isinstance(by, Fill):
            return self._change_document(by)
        if column in self._layout.as_text:
            return self._hide(column, by)
        if isinstance(by, Fill):
            return self._fill(column, fill_value(kind, by))
        old = self._before = self._cells(column)
        new = change_cells(kind, old, by)
        changed = [cell for cell, other in zip(old, new, strict=True) if cell != other]
        if changed:
            self._put(column, new)
        return len(changed), sum([len(cell) for cell in changed if cell is not None])

    def find_changed_rows(self, column: int) -> bytes:
        return compare_cells(self._before, self._cells(column))

    def _hide(self, column: int, by: Change) -> tuple[int, int]:
        """Hide a column that the client gets as texts. `Fill` can choose NULL; all others have no effect here."""
        old = self._before = self._came(column)
        if isinstance(by, Fill):
            self._put(column, [fill_value(self._layout.sent_types[column], by)] * len(old))
        return len(old), sum([len(cell) for cell in old if cell is not None])

    def _fill(self, column: int, value: bytes | None) -> tuple[int, int]:
        """Set every cell to `value`, also NULLs."""
        old = self._before = self._cells(column)
        changed = [cell for cell in old if cell != value]
        if changed:
            self._put(column, [value] * len(old))
        return len(changed), sum([len(cell) for cell in changed if cell is not None])

    def encode(self) -> bytes:
        """Return the current rows as tokens."""
        if not self._rows:
            self._walk()
        changed = [column for column, new in enumerate(self._new) if new is not None]
        for column in changed:
            self._came(column)  # so that `_old` has it
        raw = self._raw
        out: list[bytes] = []
        copied = 0
        for row in range(self.count):
            if self._layout.as_text or self._changes_nulls(row, changed):
                out.append(raw[copied : self._rows[row]])
                out.append(self._rebuilt(row))
                copied = self._rows[row + 1]
            else:
                copied = self._patch(row, changed, copied, out)
        out.append(raw[copied:])
        return b"".join(out)

    def _changes_nulls(self, row: int, columns: list[int]) -> bool:
        """Return True for an NBCROW in which other columns are NULL than before."""
        if self._raw[self._rows[row]] == k.ROW:
            return False
        for column in columns:
            new, old = self._new[column], self._old[column]
            if new is not None and old is not None and (new[row] is None) != (old[row] is None):
                return True
        return False

    def _patch(self, row: int, columns: list[int], copied: int, out: list[bytes]) -> int:
        """Add the values of a row that have changed, and all bytes before them from `copied`. Return up to where."""
        for column in columns:
            new, old = self._new[column], self._old[column]
            if new is None or old is None or new[row] == old[row]:
                continue
            at = 2 * (len(self._layout.forms) * row + column)
            out.append(self._raw[copied : self._starts[at]])
            out.append(encode_content(self._layout.sent_types[column], new[row]))
            copied = self._starts[at + 1]
        return copied

    def _rebuilt(self, row: int) -> bytes:
        raw = self._raw
        width = len(self._layout.types)
        first = 2 * width * row
        is_plain = raw[self._rows[row]] == k.ROW
        values: list[bytes] = []
        nulls = bytearray((width + 7) // 8)
        for column in range(width):
            new = self._new[column]
            start = self._starts[first + 2 * column]
            if new is None:
                value = b"" if start < 0 else raw[start : self._starts[first + 2 * column + 1]]
                is_null = start < 0
            else:
                cell = new[row]
                is_null = cell is None and not is_plain
                value = b"" if is_null else encode_content(self._layout.sent_types[column], cell)
            if is_null:
                nulls[column // 8] |= 1 << column % 8
            values.append(value)
        head = bytes((k.ROW,)) if is_plain else bytes((k.NBCROW,)) + bytes(nulls)
        return head + b"".join(values)


def _encode_replacement(kind: MssqlType, cell: bytes, text: bytes) -> bytes | None:
    """Encode a replaced text. What cannot be a value of the type becomes NULL, or an empty value."""
    if kind.codec or kind.code in t.BYTES or kind.code == t.SQL_VARIANT:
        return fit_text(kind, text)
    return cell_change(kind, lambda _scalar, _value: text)(cell)


def describe_as_text(column: MssqlColumn, with_name: bool, wide: bool) -> bytes:
    """Encode the description of a column that the client gets as texts."""
    head = bytes(4 if wide else 2) + (k.NULLABLE).to_bytes(2, "little")
    kind = bytes((t.NVARCHAR,)) + (8000).to_bytes(2, "little") + collations.LATIN
    return head + kind + k.encode_short_text(column.name if with_name else "")
