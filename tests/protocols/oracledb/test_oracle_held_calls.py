"""Values that come back from calls that wait for a review: OUT binds and RETURNING × what becomes of the review ×
masking, from bytes to bytes."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.support.links import Asks
from tests.support.oracledb_links import oracle_content, oracle_links
from tests.support.protocols import oracledb_test_messages as om
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import sent_to

from postern.domain.rules.masking import MaskingRule
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.oracledb.dialect.oracle_statement_facts import OracleStatementFacts
from postern.protocols.oracledb.lineage.oracle_lineage import OracleLineage
from postern.protocols.oracledb.lineage.oracle_session_lineage import OracleSessionLineage
from postern.protocols.wire_base import Side
from postern.relay.link import Effect, Link

PEOPLE = TargetSchema({("HR", "PEOPLE"): Relation("HR", "PEOPLE", ("ID", "NAME"))}, {}, ("HR",))
NAME = b"Zyxanna"
TICKET = "t1"


def masking() -> Masking:
    rule = MaskingRule(UUID(int=1), UUID(int=2), "names", columns=("people.name",))
    origins = OracleSessionLineage(OracleLineage(), lambda: PEOPLE)
    return Masking(frozenset(), (rule,), b"k" * 32, origins=origins, facts=OracleStatementFacts())


def block(text: str) -> bytes:
    return om.Execute(text, binds=(om.Bind(),), rows=((b"\0",),), is_query=False, options=0x421).encode()


def change(text: str, *, cursor: int = 0) -> bytes:
    return om.Execute(text, cursor=cursor, binds=(om.Bind(),), rows=(), is_query=False, options=0x21).encode()


def out(name: bytes) -> bytes:
    return om.io_vector(om.OUT) + om.row(om.clr(name), b"\0") + om.PARAMETERS + om.done()


def returned(*names: bytes) -> bytes:
    values = [om.ub(len(names)), *[om.clr(name) + b"\0" for name in names]]
    return om.row(*values) + om.PARAMETERS + om.done(rows=len(names), cursor=1)


RETURNING = "update people set id = 2 returning name into :1"
# The call, its answer, and how often the value is in that.
CALLS = {
    "a block": (block("begin select name into :1 from people where id = 1; end;"), out(NAME), 1),
    "a computed value": (block("begin select name || 'x' into :1 from people where id = 1; end;"), out(NAME), 1),
    "RETURNING": (change(RETURNING), returned(NAME), 1),
    "RETURNING of no row": (change(RETURNING), returned(), 0),
    "RETURNING of two rows": (change(RETURNING), returned(NAME, NAME), 2),
    "RETURNING of an insertion": (
        change("insert into people values (2, 'a') returning name into :1"),
        returned(NAME),
        1,
    ),
}


def held_link(call: bytes, size: int, *, masked: bool) -> Link:
    """A link on which the call is held."""
    link = oracle_links(Asks("name"), *([masking()] if masked else []))()
    effects = [effect for piece in pieces(om.data(call), size) for effect in link.receive(Side.CLIENT, piece)]
    assert sent_to(Side.TARGET, effects) == b""
    assert link.held_request is not None
    return link


def without_options(call: bytes) -> bytes:
    """Return a call without its options: the gateway can add some, and writes them in another length."""
    return call[4 + call[3] :] if call else b""


def sent_call(effects: list[Effect]) -> bytes:
    """Return the call that the target gets, without its options."""
    return without_options(oracle_content(sent_to(Side.TARGET, effects)))


def answer_to(link: Link, answer: bytes, size: int = 0) -> bytes:
    """Return what the client gets of an answer."""
    data = [sent_to(Side.CLIENT, link.receive(Side.TARGET, piece)) for piece in pieces(om.data(answer), size)]
    return oracle_content(b"".join(data))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("name", CALLS)
def test_approved_call_runs_and_its_values_are_masked(name: str, size: int, masked: bool) -> None:
    call, answer, count = CALLS[name]
    link = held_link(call, size, masked=masked)
    assert sent_call(link.resume(TICKET, FORWARD)) == without_options(call)
    shown = answer_to(link, answer, size)
    assert b"ORA-" not in shown
    assert shown.count(NAME) == (0 if masked else count)
    assert shown.count(om.clr(b"****")) == (count if masked else 0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("outcome", ["rejected", "expired", "cancelled"])
@pytest.mark.parametrize("name", CALLS)
def test_call_that_is_not_approved_never_runs_and_the_session_stays(name: str, outcome: str, masked: bool) -> None:
    link = held_link(CALLS[name][0], 0, masked=masked)
    if outcome == "cancelled":
        link.receive(Side.CLIENT, om.marker(1))
        assert link.interrupts_held_request
    effects = link.resume(TICKET, Refuse("r", f"it was {outcome}"))
    assert sent_to(Side.TARGET, effects) == b""
    assert f"it was {outcome}".encode() in sent_to(Side.CLIENT, effects)
    if outcome == "cancelled":
        effects = link.receive(Side.CLIENT, om.marker(2))
        assert b"ORA-01013" in sent_to(Side.CLIENT, effects)
    assert not link.awaiting_response
    call = om.execute("insert into t values (1)")
    assert sent_call(link.receive(Side.CLIENT, om.data(call))) == without_options(call)
    assert answer_to(link, om.PARAMETERS + om.done(rows=1)) == om.PARAMETERS + om.done(rows=1)


def test_statement_of_a_cursor_stays_as_it_was_after_a_rejected_one() -> None:
    """The rejected call would have given the cursor another statement, whose value has no rule."""
    link = held_link(change(RETURNING), 0, masked=True)
    link.resume(TICKET, FORWARD)
    answer_to(link, returned(NAME))
    other = change("update people set name = 'x' returning id into :1", cursor=1)
    link.receive(Side.CLIENT, om.data(other))
    link.resume(TICKET, Refuse("r", "no"))
    again = om.Execute(cursor=1, binds=(om.Bind(),), rows=(), is_query=False, options=0x20).encode()
    link.receive(Side.CLIENT, om.data(again))
    assert sent_call(link.resume(TICKET, FORWARD)) == without_options(again)
    shown = answer_to(link, returned(NAME))
    assert NAME not in shown
    assert om.clr(b"****") in shown
