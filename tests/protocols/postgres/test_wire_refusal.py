"""Denials of requests: their position among the answers, and the state of the target after them."""

from __future__ import annotations

from tests.support.links import Breaks, Masks, ReadsAll, Words, operation, playbook, prepare, refusal, refused
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import Playbook, from_client, from_target, to_client, to_target

from postern.interception.events import Completed
from postern.protocols.postgres.wire import postgres_messages as messages

GOOD = [pg.parse("select 1"), pg.bind(), pg.execute(), pg.sync()]
BAD = [pg.parse("drop 1"), pg.bind(), pg.execute(), pg.sync()]
GOOD_ANSWER = [pg.parse_complete(), pg.bind_complete(), pg.command_complete("SELECT 1"), pg.ready()]
REFUSED = [refused(), pg.ready()]
POISON = pg.parse("denied by the gateway")
POISON_QUERY = pg.query("denied by the gateway")
SYNTAX = pg.error("syntax error at or near refused")


def expect_refused_batch(play: Playbook, exchange: int) -> None:
    play << prepare(exchange, "drop 1") << operation(exchange, "drop 1") << refusal(exchange)


def still_usable(play: Playbook, exchange: int) -> None:
    play >> from_client(pg.query("select 1"))
    play << operation(exchange, "select 1")
    play.forwarded()
    play >> from_target(pg.command_complete("SELECT 1"), pg.ready())
    play << Completed(exchange, "SELECT 1", 1)
    play.forwarded()


def test_denied_simple_query_does_not_reach_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.query("drop table t"))
        play << operation(1, "drop table t") << refusal(1) << to_client(*REFUSED)
        still_usable(play, 2)


def test_forbidden_statement_denies_its_whole_simple_query() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.query("select 1; drop table t; select 2"))
        play << operation(1, "select 1; drop table t; select 2") << refusal(1) << to_client(*REFUSED)


def test_two_denied_queries_leave_the_session_usable() -> None:
    with playbook(Words()) as play:
        for exchange in (1, 2):
            play >> from_client(pg.query("drop"))
            play << operation(exchange, "drop") << refusal(exchange) << to_client(*REFUSED)
        still_usable(play, 3)


def test_denied_extended_batch_does_not_reach_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(*BAD)
        expect_refused_batch(play, 1)
        play << to_client(*REFUSED)
        still_usable(play, 2)


def test_forbidden_last_statement_denies_the_whole_batch() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD[:-1], *BAD)
        play << prepare(1, "select 1") << operation(1, "select 1")
        play << prepare(2, "drop 1") << operation(2, "drop 1") << refusal(1) << to_client(*REFUSED)


def test_forbidden_bind_value_denies_the_batch() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.parse("select $1"), pg.bind(values=["drop"]), pg.execute(), pg.sync())
        play << prepare(1, "select $1") << operation(1, "select $1", b"drop") << refusal(1) << to_client(*REFUSED)


def test_attack_081_denial_in_a_pipeline_is_sent_in_order_and_later_batches_run() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD, *BAD, *GOOD)
        play << operation(1, "select 1")
        expect_refused_batch(play, 2)
        play << operation(3, "select 1") << to_target(*GOOD, *GOOD)
        play >> from_target(*GOOD_ANSWER)
        play << Completed(1, "SELECT 1", 1) << to_client(*GOOD_ANSWER, *REFUSED)
        play >> from_target(*GOOD_ANSWER)
        play << Completed(3, "SELECT 1", 1)
        play.forwarded()


def test_consecutive_denied_batches_are_answered_in_order() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD, *BAD, *BAD)
        play << operation(1, "select 1")
        expect_refused_batch(play, 2)
        expect_refused_batch(play, 3)
        play << to_target(*GOOD)
        play >> from_target(*GOOD_ANSWER)
        play << Completed(1, "SELECT 1", 1) << to_client(*GOOD_ANSWER, *REFUSED, *REFUSED)


def test_denied_simple_query_in_a_pipeline_is_answered_in_order() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.query("select 1"), pg.query("drop"), pg.query("select 2"))
        play << operation(1, "select 1") << operation(2, "drop") << refusal(2) << operation(3, "select 2")
        play << to_target(pg.query("select 1"), pg.query("select 2"))
        play >> from_target(pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(1, "SELECT 1", 1) << to_client(pg.command_complete("SELECT 1"), pg.ready(), *REFUSED)
        play >> from_target(pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(3, "SELECT 1", 1)
        play.forwarded()


def test_ready_after_a_denial_has_the_transaction_status() -> None:
    for status in (b"T", b"E"):
        with playbook(Words()) as play:
            play >> from_client(pg.query("begin"))
            play << operation(1, "begin")
            play.forwarded()
            play >> from_target(pg.command_complete("BEGIN"), pg.ready(status))
            play << Completed(1, "BEGIN")
            play.forwarded()
            play >> from_client(pg.query("drop"))
            play << operation(2, "drop") << refusal(2) << to_client(refused(), pg.ready(status))


def test_messages_after_a_denied_flush_are_ignored_up_to_the_sync() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.parse("select 1", "s"), pg.flush())
        play << prepare(1, "select 1")
        play.forwarded()
        play >> from_target(pg.parse_complete())
        play.forwarded()
        play >> from_client(pg.parse("drop 1"), pg.flush())
        play << prepare(2, "drop 1") << refusal(2) << to_client(refused())
        play >> from_client(pg.bind("", "s"), pg.execute(), pg.query("drop"), pg.copy_data("x"), pg.flush())
        play >> from_client(pg.sync())
        play << to_target(pg.sync())
        play >> from_target(pg.ready())
        play.forwarded()
        still_usable(play, 3)


def test_denied_flush_of_a_new_batch_does_not_reach_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.parse("drop 1"), pg.flush())
        play << prepare(1, "drop 1") << refusal(1) << to_client(refused())
        play >> from_client(pg.sync())
        play << to_client(pg.ready())


