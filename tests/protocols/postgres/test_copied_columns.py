"""Copied lines that are changed by column equal those whose fields are changed one by one."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from postern.domain.rules.masking import Strategy
from postern.inspection.masking.strategies import Constant, Substitutes
from postern.interception.events import CopyFormat
from postern.protocols.postgres.wire.postgres_copies import _FieldChange, change_lines

FORMS = (CopyFormat(), CopyFormat(delimiter=b"|", null=b"none"), CopyFormat(delimiter=b"*", null=b""))
OIDS = (0, 25, 20, 1700, 1082, 1114, 2950, 16)
FIELDS = st.sampled_from(
    [rb"\N", b"none", b"", b"ann@example.com", b"0", b"****", b"12.5", b"2024-05-06", b"t", rb"a\tb", rb"\\", b"x y",
     b"\xc3\xa9\xff", b"3d1f88aa-0000-4000-8000-000000000001", b"2024-05-06 12:34:56", b"99999999999999999999"]
) | st.text("ab1-: ", max_size=8).map(str.encode)  # fmt: skip
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(FIELDS, min_size=width, max_size=width), min_size=1, max_size=6)
)


@settings(max_examples=examples(800), deadline=None)
@given(
    ROWS,
    st.sampled_from(FORMS),
    st.sampled_from([*Strategy, None]),
    st.lists(st.sampled_from([*OIDS, None]), min_size=4),
)
@example([[b"secret"]], FORMS[2], Strategy.REPLACE, [25] * 4)
@example([[rb"\N"], [b"ann"]], FORMS[0], Strategy.REPLACE, [25] * 4)
def test_fields_changed_by_column_equal_fields_changed_one_by_one(
    rows: list[list[bytes]], form: CopyFormat, strategy: Strategy | None, oids: list[int | None]
) -> None:
    rows = [[field.replace(form.delimiter, b"\\" + form.delimiter) for field in row] for row in rows]
    by = Constant(is_null=False) if strategy is None else Substitutes(strategy, b"key")
    columns = [None if oid is None else (oid, by) for oid in oids[: len(rows[0])]]
    changes = [None if column is None else _FieldChange(form, *column) for column in columns]
    new_rows = [
        [
            field if change is None or field == form.null else change.of(field)
            for field, change in zip(row, changes, strict=True)
        ]
        for row in rows
    ]
    if isinstance(by, Constant):  # also instead of NULL
        new_rows = [
            [field if change is None else form.null for field, change in zip(row, changes, strict=True)] for row in rows
        ]
    changed = change_lines([form.delimiter.join(row) + b"\n" for row in rows], form, columns)
    assert changed.render_lines() == [form.delimiter.join(row) + b"\n" for row in new_rows]
    for place in range(len(columns)):
        sizes = [len(old[place]) for old, new in zip(rows, new_rows, strict=True) if old[place] != new[place]]
        assert changed.count_changes()[place] == (len(sizes), sum(sizes))


@pytest.mark.parametrize("lines", [[b"a\tb\n", b"c\n"], [b"a\n"], [b"a\tb\tc\n", b"\td\n"]])
def test_lines_with_another_number_of_fields_are_an_error(lines: list[bytes]) -> None:
    by = Substitutes(Strategy.REPLACE, b"")
    with pytest.raises(ValueError, match="columns, not 2"):
        change_lines(lines, CopyFormat(), [(25, by), None])
