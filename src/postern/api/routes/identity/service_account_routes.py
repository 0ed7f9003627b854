"""Service accounts: programs that act by themselves."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.identity.program_schemas import (
    ServiceAccountAnswer,
    ServiceAccountChange,
    ServiceAccountRequest,
)

router = APIRouter(prefix="/serviceaccounts", tags=["User Management"], route_class=AuditedRoute)


@router.get("", responses=errors(403))
async def list_service_accounts(caller: Caller, services: Use, page: Paging) -> ListAnswer[ServiceAccountAnswer]:
    """By subject, for administrators and auditors."""
    found = await services.service_accounts.find(caller, page)
    return listed([ServiceAccountAnswer.of(account) for account in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_service_account(body: ServiceAccountRequest, caller: Caller, services: Use) -> ServiceAccountAnswer:
    """It asks by API keys: POST /api-keys with its subject as `service_account`."""
    return ServiceAccountAnswer.of(await services.service_accounts.create(caller, body.subject, body.fields()))


@router.get("/{subject}", responses=errors(403, 404))
async def get_service_account(subject: str, caller: Caller, services: Use) -> ServiceAccountAnswer:
    return ServiceAccountAnswer.of(await services.service_accounts.get(caller, subject))


@router.put("/{subject}", responses=errors(403, 404, 413))
async def update_service_account(
    subject: str, body: ServiceAccountChange, caller: Caller, services: Use
) -> ServiceAccountAnswer:
    """An inactive one is refused everywhere at once, and its live sessions end."""
    return ServiceAccountAnswer.of(await services.service_accounts.update(caller, subject, body.fields()))


@router.delete("/{subject}", status_code=204, responses=errors(403, 404))
async def delete_service_account(subject: str, caller: Caller, services: Use) -> None:
    """With its API keys; its live sessions end."""
    await services.service_accounts.remove(caller, subject)
