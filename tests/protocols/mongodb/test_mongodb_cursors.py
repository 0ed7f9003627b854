"""The registry of cursors: bounded, and never of another principal or connection."""

from __future__ import annotations

from uuid import UUID

import bson
import pytest
from tests.support.links import ReadsAll
from tests.support.mongodb_links import links, recorded, sent
from tests.support.protocols import mongodb_test_messages as mg

from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.interception.events import Operation
from postern.protocols.mongodb.wire.mongodb_cursors import MAX_TEXT, CursorRegistry, Cursors
from postern.protocols.wire_base import Side


def test_cursor_belongs_to_one_principal_and_one_connection() -> None:
    registry = CursorRegistry()
    registry.of("ada", "shop").store(5, "text")
    assert registry.of("ada", "shop").find(5) == "text"
    assert registry.of("bob", "shop").find(5) == ""
    assert registry.of("ada", "other").find(5) == ""
    registry.of("bob", "shop").discard(5)
    assert registry.of("ada", "shop").find(5) == "text"
    registry.of("ada", "shop").discard(5)
    assert registry.of("ada", "shop").find(5) == ""
    assert len(registry) == 0


def test_oldest_cursors_are_forgotten_when_there_are_too_many() -> None:
    cursors = CursorRegistry(max_cursors=3).of("ada", "shop")
    for cursor in (1, 2, 3, 1, 4):  # 1 is read again, so that it is newer than 2
        cursors.store(cursor, "text")
    assert [cursors.find(cursor) for cursor in (1, 2, 3, 4)] == ["text", "", "text", "text"]


def test_oldest_cursors_are_forgotten_when_their_texts_are_too_long() -> None:
    registry = CursorRegistry(max_characters=10)
    cursors = registry.of("ada", "shop")
    cursors.store(1, "1234")
    cursors.store(2, "12345678")
    assert (cursors.find(1), cursors.find(2)) == ("", "12345678")
    cursors.store(2, "")
    assert len(registry) == 0
    cursors.store(3, "1234567890")
    assert cursors.find(3)


def test_long_command_is_not_stored() -> None:
    cursors = CursorRegistry().of("ada", "shop")
    cursors.store(1, "x" * (MAX_TEXT + 1))
    assert cursors.find(1) == ""


def _texts(cursors: Cursors, data: bytes) -> list[str]:
    effects = links(ReadsAll(), cursors=cursors)().receive(Side.CLIENT, data)
    return [event.text for event in recorded(effects) if isinstance(event, Operation)]


def test_get_more_on_another_connection_of_the_same_principal_is_known() -> None:
    registry = CursorRegistry()
    link = links(ReadsAll(), cursors=registry.of("ada", "shop"))()
    link.receive(Side.CLIENT, mg.command("find", "customers"))
    link.receive(Side.TARGET, mg.batch(cursor=7))
    get_more = mg.command("getMore", bson.Int64(7), collection="customers")
    (text,) = _texts(registry.of("ada", "shop"), get_more)
    assert '"originatingCommand": {"find": "customers", "$db": "shop"}' in text
    (text,) = _texts(registry.of("bob", "shop"), get_more)
    assert "originatingCommand" not in text


@pytest.mark.parametrize(("cursor", "is_denied"), [(7, True), (8, False)])
def test_row_limit_counts_all_batches_of_a_cursor(cursor: int, is_denied: bool) -> None:
    rule = Rule(RuleType.MAX_ROWS, most=5)
    limit = GuardrailInterceptor((Guardrail(UUID(int=1), UUID(int=2), "care", output=(rule,)),))
    link = links(limit)()
    for number, opened in enumerate((7, 8), 1):
        link.receive(Side.CLIENT, mg.command("find", "customers", number))
        link.receive(Side.TARGET, mg.batch(*[{"n": 1}] * (3 if opened == 7 else 1), to=number, cursor=opened))
    for number, rows, ends in [(3, 2, False), (4, 1, True)]:
        link.receive(Side.CLIENT, mg.command("getMore", bson.Int64(cursor), number, collection="customers"))
        reply = mg.batch(*[{"n": 1}] * rows, to=number, cursor=0 if ends else cursor, more=True)
        answer = sent(link.receive(Side.TARGET, reply), Side.CLIENT)
    assert (answer != reply) == is_denied
