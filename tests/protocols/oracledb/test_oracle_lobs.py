"""Data of large objects under rules about columns: a locator has the origin of the column that it came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest
from tests.support.links import Masks, ReadsAll
from tests.support.oracledb_links import check_script, client, oracle_links, runs, target
from tests.support.protocols import oracledb_test_messages as om

from postern.domain.rules.masking import InfoType, MaskingRule, Strategy
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.events import Completed, Operation, Phase
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.oracledb.dialect.oracle_statement_facts import OracleStatementFacts
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_session_lineage import OracleSessionLineage
from postern.protocols.oracledb.wire import ttc_codes
from postern.protocols.oracledb.wire.oracle_lobs import MAX_LOCATORS
from postern.protocols.oracledb.wire.oracle_wire import OracleWire
from postern.protocols.oracledb.wire.ttc_negotiation import TtcLayout
from postern.protocols.wire_base import Side
from postern.relay.link import Link, Send

PEOPLE = TargetSchema({("HR", "PEOPLE"): Relation("HR", "PEOPLE", ("ID", "NOTE", "SECRET"))}, {}, ("HR",))
CLOB, BLOB, BFILE, JSON = 112, 113, 114, 119
READ, LENGTH, TRIM, WRITE, FREE, OPEN, CREATE = 2, 1, 0x20, 0x40, 0x111, 0x8000, 0x110
QUERY = "select id, note from people"


def locator(number: int, *, is_blob: bool = False, wide: bool = False, temporary: bool = False) -> bytes:
    made = bytearray(om.locator(is_blob=is_blob, wide=wide))
    made[7] |= temporary
    made[36:40] = number.to_bytes(4, "big")
    return bytes(made)


def lob(value: bytes | None, beginning: bytes | None = None, size: int = 0, *, is_clob: bool = True) -> bytes:
    """A value of a row: a locator, with the beginning of the LOB if the client wants that."""
    if value is None:
        return b"\0"
    head = b"" if beginning is None else om.ub(size) + om.ub(8000) + (b"\0\1" if is_clob else b"") + om.clr(beginning)
    return om.ub(len(value)) + head + om.clr(value)


@dataclass
class Session:
    """A session with strict rules about the column `secret`; what it sends is what the client gets."""

    link: Link = field(init=False)
    rules: tuple[MaskingRule, ...] = ()
    types: frozenset[InfoType] = frozenset()

    def __post_init__(self) -> None:
        secrets = MaskingRule(UUID(int=1), UUID(int=2), "secrets", columns=("people.secret",))
        rules = self.rules if self.rules or self.types else (secrets,)
        origins = OracleSessionLineage(OracleLineage(), lambda: PEOPLE)
        self.link = oracle_links(Masking(self.types, rules, b"k" * 32, origins=origins, facts=OracleStatementFacts()))()

    def send(self, call: bytes, *answers: bytes) -> bytes:
        """Send a call, and the target's answer to it. Return what the client gets."""
        effects = self.link.receive(Side.CLIENT, om.data(call))
        if any(isinstance(effect, Send) and effect.side is Side.TARGET for effect in effects):
            effects += self.link.receive(Side.TARGET, om.data(b"".join(answers)))
        return b"".join([each.data for each in effects if isinstance(each, Send) and each.side is Side.CLIENT])

    def query(self, text: str, name: str, *values: bytes, kind: int = CLOB, cursor: int = 1) -> bytes:
        rows = [om.row(value) for value in values]
        columns = (om.Described(name, kind, 4000),)
        return self.send(om.execute(text), om.result(columns, *rows, cursor=cursor))

    def read(self, locator: bytes, content: bytes = b"CONTENT", operation: int = READ) -> bytes:
        call = om.lob_call(operation, locator, amount=10)
        data = om.lob_data(content) if operation == READ else b""
        return self.send(call, data + om.lob_done(locator, 5))

    def shows(self, locator: bytes) -> bool:
        sent = self.read(locator)
        assert (b"CONTENT" in sent) is not (b"ORA-01031" in sent)
        return b"CONTENT" in sent


@pytest.mark.parametrize("kind", [CLOB, BLOB, BFILE], ids=["CLOB", "BLOB", "BFILE"])
def test_data_of_a_column_without_a_rule_is_shown(kind: int) -> None:
    session = Session()
    one = locator(1, is_blob=kind != CLOB)
    assert one in session.query("select note from people", "NOTE", lob(one), kind=kind)
    assert session.shows(one)
    assert session.shows(one)


