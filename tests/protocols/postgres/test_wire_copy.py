"""COPY in both directions, in both protocols."""

from __future__ import annotations

import struct

from tests.support.links import Masks, ReadsAll, Words, operation, playbook, prepare, refusal, refused
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import Playbook, from_client, from_target, to_client, to_target

from postern.interception.events import Completed

COPY = [pg.parse("copy t from stdin"), pg.bind(), pg.execute()]
COPY_ANSWER = [pg.parse_complete(), pg.bind_complete()]
LINES = [pg.copy_data("1\tone\n"), pg.copy_data("2\t" + "two" * 40 + "\n"), pg.copy_data("")]
SIGNATURE = b"PGCOPY\n\xff\r\n\0"


def begin_simple(play: Playbook) -> None:
    play >> from_client(pg.query("copy t from stdin"))
    play << operation(1, "copy t from stdin")
    play.forwarded()
    play >> from_target(pg.copy_in())
    play.forwarded()


def end_copy(play: Playbook, exchange: int = 1) -> None:
    play >> from_target(pg.command_complete("COPY 2"), pg.ready())
    play << Completed(exchange, "COPY 2", 2)
    play.forwarded()


def test_copy_in() -> None:
    for interceptors in ([], [ReadsAll()]):
        with playbook(*interceptors) as play:
            begin_simple(play)
            play >> from_client(*LINES, pg.copy_done())
            play.forwarded()
            end_copy(play)


def test_sync_and_flush_belong_to_the_data() -> None:
    with playbook() as play:
        begin_simple(play)
        play >> from_client(*LINES, pg.sync(), pg.flush(), *LINES, pg.copy_done())
        play.forwarded()
        end_copy(play)


def test_copy_fail() -> None:
    with playbook() as play:
        begin_simple(play)
        play >> from_client(*LINES, pg.copy_fail("changed my mind"))
        play.forwarded()
        play >> from_target(pg.error("COPY from stdin failed: changed my mind", "57014"), pg.ready())
        play << Completed(1, error_code="57014", error="COPY from stdin failed: changed my mind")
        play.forwarded()


def test_data_that_arrives_after_the_target_gave_up_is_passed_and_answers_nothing() -> None:
    with playbook() as play:
        begin_simple(play)
        play >> from_client(LINES[0])
        play.forwarded()
        play >> from_target(pg.error("bad"), pg.ready())
        play << Completed(1, error_code="42601", error="bad")
        play.forwarded()
        play >> from_client(LINES[1], pg.copy_done(), pg.query("select 1"))
        play << operation(2, "select 1")
        play.forwarded()
        play >> from_target(pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_the_sync_behind_an_extended_copy_is_ignored_and_the_one_behind_the_data_counts() -> None:
    with playbook() as play:
        play >> from_client(*COPY, pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in())
        play.forwarded()
        play >> from_client(*LINES, pg.copy_done(), pg.sync())
        play.forwarded()
        end_copy(play)


def test_a_copy_that_fails_at_once_has_its_first_sync_answered_too() -> None:
    """As the server does when a trigger before the statement raises: it never came to read the Sync as data."""
    with playbook() as play:
        play >> from_client(*COPY, pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in(), pg.error("no"), pg.ready())
        play << Completed(1, error_code="42601", error="no")
        play.forwarded()
        play >> from_client(*LINES, pg.copy_done(), pg.sync(), pg.query("select 1"))
        play << operation(2, "select 1")
        play.forwarded()
        play >> from_target(pg.ready(), pg.command_complete("SELECT 1"), pg.ready())
        play << Completed(2, "SELECT 1", 1)
        play.forwarded()


def test_data_may_be_sent_before_the_target_has_asked_for_it() -> None:
    for interceptors in ([], [ReadsAll()]):
        with playbook(*interceptors) as play:
            play >> from_client(pg.query("copy t from stdin"), *LINES, pg.copy_done())
            play << operation(1, "copy t from stdin")
            play.forwarded()
            play >> from_target(pg.copy_in())
            play.forwarded()
            play >> from_client(pg.parse("select 1"), pg.sync())
            play << prepare(2, "select 1")
            play.forwarded()
            end_copy(play)
            play >> from_target(pg.parse_complete(), pg.ready())
            play.forwarded()


def test_an_extended_copy_sent_in_one_go() -> None:
    with playbook() as play:
        play >> from_client(*COPY, pg.sync(), *LINES, pg.copy_done(), pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in(), pg.command_complete("COPY 2"), pg.ready())
        play << Completed(1, "COPY 2", 2)
        play.forwarded()


def test_a_refusal_behind_an_ignored_sync_leaves_no_transaction_open() -> None:
    with playbook(Words()) as play:
        play >> from_client(*COPY, pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in())
        play.forwarded()
        play >> from_client(pg.copy_done(), pg.parse("drop 1"), pg.sync())
        play << prepare(2, "drop 1") << refusal(2)
        play << to_target(pg.copy_done(), pg.parse("refused by the gateway"), pg.sync())
        play >> from_target(pg.command_complete("COPY 0"), pg.error("syntax"), pg.ready())
        play << Completed(1, "COPY 0", 0) << to_client(pg.command_complete("COPY 0"), refused(), pg.ready())


def test_a_refused_copy_reaches_nobody() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.query("copy drop from stdin"))
        play << operation(1, "copy drop from stdin") << refusal(1) << to_client(refused(), pg.ready())


def test_copy_out_text() -> None:
    with playbook(Masks()) as play:
        play >> from_client(pg.query("copy t to stdout"))
        play << operation(1, "copy t to stdout")
        play.forwarded()
        rest = [pg.copy_done(), pg.command_complete("COPY 2"), pg.ready()]
        play >> from_target(pg.copy_out(2), pg.copy_data("1\tsecret-1\n"), pg.copy_data("2\t\\N\n"), *rest)
        play << Completed(1, "COPY 2", 2)
        play << to_client(pg.copy_out(2), pg.copy_data("1\t***\n"), pg.copy_data("2\t\\N\n"), *rest)


def test_copy_out_binary_keeps_its_lengths() -> None:
    def cells(*texts: bytes | None) -> bytes:
        sized = [b"\xff\xff\xff\xff" if text is None else struct.pack("!i", len(text)) + text for text in texts]
        return struct.pack("!h", len(texts)) + b"".join(sized)

    header = SIGNATURE + bytes(8)
    with playbook(Masks()) as play:
        play >> from_client(pg.query("copy t to stdout (format binary)"))
        play << operation(1, "copy t to stdout (format binary)")
        play.forwarded()
        rest = [pg.copy_data(b"\xff\xff"), pg.copy_done(), pg.command_complete("COPY 2"), pg.ready()]
        # The target sends the header and the first row as one message.
        first, masked = cells(b"a", b"secret-1", None), cells(b"a", b"***", None)
        play >> from_target(pg.copy_out(3, 1), pg.copy_data(header + first), pg.copy_data(first), *rest)
        play << Completed(1, "COPY 2", 2)
        play << to_client(pg.copy_out(3, 1), pg.copy_data(header + masked), pg.copy_data(masked), *rest)


def test_copy_out_that_nobody_looks_at_passes_in_pieces() -> None:
    with playbook(max_message=50) as play:
        play >> from_client(pg.query("copy t to stdout"))
        play << operation(1, "copy t to stdout")
        play.forwarded()
        big = [pg.copy_out(), pg.copy_data("x" * 500), pg.copy_done(), pg.command_complete("COPY 1"), pg.ready()]
        play >> from_target(*big)
        play << Completed(1, "COPY 1", 1)
        play.forwarded()
