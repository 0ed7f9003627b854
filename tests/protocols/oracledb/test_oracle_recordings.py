"""Recordings of Oracle Database, read as text, as values, and answer by answer: what a link recorded, in any pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.links import Masks, ReadsAll
from tests.support.oracledb_links import oracle_links
from tests.support.protocols import oracledb_test_messages as om
from tests.support.protocols.playbook import CHUNKS, pieces

from postern.domain.rules.trial import Answered
from postern.domain.sessions.results import Finished, Problem, ResultColumns, Row
from postern.errors import ProtocolViolation
from postern.interception.events import ClientOutput
from postern.interception.pipeline import Interceptor
from postern.protocols.oracledb.recorded.oracle_answer_reader import OracleAnswers
from postern.protocols.oracledb.recorded.oracle_cells import type_name
from postern.protocols.oracledb.recorded.oracle_recorded_stream import OracleRecordedStream
from postern.protocols.oracledb.recorded.oracle_tables import OracleResults
from postern.protocols.oracledb.recorded.oracle_text_renderer import OracleTextRenderer
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire.oracle_notes import AnswerNote, read_note
from postern.protocols.oracledb.wire.ttc_columns import OracleColumn
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Side
from postern.relay.link import Record

FIVE = bytes.fromhex("c106")
COLUMNS = (om.Described("NAME"), om.Described("AMOUNT", om.NUMBER, 22), om.Described("NOTE", om.LONG, 0))
LONG_NOTE = om.clr(b"a note") + b"\0\0"


def row(name: bytes | None) -> bytes:
    return om.row(om.clr(name), om.clr(FIVE), LONG_NOTE)


def recorded(*conversation: tuple[Side, bytes], interceptor: Interceptor | None = None) -> bytes:
    """What a link records of what the client is shown."""
    link = oracle_links(*([interceptor] if interceptor else []))()
    effects = [effect for side, data in conversation for effect in link.receive(side, data)]
    events = [event for effect in effects if isinstance(effect, Record) for event in effect.events]
    return b"".join([event.data for event in events if isinstance(event, ClientOutput)])


def asks(call: bytes, answer: bytes) -> Sequence[tuple[Side, bytes]]:
    return [(Side.CLIENT, om.data(call)), (Side.TARGET, om.data(answer))]


def fetched() -> Sequence[tuple[Side, bytes]]:
    """A query whose second row comes by a fetch."""
    first = om.describe(*COLUMNS) + om.row_header() + row(b"Ada") + om.PARAMETERS + om.done(cursor=4)
    more = om.row_header() + row(None) + om.no_more(4)
    return [*asks(om.execute("select name, amount, note from t"), first), *asks(om.fetch(4), more)]


OUT_BLOCK = om.Execute("begin p(:1, :2); end;", binds=(om.Bind(), om.Bind()), rows=((b"\0", b"\0"),), is_query=False)
LOB = om.locator(is_blob=False)
TALKS = {
    "rows of two answers": (fetched(), "NAME\tAMOUNT\tNOTE\nAda\t5\ta note\nNULL\t5\ta note\n(2 rows selected)\n"),
    "no rows": (
        asks(om.execute("select name, amount, note from t"), om.result(COLUMNS)),
        "NAME\tAMOUNT\tNOTE\n(0 rows selected)\n",
    ),
    "changed rows": (
        asks(om.execute("insert into t values (1)"), om.PARAMETERS + om.done(rows=3)),
        "(3 rows inserted)\n",
    ),
    "values that come back": (
        asks(
            OUT_BLOCK.encode(),
            om.io_vector(om.OUT, om.OUT) + om.row(om.clr(b"one"), b"\0", om.clr(None), b"\0") + om.done(),
        ),
        "OUT1\tOUT2\none\tNULL\n",
    ),
    "an error": (asks(om.execute("select 1 from t"), om.failed(942, "there is no t")), "ORA-00942: there is no t\n"),
    "errors of rows": (
        asks(
            om.execute("insert into t values (1)"),
            om.PARAMETERS + om.End(24381, "ORA-24381: errors\n", row_errors=((1, "ORA-00001: twice"),)).encode(),
        ),
        "ORA-00001: twice\nORA-24381: errors\n",
    ),
    "a large object": (
        asks(om.lob_call(c.LOB_READ, LOB, amount=90_000), om.lob_data("grüße".encode(), 3) + om.lob_done(LOB, 5)),
        "grüße\n",
    ),
    "a commit": (asks(om.COMMIT, om.status()), ""),
}


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("watched", [False, True], ids=["unwatched", "watched"])
@pytest.mark.parametrize("name", TALKS)
def test_recording_is_read_as_text(name: str, watched: bool, size: int) -> None:
    conversation, text = TALKS[name]
    renderer = OracleTextRenderer()
    data = recorded(*conversation, interceptor=ReadsAll() if watched else None)
    shown = [part for piece in pieces(data, size) for part in renderer.feed(piece)]
    assert b"".join([content for _, content in shown]).decode() == text
    assert renderer.rest() == []


def test_masked_rows_are_recorded_masked() -> None:
    answer = om.result(COLUMNS[:1], om.row(om.clr(b"secret-1")))
    data = recorded(*asks(om.execute("select name from t"), answer), interceptor=Masks())
    assert OracleResults().feed(data)[1] == Row(("***",))
    assert b"secret" not in data


def test_recording_is_read_as_values() -> None:
    data = recorded(*fetched(), *asks(om.execute("update t set a = 1"), om.PARAMETERS + om.done(rows=1)))
    assert OracleResults().feed(data) == [
        ResultColumns(("NAME", "AMOUNT", "NOTE"), ("VARCHAR2(100)", "NUMBER", "LONG")),
        Row(("Ada", "5", "a note")),
        Row((None, "5", "a note")),
        Finished("2 rows selected"),
        Finished("1 row updated"),
    ]
    failed = recorded(*asks(om.execute("select 1 from t"), om.failed(942, "there is no t")))
    assert OracleResults().feed(failed) == [Problem("ERROR", "there is no t", code="ORA-00942")]


def test_recording_is_read_answer_by_answer() -> None:
    data = recorded(*fetched(), *asks(om.execute("select 1 from t"), om.failed(942, "there is no t")))
    assert OracleAnswers().feed(data) == [
        Answered((b"Ada", b"5", b"a note"), rows=1),
        Answered((), ends=False),
        Answered((b"5", b"a note"), rows=1),
        Answered((), ends=True),
        Answered((b"ORA-00942: there is no t",), ends=True),
    ]


def test_long_data_of_a_large_object_is_cut() -> None:
    data = recorded(*asks(om.lob_call(c.LOB_READ, LOB, amount=1), om.lob_data(b"x" * 1_500_000) + om.lob_done(LOB, 1)))
    (answer, lost, end) = OracleAnswers().feed(data)
    assert (len(answer.texts[0]), lost.lost, end.ends) == (1 << 20, "a part of a LOB", True)


@pytest.mark.parametrize(
    "data",
    [
        om.data(om.row(om.clr(b"x"))),  # without a note
        om.data(b"\xff"),
        AnswerNote(TtcLayout()).encode()[:-1] + b"\5",
        b"\0\0\0\7\6\0\0\0",
    ],
)
def test_bytes_that_are_no_recording_are_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        OracleRecordedStream().feed(data)


def test_note_is_read_as_it_was_written() -> None:
    columns = (
        OracleColumn(c.CLOB, 4000, name="NOTE", form=1, has_lob_size=True, prefetch=300),
        OracleColumn(c.OBJECT, 9, name="Ö", type_name="POINT", is_null=True),
    )
    note = AnswerNote(TtcLayout(8, True, False), "SELECT", columns, (0, 1, 2), "utf-16-be", True)
    assert read_note(note.encode()[8:]).encode() == note.encode()
    assert [type_name(column) for column in read_note(note.encode()[8:]).columns] == ["CLOB", "POINT"]
