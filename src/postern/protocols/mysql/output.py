"""Answers that hold text outside of rows, which are errors; and refusals, which are errors of our own."""

from __future__ import annotations

from typing import Final

from postern.interception.events import Channel, Completed, Output
from postern.interception.verdicts import Refuse
from postern.protocols.mysql import messages as m

STATE: Final = "42000"


def refusal_packet(sequence: int, refusal: Refuse) -> bytes:
    """The error that tells the client of a refusal: MySQL's for a missing privilege."""
    return m.err(sequence, m.ER_SPECIFIC_ACCESS_DENIED, STATE, refusal.message, refusal.hint)


class ErrorText(Output):
    """An ERR packet, which may quote data in its text."""

    def __init__(self, exchange: int, payload: bytes, sequence: int, codec: str) -> None:
        self.exchange = exchange
        self.channel = Channel.ERROR
        self._payload = payload
        self._sequence = sequence
        self._codec = codec

    @property
    def _text_at(self) -> int:
        return 9 if self._payload[3:4] == b"#" else 3

    @property
    def labels(self) -> tuple[str, ...]:
        return ("message",)

    def texts(self) -> list[bytes]:
        return [self._payload[self._text_at :]]

    def replace(self, texts: list[bytes]) -> None:
        (text,) = texts
        self._payload = self._payload[: self._text_at] + text

    def become(self, refusal: Refuse) -> None:
        """Says from now on that it was refused."""
        self._payload = refusal_packet(0, refusal)[m.HEAD :]

    def completed(self) -> Completed:
        """What it says of its exchange as it stands now."""
        failed = m.parse_err(self._payload, self._codec)
        return Completed(self.exchange, error_code=failed.state, error=failed.text)

    def encode(self) -> bytes:
        return m.packet(self._sequence, self._payload)
