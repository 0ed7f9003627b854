"""The ordered, synchronous, fail-closed chain between a link and its interceptors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, Protocol
from uuid import UUID

from postern.domain.targets.target_schema import TargetSchema
from postern.interception.events import Event, Note, Operation
from postern.interception.verdicts import FORWARD, REPLACE, Forward, Hold, Refuse, Replace, Verdict, Warn

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Metrics:
    """Counters of one session, as `Session.metrics` shows them. `not_inspected`: answers that could not be, whether
    they were refused or passed on."""

    info_types: dict[str, int] = field(default_factory=dict)
    transformed_bytes: int = 0
    refused: int = 0
    warned: int = 0
    operations: int = 0
    not_inspected: int = 0

    def count(self, info_type: str, hits: int) -> None:
        self.info_types[info_type] = self.info_types.get(info_type, 0) + hits


# (what became of it, rule, message, what was asked: nothing for an answer)
Violated = Callable[[Literal["deny", "warn", "review"], str, str, Sequence[Operation]], None]


# Characters that are parsed on the event loop for all that one read brings, with what each statement takes besides.
AT_ONCE: Final = 2 * 1024
_EACH: Final = 64


@dataclass(slots=True)
class SessionView:
    """What an interceptor may know of the session, the counters it may raise, and the markers that it leaves in the
    recording. `schema` is None where nobody asks for what the target's catalogue says, and where it could not be read;
    another takes its place when it is old. `kept` is what interceptors leave for those that take their place when the
    policy is renewed, by name. `violated` hears of each rule that was broken. `meant` tells what has passed that a text
    may run by its name."""

    id: UUID
    user: str
    groups: frozenset[str]
    connection: str
    connection_type: str
    connection_subtype: str
    connection_tags: Mapping[str, str]
    metrics: Metrics = field(default_factory=Metrics)
    notes: list[Note] = field(default_factory=list)
    schema: TargetSchema | None = None
    kept: dict[str, object] = field(default_factory=dict)
    violated: Violated | None = None
    meant: Callable[[str], Sequence[str]] | None = None
    parsed: int = 0  # characters, since the last read

    def may_parse(self, size: int) -> bool:
        """Return whether so much more may be parsed on the event loop before others have had their turn."""
        if self.parsed + size > AT_ONCE:
            return False
        self.parsed += size + _EACH
        return True


class BatchNeed(Enum):
    """How much of a batch an interceptor has to see before any of it is forwarded.

    A batch is what a client sends up to the point where the target's implicit transaction ends, such as the messages up
    to a Sync. The members are in order: the greatest need of all interceptors decides.
    """

    NONE = 0  # nothing: each request is judged alone, as it comes
    DENY = 1  # a refusal of one request should find that nothing of its batch has run; otherwise the batch must fail
    REVIEW = 2  # no request may wait for a review when a part of its batch has run


class Interceptor(Protocol):
    """`wants` and `batch_need` are read once, when the pipeline is built; undeclared events never reach `see`."""

    @property
    def name(self) -> str: ...

    @property
    def wants(self) -> frozenset[type[Event]]: ...

    @property
    def batch_need(self) -> BatchNeed: ...

    def see(self, event: Event, session: SessionView) -> Verdict: ...


class Pipeline:
    """Asks each interceptor that wants the kind of event, in order. The first refusal ends it.

    A hold waits until the others have been asked, so nobody decides on what is refused anyway. Once it is
    settled, `judge` is called again with `first` behind the one that held, which `held_at` tells. Of several warnings
    the first is given.
    """

    __slots__ = ("_chains", "batch_need", "held_at", "session", "wants")

    def __init__(self, interceptors: Sequence[Interceptor], session: SessionView) -> None:
        chains: dict[type[Event], list[Interceptor]] = {}
        for interceptor in interceptors:
            for kind in interceptor.wants:
                chains.setdefault(kind, []).append(interceptor)
        self._chains = {kind: tuple(chain) for kind, chain in chains.items()}
        self.session = session
        self.wants: frozenset[type[Event]] = frozenset(chains)
        self.batch_need = BatchNeed.NONE
        for interceptor in interceptors:
            if interceptor.batch_need.value > self.batch_need.value:
                self.batch_need = interceptor.batch_need
        self.held_at = 0

    def judge(self, event: Event, kind: type[Event], first: int = 0) -> Verdict:
        """`kind` is the declared event class: Operation, Rows, Heading, Output or Summary. Interceptors before `first`
        are not asked."""
        outcome: Verdict = FORWARD
        held: Hold | None = None
        warning: Warn | None = None
        chain = self._chains.get(kind, ())
        for place in range(first, len(chain)):
            interceptor = chain[place]
            try:
                verdict = interceptor.see(event, self.session)
            except Exception:
                log.exception("interceptor %s failed; the event is refused", interceptor.name)
                return Refuse(
                    rule=interceptor.name,
                    message=f"{interceptor.name} could not judge this and refused it",
                    hint="Ask an administrator to look at the gateway's log.",
                )
            if isinstance(verdict, Forward):
                continue
            if isinstance(verdict, Replace):
                outcome = REPLACE
                continue
            if isinstance(verdict, Hold):
                if held is None:
                    held = verdict
                    self.held_at = place
                continue
            if isinstance(verdict, Warn):
                if warning is None:
                    warning = verdict
                continue
            return verdict
        if held is not None:
            return held
        return outcome if warning is None or (outcome is REPLACE and kind is Operation) else warning
