"""Responses outside of rows: errors, refusals (our own errors), and the reports in OK and EOF packets."""

from __future__ import annotations

import re
from typing import Final

from postern.interception.events import Channel, Completed, Output, Summary
from postern.interception.verdicts import Refuse
from postern.protocols.mysql.wire import mysql_messages as m

STATE: Final = "42000"
# Offset of the text in an ERR packet.
_WITH_STATE: Final = 9
_WITHOUT_STATE: Final = 3


def refusal_packet(sequence: int, refusal: Refuse) -> bytes:
    """Encode the error for a refusal: MySQL's error for a missing privilege."""
    return m.err(sequence, m.ER_SPECIFIC_ACCESS_DENIED, STATE, refusal.message, refusal.hint)


class ErrorText(Output):
    """An ERR packet, whose text can quote data. Code at the target can choose its number and SQLSTATE."""

    def __init__(self, exchange: int, payload: bytes, sequence: int, codec: str) -> None:
        self.exchange = exchange
        self.channel = Channel.ERROR
        self._payload = payload
        self._sequence = sequence
        self._codec = codec

    @property
    def _text_at(self) -> int:
        return _WITH_STATE if self._payload[3:4] == b"#" and len(self._payload) >= _WITH_STATE else _WITHOUT_STATE

    @property
    def labels(self) -> tuple[str, ...]:
        return ("errno", "code", "message") if self._text_at == _WITH_STATE else ("errno", "message")

    def texts(self) -> list[bytes]:
        number = b"%d" % int.from_bytes(self._payload[1:3], "little")
        state = [self._payload[4:_WITH_STATE]] if self._text_at == _WITH_STATE else []
        return [number, *state, self._payload[self._text_at :]]

    def replace(self, texts: list[bytes]) -> None:
        old = self.texts()
        if len(texts) != len(old):
            raise ValueError(f"{len(texts)} texts given for an error that holds {len(old)}")
        number = texts[0] if texts[0].isdigit() and int(texts[0]) < 1 << 16 else old[0]
        state = b"".join([b"#" + (text if len(text) == len(STATE) else old[1]) for text in texts[1:-1]])
        self._payload = self._payload[:1] + int(number).to_bytes(2, "little") + state + texts[-1]

    def become(self, refusal: Refuse) -> None:
        """Replace the text by a refusal."""
        self._payload = refusal_packet(0, refusal)[m.HEAD :]

    def make_completed_event(self) -> Completed:
        """Return the completion event of the error with its current text."""
        failed = m.parse_err(self._payload, self._codec)
        return Completed(self.exchange, error_code=failed.state, error=failed.text)

    def encode(self) -> bytes:
        return m.packet(self._sequence, self._payload)


# Kinds of packets that `StatementSummary` reads: OK, EOF, or the first of a response to COM_STMT_PREPARE.
OF_OK: Final = 1
OF_EOF: Final = 2
OF_PREPARE: Final = 3
_PREPARE_WARNINGS: Final = 10  # offset of the warnings
_LAST_NUMBER: Final = re.compile(rb"[0-9]+(?=[^0-9]*$)")


class StatementSummary(Summary):
    """An OK or EOF packet that reports warnings, how the statement was executed, or a generated number.

    The text of an OK packet ends with the number of warnings, in every language: "Records: 1  Duplicates: 0 Warnings:
    1".
    """

    def __init__(self, exchange: int, payload: bytes, kind: int, sequence: int, is_last: bool) -> None:
        """`is_last`: the response ends here."""
        self.exchange = exchange
        self.channel = Channel.NOTICE
        self.kind = kind
        self.is_last = is_last
        self.sequence = sequence
        self.insert_id = 0
        self._payload = payload
        self._done: m.Done | None = None
        if kind == OF_OK:
            self._done = m.parse_ok(payload)
            self.insert_id = self._done.insert_id
        self._refusal = b""

    def hide_warnings(self) -> None:
        payload = self._payload
        done = self._done
        if done is not None:
            info = _LAST_NUMBER.sub(b"0", done.info)
            self._done = m.Done(done.affected, done.insert_id, done.status & ~m.EXECUTION, 0, info)
        elif self.kind == OF_EOF:
            status = int(m.uint16(payload, 3)) & ~m.EXECUTION
            self._payload = payload[:1] + bytes(2) + m.packed16(status) + payload[5:]
        else:
            self._payload = payload[:_PREPARE_WARNINGS] + bytes(2) + payload[_PREPARE_WARNINGS + 2 :]

    def hide_insert_id(self) -> None:
        self.insert_id = 0

    def become(self, refusal: Refuse) -> None:
        """Report a refusal instead."""
        self._refusal = refusal_packet(self.sequence, refusal)

    def encode(self) -> bytes:
        if self._refusal:
            return self._refusal
        done = self._done
        if done is None:
            return m.packet(self.sequence, self._payload)
        return m.ok(self.sequence, m.Done(done.affected, self.insert_id, done.status, done.warnings, done.info))


def reports_something(payload: bytes, kind: int) -> bool:
    """Return True if an OK or EOF packet contains something that a `StatementSummary` can hide."""
    end = len(payload)
    if kind == OF_EOF:
        return bool(m.uint16(payload, 1) or m.uint16(payload, 3) & m.EXECUTION)
    if kind == OF_PREPARE:
        return bool(m.uint16(payload, _PREPARE_WARNINGS))
    pos = m.after_lenenc(payload, 1, end)
    after = m.after_lenenc(payload, pos, end)
    if end - after < 4 or payload[pos]:
        return True
    return bool(m.uint16(payload, after + 2) or m.uint16(payload, after) & m.EXECUTION)
