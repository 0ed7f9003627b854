"""Events with sample data, to try rules with the code that masks in sessions."""

from __future__ import annotations

from collections.abc import Sequence

from postern.domain.targets.target_schema import ColumnRef, Origin
from postern.inspection.masking.origins import Sources
from postern.interception.events import Change, Channel, Column, Fill, Output, Rows, Scalar, TextKind


class SampleTexts(Output):
    def __init__(self, texts: list[bytes]) -> None:
        self.exchange = 0
        self.channel = Channel.STDOUT
        self.held = texts

    def texts(self) -> list[bytes]:
        return self.held

    def replace(self, texts: list[bytes]) -> None:
        self.held = texts


class SampleRows(Rows):
    """Rows of text. A column's name can include its table and schema."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        self.exchange = 0
        self.columns = tuple(Column(name, TextKind.TEXT) for name in columns)
        self.count = len(rows)
        self._cells = [
            [None if cell is None else cell.encode("utf-8", "surrogatepass") for cell in column]
            for column in (zip(*rows, strict=True) if rows else [()] * len(columns))
        ]

    def texts(self, column: int) -> list[bytes]:
        return [cell for cell in self._cells[column] if cell is not None]

    def replace(self, column: int, texts: list[bytes]) -> None:
        new = iter(texts)
        self._cells[column] = [None if cell is None else next(new) for cell in self._cells[column]]

    def change(self, column: int, by: Change) -> tuple[int, int]:
        count = size = 0
        if isinstance(by, Fill):
            count = len(self._cells[column])
            size = sum(len(cell) for cell in self._cells[column] if cell is not None)
            self._cells[column] = [by(Scalar.TEXT, b"")] * count
            return count, size
        for place, cell in enumerate(self._cells[column]):
            new = None if cell is None else by(Scalar.TEXT, cell)
            if cell is not None and new != cell:
                self._cells[column][place] = new
                count += 1
                size += len(cell)
        return count, size

    def visible_rows(self) -> tuple[tuple[str | None, ...], ...]:
        return tuple(
            tuple(None if cell is None else cell.decode("utf-8", "replace") for cell in row)
            for row in zip(*self._cells, strict=True)
        )


class NamedOrigins:
    """Origins of columns whose names include them: `schema.table.column`."""

    def record_statement(self, statement: str) -> None:
        """Do nothing: there is no state."""

    def unread(self, statement: str) -> None:
        """Return None: there is nothing to resolve."""

    def of(self, statement: str, columns: tuple[Column, ...]) -> Sources | None:
        refs = [frozenset({_ref(column.name)}) for column in columns]
        return tuple(Origin(ref, frozenset({ref})) for ref in refs)

    def tags(self, column: ColumnRef) -> frozenset[str]:
        return frozenset()


def _ref(name: str) -> ColumnRef:
    *before, column = name.split(".")
    schema, table = (["", "", *before])[-2:]
    return ColumnRef(schema, table, column)
