"""Answers that hold text outside of rows, which are errors; and refusals, which are errors of our own."""

from __future__ import annotations

from typing import Final

from postern.interception.events import Channel, Completed, Output
from postern.interception.verdicts import Refuse
from postern.protocols.mysql import messages as m

STATE: Final = "42000"
# Where the text of an ERR packet begins.
_WITH_STATE: Final = 9
_WITHOUT_STATE: Final = 3


def refusal_packet(sequence: int, refusal: Refuse) -> bytes:
    """The error that tells the client of a refusal: MySQL's for a missing privilege."""
    return m.err(sequence, m.ER_SPECIFIC_ACCESS_DENIED, STATE, refusal.message, refusal.hint)


class ErrorText(Output):
    """An ERR packet, which may quote data in its text. Code within the target may choose its number and SQLSTATE."""

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
        """Says from now on that it was refused."""
        self._payload = refusal_packet(0, refusal)[m.HEAD :]

    def completed(self) -> Completed:
        """What it says of its exchange as it stands now."""
        failed = m.parse_err(self._payload, self._codec)
        return Completed(self.exchange, error_code=failed.state, error=failed.text)

    def encode(self) -> bytes:
        return m.packet(self._sequence, self._payload)
