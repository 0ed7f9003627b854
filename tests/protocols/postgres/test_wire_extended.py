"""The extended query protocol: pipelines, errors and skipped messages, portals, statement names."""

from __future__ import annotations

from tests.support.links import Masks, ReadsAll, Words, operation, playbook, prepare, refusal, refused
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import from_client, from_target, to_client, to_target

from postern.interception.events import Completed, Event

BATCH = [pg.parse("select $1"), pg.bind(values=["7"]), pg.describe_portal(), pg.execute(), pg.sync()]
ANSWER = [pg.parse_complete(), pg.bind_complete(), pg.row_description("n"), pg.data_row("7"),
          pg.command_complete("SELECT 1")]  # fmt: skip
FAILED = Completed(1, error_code="42601", error="bad")


def test_extended_query_is_forwarded_and_recorded() -> None:
    for interceptors in ([], [ReadsAll()]):
        with playbook(*interceptors) as play:
            play >> from_client(*BATCH)
            play << operation(1, "select $1", b"7")
            play.forwarded()
            play >> from_target(*ANSWER, pg.ready())
            play << Completed(1, "SELECT 1", 1)
            play.forwarded()


def test_batch_judged_as_a_whole_is_not_forwarded_before_its_sync() -> None:
    with playbook(Words()) as play:
        play >> from_client(*BATCH[:-1])
        play >> from_client(BATCH[-1])
        play << operation(1, "select $1", b"7") << to_target(*BATCH)
        play >> from_target(*ANSWER, pg.ready())
        play << Completed(1, "SELECT 1", 1)
        play.forwarded()


def test_pipelined_batches_are_forwarded_and_recorded() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(*BATCH, *BATCH, pg.sync())
        play << operation(1, "select $1", b"7") << operation(2, "select $1", b"7")
        play.forwarded()
        play >> from_target(*ANSWER, pg.ready(), *ANSWER, pg.ready(), pg.ready())
        play << Completed(1, "SELECT 1", 1) << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_prepared_and_executed_statements_of_a_batch_are_recorded() -> None:
    with playbook() as play:
        play >> from_client(
            pg.parse("select 1", "a"), pg.parse("select 2", "b"), pg.bind("", "a"), pg.execute(), pg.sync()
        )
        play << prepare(1, "select 2") << operation(1, "select 1")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.parse_complete(), pg.bind_complete())
        play.forwarded()
        play >> from_target(pg.command_complete("SELECT 0"), pg.ready())
        play << Completed(1, "SELECT 0", 0)
        play.forwarded()


def test_error_skips_all_messages_up_to_the_sync() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(*BATCH, *BATCH)
        play << operation(1, "select $1", b"7") << operation(2, "select $1", b"7")
        play.forwarded()
        play >> from_target(pg.error("bad"), pg.ready(), *ANSWER, pg.ready())
        play << FAILED << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_messages_between_an_error_and_the_sync_await_no_answer() -> None:
    with playbook() as play:
        play >> from_client(pg.parse("bad"), pg.flush())
        play << prepare(1, "bad")
        play.forwarded()
        play >> from_target(pg.error("bad"))
        play << FAILED
        play.forwarded()
        play >> from_client(pg.bind(), pg.execute(), pg.flush())
        play << operation(2, "execute prepared statement ''")
        play.forwarded()
        play >> from_client(*BATCH)
        play << operation(3, "select $1", b"7")
        play.forwarded()
        play >> from_target(pg.ready())
        play.forwarded()
        play >> from_client(*BATCH)
        play << operation(4, "select $1", b"7")
        play.forwarded()
        play >> from_target(*ANSWER, pg.ready())
        play << Completed(4, "SELECT 1", 1)
        play.forwarded()


def test_simple_query_after_an_error_is_skipped_up_to_the_sync() -> None:
    with playbook() as play:
        play >> from_client(pg.parse("bad"), pg.query("select 1"), pg.function_call(5), pg.sync(), pg.query("select 2"))
        play << prepare(1, "bad") << operation(1, "select 1")
        play << operation(2, "function call 5") << operation(3, "select 2")
        play.forwarded()
        play >> from_target(pg.error("bad"), pg.ready(), pg.command_complete("SELECT 1"), pg.ready())
        play << FAILED << Completed(3, "SELECT 1", 1)
        play.forwarded()


def test_error_at_the_sync_is_forwarded_and_recorded() -> None:
    with playbook() as play:
        play >> from_client(*BATCH)
        play << operation(1, "select $1", b"7")
        play.forwarded()
        play >> from_target(*ANSWER, pg.error("bad"), pg.ready())
        play << Completed(1, "SELECT 1", 1) << FAILED
        play.forwarded()


def test_error_of_a_bind_is_recorded_for_its_execute() -> None:
    with playbook() as play:
        play >> from_client(*BATCH)
        play << operation(1, "select $1", b"7")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.error("bad"), pg.ready())
        play << FAILED
        play.forwarded()


