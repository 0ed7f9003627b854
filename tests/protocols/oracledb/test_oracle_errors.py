"""Errors of Oracle Database with other texts and numbers than the target sent."""

from __future__ import annotations

from postern.interception.verdicts import Refuse
from postern.protocols.oracledb.wire.oracle_output import OracleErrorText, TtcError, encode_error, read_error
from postern.protocols.oracledb.wire.ttc_buffers import TtcReader
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

DATA = encode_error(20123, "ORA-20123: secret\n", 7, 3)


def read(data: bytes) -> TtcError:
    return read_error(TtcReader(data, 1), TtcLayout())


def error_text() -> OracleErrorText:
    return OracleErrorText(1, DATA, read(DATA))


def test_texts_of_an_error_are_its_messages_and_its_number() -> None:
    event = error_text()
    assert event.labels == ("message", "errno")
    assert event.texts() == [b"ORA-20123: secret\n", b"20123"]
    assert event.encode() == DATA


def test_message_can_be_replaced_alone() -> None:
    event = error_text()
    event.replace([b"ORA-20123: ****", b"20123"])
    sent = read(event.encode())
    assert (sent.number, sent.texts, sent.sequence, sent.status) == (20123, [b"ORA-20123: ****"], 7, 3)


def test_attack_number_that_code_has_chosen_is_replaced_with_the_message() -> None:
    event = error_text()
    event.replace([b"****", b"20000"])
    sent = read(event.encode())
    assert (sent.number, sent.texts, sent.sequence, sent.status) == (20000, [b"ORA-20000: ****\n"], 7, 3)
    assert b"20123" not in event.encode()
    completed = event.make_completed_event("BEGIN")
    assert (completed.error_code, completed.error) == ("ORA-20000", "****")


def test_refused_error_has_the_number_of_a_missing_privilege() -> None:
    event = error_text()
    event.become(Refuse("rule", "blocked"))
    assert read(event.encode()).number == 1031
    assert event.make_completed_event("BEGIN").error_code == "ORA-01031"
