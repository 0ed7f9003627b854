"""Guardrails (spec 2.5, 4.6)."""

from __future__ import annotations

from fastapi import APIRouter, Request

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Forced, Key, ResourceRoutes, Version
from postern.api.depends import services_of
from postern.api.rule_filter_query import filter_of
from postern.api.schemas.rules.guardrail_schemas import GuardrailAnswer, GuardrailRequest
from postern.domain.identity.principal import Principal
from postern.domain.rules.guardrail import Guardrail

router = APIRouter(tags=["Guard Rails"], route_class=AuditedRoute)


async def _show(resource: Guardrail, request: Request, _: Principal) -> GuardrailAnswer:
    answer = GuardrailAnswer.of(resource)
    answer.notices = await services_of(request).guardrails.advice(resource)
    return answer


async def _remove(key: Key, caller: Caller, services: Use, version: Version, force: Forced = False) -> None:
    await services.guardrails.remove(caller, key, version, unused=not force)


ResourceRoutes(
    path="/guardrails",
    names=("guardrail", "guardrails"),
    service=lambda services: services.guardrails,
    request=GuardrailRequest,
    answer=GuardrailAnswer,
    texts={
        "update": "Running sessions use it from their next statement on.",
        "delete": "409 if it applies to connections, unless `force` is true.",
    },
    show=_show,
    filters=filter_of,
    own={"delete": _remove},
).add_to(router)