def test_data_of_nchar_is_shown_in_its_own_encoding() -> None:
    session = Session()
    one = locator(1, wide=True)
    session.query("select note from people", "NOTE", lob(one))
    assert "hello".encode("utf-16-be") in session.read(one, "hello".encode("utf-16-be"))


@pytest.mark.parametrize("operation", [READ, LENGTH])
def test_attack_locator_that_was_in_no_answer_is_denied(operation: int) -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)))
    assert b"ORA-01031" in session.read(locator(2), operation=operation)
    assert b"ORA-01031" not in session.read(locator(1), operation=operation)


def test_attack_locator_of_a_masked_column_is_not_shown_and_shows_nothing() -> None:
    session = Session()
    sent = session.query("select secret from people", "SECRET", lob(locator(1)), lob(locator(2)))
    assert locator(1) not in sent
    assert not session.shows(locator(1))
    assert b"ORA-01031" in session.read(locator(2), operation=LENGTH)


@pytest.mark.parametrize("strategy", [strategy for strategy in Strategy if strategy is not Strategy.REPLACE])
def test_attack_parts_of_a_masked_column_are_not_replaced_one_by_one(strategy: Strategy) -> None:
    rule = MaskingRule(UUID(int=1), UUID(int=2), "secrets", columns=("people.secret",), strategy=strategy)
    session = Session(rules=(rule,))
    session.query("select secret from people", "SECRET", lob(locator(1)))
    assert not session.shows(locator(1))


def test_attack_locators_are_swapped() -> None:
    session = Session()
    columns = (om.Described("NOTE", CLOB, 4000), om.Described("SECRET", CLOB, 4000))
    rows = om.row(lob(locator(1)), lob(locator(2)))
    session.send(om.execute("select note, secret from people"), om.result(columns, rows))
    assert session.shows(locator(1))
    assert not session.shows(locator(2))


def test_attack_alias_of_a_masked_column() -> None:
    session = Session()
    session.query("select secret as note from people", "NOTE", lob(locator(1)))
    assert not session.shows(locator(1))


def test_attack_locator_that_stands_for_another_value_later() -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)))
    session.query("select secret from people", "SECRET", lob(locator(1)), cursor=2)
    assert not session.shows(locator(1))


def test_locator_is_known_after_its_cursor_is_closed() -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)), cursor=7)
    session.query("select secret from people", "SECRET", lob(locator(2)), cursor=8)
    call = om.close_cursors(7, 8) + om.lob_call(READ, locator(1), amount=9)
    assert b"CONTENT" in session.send(call, om.lob_data(b"CONTENT") + om.lob_done(locator(1), 5))
    assert not session.shows(locator(2))


@pytest.mark.parametrize("is_blob", [False, True])
def test_attack_locator_read_as_another_type(is_blob: bool) -> None:
    """The flags of a locator are a part of it: with others, it is another one."""
    session = Session()
    one = locator(1, is_blob=is_blob)
    session.query("select note from people", "NOTE", lob(one), kind=BLOB if is_blob else CLOB)
    assert not session.shows(locator(1, is_blob=not is_blob))
    assert session.shows(one)


@pytest.mark.parametrize("operation", [OPEN, TRIM, WRITE])
def test_locator_that_is_returned_has_the_same_origin(operation: int) -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)))
    for old, new in ((1, 11), (2, 12)):
        content = b"x" if operation == WRITE else None
        call = om.lob_call(operation, locator(old), content=content)
        session.send(call, om.lob_done(locator(new)))
    assert session.shows(locator(11))
    assert not session.shows(locator(12))


def test_attack_locator_of_a_new_temporary_lob_is_unknown() -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)))
    session.send(om.lob_call(CREATE, bytes(40)), om.lob_done(locator(1)))
    assert not session.shows(locator(1))


