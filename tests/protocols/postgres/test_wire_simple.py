"""Forwarding in the simple query protocol."""

from __future__ import annotations

from tests.support.links import ReadsAll, operation, playbook
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import from_client, from_target, to_client, to_target

from postern.interception.events import Completed

ROWS = [pg.row_description("n"), pg.data_row("1"), pg.data_row(None), pg.command_complete("SELECT 2")]


def test_query_and_its_answer_are_forwarded_unchanged() -> None:
    with playbook() as play:
        play >> from_client(pg.query("select n from t"))
        play << operation(1, "select n from t") << to_target(pg.query("select n from t"))
        play >> from_target(*ROWS, pg.ready())
        play << Completed(1, "SELECT 2", 2)
        play.forwarded()


def test_answer_that_is_read_but_not_changed_is_forwarded_unchanged() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(pg.query("select n from t"))
        play << operation(1, "select n from t")
        play.forwarded()
        play >> from_target(*ROWS, pg.ready())
        play << Completed(1, "SELECT 2", 2)
        play.forwarded()


def test_several_statements_in_one_query_are_one_exchange() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(pg.query("select 1; update t set n = 2"))
        play << operation(1, "select 1; update t set n = 2")
        play.forwarded()
        play >> from_target(*ROWS, pg.command_complete("UPDATE 3"), pg.ready())
        play << Completed(1, "SELECT 2", 2) << Completed(1, "UPDATE 3", 3)
        play.forwarded()


def test_empty_query_is_forwarded_and_recorded() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(pg.query(""))
        play << operation(1, "")
        play.forwarded()
        play >> from_target(pg.empty_query(), pg.ready())
        play << Completed(1)
        play.forwarded()


def test_error_ends_the_exchange_and_the_next_query_runs() -> None:
    with playbook() as play:
        play >> from_client(pg.query("selec"))
        play << operation(1, "selec")
        play.forwarded()
        play >> from_target(pg.error("syntax error"), pg.ready())
        play << Completed(1, error_code="42601", error="syntax error")
        play.forwarded()
        play >> from_client(pg.query("select 1"))
        play << operation(2, "select 1")
        play.forwarded()
        play >> from_target(*ROWS, pg.ready())
        play << Completed(2, "SELECT 2", 2)
        play.forwarded()


def test_pipelined_queries_are_forwarded_and_recorded() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(pg.query("select 1"), pg.query("select 2"))
        play << operation(1, "select 1") << operation(2, "select 2")
        play.forwarded()
        play >> from_target(*ROWS, pg.ready(), *ROWS, pg.ready())
        play << Completed(1, "SELECT 2", 2) << Completed(2, "SELECT 2", 2)
        play.forwarded()


def test_asynchronous_messages_are_forwarded_within_answers_and_when_idle() -> None:
    aside = [pg.notice("careful"), pg.parameter_status("TimeZone", "UTC"), pg.notification("news", "one")]
    for interceptors in ([], [ReadsAll()]):
        with playbook(*interceptors) as play:
            play >> from_target(*aside)
            play.forwarded()
            play >> from_client(pg.query("select 1"))
            play << operation(1, "select 1")
            play.forwarded()
            play >> from_target(*aside, ROWS[0], *aside, *ROWS[1:], *aside, pg.ready(), *aside)
            play << Completed(1, "SELECT 2", 2)
            play.forwarded()


def test_function_call_is_forwarded_and_recorded() -> None:
    with playbook(ReadsAll()) as play:
        play >> from_client(pg.function_call(952, [b"\0\0\0\x07", None]))
        play << operation(1, "function call 952", b"\0\0\0\x07", None)
        play.forwarded()
        play >> from_target(pg.function_result("ok"), pg.ready(b"T"))
        play << Completed(1, "FUNCTION CALL")
        play.forwarded()


def test_failing_function_call_ends_at_its_ready() -> None:
    with playbook() as play:
        play >> from_client(pg.function_call(1), pg.query("select 1"))
        play << operation(1, "function call 1") << operation(2, "select 1")
        play.forwarded()
        play >> from_target(pg.error("no such function"), pg.ready(), *ROWS, pg.ready())
        play << Completed(1, error_code="42601", error="no such function") << Completed(1, "FUNCTION CALL")
        play << Completed(2, "SELECT 2", 2)
        play.forwarded()


def test_messages_after_terminate_are_not_forwarded() -> None:
    with playbook() as play:
        play >> from_client(pg.terminate(), pg.query("select 1"))
        play << to_target(pg.terminate())


def test_statement_is_read_in_the_reported_client_encoding() -> None:
    with playbook() as play:
        play >> from_target(pg.parameter_status("client_encoding", "LATIN1"))
        play.forwarded()
        play >> from_client(pg.query("select 'é'".encode("latin-1")))
        play << operation(1, "select 'é'")
        play.forwarded()
        play >> from_target(pg.ready())
        play << to_client(pg.ready())
