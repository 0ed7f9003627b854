"""One client stream paired with one target stream, without I/O and for every protocol.

    receive(CLIENT, bytes) ─▶ wire.poll_client ─▶ pipeline ─┬─ Forward ─▶ Record, Send(TARGET)
                                                            ├─ Warn    ─▶ as Forward, and queue a warning to the client
                                                            ├─ Refuse  ─▶ Record, queue the error among the responses
                                                            └─ Hold    ─▶ HoldEffect; resume(ticket, verdict) continues
    receive(TARGET, bytes) ─▶ wire.poll_target ─▶ pipeline ─┬─ Forward ─▶ the slice as it came ─┐
                                                            ├─ Replace ─▶ encoded again ────────┼▶ Record, Send(CLIENT)
                                                            └─ Refuse  ─▶ the wire's error ─────┘

Effects are carried out in order. A Record precedes the Send that it describes, so nothing is sent unrecorded. Any
failure ends the link: bytes that were not understood are never forwarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from postern.domain.sessions.session import EndReason
from postern.errors import ProtocolViolation
from postern.interception.events import (
    RUN,
    ClientOutput,
    Completed,
    Event,
    Heading,
    Mark,
    Masked,
    Note,
    Operation,
    Output,
    Paused,
    Refusal,
    Rows,
    Summary,
)
from postern.interception.pipeline import BatchNeed, Pipeline
from postern.interception.verdicts import Forward, Hold, Refuse, Replace, Verdict, Warn
from postern.protocols.wire_base import (
    TARGET_GONE,
    RedactedOutput,
    Reply,
    Request,
    Side,
    TransactionState,
    UnrecordedOutput,
    Wire,
)
from postern.relay.held_request import HeldRequest

log = logging.getLogger(__name__)

MAX_FILLED = 64 * 1024  # bytes
MOST_STARTED = 10_000  # exchanges with a start time; lines typed at a silent terminal are never completed

# Compiled code reads a Final name without a lookup in the class.
_CLIENT: Final = Side.CLIENT
_TARGET: Final = Side.TARGET

Clock = Callable[[], int]


# Created for every exchange: a plain __init__ compiles to plain stores.
@dataclass(init=False)
class Send:
    side: Side
    data: bytes

    def __init__(self, side: Side, data: bytes) -> None:
        self.side = side
        self.data = data


@dataclass(init=False)
class Record:
    """Record these events, in order, before anything that follows is sent. `at` is a time of the link's clock."""

    events: list[Event]
    at: int

    def __init__(self, events: list[Event], at: int) -> None:
        self.events = events
        self.at = at


@dataclass(slots=True)
class HoldEffect:
    """Nothing that the client sent is forwarded until `resume` is called with this ticket. See `Link.held_request`."""

    ticket: str
    question: str


@dataclass(slots=True)
class Close:
    """Close both sides once everything that was sent before has been written."""

    reason: EndReason
    message: str = ""


Effect = Send | Record | HoldEffect | Close

_UNCHANGEABLE = Refuse("pipeline", "an interceptor tried to change a request, which this protocol does not support")


