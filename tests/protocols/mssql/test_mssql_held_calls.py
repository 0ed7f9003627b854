"""Calls that wait for a review: how they are called × what becomes of the review × masking, from bytes to bytes."""

from __future__ import annotations

import pytest
from tests.protocols.mssql.test_mssql_output_parameters import OUT, SECRET, is_denied, masking, returned, text_out
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.mssql_test_messages import CLIENT, TARGET
from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import new_link, sent_to

from postern.interception.events import RUN, Event, Operation
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict
from postern.protocols.mssql.wire import mssql_requests as r
from postern.protocols.mssql.wire import mssql_tokens as k
from postern.protocols.mssql.wire.mssql_wire import MssqlWire
from postern.relay.link import Effect, Link

TEXT = "select @o = name from people /* care */"
DECLARED = "@o nvarchar(20) output"


def execute_sql(procedure: int | str) -> bytes:
    return ms.rpc(ms.call(procedure, ms.nvarchar(TEXT), ms.nvarchar(DECLARED), text_out()))


def prepare_and_execute(procedure: int | str) -> bytes:
    handle = ms.integer(None, status=OUT)
    return ms.rpc(ms.call(procedure, handle, ms.nvarchar(DECLARED), ms.nvarchar(TEXT), text_out()))


def prepared(handle: int) -> tuple[bytes, bytes]:
    call = ms.call(r.PREPARE, ms.integer(None, status=OUT), ms.nvarchar(DECLARED), ms.nvarchar(TEXT))
    return ms.rpc(call), ms.reply(ms.handle(handle), ms.status(0), ms.done(code=k.DONEPROC))


def execute(procedure: int | str) -> bytes:
    return ms.rpc(ms.call(procedure, ms.integer(7), text_out()))


# The request, the place of the output parameter in it, and what a strict rule does with it.
CALLS = {
    "sp_executesql": (execute_sql(r.EXECUTE_SQL), 2, "masked"),
    "sp_executesql by name": (execute_sql("sp_executesql"), 2, "masked"),
    "sp_executesql in a schema": (execute_sql("[sys].[sp_executesql]"), 2, "masked"),
    "sp_prepexec": (prepare_and_execute(r.PREPARE_EXECUTE), 3, "masked"),
    "sp_prepexec by name": (prepare_and_execute("sp_prepexec"), 3, "masked"),
    "sp_execute": (execute(r.EXECUTE), 1, "masked"),
    "sp_execute by name": (execute("sp_execute"), 1, "masked"),
    "a procedure": (ms.rpc(ms.call("dbo.care", text_out("@o"))), 0, "denied"),
    "several calls": (
        ms.rpc(*[ms.call(r.EXECUTE_SQL, ms.nvarchar(TEXT), ms.nvarchar(DECLARED), text_out()) for _ in range(2)]),
        2,
        "masked",
    ),
}


class Asks:
    """Holds what runs with the word `care`."""

    name = "asks"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need = BatchNeed.REVIEW

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        return Hold("t", "wait") if "care" in event.text and event.phase is RUN else FORWARD


def held_link(request: bytes, size: int, *, masked: bool) -> Link:
    """A link on which the request is held."""
    link = new_link(MssqlWire(), Asks(), *([masking()] if masked else []))
    call, reply = prepared(7)
    link.receive(CLIENT, call)
    link.receive(TARGET, reply)
    effects = [effect for piece in pieces(request, size) for effect in link.receive(CLIENT, piece)]
    assert sent_to(TARGET, effects) == b""
    assert link.held_request is not None
    return link


def say(link: Link, *conversation: tuple[object, bytes]) -> list[Effect]:
    return [effect for side, data in conversation for effect in link.receive(side, data)]  # type: ignore[arg-type]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("call", CALLS)
def test_approved_call_runs_as_it_came_and_its_output_is_masked(call: str, size: int, masked: bool) -> None:
    request, place, outcome = CALLS[call]
    link = held_link(request, size, masked=masked)
    effects = link.resume("t", FORWARD)
    while link.held_request is not None:  # each call of a message
        effects = link.resume("t", FORWARD)
    assert sent_to(TARGET, effects) == request
    reply = ms.reply(returned(place, SECRET), ms.status(0), ms.done(code=k.DONEPROC))
    payload = ms.payload(b"".join([sent_to(CLIENT, link.receive(TARGET, piece)) for piece in pieces(reply, size)]))
    assert is_denied(payload) == (masked and outcome == "denied")
    assert (returned(place, SECRET) in payload) != masked
    assert (returned(place, "****") in payload) == (masked and outcome == "masked")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("outcome", ["rejected", "expired", "cancelled"])
@pytest.mark.parametrize("call", CALLS)
def test_call_that_is_not_approved_never_runs_and_the_connection_stays(call: str, outcome: str, masked: bool) -> None:
    link = held_link(CALLS[call][0], 0, masked=masked)
    if outcome == "cancelled":
        link.receive(CLIENT, ms.attention())
        assert link.interrupts_held_request
    effects = link.resume("t", Refuse("r", f"it was {outcome}"))
    expected = ms.attention() if outcome == "cancelled" else b""
    assert sent_to(TARGET, effects) == expected
    if outcome == "cancelled":
        effects += link.receive(TARGET, ms.done_attention())
    assert f"it was {outcome}".encode() in ms.shown(sent_to(CLIENT, effects))
    assert not link.awaiting_response
    effects = say(link, (CLIENT, ms.batch("select 1")), (TARGET, ms.reply(ms.done(1))))
    assert sent_to(TARGET, effects) == ms.batch("select 1")
    assert ms.payload(sent_to(CLIENT, effects)) == ms.done(1) + b"<end>"


@pytest.mark.parametrize(
    "ends",
    [
        ms.call(r.UNPREPARE, ms.integer(7)),
        ms.call("sp_unprepare", ms.integer(7)),
        b"",
    ],
    ids=["sp_unprepare", "sp_unprepare by name", "sp_prepexec"],
)
def test_handle_that_a_rejected_request_would_have_ended_stays_valid(ends: bytes) -> None:
    if ends:
        request = ms.rpc(ends, ms.call("dbo.care"))
    else:
        handle = ms.integer(7, status=OUT)
        request = ms.rpc(ms.call(r.PREPARE_EXECUTE, handle, ms.nvarchar(None), ms.nvarchar("select 1 /* care */")))
    link = held_link(request, 0, masked=True)
    link.resume("t", Refuse("r", "no"))
    link.receive(CLIENT, execute(r.EXECUTE))
    effects = link.resume("t", FORWARD)
    assert sent_to(TARGET, effects) == execute(r.EXECUTE)
    effects = link.receive(TARGET, ms.reply(returned(1, SECRET), ms.done(code=k.DONEPROC)))
    assert returned(1, "****") in ms.payload(sent_to(CLIENT, effects))


def test_handle_ends_with_the_request_that_ends_it() -> None:
    request = ms.rpc(ms.call(r.UNPREPARE, ms.integer(7)), ms.call("dbo.care"))
    link = held_link(request, 0, masked=True)
    assert sent_to(TARGET, link.resume("t", FORWARD)) == request
    link.receive(TARGET, ms.reply(ms.done(code=k.DONEPROC)))
    effects = link.receive(CLIENT, execute(r.EXECUTE))
    assert sent_to(TARGET, effects) == b""
    assert b"there is no prepared statement with the handle 7" in ms.shown(sent_to(CLIENT, effects))
