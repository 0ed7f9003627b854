"""API keys: long-lived secrets of programs, shown only once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes, Version, etag_of
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.schemas.identity.program_schemas import (
    ApiKeyAnswer,
    ApiKeyRequest,
    IssuedApiKeyAnswer,
    KeyCredentialAnswer,
)
from postern.domain.lists import Listed

router = APIRouter(tags=["User Management"], route_class=AuditedRoute)


async def revoke_api_key(
    key: Key,
    caller: Caller,
    services: Use,
    version: Version,
    revoke_credentials: Annotated[
        bool, Query(description="Also revoke the credentials that the key issued to machine identities")
    ] = False,
) -> None:
    await services.api_keys.remove(caller, key, version, credentials=revoke_credentials)


ResourceRoutes(
    path="/api-keys",
    names=("api_key", "api_keys"),
    service=lambda services: services.api_keys,
    request=ApiKeyRequest,
    answer=ApiKeyAnswer,
    written={"create": IssuedApiKeyAnswer},
    answer_of=lambda key, services, _: ApiKeyAnswer.from_key(key, services.now()),
    texts={
        "create": "The key is shown only once; the store contains its SHA-256. Only logged-in users can create keys.",
        "update": "Expiry and networks that are left out keep their values.",
        "delete": "The key is denied at once; its row stays on record. 404 if it was revoked already.",
    },
    own={"delete": revoke_api_key},
).add_to(router)


@router.get("/api-keys/{nameOrID}/credentials", responses=errors(403, 404))
async def list_api_key_credentials(
    key: Key, caller: Caller, services: Use, page: Paging
) -> ListAnswer[KeyCredentialAnswer]:
    """Return the valid credentials that the key issued to machine identities, which outlive the key; also for a revoked
    key."""
    issued = await services.api_keys.find_issued(caller, key)
    listed = Listed(issued[page.offset : page.offset + page.limit], len(issued))
    return make_list_answer([KeyCredentialAnswer.of(item) for item in listed.items], listed, page)


@router.post("/api-keys/{nameOrID}/reactivate", responses=errors(403, 404, 409, 412))
async def reactivate_api_key(
    key: Key, caller: Caller, services: Use, version: Version, response: Response
) -> ApiKeyAnswer:
    """Accept a revoked key again. 422 if it is not revoked."""
    api_key = await services.api_keys.reactivate(caller, key, version)
    response.headers["ETag"] = etag_of(api_key.version)
    return ApiKeyAnswer.from_key(api_key, services.now())
