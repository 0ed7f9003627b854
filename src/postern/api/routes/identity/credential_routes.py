"""Connection credentials: logins of unmodified native clients."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, CallerInFull, Use
from postern.api.info import Info
from postern.api.paging import LongListAnswer, LongPaging, make_long_list_answer
from postern.api.responses import errors
from postern.api.schemas.identity.program_schemas import issued_answer
from postern.api.schemas.targets.connection_schemas import CredentialAnswer, CredentialRequest, IssuedCredentialAnswer
from postern.domain.identity.credential import CredentialStatus

router = APIRouter(prefix="/connections/{nameOrID}/credentials", tags=["Connections"], route_class=AuditedRoute)
own_router = APIRouter(prefix="/credentials", tags=["Connections"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.post("", status_code=201, responses=errors(403, 404, 413))
async def issue_credential(
    key: Key, caller: CallerInFull, services: Use, info: Info, body: CredentialRequest | None = None
) -> IssuedCredentialAnswer:
    """Issue a credential to the caller. The password is shown only once; the store contains a verifier. A program that
    logged in by a federation rule gets one that ends with its login."""
    seconds = body.access_duration_seconds if body else None
    issued = await services.credentials.issue(caller.principal, key, seconds, until=caller.access_until)
    return issued_answer(issued, info)


@router.get("", responses=errors(404))
async def list_credentials(
    key: Key, caller: Caller, services: Use, page: LongPaging
) -> LongListAnswer[CredentialAnswer]:
    """Return the caller's own credentials, newest first; those of all users for administrators and auditors."""
    connection, stretch = await services.credentials.find(caller, key, page)
    now = services.now()
    return make_long_list_answer([CredentialAnswer.of(item, connection.name, now) for item in stretch.items], stretch)


@own_router.get("", responses=errors())
async def list_own_credentials(
    caller: Caller,
    services: Use,
    page: LongPaging,
    status: Annotated[
        Literal[CredentialStatus.ACTIVE] | None, Query(description="active: neither revoked nor expired")
    ] = None,
) -> LongListAnswer[CredentialAnswer]:
    """List the caller's own credentials of all connections, newest first."""
    stretch = await services.credentials.own(caller, page, valid=status is not None)
    now = services.now()
    return make_long_list_answer([CredentialAnswer.of(item, name, now) for item, name in stretch.items], stretch)


@own_router.post("/{credential_id}/revoke", status_code=204, responses=errors(404))
async def revoke_own_credential(credential_id: str, caller: Caller, services: Use) -> None:
    """Revoke a credential of the caller and end its running sessions. Can be repeated."""
    await services.credentials.revoke_own(caller, credential_id)


@router.post("/{credential_id}/revoke", status_code=204, responses=errors(404))
async def revoke_credential(key: Key, credential_id: str, caller: Caller, services: Use) -> None:
    """Revoke a credential and end its running sessions."""
    await services.credentials.revoke(caller, key, credential_id)


@router.delete("/{credential_id}", status_code=204, responses=errors(404))
async def delete_credential(key: Key, credential_id: str, caller: Caller, services: Use) -> None:
    """Revoke a credential: its row stays on record."""
    await services.credentials.revoke(caller, key, credential_id)
