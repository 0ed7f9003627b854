"""Runs of scripts on a connection: sessions of verb exec (spec 2.2)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal
from uuid import uuid4

from fastapi import APIRouter, Depends, Header, Request, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, CallerInFull, Use
from postern.api.info import Info
from postern.api.responses import errors
from postern.api.routes.sessions.session_routes import reviews_of
from postern.api.schemas.reviews.review_schemas import ReviewAnswer
from postern.api.schemas.sessions.session_schemas import ExecAnswer, ExecError, ExecRequest, MaskedColumnsAnswer
from postern.api.sessions import streams
from postern.api.sessions.result_answers import Format, ResultWriter
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.sessions.results import Problem, Result
from postern.domain.sessions.script_parameters import SCRIPT_PARAMETERS_LABEL, check_parameters
from postern.domain.sessions.session import Session, SessionStatus
from postern.domain.targets.command import Invocation, check_arguments, decoded_variables
from postern.domain.targets.connection import OF_VALUES
from postern.errors import NotFound
from postern.services.bundle import Services
from postern.services.completion_signals import CompletionSignals, poll_times

router = APIRouter(tags=["Sessions"], route_class=AuditedRoute)

OUTPUT_LIMIT = 1024 * 1024  # bytes of each text in the answer; the recording has all of it
_MAX_RUNS = 10_000  # parts of `output` whose streams the answer lists
_LOOK_AGAIN = 2.0  # seconds, in case a signal is lost
RUNNING = {
    "model": ExecAnswer,
    "description": "The script runs, or waits for its review; GET /sessions/{session_id}/exec returns its result",
}
StreamLengths = list[tuple[Literal["stdout", "stderr", "gateway"], int]]
_WAITS = (ReviewStatus.PENDING, ReviewStatus.APPROVED)
_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?", re.IGNORECASE)


async def _patience(
    request: Request,
    prefer: Annotated[
        str | None, Header(description="`wait=SECONDS` (RFC 7240): maximum time to wait for the end of the script")
    ] = None,
) -> float:
    """Return the seconds to wait for the end."""
    longest: float = request.app.state.exec_wait
    match = _WAIT.search(prefer or "")
    return longest if match is None else min(longest, float(match[1]))


Patience = Annotated[float, Depends(_patience)]


@router.post("/sessions", responses={**errors(403, 404, 413), 202: RUNNING})
async def run_script(
    body: ExecRequest,
    request: Request,
    response: Response,
    caller: CallerInFull,
    services: Use,
    info: Info,
    address: Address,
    patience: Patience,
) -> ExecAnswer:
    """Run a script, and wait up to 50 s for its end. 403 if the connection cannot be used, 200 if the script ran, with
    success or failure. 202 at once if it needs a review: `review` names the approvers. Once approved, `POST
    /sessions/{session_id}/exec` runs it.

    If scripts open an issue, 422 lists the fields of its template that `tracker_fields` lack, and 503 says why it could
    not be created: then nothing runs.
    """
    done: CompletionSignals = request.app.state.done
    session_id = uuid4()
    async with done.subscribe(session_id) as event:
        session = await services.sessions.submit(
            caller.principal,
            body.connection,
            body.script,
            source=address,
            metadata=caller.session_metadata(body.metadata or {}),
            labels=body.labels,
            correlation_id=body.correlation_id,
            session_id=session_id,
            invocation=Invocation(
                check_arguments(body.client_args or []),
                decoded_variables(body.env_vars or {}),
                check_parameters(body.parameters or {}),
            ),
            reason=body.reason,
            means=caller.means,
            tracker_fields=body.tracker_fields or {},
        )
        if session.status is SessionStatus.READY:
            session = await wait_for_end(services, caller.principal, session, event, patience)
    return await make_answer(services, caller.principal, session, body.format, response, info.api_url)


@router.post("/sessions/{session_id}/exec", responses={**errors(403, 404, 409), 202: RUNNING})
async def run_reviewed_script(
    session_id: str,
    request: Request,
    response: Response,
    caller: Caller,
    services: Use,
    info: Info,
    patience: Patience,
    format: Format = Format.TEXT,  # noqa: A002 - the API's name
) -> ExecAnswer:
    """Run a script whose review is approved: as it was reviewed, once, by its requester. The answer is that of `POST
    /sessions`."""
    done: CompletionSignals = request.app.state.done
    session = await services.sessions.script(caller, session_id)
    async with done.subscribe(session.id) as event:
        session = await services.sessions.execute(caller, session_id)
        session = await wait_for_end(services, caller, session, event, patience)
    return await make_answer(services, caller, session, format, response, info.api_url)


@router.get("/sessions/{session_id}/exec", responses={**errors(403, 404), 202: RUNNING})
async def script_end(
    session_id: str,
    request: Request,
    response: Response,
    caller: Caller,
    services: Use,
    info: Info,
    patience: Patience,
    format: Format = Format.TEXT,  # noqa: A002 - the API's name
) -> ExecAnswer:
    """Return the answer of `POST /sessions` for a script that waits, runs or has ended. Waits up to 50 s
    for the end."""
    done: CompletionSignals = request.app.state.done
    session = await services.sessions.script(caller, session_id)
    async with done.subscribe(session.id) as event:
        session = await services.sessions.script(caller, session_id)  # it may have ended before the caller listened
        if session.status is not SessionStatus.DONE:
            session = await wait_for_end(services, caller, session, event, patience)
    return await make_answer(services, caller, session, format, response, info.api_url)


async def make_answer(
    services: Services, caller: Principal, session: Session, form: Format, response: Response, api_url: str
) -> ExecAnswer:
    """Return the answer about a script in any state."""
    review = (await reviews_of(services, caller, [session], api_url)).get(session.id)
    if session.status is SessionStatus.DONE:
        return await asyncio.to_thread(_answer, services, session, form, review)
    response.status_code = 202
    waits = review is not None and review.status in _WAITS
    return ExecAnswer(
        session_id=session.id,
        output="",
        output_status="waiting" if waits else "running",
        exit_code=None,
        error=None,
        truncated=False,
        execution_time=0 if waits else _milliseconds(session.start_date, services.now()),
        has_review=waits,
        review=review,
    )


async def wait_for_end(
    services: Services, caller: Principal, session: Session, event: asyncio.Event, wait: float
) -> Session:
    """Return the session when it has ended, or after that many seconds."""
    async for _ in poll_times(event, wait, _LOOK_AGAIN):
        session = await services.sessions.get(caller, session.id)
        if session.status is SessionStatus.DONE:
            break
    return session


def _answer(services: Services, session: Session, form: Format, review: ReviewAnswer | None) -> ExecAnswer:
    writer = ResultWriter(_results(services, session), OUTPUT_LIMIT)
    is_command = session.connection_subtype not in OF_VALUES
    output_streams: StreamLengths | None = None
    came = streams.output(_events(services, session), OUTPUT_LIMIT) if is_command or form is Format.TEXT else None
    if form is Format.TEXT and came is not None:
        text, output_streams = _text_of(came, str(session.metadata.get("end_detail", "")))
        truncated = came.both.truncated
    else:
        text = "".join(writer.json() if form is Format.JSON else writer.csv())
        truncated = writer.truncated
    if session.exit_code != 0:
        writer.finish()
    elif form is Format.TEXT and not is_command and _has_masked_values(session):
        writer.read(OUTPUT_LIMIT)
    return ExecAnswer(
        session_id=session.id,
        output=text,
        stdout=str(came.stdout) if is_command and came is not None else None,
        stderr=str(came.stderr) if is_command and came is not None else None,
        output_streams=output_streams,
        output_status="success" if session.exit_code == 0 else "failed",
        exit_code=session.exit_code,
        error=_error_of(_problem_of(writer, session), session),
        truncated=truncated or bool(session.metrics.get("truncated")),
        masked=None if is_command else [MaskedColumnsAnswer(**entry) for entry in writer.masked.render()],
        execution_time=_milliseconds(session.start_date, session.end_date or session.start_date),
        has_review=False,
        review=review,
    )


def _problem_of(writer: ResultWriter, session: Session) -> Problem | None:
    """Return the error, or what the gateway says about a script that failed without one: its target could not be used,
    or it was killed before its target was reached."""
    reason = writer.note or str(session.metadata.get("end_detail", ""))
    if writer.error is not None or session.exit_code == 0 or not reason:
        return writer.error
    return Problem("ERROR", reason)


def _error_of(problem: Problem | None, session: Session) -> ExecError | None:
    if problem is None:
        return None
    script = session.script or ""
    if SCRIPT_PARAMETERS_LABEL in session.labels and ";" in script.strip().rstrip(";"):
        # Statements with parameters are sent one by one, and their errors have positions of their own.
        problem = replace(problem, position=None)
    return ExecError.of(problem, script)


def _has_masked_values(session: Session) -> bool:
    """Return whether it is worth looking for masks in the recording."""
    masking = session.metrics.get("data_masking") or {}
    return bool(masking.get("info_types") or masking.get("transformed_bytes"))


def _text_of(output: streams.ScriptOutput, end_detail: str) -> tuple[str, StreamLengths | None]:
    """Return the text of `output`, or else `end_detail`, and the stream of each of its parts."""
    if output.both.truncated:
        return str(output.both), None
    if not output.is_recorded:
        return end_detail, [("gateway", len(end_detail))] if end_detail else []
    parts = [(name, content.decode(errors="replace")) for name, content in output.runs]
    lengths: StreamLengths = [(name, len(part)) for name, part in parts]
    return "".join(part for _, part in parts) or end_detail, lengths if len(lengths) <= _MAX_RUNS else None


def _events(services: Services, session: Session) -> streams.Events:
    """Return nothing for a script that never started: it has no recording."""
    try:
        yield from services.sessions.events(session)
    except NotFound:
        return


def _results(services: Services, session: Session) -> Iterator[Result]:
    """Return nothing for a script that never started, and for a command, whose output is text."""
    try:
        yield from services.sessions.results(session)
    except NotFound:
        return


def _milliseconds(start: datetime, end: datetime) -> int:
    return int((end - start).total_seconds() * 1000)
