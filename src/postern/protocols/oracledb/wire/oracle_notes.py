"""What a recording has besides the messages for the client, so that these can be read without the calls.

Messages of TTC have no length, and how rows are laid out depends on calls and answers before them. So the recording has
only what shows something: rows, values of binds, data of LOBs, errors, warnings, and ends of answers. Before the first
of these in an answer, and before each row with other columns, it has a packet of a type that TNS does not have: a note
about how to read the messages in the DATA packets that follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire.ttc_buffers import TtcIncomplete, TtcReader, pack_clr, pack_number
from postern.protocols.oracledb.wire.ttc_columns import MAX_BINDS, OracleColumn
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout

NOTE: Final = 0x70
_PACKED, _COUNTS, _CONTINUES = 0x01, 0x02, 0x04
_LOB_SIZE, _IS_NULL = 0x01, 0x02


@dataclass(frozen=True)
class AnswerNote:
    """How to read the messages that follow.

    `tag` is the first word of the statement. `continues`: the rows belong to a result that has begun in an earlier
    answer. `codec` is that of data of a LOB. `gaps` has the number of bytes before each value of a row of binds, and
    after the last one; it is empty for rows of a result.
    """

    layout: TtcLayout
    tag: str = ""
    columns: tuple[OracleColumn, ...] = ()
    gaps: tuple[int, ...] = ()
    codec: str = ""
    continues: bool = False

    def encode(self) -> bytes:
        layout = self.layout
        flags = _PACKED * layout.packed_sb1 | _COUNTS * layout.counts_texts | _CONTINUES * self.continues
        parts = [
            bytes((layout.field_version, flags)),
            pack_clr(self.tag.encode()),
            pack_clr(self.codec.encode()),
            pack_number(len(self.columns)),
            *[_pack_column(column) for column in self.columns],
            pack_number(len(self.gaps)),
            *[pack_number(gap) for gap in self.gaps],
        ]
        return tns.packet(NOTE, b"".join(parts), large=True)


def _pack_column(column: OracleColumn) -> bytes:
    flags = _LOB_SIZE * column.has_lob_size | _IS_NULL * column.is_null
    names = pack_clr(column.name.encode("utf-8", "replace")) + pack_clr(column.type_name.encode("utf-8", "replace"))
    return bytes((column.type, column.form, flags)) + pack_number(column.size) + pack_number(column.prefetch) + names


def read_note(body: bytes) -> AnswerNote:
    """Read the body of a note. Raises ProtocolViolation."""
    try:
        return _read(TtcReader(body))
    except TtcIncomplete:
        raise ProtocolViolation("a note in a recording is truncated") from None


def _read(reader: TtcReader) -> AnswerNote:
    version, flags = reader.ub1(), reader.ub1()
    tag, codec = _text(reader), _text(reader)
    columns = tuple([_read_column(reader) for _ in range(_count(reader))])
    gaps = tuple([reader.ub4() for _ in range(_count(reader))])
    if reader.pos != reader.end or (gaps and len(gaps) != len(columns) + 1):
        raise ProtocolViolation("a note in a recording is not valid")
    layout = TtcLayout(version, bool(flags & _PACKED), bool(flags & _COUNTS))
    return AnswerNote(layout, tag, columns, gaps, codec, bool(flags & _CONTINUES))


def _count(reader: TtcReader) -> int:
    count = reader.ub4()
    if count > 2 * MAX_BINDS:
        raise ProtocolViolation("a note in a recording has too many columns")
    return count


def _read_column(reader: TtcReader) -> OracleColumn:
    kind, form, flags = reader.ub1(), reader.ub1(), reader.ub1()
    size, prefetch = reader.ub4(), reader.ub4()
    return OracleColumn(
        kind,
        size,
        name=_text(reader),
        form=form,
        type_name=_text(reader),
        has_lob_size=bool(flags & _LOB_SIZE),
        prefetch=prefetch,
        is_null=bool(flags & _IS_NULL),
    )


def _text(reader: TtcReader) -> str:
    return (reader.clr() or b"").decode("utf-8", "replace")
