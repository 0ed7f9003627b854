"""What is passed on of answers, and what the recording has of it, until it leaves in packets of the gateway's own."""

from __future__ import annotations

from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_answers import OraclePendingAnswer
from postern.protocols.oracledb.wire.oracle_lobs import codec_of_lob
from postern.protocols.oracledb.wire.oracle_notes import AnswerNote
from postern.protocols.oracledb.wire.oracle_row_blocks import RowBlock
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import RedactedOutput


class AnswerOutput:
    """Messages for the client. `sdu` is the size of its packets."""

    __slots__ = ("_kept", "_sdu", "_sent")

    def __init__(self, sdu: int) -> None:
        self._sdu = sdu
        self._sent: list[bytes] = []
        self._kept: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Add what the recording does not need."""
        self._sent.append(data)

    def add_recorded(self, data: bytes, note: bytes) -> None:
        """Add what the recording has, too, after `note`."""
        self._sent.append(data)
        if note:
            self._kept.append(note)
        self._kept.append(tns.data_packets(data, self._sdu))

    def take(self) -> RedactedOutput | None:
        """Return all that was added since; None if that is nothing."""
        if not self._sent:
            return None
        output = RedactedOutput(tns.data_packets(b"".join(self._sent), self._sdu), b"".join(self._kept))
        self._sent = []
        self._kept = []
        return output


def note_answer(answer: OraclePendingAnswer, layout: TtcLayout) -> bytes:
    """Return the note for the recording, if the answer has none for these columns yet."""
    rows = answer.row_layout if answer.fetches else None
    if answer.is_noted and answer.noted is rows:
        return b""
    answer.is_noted = True
    answer.noted = rows
    lob = answer.call.lob
    return AnswerNote(
        layout,
        answer.tag,
        () if rows is None else rows.oracle,
        (),
        "" if lob is None else codec_of_lob(lob.source),
        answer.call.function == c.FETCH,
    ).encode()


def note_outs(answer: OraclePendingAnswer, block: RowBlock, layout: TtcLayout) -> bytes:
    """Return the note for a row of binds that come back: where each value is depends on the call."""
    starts, ends = block.spans[::2], block.spans[1::2]
    gaps = tuple([s - e for s, e in zip([*starts, block.last], [block.first + 1, *ends], strict=True)])
    answer.is_noted = True
    answer.noted = block.layout
    return AnswerNote(layout, answer.tag, block.layout.oracle, gaps).encode()
