"""Runs of runbooks on a connection: sessions of verb exec with the rendered script."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from fastapi import APIRouter, Request, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Address, Caller, CallerInFull, Use
from postern.api.info import Info
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.routes.sessions.script_routes import RUNNING, Patience, make_answer, wait_for_end
from postern.api.schemas.runbooks.runbook_run_schemas import (
    RunbookExecRequest,
    RunbookRenderAnswer,
    RunbookRenderRequest,
)
from postern.api.schemas.sessions.session_schemas import ExecAnswer
from postern.domain.sessions.session import SessionStatus
from postern.services.completion_signals import CompletionSignals

router = APIRouter(tags=["Runbooks"], route_class=AuditedRoute)
# It only reads, so it leaves no entry in the audit log: a form renders a runbook after each change.
dry_runs = APIRouter(tags=["Runbooks"], route_class=Route)


@router.post("/runbooks/exec", responses={**errors(400, 403, 404, 409, 413, 503), 202: RUNNING})
async def run_runbook(
    body: RunbookExecRequest,
    request: Request,
    response: Response,
    caller: CallerInFull,
    services: Use,
    info: Info,
    address: Address,
    patience: Patience,
) -> ExecAnswer:
    """Render a runbook and run it. The answer is that of `POST /sessions`, also if it needs a review, which is for the
    rendered text. 403 if a rule or an access mode denies it, 404 without connection, configuration or file, 400 if the
    template or the parameters are invalid, 409 if `ref_hash` is not the newest commit, and as `POST /sessions` if it
    opens an issue."""
    run_request = replace(
        body.request(),
        metadata=caller.session_metadata(body.metadata or {}),
        tracker_fields=body.tracker_fields,
        batch_id=body.session_batch_id,
        correlation_id=body.correlation_id,
        reason=body.reason,
    )
    done: CompletionSignals = request.app.state.done
    session_id = uuid4()
    async with done.subscribe(session_id) as event:
        session = await services.runbook_runs.submit(
            caller.principal, run_request, source=address, means=caller.means, session_id=session_id
        )
        if session.status is SessionStatus.READY:
            session = await wait_for_end(services, caller.principal, session, event, patience)
    return await make_answer(services, caller.principal, session, body.format, response, info.api_url)


@dry_runs.post("/runbooks/render", responses=errors(400, 403, 404, 409, 413, 503))
async def render_runbook(body: RunbookRenderRequest, caller: Caller, services: Use) -> RunbookRenderAnswer:
    """Return what `POST /runbooks/exec` would run, for users who can run it; nothing runs."""
    return RunbookRenderAnswer.of(await services.runbook_runs.fill(caller, body.request()))