class Link:
    """The state machine of a session: `receive` takes bytes and returns effects.

    `clock` gives microseconds since the session's start. It is read once per call of `receive`: everything in one read
    has the same timestamp.
    """

    def __init__(self, wire: Wire, pipeline: Pipeline, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock
        self.now = clock()  # time of the last read
        self._started: dict[int, int] = {}
        self._spent: dict[int, int] = {}  # microseconds of earlier answers to an exchange that can be read on
        self.held_request: HeldRequest | None = None  # the request that waits for `resume`
        self._held_at = 0  # index of the operation that the last Hold is about
        self._held_place = 0  # … and the interceptor's index in the chain
        self._warnings: list[Warn] = []  # for the request that is being evaluated
        self.refusal: Refuse | None = None  # of the last refused request
        self.warnings: list[Warn] = []  # of the last request that was forwarded with some
        self._warned: set[tuple[int, str]] = set()  # (exchange, rule) pairs that the client was warned about
        self._ended = False
        self._told = False  # the client was sent its final bytes
        self._owed = 0  # missing bytes of a partial message at the client, before the current effects
        self.renew(pipeline)

    def renew(self, pipeline: Pipeline) -> None:
        """Replace the policy. It also applies to the remaining rows of a running result."""
        self._pipeline = pipeline
        wants = self._wire.wants
        wants.operations = Operation in pipeline.wants
        wants.batches = pipeline.batch_need is not BatchNeed.NONE
        wants.rows = Rows in pipeline.wants
        wants.output = Output in pipeline.wants
        wants.headings = Heading in pipeline.wants
        wants.summaries = Summary in pipeline.wants

    @property
    def session_id(self) -> UUID:
        return self._pipeline.session.id

    @property
    def transaction_state(self) -> TransactionState:
        return self._wire.transaction_state

    @property
    def awaiting_response(self) -> bool:
        return self._wire.awaiting_response

    @property
    def half_open(self) -> bool:
        """True if each direction ends alone; see `Wire.half_open`."""
        return self._wire.half_open

    @property
    def open_batch(self) -> int:
        """Return the number of the buffered incomplete batch, or 0; see `Wire.open_batch`. `flush` ends the wait for
        the rest."""
        return 0 if self._ended else self._wire.open_batch

    @property
    def may_review_batches(self) -> bool:
        """Return True while a request of the open batch can still be held for a review: nothing of the batch has
        run."""
        return self._pipeline.batch_need is BatchNeed.REVIEW and not self._wire.batch_has_run

    @property
    def has_buffered_output(self) -> bool:
        """True while a partial response waits for its rest. Call `flush` if the rest does not come."""
        return not self._ended and self._wire.has_buffered_output

    @property
    def input_paused(self) -> bool:
        """True while client input waits for the target. Call `flush` to end the wait."""
        return not self._ended and self._wire.input_paused

    @property
    def interrupts_held_request(self) -> bool:
        """True once the client has interrupted the held request; see `Wire.is_interrupted`."""
        return self.held_request is not None and self._wire.is_interrupted

    @property
    def discarding_response(self) -> bool:
        """True while the current response is discarded and can be cancelled; see `Wire.discarding_response`."""
        return not self._ended and self._wire.discarding_response

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the target's program, if the protocol reports one."""
        return self._wire.exit_code

    def receive(self, side: Side, data: bytes) -> list[Effect]:
        if self._ended:
            return []
        return self._run(side, data, None)

    def resume(self, ticket: str, verdict: Verdict) -> list[Effect]:
        """Apply the decision on the held request. An unknown ticket has no effect.

        The operations after the one that was held are still evaluated: they can be refused, or held again.
        """
        if self._ended or self.held_request is None or self.held_request.ticket != ticket:
            return []
        return self._run(_CLIENT, b"", verdict)

    def _run(self, side: Side, data: bytes, verdict: Verdict | None) -> list[Effect]:
        """Process `data`, or the verdict on the held request. Complete messages take effect even if a later one is
        invalid."""
        effects: list[Effect] = []
        self.now = self._clock()
        self._owed = self._wire.partial_message_bytes
        self._pipeline.session.parsed = 0
        try:
            if side is _TARGET:
                self._wire.feed_target(data)
                self._from_target(effects)
            else:
                if data:
                    self._wire.feed_client(data)
                if verdict is not None or self.held_request is None:
                    self._from_client(effects, verdict)
        except ProtocolViolation as error:
            self._log_offence(side, error)
            effects += self.end(
                EndReason.PROTOCOL_VIOLATION, f"{side.value} broke the protocol: {error.message}", "08P01"
            )
        except Exception:
            log.exception("session %s ends: a message from its %s could not be handled", self.session_id, side.value)
            effects += self.end(EndReason.FAILED, "the gateway could not handle a message and closed the link", "XX000")
        return effects

    def _log_offence(self, side: Side, error: ProtocolViolation) -> None:
        log.warning(
            "session %s ends: its %s broke the protocol: %s (%s)",
            self.session_id,
            side.value,
            error.message,
            self._wire.position(side),
        )

    def flush(self) -> list[Effect]:
        """Send everything that is buffered, as it is."""
        if self._ended:
            return []
        waits = self._wire.input_paused or self._wire.open_batch != 0
        self._wire.flush()
        effects = self._run(_TARGET, b"", None)
        if waits and not self._ended:
            effects += self._run(_CLIENT, b"", None)
        return effects

    def client_finished(self) -> list[Effect]:
        """Handle the client's EOF. The client can still read."""
        data = b"" if self._ended else self._wire.client_finished()
        return [Send(_TARGET, data)] if data else []

    def target_finished(self) -> list[Effect]:
        """Handle the end of the target's connection. The client gets an error, unless it has terminated or got its last
        error."""
        reason = EndReason.CLIENT_CLOSED if self._wire.client_terminated else EndReason.TARGET_CLOSED
        return self.end(reason, "the target closed the connection", TARGET_GONE)

    def unfinished_exchanges(self) -> list[Event]:
        """Return the events to record for unfinished exchanges. Called once, after the link has ended."""
        left: list[Event] = []
        for completed in self._wire.unfinished_exchanges():
            completed.micros = completed.micros or self._spent.pop(completed.exchange, 0)
            left.append(completed)
        return left

    def end(self, reason: EndReason, message: str, code: str, hint: str = "") -> list[Effect]:
        """End the link: send a last error in the client's protocol, then Close."""
        if self._ended:
            return []
        self._ended = True
        self.held_request = None
        effects: list[Effect] = []
        farewell = self._farewell(message, code, hint, self._wire.partial_message_bytes)
        if farewell:
            effects += (Record([ClientOutput(farewell)], self._clock()), Send(_CLIENT, farewell))
        effects.append(Close(reason, message))
        return effects

    def end_unrecorded(self, message: str, code: str) -> bytes:
        """End the link because its last effects could not be recorded, and were not sent. Return the client's last
        bytes."""
        if self._ended and self._told:
            return b""
        self._ended = True
        self.held_request = None
        return self._farewell(message, code, "", self._owed)

    def _farewell(self, message: str, code: str, hint: str, owed: int) -> bytes:
        """Return a last error. A client with a partial message could not read it, so the `owed` missing bytes come
        first, as zeros without meaning. A client that misses more than MAX_FILLED bytes gets no error."""
        self._told = True
        if not self._wire.needs_fatal_error or owed > MAX_FILLED:
            return b""
        data = self._wire.fatal_error(message, code, hint)
        return bytes(owed) + data if data else b""

    def _from_client(self, effects: list[Effect], verdict: Verdict | None) -> None:
        events: list[Event] = []
        outgoing: list[bytes] = []
        wire = self._wire
        park: HoldEffect | None = None
        try:
            if verdict is not None:
                park = self._settle(verdict, events, outgoing)
            while self.held_request is None:
                piece = wire.poll_client()
                if piece is None:
                    break
                if isinstance(piece, bytes):
                    outgoing.append(piece)
                elif isinstance(piece, Request):
                    self._warnings = []
                    park = self._decide(piece, piece.forced or self._judge(piece, 0, 0), events, outgoing)
                else:
                    if isinstance(piece, Completed):
                        piece.micros = self._stop_clock(piece.exchange)
                    events.append(piece)
        finally:
            if events:
                effects.append(Record(events, self.now))
            if outgoing:
                effects.append(Send(_TARGET, outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)))
            if park is not None:
                effects.append(park)
            # also before a protocol violation: a later bad message must not swallow a refusal
            if wire.has_pending_output:
                self._from_target(effects)

    def _settle(self, verdict: Verdict, events: list[Event], outgoing: list[bytes]) -> HoldEffect | None:
        """Apply the verdict on the held request. After Forward or Warn, evaluation continues behind it. If the policy
        changed meanwhile, the new policy evaluates the request from the start; a refusal stands."""
        parked = self.held_request
        assert parked is not None
        self.held_request = None
        self._warnings = parked.warnings
        further: Verdict | None = verdict
        if isinstance(verdict, Refuse):
            pass
        elif parked.pipeline is not self._pipeline:
            self._warnings = []
            further = self._judge(parked.request, 0, 0)
        elif isinstance(verdict, Hold):
            self._held_at, self._held_place = parked.operation, parked.place - 1
        elif isinstance(verdict, Replace):
            further = _UNCHANGEABLE
        else:
            if isinstance(verdict, Warn):
                self._warnings.append(verdict)
            further = self._judge(parked.request, parked.operation, parked.place)
        return self._decide(parked.request, further, events, outgoing)

    def _judge(self, request: Request, operation: int, place: int) -> Verdict | None:
        """Return the verdict on a request, or None to forward it with its warnings. Evaluation begins at this operation
        and this place in the chain. A refusal takes precedence over a hold."""
        if not self._wire.wants.operations:
            return None
        pipeline = self._pipeline
        hold: Hold | None = None
        for index in range(operation, len(request.operations)):
            verdict = pipeline.judge(request.operations[index], Operation, place if index == operation else 0)
            if isinstance(verdict, Forward):
                continue
            if isinstance(verdict, Warn):
                if hold is None:
                    self._warnings.append(verdict)
                continue
            if isinstance(verdict, Replace):
                return _UNCHANGEABLE
            if not isinstance(verdict, Hold):
                return verdict
            if hold is None:
                hold = verdict
                self._held_at = index
                self._held_place = pipeline.held_at
                if verdict.work is not None:  # no reviewer is asked, so the operations after it can be evaluated later
                    break
        return hold

    def _decide(
        self, request: Request, verdict: Verdict | None, events: list[Event], outgoing: list[bytes]
    ) -> HoldEffect | None:
        """Record the request, then forward or refuse it. A held request is stored as it is."""
        if isinstance(verdict, Hold) and verdict.work is None and self._wire.batch_has_run:
            verdict = _too_late_to_review(verdict)
        if isinstance(verdict, Hold):
            place = self._held_place + 1
            self.held_request = HeldRequest(verdict, request, self._held_at, self._pipeline, place, self._warnings)
            if verdict.work is None:
                self._report_violation("review", verdict.rule, verdict.question, request.operations)
            return HoldEffect(verdict.ticket, verdict.question)
        operations = request.operations
        metrics = self._pipeline.session.metrics
        runs = 0
        for operation in operations:
            if operation.phase is RUN:
                runs += 1
        if request.continues:
            recorded: Sequence[Operation] = ()
        elif isinstance(verdict, Refuse) or runs in (0, len(operations)):
            recorded = operations
        else:
            recorded = _without_repeats(operations)
        metrics.operations += 0 if request.continues else runs
        events.extend(recorded)
        if isinstance(verdict, Refuse):
            self.refusal = verdict
            metrics.refused += 1
            events.append(Refusal(operations[0].exchange if operations else 0, verdict.rule, verdict.message))
            self._report_violation("deny", verdict.rule, verdict.message, operations)
            data = self._wire.reject(request, verdict)
        else:
            for operation in operations if request.continues else recorded:
                if len(self._started) >= MOST_STARTED:
                    self._started.clear()
                self._started[operation.exchange] = self.now
            if self._warnings:
                self._tell_warnings(events, operations)
            data = self._wire.forward(request)
        if data:
            outgoing.append(data)
        return None

    def _tell_warnings(self, events: list[Event], operations: Sequence[Operation]) -> None:
        """Queue each warning once per request: a statement that is prepared and run in one request triggers it
        twice."""
        warnings: list[Warn] = []
        for warning in self._warnings:
            if warning not in warnings:
                warnings.append(warning)
                events.append(_note(warning))
                self._wire.queue_warning(warning)
                if warning.is_violation:
                    self._report_violation("warn", warning.rule, warning.message, operations)
        self._pipeline.session.metrics.warned += len(warnings)
        self.warnings = warnings
        self._warnings = []

    def ask(self, warning: Warn) -> list[Effect]:
        """Send the client a message about its held request."""
        if self._ended or self.held_request is None:
            return []
        self._wire.queue_warning(warning)
        effects: list[Effect] = [Record([_note(warning)], self._clock())]
        if self._wire.has_pending_output:
            effects += self._run(_TARGET, b"", None)
        return effects

    def _from_target(self, effects: list[Effect]) -> None:
        wire = self._wire
        parts: list[bytes] = []
        sent = parts  # becomes a separate list once something is sent otherwise than it is recorded
        events: list[Event] = []
        replies: list[bytes] = []
        masked: list[Event] = []
        counted = position = 0  # parts before the last marked answer, and their bytes
        marks = self._pipeline.session.marks
        try:
            while pieces := wire.poll_target():
                for piece in pieces:
                    if isinstance(piece, bytes):
                        parts.append(piece)
                        if sent is not parts:
                            sent.append(piece)
                    elif isinstance(piece, UnrecordedOutput):
                        if sent is parts:
                            sent = parts.copy()
                        sent.append(piece.data)
                    elif isinstance(piece, RedactedOutput):
                        if sent is parts:
                            sent = parts.copy()
                        parts.append(piece.recorded)
                        sent.append(piece.data)
                    elif isinstance(piece, Completed):
                        piece.micros = self._stop_clock(piece.exchange) or piece.micros
                        events.append(piece)
                    elif isinstance(piece, Paused):
                        if len(self._spent) >= MOST_STARTED:
                            self._spent.clear()
                        self._spent[piece.exchange] = self._stop_clock(piece.exchange)
                    elif isinstance(piece, Reply):
                        replies.append(piece.data)
                    else:
                        answer = self._answer(piece, events)
                        preface = wire.take_preface()
                        if preface is not None:
                            if sent is parts:
                                sent = parts.copy()
                            parts.append(preface.recorded)
                            sent.append(preface.data)
                        if marks:
                            while counted < len(parts):
                                position += len(parts[counted])
                                counted += 1
                            masked.append(_collect_marks(piece, position, len(answer), marks))
                            marks.clear()
                        parts.append(answer)
                        if sent is not parts:
                            sent.append(answer)
        finally:
            notes = self._pipeline.session.notes
            if notes:
                events.extend(notes)
                notes.clear()
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            if data:
                events.insert(0, ClientOutput(data))
            if masked:
                events = masked + events
            if events:
                effects.append(Record(events, self.now))
            if sent is not parts:
                data = b"".join(sent)
            if data:
                effects.append(Send(_CLIENT, data))
            if replies:
                effects.append(Send(_TARGET, b"".join(replies)))
        if not wire.awaiting_response:
            if self._started:
                self._started.clear()  # exchanges that an earlier error ended
            if self._warned:
                self._warned.clear()

    def _stop_clock(self, exchange: int) -> int:
        """Return how long the target has taken for an exchange, in microseconds, over all of its answers."""
        started = self._started.pop(exchange, None)
        spent = self._spent.pop(exchange, 0) if self._spent else 0
        return spent if started is None else spent + self.now - started

    def _answer(self, event: Rows | Output, events: list[Event]) -> bytes:
        verdict = self._pipeline.judge(event, _declared_class(event))
        if isinstance(verdict, Forward | Replace):
            return self._wire.render(event)
        if isinstance(verdict, Warn):
            key = (event.exchange, verdict.rule)
            if key in self._warned:
                return self._wire.render(event)
            self._warned.add(key)
            self._pipeline.session.metrics.warned += 1
            events.append(_note(verdict))
            if verdict.is_violation:
                self._report_violation("warn", verdict.rule, verdict.message, ())
            return self._wire.warning_bytes(verdict) + self._wire.render(event)
        self._pipeline.session.marks.clear()  # the client is not shown what was masked
        if not isinstance(verdict, Refuse):
            verdict = Refuse("pipeline", "output cannot wait for a decision, so it was blocked")
        self._pipeline.session.metrics.refused += 1
        events.append(Refusal(event.exchange, verdict.rule, verdict.message))
        self._report_violation("deny", verdict.rule, verdict.message, ())
        return self._wire.abort_response(event, verdict)

    def _report_violation(
        self, action: Literal["deny", "warn", "review"], rule: str, message: str, operations: Sequence[Operation]
    ) -> None:
        violated = self._pipeline.session.on_violation
        if violated is not None:
            violated(action, rule, message, operations)


