"""Playbooks: scripts of a link in both directions, replayed with the input cut in every way.

    with Playbook(new_link) as play:
        play >> from_client(query)            # what a side sends
        play << record(operation)             # … and what must come of it, up to the next `>>`
        play << to_target(query)
        play >> from_target(answer)
        play << record(completed) << to_client(answer)

At the end of the `with` the script is replayed with each input whole and in pieces of 1, 2, 3, 7 and 64 bytes.
However it is cut, each step must have the same effects: the bytes sent to each side, joined; the events recorded,
`ClientOutput` aside; parks and closes. One difference is allowed: where input is cut, the preparation of a statement
may be recorded beside its run, because it is forwarded before the run is known.

On top of that, every script is held to the rules of the record:

- what the client is sent was recorded as `ClientOutput` before, byte for byte and in order;
- an operation is recorded before any byte goes to the target that was sent for it;
- a playbook ends with nothing owed: an answer still due or a parked link is an error unless `play.leave()` says so.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeGuard

from postern.interception.events import RUN, ClientOutput, Completed, Event, Operation
from postern.interception.pipeline import Pipeline
from postern.interception.verdicts import Verdict
from postern.protocols.wire_base import Side
from postern.relay.link import Close, Effect, HoldEffect, Link, Record, Send

# Sizes of the pieces that inputs are cut in; 0 is uncut.
CHUNKS = (0, 1, 2, 3, 7, 64)


class PlaybookError(AssertionError):
    """A script and a link disagree, or the script is not whole."""


@dataclass(frozen=True, slots=True)
class From:
    """`side` sends `data`."""

    side: Side
    data: bytes


@dataclass(frozen=True, slots=True)
class To:
    """`side` is sent `data`. Neighbours are joined, so where one message ends is no part of a script."""

    side: Side
    data: bytes


@dataclass(frozen=True, slots=True)
class Does:
    """Anything else that happens to a link: a resume, a renewal, an end. `what` names it in a diff."""

    what: str
    act: Callable[[Link], list[Effect]]


Input = From | Does
Expected = To | Event | HoldEffect | Close


def from_client(*data: bytes) -> From:
    return From(Side.CLIENT, b"".join(data))


def from_target(*data: bytes) -> From:
    return From(Side.TARGET, b"".join(data))


def to_client(*data: bytes) -> To:
    return To(Side.CLIENT, b"".join(data))


def to_target(*data: bytes) -> To:
    return To(Side.TARGET, b"".join(data))


def record(event: Event) -> Event:
    """`event` is recorded. A `Completed` is compared without its duration."""
    return event


def resume(ticket: str, verdict: Verdict) -> Does:
    return Does(f"resume {ticket!r} with {verdict}", lambda link: link.resume(ticket, verdict))


def renew(pipeline: Pipeline) -> Does:
    """Another policy from here on."""

    def act(link: Link) -> list[Effect]:
        link.renew(pipeline)
        return []

    return Does("renew the policy", act)


def client_finishes() -> Does:
    return Does("the client sends no more", lambda link: link.client_finished())


def pause() -> Does:
    """The client sends nothing for longer than the rest of an incomplete batch is waited for."""
    return Does("the client pauses", lambda link: link.flush() if link.open_batch else [])


def target_finishes() -> Does:
    return Does("the target is gone", lambda link: link.target_finished())


@dataclass(slots=True)
class _Step:
    input: Input
    expected: list[Expected] = field(default_factory=list)


@dataclass(slots=True)
class StepOutcome:
    """What one step brought about, in a form that does not depend on how its input was cut."""

    to_client: bytes = b""
    to_target: bytes = b""
    events: list[Event] = field(default_factory=list)
    others: list[HoldEffect | Close] = field(default_factory=list)

    def add(self, effect: Effect | To | Event) -> None:
        if isinstance(effect, Send | To):
            if effect.side is Side.CLIENT:
                self.to_client += effect.data
            else:
                self.to_target += effect.data
        elif isinstance(effect, Record):
            self.events += [_timeless(event) for event in effect.events if not isinstance(event, ClientOutput)]
        elif isinstance(effect, Event):
            self.events.append(_timeless(effect))
        else:
            self.others.append(Close(effect.reason) if isinstance(effect, Close) else effect)

    def without_prepared(self) -> StepOutcome:
        """The same without preparations of statements that run in this step."""
        runs = {(event.exchange, event.text) for event in self.events if _is_run(event)}
        events = [
            event
            for event in self.events
            if not isinstance(event, Operation) or _is_run(event) or (event.exchange, event.text) not in runs
        ]
        return StepOutcome(self.to_client, self.to_target, events, self.others)

    def lines(self, show: Callable[[Side, bytes], list[str]]) -> Iterator[str]:
        for event in self.events:
            yield f"record {event}"
        for line in show(Side.CLIENT, self.to_target):
            yield f"to target: {line}"
        for line in show(Side.TARGET, self.to_client):
            yield f"to client: {line}"
        for other in self.others:
            yield str(other)


class OrderCheck:
    """Holds a stream of effects to the rules of the record. Raises PlaybookError. `carries`: some of what the client is
    sent is a file's, which a recording does not hold."""

    def __init__(self, *, carries: bool = False) -> None:
        self._shown = b""
        self._carries = carries

    def check(self, effects: list[Effect]) -> None:
        """The effects of one call."""
        forwarded = False
        for effect in effects:
            if isinstance(effect, Record):
                for event in effect.events:
                    if isinstance(event, ClientOutput):
                        self._shown += event.data
                    elif isinstance(event, Operation) and forwarded:
                        raise PlaybookError(f"{event} is recorded after bytes were sent to the target")
            elif isinstance(effect, Send) and effect.side is Side.TARGET:
                forwarded = True
            elif isinstance(effect, Send) and self._carries:
                self._shown = b""
            elif isinstance(effect, Send):
                if not self._shown.startswith(effect.data):
                    raise PlaybookError(f"the client is sent {effect.data!r}, recorded was {self._shown!r}")
                self._shown = self._shown[len(effect.data) :]
        if self._shown:
            raise PlaybookError(f"recorded as shown, but not sent: {self._shown!r}")


