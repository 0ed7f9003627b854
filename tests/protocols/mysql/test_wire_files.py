"""LOAD DATA LOCAL: the target requests a file from the client, which the gateway forwards only if allowed."""

from __future__ import annotations

from typing import Any

from tests.support.links import ReadsAll
from tests.support.mysql_links import links, playbook, runs, sent
from tests.support.protocols import mysql_test_messages as my
from tests.support.protocols.playbook import from_client, from_target, record, to_client, to_target

from postern.domain.sessions.session import EndReason
from postern.interception.events import Completed
from postern.protocols.mysql.login import mysql_greetings as g
from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.wire_base import Side
from postern.relay.link import Close

LOAD = "load data local infile 'data.csv' into table t"
TEXT = "loading files of the client is disabled on this connection"
HINT = "Send the rows as statements, or ask an administrator to set POSTERN_MYSQL_LOCAL_FILES."
NO = m.err(1, 3948, "42000", TEXT, HINT)


def test_local_file_is_streamed_to_the_target() -> None:
    with playbook(ReadsAll(), local_files=True) as play:
        play >> from_client(my.query(LOAD))
        play.forwarded() << record(runs(1, LOAD))
        play >> from_target(my.AnswerPackets().wants_file().bytes)
        play.forwarded()
        play >> from_client(my.file_data(2, b"a,b\n" * 100), my.file_data(3, b"c"), my.file_data(4))
        play.forwarded()
        play >> from_target(my.AnswerPackets(5).ok(101).bytes)
        play.forwarded() << record(Completed(1, "OK", 101))
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(2, "select 1"))
        play >> from_target(my.rows(("1",)))
        play.forwarded() << record(Completed(2, "OK", 1))


def test_target_receives_an_empty_file_if_local_files_are_not_allowed() -> None:
    choices: list[dict[str, Any]] = [{}, {"local_files": True, "capabilities": g.OFFERED & ~g.LOCAL_FILES}]
    for options in choices:
        with playbook(ReadsAll(), **options) as play:
            play >> from_client(my.query(LOAD))
            play.forwarded() << record(runs(1, LOAD))
            play >> from_target(my.AnswerPackets().wants_file("/etc/passwd").bytes)
            play << to_client(NO) << to_target(my.file_data(2))
            play << record(Completed(1, error_code="42000", error=TEXT))
            play >> from_target(my.AnswerPackets(3).ok().bytes)
            play >> from_client(m.PING)
            play.forwarded()
            play >> from_target(my.ok())
            play.forwarded()


def test_attack_unsolicited_file_request_of_a_target_gets_an_empty_file() -> None:
    with playbook() as play:
        play >> from_client(my.query("select 1"))
        play.forwarded() << record(runs(1, "select 1"))
        play >> from_target(my.AnswerPackets().wants_file("/root/.ssh/id_rsa").bytes)
        play << to_client(NO) << to_target(my.file_data(2))
        play << record(Completed(1, error_code="42000", error=TEXT))
        play >> from_target(my.AnswerPackets(3).error("nothing").bytes)
        play << record(Completed(1, error_code="42000"))


def test_attack_command_pipelined_after_load_data_ends_the_session() -> None:
    """The target would read the next command as the file, and answers could not be assigned to commands."""
    for allowed in (True, False):
        link = links(ReadsAll(), local_files=allowed)()
        link.receive(Side.CLIENT, my.query(LOAD) + my.query("select 1"))
        effects = link.receive(Side.TARGET, my.AnswerPackets().wants_file().bytes)
        assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]
        assert not sent(effects, Side.TARGET)


def test_packet_of_16_mib_does_not_end_the_file() -> None:
    with playbook(local_files=True, chunks=(0, 1 << 20)) as play:
        play >> from_client(my.query(LOAD))
        play.forwarded() << record(runs(1, LOAD))
        play >> from_target(my.AnswerPackets().wants_file().bytes)
        play.forwarded()
        play >> from_client(m.packet(2, bytes(m.MAX_PAYLOAD)), my.file_data(4, b"x"), my.file_data(5))
        play.forwarded()
        play >> from_target(my.AnswerPackets(6).ok().bytes)
        play.forwarded() << record(Completed(1, "OK", 0))