@pytest.mark.parametrize("as_piggyback", [False, True])
def test_attack_freed_locator_is_unknown(as_piggyback: bool) -> None:
    session = Session()
    session.query("select to_clob(note) as note from people", "NOTE", *[lob(locator(at)) for at in (1, 2, 3)])
    if as_piggyback:
        freed = om.lob_call(FREE | 0x80000, locator(1) + locator(2))
        session.send(b"\x11" + freed[1:] + om.PING, om.status())
    else:
        session.send(om.lob_call(FREE, locator(1)), om.lob_done(locator(1)))
        session.send(om.lob_call(FREE, locator(2)), om.lob_done(locator(2)))
    assert [session.shows(locator(at)) for at in (1, 2, 3)] == [False, False, True]


def test_attack_temporary_lob_is_unknown_after_another_statement() -> None:
    session = Session()
    own, kept = locator(1, temporary=True), locator(2)
    session.query("select note || 'x' from people", "NOTE", lob(own), lob(kept))
    assert session.shows(own)
    session.query(QUERY.replace("id, ", ""), "NOTE", lob(locator(3)), cursor=2)
    assert not session.shows(own)
    assert session.shows(kept)


def test_attack_locator_that_a_block_can_write_to_is_unknown() -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)), lob(locator(2)))
    text = "declare v clob; begin select secret into v from people; dbms_lob.append(:l, v); end;"
    bind = om.Bind(CLOB, 4000)
    block = om.Execute(text, binds=(bind,), rows=((lob(locator(1)),),), is_query=False, options=0x421)
    session.send(block.encode(), om.io_vector(om.IN) + om.done())
    assert not session.shows(locator(1))


def test_locator_bound_in_a_query_is_unknown() -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)), lob(locator(2)))
    text = "select id from people where dbms_lob.getlength(:l) = 1"
    bound = om.Execute(text, binds=(om.Bind(CLOB, 4000),), rows=((lob(locator(1)),),))
    session.send(bound.encode(), om.result((om.Described("ID", om.NUMBER, 22),), cursor=2))
    assert not session.shows(locator(1))
    assert session.shows(locator(2))


def test_oldest_locators_are_forgotten() -> None:
    session = Session()
    session.query("select note from people", "NOTE", *[lob(locator(at)) for at in range(MAX_LOCATORS + 2)])
    shown = [session.shows(locator(at)) for at in (0, 1, 2, 3, MAX_LOCATORS + 1)]
    assert shown == [False, False, True, True, True]


@pytest.mark.parametrize(("column", "is_shown"), [("note", True), ("secret", False)])
def test_lob_in_a_variable_of_a_block_has_the_origin_of_the_block(column: str, is_shown: bool) -> None:
    session = Session()
    text = f"begin select {column} into :1 from people where id = 1; end;"
    block = om.Execute(text, binds=(om.Bind(CLOB, 4000),), rows=((b"\0",),), is_query=False, options=0x421)
    answer = om.io_vector(om.OUT) + om.row(lob(locator(1)), b"\0") + om.PARAMETERS + om.done()
    assert (locator(1) in session.send(block.encode(), answer)) is is_shown
    assert session.shows(locator(1)) is is_shown


@pytest.mark.parametrize(("column", "is_shown"), [("note", True), ("secret", False)])
def test_lob_of_returning_has_the_origin_of_its_column(column: str, is_shown: bool) -> None:
    session = Session()
    text = f"update people set id = 2 where id = 1 returning {column} into :1"
    update = om.Execute(text, binds=(om.Bind(CLOB, 4000),), rows=(), is_query=False, options=0x21)
    answer = om.row(om.ub(1), lob(locator(1)), b"\0") + om.PARAMETERS + om.done(rows=1)
    assert (locator(1) in session.send(update.encode(), answer)) is is_shown
    assert session.shows(locator(1)) is is_shown


def test_lob_of_a_nested_cursor_has_its_origin() -> None:
    session = Session()
    text = "begin open :1 for select note from people; end;"
    block = om.Execute(text, binds=(om.Bind(om.CURSOR),), rows=((b"\1\0",),), is_query=False, options=0x421)
    described = om.description(om.Described("NOTE", CLOB, 4000))
    session.send(block.encode(), om.io_vector(om.OUT) + om.row(b"\1" + described + om.ub(9), b"\0") + om.done())
    session.send(om.fetch(9), om.row_header() + om.row(lob(locator(1))) + om.no_more(9))
    assert session.shows(locator(1))


