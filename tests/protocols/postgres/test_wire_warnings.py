"""Warnings: each is sent before the answer that it belongs to, and never within a message."""

from __future__ import annotations

from tests.support.links import Asks, Warns, Words, operation, playbook, prepare, refusal, refused
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import from_client, from_target, resume, to_client, to_target

from postern.interception.events import Completed, Note
from postern.interception.verdicts import FORWARD, Warn
from postern.protocols.postgres.wire import postgres_messages as m
from postern.relay.link import HoldEffect

TOLD = m.report(b"N", "WARNING", "01000", "mind the word careful", hint="Mind it.")
NOTE = Note("mind the word careful", {"rule": "warns"})
DONE = pg.command_complete("DELETE 1")
CAREFUL = [pg.parse("careful"), pg.bind(), pg.execute()]
PREPARED = [pg.parse_complete(), pg.bind_complete()]
OPERATIONS = frozenset({type(operation(1, ""))})


def warns() -> Warns:
    return Warns(wants=OPERATIONS)


def test_warning_is_sent_before_the_answer_of_a_simple_query() -> None:
    with playbook(warns()) as play:
        play >> from_client(pg.query("careful"))
        play << operation(1, "careful") << NOTE << to_target(pg.query("careful")) << to_client(TOLD)
        play >> from_target(DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1)
        play.forwarded()


def test_warning_is_sent_after_the_answers_of_earlier_queries() -> None:
    with playbook(warns()) as play:
        play >> from_client(pg.query("select 1"), pg.query("careful"), pg.query("select 2"))
        play << operation(1, "select 1") << operation(2, "careful") << NOTE << operation(3, "select 2")
        play << to_target(pg.query("select 1"), pg.query("careful"), pg.query("select 2"))
        play >> from_target(pg.command_complete("SELECT 1"), pg.ready(), DONE, pg.ready())
        play << Completed(1, "SELECT 1", 1) << Completed(2, "DELETE 1", 1)
        play << to_client(pg.command_complete("SELECT 1"), pg.ready(), TOLD, DONE, pg.ready())
        play >> from_target(pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(3, "SELECT 1", 1)
        play.forwarded()


def test_extended_batch_gets_one_warning_for_prepare_and_execute() -> None:
    with playbook(warns()) as play:
        play >> from_client(*CAREFUL, pg.sync())
        play << operation(1, "careful") << NOTE << to_target(*CAREFUL, pg.sync()) << to_client(TOLD)
        play >> from_target(*PREPARED, DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1)
        play.forwarded()


def test_error_that_skips_a_statement_drops_its_warning() -> None:
    """In a pipeline, the batch before a Flush fails, so the target skips the statement with the warning."""
    plain = [pg.parse("select x"), pg.bind(), pg.execute()]
    with playbook(warns()) as play:
        play >> from_client(*plain, pg.flush(), *CAREFUL, pg.sync())
        play << operation(1, "select x") << operation(2, "careful") << NOTE
        play << to_target(*plain, pg.flush(), *CAREFUL, pg.sync())
        play >> from_target(pg.error("no column x"), pg.ready())
        play << Completed(1, error_code="42601", error="no column x")
        play.forwarded()


def test_denied_query_gets_no_warning() -> None:
    for interceptors in ((warns(), Words()), (Words(), warns())):
        with playbook(*interceptors) as play:
            play >> from_client(pg.query("careful drop"))
            play << operation(1, "careful drop") << refusal(1) << to_client(refused(), pg.ready())


def test_warning_is_sent_only_after_the_review_of_its_batch() -> None:
    batch = [pg.parse("careful"), pg.bind(), pg.execute(), pg.parse("review"), pg.bind(), pg.execute(), pg.sync()]
    with playbook(warns(), Asks()) as play:
        play >> from_client(*batch)
        play << HoldEffect("t1", "may review run?")
        play >> resume("t1", FORWARD)
        play << HoldEffect("t1", "may review run?")
        play >> resume("t1", FORWARD)
        play << operation(1, "careful") << operation(2, "review") << NOTE
        play << to_target(*batch) << to_client(TOLD)
        play >> from_target(*PREPARED, DONE, *PREPARED, DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1) << Completed(2, "DELETE 1", 1)
        play.forwarded()


def test_held_query_that_resumes_with_a_warning_is_forwarded_with_it() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review"))
        play << HoldEffect("t1", "may review run?")
        play >> resume("t1", Warn("warns", "mind the word careful", "Mind it."))
        play << operation(1, "review") << NOTE << to_target(pg.query("review")) << to_client(TOLD)
        play >> from_target(DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1)
        play.forwarded()


def test_warning_is_sent_after_the_end_of_an_answer_in_progress() -> None:
    row = pg.data_row(b"x" * 100)
    described = pg.row_description(("t", 25))
    with playbook(warns()) as play:
        play >> from_client(pg.query("select 1"))
        play << operation(1, "select 1")
        play.forwarded()
        play >> from_target(described, row[:50])
        play.forwarded()
        play >> from_client(pg.query("careful"))
        play << operation(2, "careful") << NOTE
        play.forwarded()
        play >> from_target(row[50:], pg.command_complete("SELECT 1"), pg.ready(), DONE, pg.ready())
        play << Completed(1, "SELECT 1", 1) << Completed(2, "DELETE 1", 1)
        play << to_client(row[50:], pg.command_complete("SELECT 1"), pg.ready(), TOLD, DONE, pg.ready())


def test_rows_with_a_warning_are_forwarded_after_one_warning_per_answer() -> None:
    row = pg.data_row(b"be careful")
    described = pg.row_description(("t", 25))
    with playbook(Warns(wants=Warns.wants - OPERATIONS)) as play:
        for exchange in (1, 2):
            play >> from_client(pg.query("select 1"))
            play << operation(exchange, "select 1")
            play.forwarded()
            play >> from_target(described, row, row, pg.command_complete("SELECT 2"), pg.ready())
            play << NOTE << Completed(exchange, "SELECT 2", 2)
            play << to_client(described, TOLD, row, row, pg.command_complete("SELECT 2"), pg.ready())


def test_prepare_alone_gets_a_warning() -> None:
    with playbook(warns()) as play:
        play >> from_client(pg.parse("careful", "s"), pg.sync())
        play << prepare(1, "careful") << NOTE << to_target(pg.parse("careful", "s"), pg.sync()) << to_client(TOLD)
        play >> from_target(pg.parse_complete(), pg.ready())
        play.forwarded()