def test_denial_rolls_back_statements_before_the_flush() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD[:-1], pg.flush())
        play << operation(1, "select 1")
        play.forwarded()
        play >> from_target(*GOOD_ANSWER[:-1])
        play << Completed(1, "SELECT 1", 1)
        play.forwarded()
        play >> from_client(*BAD)
        expect_refused_batch(play, 2)
        play << to_target(POISON, pg.sync()) << to_client(refused())
        play >> from_target(SYNTAX, pg.ready())
        play << to_client(pg.ready())
        still_usable(play, 3)


def test_error_of_the_rollback_statement_is_neither_judged_nor_recorded() -> None:
    masks = Masks()
    with playbook(Words(), masks) as play:
        play >> from_client(*GOOD[:-1], pg.flush(), *BAD)
        play << operation(1, "select 1")
        expect_refused_batch(play, 2)
        play << to_target(*GOOD[:2], pg.describe_portal(), pg.execute(), pg.flush(), POISON, pg.sync())
        play >> from_target(pg.parse_complete(), pg.bind_complete(), pg.no_data(), pg.command_complete("SELECT 1"))
        play << Completed(1, "SELECT 1", 1) << to_client(*GOOD_ANSWER[:-1], refused())
        play >> from_target(SYNTAX, pg.ready())
        play << to_client(pg.ready())
    assert masks.seen == []


def test_denied_simple_query_fails_the_unsynced_batch_on_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD[:-1], pg.flush(), pg.query("drop"))
        play << operation(1, "select 1") << operation(2, "drop") << refusal(2)
        play << to_target(*GOOD[:-1], pg.flush(), POISON_QUERY)
        play >> from_target(*GOOD_ANSWER[:-1], SYNTAX, pg.ready())
        play << Completed(1, "SELECT 1", 1) << to_client(*GOOD_ANSWER[:-1], refused(), pg.ready())
        still_usable(play, 3)


def test_denied_query_that_the_target_skips_gets_no_answer() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.parse("bad"), pg.flush())
        play << prepare(1, "bad")
        play.forwarded()
        play >> from_target(pg.error("bad"))
        play << Completed(1, error_code="42601", error="bad")
        play.forwarded()
        play >> from_client(pg.query("drop"))
        play << operation(2, "drop") << refusal(2) << to_target(POISON_QUERY)
        play >> from_client(pg.sync())
        play.forwarded()
        play >> from_target(pg.ready())
        play.forwarded()
        still_usable(play, 3)


def test_earlier_error_of_the_batch_suppresses_the_denial() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD[:-1], pg.flush(), pg.parse("drop 1"), pg.flush(), pg.sync())
        play << operation(1, "select 1") << prepare(2, "drop 1") << refusal(2)
        play << to_target(*GOOD[:-1], pg.flush(), POISON, pg.sync())
        play >> from_target(pg.parse_complete(), pg.error("bad"), pg.ready())
        play << Completed(1, error_code="42601", error="bad")
        play.forwarded()
        still_usable(play, 3)


def test_error_that_arrives_while_messages_are_ignored_suppresses_the_denial() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD[:-1], pg.flush(), pg.parse("drop 1"), pg.flush())
        play << operation(1, "select 1") << prepare(2, "drop 1") << refusal(2)
        play << to_target(*GOOD[:-1], pg.flush(), POISON)
        play >> from_target(pg.parse_complete(), pg.error("bad"))
        play << Completed(1, error_code="42601", error="bad")
        play.forwarded()
        play >> from_client(pg.sync())
        play.forwarded()
        play >> from_target(pg.ready())
        play.forwarded()
        still_usable(play, 3)


def test_error_of_an_earlier_batch_does_not_suppress_the_denial() -> None:
    with playbook(Words()) as play:
        play >> from_client(*GOOD, *BAD)
        play << operation(1, "select 1")
        expect_refused_batch(play, 2)
        play << to_target(*GOOD)
        play >> from_target(pg.error("bad"), pg.ready(b"E"))
        play << Completed(1, error_code="42601", error="bad")
        play << to_client(pg.error("bad"), pg.ready(b"E"), refused(), pg.ready(b"E"))


def test_denied_function_call_does_not_reach_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.function_call(5, [b"drop"]))
        play << operation(1, "function call 5", b"drop") << refusal(1) << to_client(*REFUSED)
        still_usable(play, 2)


def test_interceptor_that_raises_denies_the_query() -> None:
    with playbook(Breaks()) as play:
        play >> from_client(pg.query("select 1"))
        message = "breaks failed to evaluate this, so it was denied"
        hint = messages.error_response("42501", message, hint="Ask an administrator to check the gateway's log.")
        play << operation(1, "select 1") << refusal(1, "breaks", message) << to_client(hint, pg.ready())


def test_later_interceptor_denies_a_query_that_an_earlier_one_forwarded() -> None:
    with playbook(ReadsAll(), Words()) as play:
        play >> from_client(pg.query("drop"))
        play << operation(1, "drop") << refusal(1) << to_client(*REFUSED)