def test_json_has_a_locator() -> None:
    session = Session()
    value = om.ub(40) + om.ub(9) + om.ub(8000) + om.clr(b"document") + om.clr(locator(1, is_blob=True))
    session.query("select note from people", "NOTE", value, kind=JSON)
    assert session.shows(locator(1, is_blob=True))


@pytest.mark.parametrize("operation", [4, 8, 0x10, 0x80, 0x80002])
def test_attack_unknown_operation_on_a_lob_is_refused(operation: int) -> None:
    call = om.lob_call(operation, locator(1))
    link = oracle_links(ReadsAll())()
    effects = link.receive(Side.CLIENT, om.data(call))
    sent = {each.side: each.data for each in effects if isinstance(each, Send)}
    assert Side.TARGET not in sent
    assert b"on large objects is not supported" in sent[Side.CLIENT]


# Beginnings that come with the locator


def define(amount: int, kind: int = CLOB) -> bytes:
    defines = (om.Bind(kind, 4000, options=ttc_codes.LOB_PREFETCH, characters=amount),)
    return om.Execute(cursor=1, defines=defines, options=0x50).encode()


def beginnings(session: Session, *values: bytes, kind: int = CLOB, text: str = "select note from people") -> bytes:
    described = om.describe(om.Described("NOTE", kind, 4000))
    session.send(om.execute(text), described + om.done(cursor=1))
    return session.send(define(50, kind), om.row_header() + b"".join(map(om.row, values)) + om.no_more(1))


def searching(*columns: str) -> Session:
    """Return a session in which addresses are found by value, and columns masked."""
    rules = (MaskingRule(UUID(int=3), UUID(int=2), "secrets", columns=columns),) if columns else ()
    return Session(rules=rules, types=frozenset({InfoType.EMAIL_ADDRESS}))


@pytest.mark.parametrize("kind", [CLOB, BLOB])
@pytest.mark.parametrize("size", [0, 900])
def test_values_in_beginnings_of_lobs_are_found(kind: int, size: int) -> None:
    text = b"write to ann@example.com"
    one = locator(1, is_blob=kind == BLOB)
    value = lob(one, text, len(text) + size, is_clob=kind == CLOB)
    sent = beginnings(searching(), value, lob(None), value, kind=kind)
    masked = b"write to ****@****"
    assert lob(one, masked, len(masked) + size, is_clob=kind == CLOB) in sent
    assert b"ann@example.com" not in sent


def test_beginnings_of_lobs_without_values_pass_unchanged() -> None:
    values = [lob(locator(1), b"hello", 5), lob(None), lob(locator(2), b"", 0)]
    assert b"".join(map(om.row, values)) in beginnings(searching(), *values)