def test_close_and_describe_messages_are_forwarded() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(pg.parse("select $1", "s"), pg.describe_statement("s"), pg.close_statement("s"))
        play << prepare(1, "select $1")
        play.forwarded()
        play >> from_client(pg.close_portal("p"), pg.parse("set x = 1"), pg.describe_statement(), pg.sync())
        play << prepare(1, "set x = 1")
        play.forwarded()
        play >> from_target(
            pg.parse_complete(), pg.parameter_description(23), pg.row_description("n"), pg.close_complete()
        )
        play.forwarded()
        play >> from_target(
            pg.close_complete(), pg.parse_complete(), pg.parameter_description(), pg.no_data(), pg.ready()
        )
        play.forwarded()


def test_portal_with_a_row_limit_is_resumed_and_masked() -> None:
    with playbook(Masks()) as play:
        play >> from_client(pg.parse("select s from t"), pg.bind("p"), pg.execute("p", 1), pg.flush())
        play << operation(1, "select s from t")
        play << to_target(
            pg.parse("select s from t"), pg.bind("p"), pg.describe_portal("p"), pg.execute("p", 1), pg.flush()
        )
        play >> from_target(pg.parse_complete(), pg.bind_complete(), pg.row_description("s"), pg.data_row("secret-1"))
        play << to_client(pg.parse_complete(), pg.bind_complete(), pg.data_row("***"))
        play >> from_target(pg.portal_suspended())
        play << Completed(1, "PORTAL SUSPENDED")
        play.forwarded()
        play >> from_client(pg.execute("p", 1), pg.sync())
        play << operation(2, "select s from t") << to_target(pg.describe_portal("p"), pg.execute("p", 1), pg.sync())
        play >> from_target(
            pg.row_description("s"), pg.data_row("secret-2"), pg.command_complete("SELECT 1"), pg.ready()
        )
        play << Completed(2, "SELECT 1", 1)
        play << to_client(pg.data_row("***"), pg.command_complete("SELECT 1"), pg.ready())


def test_execute_is_judged_by_every_statement_that_its_name_can_mean() -> None:
    """Attack 82: until the target confirms the new Parse, its name can also mean the old statement."""
    with playbook() as play:
        play >> from_client(pg.parse("select 1", "s"), pg.sync())
        play << prepare(1, "select 1")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.ready())
        play.forwarded()
        play >> from_client(pg.parse("select 2", "s"), pg.sync(), pg.bind("", "s"), pg.execute(), pg.sync())
        play << prepare(2, "select 2") << operation(3, "select 1") << operation(3, "select 2")
        play.forwarded()
        play >> from_target(
            pg.error("bad"), pg.ready(), pg.bind_complete(), pg.command_complete("SELECT 1"), pg.ready()
        )
        play << Completed(2, error_code="42601", error="bad") << Completed(3, "SELECT 1", 1)
        play.forwarded()
        play >> from_client(pg.bind("", "s"), pg.execute(), pg.sync())
        play << operation(4, "select 1")
        play.forwarded()
        play >> from_target(pg.bind_complete(), pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(4, "SELECT 1", 1)
        play.forwarded()


def test_confirmed_parse_replaces_the_statement_of_its_name() -> None:
    with playbook() as play:
        play >> from_client(pg.parse("select 1"), pg.sync(), pg.parse("select 2"), pg.sync())
        play << prepare(1, "select 1") << prepare(2, "select 2")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.ready(), pg.parse_complete(), pg.ready())
        play.forwarded()
        play >> from_client(pg.bind(), pg.execute(), pg.sync())
        play << operation(3, "select 2")
        play.forwarded()
        play >> from_target(pg.bind_complete(), pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(3, "SELECT 1", 1)
        play.forwarded()


def test_closed_statement_name_is_unknown() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.parse("select 1", "s"), pg.sync())
        play << prepare(1, "select 1")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.ready())
        play.forwarded()
        play >> from_client(pg.close_statement("s"), pg.sync())
        play.forwarded()
        play >> from_target(pg.close_complete(), pg.ready())
        play.forwarded()
        play >> from_client(pg.bind("", "s"), pg.execute(), pg.sync())
        play << operation(2, "execute prepared statement 's'")
        play.forwarded()
        play >> from_target(pg.error("bad"), pg.ready())
        play << Completed(2, error_code="42601", error="bad")
        play.forwarded()


def test_portal_bound_before_a_flush_is_judged_by_its_statement() -> None:
    """Attack 82: execute a portal that was bound in an earlier part with a forbidden value."""
    with playbook(Words("7")) as play:
        play >> from_client(pg.parse("select $1"), pg.bind("p", values=["7"]), pg.flush())
        play << prepare(1, "select $1")
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.bind_complete())
        play.forwarded()
        events: list[Event] = [operation(2, "select $1", b"7"), refusal(2, message="the word 7 is not allowed")]
        play >> from_client(pg.execute("p"), pg.sync())
        play << events[0] << events[1] << to_target(pg.sync()) << to_client(refused("the word 7 is not allowed"))
        play >> from_target(pg.ready())
        play.forwarded()


def test_large_batch_is_forwarded_in_parts() -> None:
    with playbook(max_batch=100) as play:
        statement = "select " + "1" * 100
        play >> from_client(pg.parse(statement), pg.bind(), pg.execute(), pg.sync())
        play << prepare(1, statement) << operation(1, statement)
        play.forwarded()
        play >> from_target(pg.parse_complete(), pg.bind_complete(), pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(1, "SELECT 1", 1)
        play.forwarded()
