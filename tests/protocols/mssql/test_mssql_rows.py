"""Rows with changed values, in both forms of a row, encoded and read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import mssql_test_messages as messages

from postern.interception.events import Scalar
from postern.protocols.mssql.wire.mssql_rows import MssqlLayout, MssqlRows
from postern.protocols.mssql.wire.mssql_tokens import read_columns

Row = tuple[bool, list[str | None]]  # with a bit for each NULL?

_DESCRIPTION = messages.columns(*[messages.column(name, messages.text_type(50)) for name in "abc"])
_CELLS = st.none() | st.sampled_from(["", "a", "ä😀", "secret", "x\0y", "a longer text of some words"])
_ROWS: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(st.booleans(), st.lists(_CELLS, min_size=3, max_size=3)), min_size=1, max_size=5
)


def _rows(raw: bytes, count: int) -> MssqlRows:
    described, _ = read_columns(_DESCRIPTION, 1, len(_DESCRIPTION), True)
    assert described is not None
    return MssqlRows(1, MssqlLayout(described), raw, count)


def _encode(row: Row) -> bytes:
    has_bits, texts = row
    if not has_bits:
        return messages.row(*[messages.text_cell(text) for text in texts])
    nulls = [at for at, text in enumerate(texts) if text is None]
    return messages.null_row(nulls, 3, *[messages.text_cell(text) for text in texts if text is not None])


def _replace(_scalar: Scalar, value: bytes) -> bytes | None:
    """NULL, another text, or the same one."""
    return None if b"secret" in value else b"new" if value.startswith(b"a") else value


@given(_ROWS, st.sets(st.integers(0, 2)), st.booleans())
def test_changed_rows_are_read_again_as_changed(rows: list[Row], columns: set[int], is_by_text: bool) -> None:
    block = _rows(b"".join([_encode(row) for row in rows]), len(rows))
    expected = [[None if text is None else text.encode() for text in texts] for _, texts in rows]
    for column in columns:
        if is_by_text:
            block.replace(column, [b"<" + text + b">" for text in block.texts(column)])
        else:
            block.change(column, _replace)
        for texts in expected:
            old = texts[column]
            if old is not None:
                texts[column] = b"<" + old + b">" if is_by_text else _replace(Scalar.TEXT, old)
    now = [[texts[column] for texts in expected if texts[column] is not None] for column in range(3)]
    assert [block.texts(column) for column in range(3)] == now
    encoded = _rows(block.encode(), len(rows))
    assert [encoded.texts(column) for column in range(3)] == now
    if not columns:
        assert block.encode() == b"".join([_encode(row) for row in rows])


def test_value_becomes_null_in_the_bits_of_its_row() -> None:
    kept, hidden = _encode((True, ["a", None, "b"])), _encode((True, ["secret", None, "b"]))
    block = _rows(kept + hidden, 2)
    block.change(0, _replace)
    assert block.encode() == _encode((True, ["new", None, "b"])) + _encode((True, [None, None, "b"]))
