"""Masked fields of MongoDB over several messages and connections, and random pipelines on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Binary, Int64, json_util
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.bypass.masking.documents import RandomPipelines
from tests.bypass.masking.mongodb_talk import MongodbTalk, comparable, find_secrets, replies
from tests.bypass.masking.mongodb_world import DATABASES, MASKED, SECRETS, MongodbWorld, is_error, mongodb_world
from tests.bypass.masking.strategies import STRATEGIES, Policing
from tests.bypass.masking.wider_pipelines import WiderPipelines
from tests.support.mongodb import running_mongodb
from tests.support.protocols import mongodb_test_messages as mg

from postern.protocols.mongodb.wire.mongodb_cursors import CursorRegistry, Cursors
from postern.protocols.mongodb.wire.mongodb_messages import EXHAUST_ALLOWED

STRICT = STRATEGIES[0]
BEST_EFFORT = next(each for each in STRATEGIES if each.is_marked)
RENAMED: dict[str, Any] = {
    "find": "people",
    "projection": {"x": "$ssn", "y": "$contact"},
    "batchSize": 1,
    "$db": "scratch",
}


@pytest.fixture(scope="module")
def world() -> Iterator[MongodbWorld]:
    with running_mongodb(auth=False) as server, mongodb_world(server) as running:
        yield running


def talk(world: MongodbWorld, policing: Policing = STRICT, cursors: Cursors | None = None) -> MongodbTalk:
    return MongodbTalk(world.server.port, policing.policy(MASKED), world.schema, DATABASES["a"], cursors)


def more(reply: Any, **fields: Any) -> dict[str, Any]:
    return {"getMore": Int64(reply["cursor"]["id"]), "collection": "people", **fields, "$db": "scratch"}


def shows_nothing(client: MongodbTalk) -> bool:
    return not find_secrets(client.received, SECRETS)


def test_later_batches_are_masked(world: MongodbWorld) -> None:
    with talk(world) as client:
        reply = client.ask(RENAMED)
        assert reply["cursor"]["id"]
        rest = client.ask(more(reply))
        assert [each["x"] for each in rest["cursor"]["nextBatch"]] == ["****", "****"]
        assert shows_nothing(client)


def test_later_batches_are_masked_on_another_connection_of_the_same_user(world: MongodbWorld) -> None:
    cursors = CursorRegistry().of("ann", "shop")
    with talk(world, cursors=cursors) as client, talk(world, cursors=cursors) as other:
        rest = other.ask(more(client.ask(RENAMED)))
        assert [each["x"] for each in rest["cursor"]["nextBatch"]] == ["****", "****"]
        assert shows_nothing(other)


@pytest.mark.parametrize("policing", STRATEGIES, ids=lambda policing: policing.name)
def test_batches_of_a_cursor_that_is_unknown_are_denied_or_marked(world: MongodbWorld, policing: Policing) -> None:
    registry = CursorRegistry()
    with (
        talk(world, policing, registry.of("ann", "shop")) as client,
        talk(world, policing, registry.of("bob", "shop")) as other,
    ):
        rest = other.ask(more(client.ask(RENAMED)))
        if policing.is_marked:
            assert other.is_marked
        else:
            assert is_error(rest)
            assert shows_nothing(other)


def test_client_cannot_say_what_opened_a_cursor(world: MongodbWorld) -> None:
    with talk(world) as client, talk(world) as other:
        reply = client.ask(RENAMED)
        forged = {"find": "orders", "$db": "scratch"}
        assert is_error(other.ask(more(reply, originatingCommand=forged)))
        text = json_util.dumps(more(reply)).replace('"collection"', '"originatingCommand": {}, "collection"')
        assert is_error(other.ask_text(text))
        assert other.sent == b""


def test_exhaust_cursor_is_read_by_one_reply_at_a_time(world: MongodbWorld) -> None:
    with talk(world) as client:
        reply = client.ask(RENAMED, flags=EXHAUST_ALLOWED)
        received = client.send(mg.request(more(reply, batchSize=1), 9, flags=EXHAUST_ALLOWED))
        assert len(list(replies(received))) == 1
        assert shows_nothing(client)


def test_answers_in_a_transaction_are_masked(world: MongodbWorld) -> None:
    session = {"lsid": {"id": Binary(b"0123456789abcdef", 4)}, "txnNumber": Int64(1), "autocommit": False}
    with talk(world) as client:
        first = client.ask({**RENAMED, **session, "startTransaction": True})
        assert not is_error(first)
        client.ask(more(first, **session))
        client.ask({"commitTransaction": 1, **session, "$db": "admin"})
        assert len(list(replies(client.received))) == 3
        assert shows_nothing(client)


def test_pipelined_commands_are_masked_by_their_own_texts(world: MongodbWorld) -> None:
    harmless: dict[str, Any] = {"find": "orders", "projection": {"x": "$total", "y": "$person"}, "$db": "scratch"}
    with talk(world) as client:
        messages = [
            mg.request(command, number) for number, command in enumerate((harmless, RENAMED, harmless, RENAMED), 1)
        ]
        client.send(b"".join(messages))
        shown = list(replies(client.received))
        assert [reply["cursor"]["firstBatch"][0]["x"] for reply in shown] == [0, "****", 0, "****"]
        assert shows_nothing(client)


def test_sections_of_a_write_do_not_hide_what_it_returns(world: MongodbWorld) -> None:
    update = {"update": "shelf", "$db": "scratch"}
    upserts = {"updates": [{"q": {"_id": "777-12-3456"}, "u": [{"$set": {"a": "$code"}}], "upsert": True}]}
    with talk(world) as client:
        assert not is_error(client.ask(update, sections=upserts))
        assert shows_nothing(client)
    world.renew("a")


# Random pipelines. Answers that differ by orders and joins are documented channels; the generator makes none.


@pytest.mark.slow
@pytest.mark.parametrize("policing", STRATEGIES, ids=lambda policing: policing.name)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 40))
def test_random_pipelines_show_nothing_and_stay_valid(world: MongodbWorld, policing: Policing, seed: int) -> None:
    check_pipeline(world, policing, RandomPipelines(seed).make())
    check_pipeline(world, policing, WiderPipelines(seed).make())


def check_pipeline(world: MongodbWorld, policing: Policing, text: str) -> None:
    heard = world.run(policing, "a", [text])  # decodes it
    if policing.is_marked and heard.is_marked:
        return
    assert [secret for secret in find_secrets(heard.received, SECRETS) if secret not in text] == []
    if policing.has_pseudonyms:
        return
    other = world.run(policing, policing.variant, [text])
    if other.is_marked and policing.is_marked:
        return
    if not is_error(heard.replies[0]) and not is_error(other.replies[0]):
        assert comparable(heard.replies) == comparable(other.replies), text
