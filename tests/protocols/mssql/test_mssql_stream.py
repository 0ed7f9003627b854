"""Answers of any shape, cut anywhere, with any of their parts changed: clients get exactly these tokens."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.support.protocols import mssql_test_messages as ms
from tests.support.protocols.mssql_test_messages import CLIENT, TARGET
from tests.support.protocols.playbook import pieces
from tests.support.protocols.wire_contracts import new_link, sent_to

from postern.interception.events import Event, Output, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Verdict
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.mssql.wire.mssql_wire import MssqlWire

COLUMNS = ms.columns(ms.column("a", ms.INTN), ms.column("b", ms.text_type(300)), ms.column("c", ms.text_type(0)))
MASK = "*" * 30


@dataclass(frozen=True)
class Part:
    """Tokens of the target, and what a client gets of them if texts that begin with `s` are masked."""

    sent: bytes
    shown: bytes


def _masked(text: str | None) -> str | None:
    return MASK if text is not None and text.startswith("s") else text


def _row(number: int | None, short: str | None, long: str | None, has_bits: bool) -> bytes:
    if not has_bits:
        return ms.row(
            ms.intn_cell(number), ms.text_cell(short), b"\xff" * 8 if long is None else ms.max_cell(long, 1 << 20)
        )
    cells = [
        (number, ms.intn_cell(number)),
        (short, ms.text_cell(short)),
        (long, ms.max_cell(long or "", 1 << 20)),
    ]
    nulls = [at for at, (value, _) in enumerate(cells) if value is None]
    return ms.null_row(nulls, 3, *[cell for value, cell in cells if value is not None])


TEXTS = st.sampled_from([None, "", "x", "s", "s😀", "ä" * 40, "s" + "y" * 200, "x" * 300])


@st.composite
def rows(draw: st.DrawFn) -> Part:
    sent = [COLUMNS]
    shown = [COLUMNS]
    for _ in range(draw(st.integers(0, 4))):
        number = draw(st.none() | st.integers(-9, 9))
        short, long, bits = draw(TEXTS), draw(TEXTS), draw(st.booleans())
        sent.append(_row(number, short, long, bits))
        shown.append(_row(number, _masked(short), _masked(long), bits))
    end = ms.done(len(sent) - 1, more=True)
    return Part(b"".join(sent) + end, b"".join(shown) + end)


@st.composite
def messages(draw: st.DrawFn) -> Part:
    text = draw(st.sampled_from(["", "x", "s", "s" * 200]))
    return Part(ms.info(text), ms.info(_masked(text) or ""))


HIDDEN = st.just(Part(ms.environment(20, b"\x02\0xx", b"\0\0"), b""))
ANSWERS = st.lists(rows() | messages() | HIDDEN, max_size=4)


@st.composite
def packets(draw: st.DrawFn, tokens: bytes) -> bytes:
    """Tokens in packets of any size, as servers that send what they have."""
    out: list[bytes] = []
    pos = 0
    sizes = draw(st.lists(st.sampled_from([1, 0, 2, 7, 60, 503, 504]), min_size=1, max_size=6))
    while pos < len(tokens):
        size = sizes[len(out) % len(sizes)] if any(sizes) else 504
        end = pos + size >= len(tokens)
        out.append(p.packet(p.REPLY, tokens[pos : pos + size], p.EOM if end else 0, len(out) + 1))
        pos += size
    return b"".join(out)


class _Masks:
    name = "test"
    wants: frozenset[type[Event]] = frozenset({Rows, Output})
    batch_need = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        changed = False
        if isinstance(event, Rows):
            for column in range(len(event.columns)):
                changed |= self._mask(event.texts(column), lambda texts, at=column: event.replace(at, texts))
        elif isinstance(event, Output):
            changed = self._mask(event.texts(), event.replace)
        return REPLACE if changed else FORWARD

    def _mask(self, texts: list[bytes], replace: object) -> bool:
        new = [MASK.encode() if text.startswith(b"s") else text for text in texts]
        if new != texts:
            replace(new)  # type: ignore[operator]
        return new != texts


@given(st.data())
def test_client_gets_exactly_the_tokens_that_it_should(data: st.DataObject) -> None:
    parts = data.draw(ANSWERS)
    tokens = b"".join([part.sent for part in parts]) + ms.done()
    stream = data.draw(packets(tokens))
    masks = data.draw(st.booleans())
    link = new_link(MssqlWire(parameters={"packet_size": "512"}), *([_Masks()] if masks else []))
    link.receive(CLIENT, ms.batch("select"))
    sent = b""
    for piece in pieces(stream, data.draw(st.sampled_from([0, 1, 7, 100, 513]))):
        sent += sent_to(CLIENT, link.receive(TARGET, piece))
    (message,) = p.TdsMessages(1 << 20).feed(sent)
    if masks:
        assert message.payload == b"".join([part.shown for part in parts]) + ms.done()
    else:
        assert message.payload.replace(ms.environment(20, b"\x02\0xx", b"\0\0"), b"") == message.payload
        assert message.payload == tokens.replace(ms.environment(20, b"\x02\0xx", b"\0\0"), b"")
    assert max(len(each.payload) for each in p.TdsPackets().feed(sent)) <= 504
    assert not link.awaiting_response
    assert link.receive(CLIENT, ms.batch("again"))