def test_wide_beginnings_of_lobs_are_masked() -> None:
    text = "ann@example.com ë".encode("utf-16-be")
    sent = beginnings(searching(), lob(locator(1, wide=True), text, len(text) // 2))
    masked = "****@**** ë".encode("utf-16-be")
    assert lob(locator(1, wide=True), masked, len(masked) // 2) in sent


def test_beginnings_of_a_masked_column_are_not_shown() -> None:
    session = searching("people.secret")
    sent = beginnings(session, lob(locator(1), b"hello", 5), text="select secret as note from people")
    assert b"hello" not in sent
    assert locator(1) not in sent


# Recording


def test_rows_of_all_fetches_and_large_objects_are_one_operation() -> None:
    columns = (om.Described("NOTE", CLOB, 4000),)
    text = "select note from people"
    first, second = om.row(lob(locator(1))), om.row(lob(locator(2)))
    read = om.lob_call(READ, locator(1), amount=9)
    plain = om.execute(text)
    asked = plain.replace(b"\3\x5e\1" + om.ub(0x8061), b"\3\x5e\1" + om.ub(0x8061 | 0x40000), 1)
    begin = om.describe(*columns) + om.row_header() + first + om.done(cursor=3)
    more = om.row_header() + second + om.no_more(3)
    check_script(
        oracle_links(Masks()),
        client(om.data(plain), to_target=om.data(asked), events=(runs(1, text),)),
        target(om.data(begin), to_client=om.data(begin)),
        client(om.data(read), to_target=om.data(read)),
        target(
            om.data(om.lob_data(b"secret-1") + om.lob_done(locator(1), 8)),
            to_client=om.data(om.lob_data(b"***") + om.lob_done(locator(1), 8)),
        ),
        client(om.data(om.fetch(3)), to_target=om.data(om.fetch(3))),
        target(om.data(more), to_client=om.data(more)),
        client(
            om.data(om.COMMIT),
            to_target=om.data(om.COMMIT),
            events=(Completed(1, "SELECT", 2), Operation(2, "COMMIT", Phase.RUN)),
        ),
        target(om.data(om.status()), to_client=om.data(om.status()), events=(Completed(2, "COMMIT"),)),
        chunks=(0, 7),
    )


def test_large_object_of_an_earlier_statement_is_an_operation_of_its_own() -> None:
    session = Session()
    session.query("select note from people", "NOTE", lob(locator(1)))
    session.send(om.execute("select id from people"), om.result((om.Described("ID", om.NUMBER, 22),), cursor=2))
    effects = session.link.receive(Side.CLIENT, om.data(om.lob_call(READ, locator(1), amount=9)))
    recorded = [event for effect in effects for event in getattr(effect, "events", ())]
    assert [getattr(event, "text", "") for event in recorded] == ["CALL DBMS_LOB.READ(:1)"]


def test_fetch_after_another_statement_is_an_operation_of_its_own() -> None:
    columns = (om.Described("ID", om.NUMBER, 22),)
    one = om.row(om.clr(b"\xc1\2"))
    text, other = "select id from people", "select id from people where id = 1"

    def asked(statement: str) -> bytes:
        plain = om.execute(statement)
        return plain.replace(b"\3\x5e\1" + om.ub(0x8061), b"\3\x5e\1" + om.ub(0x8061 | 0x40000), 1)

    begin, between = om.result(columns, one)[: -len(om.no_more(1))] + om.done(cursor=3), om.result(columns, cursor=4)
    more, end = om.row_header() + one + om.done(cursor=3), om.row_header() + one + om.no_more(3)
    fetch = om.data(om.fetch(3))
    check_script(
        oracle_links(Masks()),
        client(om.data(om.execute(text)), to_target=om.data(asked(text)), events=(runs(1, text),)),
        target(om.data(begin), to_client=om.data(begin)),
        client(fetch, to_target=fetch),
        target(om.data(more), to_client=om.data(more)),
        client(
            om.data(om.execute(other)),
            to_target=om.data(asked(other)),
            events=(Completed(1, "SELECT", 2), runs(2, other)),
        ),
        target(om.data(between), to_client=om.data(between), events=(Completed(2, "SELECT", 0),)),
        client(fetch, to_target=fetch, events=(runs(3, text, continues=1),)),
        target(om.data(end), to_client=om.data(end), events=(Completed(3, "FETCH", 1),)),
        chunks=(0, 5),
    )


def test_time_of_an_exchange_is_that_of_its_answers() -> None:
    now = 0
    wire = OracleWire(layout=TtcLayout())
    view = SessionView(UUID(int=1), "ada@example.com", frozenset(), "db", "database", "oracledb", {})
    link = Link(wire, Pipeline([], view), lambda: now)
    columns = (om.Described("ID", om.NUMBER, 22),)
    one = om.row(om.clr(b"\xc1\2"))
    steps = [
        (Side.CLIENT, om.execute("select id from people"), 0),
        (Side.TARGET, om.describe(*columns) + om.row_header() + one + om.done(cursor=3), 30),
        (Side.CLIENT, om.fetch(3), 1000),
        (Side.TARGET, om.row_header() + one + om.no_more(3), 1005),
    ]
    ends: list[Completed] = []
    for side, data, at in steps:
        now = at
        events = [event for effect in link.receive(side, om.data(data)) for event in getattr(effect, "events", ())]
        ends += [event for event in events if isinstance(event, Completed)]
    assert [(end.rows, end.micros) for end in ends] == [(2, 35)]


def test_result_that_is_left_open_is_complete_at_the_end_of_the_session() -> None:
    session = Session()
    begin = (
        om.describe(om.Described("ID", om.NUMBER, 22)) + om.row_header() + om.row(om.clr(b"\xc1\2")) + om.done(cursor=3)
    )
    session.send(om.execute("select id from people"), begin)
    assert session.link.unfinished_exchanges() == [Completed(1, "SELECT", 1)]
    assert session.link.unfinished_exchanges() == []
