"""What becomes of a request that is held: parsed in a thread, or put as a question to people."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from uuid import UUID

from postern.domain.permit import Permit
from postern.domain.question import MAX_STATEMENT, Decision, Question
from postern.errors import PosternError, TooMany
from postern.gateway.parsing import Busy, ParseThreads
from postern.interception.verdicts import FORWARD, Refuse, Verdict, Warn
from postern.relay.driver import Driver
from postern.relay.link import Park
from postern.relay.parked import Parked
from postern.services.questions import Questions
from postern.store.ports import Signals, Topic

log = logging.getLogger(__name__)

PARSE_WITHIN = 20.0  # seconds, the wait for a thread included
_LOOK_EVERY = 5.0  # seconds: a signal may be missed

_TOO_LONG = Refuse(
    "guard rails",
    f"this could not be judged within {PARSE_WITHIN:g} seconds, so it was refused",
    "Send it in smaller parts, or try again when the gateway has less to do.",
)
_ASK_THEM = "Ask who rejected it what they would approve, or send another statement."
_BUSY = Refuse(
    "guard rails",
    "this was refused, since too many statements wait to be judged already",
    "Try again in a moment, or send it in smaller parts: short statements do not wait.",
)
_FAILED = Refuse(
    "guard rails", "this could not be judged, so it was refused", "An administrator finds more in the log."
)


class HeldRequests:
    """Of all links of one worker. A request is settled once, and never behind the end of its link."""

    def __init__(self, questions: Questions, signals: Signals) -> None:
        self._questions = questions
        self._threads: ParseThreads[Verdict] = ParseThreads()
        self._tasks: set[asyncio.Task[None]] = set()
        self._decided: dict[str, asyncio.Event] = {}
        signals.subscribe(Topic.QUESTION_DECIDED, self._on_decided)
        signals.subscribe(Topic.RESUMED, self._on_resumed)

    def on_park(self, session_id: UUID, permit: Permit, driver: Driver, park: Park) -> None:
        parked = driver.link.parked
        if parked is None or parked.ticket != park.ticket:
            return
        # Not at once: whoever is told of it is in the middle of performing effects.
        task = asyncio.get_running_loop().create_task(self._settle(session_id, permit, driver, parked))
        self._tasks.add(task)

        def ended(_: object) -> None:
            task.cancel()

        def settled(_: object) -> None:
            self._tasks.discard(task)
            driver.done.remove_done_callback(ended)  # else a long session would collect one for each statement

        task.add_done_callback(settled)
        driver.done.add_done_callback(ended)

    async def _settle(self, session_id: UUID, permit: Permit, driver: Driver, parked: Parked) -> None:
        """The link goes on whatever becomes of the question: nobody else would ever resume it."""
        work = parked.hold.work
        try:
            judged = self._judged(permit, work) if work is not None else self._asked(session_id, permit, driver, parked)
            verdict = await judged
        except Exception:
            log.exception("what is held in session %s could not be settled, so it was refused", session_id)
            verdict = _FAILED
        driver.resume(parked.ticket, verdict)

    async def _judged(self, permit: Permit, work: Callable[[], Verdict]) -> Verdict:
        try:
            async with asyncio.timeout(PARSE_WITHIN):
                return await self._threads.run(permit.principal.id, work)
        except Busy:
            log.warning("a statement was refused, since too many wait to be judged already")
            return _BUSY
        except TimeoutError:
            log.error("a statement could not be parsed within %g seconds, so it was refused", PARSE_WITHIN)
            return _TOO_LONG
        except Exception:
            log.exception("a statement could not be judged, so it was refused")
            return _FAILED

    async def _asked(self, session_id: UUID, permit: Permit, driver: Driver, parked: Parked) -> Verdict:
        """What people say, until the deadline; whoever goes or gives it up withdraws the question."""
        hold, text = parked.hold, _text(parked)
        if len(text) > MAX_STATEMENT:
            return Refuse(
                hold.rule,
                f"{hold.question}; it is longer than the {MAX_STATEMENT:,} characters that who decides would be shown",
                "Send it in smaller parts.",
            )
        try:
            question = await self._questions.ask(permit, session_id, hold.rule, hold.question, text)
        except TooMany as error:
            return Refuse(hold.rule, f"{hold.question}; nobody was asked: {error.message}", "Try again later.")
        except PosternError as error:
            log.error("a statement of session %s could not be put to anybody: %s", session_id, error.message)
            return Refuse(hold.rule, f"{hold.question}; nobody could be asked, so it was refused", "Try again later.")
        try:
            driver.ask(_notice(question))
            found = await self._waited(question, driver, parked)
        except BaseException:  # it was given up, or its link has ended
            await asyncio.shield(self._close(question, Decision.WITHDRAWN))
            raise
        # Who decided while the deadline came is who counts: the row says so, and what happens must be what it says.
        found = found or await self._close(question, Decision.EXPIRED)
        if found is None or found.decision is None:
            return Refuse(hold.rule, f"{hold.question}; nobody decided in time, so it was refused", "Ask again.")
        if found.decision is Decision.APPROVED and driver.link.parked is parked:
            driver.ask(_approval(found))  # a note in the recording, too: who let it run
        return _verdict(found)

    async def _close(self, question: Question, decision: Decision) -> Question | None:
        """What it is now where it was decided before that."""
        try:
            return await self._questions.close(question.id, decision)
        except PosternError as error:
            log.warning("question %s could not be closed and is found later: %s", question.id, error.message)
            return None

    async def _waited(self, question: Question, driver: Driver, parked: Parked) -> Question | None:
        """Once it is decided; None behind the deadline. Raises CancelledError when it is given up."""
        event = self._decided[str(question.id)] = asyncio.Event()
        driver.on_settled = settled = event.set
        try:
            while (left := (question.until - utc_now()).total_seconds()) > 0:
                if driver.link.parked is not parked:
                    raise asyncio.CancelledError  # it was given up
                found = await self._look(question)
                if found is not None and found.decision is not None:
                    return found
                try:
                    await asyncio.wait_for(event.wait(), min(left, _LOOK_EVERY))
                except TimeoutError:
                    continue
                event.clear()
            return None
        finally:
            if driver.on_settled == settled:  # else it is that of what is held by now
                driver.on_settled = None
            del self._decided[str(question.id)]

    async def _look(self, question: Question) -> Question | None:
        try:
            return await self._questions.look(question.id)
        except PosternError as error:
            log.warning("question %s could not be looked at and waits on: %s", question.id, error.message)
            return None

    def _on_decided(self, payload: Mapping[str, str]) -> None:
        event = self._decided.get(payload.get("question_id", ""))
        if event is not None:
            event.set()

    def _on_resumed(self, payload: Mapping[str, str]) -> None:
        for event in self._decided.values():
            event.set()


def utc_now() -> datetime:
    return datetime.now(UTC)


def _text(parked: Parked) -> str:
    """All that the decision lets through, with its values: who approves must see what runs."""
    shown = []
    for operation in parked.request.operations:
        values = [
            f"-- ${number} = {'NULL' if value is None else repr(value.decode('utf-8', 'replace'))}"
            for number, value in enumerate(operation.values, 1)
        ]
        text = "\n".join([operation.text, *values])
        if text not in shown:
            shown.append(text)
    return "\n".join(shown)


def _notice(question: Question) -> Warn:
    who = "an administrator" + (f" or {', '.join(question.reviewers)}" if question.reviewers else "")
    return Warn(
        rule=question.rule,
        message=f"{question.reason}; it waits until {who} has decided",
        hint=f"Session {question.session_id}, question {question.id}, until {question.until:%Y-%m-%d %H:%M:%S} UTC: "
        f"postern sessions decide {question.id} --approve",
    )


def _verdict(decided: Question) -> Verdict:
    if decided.decision is Decision.APPROVED:
        return FORWARD
    if decided.decision is not Decision.REJECTED:  # by upkeep: this worker was taken for dead, or its clock is behind
        return Refuse(decided.rule, f"{decided.reason}; nobody decided in time, so it was refused", "Ask again.")
    return Refuse(decided.rule, f"{decided.reason}; {decided.decided_by} rejected it{_said(decided)}", _ASK_THEM)


def _approval(decided: Question) -> Warn:
    return Warn(decided.rule, f"{decided.reason}; {decided.decided_by} approved it{_said(decided)}")


def _said(decided: Question) -> str:
    return f": {decided.comment}" if decided.comment else ""
