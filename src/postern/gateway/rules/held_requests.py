"""Decisions on held requests: by parsing in another process, or by a review of the statement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import cast
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.reviews.review import MAX_INPUT, Choice, Review, ReviewEvent
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.rules.permit import Permit
from postern.domain.text import printable
from postern.errors import Denied, Invalid, PosternError, TooMany
from postern.gateway.rules.parse_slots import ParseSlots, QueueFull, Task, loop_slot, process_slots
from postern.gateway.rules.review_poller import ReviewPoller
from postern.gateway.rules.row_counts import HeldStatement, RowCounter
from postern.interception.events import RUN, Operation
from postern.interception.pipeline import AT_ONCE
from postern.interception.verdicts import FORWARD, Hold, Refuse, Verdict, Warn, Work
from postern.protocols.refusal_texts import text_of
from postern.protocols.wire_base import TransactionState
from postern.relay.driver import Driver
from postern.relay.held_request import HeldRequest
from postern.relay.link import HoldEffect
from postern.relay.relay_target import Start
from postern.services.reviews.review_requests import ReviewRequests
from postern.services.reviews.reviews import Reviews
from postern.store.ports.common_ports import Signals

log = logging.getLogger(__name__)

PARSE_WITHIN = 20.0  # seconds, including the wait for a slot
_LONGEST = 2_000  # characters of one value

_RULE = "inspection"  # by guardrails, or by masking rules
_TOO_LONG = Refuse(
    _RULE,
    f"this could not be evaluated within {duration_text(PARSE_WITHIN)}, so it was denied",
    "Send it in smaller parts, or try again when the gateway is less busy.",
)
_ASK_THEM = "Ask the reviewer what they would approve, or send a different statement."
_BUSY = Refuse(
    _RULE,
    "this was denied because too many statements are waiting to be evaluated",
    "Try again in a few seconds, or send it in smaller parts: short statements do not wait.",
)
_FAILED = Refuse(
    _RULE, "this could not be evaluated, so it was denied", "Ask an administrator to check the gateway's log."
)


class HeldRequests:
    """The held requests of all links of one worker. A request is decided once, and never after the end of its link."""

    def __init__(
        self,
        asking: ReviewRequests,
        reviews: Reviews,
        signals: Signals,
        address: Callable[[UUID], Awaitable[str]],
        *,
        row_counts: Mapping[str, RowCounter] | None = None,
        processes: ParseSlots | None = None,
    ) -> None:
        """`address` returns the URL of the page for reviewers. `row_counts` count, by protocol, the rows that a
        statement would affect."""
        self._asking = asking
        self._reviews = reviews
        self._address = address
        self._row_counts = row_counts or {}
        self._processes = process_slots() if processes is None else processes
        self._loop_slot = loop_slot()
        self._tasks: set[asyncio.Task[None]] = set()
        self._looks = ReviewPoller(reviews, signals)

    def on_park(self, session_id: UUID, permit: Permit, start: Start, driver: Driver, park: HoldEffect) -> None:
        parked = driver.link.held_request
        if parked is None or parked.ticket != park.ticket:
            return
        # In a task, because the caller is in the middle of performing effects.
        task = asyncio.get_running_loop().create_task(self._settle(session_id, permit, start, driver, parked))
        self._tasks.add(task)

        def cancel_task(_: object) -> None:
            task.cancel()

        def handle_task_done(_: object) -> None:
            self._tasks.discard(task)
            # Otherwise a long session would collect one for each statement.
            driver.done.remove_done_callback(cancel_task)

        task.add_done_callback(handle_task_done)
        driver.done.add_done_callback(cancel_task)

    async def _settle(
        self, session_id: UUID, permit: Permit, start: Start, driver: Driver, parked: HeldRequest
    ) -> None:
        """Decide a held request. The link must be resumed whatever happens to the review, because nothing else would
        resume it."""
        work = parked.hold.work
        try:
            if work is not None:
                verdict = await self.evaluate(permit, work)
            else:
                verdict = await self._request_review(session_id, permit, start, driver, parked)
        except Exception:
            log.exception("deciding a held request of session %s failed, so it was denied", session_id)
            verdict = _FAILED
        driver.resume(parked.ticket, verdict)

    async def evaluate(self, permit: Permit, work: Work) -> Verdict:
        """Evaluate the statement: a short one here in turns with other work, a long one in another process."""
        try:
            if work.task is None:
                conclude = partial(work.conclude, None)
                return cast("Verdict", await self._loop_slot.run(permit.principal.id, conclude))
            return work.conclude(await self._run_in_process(permit, work.task))
        except QueueFull:
            log.warning("a statement was denied because too many are waiting to be evaluated")
            return _BUSY
        except TimeoutError:
            log.error("a statement could not be parsed within %g seconds, so it was denied", PARSE_WITHIN)
            return _TOO_LONG
        except Exception:
            log.exception("evaluating a statement failed, so it was denied")
            return _FAILED

    async def run_task(self, permit: Permit, task: Task, size: int) -> object:
        """Return the result of a task about `size` characters: of few here, of many in another process.

        Raises QueueFull and TimeoutError.
        """
        if size <= AT_ONCE:
            return await self._loop_slot.run(permit.principal.id, task)
        return await self._run_in_process(permit, task)

    async def _run_in_process(self, permit: Permit, task: Task) -> object:
        async with asyncio.timeout(PARSE_WITHIN):
            return await self._processes.run(permit.principal.id, task)

    async def find_review_refusal(self, permit: Permit, parked: HeldRequest) -> Refuse | None:
        """Return why no review can be requested for a held request; None if one can."""
        hold, text = parked.hold, _text(parked)
        if len(text) > MAX_INPUT or any(operation.truncated for operation in parked.request.operations):
            return Refuse(
                hold.rule,
                f"{hold.question}; it is longer than the {MAX_INPUT:,} characters that reviewers are shown",
                "Send it in smaller parts.",
            )
        try:
            await self._asking.require_statement_reviews(permit, hold.rule)
        except Denied as error:
            return _no_review(hold, error)
        return None

    async def _request_review(
        self, session_id: UUID, permit: Permit, start: Start, driver: Driver, parked: HeldRequest
    ) -> Verdict:
        """Request a review, and return its result, until the deadline. If the client disconnects or cancels, the review
        is withdrawn."""
        hold = parked.hold
        try:
            refusal = await self.find_review_refusal(permit, parked)
            if refusal is not None:
                return refusal
            review = await self._asking.hold(permit, session_id, hold.rule, hold.question, _text(parked))
        except (TooMany, Invalid, Denied) as error:
            return _no_review(hold, error)
        except PosternError as error:
            log.error("requesting a review of a statement in session %s failed: %s", session_id, error.message)
            return Refuse(
                hold.rule, f"{hold.question}; no review could be created, so it was denied", "Try again later."
            )
        counting = self._counting(review, permit, start, driver, parked)
        try:
            driver.ask(_notice(hold.rule, review, await self._address(review.id)))
            reviewed = await self._wait_for_decision(review, driver, parked)
        except BaseException:  # it was cancelled, or its link has ended
            await asyncio.shield(self._close(review, ReviewEvent.WITHDRAWN))
            raise
        finally:
            if counting is not None:
                counting.cancel()
        # A decision that was made just before the deadline counts: the row has it, and the result must match.
        reviewed = reviewed or await self._close(review, ReviewEvent.EXPIRED)
        if reviewed is None or reviewed.status is ReviewStatus.PENDING:
            return Refuse(
                hold.rule,
                f"{hold.question}; the review expired without a decision, so it was denied",
                "Send it again to request a new review.",
            )
        if reviewed.status is ReviewStatus.APPROVED and driver.link.held_request is parked:
            driver.ask(_approval(hold.rule, reviewed))  # the recording gets a note, too, with the approver
        return _verdict(hold.rule, reviewed)

    def _counting(
        self, review: Review, permit: Permit, start: Start, driver: Driver, parked: HeldRequest
    ) -> asyncio.Task[None] | None:
        """Count rows in the background, without delaying a decision."""
        counts = self._row_counts.get(permit.connection.protocol)
        if counts is None:
            return None
        task = asyncio.get_running_loop().create_task(
            self._count(counts, review, permit, start, parked, driver.link.transaction_state)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _count(
        self,
        counts: RowCounter,
        review: Review,
        permit: Permit,
        start: Start,
        parked: HeldRequest,
        standing: TransactionState,
    ) -> None:
        statements = [
            HeldStatement(
                operation.text,
                operation.values,
                operation.truncated,
                operation.unsure,
                operation.types,
                operation.encoding,
                parked.request.bound_values(place),
            )
            for place, operation in enumerate(parked.request.operations)
            if operation.phase is RUN
        ]
        try:
            count = await counts.of(permit, start, statements, standing)
            if count is not None:
                await self._reviews.record_estimate(review.id, count.as_json())
        except PosternError as error:
            log.warning("storing the row count of review %s failed: %s", review.id, error.message)

    async def _close(self, review: Review, event: ReviewEvent) -> Review | None:
        """Close the review. Return its state if it was decided before."""
        try:
            return await self._reviews.close(review.id, event)
        except PosternError as error:
            log.warning("review %s could not be closed and will be closed later: %s", review.id, error.message)
            return None

    async def _wait_for_decision(self, review: Review, driver: Driver, parked: HeldRequest) -> Review | None:
        """Wait for the decision; None after the deadline. Raises CancelledError when it is cancelled."""
        with self._looks.at(review.id) as event:
            driver.on_settled = settled = event.set
            try:
                while (left := (review.expires_at - utc_now()).total_seconds()) > 0:
                    if driver.link.held_request is not parked or driver.done.done():
                        # Cancelled. Python 3.11's wait_for loses a cancellation that arrives together with the wake-up.
                        raise asyncio.CancelledError
                    event.clear()
                    current = await self._look(review)
                    if current is not None and current.status is not ReviewStatus.PENDING:
                        return current
                    try:
                        await asyncio.wait_for(event.wait(), left)
                    except TimeoutError:
                        continue
                return None
            finally:
                if driver.on_settled == settled:  # otherwise it belongs to the request that is held now
                    driver.on_settled = None

    async def _look(self, review: Review) -> Review | None:
        try:
            return await self._reviews.look(review.id)
        except PosternError as error:
            log.warning("review %s could not be read and stays pending: %s", review.id, error.message)
            return None


def utc_now() -> datetime:
    return datetime.now(UTC)


def _text(parked: HeldRequest) -> str:
    """Return everything that an approval would run, with its values and the statements that it runs by name, in order,
    and how often. Control characters are escaped."""
    resolve_name = parked.pipeline.session.resolve_name
    exchanges: dict[str, set[int]] = {}  # the exchanges in which it runs
    for operation in parked.request.operations:
        values = [_value(number, value, operation) for number, value in enumerate(operation.values, 1)]
        if (
            resolve_name is not None and len(operation.text) <= MAX_INPUT
        ):  # the statement behind EXECUTE was shown before
            values += [f"-- may run: {prepared!r}" for prepared in resolve_name(operation.text)]
        # A server ends a comment at a carriage return, too.
        text = printable("\n".join([operation.text.replace("\r\n", "\n").replace("\r", "\n"), *values]))
        exchanges.setdefault(text, set()).update((operation.exchange,) if operation.phase is RUN else ())
    return "\n".join(f"{text}\n-- {len(runs)} times" if len(runs) > 1 else text for text, runs in exchanges.items())


def _value(number: int, value: bytes | None, operation: Operation) -> str:
    if value is None:
        return f"-- ${number} = NULL"
    text = repr(text_of(value, operation.encoding, "backslashreplace"))
    if len(text) > _LONGEST:  # two values with the same beginning would be indistinguishable
        text = f"{text[:_LONGEST]}… ({len(value):,} bytes, SHA-256 {sha256(value).hexdigest()})"
    if number not in operation.unsure:
        return f"-- ${number} = {text}"
    readings = [f"the bytes {value[:_LONGEST].hex()}"]
    if value.startswith(b"\\x"):  # as the bytes of a non-text value are written
        readings.insert(0, f"the bytes {value[2:_LONGEST].decode('ascii', 'backslashreplace')}")
    return f"-- ${number} = {text}, or the value that its type reads from {' or '.join(readings)}"


def _no_review(hold: Hold, error: PosternError) -> Refuse:
    return Refuse(hold.rule, f"{hold.question}; no review was created: {error.message}", "Try again later.")


def waiting_message(question: str, groups: Sequence[str]) -> str:
    """Return what the author of a held statement is told."""
    return f"{question}; it waits for a decision of the group {' or '.join(map(repr, groups))}"


def _notice(rule: str, review: Review, address: str) -> Warn:
    return Warn(
        rule=rule,
        message=waiting_message(review.reason, review.groups),
        hint=f"Session {review.session_id}, review {review.id}, pending until {review.expires_at:%Y-%m-%d %H:%M:%S} "
        f"UTC. Approvers decide at {address} or with `postern reviews approve {review.id}`",
    )


def _verdict(rule: str, decided: Review) -> Verdict:
    if decided.status is ReviewStatus.APPROVED:
        return FORWARD
    refusal = decided.refusal
    if decided.status is not ReviewStatus.REJECTED or refusal is None:
        # By a background job, because this worker was considered dead or its clock is slow; or its requester has
        # withdrawn it.
        what = (
            "it was withdrawn" if decided.status is ReviewStatus.WITHDRAWN else "the review expired without a decision"
        )
        return Refuse(rule, f"{decided.reason}; {what}, so it was denied", "Send it again to request a new review.")
    comment = f": {refusal.comment}" if refusal.comment else ""
    return Refuse(rule, f"{decided.reason}; {refusal.reviewer.email} rejected it{comment}", _ASK_THEM)


def _approval(rule: str, decided: Review) -> Warn:
    voices = [voice for voice in decided.voices if voice.choice is Choice.APPROVED]
    who = ", ".join(voice.reviewer.email for voice in voices)
    comments = "".join(f": {voice.comment}" for voice in voices if voice.comment)
    return Warn(rule, f"{decided.reason}; {who} approved it{comments}")
