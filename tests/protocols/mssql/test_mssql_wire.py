"""The wire of SQL Server: contracts, requests, refusals, handles, attentions, and changed answers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.mssql_test_messages import CLIENT, TARGET
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import check_masking, check_wire, events_of, new_link, sent_to

from postern.domain.sessions.session import EndReason
from postern.interception.events import Channel, Completed, Event, Heading, Operation, Output, Phase, Refusal, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Warn
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link

SECRET = "4111111111111111"
TWO_COLUMNS = ms.columns(ms.column("a", ms.INT, 0), ms.column("b", ms.text_type(40)))
LONG_COLUMNS = ms.columns(ms.column("a", ms.INTN), ms.column("b", ms.text_type(0)))
HANDLE = ms.integer(None, status=1)
A_RESULT = (
    TWO_COLUMNS
    + ms.row(ms.int_cell(1), ms.text_cell("x"))
    + ms.null_row([1], 2, ms.int_cell(2))
    + ms.row(ms.int_cell(3), ms.text_cell("größe"))
)
MANY_ROWS = TWO_COLUMNS + b"".join([ms.row(ms.int_cell(at), ms.text_cell("y" * (at % 40))) for at in range(200)])
Talk = Sequence[tuple[Side, bytes]]

TALKS: dict[str, Talk] = {
    "a batch": [(CLIENT, ms.batch("select a, b from t")), (TARGET, ms.reply(A_RESULT, ms.done(3)))],
    "many rows in small packets": [
        (CLIENT, ms.batch("select a, b from t", size=512)),
        (TARGET, ms.reply(MANY_ROWS, ms.done(200), size=512)),
    ],
    "values in chunks": [
        (CLIENT, ms.batch("select a, b from t " + "x" * 3000)),
        (TARGET, ms.reply(LONG_COLUMNS, ms.row(ms.intn_cell(None), ms.max_cell("z" * 900)), ms.done(1), size=512)),
    ],
    "several results": [
        (CLIENT, ms.batch("select 1; select 2")),
        (TARGET, ms.reply(A_RESULT, ms.done(3, more=True), ms.info("hello"), A_RESULT, ms.done(3))),
    ],
    "no result": [(CLIENT, ms.batch("set nocount on")), (TARGET, ms.reply(ms.done()))],
    "a call": [
        (CLIENT, ms.execute_sql("select @P1", ms.integer(5))),
        (TARGET, ms.reply(A_RESULT, ms.done(3, more=True, code=0xFF), ms.status(0), ms.done(code=0xFE))),
    ],
    "a prepared statement": [
        (
            CLIENT,
            ms.rpc(ms.call(r.PREPARE, ms.integer(None, status=1), ms.nvarchar("@P1 int"), ms.nvarchar("select a"))),
        ),
        (TARGET, ms.reply(TWO_COLUMNS, ms.done(more=True, code=0xFF), ms.handle(7), ms.status(0), ms.done(code=0xFE))),
        (CLIENT, ms.rpc(ms.call(r.EXECUTE, ms.integer(7), ms.integer(1)))),
        (TARGET, ms.reply(A_RESULT, ms.done(3, more=True, code=0xFF), ms.status(0), ms.done(code=0xFE))),
        (CLIENT, ms.rpc(ms.call(r.UNPREPARE, ms.integer(7)))),
        (TARGET, ms.reply(ms.status(0), ms.done(code=0xFE))),
    ],
    "a transaction": [
        (CLIENT, ms.transaction(r.TM_BEGIN)),
        (TARGET, ms.reply(ms.begun(), ms.done())),
        (CLIENT, ms.transaction(r.TM_COMMIT)),
        (TARGET, ms.reply(ms.environment(k.ENV_COMMIT, b"\0", b"\x08" + bytes(8)), ms.done())),
    ],
    "an attention within": [
        (CLIENT, ms.batch("waitfor delay '1:00'")),
        (CLIENT, ms.attention()),
        (TARGET, ms.reply(A_RESULT, ms.done(status=k.DONE_ATTENTION))),
    ],
    "an attention behind": [
        (CLIENT, ms.batch("select 1")),
        (CLIENT, ms.attention()),
        (TARGET, ms.reply(A_RESULT, ms.done(3)) + ms.done_attention()),
    ],
}
GARBAGE: Talk = [
    (CLIENT, b"\x53\x01\x00\x00\x10\x00\x00\x00"),  # SMP
    (CLIENT, b"\x10\x01\x00\x08\x00\x00\x01\x00"),  # LOGIN7
    (CLIENT, b"\x01\x01\x00\x07\x00\x00\x01\x00"),  # shorter than its header
    (CLIENT, p.packet(p.BATCH, b"\x05\0\0\0x")),
    (CLIENT, p.packet(p.BATCH, ms.HEADERS + b"x")),
    (CLIENT, p.packet(p.RPC, ms.HEADERS)),
    (CLIENT, ms.rpc(ms.call(99))),
    (CLIENT, ms.rpc(ms.call("p", b"\0\0\xff"))),  # an unknown type
    (CLIENT, ms.rpc(ms.call("p", ms.integer(1)[:-1]))),
    (CLIENT, p.packet(p.BATCH, b"", 0) + p.packet(p.RPC, b"")),
    (CLIENT, p.packet(p.ATTENTION, b"x")),
    (TARGET, ms.reply(ms.done())),
    (TARGET, ms.reply(ms.columns())),
]


@pytest.mark.parametrize("name", TALKS)
def test_wire_keeps_its_contract(name: str) -> None:
    check_wire(MssqlWire, TALKS[name], garbage=GARBAGE if name == "a batch" else ())


SECRETS: dict[str, Talk] = {
    "a row": [
        (CLIENT, ms.batch("select")),
        (TARGET, ms.reply(TWO_COLUMNS, ms.row(ms.int_cell(1), ms.text_cell(f"to {SECRET}")), ms.done(1))),
    ],
    "a row in small packets": [
        (CLIENT, ms.batch("select")),
        (TARGET, ms.reply(MANY_ROWS, ms.row(ms.int_cell(1), ms.text_cell(SECRET)), ms.done(1), size=512)),
    ],
    "a row with bits": [
        (CLIENT, ms.batch("select")),
        (TARGET, ms.reply(LONG_COLUMNS, ms.null_row([0], 2, _max := ms.max_cell(SECRET, 1000)), ms.done(1))),
    ],
    "two results": [
        (CLIENT, ms.batch("select")),
        (
            TARGET,
            ms.reply(
                *(A_RESULT, ms.done(3, more=True), TWO_COLUMNS, ms.row(ms.int_cell(1), ms.text_cell(SECRET))),
                *(ms.done(1, more=True), A_RESULT, ms.done(3)),
            ),
        ),
    ],
    "an error": [
        (CLIENT, ms.batch("insert")),
        (TARGET, ms.reply(ms.error(2627, f"The duplicate key value is ({SECRET})."), ms.done(error=True))),
    ],
    "a printed text": [(CLIENT, ms.batch("print")), (TARGET, ms.reply(ms.info(SECRET), ms.done()))],
    "an output parameter": [
        (CLIENT, ms.rpc(ms.call("get_card", ms.nvarchar(None, "@card", 1)))),
        (TARGET, ms.reply(ms.status(0), ms.returned("@card", SECRET), ms.done(code=0xFE))),
    ],
}


@pytest.mark.parametrize("name", SECRETS)
def test_masking_keeps_its_contract(name: str) -> None:
    check_masking(MssqlWire, SECRETS[name], secret=SECRET.encode(), read=ms.shown)


class Interceptor:
    """Looks at some events, and decides by a function."""

    name = "test"
    batch_need = BatchNeed.NONE

    def __init__(self, decide: Callable[[Event], Verdict | None], *wants: type[Event]) -> None:
        self.wants = frozenset(wants or (Operation, Rows, Output))
        self.seen: list[Event] = []
        self._decide = decide

    def see(self, event: Event, session: SessionView) -> Verdict:
        self.seen.append(event)
        return self._decide(event) or FORWARD


def _say(link: Link, talk: Talk, size: int = 0) -> list[Effect]:
    effects: list[Effect] = []
    for side, data in talk:
        for piece in pieces(data, size):
            effects += link.receive(side, piece)
    return effects


def _operations(talk: Talk, wire: MssqlWire | None = None) -> list[Operation]:
    effects = _say(new_link(wire or MssqlWire(), Interceptor(lambda event: None)), talk)
    return [event for event in events_of(effects) if isinstance(event, Operation)]


def _texts(talk: Talk) -> list[tuple[str, tuple[bytes | None, ...]]]:
    return [(operation.text, operation.values) for operation in _operations(talk)]


PREPARED: Talk = [
    (
        CLIENT,
        ms.rpc(ms.call(r.PREPARE_EXECUTE, ms.integer(None, status=1), ms.nvarchar("@P1 int"), ms.nvarchar("select b"))),
    ),
    (TARGET, ms.reply(A_RESULT, ms.done(3, more=True, code=0xFF), ms.handle(3), ms.status(0), ms.done(code=0xFE))),
]
CURSOR: Talk = [
    (
        CLIENT,
        ms.rpc(
            ms.call(
                r.CURSOR_OPEN,
                *(ms.integer(None, status=1), ms.nvarchar("select c from t")),
                *(ms.integer(1, status=1), ms.integer(1, status=1), ms.integer(0, status=1)),
            )
        ),
    ),
    (
        TARGET,
        ms.reply(
            *(TWO_COLUMNS, ms.status(0), ms.handle(9), ms.handle(1, 2), ms.handle(1, 3), ms.handle(5, 4)),
            ms.done(code=0xFE),
        ),
    ),
]

OPERATIONS: dict[str, tuple[Talk, list[tuple[str, tuple[bytes | None, ...]]]]] = {
    "sp_executesql": (
        [(CLIENT, ms.execute_sql("select @P1", ms.integer(5), ms.nvarchar("ä"), ms.nvarchar(None)))],
        [("select @P1", (b"5", "ä".encode(), None))],
    ),
    "by name": (
        [(CLIENT, ms.rpc(ms.call("SP_ExecuteSQL", ms.nvarchar("select 1"))))],
        [("select 1", ())],
    ),
    "by name and schema": (
        [(CLIENT, ms.rpc(ms.call("[sys].[sp_executesql]", ms.nvarchar("select 1"))))],
        [("select 1", ())],
    ),
    "in wide letters": (
        [(CLIENT, ms.rpc(ms.call("ｓｐ_executesql", ms.nvarchar("select 1"))))],
        [("select 1", ())],
    ),
    "a text in chunks": (
        [(CLIENT, ms.rpc(ms.call(r.EXECUTE_SQL, ms.nvarchar_max("select 'größe'"))))],
        [("select 'größe'", ())],
    ),
    "a procedure": (
        [(CLIENT, ms.rpc(ms.call("dbo.give", ms.nvarchar("x", "@who"), ms.integer(1, status=1))))],
        [("EXEC dbo.give @who = @P1, @P2 OUTPUT", (b"x", b"1"))],
    ),
    "a strange name": (
        [(CLIENT, ms.rpc(ms.call("give'; drop table t --")))],
        [("EXEC [give'; drop table t --]", ())],
    ),
    "several calls": (
        [(CLIENT, ms.rpc(ms.call("a", ms.integer(1)), ms.call(r.EXECUTE_SQL, ms.nvarchar("select 1")), ms.call("b")))],
        [("EXEC a @P1", (b"1",)), ("select 1", ()), ("EXEC b", ())],
    ),
    "sp_execute": (
        [*PREPARED, (CLIENT, ms.rpc(ms.call(r.EXECUTE, ms.integer(3), ms.integer(8))))],
        [("select b", ()), ("select b", (b"8",))],
    ),
    "a fetch": (
        [
            *CURSOR,
            (CLIENT, ms.rpc(ms.call(r.CURSOR_FETCH, ms.integer(9), ms.integer(2), ms.integer(0), ms.integer(9)))),
        ],
        [("select c from t", ())],
    ),
    "an update by a cursor": (
        [
            *CURSOR,
            (
                CLIENT,
                ms.rpc(
                    ms.call(
                        r.CURSOR,
                        *(ms.integer(9), ms.integer(0x21), ms.integer(1), ms.nvarchar("t")),
                        ms.nvarchar("x", "@c"),
                    )
                ),
            ),
        ],
        [("select c from t", ()), ("UPDATE t SET [c] = @P1 WHERE CURRENT OF cursor_9", (b"x",))],
    ),
    "begin": ([(CLIENT, ms.transaction(r.TM_BEGIN, b"\x05\0"))], [("BEGIN TRANSACTION /* SNAPSHOT */", ())]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_request_is_judged_by_what_it_runs(name: str) -> None:
    talk, expected = OPERATIONS[name]
    assert _texts(talk) == expected


def test_table_valued_parameter_is_read_cell_by_cell() -> None:
    kind = b"\xf3\x00\x00" + k.encode_short_text("names") + struct.pack("<H", 1)
    kind += struct.pack("<IH", 0, 0) + ms.text_type(20) + b"\0" + b"\0"
    rows = b"\x01" + ms.text_cell("a") + b"\x01" + ms.text_cell(None) + b"\0"
    talk = [(CLIENT, ms.rpc(ms.call("p", b"\0\0" + kind + rows, ms.integer(1))))]
    assert _texts(talk) == [("EXEC p @P1, @P2", (b"a", None, b"1"))]


def test_prepare_is_no_run() -> None:
    (operation,) = _operations(TALKS["a prepared statement"][:1])
    assert operation.phase is Phase.PREPARE


REFUSED: dict[str, Talk] = {
    "an unknown handle": [(CLIENT, ms.rpc(ms.call(r.EXECUTE, ms.integer(3))))],
    "an ended handle": [
        *PREPARED,
        (CLIENT, ms.rpc(ms.call(r.UNPREPARE, ms.integer(3)))),
        (TARGET, ms.reply(ms.done(code=0xFE))),
        (CLIENT, ms.rpc(ms.call(r.EXECUTE, ms.integer(3)))),
    ],
    "a handle before a reset": [*PREPARED, (CLIENT, ms.rpc(ms.call(r.EXECUTE, ms.integer(3)), status=p.RESET))],
    "an unknown cursor": [(CLIENT, ms.rpc(ms.call(r.CURSOR_FETCH, ms.integer(3))))],
    "a statement that is a number": [(CLIENT, ms.rpc(ms.call(r.EXECUTE_SQL, ms.integer(3))))],
    "a statement of another database": [
        (CLIENT, ms.rpc(ms.call("other.sys.sp_executesql", ms.nvarchar("select note from orders"))))
    ],
    "no statement": [(CLIENT, ms.rpc(ms.call(r.EXECUTE_SQL)))],
    "parameters by name in another order": [
        (CLIENT, ms.rpc(ms.call(r.EXECUTE_SQL, ms.nvarchar("@P1 int", "@params"), ms.nvarchar("drop", "@stmt"))))
    ],
    "two statements that are prepared at once": [
        (CLIENT, ms.rpc(*[ms.call(r.PREPARE, ms.integer(None, status=1), ms.nvarchar(""), ms.nvarchar("x"))] * 2))
    ],
    "a distributed transaction": [(CLIENT, ms.transaction(r.TM_PROMOTE))],
    "rows without INSERT BULK": [(CLIENT, p.message(p.BULK, TWO_COLUMNS + ms.done()))],
    "a table that is unknown": [
        *CURSOR,
        (CLIENT, ms.rpc(ms.call(r.CURSOR, ms.integer(9), ms.integer(2), ms.integer(1), ms.nvarchar("")))),
    ],
}


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused(name: str, size: int) -> None:
    talk = REFUSED[name]
    link = new_link(MssqlWire())
    _say(link, talk[:-1], size)
    effects = _say(link, talk[-1:], size)
    assert sent_to(TARGET, effects) == b""
    assert any(isinstance(event, Refusal) for event in events_of(effects))
    assert p.TdsPackets().feed(sent_to(CLIENT, effects))[0].payload[0] == k.ERROR
    assert not link.awaiting_response
    after = [(CLIENT, ms.batch("select 1")), (TARGET, ms.reply(ms.done()))]
    assert sent_to(CLIENT, _say(link, after, size)) == ms.reply(ms.done())


def _refusing(word: str) -> Interceptor:
    return Interceptor(
        lambda event: Refuse("r", "no") if isinstance(event, Operation) and word in event.text else None, Operation
    )


def test_refusal_takes_its_turn_among_pipelined_requests() -> None:
    link = new_link(MssqlWire(), _refusing("drop"))
    effects = _say(link, [(CLIENT, ms.batch("select 1") + ms.batch("drop") + ms.batch("select 2"))])
    assert sent_to(TARGET, effects) == ms.batch("select 1") + ms.batch("select 2")
    assert sent_to(CLIENT, effects) == b""
    effects = _say(link, [(TARGET, ms.reply(ms.info("1"), ms.done()) + ms.reply(ms.info("2"), ms.done()))])
    shown = ms.shown(sent_to(CLIENT, effects))
    assert shown.index(b"1") < shown.index(b"no") < shown.index(b"2")


def test_database_of_the_login_is_recorded_and_judged_as_a_use() -> None:
    link = new_link(MssqlWire(database="h]r"), Interceptor(lambda event: None))
    effects = _say(link, [(CLIENT, ms.batch("select 1")), (TARGET, ms.reply(ms.done()))])
    operations = [event for event in events_of(effects) if isinstance(event, Operation)]
    assert [operation.text for operation in operations] == ["USE [h]]r]", "select 1"]
    completed = [event.exchange for event in events_of(effects) if isinstance(event, Completed)]
    assert completed == [operation.exchange for operation in operations]
    assert sent_to(TARGET, effects) == ms.batch("select 1")


def test_nothing_runs_in_a_database_whose_use_is_refused() -> None:
    link = new_link(MssqlWire(database="hr"), _refusing("USE"))
    effects = _say(link, [(CLIENT, ms.batch("select 1")), (CLIENT, ms.batch("select 2"))])
    assert sent_to(TARGET, effects) == b""
    assert len([event for event in events_of(effects) if isinstance(event, Refusal)]) == 3
    assert ms.shown(sent_to(CLIENT, effects)).count(b"no") == 2


def test_use_of_the_logins_database_can_be_held() -> None:
    hold = Hold("t", "wait")
    judge = Interceptor(lambda event: hold if isinstance(event, Operation) and "USE" in event.text else None)
    link = new_link(MssqlWire(database="hr"), judge)
    effects = _say(link, [(CLIENT, ms.batch("select 1"))])
    assert sent_to(TARGET, effects) == b""
    effects = link.resume("t", FORWARD)
    assert sent_to(TARGET, effects) == ms.batch("select 1")


def test_attention_after_a_refusal_is_acknowledged() -> None:
    link = new_link(MssqlWire(), _refusing("drop"))
    effects = _say(link, [(CLIENT, ms.batch("drop")), (CLIENT, ms.attention()), (TARGET, ms.done_attention())])
    assert sent_to(TARGET, effects) == ms.attention()
    assert sent_to(CLIENT, effects).endswith(ms.done_attention())
    assert not link.awaiting_response


@pytest.mark.parametrize("size", CHUNKS)
def test_attention_after_a_withheld_answer_is_acknowledged(size: int) -> None:
    link = new_link(MssqlWire(), Interceptor(lambda event: Refuse("r", "no") if isinstance(event, Rows) else None))
    effects = _say(
        link,
        [
            (CLIENT, ms.batch("select")),
            (TARGET, ms.reply(MANY_ROWS, size=512).replace(b"\x04\x01", b"\x04\x00", 1)[:2048]),
            (CLIENT, ms.attention()),
        ],
        size,
    )
    rest = ms.reply(MANY_ROWS, ms.done(status=k.DONE_ATTENTION), size=512)[2048:]
    effects += _say(link, [(TARGET, rest)], size)
    messages = p.TdsMessages(1 << 20).feed(sent_to(CLIENT, effects))
    assert [b"yyy" in ms.shown(p.message(4, message.payload)) for message in messages] == [False, False]
    assert messages[1].payload == k.encode_done(k.DONE_ATTENTION, True)
    assert not link.awaiting_response


def test_held_request_is_interrupted_by_an_attention() -> None:
    hold = Hold("t", "wait")
    link = new_link(MssqlWire(), Interceptor(lambda event: hold if isinstance(event, Operation) else None))
    link.receive(CLIENT, ms.batch("select"))
    assert not link.interrupts_held_request
    link.receive(CLIENT, ms.attention())
    assert link.interrupts_held_request
    effects = link.resume("t", Refuse("r", "cancelled"))
    assert sent_to(TARGET, effects) == ms.attention()
    effects += link.receive(TARGET, ms.done_attention())
    assert sent_to(CLIENT, effects).endswith(ms.done_attention())


def test_warning_to_a_held_request_begins_its_response() -> None:
    hold = Hold("t", "wait")
    link = new_link(MssqlWire(), Interceptor(lambda event: hold if isinstance(event, Operation) else None))
    link.receive(CLIENT, ms.batch("select"))
    effects = link.ask(Warn("r", "ask bob"))
    (packet,) = p.TdsPackets().feed(sent_to(CLIENT, effects))
    assert not packet.is_last
    effects += link.resume("t", FORWARD)
    effects += link.receive(TARGET, ms.reply(ms.done()))
    (message,) = p.TdsMessages(1 << 20).feed(sent_to(CLIENT, effects))
    assert [packet.payload[0], message.payload[-13:]] == [k.INFO, ms.done()]


def test_warnings_are_sent_before_and_within_answers() -> None:
    warn = Warn("r", "careful", "hint")
    link = new_link(MssqlWire(), Interceptor(lambda event: warn))
    effects = _say(link, [(CLIENT, ms.batch("select")), (TARGET, ms.reply(A_RESULT, ms.done(3)))])
    (message,) = p.TdsMessages(1 << 20).feed(sent_to(CLIENT, effects))
    assert ms.shown(p.message(4, message.payload)).count(b"careful. hint") == 2
    assert message.payload.replace(A_RESULT, b"") != message.payload or message.payload.endswith(ms.done(3))


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("kind", [k.ENV_ROUTING, k.ENV_PARTNER, k.ENV_USER_INSTANCE])
def test_client_is_never_sent_to_another_server(kind: int, size: int) -> None:
    link = new_link(MssqlWire())
    other = ms.environment(kind, struct.pack("<H", 4) + b"evil" if kind == k.ENV_ROUTING else b"\x02e\0v\0", b"\0")
    talk = [(CLIENT, ms.batch("use x")), (TARGET, ms.reply(ms.info("a"), other, ms.info("b"), ms.done()))]
    (message,) = p.TdsMessages(1 << 20).feed(sent_to(CLIENT, _say(link, talk, size)))
    assert message.payload == ms.info("a") + ms.info("b") + ms.done()


def test_transaction_state_follows_the_target() -> None:
    link = new_link(MssqlWire())
    talk = TALKS["a transaction"]
    _say(link, talk[:2])
    assert link.transaction_state.in_transaction
    _say(link, talk[2:])
    assert not link.transaction_state.in_transaction


def test_reset_of_a_refused_request_is_made_up_for() -> None:
    link = new_link(MssqlWire(), _refusing("drop"))
    effects = _say(link, [(CLIENT, ms.batch("drop", status=p.RESET)), (CLIENT, ms.batch("select"))])
    assert sent_to(TARGET, effects) == ms.batch("select", status=p.RESET)


@pytest.mark.parametrize("size", CHUNKS)
def test_cancelled_message_is_answered_and_not_forwarded(size: int) -> None:
    link = new_link(MssqlWire())
    begun = p.packet(p.BATCH, ms.HEADERS + ms.utf16("drop"), 0)
    effects = _say(link, [(CLIENT, begun + p.packet(p.BATCH, b"", p.EOM | p.IGNORE, 2))], size)
    assert sent_to(TARGET, effects) == b""
    assert sent_to(CLIENT, effects) == p.packet(p.REPLY, k.encode_done(k.DONE_ERROR, True))


@pytest.mark.parametrize("size", CHUNKS)
def test_request_that_is_too_large_is_refused_in_constant_memory(size: int) -> None:
    link = new_link(MssqlWire(max_message=5000))
    effects = _say(link, [(CLIENT, ms.batch("select 1 " + "x" * 9000) + ms.batch("select 2"))], size)
    assert sent_to(TARGET, effects) == ms.batch("select 2")
    assert b"too large" in ms.shown(sent_to(CLIENT, effects))


@pytest.mark.parametrize("size", CHUNKS)
def test_row_that_is_too_large_to_be_judged_is_withheld(size: int) -> None:
    link = new_link(MssqlWire(max_message=3000), Interceptor(lambda event: None))
    big = ms.row(ms.intn_cell(1), ms.max_cell("z" * 5000, 500))
    talk = [(CLIENT, ms.batch("select")), (TARGET, ms.reply(LONG_COLUMNS, big, ms.done(1)) + b"")]
    effects = _say(link, talk, size)
    shown = ms.shown(sent_to(CLIENT, effects))
    assert b"larger than the 3000 bytes" in shown
    assert b"zzz" not in shown
    assert not link.awaiting_response


def test_row_passes_unread_in_constant_memory() -> None:
    wire = MssqlWire(max_message=3000)
    link = new_link(wire)
    message = ms.reply(LONG_COLUMNS, ms.row(ms.intn_cell(1), ms.max_cell("z" * 100_000, 500)), ms.done(1))
    link.receive(CLIENT, ms.batch("select"))
    sent = b""
    for at in range(0, len(message), 1000):
        sent += sent_to(CLIENT, link.receive(TARGET, message[at : at + 1000]))
        assert len(message[: at + 1000]) - len(sent) < 2 * 4096
    assert sent == message


BULK_BEGIN = ms.batch("insert bulk t (a int, b nvarchar(40))")


@pytest.mark.parametrize("end", [ms.done(), ms.done()[:9], b""], ids=["long", "short", "none"])
@pytest.mark.parametrize("size", CHUNKS)
def test_rows_of_a_bulk_load_pass_once_it_was_allowed(size: int, end: bytes) -> None:
    link = new_link(MssqlWire(), Interceptor(lambda event: None))
    rows = p.message(p.BULK, MANY_ROWS + end, 512)
    talk = [
        (CLIENT, BULK_BEGIN),
        (TARGET, ms.reply(ms.done())),
        (CLIENT, rows),
        (TARGET, ms.reply(ms.done(200))),
    ]
    effects = _say(link, talk, size)
    assert sent_to(TARGET, effects) == BULK_BEGIN + rows
    assert [event.rows for event in events_of(effects) if isinstance(event, Completed)] == [200]


BAD_BULK = {
    "no columns": ms.row(),
    "another token": TWO_COLUMNS + ms.info("x"),
    "more": TWO_COLUMNS + ms.done() + b"\xd1",
    "a cut end": TWO_COLUMNS + ms.done()[:10],
    "cut": TWO_COLUMNS + b"\xd1\x01",
}


@pytest.mark.parametrize("name", BAD_BULK)
def test_bulk_load_that_is_none_ends_the_link(name: str) -> None:
    link = new_link(MssqlWire())
    _say(link, [(CLIENT, BULK_BEGIN), (TARGET, ms.reply(ms.done()))])
    effects = _say(link, [(CLIENT, p.message(p.BULK, BAD_BULK[name]))])
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]
    assert sent_to(TARGET, effects) == b""


BAD_ANSWERS = {
    "unknown token": b"\x01",
    "rows without columns": ms.row(ms.int_cell(1)),
    "no end": A_RESULT,
    "rows that are not described": b"\x81\xff\xff" + ms.row(ms.int_cell(1)),
    "an end that is none": A_RESULT + ms.done(3, more=True),
    "a login": k.encode_login_ack(k.TDS_74, "x", (1, 1, 1)),
    "an unknown type": ms.columns(ms.column("a", b"\x01")),
    "an attention that was not sent": ms.done(status=k.DONE_ATTENTION),
    "a cut token": ms.info("x")[:-1],
}


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_answer_that_breaks_the_protocol_ends_the_link(name: str, size: int) -> None:
    link = new_link(MssqlWire())
    effects = _say(link, [(CLIENT, ms.batch("select")), (TARGET, ms.reply(BAD_ANSWERS[name]))], size)
    assert [effect.reason for effect in effects if isinstance(effect, Close)] == [EndReason.PROTOCOL_VIOLATION]


def test_completed_exchange_has_command_and_rows_or_error() -> None:
    link = new_link(MssqlWire())
    talk = [
        *TALKS["several results"],
        (CLIENT, ms.batch("insert")),
        (TARGET, ms.reply(ms.error(2627, "duplicate"), ms.done(error=True))),
    ]
    done = [event for event in events_of(_say(link, talk)) if isinstance(event, Completed)]
    assert [(event.exchange, event.tag, event.rows, event.error_code, event.error) for event in done] == [
        (1, "SELECT", 6, "", ""),
        (2, "", None, "2627", "duplicate"),
    ]


def test_rows_of_a_cursor_belong_to_the_request_that_opened_it() -> None:
    watcher = Interceptor(lambda event: None)
    fetch = ms.rpc(ms.call(r.CURSOR_FETCH, ms.integer(9), ms.integer(2), ms.integer(0), ms.integer(9), flags=2))
    rows = ms.reply(A_RESULT, ms.done(3, more=True), ms.done(code=0xFE))
    effects = _say(new_link(MssqlWire(), watcher), [*CURSOR, (CLIENT, fetch), (TARGET, rows)])
    (seen,) = [event for event in watcher.seen if isinstance(event, Rows)]
    assert (seen.exchange, seen.began, seen.count) == (2, 1, 3)
    assert sent_to(CLIENT, effects).endswith(rows)


@pytest.mark.parametrize(
    ("column", "position"),
    [
        (ms.column("ROWSTAT", ms.INT, k.HIDDEN_COLUMN), -1),
        (ms.column("ROWSTAT", ms.INT, 0), 0),
        (ms.column("status", ms.INT, k.HIDDEN_COLUMN), 0),
        (ms.column("ROWSTAT", ms.text_type(40), k.HIDDEN_COLUMN), 0),
    ],
    ids=["of a cursor", "of a statement", "another name", "a text"],
)
def test_only_the_column_that_servers_add_to_a_cursor_has_a_position_of_its_own(column: bytes, position: int) -> None:
    judge = Interceptor(lambda event: None, Heading)
    link = new_link(MssqlWire(), judge)
    described = ms.columns(ms.column("a", ms.INT, 0), column)
    _say(link, [(CLIENT, ms.batch("select a")), (TARGET, ms.reply(described, ms.done()))])
    (heading,) = [event for event in judge.seen if isinstance(event, Heading)]
    assert [each.position for each in heading.columns] == [0, position]


@pytest.mark.parametrize("size", CHUNKS)
def test_result_whose_description_is_refused_is_discarded_and_the_link_continues(size: int) -> None:
    refused = Interceptor(lambda event: Refuse("r", "no") if isinstance(event, Heading) else None, Heading, Rows)
    link = new_link(MssqlWire(), refused)
    answer = ms.reply(MANY_ROWS, ms.done(200), size=512)
    for _ in range(2):
        effects = _say(link, [(CLIENT, ms.batch("select a, b")), (TARGET, answer)], size)
        assert ms.shown(sent_to(CLIENT, effects)).count(b"no") == 1
        assert not [effect for effect in effects if isinstance(effect, Close)]
    assert not [event for event in refused.seen if isinstance(event, Rows) and not isinstance(event, Heading)]


def test_computed_column_is_described_as_text() -> None:
    def decide(event: Event) -> Verdict | None:
        if isinstance(event, Heading):
            event.describe_as_text(0, with_name=False)
            return REPLACE
        return None

    talk = [(CLIENT, ms.batch("select")), (TARGET, ms.reply(A_RESULT, ms.done(3)))]
    effects = _say(new_link(MssqlWire(), Interceptor(decide, Heading)), talk)
    (message,) = p.TdsMessages(1 << 20).feed(sent_to(CLIENT, effects))
    text = ms.text_type(4000)
    described = ms.columns(ms.column("", text), ms.column("b", ms.text_type(40)))
    hidden = ms.text_cell("****")
    rows = ms.row(hidden, ms.text_cell("x")) + ms.null_row([1], 2, hidden) + ms.row(hidden, ms.text_cell("größe"))
    assert message.payload == described + rows + ms.done(3)


@pytest.mark.parametrize("size", CHUNKS)
def test_longer_values_need_more_packets(size: int) -> None:
    def decide(event: Event) -> Verdict | None:
        if isinstance(event, Rows):
            event.replace(1, [b"*" * 40 for _ in event.texts(1)])
            return REPLACE
        return None

    wire = MssqlWire(parameters={"packet_size": "512"})
    talk = [(CLIENT, ms.batch("select")), (TARGET, ms.reply(MANY_ROWS, ms.done(200), size=512))]
    sent = sent_to(CLIENT, _say(new_link(wire, Interceptor(decide)), talk, size))
    numbers, pos = [], 0
    while pos < len(sent):
        assert (int(p.packet_size(sent, pos)) <= 512, sent[pos + 4 : pos + 6]) == (True, b"\0\0")
        numbers.append(sent[pos + 6])
        pos += int(p.packet_size(sent, pos))
    assert numbers == [(at + 1) & 0xFF for at in range(len(numbers))]
    (message,) = p.TdsMessages(1 << 20).feed(sent)
    expected = TWO_COLUMNS + b"".join([ms.row(ms.int_cell(at), ms.text_cell("*" * 40)) for at in range(200)])
    assert message.payload == expected + ms.done(200)


def test_returned_values_of_a_procedure_are_output_with_columns_of_their_own() -> None:
    watcher = Interceptor(lambda event: None)
    talk = [
        (CLIENT, ms.rpc(ms.call("p", ms.nvarchar(None, "@card", 1)))),
        (TARGET, ms.reply(ms.status(5), ms.returned("@card", SECRET), ms.done(code=0xFE))),
    ]
    _say(new_link(MssqlWire(), watcher), talk)
    outputs = [event for event in watcher.seen if isinstance(event, Output)]
    found = [
        (each.channel, each.texts(), each.has_columns, [column.name for column in each.columns]) for each in outputs
    ]
    assert found == [(Channel.FUNCTION, [b"5"], True, []), (Channel.FUNCTION, [SECRET.encode()], True, ["card"])]


def test_reason_of_a_server_that_closes_the_connection_is_passed_on() -> None:
    link = new_link(MssqlWire())
    _say(link, TALKS["no result"])
    last = ms.reply(ms.error(596, "killed"), ms.done(error=True))
    effects = _say(link, [(TARGET, last)])
    effects += link.target_finished()
    assert sent_to(CLIENT, effects) == last


@pytest.mark.parametrize("code", ["57P01", "08P01", "57014"])
def test_last_error_tells_clients_to_close(code: str) -> None:
    link = new_link(MssqlWire())
    link.receive(CLIENT, ms.batch("select"))
    sent = sent_to(CLIENT, link.end(EndReason.KILLED, "killed", code))
    message = k.parse_message((data := p.TdsPackets().feed(sent)[0].payload), 0, len(data) - 13)
    assert (message.text, message.severity) == ("killed", 20)


@pytest.mark.parametrize("flags", [r.NO_METADATA, r.REUSE_METADATA, r.NO_METADATA | r.WITH_RECOMPILE])
@pytest.mark.parametrize("before", ["", "x" * 1000])
def test_target_is_always_asked_to_describe_columns(before: str, flags: int) -> None:
    calls = [ms.call("p", ms.nvarchar(before)), ms.call(r.EXECUTE_SQL, ms.nvarchar("select 1"), flags=flags)]
    asked = [calls[0], ms.call(r.EXECUTE_SQL, ms.nvarchar("select 1"), flags=flags & r.WITH_RECOMPILE)]
    effects = _say(new_link(MssqlWire()), [(CLIENT, ms.rpc(*calls, size=512))])
    assert sent_to(TARGET, effects) == ms.rpc(*asked, size=512)


DOCUMENT = ms.columns(ms.column("JSON_F52E2B61-18A1-11d1-B105-00805F49916B", ms.text_type(0)))


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("secret_at", range(0, 2033, 509))
def test_value_in_two_pieces_of_a_document_is_found(secret_at: int, size: int) -> None:
    document = f'{{"a":"{"x" * 2020}{SECRET}{"y" * (2020 + secret_at)}"}}'
    rows = [ms.row(ms.max_cell(document[at : at + 2033], 8000)) for at in range(0, len(document), 2033)]

    def decide(event: Event) -> Verdict | None:
        if isinstance(event, Rows):
            (text,) = event.texts(0)
            event.replace(0, [text.replace(SECRET.encode(), b"#")])
            return REPLACE
        return None

    talk = [(CLIENT, ms.batch("for json")), (TARGET, ms.reply(DOCUMENT, *rows, ms.done(len(rows))))]
    shown = ms.shown(sent_to(CLIENT, _say(new_link(MssqlWire(), Interceptor(decide)), talk, size)))
    assert (SECRET.encode() in shown, shown.count(b"x"), shown.count(b"y")) == (False, 2020, 2020 + secret_at)
    assert shown.endswith(ms.done(len(rows)).replace(b"\0", b"") + b"<end>")


def test_document_of_more_than_can_be_judged_is_withheld() -> None:
    rows = [ms.row(ms.max_cell("x" * 500, 8000))] * 10
    link = new_link(MssqlWire(max_message=5000), Interceptor(lambda event: None))
    talk = [(CLIENT, ms.batch("for json")), (TARGET, ms.reply(DOCUMENT, *rows, ms.done(10)))]
    shown = ms.shown(sent_to(CLIENT, _say(link, talk, 512)))
    assert b"a document is larger than the 5000 bytes" in shown
    assert b"xxx" not in shown
    assert not link.awaiting_response
