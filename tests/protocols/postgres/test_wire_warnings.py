"""Warnings: each in front of the answer that it belongs to, never in the middle of a message, and no answer itself."""

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


def test_a_simple_query_is_told_in_front_of_its_answer() -> None:
    with playbook(warns()) as play:
        play >> from_client(pg.query("careful"))
        play << operation(1, "careful") << NOTE << to_target(pg.query("careful")) << to_client(TOLD)
        play >> from_target(DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1)
        play.forwarded()


def test_a_warning_waits_for_the_answers_that_are_owed_before() -> None:
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


def test_an_extended_batch_is_told_once_of_what_it_prepares_and_runs() -> None:
    with playbook(warns()) as play:
        play >> from_client(*CAREFUL, pg.sync())
        play << operation(1, "careful") << NOTE << to_target(*CAREFUL, pg.sync()) << to_client(TOLD)
        play >> from_target(*PREPARED, DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1)
        play.forwarded()


def test_an_error_that_skips_the_statement_skips_its_warning() -> None:
    """A pipeline: the batch in front of a Flush fails, so the backend never looks at what was warned of."""
    plain = [pg.parse("select x"), pg.bind(), pg.execute()]
    with playbook(warns()) as play:
        play >> from_client(*plain, pg.flush(), *CAREFUL, pg.sync())
        play << operation(1, "select x") << operation(2, "careful") << NOTE
        play << to_target(*plain, pg.flush(), *CAREFUL, pg.sync())
        play >> from_target(pg.error("no column x"), pg.ready())
        play << Completed(1, error_code="42601", error="no column x")
        play.forwarded()


def test_what_is_refused_is_not_warned_of() -> None:
    for interceptors in ((warns(), Words()), (Words(), warns())):
        with playbook(*interceptors) as play:
            play >> from_client(pg.query("careful drop"))
            play << operation(1, "careful drop") << refusal(1) << to_client(refused(), pg.ready())


def test_a_hold_is_settled_before_anything_is_told() -> None:
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


def test_a_hold_may_end_as_a_warning() -> None:
    with playbook(Asks()) as play:
        play >> from_client(pg.query("review"))
        play << HoldEffect("t1", "may review run?")
        play >> resume("t1", Warn("warns", "mind the word careful", "Mind it."))
        play << operation(1, "review") << NOTE << to_target(pg.query("review")) << to_client(TOLD)
        play >> from_target(DONE, pg.ready())
        play << Completed(1, "DELETE 1", 1)
        play.forwarded()


def test_a_warning_while_an_earlier_answer_is_under_way_waits_for_its_end() -> None:
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


def test_rows_are_told_of_once_in_an_answer_and_shown() -> None:
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


def test_only_preparing_is_warned_of_too() -> None:
    with playbook(warns()) as play:
        play >> from_client(pg.parse("careful", "s"), pg.sync())
        play << prepare(1, "careful") << NOTE << to_target(pg.parse("careful", "s"), pg.sync()) << to_client(TOLD)
        play >> from_target(pg.parse_complete(), pg.ready())
        play.forwarded()
