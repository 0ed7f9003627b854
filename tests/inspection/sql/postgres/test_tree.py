"""Syntax trees: parsed once and shared by all callers."""

from __future__ import annotations

import pytest

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.sql.postgres import postgres_tree
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser
from postern.protocols.postgres.lineage.postgres_lineage import Lineage


@pytest.mark.parametrize("size", [10, 10_000])
def test_rules_and_lineage_share_one_parse_of_a_statement(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    parsed: list[bytes] = []
    parse = postgres_tree._statements

    def counted(data: bytes, options: int) -> list[postgres_tree.Message]:
        parsed.append(data)
        return parse(data, options)

    monkeypatch.setattr(postgres_tree, "_statements", counted)
    text = f"select email from users where id = 4711 and name <> '{'x' * size}'"
    schema = TargetSchema({("public", "users"): Relation("public", "users", ("id", "email", "name"))}, {}, ("public",))
    assert Lineage().sources(text, schema) is not None
    PostgresParser().parse(text, schema)
    PostgresParser().parse(text)
    assert parsed == [text.encode()]


def test_rules_and_lineage_do_not_modify_the_shared_tree() -> None:
    text = (
        "with a as (select * from t) merge into t using a on t.id = a.id when matched then update set b = 1;"
        "explain analyze select count(*) over w from t window w as (order by id) limit 5;"
        "create table x as select array_agg(id) from t, lateral (select 1) l where (t).id = $1"
    )
    before = repr(postgres_tree.readings(text))
    PostgresParser().parse(text)
    Lineage().read(text, TargetSchema())
    assert repr(postgres_tree.readings(text)) == before


def test_unreadable_statement_raises_on_every_read() -> None:
    for _ in range(2):
        with pytest.raises(postgres_tree.UnreadablePostgres):
            postgres_tree.readings("selec 1")


def test_attack_statement_whose_tree_would_block_the_event_loop_is_unknown() -> None:
    """450,000 constants make a tree of 50 MB. Reading it would block all threads for seconds."""
    rows = "insert into t values " + ", ".join(["(1, 'two', 3.5)"] * 3_000)
    assert Effect.UNKNOWN not in PostgresParser().parse(rows)[0].effects
    (judged,) = PostgresParser().parse("select * from t where id in (" + ",".join(["1"] * 450_000) + ")")
    assert judged.effects == {Effect.UNKNOWN}
    assert "smaller parts" in judged.reason
