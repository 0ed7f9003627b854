"""Random conversations with a small model of the backend, with random mixes, chunks and timing.

    client bytes ─▶ link ─▶ backend ─▶ link ─▶ output to the client

The output of the gateway is compared with the answers of the model alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.backend import Backend
from tests.support.examples import examples
from tests.support.links import Asks, Masks, ReadsAll, Words, links, refused
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import OrderCheck

from postern.interception.pipeline import Interceptor
from postern.interception.verdicts import FORWARD, Refuse
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, Link, Send

GOOD = st.sampled_from(["rows 0", "rows 1", "rows 3", "insert", "begin", "commit", "rollback", "copy out", "", "bad"])
TEXTS = st.one_of(GOOD, st.just("insert drop"))
NAMES = st.sampled_from(["", "a", "b"])
SEEDS = st.integers(0, 2**32)


def messages(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """One message of the extended protocol, or a usual few."""
    return st.one_of(
        st.builds(pg.parse, texts, NAMES),
        st.builds(pg.bind, NAMES, NAMES),
        st.builds(pg.describe_statement, NAMES),
        st.builds(pg.describe_portal, NAMES),
        st.builds(pg.execute, NAMES, st.sampled_from([0, 1, 2])),
        st.builds(pg.close_statement, NAMES),
        st.builds(pg.close_portal, NAMES),
        texts.map(lambda text: pg.parse(text) + pg.bind() + pg.execute()),
        texts.map(lambda text: pg.parse(text) + pg.bind() + pg.describe_portal() + pg.execute("", 1) + pg.execute()),
    )


def batches(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return st.lists(messages(texts), max_size=4).map(lambda parts: b"".join(parts) + pg.sync())


def requests(texts: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """One request of a client, answered by exactly one ReadyForQuery."""
    simple = st.lists(texts, min_size=1, max_size=3).map(lambda parts: pg.query(";".join(parts)))
    calls = st.sampled_from([pg.function_call(7, ["x", None]), pg.function_call(8)])
    copies = st.sampled_from([
        pg.query("copy in") + pg.copy_data("1\n") + pg.copy_data("2\n") + pg.copy_done(),
        pg.query("rows 1;copy in;rows 1") + pg.copy_data("1\n") + pg.copy_fail("no"),
    ])  # fmt: skip
    return st.one_of(simple, batches(texts), batches(texts), calls, copies)


# The statement and the portal are closed, so that no later Execute copies without data.
EXTENDED_COPY = [
    *(pg.parse("copy in"), pg.bind(), pg.execute(), pg.sync()),
    *(pg.copy_data("1\n"), pg.copy_done(), pg.sync()),
    *(pg.close_portal(), pg.close_statement(), pg.sync()),
]
WILD = st.one_of(
    requests(GOOD),
    messages(GOOD),
    st.just(pg.query("copy in;rows 1") + pg.copy_data("1\n") + pg.sync() + pg.flush() + pg.copy_done()),
    st.sampled_from([pg.flush(), pg.sync(), pg.query("rows 2"), pg.copy_data("stray"), pg.copy_done()]),
    st.just(b"".join(EXTENDED_COPY)),
)


@dataclass
class World:
    """A link between a script and a backend, with bytes on their way in both directions, cut and timed by `random`."""

    link: Link
    random: Random
    backend: Backend = field(default_factory=Backend)
    order: OrderCheck = field(default_factory=OrderCheck)
    seen: bytes = b""  # by the client
    heard: bytes = b""  # by the backend
    closed: bool = False
    held: bool = False  # behind a part of its own batch that has run
    _to_backend: bytes = b""
    _answers: bytes = b""

    def converse(self, data: bytes) -> None:
        """Until everything that `data` brings about has happened."""
        while data or self._to_backend or self._answers:
            way = self.random.choice("cba")
            if way == "c" and data:
                piece, data = self._cut(data)
                self._perform(self.link.receive(Side.CLIENT, piece))
            elif way == "b" and self._to_backend:
                piece, self._to_backend = self._cut(self._to_backend)
                self._answers += self.backend.feed(piece)
            elif way == "a" and self._answers:
                piece, self._answers = self._cut(self._answers)
                self._perform(self.link.receive(Side.TARGET, piece))

    def pause(self) -> None:
        """The client sends nothing for a while."""
        if self.link.open_batch:
            self._perform(self.link.flush())
        self.converse(b"")

    def decide(self) -> None:
        """Resolve the held requests, one after the other."""
        while self.link.held_request is not None:
            self.held = self.held or (self.backend.has_run and not self.backend.skipping)
            verdict = self.random.choice([FORWARD, FORWARD, Refuse("asks", "no")])
            self._perform(self.link.resume(self.link.held_request.ticket, verdict))
            self.converse(b"")

    def _cut(self, data: bytes) -> tuple[bytes, bytes]:
        size = self.random.choice([1, 2, 5, 13, 64, len(data), len(data)])
        return data[:size], data[size:]

    def _perform(self, effects: list[Effect]) -> None:
        self.order.check(effects)
        for effect in effects:
            if isinstance(effect, Send) and effect.side is Side.TARGET:
                self.heard += effect.data
                self._to_backend += effect.data
            elif isinstance(effect, Send):
                self.seen += effect.data
            elif isinstance(effect, Close):
                self.closed = True


def world(random: Random, *interceptors: Interceptor) -> World:
    return World(links(*interceptors)(), random)


def count_ready(data: bytes) -> int:
    return sum(tag == b"Z" for tag, _ in pg.split(data))


@given(st.lists(WILD, max_size=8), SEEDS, st.booleans())
@settings(max_examples=examples(400), deadline=None)
def test_forwarded_conversation_is_byte_for_byte_unchanged(parts: list[bytes], seed: int, looked_at: bool) -> None:
    data = b"".join(parts) + pg.flush()
    alone = Backend()
    expected = alone.feed(data)
    through = world(Random(seed), *([ReadsAll(wants=frozenset(Words().wants))] if looked_at else []))
    through.converse(data)
    assert not through.closed
    assert through.heard == data
    assert through.seen == expected
    assert through.link.awaiting_response == (not through.backend.idle and through.backend._copying is not None)


@given(st.lists(requests(TEXTS), max_size=8), SEEDS)
@settings(max_examples=examples(400), deadline=None)
def test_denied_requests_are_answered_in_order_and_do_not_reach_the_target(parts: list[bytes], seed: int) -> None:
    alone = Backend()
    expected = b""
    for part in parts:
        refusing = b"drop" in part
        expected += refused() + pg.ready(alone.status) if refusing else alone.feed(part)
    through = world(Random(seed), Words())
    through.converse(b"".join(parts))
    assert not through.closed
    assert b"drop" not in through.heard
    assert through.seen == expected
    assert not through.link.awaiting_response
    assert through.backend.committed == alone.committed


@given(st.lists(requests(GOOD), max_size=8), SEEDS)
@settings(max_examples=examples(400), deadline=None)
def test_masking_replaces_every_secret_and_changes_nothing_else(parts: list[bytes], seed: int) -> None:
    data = b"".join(parts)
    expected = Backend(secret="***").feed(data)
    through = world(Random(seed), Masks())
    through.converse(data)
    assert not through.closed
    assert through.seen == expected
    assert not through.link.awaiting_response


FLUSHED = st.lists(st.lists(messages(TEXTS), max_size=3).map(b"".join), min_size=1, max_size=3).map(
    lambda parts: pg.flush().join(parts) + pg.sync()
)


@given(st.lists(st.one_of(FLUSHED, requests(TEXTS)), max_size=6), SEEDS, st.booleans())
@settings(max_examples=examples(400), deadline=None)
def test_flushed_batch_has_one_ready_and_commits_nothing_if_denied(parts: list[bytes], seed: int, masked: bool) -> None:
    through = world(Random(seed), Words(), *([Masks()] if masked else []))
    for part in parts:
        before = through.backend.status
        committed = len(through.backend.committed)
        through.converse(part)
        assert count_ready(through.seen) == sum(tag in (b"S", b"Q", b"F") for tag, _ in pg.split(part))
        if b"drop" in part and before == b"I" and b"begin" not in part and b"commit" not in part:
            assert len(through.backend.committed) == committed
            assert any(tag == b"E" for tag, _ in pg.split(through.seen))
        through.seen = b""
        assert not through.link.awaiting_response
    assert not through.closed
    assert b"drop" not in through.heard


# A batch that comes in parts: some messages, and what follows them. None is a pause.
PARTS = st.lists(
    st.tuples(
        st.lists(messages(TEXTS), max_size=3).map(b"".join),
        st.one_of(
            st.none(),
            st.none(),
            st.sampled_from([pg.flush(), pg.sync(), pg.sync(), pg.function_call(7)]),
            TEXTS.map(pg.query),
        ),
    ),
    max_size=10,
)


class Oracle:
    """Models the answers to a client without the gateway, except for denials. Each fails the target's transaction as an
    error of the target's own would, if the target has run a part of the batch, and leaves it as it is otherwise."""

    def __init__(self, secret: str) -> None:
        self.backend = Backend(secret=secret)
        self._dropping = False
        self._has_part = False
        self._has_run = False

    def see(self, part: bytes, end: bytes | None) -> bytes:
        tag = b"" if end is None else end[:1]
        whole = part + (end or b"")
        if self._dropping:
            return self._synced() if tag == b"S" else b""
        if b"drop" not in whole:
            seen = self.backend.feed(whole)
            self._has_run = self._has_run or any(sent == b"E" for sent, _ in pg.split(part))
            self._has_part = self._has_part or bool(whole)
            if tag in (b"S", b"Q", b"F"):
                self._has_part = self._has_run = False
            return seen
        seen = b"" if self.backend.skipping else refused()
        if tag in (b"Q", b"F"):
            return seen + self._ended_by_query()
        if self._has_run:
            self.backend.feed(pg.parse("refused"))
        self._dropping = True
        return seen + (self._synced() if tag == b"S" else b"")

    def _synced(self) -> bytes:
        in_part = self._has_part or self.backend.skipping
        self._dropping = self._has_part = self._has_run = False
        return self.backend.feed(pg.sync()) if in_part else pg.ready(self.backend.status)

    def _ended_by_query(self) -> bytes:
        in_part = self._has_part or self.backend.skipping
        self._has_part = self._has_run = False
        if not in_part:
            return pg.ready(self.backend.status)
        return pg.ready(self.backend.status) if self.backend.feed(pg.query("refused")) else b""


