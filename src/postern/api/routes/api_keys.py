"""API keys: long-lived secrets of programs, shown once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.programs import (
    ApiKeyAnswer,
    ApiKeyChange,
    ApiKeyRequest,
    IssuedApiKeyAnswer,
    KeyCredentialAnswer,
)
from postern.domain.lists import Listed

router = APIRouter(prefix="/api-keys", tags=["User Management"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors(403))
async def list_api_keys(caller: Caller, services: Use, page: Paging) -> ListAnswer[ApiKeyAnswer]:
    """By name, revoked ones too, for administrators and auditors."""
    found, now = await services.api_keys.find(caller, page), services.now()
    return listed([ApiKeyAnswer.of(view, now) for view in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_api_key(body: ApiKeyRequest, caller: Caller, services: Use) -> IssuedApiKeyAnswer:
    """The key is shown this once; the store keeps its SHA-256. Only people who are logged in may make keys."""
    issued = await services.api_keys.create(caller, body.fields())
    shown = ApiKeyAnswer.of(issued.view, services.now())
    return IssuedApiKeyAnswer(**shown.model_dump(), key=issued.secret.reveal())


@router.get("/{nameOrID}", responses=errors(403, 404))
async def get_api_key(key: Key, caller: Caller, services: Use) -> ApiKeyAnswer:
    return ApiKeyAnswer.of(await services.api_keys.get(caller, key), services.now())


@router.put("/{nameOrID}", responses=errors(403, 404, 409, 413))
async def update_api_key(key: Key, body: ApiKeyChange, caller: Caller, services: Use) -> ApiKeyAnswer:
    return ApiKeyAnswer.of(await services.api_keys.update(caller, key, body.fields()), services.now())


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def revoke_api_key(
    key: Key,
    caller: Caller,
    services: Use,
    revoke_credentials: Annotated[
        bool, Query(description="Also revoke the credentials that the key issued to machine identities")
    ] = False,
) -> None:
    """It is refused at once; the row stays for the record. 404 when it was revoked already."""
    await services.api_keys.revoke(caller, key, credentials=revoke_credentials)


@router.get("/{nameOrID}/credentials", responses=errors(403, 404))
async def list_api_key_credentials(
    key: Key, caller: Caller, services: Use, page: Paging
) -> ListAnswer[KeyCredentialAnswer]:
    """Live credentials that the key issued to machine identities, also of a revoked key: they outlive it."""
    issued = await services.api_keys.issued(caller, key)
    found = Listed(issued[page.offset : page.offset + page.limit], len(issued))
    return listed([KeyCredentialAnswer.of(one) for one in found.items], found, page)


@router.post("/{nameOrID}/reactivate", responses=errors(403, 404))
async def reactivate_api_key(key: Key, caller: Caller, services: Use) -> ApiKeyAnswer:
    """422 when it is not revoked."""
    return ApiKeyAnswer.of(await services.api_keys.reactivate(caller, key), services.now())
