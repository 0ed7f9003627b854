"""Links of the PostgreSQL protocol without a network, and the small interceptors that tests judge with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from tests.support.protocols import postgres_test_messages as pg
from tests.support.protocols.playbook import Playbook

from postern.interception.events import Event, Operation, Output, Phase, Refusal, Rows, TextKind
from postern.interception.pipeline import BatchNeed, Interceptor, Pipeline, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Warn
from postern.protocols.postgres.wire import postgres_wire as wire
from postern.protocols.postgres.wire.postgres_wire import PostgresWire
from postern.relay.link import Link

COMPILED = not str(wire.__file__).endswith(".py")
interpreted_only = pytest.mark.skipif(COMPILED, reason="a compiled class has no interpreted subclasses")

SECRET = re.compile(rb"secret-\d+")
MASK = b"***"
DROP_MESSAGE = "the word drop is not allowed"


@dataclass
class Words:
    """Refuses operations in whose text or values the word stands."""

    word: str = "drop"
    name: str = "words"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.DENY

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        texts = [event.text.encode(), *[value for value in event.values if value is not None]]
        if event.truncated or any(self.word.encode() in text for text in texts):
            return Refuse(self.name, f"the word {self.word} is not allowed")
        return FORWARD


@dataclass
class Warns:
    """Warns of operations and answers in whose text the word stands, also of what is only prepared."""

    word: str = "careful"
    name: str = "warns"
    wants: frozenset[type[Event]] = frozenset({Operation, Rows, Output})
    batch_need: BatchNeed = BatchNeed.DENY

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            texts = [event.text.encode()]
        elif isinstance(event, Rows):
            texts = [text for column in range(len(event.columns)) for text in event.texts(column)]
        else:
            assert isinstance(event, Output)
            texts = event.texts()
        if any(self.word.encode() in text for text in texts):
            return Warn(self.name, f"mind the word {self.word}", "Mind it.")
        return FORWARD


@dataclass
class Asks:
    """Holds operations with the word in their text."""

    word: str = "review"
    ticket: str = "t1"
    name: str = "asks"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.REVIEW

    def see(self, event: Event, session: SessionView) -> Verdict:
        assert isinstance(event, Operation)
        return Hold(self.ticket, f"may {event.text} run?") if self.word in event.text else FORWARD


@dataclass
class Masks:
    """Puts three stars over every secret, as masking does: zeros in numbers, a null address in addresses."""

    name: str = "masks"
    wants: frozenset[type[Event]] = frozenset({Rows, Output})
    batch_need: BatchNeed = BatchNeed.NONE
    seen: list[bytes] = field(default_factory=list)

    def see(self, event: Event, session: SessionView) -> Verdict:
        changed = False
        if isinstance(event, Rows):
            for index, column in enumerate(event.columns):
                texts = event.texts(index)
                self.seen += texts
                masked = [self._mask(text, column.kind) for text in texts]
                if masked != texts:
                    event.replace(index, masked)
                    changed = True
        elif isinstance(event, Output):
            texts = event.texts()
            self.seen += texts
            masked = [self._mask(text, TextKind.TEXT) for text in texts]
            if masked != texts:
                event.replace(masked)
                changed = True
        return REPLACE if changed else FORWARD

    def _mask(self, text: bytes, kind: TextKind) -> bytes:
        if kind is TextKind.NUMBER:
            return re.sub(rb"\d", b"0", text) if b"4242" in text else text
        if kind is TextKind.ADDRESS:
            return b"::" if b":" in text else b"0.0.0.0"
        return SECRET.sub(MASK, text)


@dataclass
class Withholds:
    """Refuses answers that hold a secret."""

    name: str = "withholds"
    wants: frozenset[type[Event]] = frozenset({Rows, Output})
    batch_need: BatchNeed = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Rows):
            texts = [text for index in range(len(event.columns)) for text in event.texts(index)]
        else:
            assert isinstance(event, Output)
            texts = event.texts()
        return Refuse(self.name, "a secret is not shown") if any(SECRET.search(text) for text in texts) else FORWARD


@dataclass
class ReadsAll:
    """Wants everything and lets it pass."""

    name: str = "looks"
    wants: frozenset[type[Event]] = frozenset({Operation, Rows, Output})
    batch_need: BatchNeed = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Rows):
            for index in range(len(event.columns)):
                event.texts(index)
        elif isinstance(event, Output):
            event.texts()
        return FORWARD


@dataclass
class Breaks:
    """Raises, whatever it sees."""

    name: str = "breaks"
    wants: frozenset[type[Event]] = frozenset({Operation, Rows, Output})
    batch_need: BatchNeed = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        raise RuntimeError("out of order")


def pipeline(*interceptors: Interceptor) -> Pipeline:
    view = SessionView(UUID(int=1), "ada@example.com", frozenset(), "shop", "database", "postgres", {})
    return Pipeline(interceptors, view)


def links(*interceptors: Interceptor, max_message: int = 1 << 20, max_batch: int = 1 << 20) -> Callable[[], Link]:
    """Makes links that all have these interceptors, and a clock that stands still."""
    return lambda: Link(
        PostgresWire(max_message=max_message, max_batch=max_batch), pipeline(*interceptors), clock=lambda: 0
    )


def playbook(*interceptors: Interceptor, max_message: int = 1 << 20, max_batch: int = 1 << 20) -> Playbook:
    return Playbook(links(*interceptors, max_message=max_message, max_batch=max_batch), show=pg.show)


def operation(exchange: int, text: str, *values: bytes | None, truncated: bool = False) -> Operation:
    return Operation(exchange, text, Phase.RUN, values, truncated)


def prepare(exchange: int, text: str) -> Operation:
    return Operation(exchange, text, Phase.PREPARE)


def refusal(exchange: int, rule: str = "words", message: str = DROP_MESSAGE) -> Refusal:
    return Refusal(exchange, rule, message)


def refused(message: str = DROP_MESSAGE, severity: str = "ERROR") -> bytes:
    """The error that a client gets for a refusal."""
    return pg.error(message, "42501", severity)