@given(PARTS, SEEDS, st.booleans())
@settings(max_examples=examples(1000), deadline=None)
def test_batch_sent_in_parts_is_answered_as_by_the_target_except_for_denials(
    parts: list[tuple[bytes, bytes | None]], seed: int, masked: bool
) -> None:
    oracle = Oracle("***" if masked else "secret-1")
    through = world(Random(seed), Words(), *([Masks()] if masked else []))
    expected = b""
    for part, end in [*parts, (b"", pg.sync())]:
        expected += oracle.see(part, end)
        through.converse(part + (end or b""))
        if end is None:
            through.pause()
    assert not through.closed
    assert b"drop" not in through.heard
    assert through.seen == expected
    assert through.backend.committed == oracle.backend.committed
    assert not through.link.awaiting_response


@given(PARTS, SEEDS)
@settings(max_examples=examples(400), deadline=None)
def test_no_statement_is_held_for_review_after_a_part_of_its_batch_has_run(
    parts: list[tuple[bytes, bytes | None]], seed: int
) -> None:
    through = world(Random(seed), Asks("drop"))
    for part, end in [*parts, (b"", pg.sync())]:
        through.converse(part + (end or b""))
        through.decide()
        if end is None:
            through.pause()
            through.decide()
    assert not through.closed
    assert not through.held
    assert not through.link.awaiting_response


@given(st.binary(max_size=200), st.sampled_from(list(Side)), SEEDS)
@settings(max_examples=examples(400), deadline=None)
def test_random_bytes_neither_raise_nor_are_forwarded(data: bytes, side: Side, seed: int) -> None:
    link, random = links(ReadsAll())(), Random(seed)
    link.receive(Side.CLIENT, pg.query("rows 1") + pg.parse("rows 1") + pg.sync())
    passed = b""
    while data:
        size = random.choice([1, 3, 50])
        for effect in link.receive(side, data[:size]):
            if isinstance(effect, Send) and effect.side is not side:
                passed += effect.data
        data = data[size:]
    understood = pg.split(passed.split(b"SFATAL")[0])
    assert all(
        tag in b"BCdcfDEHFPQSX" if side is Side.CLIENT else tag in b"123CdcGHDIEVnNAtSsZT" for tag, _ in understood
    )