class Playbook:
    """One script. `new_link` makes a fresh link for every replay; `show` renders what a side said, for the diff."""

    def __init__(
        self,
        new_link: Callable[[], Link],
        *,
        show: Callable[[Side, bytes], list[str]] | None = None,
        chunks: tuple[int, ...] = CHUNKS,
    ) -> None:
        self._new_link = new_link
        self._show = show or _plain
        self._chunks = chunks
        self._steps: list[_Step] = []
        self._open = False
        self._may_owe = False

    def __enter__(self) -> Playbook:
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        if kind is None:
            self.run()

    def __rshift__(self, given: Input) -> Playbook:
        self._writable()
        self._steps.append(_Step(given))
        return self

    def __lshift__(self, expected: Expected) -> Playbook:
        self._writable()
        if not self._steps:
            raise PlaybookError("a playbook begins with `>>`: something must be sent before anything can be expected")
        self._steps[-1].expected.append(expected)
        return self

    def forwarded(self) -> Playbook:
        """The bytes of the last `>>` reach the other side as they are."""
        given = self._steps[-1].input
        if not isinstance(given, From):
            raise PlaybookError("only what a side sends can be forwarded")
        return self << To(Side.TARGET if given.side is Side.CLIENT else Side.CLIENT, given.data)

    def leave(self) -> None:
        """This script ends in the middle on purpose."""
        self._may_owe = True

    def run(self) -> None:
        if not self._steps:
            raise PlaybookError("this playbook is empty")
        for size in self._chunks:
            self._replay(size)

    def _writable(self) -> None:
        if not self._open:
            raise PlaybookError("a playbook is written inside its `with` block, at whose end it runs")

    def _replay(self, size: int) -> None:
        link = self._new_link()
        order = OrderCheck()
        closed = False
        for number, step in enumerate(self._steps, 1):
            wanted, found = StepOutcome(), StepOutcome()
            for expected in step.expected:
                wanted.add(expected)
            for effects in _apply(link, step.input, size):
                order.check(effects)
                for effect in effects:
                    found.add(effect)
                    closed = closed or isinstance(effect, Close)
            if size:
                wanted, found = wanted.without_prepared(), found.without_prepared()
            if wanted != found:
                raise PlaybookError(self._difference(number, size, wanted, found))
        if (link.awaiting_response or link.held_request) and not closed and not self._may_owe:
            owed = "a request is parked" if link.held_request else "an answer is due"
            raise PlaybookError(f"the playbook is not finished: {owed}")

    def _difference(self, number: int, size: int, wanted: StepOutcome, found: StepOutcome) -> str:
        given = self._steps[number - 1].input
        text = (
            given.what if isinstance(given, Does) else f"{given.side.value} sends {self._show(given.side, given.data)}"
        )
        cut = f"in pieces of {size}" if size else "whole"
        lines = difflib.unified_diff(
            list(wanted.lines(self._show)), list(found.lines(self._show)), "expected", "happened", lineterm="", n=99
        )
        return f"step {number}, {cut}: {text}\n" + "\n".join(lines)


def _apply(link: Link, given: Input, size: int) -> Iterator[list[Effect]]:
    if isinstance(given, Does):
        yield given.act(link)
        return
    for piece in pieces(given.data, size):
        yield link.receive(given.side, piece)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """`data` in pieces of `size` bytes; whole for 0."""
    step = size or max(len(data), 1)
    for start in range(0, len(data), step):
        yield data[start : start + step]


def _is_run(event: Event) -> TypeGuard[Operation]:
    return isinstance(event, Operation) and event.phase is RUN


def _timeless(event: Event) -> Event:
    """Durations are nobody's promise."""
    if isinstance(event, Completed):
        return Completed(event.exchange, event.tag, event.rows, event.error_code, event.error)
    return event


def _plain(side: Side, data: bytes) -> list[str]:
    return [repr(data)] if data else []
