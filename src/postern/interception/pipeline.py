"""Ordered, synchronous chain of interceptors between a link and its policy. It fails closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, Protocol
from uuid import UUID

from postern.domain.targets.target_schema import TargetSchema
from postern.interception.events import Event, Mark, Note, Operation
from postern.interception.verdicts import FORWARD, REPLACE, Forward, Hold, Refuse, Replace, Verdict, Warn

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Metrics:
    """Counters of one session, as `Session.metrics` shows them.

    `not_inspected` counts answers that could not be inspected, whether they were denied or passed on. The last two are
    the bytes read from each side.
    """

    info_types: dict[str, int] = field(default_factory=dict)
    transformed_bytes: int = 0
    refused: int = 0
    warned: int = 0
    operations: int = 0
    not_inspected: int = 0
    client_bytes: int = 0
    target_bytes: int = 0

    def count(self, info_type: str, hits: int) -> None:
        self.info_types[info_type] = self.info_types.get(info_type, 0) + hits


# (action, rule, message, operations: none for an answer)
Violated = Callable[[Literal["deny", "warn", "review"], str, str, Sequence[Operation]], None]


# Characters per read that are parsed on the event loop, and the fixed cost of each statement in the same unit.
AT_ONCE: Final = 2 * 1024
_EACH: Final = 64


@dataclass(slots=True)
class SessionView:
    """What interceptors can read and write of the session.

    - `metrics`: counters that they raise.
    - `notes`: markers that they leave in the recording.
    - `marks`: what they have masked in the answer that is being judged.
    - `schema`: the target's catalogue; None if no rule needs it or it could not be read. Replaced when it is outdated.
    - `carried_over`: state, by name, that interceptors leave for their successors when the policy is reloaded.
    - `on_violation`: called for each rule that was violated.
    - `resolve_name`: returns the statements that passed and that a text can run by name.
    """

    id: UUID
    user: str
    groups: frozenset[str]
    connection: str
    connection_type: str
    connection_subtype: str
    connection_tags: Mapping[str, str]
    metrics: Metrics = field(default_factory=Metrics)
    notes: list[Note] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    schema: TargetSchema | None = None
    carried_over: dict[str, object] = field(default_factory=dict)
    on_violation: Violated | None = None
    resolve_name: Callable[[str], Sequence[str]] | None = None
    parsed: int = 0  # characters since the last read

    def may_parse(self, size: int) -> bool:
        """Return whether this many more characters can be parsed on the event loop before others get their turn."""
        if self.parsed + size > AT_ONCE:
            return False
        self.parsed += size + _EACH
        return True


class BatchNeed(Enum):
    """How much of a batch an interceptor must see before any of it is forwarded.

    A batch is what a client sends up to the point where the target's implicit transaction ends, such as the messages up
    to a Sync. The members are ordered: the greatest need of all interceptors applies.
    """

    NONE = 0  # nothing: each request is judged alone, on arrival
    DENY = 1  # if a request is denied, nothing of its batch should have run; otherwise the batch must fail
    REVIEW = 2  # no request can wait for a review after a part of its batch has run


class Interceptor(Protocol):
    """Judge of events. `wants` and `batch_need` are read once, when the pipeline is built; `see` receives only wanted
    events.
    """

    @property
    def name(self) -> str: ...

    @property
    def wants(self) -> frozenset[type[Event]]: ...

    @property
    def batch_need(self) -> BatchNeed: ...

    def see(self, event: Event, session: SessionView) -> Verdict: ...


class Pipeline:
    """Asks the interceptors that want an event: about answers in order, about operations in the opposite order. So the
    first one sees only operations that all others let pass. The first refusal decides.

    A hold takes effect only after the remaining interceptors were asked, so that reviewers never decide on an event
    that is denied anyway. Once the hold is decided, `judge` is called again with `first` set after `held_at`, the
    interceptor that held, so those after it are asked twice. Of several warnings the first counts.
    """

    __slots__ = ("_chains", "batch_need", "held_at", "session", "wants")

    def __init__(self, interceptors: Sequence[Interceptor], session: SessionView) -> None:
        chains: dict[type[Event], list[Interceptor]] = {}
        for interceptor in interceptors:
            for kind in interceptor.wants:
                chains.setdefault(kind, []).append(interceptor)
        self._chains = {kind: tuple(reversed(chain) if kind is Operation else chain) for kind, chain in chains.items()}
        self.session = session
        self.wants: frozenset[type[Event]] = frozenset(chains)
        self.batch_need = BatchNeed.NONE
        for interceptor in interceptors:
            if interceptor.batch_need.value > self.batch_need.value:
                self.batch_need = interceptor.batch_need
        self.held_at = 0

    def judge(self, event: Event, kind: type[Event], first: int = 0) -> Verdict:
        """Return the verdict on an event.

        `kind` is the declared event class: Operation, Rows, Heading, Output or Summary. Interceptors before `first` are
        skipped.
        """
        outcome: Verdict = FORWARD
        hold: Hold | None = None
        warning: Warn | None = None
        chain = self._chains.get(kind, ())
        for place in range(first, len(chain)):
            interceptor = chain[place]
            try:
                verdict = interceptor.see(event, self.session)
            except Exception:
                log.exception("interceptor %s failed; the event is denied", interceptor.name)
                return Refuse(
                    rule=interceptor.name,
                    message=f"{interceptor.name} failed to evaluate this, so it was denied",
                    hint="Ask an administrator to check the gateway's log.",
                )
            if isinstance(verdict, Forward):
                continue
            if isinstance(verdict, Replace):
                outcome = REPLACE
                continue
            if isinstance(verdict, Hold):
                if hold is None:
                    hold = verdict
                    self.held_at = place
                continue
            if isinstance(verdict, Warn):
                if warning is None:
                    warning = verdict
                continue
            return verdict
        if hold is not None:
            return hold
        return outcome if warning is None or (outcome is REPLACE and kind is Operation) else warning
