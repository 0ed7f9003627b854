"""Every way to a masked column of SQL Server has it among its origins, or an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.bypass.masking.attacks_tsql import FORMS, attacks, output_attacks

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.interception.events import Column, TextKind
from postern.protocols.mssql.lineage.tsql_lineage import TSqlLineage
from postern.protocols.mssql.lineage.tsql_lineage_catalogue import TsqlState
from postern.protocols.mssql.lineage.tsql_reading import TsqlRead
from postern.protocols.mssql.lineage.tsql_session_lineage import TSqlSessionLineage
from postern.protocols.mssql.wire.mssql_output_variables import VARIABLE

_RELATIONS = (
    Relation("dbo", "people", ("id", "name", "note")),
    Relation("dbo", "orders", ("id", "person", "note")),
    Relation("dbo", "chart", ("id", "letter")),
    Relation("dbo", "v_people", ("who",), definition="create view v_people as select upper(name) from people"),
    Relation("dbo", "v_more", ("x",), definition="CREATE VIEW dbo.v_more (x) WITH SCHEMABINDING AS SELECT who FROM v_people"),
    Relation("dbo", "s_people", ("id", "name", "note"), definition="select * from [dbo].[people]"),
)  # fmt: skip
SCHEMA = TargetSchema({(one.schema, one.name): one for one in _RELATIONS}, {}, ("dbo",), database="leaks")
MASKED = ColumnRef("dbo", "people", "name")


def read_texts(lineage: TSqlLineage, texts: tuple[str, ...]) -> TsqlRead | None:
    """Return the reading of the last text; None if one of them is not understood."""
    state = TsqlState()
    for text in texts[:-1]:
        read = lineage.read(text, SCHEMA, state)
        if read is None:
            return None
        state = read.state
    return lineage.read(texts[-1], SCHEMA, state)


def columns_that_show_nothing(lineage: TSqlLineage, texts: tuple[str, ...]) -> list[str]:
    """Return the columns of the last text's answers whose origin is known, and not the masked column."""
    read = read_texts(lineage, texts)
    if read is None:
        return []
    last = read.answers[-1] if read.answers else ()
    return [str(out.name) for out in last if out.sources is not None and MASKED not in out.sources]


def leaks(chosen: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    lineage = TSqlLineage()
    return [f"{name}: {texts[-1]}" for name, texts in chosen if columns_that_show_nothing(lineage, texts)]


def test_some_forms_on_every_way_and_every_form_on_some_ways_show_the_column() -> None:
    """The whole product takes half a minute; this is every 13th of it, which has every form and every way."""
    found = leaks(list(attacks())[::13])
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_form_on_every_way_shows_the_column() -> None:
    found = leaks(attacks())
    assert not found, f"{len(found)} attacks hide the column:\n" + "\n".join(found)


def output_leaks(chosen: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    lineage = TSqlLineage()
    found: list[str] = []
    for name, texts in chosen:
        session = TSqlSessionLineage(lineage, lambda: SCHEMA)
        for text in texts:
            session.record_statement(text)
        (origin,) = session.of(texts[-1], [Column("o", TextKind.TEXT, position=VARIABLE)]) or (None,)
        if origin is not None and MASKED not in origin.refs:
            found.append(f"{name}: {texts[-1]}")
    return found


def test_some_forms_on_every_way_to_an_output_parameter_show_the_column() -> None:
    found = output_leaks(list(output_attacks())[::13])
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_form_on_every_way_to_an_output_parameter_shows_the_column() -> None:
    found = output_leaks(output_attacks())
    assert not found, f"{len(found)} attacks hide the column:\n" + "\n".join(found)


def test_corpus_has_thousands_of_attacks_with_different_texts() -> None:
    texts = [texts for _, texts in (*attacks(), *output_attacks())]
    assert len(texts) > 6_000
    assert len(set(texts)) == len(texts)
    assert len(FORMS) > 50
