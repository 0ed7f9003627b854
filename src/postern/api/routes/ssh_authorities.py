"""Who signs the SSH certificates of an organisation's users."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from postern.api.audited import AuditedRoute
from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.ssh import SshAuthorityAnswer, SshAuthorityRequest

router = APIRouter(prefix="/sshauthorities", tags=["User Management"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors(403))
async def list_ssh_authorities(caller: Caller, services: Use, page: Paging) -> ListAnswer[SshAuthorityAnswer]:
    """By name, for administrators and auditors."""
    found = await services.ssh_authorities.known(caller, page)
    return listed([SshAuthorityAnswer.of(one) for one in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def add_ssh_authority(body: SshAuthorityRequest, caller: Caller, services: Use) -> SshAuthorityAnswer:
    """From now on whoever has a certificate that it signed is the user whose e-mail address or subject that names. An
    authority vouches for one organisation only. By people only."""
    return SshAuthorityAnswer.of(await services.ssh_authorities.add(caller, body.name, body.public_key))


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404))
async def remove_ssh_authority(key: Key, caller: Caller, services: Use) -> None:
    """What runs by its certificates ends at once."""
    await services.ssh_authorities.remove(caller, key)
