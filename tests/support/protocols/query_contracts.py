"""Contracts of what the gateway itself says to targets, and of how recordings are read: `protocols.asking`.

check_query      one question and its rows
check_catalogue  the questions behind the API's schema and connection tests, and behind column rules
check_script     what `exec` runs, over the protocol's own wire
check_lens       recorded bytes as readable text

Each raises AssertionError that says what is broken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from tests.support.protocols.playbook import CHUNKS, pieces
from tests.support.protocols.wire_contracts import events_of, new_link, sent_to

from postern.domain.targets.target_task import CATALOGUE_KINDS, TargetTaskKind
from postern.errors import ProtocolViolation
from postern.interception.events import Event, Operation
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import Refuse, Verdict
from postern.protocols.gateway_queries import Catalogue, Query, Row, Script
from postern.protocols.wire_base import Side, Wire
from postern.relay.link import Link

MOST = 16 << 20
"""Bytes that a question may wait for at once: what a row of a catalogue may have, and far more."""

_HOSTILE = "'; drop table t; -- \\' \" $1 ? \x01 ü"


def asked(query: Query, data: bytes, *, most: int = MOST) -> tuple[list[Row], bytes]:
    """Reads as the gateway does: as much as `query.needs` each time, until it is finished or `data` is at its end.
    Its rows, and what is left of `data`. Raises ProtocolViolation, as `feed` does; AssertionError when it asks for
    nothing, or for more than `most`."""
    rows: list[Row] = []
    pos = 0
    while not query.finished:
        needs = query.needs
        assert 0 < needs <= most, f"behind {pos} bytes it waits for {needs} more"
        if len(data) - pos < needs:
            break
        rows += query.feed(data[pos : pos + needs])
        pos += needs
    return rows, data[pos:]


def check_query(
    make_query: Callable[[], Query],
    answer: bytes,
    rows: Sequence[Row],
    *,
    error: bytes,
    garbage: Sequence[bytes],
    most: int = MOST,
) -> None:
    """Holds a protocol to the contract of `protocols.asking.Query`.

    `answer` is all that a target answers, and makes `rows`; `error` is all that it answers when it refuses; each of
    `garbage` is nothing that it may answer, or longer than anything that is waited for.

    1. However the answer is cut, the rows are the same, and it is finished at its last byte and not before.
    2. It is read without a byte of what comes behind, and never waits for more than `most` bytes.
    3. A refusal is finished, too, and its error has the target's code and words.
    4. Garbage is a ProtocolViolation, however it is cut, and is not waited for.
    """
    assert make_query().start(), "a question says nothing to the target"
    for size in CHUNKS:
        query, found = make_query(), list[Row]()
        for piece in pieces(answer, size):
            assert not query.finished, f"cut in pieces of {size}, it is finished before the end of its answer"
            found += query.feed(piece)
        assert found == list(rows), f"cut in pieces of {size}, the rows are {found}"
        assert query.finished, f"cut in pieces of {size}, it is not finished at the end of its answer"
        assert query.error is None, f"an answer is taken for an error: {query.error}"
        refused = make_query()
        assert [row for piece in pieces(error, size) for row in refused.feed(piece)] == []
        assert refused.finished, "a refusal does not finish it"
        assert refused.error is not None, "a refusal is taken for an answer"
        assert refused.error.code, "a refusal has no code"
        assert refused.error.message, "a refusal has no words"
        for data in garbage:
            assert _breaks(make_query(), data, size), f"{data[:100]!r} in pieces of {size} is taken for an answer"
    behind = b"the next answer"
    for said, expected in ((answer, list(rows)), (error, [])):
        assert asked(make_query(), said + behind, most=most) == (expected, behind), "it reads what is not its own"
    for data in garbage:
        try:
            asked(make_query(), data, most=most)
        except ProtocolViolation:
            continue
        raise AssertionError(f"{data[:100]!r} is waited for")


def _breaks(query: Query, data: bytes, size: int) -> bool:
    try:
        for piece in pieces(data, size):
            query.feed(piece)
    except ProtocolViolation:
        return True
    return False


def check_catalogue(catalogue: Catalogue, rows: Mapping[TargetTaskKind, Row]) -> None:
    """Holds a protocol to the contract of `protocols.asking.Catalogue`; `rows` has one of each question's.

    1. There is a question for each target task, with values for its arguments whatever they hold, or none.
    2. What it makes of rows is JSON, also of none, and no longer than the `cost` of each row.
    3. The questions behind column rules need no values. A target that has nothing is an empty TargetSchema; answers
       to fewer questions are a ProtocolViolation. A login without parameters asks for no path of its own.
    """
    assert set(catalogue.target_tasks) == CATALOGUE_KINDS, "a target task has no question"
    for kind, question in catalogue.target_tasks.items():
        assert set(question.values) <= {"schema", "table", "database"}, f"{kind} asks for what the API does not have"
        for value in (None, "", _HOSTILE):
            assert catalogue.query(question.statement, [value] * len(question.values)).start()
        nothing, row = len(json.dumps(question.shape([]))), rows[kind]
        for count in (1, 2, 50):
            shaped = len(json.dumps(question.shape([row] * count), ensure_ascii=False).encode())
            assert shaped <= nothing + count * question.cost(row), f"{kind}: rows cost more than is told"
    for statement in catalogue.schema:
        assert catalogue.query(statement, []).start()
    empty: list[list[Row]] = [[] for _ in catalogue.schema]
    assert not catalogue.target_schema(empty).relations
    try:
        catalogue.target_schema(empty[1:])
    except ProtocolViolation:
        pass
    else:
        raise AssertionError("an answer to fewer questions is taken for one to all")
    assert not catalogue.own_path({}), "a login that asks for nothing has a path of its own"


class _Refuses:
    name = "contract"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.DENY

    def see(self, event: Event, session: SessionView) -> Verdict:
        return Refuse("contract", "refused")


def check_script(
    make_script: Callable[[str], Script],
    make_wire: Callable[[], Wire],
    text: str,
    *,
    answer: bytes,
    failing: bytes,
    recorded: str = "",
    asked: bytes = b"",
) -> None:
    """Holds a protocol to the contract of `protocols.asking.Script`, over the wire that carries scripts.

    `answer` is all that a target says to `text` when all goes well; `failing` the same when something does not.
    `recorded` and `asked` are what is recorded of the script, and sent to the target, if that is not its text.

    1. The script is asked for as it stands, and recorded as that before it reaches the target.
    2. However the answers are cut, it is finished at their end and not before, says goodbye or leaves, and nothing is
       owed; its exit code is 0 when all went well, and never otherwise.
    3. A refused one reaches no target, and ends by itself as one that failed.
    """
    for size in CHUNKS:
        for said, good in ((answer, True), (failing, False)):
            wire, script = make_wire(), make_script(text)
            link = new_link(wire)
            assert script.exit_code() != 0, "what never ran has succeeded"
            effects = link.receive(Side.CLIENT, script.start())
            operations = [event.text for event in events_of(effects) if isinstance(event, Operation)]
            assert "".join(operations) == (recorded or text), f"recorded is {operations}, not {text!r}"
            assert (asked or text.encode()) in sent_to(Side.TARGET, effects), "the script does not reach the target"
            for piece in pieces(said, size):
                assert not script.finished, f"cut in pieces of {size}, it is finished before the end of its answer"
                assert script.exit_code() != 0, "what has not ended has succeeded"
                _hears(script, link, piece)
            _ended(script, wire, link)
            assert (script.exit_code() == 0) == good, f"its exit code is {script.exit_code()} for {said!r}"
    wire, script = make_wire(), make_script(text)
    link = new_link(wire, _Refuses())
    effects = link.receive(Side.CLIENT, script.start())
    assert (asked or text.encode()) not in sent_to(Side.TARGET, effects), "a refused script reached the target"
    reply = script.feed(sent_to(Side.CLIENT, effects))
    if reply:
        link.receive(Side.CLIENT, reply)
    _ended(script, wire, link)
    assert script.exit_code() != 0, "a refused script has succeeded"


def _hears(script: Script, link: Link, piece: bytes) -> None:
    shown = sent_to(Side.CLIENT, link.receive(Side.TARGET, piece))
    reply = script.feed(shown) if shown else b""
    if reply:
        link.receive(Side.CLIENT, reply)


def _ended(script: Script, wire: Wire, link: Link) -> None:
    assert script.finished, "it is not finished at the end of its answer"
    assert script.leaves or wire.client_terminated, "it neither says goodbye nor leaves"
    assert not link.awaiting_response, "its answer is over, and the target is still thought to owe one"


class Lens(Protocol):
    """What makes readable text of recorded bytes: `recording.rendering.Renderer`."""

    def feed(self, data: bytes) -> list[tuple[str, bytes]]: ...

    def rest(self) -> list[tuple[str, bytes]]: ...


def check_lens(make_lens: Callable[[], Lens], shown: bytes, text: Sequence[tuple[str, bytes]]) -> None:
    """Holds a protocol to what replays and searches rest on.

    `shown` are bytes as a client was shown them, at whose end nothing is cut off; `text` is what a person reads:
    ("o" for output or "e" for errors, text), neighbours of one kind joined.

    1. However `shown` is cut, the text is the same, and nothing is left.
    2. Broken off anywhere, what came before is told, and the lens is good for what begins anew.
    """
    for size in CHUNKS:
        lens = make_lens()
        found = _joined([one for piece in pieces(shown, size) for one in lens.feed(piece)])
        assert found == list(text), f"cut in pieces of {size}, it reads {found}"
        assert _joined(lens.rest()) == [], "something is left of what is whole"
    for end in range(len(shown)):
        lens = make_lens()
        lens.feed(shown[:end])
        lens.rest()
        assert _joined(lens.feed(shown)) == list(text), f"broken off behind {end} bytes, it does not begin anew"


def _joined(told: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    whole = [(kind, b"".join(text for _, text in same)) for kind, same in groupby(told, itemgetter(0))]
    return [(kind, text) for kind, text in whole if text]
