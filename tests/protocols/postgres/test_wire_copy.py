"""COPY in both directions, in the simple and the extended protocol."""

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


def test_copy_in_is_forwarded_and_recorded() -> None:
    for interceptors in ([], [ReadsAll()]):
        with playbook(*interceptors) as play:
            begin_simple(play)
            play >> from_client(*LINES, pg.copy_done())
            play.forwarded()
            end_copy(play)


def test_sync_and_flush_during_copy_in_are_part_of_the_data() -> None:
    with playbook() as play:
        begin_simple(play)
        play >> from_client(*LINES, pg.sync(), pg.flush(), *LINES, pg.copy_done())
        play.forwarded()
        end_copy(play)


def test_copy_fail_is_forwarded_and_recorded_as_an_error() -> None:
    with playbook() as play:
        begin_simple(play)
        play >> from_client(*LINES, pg.copy_fail("changed my mind"))
        play.forwarded()
        play >> from_target(pg.error("COPY from stdin failed: changed my mind", "57014"), pg.ready())
        play << Completed(1, error_code="57014", error="COPY from stdin failed: changed my mind")
        play.forwarded()


def test_copy_data_after_a_target_error_is_forwarded_without_an_answer() -> None:
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


def test_extended_copy_is_ended_by_the_sync_after_the_data() -> None:
    with playbook() as play:
        play >> from_client(*COPY, pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in())
        play.forwarded()
        play >> from_client(*LINES, pg.copy_done(), pg.sync())
        play.forwarded()
        end_copy(play)


def test_copy_that_fails_at_once_has_both_syncs_answered() -> None:
    """As on the server if a trigger before the statement raises: it did not read the Sync as data."""
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


def test_copy_data_sent_before_copy_in_response_is_forwarded() -> None:
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


def test_extended_copy_sent_in_one_batch_is_forwarded() -> None:
    with playbook() as play:
        play >> from_client(*COPY, pg.sync(), *LINES, pg.copy_done(), pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in(), pg.command_complete("COPY 2"), pg.ready())
        play << Completed(1, "COPY 2", 2)
        play.forwarded()


def test_denial_after_an_ignored_sync_leaves_no_open_transaction() -> None:
    with playbook(Words()) as play:
        play >> from_client(*COPY, pg.sync())
        play << operation(1, "copy t from stdin")
        play.forwarded()
        play >> from_target(*COPY_ANSWER, pg.copy_in())
        play.forwarded()
        play >> from_client(pg.copy_done(), pg.parse("drop 1"), pg.sync())
        play << prepare(2, "drop 1") << refusal(2)
        play << to_target(pg.copy_done(), pg.parse("denied by the gateway"), pg.sync())
        play >> from_target(pg.command_complete("COPY 0"), pg.error("syntax"), pg.ready())
        play << Completed(1, "COPY 0", 0) << to_client(pg.command_complete("COPY 0"), refused(), pg.ready())


def test_denied_copy_does_not_reach_the_target() -> None:
    with playbook(Words()) as play:
        play >> from_client(pg.query("copy drop from stdin"))
        play << operation(1, "copy drop from stdin") << refusal(1) << to_client(refused(), pg.ready())


def test_text_copy_out_is_masked() -> None:
    with playbook(Masks()) as play:
        play >> from_client(pg.query("copy t to stdout"))
        play << operation(1, "copy t to stdout")
        play.forwarded()
        rest = [pg.copy_done(), pg.command_complete("COPY 2"), pg.ready()]
        play >> from_target(pg.copy_out(2), pg.copy_data("1\tsecret-1\n"), pg.copy_data("2\t\\N\n"), *rest)
        play << Completed(1, "COPY 2", 2)
        play << to_client(pg.copy_out(2), pg.copy_data("1\t***\n"), pg.copy_data("2\t\\N\n"), *rest)


def test_binary_copy_out_is_masked_with_correct_lengths() -> None:
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


def test_copy_out_without_interceptors_is_forwarded_in_chunks() -> None:
    with playbook(max_message=50) as play:
        play >> from_client(pg.query("copy t to stdout"))
        play << operation(1, "copy t to stdout")
        play.forwarded()
        big = [pg.copy_out(), pg.copy_data("x" * 500), pg.copy_done(), pg.command_complete("COPY 1"), pg.ready()]
        play >> from_target(*big)
        play << Completed(1, "COPY 1", 1)
        play.forwarded()
