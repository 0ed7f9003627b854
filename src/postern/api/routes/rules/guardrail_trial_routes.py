"""Guardrails tried out before they are saved, and presets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.rules.guardrail_trial_schemas import (
    PresetAnswer,
    SimulationAnswer,
    SimulationRequest,
    TrialAnswer,
    TrialRequest,
)
from postern.domain.identity.principal import Principal
from postern.domain.rules.trial import Simulation
from postern.errors import Denied
from postern.services.bundle import Services

router = APIRouter(prefix="/guardrails", tags=["Guard Rails"], route_class=AuditedRoute)
# They only read, so they leave no entry in the audit log: an editor tries a rule after each change.
trials = APIRouter(prefix="/guardrails", tags=["Guard Rails"], route_class=Route)

_LINES = {
    "description": "A line for each step: progress, and finally the result",
    "content": {"application/x-ndjson": {"schema": SimulationAnswer.model_json_schema()}},
}


@router.get("/presets", responses=errors(403))
async def list_presets(caller: Caller, services: Use) -> list[PresetAnswer]:
    """List presets: rules for common needs, to be saved or changed."""
    if not caller.sees_all:
        raise Denied("only administrators and auditors can read guardrails")
    return [PresetAnswer.of(preset) for preset in services.guardrail_trials.presets()]


@trials.post("/test", responses=errors(403, 404, 413))
async def test_guardrail(body: TrialRequest, caller: Caller, services: Use) -> TrialAnswer:
    """Try a guardrail on a text: the matching rules, what the parser finds, and the message to the author. Nothing is
    executed."""
    service = services.guardrail_trials
    rail = await service.rail(caller, body.guardrail_id, body.guardrail.fields() if body.guardrail else None)
    is_output = body.direction == "output"
    return TrialAnswer.of(await service.test(caller, rail, body.text, dialect=body.dialect, is_output=is_output))


@trials.post("/simulate", response_class=StreamingResponse, responses={**errors(403, 413, 429), 200: _LINES})
async def simulate_draft(body: SimulationRequest, caller: Caller, services: Use) -> StreamingResponse:
    """Simulate a draft on recorded sessions: what it would have denied, held or warned about. It ends with the
    request's connection."""
    return await _stream_simulation(None, body, caller, services)


@trials.post(
    "/{nameOrID}/simulate", response_class=StreamingResponse, responses={**errors(403, 404, 413, 429), 200: _LINES}
)
async def simulate_guardrail(key: Key, body: SimulationRequest, caller: Caller, services: Use) -> StreamingResponse:
    """Simulate a saved guardrail, or other rules instead of its own."""
    return await _stream_simulation(key, body, caller, services)


async def _stream_simulation(
    name_or_id: str | None, body: SimulationRequest, caller: Principal, services: Services
) -> StreamingResponse:
    service = services.guardrail_trials
    rail = await service.rail(caller, name_or_id, body.draft())
    steps = service.simulate(caller, rail, body.period())
    first = await anext(steps)  # errors must be raised before the answer begins
    return StreamingResponse(_lines(first, steps), media_type="application/x-ndjson")


async def _lines(first: Simulation, steps: AsyncGenerator[Simulation]) -> AsyncIterator[str]:
    yield _line(first)
    async with aclosing(steps):
        async for step in steps:
            yield _line(step)


def _line(step: Simulation) -> str:
    return SimulationAnswer.of(step).model_dump_json(exclude_none=True) + "\n"
