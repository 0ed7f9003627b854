"""Commands and replies: forwarding, judgement and denial, for any split of the bytes into reads."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from tests.support.links import DROP_MESSAGE, Asks, Masks, ReadsAll, Warns, Withholds, Words, pipeline
from tests.support.mongodb_links import links, playbook, runs, sent
from tests.support.protocols import mongodb_test_messages as mg
from tests.support.protocols.playbook import (
    Does,
    from_client,
    from_target,
    record,
    resume,
    target_finishes,
    to_client,
    to_target,
)

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed, Note, Refusal, Rows
from postern.interception.pipeline import Interceptor
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.mongodb_backend import SMALL
from postern.protocols.mongodb.wire.mongodb_commands import MongodbCommand
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close, HoldEffect

FIND = mg.command("find", "customers")
FIND_TEXT = '{"find": "customers", "$db": "shop"}'
DROP = mg.command("drop", "customers", 2)
DROP_TEXT = '{"drop": "customers", "$db": "shop"}'
ALL = [(), (ReadsAll(),), (Words(),), (Masks(),)]
NAMES = ["no interceptor", "reading", "word rule", "masking"]


@pytest.mark.parametrize("who", ALL, ids=NAMES)
def test_find_and_its_batch_are_forwarded(who: tuple[Interceptor, ...]) -> None:
    with playbook(*who) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.batch({"a": 1, "b": {"c": ["x", 2.5]}}, {}, {"a": None}))
        play.forwarded() << record(Completed(1, "find", 3))


@pytest.mark.parametrize("who", ALL, ids=NAMES)
def test_write_and_its_count_are_forwarded(who: tuple[Interceptor, ...]) -> None:
    insert = mg.request({"insert": "c", "$db": "shop"}, sections=mg.sequence("documents", {"a": 1}, {"a": 2}))
    with playbook(*who) as play:
        play >> from_client(insert)
        play.forwarded() << record(runs(1, '{"insert": "c", "documents": [{"a": 1}, {"a": 2}], "$db": "shop"}'))
        play >> from_target(mg.ok(n=2))
        play.forwarded() << record(Completed(1, "insert", 2))


@pytest.mark.parametrize("who", ALL, ids=NAMES)
def test_error_is_forwarded_and_recorded(who: tuple[Interceptor, ...]) -> None:
    with playbook(*who) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.error("no such field", code=9))
        play.forwarded() << record(Completed(1, "find", None, "9", "no such field"))


@pytest.mark.parametrize("who", [(), (ReadsAll(),)], ids=["no interceptor", "reading"])
def test_large_batch_is_forwarded(who: tuple[Interceptor, ...]) -> None:
    """Without an interceptor it passes in pieces."""
    documents = [{"text": "x" * 997, "n": number} for number in range(200)]
    answer = mg.batch(*documents, cursor=7)
    assert len(answer) > 2 * SMALL
    with playbook(*who, chunks=(0, 7, 1000)) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(answer)
        play.forwarded() << record(Completed(1, "find", 200))
        get_more = mg.command("getMore", bson.Int64(7), 2, collection="customers")
        play >> from_client(get_more)
        text = (
            '{"getMore": {"$numberLong": "7"}, "collection": "customers", "originatingCommand": '
            f'{FIND_TEXT}, "$db": "shop"}}'
        )
        play.forwarded() << record(runs(2, text))
        play >> from_target(mg.batch({"a": 1}, to=2, more=True))
        play.forwarded() << record(Completed(2, "getMore", 1))


def test_policy_that_changes_during_a_large_reply_applies_from_the_next_one() -> None:
    link = links()()
    answer = mg.batch({"a": "secret-1", "b": "x" * SMALL})
    link.receive(Side.CLIENT, FIND)
    effects = link.receive(Side.TARGET, answer[:1000])
    assert sent(effects, Side.CLIENT) == answer[:1000]
    link.renew(pipeline(Masks()))
    assert sent(link.receive(Side.TARGET, answer[1000:]), Side.CLIENT) == answer[1000:]
    link.receive(Side.CLIENT, FIND)
    assert sent(link.receive(Side.TARGET, mg.batch({"a": "secret-1"})), Side.CLIENT) == mg.batch({"a": "***"})


def test_client_that_has_a_part_of_a_reply_gets_no_last_error_for_it() -> None:
    link = links()()
    link.receive(Side.CLIENT, FIND)
    link.receive(Side.TARGET, mg.batch({"b": "x" * SMALL})[:1000])
    effects = link.end(EndReason.KILLED, "the session was killed", "57P01")
    assert sent(effects, Side.CLIENT) == b""


def test_position_names_the_message_and_what_is_pending() -> None:
    wire = MongodbWire()
    wire.feed_client(FIND[:20])
    assert wire.position(Side.CLIENT) == f"message of {len(FIND)} bytes at byte 0"
    wire.feed_client(FIND[20:])
    request = wire.poll_client()
    assert isinstance(request, MongodbCommand)
    wire.forward(request)
    assert wire.position(Side.CLIENT) == f"at byte {len(FIND)}"
    assert wire.position(Side.TARGET) == "at byte 0, with 1 pending replies"


def test_large_error_that_passes_in_pieces_is_recorded_with_its_code() -> None:
    with playbook(chunks=(0, 7, 1000)) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.error("x" * SMALL, code=9))
        play.forwarded() << record(Completed(1, "find", None, "9"))


def test_denied_command_does_not_reach_the_target_and_the_next_one_runs() -> None:
    with playbook(Words()) as play:
        play >> from_client(DROP)
        play << record(runs(1, DROP_TEXT)) << record(Refusal(1, "words", DROP_MESSAGE))
        play << to_client(mg.refusal(DROP_MESSAGE, 2))
        play >> from_client(FIND)
        play.forwarded() << record(runs(2, FIND_TEXT))
        play >> from_target(mg.batch({"a": 1}))
        play.forwarded() << record(Completed(2, "find", 1))


def test_denied_command_among_pipelined_ones_is_answered_in_order() -> None:
    first, last = mg.command("find", "a", 1), mg.command("find", "b", 3)
    with playbook(Words()) as play:
        play >> from_client(first, DROP, last)
        play << record(runs(1, '{"find": "a", "$db": "shop"}')) << record(runs(2, DROP_TEXT))
        play << record(Refusal(2, "words", DROP_MESSAGE)) << record(runs(3, '{"find": "b", "$db": "shop"}'))
        play << to_target(first, last)
        play >> from_target(mg.batch(to=1), mg.batch(to=3))
        play << record(Completed(1, "find", 0)) << record(Completed(3, "find", 0))
        play << to_client(mg.batch(to=1), mg.refusal(DROP_MESSAGE, 2), mg.batch(to=3))


def test_held_command_is_forwarded_when_it_is_approved() -> None:
    held = mg.command("find", "review", 5)
    with playbook(Asks()) as play:
        play >> from_client(held, mg.command("ping", 1, 6))
        play << HoldEffect("t1", 'may {"find": "review", "$db": "shop"} run?')
        play >> resume("t1", FORWARD)
        play << record(runs(1, '{"find": "review", "$db": "shop"}')) << record(runs(2, '{"ping": 1, "$db": "shop"}'))
        play << to_target(held, mg.command("ping", 1, 6))
        play >> from_target(mg.batch(to=5), mg.ok(6))
        play.forwarded() << record(Completed(1, "find", 0)) << record(Completed(2, "ping"))


def test_held_command_is_refused_when_it_is_rejected() -> None:
    with playbook(Asks()) as play:
        play >> from_client(mg.command("find", "review", 5))
        play << HoldEffect("t1", 'may {"find": "review", "$db": "shop"} run?')
        play >> resume("t1", Refuse("review", "a reviewer rejected it", "Ask again."))
        play << record(runs(1, '{"find": "review", "$db": "shop"}'))
        play << record(Refusal(1, "review", "a reviewer rejected it"))
        play << to_client(mg.refusal("a reviewer rejected it", 5, hint="Ask again."))


def test_session_that_ends_while_a_command_is_held_replies_to_it() -> None:
    link = links(Asks())()
    link.receive(Side.CLIENT, mg.command("find", "review", 5))
    effects = link.end(EndReason.KILLED, "the session was killed", "57P01")
    (body,) = mg.bodies(sent(effects, Side.CLIENT))
    assert body["ok"] == 0.0
    assert body["codeName"] == "Interrupted"
    assert sent(effects, Side.CLIENT)[8:12] == b"\5\0\0\0"


def test_session_that_ends_without_a_pending_command_sends_nothing() -> None:
    effects = links(ReadsAll())().end(EndReason.KILLED, "the session was killed", "57P01")
    assert sent(effects, Side.CLIENT) == b""


def test_target_that_is_gone_ends_the_stream_alone() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> target_finishes()
        play << Close(EndReason.TARGET_CLOSED)


def test_killed_session_replies_to_the_pending_command() -> None:
    killed = Does("kill", lambda link: link.end(EndReason.KILLED, "the session was killed", "57P01"))
    with playbook(ReadsAll()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> killed
        play << to_client(mg.refusal("the session was killed", 1, m.INTERRUPTED)) << Close(EndReason.KILLED)


def test_warning_is_recorded_and_changes_nothing_for_the_client() -> None:
    careful = mg.command("find", "careful")
    with playbook(Warns()) as play:
        play >> from_client(careful)
        play.forwarded() << record(runs(1, '{"find": "careful", "$db": "shop"}'))
        play << record(Note("mind the word careful", {"rule": "warns"}))
        play >> from_target(mg.batch())
        play.forwarded() << record(Completed(1, "find", 0))


# Unacknowledged writes


SILENT = mg.command("delete", "drop", 4, flags=m.MORE_TO_COME)
SILENT_TEXT = '{"delete": "drop", "$db": "shop"}'


def test_unacknowledged_write_completes_without_a_reply() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(SILENT)
        play.forwarded() << record(runs(1, SILENT_TEXT)) << record(Completed(1, "delete"))


def test_denied_unacknowledged_write_is_not_answered() -> None:
    with playbook(Words()) as play:
        play >> from_client(SILENT)
        play << record(runs(1, SILENT_TEXT)) << record(Refusal(1, "words", DROP_MESSAGE))
        play >> from_client(FIND)
        play.forwarded() << record(runs(2, FIND_TEXT))
        play >> from_target(mg.batch())
        play.forwarded() << record(Completed(2, "find", 0))


def test_unacknowledged_write_behind_a_find_completes_in_order() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(FIND, SILENT)
        play.forwarded() << record(runs(1, FIND_TEXT)) << record(runs(2, SILENT_TEXT))
        play >> from_target(mg.batch())
        play.forwarded() << record(Completed(1, "find", 0)) << record(Completed(2, "delete"))


# Hello


def test_hello_is_answered_by_the_gateway_in_order() -> None:
    def hello(request: bytes) -> bytes:
        return bson.encode({"msg": "isdbgrid", "asked": next(iter(bson.decode(request))), "ok": 1.0})

    asks = mg.command("hello", 1, 8), mg.command("isMaster", 1, 9), mg.command("ismaster", 1, 10)
    with playbook(ReadsAll(), hello=hello) as play:
        play >> from_client(asks[0])
        play << to_client(mg.reply({"msg": "isdbgrid", "asked": "hello", "ok": 1.0}, 8, number=0))
        play >> from_client(FIND, asks[1], asks[2])
        play << to_target(FIND) << record(runs(1, FIND_TEXT))
        play >> from_target(mg.batch())
        play << record(Completed(1, "find", 0))
        play << to_client(
            mg.batch(),
            mg.reply({"msg": "isdbgrid", "asked": "isMaster", "ok": 1.0}, 9, number=0),
            mg.reply({"msg": "isdbgrid", "asked": "ismaster", "ok": 1.0}, 10, number=0),
        )


# What is changed on the way


def test_exhaust_flag_and_checksum_are_removed() -> None:
    body = bson.encode({"find": "c", "$db": "shop"})
    raw = (m.EXHAUST_ALLOWED | m.CHECKSUM_PRESENT | 1 << 20).to_bytes(4, "little") + b"\0" + body + b"\1\2\3\4"
    with playbook(ReadsAll()) as play:
        play >> from_client(mg.raw_message(raw))
        play << record(runs(1, '{"find": "c", "$db": "shop"}')) << to_target(mg.request(body))
        play >> from_target(mg.batch())
        play.forwarded() << record(Completed(1, "find", 0))


def test_checksum_stays_on_messages_that_are_not_changed() -> None:
    body = m.CHECKSUM_PRESENT.to_bytes(4, "little") + b"\0" + bson.encode({"find": "c", "$db": "shop"}) + b"\1\2\3\4"
    answer = m.CHECKSUM_PRESENT.to_bytes(4, "little") + b"\0" + bson.encode({"cursor": {}, "ok": 1}) + b"\1\2\3\4"
    with playbook(ReadsAll()) as play:
        play >> from_client(mg.raw_message(body))
        play.forwarded() << record(runs(1, '{"find": "c", "$db": "shop"}'))
        play >> from_target(mg.raw_message(answer, 9, to=1))
        play.forwarded() << record(Completed(1, "find"))


def test_checksum_is_removed_from_a_masked_reply() -> None:
    reply = mg.batch({"a": "secret-1"})
    with_checksum = mg.raw_message(b"\1" + reply[17:] + b"\1\2\3\4", 900, to=1)
    with playbook(Masks()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(with_checksum)
        play << to_client(mg.batch({"a": "***"})) << record(Completed(1, "find", 1))


@pytest.mark.parametrize("kind", ["standalone", "replica_set", "mongos"])
def test_retry_number_is_removed_for_standalone_targets_only(kind: str) -> None:
    write = mg.request(
        {"insert": "c", "txnNumber": bson.Int64(3), "$db": "shop"}, sections=mg.sequence("documents", {})
    )
    plain = mg.request({"insert": "c", "$db": "shop"}, sections=mg.sequence("documents", {}))
    number = "" if kind == "standalone" else '"txnNumber": 3, '
    with playbook(ReadsAll(), parameters={"kind": kind}) as play:
        play >> from_client(write)
        play << record(runs(1, f'{{"insert": "c", {number}"documents": [{{}}], "$db": "shop"}}'))
        play << to_target(plain if kind == "standalone" else write)
        play >> from_target(mg.ok(n=1))
        play.forwarded() << record(Completed(1, "insert", 1))


def test_number_of_a_transaction_stays_for_standalone_targets() -> None:
    write = mg.command("insert", "c", txnNumber=bson.Int64(3), autocommit=False)
    with playbook(ReadsAll(), parameters={"kind": "standalone"}) as play:
        play >> from_client(write)
        play.forwarded() << record(runs(1, '{"insert": "c", "txnNumber": 3, "autocommit": false, "$db": "shop"}'))
        play >> from_target(mg.error("no transactions here", code=20))
        play.forwarded() << record(Completed(1, "insert", None, "20", "no transactions here"))


# Cursors


def _get_more(cursor: int, number: int) -> bytes:
    return mg.command("getMore", bson.Int64(cursor), number, collection="customers")


def test_documents_of_all_batches_of_a_cursor_are_counted_as_one_result() -> None:
    """A failed getMore leaves its cursor open. Another cursor with the same number counts anew."""
    wire = MongodbWire()
    wire.wants.rows = True
    found: list[tuple[int, int]] = []
    read_on: list[int] = []
    exchanges = [(FIND, mg.batch({"a": 1}, cursor=7)), (_get_more(7, 2), mg.error("no", 2))]
    exchanges += [(_get_more(7, 3), mg.batch({"a": 1}, to=3, cursor=7, more=True))]
    exchanges += [(_get_more(8, 4), mg.batch({"a": 1}, to=4, cursor=8, more=True))]
    exchanges += [(_get_more(8, 5), mg.batch({"a": 1}, to=5, more=True))]
    exchanges += [(_get_more(7, 6), mg.batch({"a": 1}, to=6, more=True))]
    exchanges += [(mg.command("find", "customers", 7), mg.batch({"a": 1}, to=7, cursor=7))]
    for number, (command, reply) in enumerate(exchanges, 1):
        wire.feed_client(command)
        request = wire.poll_client()
        assert request is not None
        [operation] = request.operations
        read_on.append(operation.continues)
        wire.forward(request)
        wire.feed_target(reply)
        while pieces := wire.poll_target():
            found += [(number, piece.counts_with) for piece in pieces if isinstance(piece, Rows)]
            for piece in pieces:
                if isinstance(piece, Rows):
                    wire.render(piece)
    assert found == [(1, 1), (3, 1), (4, 4), (5, 4), (6, 1), (7, 7)]
    assert read_on == [0, 1, 1, 0, 4, 1, 0]


def test_killed_cursor_is_unknown_afterwards() -> None:
    get_more = mg.command("getMore", bson.Int64(7), 3, collection="customers")
    kill = mg.command("killCursors", "customers", 2, cursors=[bson.Int64(7)])
    with playbook(ReadsAll()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.batch(cursor=7))
        play.forwarded() << record(Completed(1, "find", 0))
        play >> from_client(kill)
        play.forwarded() << record(runs(2, '{"killCursors": "customers", "cursors": [7], "$db": "shop"}'))
        play >> from_target(mg.ok(2, cursorsKilled=[bson.Int64(7)]))
        play.forwarded() << record(Completed(2, "killCursors"))
        play >> from_client(get_more)
        play.forwarded() << record(
            runs(3, '{"getMore": {"$numberLong": "7"}, "collection": "customers", "$db": "shop"}')
        )
        play >> from_target(mg.error("cursor id 7 not found", to=3, code=43))
        play.forwarded() << record(Completed(3, "getMore", None, "43", "cursor id 7 not found"))


def test_exhausted_cursor_is_unknown_afterwards() -> None:
    get_more = mg.command("getMore", bson.Int64(7), 2, collection="customers")
    opened = f'"originatingCommand": {FIND_TEXT}, '
    with playbook(ReadsAll()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.batch(cursor=7))
        play.forwarded() << record(Completed(1, "find", 0))
        for exchange, cursor, known in ((2, 7, opened), (3, 0, opened), (4, 0, "")):
            play >> from_client(get_more)
            text = f'{{"getMore": {{"$numberLong": "7"}}, "collection": "customers", {known}"$db": "shop"}}'
            play.forwarded() << record(runs(exchange, text))
            play >> from_target(mg.batch({}, to=2, cursor=cursor, more=True))
            play.forwarded() << record(Completed(exchange, "getMore", 1))


# Transactions


def _transaction(name: str, value: object, number: int, **fields: Any) -> bytes:
    return mg.command(name, value, number, lsid={"id": 1}, txnNumber=bson.Int64(1), **fields, autocommit=False)


@pytest.mark.parametrize("last", ["commitTransaction", "abortTransaction"])
def test_transaction_is_open_until_it_is_committed_or_aborted(last: str) -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, _transaction("insert", "c", 1, startTransaction=True))
    assert link.transaction_state.unsettled
    link.receive(Side.TARGET, mg.ok(1, n=1))
    assert link.transaction_state.in_transaction
    assert not link.transaction_state.unsettled
    link.receive(Side.CLIENT, _transaction("update", "c", 2))
    link.receive(Side.TARGET, mg.ok(2, n=1))
    assert link.transaction_state.in_transaction
    link.receive(Side.CLIENT, _transaction(last, 1, 3))
    assert link.transaction_state.in_transaction
    link.receive(Side.TARGET, mg.ok(3))
    assert not link.transaction_state.in_transaction


def test_failed_command_ends_its_transaction() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, _transaction("insert", "c", 1, startTransaction=True))
    link.receive(Side.TARGET, mg.error("duplicate"))
    assert not link.transaction_state.in_transaction


def test_command_outside_of_a_transaction_opens_none() -> None:
    link = links(ReadsAll())()
    link.receive(Side.CLIENT, mg.command("insert", "c", lsid={"id": 1}, txnNumber=bson.Int64(1)))
    assert not link.transaction_state.in_transaction


# Masking


def test_masked_values_change_all_lengths_around_them() -> None:
    with playbook(Masks()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.batch({"a": {"b": ["x", {"c": "secret-12345"}]}, "d": 1}, {"a": "plain"}, cursor=9))
        play << to_client(mg.batch({"a": {"b": ["x", {"c": "***"}]}, "d": 1}, {"a": "plain"}, cursor=9))
        play << record(Completed(1, "find", 2))


def test_error_message_is_masked_for_the_client_and_the_recording() -> None:
    values: dict[str, Any] = {"keyPattern": {"a": 1}, "keyValue": {"a": "secret-1", "b": 5}}
    with playbook(Masks()) as play:
        play >> from_client(FIND)
        play.forwarded() << record(runs(1, FIND_TEXT))
        play >> from_target(mg.error("dup key: secret-1", **values))
        masked: dict[str, Any] = {"keyPattern": {"a": 1}, "keyValue": {"a": "****", "b": "****"}}
        play << to_client(mg.error("dup key: ***", **masked))
        play << record(Completed(1, "find", None, "11000", "dup key: ***"))


def test_write_errors_are_masked() -> None:
    def errors(text: str, value: object) -> list[object]:
        item = {"index": 0, "code": 11000, "errmsg": text, "keyPattern": {"a": 1}, "keyValue": value}
        return [item, {**item, "index": 1, "errmsg": "other"}]

    insert = mg.command("insert", "c")
    with playbook(Masks()) as play:
        play >> from_client(insert)
        play.forwarded() << record(runs(1, '{"insert": "c", "$db": "shop"}'))
        play >> from_target(mg.ok(n=0, writeErrors=errors("dup secret-1", {"a": "secret-1"})))
        play << to_client(mg.ok(n=0, writeErrors=errors("dup ***", {"a": "****"})))
        play << record(Completed(1, "insert", 0, "11000", "dup ***"))


@pytest.mark.parametrize("is_more", [False, True])
def test_errors_in_results_of_bulk_write_are_errors(is_more: bool) -> None:
    """Attack: an update by a pipeline copies a hidden value to a unique field, and the error quotes it."""
    name = "nextBatch" if is_more else "firstBatch"

    def answer(identifier: str, text: str, value: object, to: int) -> bytes:
        failed = {"ok": 0.0, "idx": 1, "code": 11000, "errmsg": text, "keyPattern": {"a": 1}, "keyValue": value, "n": 0}
        inserted = {"ok": 1.0, "idx": 0, "n": 1, "upserted": {"_id": identifier}}
        return mg.ok(
            to, cursor={"id": bson.Int64(0), "ns": "admin.$cmd.bulkWrite", name: [inserted, failed]}, nErrors=1
        )

    bulk = mg.command("bulkWrite", 1, 1, ops=[], nsInfo=[], db="admin")
    link = links(Masks())()
    link.receive(Side.CLIENT, bulk)
    number = 1
    if is_more:
        link.receive(Side.TARGET, mg.batch(cursor=7, collection="admin.$cmd.bulkWrite"))
        link.receive(Side.CLIENT, mg.command("getMore", bson.Int64(7), 2, collection="$cmd.bulkWrite", db="admin"))
        number = 2
    shown = sent(link.receive(Side.TARGET, answer("secret-1", "dup secret-2", {"a": "secret-2"}, number)), Side.CLIENT)
    assert shown == answer("***", "dup ***", {"a": "****"}, number)


def test_resume_token_of_a_batch_is_data() -> None:
    """It has the key of a document."""

    def answer(token: str) -> bytes:
        batch = {"id": bson.Int64(5), "ns": "shop.c", "firstBatch": [], "postBatchResumeToken": {"_data": token}}
        return mg.ok(cursor=batch)

    link = links(Masks())()
    link.receive(Side.CLIENT, mg.command("aggregate", "c", pipeline=[{"$changeStream": {}}], cursor={}))
    assert sent(link.receive(Side.TARGET, answer("secret-1")), Side.CLIENT) == answer("***")


def test_reply_with_data_and_errors_is_masked_in_both() -> None:
    def answer(identifier: str, text: str) -> bytes:
        upserted = [{"index": 0, "_id": identifier}]
        return mg.ok(n=1, nModified=0, upserted=upserted, writeConcernError={"code": 64, "errmsg": text})

    update = mg.command("update", "c")
    with playbook(Masks()) as play:
        play >> from_client(update)
        play.forwarded() << record(runs(1, '{"update": "c", "$db": "shop"}'))
        play >> from_target(answer("secret-1", "waiting for secret-2"))
        play << to_client(answer("***", "waiting for ***"))
        play << record(Completed(1, "update", 1, "64", "waiting for ***"))


REPLIES: dict[str, tuple[dict[str, Any], int | None]] = {
    "findAndModify": ({"value": {"a": "secret-1"}, "lastErrorObject": {"n": 1, "upserted": "secret-2"}}, 1),
    "findandmodify": ({"value": {"a": "secret-1"}, "lastErrorObject": {"n": 1, "upserted": "secret-2"}}, 1),
    "distinct": ({"values": ["a", "secret-1", {"b": "secret-2"}, 5]}, 4),
    "explain": ({"queryPlanner": {"parsedQuery": {"a": {"$eq": "secret-1"}}}, "n": 1}, 1),
    "serverStatus": ({"host": "secret-1", "uptime": 5.5}, None),
    "aggregate": (
        {"cursor": {"firstBatch": [{"a": "secret-1"}], "id": bson.Int64(0), "ns": "shop.c", "vars": {"b": "secret-1"}}},
        1,
    ),
    "find": ({"cursor": {"firstBatch": [], "id": bson.Int64(0), "ns": "shop.c"}, "note": "secret-1"}, 0),
    "update": ({"n": 1, "upserted": [{"index": 0, "_id": {"a": "secret-1"}}], "more": "secret-2"}, 1),
    "getLog": ({"log": ["a", "secret-1"], "totalLinesWritten": 2}, None),
}


@pytest.mark.parametrize("name", REPLIES)
def test_every_place_of_data_is_masked(name: str) -> None:
    fields, rows = REPLIES[name]
    request = mg.command(name, "c", key="k.l") if name == "distinct" else mg.command(name, "c")
    key = '"key": "k.l", ' if name == "distinct" else ""
    masked = bson.decode(bson.encode(fields))
    with playbook(Masks()) as play:
        play >> from_client(request)
        play.forwarded() << record(runs(1, f'{{"{name}": "c", {key}"$db": "shop"}}'))
        play >> from_target(mg.ok(**fields))
        play << to_client(mg.ok(**_masked(masked))) << record(Completed(1, name, rows))


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    return "***" if isinstance(value, str) and value.startswith("secret") else value


@pytest.mark.parametrize("name", ["ping", "create", "endSessions", "count"])
def test_harmless_reply_is_not_judged(name: str) -> None:
    with playbook(Withholds()) as play:
        play >> from_client(mg.command(name, "c"))
        play.forwarded() << record(runs(1, f'{{"{name}": "c", "$db": "shop"}}'))
        play >> from_target(mg.ok(note="secret-1"))
        play.forwarded() << record(Completed(1, name))


def test_denied_batch_is_replaced_by_an_error() -> None:
    with playbook(Withholds()) as play:
        play >> from_client(FIND, mg.command("ping", 1, 2))
        play.forwarded() << record(runs(1, FIND_TEXT)) << record(runs(2, '{"ping": 1, "$db": "shop"}'))
        play >> from_target(mg.batch({"a": "plain"}, {"a": "secret-1"}), mg.ok(2))
        play << to_client(mg.refusal("a secret is not shown", 1), mg.ok(2))
        play << record(Refusal(1, "withholds", "a secret is not shown"))
        play << record(Completed(1, "find", None, "13", "a secret is not shown")) << record(Completed(2, "ping"))


def test_cursor_of_a_denied_batch_is_closed_and_the_client_sees_no_reply_of_that() -> None:
    own = 0x7FFFFF00
    ping = mg.command("ping", 1, 2)
    kill = mg.request({"killCursors": "customers", "cursors": [bson.Int64(77)], "$db": "shop"}, own)
    with playbook(Withholds()) as play:
        play >> from_client(FIND, ping)
        play.forwarded() << record(runs(1, FIND_TEXT)) << record(runs(2, '{"ping": 1, "$db": "shop"}'))
        play >> from_target(mg.batch({"a": "secret-1"}, cursor=77))
        play << to_client(mg.refusal("a secret is not shown", 1)) << to_target(kill)
        play << record(Refusal(1, "withholds", "a secret is not shown"))
        play << record(Completed(1, "find", None, "13", "a secret is not shown"))
        play >> from_client(mg.command("ping", 1, 3))
        play.forwarded() << record(runs(3, '{"ping": 1, "$db": "shop"}'))
        play >> from_target(mg.ok(2), mg.ok(own, cursorsKilled=[bson.Int64(77)]), mg.ok(3))
        play << to_client(mg.ok(2), mg.ok(3)) << record(Completed(2, "ping")) << record(Completed(3, "ping"))


def test_reply_larger_than_what_can_be_inspected_becomes_an_error() -> None:
    text = "this reply is larger than the 200 bytes that can be inspected"
    hint = "Request less at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
    with playbook(Masks(), max_message=200) as play:
        play >> from_client(FIND, mg.command("ping", 1, 2))
        play.forwarded() << record(runs(1, FIND_TEXT)) << record(runs(2, '{"ping": 1, "$db": "shop"}'))
        play >> from_target(mg.batch({"a": "x" * 200}), mg.ok(2))
        play << to_client(mg.refusal(text, 1, m.TOO_LARGE, hint), mg.ok(2))
        play << record(Completed(1, "find", None, "10334", text)) << record(Completed(2, "ping"))
