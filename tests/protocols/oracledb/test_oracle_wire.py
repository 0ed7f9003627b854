"""Scripts of links: what passes, what is refused, what is masked, and what ends the session."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.links import Masks, ReadsAll, Withholds, Words
from tests.support.oracledb_links import Step, check_script, client, messages, oracle_links, runs, target
from tests.support.protocols import oracledb_test_messages as om
from tests.support.protocols.playbook import pieces

from postern.interception.events import Completed, Event, Heading, Operation, Phase, Refusal
from postern.interception.pipeline import BatchNeed, Interceptor, SessionView
from postern.interception.verdicts import FORWARD, Refuse, Verdict
from postern.protocols.oracledb.wire.oracle_output import encode_error
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Send

TEXT = "select name, amount from people"
COLUMNS = (om.Described("NAME"), om.Described("AMOUNT", om.NUMBER, 22))
NO_COMPRESSION = 0x40000
FIVE = bytes.fromhex("c106")


def refusal(text: str, sequence: int = 1, number: int = 1031, status: int = 0) -> bytes:
    return om.data(encode_error(number, f"ORA-{number:05d}: {text}\n", sequence, status))


def executed(text: str, *values: bytes | None, **options: object) -> bytes:
    """An execution as the target gets it."""
    plain = om.execute(text, *values, **options)
    return plain.replace(b"\3\x5e\1" + om.ub(0x8061), b"\3\x5e\1" + om.ub(0x8061 | NO_COMPRESSION), 1)


def query(exchange: int = 1, *, rows: tuple[bytes, ...] = (), shown: tuple[bytes, ...] | None = None) -> list[Step]:
    """A query with its result; the client gets `shown` instead of `rows`."""
    ends = om.result(COLUMNS, *rows)
    return [
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(exchange, TEXT),)),
        target(
            om.data(ends),
            to_client=om.data(om.result(COLUMNS, *(rows if shown is None else shown))),
            events=(Completed(exchange, "SELECT", len(rows)),),
        ),
    ]


def row(name: bytes | None, amount: bytes = FIVE) -> bytes:
    return om.row(om.clr(name), om.clr(amount))


ROWS = (row(b"Ada"), row(b"secret-1"), row(None), row(b"x" * 40_000))


@pytest.mark.parametrize("interceptor", [None, Words(), ReadsAll()], ids=["none", "operations", "everything"])
def test_result_passes_unchanged(interceptor: Interceptor | None) -> None:
    check_script(oracle_links(*([interceptor] if interceptor else [])), *query(rows=ROWS), chunks=(0, 1, 7, 8192))


def test_masking_changes_texts_of_rows() -> None:
    shown = (row(b"Ada"), row(b"***"), row(None), row(b"x" * 40_000))
    check_script(oracle_links(Masks()), *query(rows=ROWS, shown=shown), chunks=(0, 3, 64))


def test_masking_changes_numbers_and_wide_texts() -> None:
    columns = (om.Described("N", om.NUMBER, 22), om.Described("T", form=2))
    wide = "secret-1 ë".encode("utf-16-be")
    rows = om.row(om.clr(bytes.fromhex("c22b2b")), om.clr(wide))  # 4242
    masked = om.row(om.clr(b"\x80"), om.clr("*** ë".encode("utf-16-be")))
    check_script(
        oracle_links(Masks()),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        target(
            om.data(om.result(columns, rows)),
            to_client=om.data(om.result(columns, masked)),
            events=(Completed(1, "SELECT", 1),),
        ),
    )


def test_refused_answer_ends_with_an_error_and_keeps_the_connection() -> None:
    error = refusal("a secret is not shown")
    link = oracle_links(Withholds())()
    link.receive(client(b"").side, om.data(om.execute(TEXT)))
    effects = link.receive(target(b"").side, om.data(om.result(COLUMNS, row(b"secret-1"), row(b"Ada"))))
    sent = b"".join([getattr(effect, "data", b"") for effect in effects])
    assert messages(sent) == messages(om.data(om.describe(*COLUMNS) + om.row_header()) + error)
    assert not any(isinstance(effect, Close) for effect in effects)
    assert link.receive(client(b"").side, om.data(om.PING))


def test_refused_statement_is_answered_and_keeps_the_connection() -> None:
    text = "drop table people"
    statement = om.execute(text)
    check_script(
        oracle_links(Words()),
        client(
            om.data(statement),
            to_client=refusal("the word drop is not allowed"),
            events=(runs(1, text), Refusal(1, "words", "the word drop is not allowed")),
        ),
        *query(2, rows=(row(b"Ada"),)),
    )


def test_refused_bind_value() -> None:
    text = "insert into t values (:1)"
    operation = Operation(1, text, Phase.RUN, (b"drop",), types=(1,))
    check_script(
        oracle_links(Words()),
        client(
            om.data(om.execute(text, b"drop")),
            to_client=refusal("the word drop is not allowed"),
            events=(operation, Refusal(1, "words", "the word drop is not allowed")),
        ),
    )


def insert(text: str = "insert into t values (:1)") -> list[Step]:
    """A first execution, by which the cursor gets the number 7."""
    return [
        client(
            om.data(om.execute(text, b"a")),
            to_target=om.data(executed(text, b"a")),
            events=(Operation(1, text, Phase.RUN, (b"a",), types=(1,)),),
        ),
        target(
            om.data(om.PARAMETERS + om.done(cursor=7, rows=1, status=2)),
            to_client=om.data(om.PARAMETERS + om.done(cursor=7, rows=1, status=2)),
            events=(Completed(1, "INSERT", 1),),
        ),
    ]


def test_cursor_is_judged_by_its_text_and_new_values() -> None:
    text = "insert into t values (:1)"
    again = om.again(7, (om.clr(b"drop"),))
    check_script(
        oracle_links(Words()),
        *insert(),
        client(
            om.data(again),
            to_client=refusal("the word drop is not allowed", sequence=2, status=2),
            events=(
                Operation(2, text, Phase.RUN, (b"drop",), types=(1,)),
                Refusal(2, "words", "the word drop is not allowed"),
            ),
        ),
    )


@pytest.mark.parametrize("call", [om.again(9, (om.clr(b"x"),)), om.fetch(9), om.Execute(cursor=9).encode()])
def test_attack_unknown_cursor_is_refused(call: bytes) -> None:
    link = oracle_links(Words())()
    effects = link.receive(client(b"").side, om.data(call))
    sent = b"".join([getattr(effect, "data", b"") for effect in effects if hasattr(effect, "side")])
    assert b"ORA-01001" in sent
    assert not any(isinstance(effect, Close) for effect in effects)


def test_closed_cursor_is_unknown() -> None:
    link = oracle_links(Words())()
    for step in insert():
        link.receive(step.side, step.data)
    effects = link.receive(client(b"").side, om.data(om.close_cursors(7) + om.fetch(7)))
    assert b"ORA-01001" in b"".join([getattr(effect, "data", b"") for effect in effects])


def test_piggybacks_of_a_refused_call_reach_the_target_with_the_next_one() -> None:
    check_script(
        oracle_links(Words()),
        client(
            om.data(om.close_cursors(4) + om.end_to_end("m") + om.execute("drop table t")),
            to_client=refusal("the word drop is not allowed"),
            events=(runs(1, "drop table t"), Refusal(1, "words", "the word drop is not allowed")),
        ),
        client(om.data(om.PING), to_target=om.data(om.close_cursors(4) + om.end_to_end("m") + om.PING)),
        target(om.data(om.status()), to_client=om.data(om.status())),
    )


def test_schema_is_judged_before_its_call() -> None:
    change = runs(1, 'ALTER SESSION SET CURRENT_SCHEMA = "HR"')
    check_script(
        oracle_links(Words("nothing")),
        client(
            om.data(om.set_schema("HR") + om.execute(TEXT)),
            to_target=om.data(om.set_schema("HR") + executed(TEXT)),
            events=(change, runs(2, TEXT)),
        ),
        chunks=(),
    )
    link = oracle_links(Words("HR"))()
    effects = link.receive(client(b"").side, om.data(om.set_schema("HR") + om.execute(TEXT)))
    assert not any(getattr(effect, "side", None) is target(b"").side for effect in effects), "nothing is forwarded"
    assert b"ORA-01031" in b"".join([getattr(effect, "data", b"") for effect in effects])


def test_commit_is_an_operation() -> None:
    check_script(
        oracle_links(Words()),
        client(om.data(om.COMMIT), to_target=om.data(om.COMMIT), events=(runs(1, "COMMIT"),)),
        target(om.data(om.status()), to_client=om.data(om.status()), events=(Completed(1, "COMMIT"),)),
    )


def test_values_that_come_back_are_masked() -> None:
    text = "begin p(:1, :2); end;"
    call = om.Execute(
        text, binds=(om.Bind(), om.Bind()), rows=((om.clr(b"a"), om.clr(None)),), is_query=False, options=0x429
    )
    changed = replace(call, options=0x429 | NO_COMPRESSION)
    answer = om.io_vector(om.IN, om.OUT)
    ends = om.PARAMETERS + om.done(cursor=3)
    check_script(
        oracle_links(Masks()),
        client(
            om.data(call.encode()),
            to_target=om.data(changed.encode()),
            events=(Operation(1, text, Phase.RUN, (b"a", None), types=(1, 1)),),
        ),
        target(
            om.data(answer + om.row(om.clr(b"secret-9"), b"\0") + ends),
            to_client=om.data(answer + om.row(om.clr(b"***"), b"\0") + ends),
            events=(Completed(1, "BEGIN", 0),),
        ),
    )


def test_error_text_is_masked_and_recorded_as_shown() -> None:
    check_script(
        oracle_links(Masks()),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        target(
            om.data(om.failed(942, "no secret-7 here")),
            to_client=om.data(om.failed(942, "no *** here")),
            events=(Completed(1, "SELECT", None, "ORA-00942", "no *** here"),),
        ),
    )


def test_errors_of_single_rows_are_masked() -> None:
    errors = om.End(24381, "ORA-24381: error(s) in array DML\n", row_errors=((1, "secret-1"), (2, "b")))
    shown = replace(errors, row_errors=((1, "***"), (2, "b")))
    check_script(
        oracle_links(Masks()),
        *insert()[:1],
        target(
            om.data(errors.encode()),
            to_client=om.data(shown.encode()),
            events=(Completed(1, "INSERT", None, "ORA-24381", "error(s) in array DML"),),
        ),
    )


@pytest.mark.parametrize("packed", [False, True])
def test_layout_of_signed_bytes(packed: bool) -> None:
    column = om.Described("AMOUNT", om.NUMBER, 22, scale=2)
    answer = om.describe(column, packed=packed) + om.row_header() + om.row(om.clr(FIVE)) + om.PARAMETERS
    end = om.End(1403, "ORA-01403: no data found\n", packed=packed, flags=3).encode()
    check_script(
        oracle_links(ReadsAll(), layout=TtcLayout(packed_sb1=packed)),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        target(om.data(answer + end), to_client=om.data(answer + end), events=(Completed(1, "SELECT", 1),)),
    )


def test_rows_that_refer_to_the_row_before_are_completed() -> None:
    first, second = row(b"secret-1"), b"\7" + om.clr(bytes.fromhex("c107"))
    begin, end = om.describe(*COLUMNS) + om.row_header(), om.PARAMETERS + om.no_more(1)
    sent = begin + first + om.bit_vector(1, b"\2") + second + end
    shown = begin + row(b"***") + row(b"***", bytes.fromhex("c107")) + end
    check_script(
        oracle_links(Masks()),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        target(om.data(sent), to_client=om.data(shown), events=(Completed(1, "SELECT", 2),)),
    )


def test_whole_rows_between_rows_that_are_completed() -> None:
    amounts = [bytes.fromhex(f"c1{number:02}") for number in range(2, 8)]
    name_only, amount_only = om.bit_vector(1, b"\1"), om.bit_vector(1, b"\2")
    sent = [
        om.row_header(b"\3") + row(b"secret-1", amounts[0]),
        row(b"Ada", amounts[1]),
        amount_only + om.row(om.clr(amounts[2])),
        row(b"secret-2", amounts[3]),
        amount_only + om.row(om.clr(amounts[4])),
        om.bit_vector(0, b"\0") + om.row(),
        name_only + om.row(om.clr(b"Eve")),
        row(b"x" * 300, amounts[5]),
    ]
    names = (b"***", b"Ada", b"Ada", b"***", b"***", b"***", b"Eve", b"x" * 300)
    shown = [row(name, amounts[at]) for name, at in zip(names, (0, 1, 2, 3, 4, 4, 4, 5), strict=True)]
    begin, end = om.describe(*COLUMNS), om.PARAMETERS + om.no_more(1)
    check_script(
        oracle_links(Masks()),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        target(
            om.data(begin, *sent, end),
            to_client=om.data(begin, om.row_header(), *shown, end),
            events=(Completed(1, "SELECT", 8),),
        ),
    )


def test_few_bytes_that_stand_for_many_are_completed_in_parts() -> None:
    long = b"x" * 600_000
    begin, end = om.describe(*COLUMNS) + om.row_header(), om.PARAMETERS + om.no_more(1)
    sent = om.data(begin, row(long), *[om.bit_vector(1, b"\2") + om.row(om.clr(FIVE))] * 4, end)
    check_script(
        oracle_links(ReadsAll()),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        target(sent, to_client=om.data(begin, *[row(long)] * 5, end), events=(Completed(1, "SELECT", 5),)),
        chunks=(0,),
    )


@pytest.mark.parametrize(
    "rows",
    [om.row_header(b"\1") + om.row() + b"\0", om.row_header() + om.bit_vector(1, b"\1\0") + row(b"Ada")],
    ids=["too short", "without a row before"],
)
def test_bit_vector_that_does_not_fit(rows: bytes) -> None:
    columns = [om.Described(f"C{number}", om.VARCHAR) for number in range(9)]
    link = oracle_links(Masks())()
    link.receive(Side.CLIENT, om.data(om.execute(TEXT)))
    effects = link.receive(Side.TARGET, om.data(om.describe(*columns), rows))
    assert any(isinstance(effect, Close) for effect in effects)


LOCATOR = om.locator(wide=True)


@pytest.mark.parametrize("size", [10, 300, 70_000], ids=["short", "one chunk", "chunks"])
@pytest.mark.parametrize("masks", [False, True], ids=["passes", "masked"])
def test_data_of_lobs(size: int, masks: bool) -> None:
    text = "secret-1 " + "x" * size
    shown = text.replace("secret-1", "***") if masks else text
    call = om.lob_call(2, LOCATOR, amount=size)
    operation = runs(1, "CALL DBMS_LOB.READ(:1)")
    check_script(
        oracle_links(*([Masks()] if masks else [])),
        client(om.data(call), to_target=om.data(call), events=(operation,)),
        target(
            om.data(om.lob_data(text.encode("utf-16-be")) + om.lob_done(LOCATOR, size)),
            to_client=om.data(om.lob_data(shown.encode("utf-16-be")) + om.lob_done(LOCATOR, size)),
            events=(Completed(1, "LOB OPERATION"),),
        ),
        chunks=(0, 7, 1000),
    )


@pytest.mark.parametrize("masks", [False, True], ids=["passes", "masked"])
def test_lob_after_a_break_in_the_middle_of_another(masks: bool) -> None:
    link = oracle_links(*([Masks()] if masks else []))()
    call = om.data(om.lob_call(2, LOCATOR, amount=70_000))
    part = om.lob_data(("x" * 70_000).encode("utf-16-be"))[:50_000]
    link.receive(Side.CLIENT, call)
    for side, data in (
        (Side.CLIENT, om.marker(3)),
        (Side.TARGET, om.data(part) + om.marker(1)),
        (Side.CLIENT, om.marker(2)),
        (Side.TARGET, om.marker(2) + om.data(om.failed(1013, "user requested cancel of current operation"))),
        (Side.CLIENT, call),
    ):
        link.receive(side, data)
    text = "secret-1 " + "y" * 70_000
    shown = text.replace("secret-1", "***") if masks else text
    answers = [om.data(om.lob_data(each.encode("utf-16-be")) + om.lob_done(LOCATOR, 70_000)) for each in (text, shown)]
    effects = link.receive(Side.TARGET, answers[0])
    sent = b"".join([effect.data for effect in effects if isinstance(effect, Send)])
    assert messages(sent) == messages(answers[1])


def test_data_written_to_a_lob_is_judged() -> None:
    call = om.lob_call(0x40, LOCATOR, content="drop".encode("utf-16-be"))
    check_script(
        oracle_links(Words()),
        client(
            om.data(call),
            to_client=refusal("the word drop is not allowed", sequence=9),
            events=(
                runs(1, "CALL DBMS_LOB.WRITE(:1)", b"drop"),
                Refusal(1, "words", "the word drop is not allowed"),
            ),
        ),
    )


def test_break_of_a_running_call() -> None:
    end = om.failed(1013, "user requested cancel of current operation")
    check_script(
        oracle_links(ReadsAll()),
        client(om.data(om.execute(TEXT)), to_target=om.data(executed(TEXT)), events=(runs(1, TEXT),)),
        client(om.marker(3), to_target=om.marker(3)),
        target(om.data(om.describe(*COLUMNS)[:20]) + om.marker(1), to_client=om.marker(1)),
        client(om.marker(2), to_target=om.marker(2)),
        target(
            om.marker(2) + om.data(end),
            to_client=om.marker(2) + om.data(end),
            events=(Completed(1, "SELECT", None, "ORA-01013", "user requested cancel of current operation"),),
        ),
        *query(2),
    )


CANCELLED = encode_error(1013, "ORA-01013: user requested cancel of current operation\n", 0)


def test_break_after_the_answer_is_answered_by_the_gateway() -> None:
    check_script(
        oracle_links(),
        client(om.marker(3), to_client=om.marker(1)),
        client(om.marker(2), to_client=om.marker(2) + om.data(CANCELLED)),
        client(om.marker(2)),  # of nothing
        *query(),
    )


def test_error_of_a_refused_answer_comes_at_its_end() -> None:
    """Else the client would send its next call while the target still sends the rest."""
    link = oracle_links(Withholds())()
    link.receive(Side.CLIENT, om.data(om.execute(TEXT)))
    begin = om.describe(*COLUMNS) + om.row_header() + row(b"secret-1")
    sent = b"".join([e.data for e in link.receive(Side.TARGET, om.data(begin)) if isinstance(e, Send)])
    assert b"ORA-01031" not in sent
    assert link.awaiting_response
    end = link.receive(Side.TARGET, om.data(row(b"Ada"), om.no_more(1)))
    assert b"ORA-01031" in b"".join([e.data for e in end if isinstance(e, Send)])
    assert not link.awaiting_response


def test_break_of_a_refused_answer_cancels_it() -> None:
    link = oracle_links(Withholds())()
    link.receive(Side.CLIENT, om.data(om.execute(TEXT)))
    link.receive(Side.TARGET, om.data(om.describe(*COLUMNS) + om.row_header() + row(b"secret-1")))
    end = om.failed(1013, "user requested cancel of current operation")
    for side, data, other in (
        (Side.CLIENT, om.marker(3), om.marker(3)),
        (Side.TARGET, om.data(row(b"secret-2")) + om.marker(1), om.marker(1)),
        (Side.CLIENT, om.marker(2), om.marker(2)),
        (Side.TARGET, om.marker(2) + om.data(end), om.marker(2) + om.data(end)),
    ):
        effects = link.receive(side, data)
        sent = b"".join([effect.data for effect in effects if isinstance(effect, Send)])
        assert messages(sent) == messages(other)
    assert not link.awaiting_response


def test_logoff_ends_the_session() -> None:
    check_script(
        oracle_links(ReadsAll()),
        client(om.data(om.LOGOFF), to_target=om.data(om.LOGOFF)),
        target(om.data(om.status()), to_client=om.data(om.status())),
        client(om.END_OF_FILE, to_target=om.END_OF_FILE),
    )


@pytest.mark.parametrize("function", [103, 115, 118, 122, 125, 128, 200])
def test_unsupported_functions_are_refused(function: int) -> None:
    link = oracle_links(ReadsAll())()
    effects = link.receive(client(b"").side, om.data(om.function(function) + b"\1\2\3"))
    assert not any(getattr(effect, "side", None) is target(b"").side for effect in effects), "nothing is forwarded"
    assert b"ORA-03001" in b"".join([getattr(effect, "data", b"") for effect in effects])
    assert link.receive(client(b"").side, om.data(om.PING)), "the connection is kept"


BAD_CALLS = {
    "bytes after a call": om.data(om.PING + om.execute("drop table t")),
    "two calls": om.data(om.execute(TEXT) + om.execute("drop table t")),
    "a call before the answer": om.data(om.PING) + om.data(om.PING),
    "an unknown message": om.data(b"\x22\1\1"),
    "an unknown piggyback": om.data(b"\x11\xc7\1\0" + om.PING),
    "a pipeline": om.data(om.PING, flags=0x1000),
    "a connect": b"\0\0\0\x0a\1\0\0\0\0\0",
    "data after the end": om.END_OF_FILE + om.data(om.PING),
    "an unknown type": om.data(
        om.Execute("begin p(:1); end;", binds=(om.Bind(251),), rows=((b"\0",),), is_query=False).encode()
    ),
    "an application context": om.data(
        om.execute(TEXT).replace(bytes(5) + b"\0\0\0\0\1", b"\1" + bytes(4) + b"\0\0\0\0\1", 1)
    ),
}


@pytest.mark.parametrize("data", BAD_CALLS.values(), ids=BAD_CALLS.keys())
@pytest.mark.parametrize("chunk", [1, 1 << 20], ids=["bytes", "whole"])
def test_attack_malformed_calls_end_the_session(data: bytes, chunk: int) -> None:
    link = oracle_links(Words())()
    effects: list[Effect] = []
    for start in range(0, len(data), chunk):
        effects += link.receive(client(b"").side, data[start : start + chunk])
    sent = b"".join([e.data for e in effects if isinstance(e, Send) and e.side is target(b"").side])
    assert b"drop" not in sent
    assert any(isinstance(effect, Close) for effect in effects)


BAD_ANSWERS = {
    "an unknown message": om.data(b"\x63"),
    "a row without columns": om.data(om.row_header() + row(b"a")),
    "bytes after the end": om.data(om.result(COLUMNS, row(b"a")) + b"\x04"),
    "too many columns": om.data(b"\x10\0" + om.ub(1) + om.ub(100_000)),
    "an unknown type": om.data(om.describe(om.Described("A", 251)) + om.row_header() + om.row(b"\1a")),
    "a reserved length": om.data(om.describe(*COLUMNS) + om.row_header() + om.row(b"\xfdaa")),
    "an unknown piggyback": om.data(b"\x17\x63\0\0"),
    "more binds than there are": om.data(om.io_vector(16, 16)),
    "a packet of a login": b"\0\0\0\x0a\2\0\0\0\0\0",
}


@pytest.mark.parametrize("data", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_attack_malformed_answers_end_the_session(data: bytes) -> None:
    link = oracle_links(ReadsAll())()
    link.receive(client(b"").side, om.data(om.execute(TEXT)))
    effects = link.receive(target(b"").side, data)
    assert any(isinstance(effect, Close) for effect in effects)


def test_answer_without_a_call_ends_the_session() -> None:
    effects = oracle_links()().receive(target(b"").side, om.data(om.done()))
    assert any(isinstance(effect, Close) for effect in effects)


@pytest.mark.parametrize(
    ("side_data", "limit"),
    [(om.data(om.execute("select '" + "x" * 5000 + "'")), 4096)],
)
def test_attack_call_beyond_the_limit_ends_the_session(side_data: bytes, limit: int) -> None:
    effects = oracle_links(ReadsAll(), max_message=limit)().receive(client(b"").side, side_data)
    assert any(isinstance(effect, Close) for effect in effects)


class SeesHeadings:
    """Refuses results with a column of that name, or hides their description."""

    name = "headings"
    wants: frozenset[type[Event]] = frozenset({Heading})
    batch_need = BatchNeed.NONE

    def __init__(self, column: str, *, hides: bool = False) -> None:
        self._column = column
        self._hides = hides
        self.seen: list[tuple[tuple[str, ...], str]] = []

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Heading)
        names = tuple([column.name for column in event.columns])
        self.seen.append((names, event.prepared))
        if self._column not in names:
            return FORWARD
        if self._hides:
            event.describe_as_text(names.index(self._column))
            return FORWARD
        return Refuse("headings", f"{self._column} is not shown")


BLOCK = "begin open :1 for select a from t; end;"
OPENED = om.io_vector(om.OUT) + om.row(b"\x01" + om.description(om.Described("INNER")) + om.ub(9), b"\0")
HEADED = {
    "a query": (TEXT, om.describe(*COLUMNS) + om.row_header() + row(b"Ada") + om.no_more(1), ("NAME", "AMOUNT")),
    "a cursor of a block": (BLOCK, OPENED + om.done(), ("INNER",)),
    "results of a block": (
        "begin p; end;",
        b"\x1b" + om.ub(1) + b"\0" + om.description(om.Described("INNER")) + om.ub(9) + om.done(),
        ("INNER",),
    ),
}


def call_of(text: str) -> bytes:
    binds = (om.Bind(om.CURSOR),) if ":1" in text else ()
    rows = ((b"\1\0",),) if binds else ()
    return om.data(om.Execute(text, binds=binds, rows=rows, is_query=text == TEXT).encode())


@pytest.mark.parametrize("name", HEADED)
@pytest.mark.parametrize("size", [0, 1, 7])
def test_description_is_judged_before_the_client_gets_it(name: str, size: int) -> None:
    text, answer, names = HEADED[name]
    for hides in (False, True):
        watcher = SeesHeadings(names[0], hides=hides)
        link = oracle_links(watcher)()
        link.receive(Side.CLIENT, call_of(text))
        data = om.data(answer)
        effects = [e for part in pieces(data, size) for e in link.receive(Side.TARGET, part)]
        sent = b"".join([effect.data for effect in effects if isinstance(effect, Send)])
        assert {seen for seen, _ in watcher.seen} == {names}
        assert names[0].encode() not in sent.replace(f"{names[0]} is not shown".encode(), b"")
        assert b"ORA-01031" in sent
        assert not link.awaiting_response
        assert not any(isinstance(effect, Close) for effect in effects)


@pytest.mark.parametrize("name", HEADED)
def test_description_that_is_allowed_passes(name: str) -> None:
    text, answer, names = HEADED[name]
    watcher = SeesHeadings("NOTHING")
    link = oracle_links(watcher)()
    link.receive(Side.CLIENT, call_of(text))
    effects = link.receive(Side.TARGET, om.data(answer))
    sent = b"".join([effect.data for effect in effects if isinstance(effect, Send)])
    assert messages(sent) == messages(om.data(answer))
    assert watcher.seen == [(names, "")]


@pytest.mark.parametrize("value", [b"\0", b"\1\0", om.ub(1) + om.ub(7), om.ub(1) + om.ub(300)], ids=bytes.hex)
def test_cursor_is_bound(value: bytes) -> None:
    binds = (om.Bind(om.CURSOR), om.Bind())
    call = om.Execute("begin p(:1, :2); end;", binds=binds, rows=((value, om.clr(b"x")),), is_query=False).encode()
    link = oracle_links(Words())()
    (_, send) = link.receive(Side.CLIENT, om.data(call))
    assert isinstance(send, Send)
    assert om.bodies(send.data)[-len(value) - 2 :] == value + om.clr(b"x")
