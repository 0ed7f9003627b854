"""Every way to a masked column of Oracle Database has it among its origins, or an unknown one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.bypass.masking.attacks_oracle import FORMS, attacks

from postern.domain.targets.target_schema import ColumnRef, Relation, TargetSchema
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import OracleState

_RELATIONS = (
    Relation("HR", "PEOPLE", ("ID", "NAME", "NOTE")),
    Relation("HR", "ORDERS", ("ID", "PERSON", "NOTE")),
    Relation("HR", "CHART", ("ID", "LETTER")),
    Relation("HR", "LOUD", ("ID", "SHOUT"), definition="select id, name from people"),
    Relation("HR", "V_PEOPLE", ("WHO",), definition="select upper(name) from people with read only"),
    Relation("HR", "V_MORE", ("X",), definition="CREATE VIEW v_more (x) AS SELECT who FROM v_people"),
    Relation("HR", "V_SPEAKING", ("A",), definition="select id from orders where speak(id) = 1"),
    Relation("HR", "S_PEOPLE", ("ID", "NAME", "NOTE"), definition='select * from "HR"."PEOPLE"'),
    Relation("PUBLIC", "PERSONS", ("ID", "NAME", "NOTE"), definition='select * from "HR"."PEOPLE"'),
)
SCHEMA = TargetSchema({(one.schema, one.name): one for one in _RELATIONS}, {}, ("HR",))
MASKED = ColumnRef("HR", "PEOPLE", "NAME")


def columns_that_show_nothing(lineage: OracleLineage, texts: tuple[str, ...]) -> list[str]:
    """Return the columns of the last text's answer whose origin is known, and not the masked column."""
    state = OracleState()
    for text in texts[:-1]:
        read = lineage.read(text, SCHEMA, state)
        if read is None:
            return []
        state = read.state
    read = lineage.read(texts[-1], SCHEMA, state)
    if read is None:
        return []
    if not read.answers:
        return ["no answer"]
    return [str(out.name) for out in read.answers[-1] if out.sources is not None and MASKED not in out.sources]


def leaks(chosen: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    lineage = OracleLineage()
    return [f"{name}: {texts[-1]}" for name, texts in chosen if columns_that_show_nothing(lineage, texts)]


def test_some_forms_on_every_way_and_every_form_on_some_ways_show_the_column() -> None:
    """The whole product takes half a minute; this is every 17th of it, which has every form and every way."""
    found = leaks(list(attacks())[::17])
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_every_form_on_every_way_shows_the_column() -> None:
    found = leaks(attacks())
    assert not found, f"{len(found)} attacks hide the column:\n" + "\n".join(found)


def test_corpus_has_thousands_of_attacks_with_different_texts() -> None:
    texts = [texts for _, texts in attacks()]
    assert len(texts) > 5_000
    assert len(set(texts)) == len(texts)
    assert len(FORMS) > 60
