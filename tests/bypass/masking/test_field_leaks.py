"""No attack on a masked field of MongoDB gets a value: lineage masks it, or the answer is denied."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.bypass.masking.attack import Attack
from tests.bypass.masking.attacks_mongodb import ATTACKS, MASKED, SCHEMA, SHOWN

from postern.domain.rules.masking import MaskingRule, Strategy
from postern.inspection.masking.masking_columns import ColumnRule, ColumnRules, Decided
from postern.inspection.masking.strategies import Substitutes
from postern.interception.events import Column, TextKind
from postern.protocols.mongodb.lineage.mongodb_lineage import MongodbLineage
from postern.protocols.mongodb.lineage.mongodb_session_lineage import MongodbSessionLineage

RULE = MaskingRule(UUID(int=1), UUID(int=2), "pii", columns=MASKED)


def _columns(names: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(name, TextKind.TEXT) for name in names)


def decide(steps: tuple[str, ...], names: tuple[str, ...]) -> tuple[Decided, bool]:
    """Return the decision about the fields of the last answer, and whether its shape denies it."""
    origins = MongodbSessionLineage(MongodbLineage(), lambda: SCHEMA)
    rules = ColumnRules([ColumnRule(RULE, Substitutes(Strategy.REPLACE, b""))], origins)
    for step in steps:
        rules.record_statement(step)
    sources = rules.sources(steps[-1:], _columns(names))
    return rules.decide(_columns(names), sources), bool(rules.find_shape_doubts(steps[-1:]))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_gets_no_value_of_a_masked_field(attack: Attack) -> None:
    decided, is_denied = decide(attack.steps, SHOWN[attack.name])
    if attack.group == "shape":
        assert is_denied
    if not is_denied and decided.refused is None:
        assert all(choice is not None for choice in decided.chosen)


@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.group == "computed"], ids=lambda attack: attack.name)
def test_value_computed_from_a_masked_field_is_a_constant(attack: Attack) -> None:
    """A strategy that shows a part would show a part of what the client computes."""
    decided, is_denied = decide(attack.steps, SHOWN[attack.name])
    passed = {'"$$v"}}', '"$$c.number"}}', '"cond": true}', '"in": "$email"}', '"$getField"', '"$unsetField"', '"$setField"',
              '"$reverseArray"'}  # fmt: skip
    if not is_denied and decided.refused is None and not any(text in attack.steps[-1] for text in passed):
        assert not any(choice is not None and choice.plain for choice in decided.chosen)


def test_corpus_has_many_attacks() -> None:
    assert len(ATTACKS) >= 150
    assert len(SHOWN) == len(ATTACKS)
