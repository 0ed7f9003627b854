"""Lineage against an engine that runs T-SQL: a column that changes with a value has that value's column as a source.

The engine is pysqlbridge, which writes to temporary tables only and knows a part of T-SQL. Each case is the texts of
one session, and the answers of the last one count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
from postern.protocols.mssql.lineage.tsql_session_lineage import TSqlSessionLineage

catalog = pytest.importorskip("pysqlbridge.catalog", reason="pip install pysqlbridge: an engine for T-SQL")
source = pytest.importorskip("pysqlbridge.source")

TABLES: dict[str, dict[str, str]] = {
    "users": {"email": "Uemail1", "name": "Uname1", "city": "Ucity1"},
    "orders": {"note": "Onote1", "place": "Oplace1"},
}
KEYS = {"users": {"id": 1}, "orders": {"id": 1, "user_id": 1}}
SCHEMA = TargetSchema(
    {("dbo", name): Relation("dbo", name, (*KEYS[name], *columns)) for name, columns in TABLES.items()},
    {},
    ("dbo",),
    database="bridge",
)

Answers = list[tuple[list[str], list[tuple[str, ...]]]]


def _run(values: dict[str, dict[str, str]], texts: list[str]) -> Answers | None:
    """Return the answers of the last text: names and columns of values; None if the engine refuses one."""
    engine: Any = catalog.Catalog()
    for name, columns in values.items():
        row = [*KEYS[name].values(), *columns.values()]
        engine.add(source._build(name, [*KEYS[name], *columns], [row]))
    session: dict[str, object] = {}
    try:
        for text in texts:
            result = engine.answer(catalog.Query(sql=text, session=session))
    except Exception:
        return None
    answers = [each for each in (result, *result.following) if each.error is None and each.columns]
    return [
        (
            [column.name for column in each.columns],
            [tuple(repr(row[at]) for row in each.rows) for at in range(len(each.columns))],
        )
        for each in answers
    ]


def _changes(texts: list[str]) -> list[set[ColumnRef]] | None:
    """Return the columns on which each column of the answers depends, one list over all answers."""
    before = _run(TABLES, texts)
    if before is None:
        return None
    found: list[set[ColumnRef]] = [set() for _, columns in before for _ in columns]
    for table, columns in TABLES.items():
        for column, value in columns.items():
            changed = {**TABLES, table: {**columns, column: value.replace("1", "29")}}
            after = _run(changed, texts)
            if after is None:
                continue
            cells = [each for _, listed in before for each in listed]
            others = [each for _, listed in after for each in listed]
            if len(cells) != len(others):
                continue
            for at, (one, other) in enumerate(zip(cells, others, strict=True)):
                if one != other:
                    found[at].add(ColumnRef("dbo", table, column))
    return found


# A line is one case; ` ;; ` parts the texts of a session.
LINES = [
    [part.strip() for part in line.split(" ;; ")]
    for line in Path(__file__).with_name("tsql_cases.sql").read_text().splitlines()
]


@pytest.mark.parametrize("texts", LINES, ids=[" ;; ".join(texts)[:90] for texts in LINES])
def test_lineage_has_every_column_on_which_an_answer_depends(texts: list[str]) -> None:
    changes = _changes(texts)
    assert changes is not None, "the engine does not run this"
    session = TSqlSessionLineage(TSqlLineage(), lambda: SCHEMA)
    for text in texts:
        session.record_statement(text)
    answers = _run(TABLES, texts)
    assert answers is not None
    at = 0
    for names, _ in answers:
        origins = session.of(texts[-1], tuple(Column(name, TextKind.TEXT) for name in names))
        assert origins is not None
        for name, origin in zip(names, origins, strict=True):
            missing = set() if origin is None else changes[at] - origin.refs
            assert not missing, f"{name!r} depends on {missing}"
            at += 1


def test_nearly_all_origins_are_known() -> None:
    known = columns = 0
    for texts in LINES:
        answers = _run(TABLES, texts) or []
        session = TSqlSessionLineage(TSqlLineage(), lambda: SCHEMA)
        for text in texts:
            session.record_statement(text)
        for names, _ in answers:
            origins = session.of(texts[-1], tuple(Column(name, TextKind.TEXT) for name in names)) or ()
            columns += len(names)
            known += sum(origin is not None for origin in origins)
    assert known >= columns * 0.97