def _collect_marks(event: Rows | Output, at: int, size: int, marks: list[Mark]) -> Masked:
    if not isinstance(event, Rows):
        rows, placed = event.place_marks(marks)
        return Masked(event.exchange, at, size, rows, placed)
    return Masked(event.exchange, at, size, event.count, [_name_columns(mark, event) for mark in marks])


def _name_columns(mark: Mark, rows: Rows) -> Mark:
    """Return the mark with the names of its columns, if readers of the recording need them."""
    names = rows.recorded_names(mark.columns)
    return Mark(mark.mask, mark.columns, mark.rows, mark.count, mark.whole, names) if names else mark


def _declared_class(event: Rows | Output) -> type[Event]:
    """Return the class by which interceptors declare that they want the event."""
    if isinstance(event, Rows):
        return Heading if isinstance(event, Heading) else Rows
    return Summary if isinstance(event, Summary) else Output


def _too_late_to_review(hold: Hold) -> Refuse:
    """Refuse instead of a review, which takes minutes in which the target would keep its transaction open and
    locked."""
    return Refuse(
        rule=hold.rule,
        message=f"{hold.question}; statements before it in the same batch have already run, so it cannot wait for a "
        "review and was denied together with them",
        hint="Send it in a batch of its own (a Sync before it), or send the whole batch without a pause or a Flush.",
    )


def _note(warning: Warn) -> Note:
    return Note(warning.message, {"rule": warning.rule})


def _without_repeats(operations: list[Operation]) -> list[Operation]:
    """Drop the preparation of statements that the same request also runs, so that they are recorded once."""
    run = {operation.text for operation in operations if operation.phase is RUN}
    return [operation for operation in operations if operation.phase is RUN or operation.text not in run]
