"""One client stream paired with one target stream: sans-IO, one for every protocol.

    receive(CLIENT, bytes) ─▶ wire.poll_client ─▶ pipeline ─┬─ Forward ─▶ Record, Send(TARGET)
                                                            ├─ Refuse  ─▶ Record, a slot in the order of answers
                                                            └─ Hold    ─▶ Park; resume(ticket, verdict) goes on
    receive(TARGET, bytes) ─▶ wire.poll_target ─▶ pipeline ─┬─ Forward ─▶ the slice as it came ─┐
                                                            ├─ Replace ─▶ encoded again ────────┼▶ Record, Send(CLIENT)
                                                            └─ Refuse  ─▶ the wire's error ─────┘

Effects are carried out in order; a Record stands before the Send that it belongs to. Whatever goes
wrong in here ends the link: bytes that were not understood are never forwarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from postern.domain.session import EndReason
from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Event, Operation, Output, Phase, Refusal, Rows, Shown
from postern.interception.pipeline import Pipeline
from postern.interception.verdicts import Forward, Hold, Refuse, Replace, Verdict
from postern.protocols.base import Request, Side, Wire

log = logging.getLogger(__name__)

Clock = Callable[[], int]


# Made for every exchange: a plain __init__ compiles to plain stores.
@dataclass(init=False)
class Send:
    __slots__ = ("data", "side")
    side: Side
    data: bytes

    def __init__(self, side: Side, data: bytes) -> None:
        self.side = side
        self.data = data


@dataclass(init=False)
class Record:
    """Keep these events, in order, before anything that follows is sent."""

    __slots__ = ("events",)
    events: list[Event]

    def __init__(self, events: list[Event]) -> None:
        self.events = events


@dataclass(slots=True)
class Park:
    """Stop reading the client until `resume` is called with this ticket."""

    ticket: str
    question: str


@dataclass(slots=True)
class Close:
    """Close both sides once what was sent before has been written."""

    reason: EndReason
    message: str = ""


Effect = Send | Record | Park | Close


class Link:
    """Feed it with `receive`; it answers with effects. `clock` gives microseconds."""

    def __init__(self, wire: Wire, pipeline: Pipeline, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock
        self._started: dict[int, int] = {}
        self._parked: tuple[str, Request] | None = None
        self._ended = False
        self.renew(pipeline)

    def renew(self, pipeline: Pipeline) -> None:
        """Another policy from here on. Rows of a result under way are judged by it as well."""
        self._pipeline = pipeline
        wants = self._wire.wants
        wants.operations = Operation in pipeline.wants
        wants.rows = Rows in pipeline.wants
        wants.output = Output in pipeline.wants

    @property
    def busy(self) -> bool:
        return self._wire.busy

    def receive(self, side: Side, data: bytes) -> list[Effect]:
        if self._ended:
            return []
        try:
            if side is Side.CLIENT:
                self._wire.feed_client(data)
                return [] if self._parked else self._from_client()
            self._wire.feed_target(data)
            return self._from_target()
        except ProtocolViolation as error:
            return self.end(EndReason.PROTOCOL_VIOLATION, f"{side.value} broke the protocol: {error.message}", "08P01")
        except Exception:
            log.exception("a message of the %s could not be handled", side.value)
            return self.end(EndReason.FAILED, "the gateway could not handle a message and closed the link", "XX000")

    def resume(self, ticket: str, verdict: Verdict) -> list[Effect]:
        """The question behind `ticket` is settled. An unknown ticket changes nothing."""
        if self._ended or self._parked is None or self._parked[0] != ticket:
            return []
        _, request = self._parked
        self._parked = None
        kept: list[Event] = []
        outgoing: list[bytes] = []
        self._decide(request, verdict, kept, outgoing)
        return self._from_client(kept, outgoing)

    def client_finished(self) -> list[Effect]:
        """The client sends no more, and may still read."""
        data = b"" if self._ended else self._wire.client_finished()
        return [Send(Side.TARGET, data)] if data else []

    def target_finished(self) -> list[Effect]:
        """The target is gone. The client is told, unless it has said goodbye or has been told already."""
        reason = EndReason.CLIENT_CLOSED if self._wire.goodbye else EndReason.TARGET_CLOSED
        return self.end(reason, "the target closed the connection", "08006")

    def end(self, reason: EndReason, message: str, code: str, hint: str = "") -> list[Effect]:
        """Ends the link from outside or inside: a last error in the client's own protocol, then Close."""
        if self._ended:
            return []
        self._ended = True
        effects: list[Effect] = []
        if self._wire.needs_farewell:
            farewell = self._wire.farewell(message, code, hint)
            effects += (Record([Shown(farewell)]), Send(Side.CLIENT, farewell))
        effects.append(Close(reason, message))
        return effects

    def _from_client(self, kept: list[Event] | None = None, outgoing: list[bytes] | None = None) -> list[Effect]:
        kept = [] if kept is None else kept
        outgoing = [] if outgoing is None else outgoing
        effects: list[Effect] = []
        wire = self._wire
        while self._parked is None:
            piece = wire.poll_client()
            if piece is None:
                break
            if isinstance(piece, bytes):
                outgoing.append(piece)
                continue
            verdict = piece.forced or self._judge(piece)
            if isinstance(verdict, Hold):
                self._parked = (verdict.ticket, piece)
                effects.append(Park(verdict.ticket, verdict.question))
            else:
                self._decide(piece, verdict, kept, outgoing)
        if kept:
            effects.append(Record(kept))
        if outgoing:
            effects.append(Send(Side.TARGET, outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)))
        if wire.answers_waiting:
            effects += self._from_target()
        return effects

    def _judge(self, request: Request) -> Verdict | None:
        """None: forward. The first operation that is not let through decides for all."""
        pipeline = self._pipeline
        if Operation not in pipeline.wants:
            return None
        for operation in request.operations:
            verdict = pipeline.judge(operation, Operation)
            if isinstance(verdict, Forward):
                continue
            if isinstance(verdict, Replace):
                return Refuse("pipeline", "an interceptor tried to change a request, which this protocol cannot do")
            return verdict
        return None

    def _decide(self, request: Request, verdict: Verdict | None, kept: list[Event], outgoing: list[bytes]) -> None:
        """Records the request, then forwards or refuses it."""
        metrics = self._pipeline.session.metrics
        runs = 0
        for operation in request.operations:
            if operation.phase is Phase.RUN:
                runs += 1
        metrics.operations += runs
        if isinstance(verdict, Refuse):
            metrics.refused += 1
            kept.extend(request.operations)
            exchange = request.operations[0].exchange if request.operations else 0
            kept.append(Refusal(exchange, verdict.rule, verdict.message))
            data = self._wire.refuse(request, verdict)
        else:
            now = self._clock()
            for operation in request.operations:
                # A statement that is prepared and run in one request is recorded once.
                if not runs or operation.phase is Phase.RUN:
                    kept.append(operation)
                    self._started[operation.exchange] = now
            data = self._wire.admit(request)
        if data:
            outgoing.append(data)

    def _from_target(self) -> list[Effect]:
        wire = self._wire
        shown: list[bytes] = []
        kept: list[Event] = []
        while pieces := wire.poll_target():
            for piece in pieces:
                if isinstance(piece, bytes):
                    shown.append(piece)
                elif isinstance(piece, Completed):
                    started = self._started.pop(piece.exchange, None)
                    if started is not None:
                        piece.micros = self._clock() - started
                    kept.append(piece)
                else:
                    shown.append(self._answer(piece, kept))
        if self._started and not wire.busy:
            self._started.clear()  # exchanges that an earlier error ended
        data = shown[0] if len(shown) == 1 else b"".join(shown)
        if not data:
            return [Record(kept)] if kept else []
        kept.insert(0, Shown(data))
        return [Record(kept), Send(Side.CLIENT, data)]

    def _answer(self, event: Rows | Output, kept: list[Event]) -> bytes:
        verdict = self._pipeline.judge(event, Rows if isinstance(event, Rows) else Output)
        if isinstance(verdict, Forward | Replace):
            return self._wire.render(event)
        if not isinstance(verdict, Refuse):
            verdict = Refuse("pipeline", "an answer cannot wait for a decision, so it was refused")
        self._pipeline.session.metrics.refused += 1
        kept.append(Refusal(event.exchange, verdict.rule, verdict.message))
        return self._wire.cut(event, verdict)
